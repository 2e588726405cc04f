"""Secrets of remote servers: all that a run writes, prints, shows and stores is searched for them."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mcp
import mcp_types
import pytest
import trio
from click.testing import CliRunner

from bridge.cli.group import main
from bridge.config.toml_text import format_value
from demo.chromium import Chromium, Page
from full_chain import Chain
from http_frontend import CLOSES_EARLY
from instructable_tools import TOOLS
from native_host.system.home_layout import HomeLayout
from remote_servers import INSTRUCTABLE_STDIO, Instructable, RecordedRequest, instructable_server

pytestmark = CLOSES_EARLY

SOON_S = 60
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
SHOWN_CHARS = 8
"""Characters that are found by chance in no other text."""


def has_secret(text: str) -> bool:
    """Return whether a text has the beginning of a secret: it may have been cut."""
    return any(canary[:SHOWN_CHARS] in text for canary in CANARIES.values())


class Evidence:
    """All that a run wrote, printed and showed, by where."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def add(self, where: str, found: Any) -> None:
        """Add a text or a JSON value."""
        self.texts[where] = found if isinstance(found, str) else json.dumps(found)

    def add_command_lines(self, when: str) -> None:
        """Add the command lines of all processes."""
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                self.add(f"{path} {when}", path.read_bytes().decode(errors="replace"))
            except OSError:  # it has ended
                continue

    def leaks(self) -> list[str]:
        """Return where secrets are."""
        return [where for where, text in self.texts.items() if has_secret(text)]


def configure(home: Path, server: Instructable, outside: Path) -> Path:
    """Configure a server with all kinds of headers and one with a variable; return the file."""
    token, printed, program = (outside / name for name in ("token", "printed", "print-headers"))
    token.write_text(CANARIES["file"])
    printed.write_text(json.dumps({"X-Printed": CANARIES["printed"]}))
    program.write_text(f"#!/bin/sh\ncat {printed}\n")
    for path, mode in ((token, 0o600), (program, 0o700)):
        path.chmod(mode)
    script = 'echo "The key is $NOTES_KEY" >&2; exec "$@"'
    remotes: list[dict[str, Any]] = [
        {
            "name": "orders",
            "url": f"{server.url}?key={CANARIES['query']}",
            "headers": {"X-Key": CANARIES["header"]},
            "bearer_file": str(token),
            "header_command": [str(program)],
        },
        {
            "name": "notes",
            "command": "/bin/sh",
            "args": ["-c", script, "sh", *INSTRUCTABLE_STDIO],
            "env": {"NOTES_KEY": CANARIES["variable"], "INSTRUCTIONS": json.dumps(NOTES)},
        },
    ]
    config = home / "config.toml"
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


async def use_client(evidence: Evidence, client: mcp.Client, era: str) -> None:
    """Add all that a client receives, but not the texts that the server itself wrote."""
    listed: list[mcp_types.Tool] = []
    while not {"remote_orders_echo", "remote_notes_echo"} <= {tool.name for tool in listed}:
        listed = (await client.list_tools(cache_mode="refresh")).tools
    described = {tool.name: tool.model_dump_json() for tool in listed}
    # Descriptions and results are the server's own words, which mcpb does not change.
    assert QUOTED in described.pop("remote_orders_quote")
    assert QUOTED in (await client.call_tool("remote_orders_quote", {})).model_dump_json()
    evidence.add(f"{era}: tools", described)
    evidence.add(f"{era}: resources", (await client.list_resources()).model_dump_json())
    evidence.add(f"{era}: templates", (await client.list_resource_templates()).model_dump_json())
    evidence.add(f"{era}: prompts", (await client.list_prompts()).model_dump_json())
    evidence.add(
        f"{era}: read", (await client.read_resource("mcpb://remote/orders/memo://one")).model_dump_json()
    )
    for name in ("orders_echo", "orders_boom", "orders_fail", "notes_echo", "notes_boom"):
        result = await client.call_tool(f"remote_{name}", {})
        evidence.add(f"{era}: {name}", result.model_dump_json())
    with pytest.raises(mcp.MCPError) as rejected:
        await client.get_prompt("orders_greet", {"city": "Oslo"})
    evidence.add(f"{era}: prompt", str(rejected.value) + rejected.value.error.model_dump_json())


async def run_commands(evidence: Evidence, when: str, *tests: str) -> None:
    """Add what commands print; in this process, which takes a tenth of the time."""
    for line in ("status --json", "status --details", "remote list --json", "audit --json", *tests):
        done = await trio.to_thread.run_sync(CliRunner().invoke, main, line.split())
        evidence.add(f"mcpb {line}, {when}", f"{done.output}{done.exception!r}")
        assert done.output
    evidence.add_command_lines(when)


async def show_browser(evidence: Evidence, when: str, pages: list[Page]) -> None:
    """Add what pages contain and store."""
    stored = "[document.documentElement.outerHTML, {...localStorage}, {...sessionStorage}, document.cookie]"
    for page in pages:
        evidence.add(f"page {page.target_id}, {when}", await page.evaluate(stored))


async def open_status_page(chromium: Chromium) -> Page:
    done = await trio.to_thread.run_sync(CliRunner().invoke, main, ["status", "--web", "--no-open"])
    link = re.search(r"http://localhost:\d+/open\?code=\S+", done.output)
    assert link, done.output
    return await chromium.open_page(link[0])


async def read_extension_storage(chromium: Chromium) -> Any:
    workers = await chromium.targets("service_worker")
    (worker,) = [each for each in workers if each["url"].startswith("chrome-extension:")]
    extension = await chromium.attach(worker["targetId"])
    return await extension.evaluate("Promise.all([chrome.storage.local.get(), chrome.storage.session.get()])")


async def call_orders(evidence: Evidence, client: mcp.Client, when: str) -> None:
    """Add the error of a call."""
    result = await client.call_tool("remote_orders_echo", {"text": "hi"})
    assert result.is_error
    evidence.add(f"call, {when}", result.model_dump_json())


def secrets_of(request: RecordedRequest) -> list[str]:
    headers = request.headers
    return [headers["x-key"], headers["authorization"], headers["x-printed"], request.query]


async def test_only_the_server_receives_its_secrets(
    chain: Chain, mcpb_home: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    evidence = Evidence()
    chain.settings["MCPB_LOG"] = "wire"
    with instructable_server(**QUOTING) as orders, trio.fail_after(2 * SOON_S):
        config = configure(mcpb_home, orders, tmp_path)
        async with chain.browser() as chromium, chain.serving() as url:
            pages = [await chain.open(chromium, "plain.html"), await open_status_page(chromium)]
            async with chain.client("legacy") as client:
                await use_client(evidence, client, "handshake era")
            async with chain.http_client(url) as client:
                await use_client(evidence, client, "2026-07-28")
            await run_commands(evidence, "connected", "remote test")
            await show_browser(evidence, "connected", pages)
            received = orders.log().requests
            async with chain.http_client(url) as client:
                orders.control(required_headers={"X-Other": "yes"})
                await call_orders(evidence, client, "rejected")
                await run_commands(evidence, "rejected", "remote test orders")
                orders.kill()
                await call_orders(evidence, client, "killed")
            await run_commands(evidence, "killed", "remote test orders", "remote test orders --json")
            doctor = await chain.mcpb("doctor", "--json", check=False)
            await pages[1].wait_until("document.body.innerText.includes('refused')")
            await show_browser(evidence, "killed", pages)
            evidence.add("storage of the extension", await read_extension_storage(chromium))
            logged = HomeLayout(mcpb_home).state.log.read_text()
    evidence.add("doctor", f"{doctor.stdout!r} {doctor.stderr!r}")
    evidence.add("printed", "".join(capfd.readouterr()))
    for path in mcpb_home.rglob("*"):
        if path.is_file() and path != config:
            evidence.add(str(path), path.read_bytes().decode("latin-1"))
    assert b"remote-unreachable" in doctor.stdout
    assert evidence.leaks() == []
    for request in received:
        assert secrets_of(request) == [
            CANARIES["header"],
            f"Bearer {CANARIES['file']}",
            CANARIES["printed"],
            f"key={CANARIES['query']}",
        ]
    assert "DEBUG bridge.wire:" in logged
    assert "The key is •••" in logged
