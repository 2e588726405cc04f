"""`mcpb remote` beside real servers: add, list, remove, each cause that `test` names, and use by clients."""

from __future__ import annotations

import json
import shlex
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import trio
from click.testing import CliRunner, Result

from bridge.cli.group import main
from bridge.config.loader import read_config
from bridge.config.remote_settings import RemoteSettings
from bridge.state.server_record import ServeRecord, publish_record
from certificates import Certified, make_certificate
from full_chain import INSPECTOR, MCPB, Chain
from http_frontend import CLOSES_EARLY
from mcp_client import BridgeProcess, text_of
from native_host.system.home_layout import HomeLayout
from native_host.system.toml_text import format_value
from remote_servers import EVERYTHING_STDIO, Instructable, everything_server, free_port, instructable_server

pytestmark = CLOSES_EARLY

CANARY = "canary-5f0c1d"
SOON_S = 60
WRITTEN = """\
# Mine.
call_timeout_s = 30.0  # slow pages

[policy]
deny = ["https://bank.example"]  # never
"""


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["remote", *arguments], catch_exceptions=False)


def succeed(*arguments: str) -> str:
    done = run(*arguments)
    assert done.exit_code == 0, done.output
    assert CANARY not in done.output
    return done.stdout


def fail(*arguments: str) -> str:
    done = run(*arguments)
    assert done.exit_code == 1, done.output
    assert CANARY not in done.output
    return done.stderr or done.stdout


def configure(home: Path, **keys: Any) -> None:
    """Write a file with one server, `orders`."""
    lines = [
        "[[remote]]",
        'name = "orders"',
        *(f"{key} = {format_value(value)}" for key, value in keys.items()),
    ]
    path = home / "config.toml"
    path.write_text("\n".join(lines))
    path.chmod(0o600)


def check(home: Path, **keys: Any) -> dict[str, Any]:
    """Return what `mcpb remote test --json` reports of a server with these keys."""
    configure(home, **keys)
    done = run("test", "orders", "--json")
    (found,) = json.loads(done.stdout)["servers"]
    assert done.exit_code == (1 if found["findings"] else 0)
    assert CANARY not in done.output
    return dict(found)


def causes(found: dict[str, Any]) -> list[str]:
    assert all(finding["detail"] and finding["remedy"] for finding in found["findings"])
    return [finding["cause"] for finding in found["findings"]]


def write_program(directory: Path, *lines: str) -> str:
    path = directory / "print-headers"
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(0o700)
    return str(path)


# ── Add, list, remove ───────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def everything() -> Iterator[str]:
    with everything_server() as url:
        yield url


@pytest.fixture(scope="module")
def running() -> Iterator[Instructable]:
    with instructable_server() as found:
        yield found


@pytest.fixture
def server(running: Instructable) -> Instructable:
    running.control(forget_log=True)
    return running


def test_a_server_is_added_listed_tested_and_removed(mcpb_home: Path, everything: str) -> None:
    path = mcpb_home / "config.toml"
    path.write_text(WRITTEN)
    assert "connected to mcp-servers/everything" in succeed("add", "everything", everything)
    assert path.read_text() == f'{WRITTEN}\n[[remote]]\nname = "everything"\nurl = "{everything}"\n'
    assert path.stat().st_mode & 0o777 == 0o600
    assert succeed("list") == f"everything  {everything}\n"
    (found,) = json.loads(succeed("test", "--json"))["servers"]
    assert (found["revision"], found["transport"], found["findings"]) == ("2025-11-25", "streamable-http", [])
    assert min(found["tools"], found["resources"], found["templates"], found["prompts"]) > 0
    assert succeed("test").startswith("everything: connected to mcp-servers/everything")
    assert succeed("remove", "everything") == "Removed everything.\n"
    assert path.read_text() == WRITTEN
    assert "No remote server is configured" in succeed("list")
    assert succeed("test") == "No remote server is enabled.\n"


def test_a_command_is_added_with_its_arguments_and_variables(
    mcpb_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTES_KEY", CANARY)
    output = succeed("add", "notes", "--env", "NOTES_KEY", "--", *EVERYTHING_STDIO)
    assert "over stdio: " in output
    (server,) = read_config(mcpb_home, {}).remote
    command, *args = EVERYTHING_STDIO
    assert server == RemoteSettings(
        name="notes", command=command, args=tuple(args), env={"NOTES_KEY": CANARY}
    )
    assert shlex.join(EVERYTHING_STDIO)[:80] in succeed("list")
    succeed("list", "--json")


def test_all_options_are_written(mcpb_home: Path, tmp_path: Path) -> None:
    succeed(
        *("add", "orders", "http://orders.example/mcp", "--no-check", "--insecure"),
        *("--bearer-file", "token", "--header-command", "print-headers 'a b'"),
        *("--allow", "find_*", "--allow", "get_*", "--deny", "get_all"),
    )
    assert read_config(mcpb_home, {}).remote == (
        RemoteSettings(
            name="orders",
            url="http://orders.example/mcp",
            insecure=True,
            bearer_file=str(Path.cwd() / "token"),
            header_command=("print-headers", "a b"),
            allow=("find_*", "get_*"),
            deny=("get_all",),
        ),
    )


def test_a_server_that_cannot_be_used_is_not_added_without_no_check(mcpb_home: Path) -> None:
    url = f"http://127.0.0.1:{free_port()}/mcp"
    message = fail("add", "orders", url)
    assert "orders: refused: " in message
    assert "--no-check" in message
    assert not (mcpb_home / "config.toml").exists()
    succeed("add", "orders", url, "--no-check")
    assert read_config(mcpb_home, {}).remote == (RemoteSettings(name="orders", url=url),)


@pytest.mark.parametrize(
    "arguments",
    [
        ["orders"],
        ["orders", "/mcp"],
        ["Orders", "https://orders.example"],
        ["orders", f"https://ann:{CANARY}@orders.example"],
        ["orders", "http://orders.example"],
        ["orders", "https://orders.example", "more"],
        ["orders", "https://orders.example", "--env", f"A={CANARY}"],
        ["orders", "https://orders.example", "--header-command", f"'{CANARY}"],
        ["orders", "https://orders.example", "--bearer-env", f"{CANARY}"],
        ["--bearer-env", "A", "notes", "--", "npx"],
        ["notes", "npx"],
        ["notes", "127.0.0.1:3001/mcp"],
        ["notes", f"ann:{CANARY}@orders.example/mcp"],
    ],
)
def test_arguments_that_cannot_be_used_change_nothing(mcpb_home: Path, arguments: list[str]) -> None:
    done = run("add", *arguments)
    assert done.exit_code == 2
    assert CANARY not in done.output
    assert not (mcpb_home / "config.toml").exists()


def test_a_path_from_this_directory_is_rejected_with_the_absolute_one(
    mcpb_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    program = tmp_path / "my notes/index.js"
    program.parent.mkdir()
    program.touch()
    for command in (["my notes/index.js"], ["node", "./my notes/index.js"]):
        done = run("add", "notes", "--no-check", "--", *command)
        assert (done.exit_code, shlex.quote(str(program)) in done.stderr) == (2, True)
    succeed("add", "notes", "--no-check", "--", "node", str(program), "not/there")


def test_a_rejected_target_names_what_the_command_line_has_for_it(mcpb_home: Path) -> None:
    for target in ("npx", "127.0.0.1:3001/mcp"):
        assert "remote add NAME -- COMMAND" in run("add", "orders", target).stderr
    message = run("add", "orders", "http://orders.example/mcp").stderr
    assert "--insecure" in message
    assert "insecure =" not in message


def test_a_token_that_is_missing_or_rejected_has_its_own_remedy(mcpb_home: Path, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("wrong-token")
    token.chmod(0o600)
    with rejecting_server(401) as url:
        added = fail("add", "orders", url)
        (missing,) = check(mcpb_home, url=url)["findings"]
        (rejected,) = check(mcpb_home, url=url, bearer_file=str(token))["findings"]
    assert "--bearer-file FILE" in added
    assert "remote login orders" in missing["remedy"]
    assert rejected["remedy"] == "Renew the token of its bearer_file."


@pytest.mark.parametrize(
    ("options", "keys"),
    [
        (["--allow", "find_*", "--allow", "ech?"], ["allow"]),
        (["--deny", "remote_orders_echo"], ["deny"]),
        (["--allow", "echo", "--deny", "add"], []),
    ],
    ids=["allow", "deny", "own names"],
)
def test_a_name_that_matches_no_tool_is_a_finding_and_the_server_is_added(
    mcpb_home: Path, server: Instructable, options: list[str], keys: list[str]
) -> None:
    output = succeed("add", "orders", server.url, *options)
    assert [line.split(": ")[1:3] for line in output.splitlines() if "no-tool" in line] == [
        ["no-tool", key] for key in keys
    ]
    done = run("test", "orders", "--json")
    (found,) = json.loads(done.stdout)["servers"]
    assert (done.exit_code, causes(found)) == (1 if keys else 0, ["no-tool"] * len(keys))
    assert all("echo" in finding["remedy"] for finding in found["findings"])


def test_new_names_and_descriptions_of_no_tool_are_findings(mcpb_home: Path, server: Instructable) -> None:
    texts = {"echo": "repeat", "remote_orders_echo": "again"}
    assert causes(check(mcpb_home, url=server.url, rename=texts, describe=texts)) == ["no-tool"] * 2


def test_a_name_that_is_taken_is_rejected_before_it_connects(mcpb_home: Path, server: Instructable) -> None:
    configure(mcpb_home, url="https://orders.example/mcp")
    assert "remote remove orders" in fail("add", "orders", server.url)
    assert server.log().requests == []


def test_a_server_that_is_unknown_is_named_with_the_known_ones(mcpb_home: Path) -> None:
    configure(mcpb_home, url="https://orders.example/mcp")
    for command in ("remove", "test", "login", "logout"):
        assert "There is no remote server order; known: orders" in fail(command, "order")


def test_without_any_server_an_unknown_one_is_answered_with_how_to_add_one(mcpb_home: Path) -> None:
    for command in ("remove", "test", "login", "logout"):
        assert "remote add NAME URL" in fail(command, "orders")


@pytest.mark.parametrize(
    "arguments",
    [["add", "a", "https://a.example"], ["list"], ["remove", "a"], ["test"]],
    ids=lambda it: it[0],
)
def test_a_file_that_is_rejected_is_neither_followed_nor_changed(
    mcpb_home: Path, server: Instructable, arguments: list[str]
) -> None:
    path = mcpb_home / "config.toml"
    configure(mcpb_home, url=server.url, headers={"X-Key": CANARY})
    path.chmod(0o644)
    text = path.read_text()
    assert f"chmod go-r {path}" in fail(*arguments)
    assert (path.read_text(), server.log().requests) == (text, [])


# ── Clients ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_server_is_added_and_a_tool_called_from_a_fresh_home(mcpb_home: Path, everything: str) -> None:
    mcpb = shlex.join(MCPB)
    line = (
        f"{mcpb} remote add everything {everything} && {mcpb} tools "
        f"&& {mcpb} call remote_everything_get-sum a=2 b=3"
    )
    done = subprocess.run(line, shell=True, capture_output=True, text=True, timeout=SOON_S, check=False)
    assert done.returncode == 0, done.stderr
    assert "\nremote_everything_get-sum a= b=\n" in done.stdout
    assert done.stdout.endswith("\nThe sum of 2 and 3 is 5.\n")
    assert done.stderr == "\nNo browser is connected. To find out why, run: mcpb doctor\n"
    for words, expected in (
        ("read mcpb://remote/everything/demo://resource/static/document/features.md", "# Everything Server"),
        ("prompt everything_args-prompt city=Oslo", "    What's weather in Oslo?\n"),
    ):
        printed = CliRunner().invoke(main, words.split(), catch_exceptions=False)
        assert printed.exit_code == 0, printed.stderr
        assert expected in printed.stdout


async def test_the_inspector_sees_the_same_tools_through_bridge_and_serve(
    mcpb_home: Path, everything: str
) -> None:
    assert INSPECTOR.exists(), "run: npm ci"
    configure(mcpb_home, url=everything)
    chain = Chain(mcpb_home, pages="")
    seen: list[list[str]] = []

    async def inspect(server: list[str]) -> None:
        command = [str(INSPECTOR), "--cli", *server, "--method", "tools/list"]
        names: list[str] = []
        while not names:  # on a busy machine the first list does not wait long enough for the server
            done = await trio.run_process(command, env=chain.node_env, capture_stdout=True)
            listed = [tool["name"] for tool in json.loads(done.stdout)["tools"]]
            names = [name for name in listed if name.startswith("remote_orders_")]
        seen.append(names)

    with trio.fail_after(SOON_S):
        async with chain.serving() as url, trio.open_nursery() as nursery:
            nursery.start_soon(inspect, [*MCPB, "bridge"])
            nursery.start_soon(inspect, [f"{url}/mcp", "--transport", "http"])
    one, other = seen
    assert one == other
    assert "remote_orders_get-sum" in one


async def until_listed(client: BridgeProcess, name: str, *, is_listed: bool) -> None:
    """Wait for notifications until a tool is listed, or is not."""
    while True:
        await client.heard("notifications/tools/list_changed")
        listed = await client.ask("tools/list")
        if (name in [tool["name"] for tool in listed["tools"]]) == is_listed:
            return


async def test_a_killed_server_s_call_may_have_run_and_its_tools_disappear_and_return(
    mcpb_home: Path,
) -> None:
    with instructable_server() as server, trio.fail_after(SOON_S):
        configure(mcpb_home, url=server.url)
        async with BridgeProcess.started() as client:
            await client.shake_hands("2025-11-25")
            await client.ask("tools/list")
            asked = {"name": "remote_orders_slow", "arguments": {"steps": 1, "endless": True}}
            call = await client.send("tools/call", {**asked, "_meta": {"progressToken": 1}})
            await client.heard("notifications/progress")
            assert server.counts()["tools/call"] == 1
            client.unasked.clear()
            server.kill()
            assert "It may have run: check before you repeat it." in text_of(await client.answer_to(call))
            await until_listed(client, "remote_orders_echo", is_listed=False)
            server.start()
            await until_listed(client, "remote_orders_echo", is_listed=True)
            assert text_of(await client.call("remote_orders_echo", text="back")) == "back"
        assert server.counts()["tools/call"] == 1


async def read_status(*, until: str) -> dict[str, Any]:
    """Return the JSON of `mcpb status --check` once the server has a state; its exit code says `ready`."""
    while True:
        done = await trio.to_thread.run_sync(CliRunner().invoke, main, ["status", "--json", "--check"])
        found: dict[str, Any] = json.loads(done.stdout)
        if found["remote"][0]["state"] == until:
            assert done.exit_code == (0 if found["ready"] else 1)
            return found


async def test_status_without_a_browser_is_ready_while_a_client_is_connected_to_a_server(
    mcpb_home: Path,
) -> None:
    with instructable_server() as server, trio.fail_after(2 * SOON_S):
        configure(mcpb_home, url=server.url)
        before = await read_status(until="unused")
        async with BridgeProcess.started() as client:
            await client.shake_hands("2025-11-25")
            connected = await read_status(until="ready")
            server.kill()
            lost = await read_status(until="unreachable")
        after = await read_status(until="unused")
    browser = f"Browser not ready: {connected['missing']}"
    assert (connected["ready"], connected["obstacle"]) == (True, "")
    offers = "12 tools, 2 resources, 1 template, 1 prompt"
    assert connected["verdict"] == f"Ready: 1 remote server ({offers}). {browser}"
    for found in (before, lost, after):
        assert not found["ready"]
        assert found["verdict"] == f"Not ready: {found['obstacle']}"
        assert found["obstacle"].endswith(f". {browser}")


@pytest.mark.parametrize("words", ["call remote_every_echo text=hi", "read mcpb://remote/every/memo://one"])
def test_a_server_that_is_not_configured_or_off_is_named(mcpb_home: Path, words: str) -> None:
    configure(mcpb_home, url="https://orders.example/mcp", enabled=False)
    for line in (words, words.replace("every", "orders")):
        done = CliRunner().invoke(main, line.split(), catch_exceptions=False)
        assert done.exit_code == 1
        assert "remote list" in done.stderr
        assert "No page offers" not in done.stderr


# ── Causes ──────────────────────────────────────────────────────────────────────────────────────────────────


class _Handler(BaseHTTPRequestHandler):
    """A web server that does not speak MCP."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", "13")
        self.end_headers()
        self.wfile.write(b"<h1>Shop</h1>")

    do_POST = do_GET  # noqa: N815 - the name that the base class calls

    def log_message(self, *_: object) -> None: ...


@contextmanager
def web_server(certified: Certified | None = None) -> Iterator[str]:
    """Serve HTML over HTTP, or over HTTPS with a certificate; yield the URL."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        if certified:
            server.socket = certified.server_context().wrap_socket(
                server.socket, server_side=True, do_handshake_on_connect=False
            )
            server.handle_error = lambda *_: None  # type: ignore[method-assign]  # the client breaks it off
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        scheme = "https" if certified else "http"
        try:
            yield f"{scheme}://localhost:{server.server_address[1]}/mcp"
        finally:
            server.shutdown()
            thread.join(SOON_S)


@contextmanager
def silent_server() -> Iterator[str]:
    """Accept connections and never answer; yield the URL."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"


@contextmanager
def rejecting_server(status: int) -> Iterator[str]:
    with instructable_server(required_headers={"authorization": "Bearer right"}, rejection=status) as server:
        yield server.url


@pytest.mark.parametrize(
    ("make", "cause"),
    [
        (lambda: nullcontext("https://orders.invalid/mcp"), "no-such-host"),
        (lambda: nullcontext(f"http://127.0.0.1:{free_port()}/mcp"), "refused"),
        (web_server, "not-mcp"),
        (silent_server, "too-slow"),
        (lambda: rejecting_server(401), "unauthorized"),
        (lambda: rejecting_server(403), "forbidden"),
    ],
    ids=["no such host", "refused", "not MCP", "too slow", "401", "403"],
)
def test_each_cause_of_a_connection_has_one_finding_with_its_remedy(
    mcpb_home: Path, make: Callable[[], AbstractContextManager[str]], cause: str
) -> None:
    with make() as url:
        found = check(mcpb_home, url=f"{url}?key={CANARY}", timeout_s=0.5, headers={"X-Key": CANARY})
        text = fail("test")
    assert causes(found) == [cause]
    assert found["address"] == url
    (finding,) = found["findings"]
    assert text == f"orders: {cause}: {finding['detail']}\n    {finding['remedy']}\n"


def test_a_certificate_that_the_system_does_not_trust_is_a_finding(mcpb_home: Path, tmp_path: Path) -> None:
    with web_server(make_certificate(tmp_path)) as url:
        assert causes(check(mcpb_home, url=url, timeout_s=5)) == ["tls"]


def test_a_server_without_tls_at_an_https_url_is_a_finding(mcpb_home: Path) -> None:
    with web_server() as url:
        assert causes(check(mcpb_home, url=url.replace("http:", "https:"), timeout_s=5)) == ["no-tls"]


@pytest.mark.parametrize(
    ("command", "end"),
    [
        (["/no/such/program"], ""),
        (["/bin/sh", "-c", "exit 3"], "exited with status 3"),
        (["/bin/sh", "-c", "read request; exit 3"], "exited with status 3"),
        (["/bin/sh", "-c", "kill -9 $$"], "was ended by signal 9"),
    ],
    ids=["not there", "ends at once", "ends", "is killed"],
)
def test_a_command_that_does_not_serve_is_a_finding(mcpb_home: Path, command: list[str], end: str) -> None:
    found = check(mcpb_home, command=command[0], args=command[1:], timeout_s=5)
    assert causes(found) == ["command"]
    (finding,) = found["findings"]
    assert end in finding["detail"]
    assert shlex.join(command) in finding["remedy"]


def test_a_program_that_does_not_speak_mcp_has_the_remedy_of_a_program(mcpb_home: Path) -> None:
    (finding,) = check(mcpb_home, command="cat", timeout_s=5)["findings"]
    assert (finding["cause"], finding["remedy"].rpartition(": ")[2]) == ("not-mcp", "cat")


@pytest.mark.parametrize(
    "keys",
    [
        {"bearer_env": "ORDERS_TOKEN"},
        {"bearer_file": "/no/such/file"},
        {"header_command": ["/bin/sh", "-c", f"echo {CANARY}; echo {CANARY} >&2; exit 3"]},
        {"header_command": ["/no/such/program", CANARY]},
    ],
    ids=["variable", "file", "status of the program", "no program"],
)
def test_headers_that_cannot_be_read_are_a_finding_and_nothing_is_sent(
    mcpb_home: Path, server: Instructable, keys: dict[str, Any]
) -> None:
    found = check(mcpb_home, url=server.url, timeout_s=5, **keys)
    assert causes(found) == ["headers"]
    assert next(iter(keys)) in found["findings"][0]["detail"]
    assert server.log().requests == []


def test_a_bad_tool_is_named_and_the_others_are_offered(mcpb_home: Path) -> None:
    good = {"name": "good", "inputSchema": {"type": "object"}}
    with instructable_server(
        tools=[good, {"name": "bad", "inputSchema": "x"}, {"name": f"leak\n{CANARY}"}]
    ) as server:
        found = check(mcpb_home, url=server.url, headers={"X-Key": CANARY})
    assert set(causes(found)) == {"bad-entry"}
    assert "bad" in found["findings"][0]["detail"]
    assert found["tools"] >= 1


def test_the_address_of_mcpb_itself_is_a_finding(mcpb_home: Path) -> None:
    state = HomeLayout(mcpb_home).state.path
    record = ServeRecord(pid=1, url="http://127.0.0.1:3456/", started_at=1.0)
    with publish_record(state, record):
        assert causes(check(mcpb_home, url="http://localhost:3456/mcp")) == ["self"]


def test_only_enabled_servers_are_tested_unless_one_is_named(mcpb_home: Path, server: Instructable) -> None:
    configure(mcpb_home, url=server.url, enabled=False)
    assert succeed("test") == "No remote server is enabled.\n"
    assert succeed("list") == f"orders  off  {server.url}\n"
    assert "orders: connected to " in succeed("test", "orders")


# ── Secrets ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_token_reaches_the_server_and_neither_command_lines_nor_output(
    mcpb_home: Path, tmp_path: Path
) -> None:
    token, seen = tmp_path / "token", tmp_path / "command-lines"
    token.write_text(CANARY)
    token.chmod(0o600)
    # It runs while mcpb does.
    program = write_program(
        tmp_path, f"cat /proc/[0-9]*/cmdline > {seen} 2>/dev/null", """echo '{"X-Printed": "yes"}'"""
    )
    with instructable_server(required_headers={"authorization": f"Bearer {CANARY}"}) as server:
        command = [sys.executable, "-m", "bridge", "remote", "add", "orders", server.url]
        options = ["--bearer-file", str(token), "--header-command", program]
        done = subprocess.run(
            [*command, *options], capture_output=True, text=True, timeout=SOON_S, check=False
        )
        log = server.log()
    assert done.returncode == 0, done.stderr
    sent = [request.headers for request in log.requests]
    assert {(headers["authorization"], headers["x-printed"]) for headers in sent} == {
        (f"Bearer {CANARY}", "yes")
    }
    assert "bearer-file" in seen.read_text(errors="replace")
    assert CANARY not in f"{seen.read_text(errors='replace')}{done.stdout}{done.stderr}"
    assert CANARY not in (mcpb_home / "config.toml").read_text()


def test_what_a_server_quotes_of_its_headers_is_masked(mcpb_home: Path) -> None:
    error = {"code": -32603, "message": f"bad key {CANARY}"}
    with instructable_server(era="handshake", errors={"tools/list": error}) as server:
        found = check(mcpb_home, url=server.url, headers={"X-Key": CANARY})
    assert causes(found) == ["bad-list"]
    assert "•••" in found["findings"][0]["detail"]
