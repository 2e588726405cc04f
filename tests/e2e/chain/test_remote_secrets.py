"""Secrets of remote servers: all that a run writes, prints, shows and stores is searched for them.

The server `orders` has all kinds of headers, the program `notes` has a variable, and the user signs in to
`accounts`. All of them quote what they receive. The judges are the logs of the servers: they received it.
"""

from __future__ import annotations

import json
import re
import secrets
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import mcp
import mcp_types
import msgspec
import pytest
import trio
from click.testing import CliRunner

from authorization_server import QUOTE, SignInServers, sign_in_servers
from bridge.cli.group import main
from bridge.links.oauth.login_file import LoginFile, RemoteLogin
from bridge.links.remote_problem import Cause
from bridge.state.remote_records import read_records
from demo.chromium import Chromium, Page
from full_chain import MCPB, WEBMCP, Chain
from http_frontend import CLOSES_EARLY
from instructable_tools import TOOLS
from native_host.protocol.wire import EXTENSION_ID
from native_host.system.home_layout import HomeLayout
from native_host.system.toml_text import format_value
from offered_page import OfferedPage, open_offered_page
from remote_servers import INSTRUCTABLE_STDIO, Instructable, RecordedRequest, instructable_server
from secret_search import Evidence
from wire_peers import until

pytestmark = [pytest.mark.real_bridges, CLOSES_EARLY]

SOON_S = 60
ADDRESS = re.compile(r"^(http\S+/authorize\?\S+)\n", re.MULTILINE)
LISTED = {"remote_orders_echo", "remote_notes_echo", "remote_accounts_quote"}
"""A tool of each server."""
OFFERED = (
    "orders.echo",
    "orders.quote",
    "orders.boom",
    "accounts.find_order",
    "accounts.quote",
    "accounts.reject",
)
"""Tools that the page calls; the last one fails."""
HEADERS = ("header", "file", "printed", "query")
CANARIES = {name: f"{secrets.token_hex(12)}-{name}" for name in (*HEADERS, "variable")}
QUOTED = " ".join(CANARIES[name] for name in HEADERS)
"""What a server received from us, as it may quote it."""
REJECTED = {"code": -32603, "message": f"Rejected {QUOTED}.", "data": {"headers": QUOTED}}
ITS_NAME = {"serverInfo": {"name": f"orders {QUOTED}", "version": CANARIES["header"]}}
QUOTING: dict[str, Any] = {
    "tools": [
        *TOOLS,
        {"name": "quote", "description": f"Has {QUOTED}.", "inputSchema": {"type": "object"}},
        {"name": "bad", "inputSchema": QUOTED},
        {"name": f"bad\n{QUOTED}"},
    ],
    "errors": {"boom": REJECTED, "prompts/get": REJECTED},
    "members": {
        "quote": {"content": [{"type": "text", "text": QUOTED}]},
        "initialize": ITS_NAME,
        "server/discover": ITS_NAME,
    },
}
"""Instructions of a server that quotes its headers wherever it writes."""
NOTES = {"errors": {"boom": {"code": -32603, "message": f"Rejected {CANARIES['variable']}."}}}


def configure(chain: Chain, server: Instructable, accounts: SignInServers, outside: Path) -> Path:
    """Configure the servers, and offer the tools of those with a URL to pages; return the file."""
    token, printed, program = (outside / name for name in ("token", "printed", "print-headers"))
    token.write_text(CANARIES["file"])
    printed.write_text(json.dumps({"X-Printed": CANARIES["printed"]}))
    program.write_text(f"#!/bin/sh\ncat {printed}\n")
    for path, mode in ((token, 0o600), (program, 0o700)):
        path.chmod(mode)
    offered = {"pages": [chain.pages], "offer": "all"}
    script = 'echo "The key is $NOTES_KEY" >&2; exec "$@"'
    remotes: list[dict[str, Any]] = [
        {
            "name": "orders",
            "url": f"{server.url}?key={CANARIES['query']}",
            "headers": {"X-Key": CANARIES["header"]},
            "bearer_file": str(token),
            "header_command": [str(program)],
            "prefix": "orders.",
            **offered,
        },
        {
            "name": "notes",
            "command": "/bin/sh",
            "args": ["-c", script, "sh", *INSTRUCTABLE_STDIO],
            "env": {"NOTES_KEY": CANARIES["variable"], "INSTRUCTIONS": json.dumps(NOTES)},
        },
        {"name": "accounts", "url": accounts.url, "prefix": "accounts.", **offered},
    ]
    config = chain.home / "config.toml"
    config.write_text("\n".join(line for remote in remotes for line in to_toml(remote)))
    config.chmod(0o600)
    return config


def to_toml(remote: dict[str, Any]) -> Iterator[str]:
    yield "[[remote]]"
    for key, value in remote.items():
        if isinstance(value, dict):
            yield from (f"{key}.{name} = {format_value(each)}" for name, each in value.items())
        else:
            yield f"{key} = {format_value(value)}"


# ── What a run does ─────────────────────────────────────────────────────────────────────────────────────────


async def log_in(evidence: Evidence, chain: Chain, chromium: Chromium, when: str) -> int:
    """Sign in to `accounts` in the browser; add what the command prints, and return its exit status."""
    command = [*MCPB, "remote", "login", "accounts", "--no-open"]
    process = await trio.lowlevel.open_process(
        command, env=chain.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert process.stdout
    printed = ""
    while not (address := ADDRESS.search(printed)):
        chunk = await process.stdout.receive_some()
        assert chunk, printed
        printed += chunk.decode()
    evidence.add_command_lines(f"sign-in {when}")
    await evidence.add_pages([await chromium.open_page(address[1])], f"sign-in {when}")
    async for chunk in process.stdout:
        printed += chunk.decode()
    # The address has the state: it is for the user's browser.
    evidence.add(f"sign-in {when}", printed.replace(address[1], ""))
    return await process.wait()


async def use_client(evidence: Evidence, client: mcp.Client, era: str) -> None:
    """Add all that a client receives, but not the texts that the server itself wrote."""
    listed: list[mcp_types.Tool] = []
    while not {tool.name for tool in listed} >= LISTED:
        listed = (await client.list_tools(cache_mode="refresh")).tools
    described = {tool.name: tool.model_dump_json() for tool in listed}
    # Descriptions and results are the server's own words, which mcpb does not change.
    assert QUOTED in described.pop("remote_orders_quote")
    assert QUOTED in (await client.call_tool("remote_orders_quote", {})).model_dump_json()
    assert "Bearer canary-access" in (await client.call_tool("remote_accounts_quote", {})).model_dump_json()
    evidence.add(f"{era}: tools", described)
    evidence.add(f"{era}: resources", (await client.list_resources()).model_dump_json())
    evidence.add(f"{era}: templates", (await client.list_resource_templates()).model_dump_json())
    evidence.add(f"{era}: prompts", (await client.list_prompts()).model_dump_json())
    evidence.add(
        f"{era}: read", (await client.read_resource("mcpb://remote/orders/memo://one")).model_dump_json()
    )
    for name in ("orders_echo", "orders_boom", "orders_fail", "notes_echo", "notes_boom", "accounts_reject"):
        result = await client.call_tool(f"remote_{name}", {})
        evidence.add(f"{era}: {name}", result.model_dump_json())
    with pytest.raises(mcp.MCPError) as rejected:
        await client.get_prompt("orders_greet", {"city": "Oslo"})
    evidence.add(f"{era}: prompt", str(rejected.value) + rejected.value.error.model_dump_json())


async def use_page(evidence: Evidence, page: OfferedPage) -> None:
    """Add all that a page gets. In it, also descriptions and results are without secrets."""
    await page.wait_tools(*OFFERED)
    learned = await page.learn(*OFFERED)
    assert "Has ••• ••• ••• •••." in json.dumps(learned["tools"], ensure_ascii=False)
    outcomes = learned["outcomes"]
    assert outcomes["accounts.find_order"] == "order 17"
    assert [outcomes[name] for name in ("orders.quote", "accounts.quote")] == ["••• ••• ••• •••", "•••"]
    evidence.add("offered tools", learned)


async def run_commands(evidence: Evidence, when: str, *tests: str) -> None:
    """Add what commands print; in this process, which takes a tenth of the time."""
    for line in ("status --json", "status --details", "remote list --json", "audit --json", *tests):
        done = await trio.to_thread.run_sync(CliRunner().invoke, main, line.split())
        evidence.add(f"mcpb {line}, {when}", f"{done.output}{done.exception!r}")
        assert done.output
    evidence.add_command_lines(when)


async def open_popup(chromium: Chromium) -> Page:
    """Open the popup behind the page that is shown, which it is about."""
    created = await chromium.send("Target.createTarget", {"url": "about:blank", "background": True})
    popup = await chromium.attach(created["targetId"])
    await popup.load(f"chrome-extension://{EXTENSION_ID}/popup/popup.html")
    return popup


async def open_status_page(chromium: Chromium) -> Page:
    done = await trio.to_thread.run_sync(CliRunner().invoke, main, ["status", "--web", "--no-open"])
    link = re.search(r"http://localhost:\d+/open\?code=\S+", done.output)
    assert link, done.output
    return await chromium.open_page(link[0])


def change_login(home: Path, **members: Any) -> RemoteLogin:
    """Change the sign-in; return it as it was."""
    file = LoginFile(home, "accounts")
    login = file.read()
    assert login
    file.write(msgspec.structs.replace(login, **members))
    return login


def old_token() -> dict[str, float]:
    """Return the times of a token that is about to expire."""
    return {"issued_at": time.time() - 3600, "expires_at": time.time() + 20}


async def refresh(evidence: Evidence, chain: Chain, client: mcp.Client, page: OfferedPage) -> None:
    """Have the token refreshed, and add what is said about the new one and all files."""
    change_login(chain.home, **old_token())
    await add_error(evidence, client, "accounts_reject", "refreshed")
    evidence.add("offered tools, refreshed", await page.learn("accounts.quote", "accounts.reject"))
    login = LoginFile(chain.home, "accounts").path
    assert login.stat().st_mode & 0o777 == 0o600
    evidence.add_files(chain.home, "signed in")


async def reject(
    evidence: Evidence, chain: Chain, client: mcp.Client, page: OfferedPage, accounts: SignInServers
) -> None:
    """Have all tokens rejected, first without a refresh token, then with one that is rejected too."""
    accounts.provider.revoke_all()
    login = change_login(chain.home, refresh_token="")
    for tool in ("accounts_find_order", "orders_echo"):
        await add_error(evidence, client, tool, "rejected")
    evidence.add("offered tools, rejected", await page.learn("orders.echo", "accounts.quote"))
    await until_shown(chain, orders=Cause.UNAUTHORIZED, accounts=Cause.UNAUTHORIZED)
    await run_commands(evidence, "rejected", "remote test orders", "remote test accounts --json")
    accounts.answers["/token"] = QUOTE
    change_login(chain.home, refresh_token=login.refresh_token, **old_token())
    await add_error(evidence, client, "accounts_find_order", "not refreshed")
    await run_commands(evidence, "not refreshed", "remote test accounts")
    accounts.answers.clear()


async def until_shown(chain: Chain, **causes: Cause) -> None:
    """Wait until commands show these problems of servers."""

    def are_shown() -> bool:
        records = [record for bridge in read_records(chain.home / "state") for record in bridge.servers]
        return causes.items() <= {record.name: record.cause for record in records}.items()

    await until(are_shown)


async def add_error(evidence: Evidence, client: mcp.Client, tool: str, when: str) -> None:
    """Call a tool, and add its error."""
    result = await client.call_tool(f"remote_{tool}", {"text": "hi", "number": 1})
    assert result.is_error
    evidence.add(f"{tool}, {when}", result.model_dump_json())


# ── What the servers have received ──────────────────────────────────────────────────────────────────────────


def check_received(requests: Sequence[RecordedRequest]) -> None:
    """Check that `orders` received its secrets with each request."""
    assert requests
    for request in requests:
        headers = request.headers
        assert headers["x-key"] == CANARIES["header"]
        assert headers["authorization"] == f"Bearer {CANARIES['file']}"
        assert headers["x-printed"] == CANARIES["printed"]
        assert request.query == f"key={CANARIES['query']}"


def check_sign_ins(accounts: SignInServers) -> None:
    """Check that access tokens went to `accounts` only, and all else to its authorization server only."""
    for kind, values in accounts.secrets().items():
        assert len(values) == 2, kind  # of two sign-ins, or of a sign-in and a refresh
        origins = accounts.issuer, accounts.resource
        receiver, other = reversed(origins) if kind == "access_token" else origins
        assert all(value in accounts.sent_to(receiver) for value in values), kind
        assert not any(value in accounts.sent_to(other) for value in values), kind


async def test_only_the_servers_receive_their_secrets(
    chain: Chain, mcpb_home: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    evidence = Evidence()
    chain.settings["MCPB_LOG"] = "wire"
    with instructable_server(**QUOTING) as orders, sign_in_servers() as accounts, trio.fail_after(2 * SOON_S):
        config = configure(chain, orders, accounts, tmp_path)
        async with chain.browser(flags=[WEBMCP]) as chromium:
            accounts.answers["/token"] = QUOTE
            assert await log_in(evidence, chain, chromium, "rejected") == 1
            accounts.answers.clear()
            assert await log_in(evidence, chain, chromium, "accepted") == 0
            async with chain.serving() as url:
                offered = await open_offered_page(chromium, f"{chain.pages}/plain.html")
                popup, status_page = await open_popup(chromium), await open_status_page(chromium)
                pages = [offered.page, popup, status_page]
                async with chain.client("legacy") as client:
                    await use_client(evidence, client, "handshake era")
                async with chain.http_client(url) as client:
                    await use_client(evidence, client, "2026-07-28")
                    await use_page(evidence, offered)
                    await popup.wait_until(
                        "document.getElementById('offers').textContent.includes('remote servers here')"
                    )
                    await run_commands(evidence, "connected", "remote test")
                    await evidence.add_pages(pages, "connected")
                    await refresh(evidence, chain, client, offered)
                    check_received(orders.log().requests)
                    orders.control(required_headers={"X-Other": "yes"})
                    await reject(evidence, chain, client, offered, accounts)
                    orders.kill()
                    await add_error(evidence, client, "orders_echo", "killed")
                    await until_shown(chain, orders=Cause.REFUSED)
                await run_commands(evidence, "killed", "remote test orders", "remote test orders --json")
                doctor = await chain.mcpb("doctor", "--json", check=False)
                await status_page.wait_until("document.body.innerText.includes('refused')")
                await evidence.add_pages(pages, "killed")
                await evidence.add_extension_storage(chromium)
                evidence.add("results and errors for the page", await offered.messages())
                logout = await chain.mcpb("remote", "logout", "accounts")
                logged = HomeLayout(mcpb_home).state.log.read_text()
    for command, done in {"doctor": doctor, "logout": logout}.items():
        evidence.add(command, f"{done.stdout!r} {done.stderr!r}")
    evidence.add("printed", "".join(capfd.readouterr()))
    evidence.add_files(mcpb_home, "signed out")
    assert b"remote-unreachable" in doctor.stdout
    assert "DEBUG bridge.wire:" in logged
    assert "The key is •••" in logged

    assert set(evidence.find(CANARIES.values())) == {f"{config}, signed in", f"{config}, signed out"}
    check_sign_ins(accounts)
    secrets_of = accounts.secrets()
    login = LoginFile(mcpb_home, "accounts").path
    for kind in ("access_token", "refresh_token", "client_secret"):
        assert evidence.find(secrets_of[kind]) == [f"{login}, signed in"], kind
    assert evidence.find(secrets_of["code_verifier"]) == []
    # The browser brings these from one server to the other, and has a history.
    found = evidence.find(secrets_of["code"] | secrets_of["state"])
    assert [where for where in found if not where.startswith(f"{mcpb_home}/profile/")] == []
