"""`mcpb serve` as a process: what it says, whom it is in the way of, and how it ends."""

from __future__ import annotations

import errno
import json
import os
import pty
import resource
import select
import signal
import socket
import stat
import subprocess
import sys
import time
from contextlib import AsyncExitStack, closing
from pathlib import Path
from typing import Any, NoReturn

import httpx2
import mcp
import mcp_types
import pytest
import trio
from click.testing import CliRunner
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from bridge.cli.group import main
from bridge.state.server_record import find_running
from demo.simulated.browser import SimulatedBrowser
from http_frontend import CLOSES_EARLY, request, shake_hands
from http_serving import listeners
from http_serving.listeners import ListenError, ListenFault
from process_memory import resident_bytes
from raw_http import RawClient, connected, head
from serve_process import MCPB, SOON_S, Server, serving
from wire_peers import HOST_COMMAND, until

pytestmark = CLOSES_EARLY


async def refused(*arguments: str) -> tuple[int, str]:
    """The exit code of a server that does not start, and why not."""
    with trio.fail_after(SOON_S):
        run = [*MCPB, "serve", *arguments]
        done = await trio.run_process(run, capture_stdout=True, capture_stderr=True, check=False)
    assert done.stdout == b""
    return done.returncode, done.stderr.decode()


async def is_well(port: int) -> bool:
    async with connected(port) as client:
        await client.say(head(port=port))
        return (await client.answer()).status == 200


# ── Where ───────────────────────────────────────────────────────────────────────────────────────────────────


async def test_it_says_where_it_serves_and_answers_at_both_loopback_addresses(mcpb_home: Path) -> None:
    async with serving() as server:
        assert f"http://localhost:{server.port}/mcp" in server.said
        assert "mcpb status --web" in server.said
        for address in ("127.0.0.1", "[::1]") if socket.has_dualstack_ipv6() else ("127.0.0.1",):
            async with httpx2.AsyncClient() as client:
                found = await client.get(f"http://{address}:{server.port}/health")
            assert found.json()["status"] == "ok"


async def test_a_port_in_use_is_refused_in_one_sentence_that_says_who_has_it(mcpb_home: Path) -> None:
    async with serving() as server:
        code, why = await refused("--port", str(server.port))
        assert code == 1
        assert why.startswith(f"Error: Port {server.port} is in use by ")
        assert f"(pid {server.process.pid})" in why
        assert why.endswith(f"mcpb serve --port {server.port + 1}\n")
        assert await is_well(server.port)


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="there is no IPv6 here")
async def test_nobody_else_answers_at_the_other_loopback_address(mcpb_home: Path) -> None:
    """A client that is told `localhost` may try either."""
    with closing(socket.create_server(("::1", 0), family=socket.AF_INET6)) as other:
        code, why = await refused("--port", str(other.getsockname()[1]))
    assert code == 1
    assert f"(pid {os.getpid()})" in why


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--host", "192.0.2.1"], "192.0.2.1 is not an address of this machine"),
        (["--host", "http://localhost"], "is neither an address nor a name"),
        (["--socket", "/etc/passwd"], "/etc cannot hold the socket"),
    ],
)
async def test_where_it_cannot_listen_it_says_so_in_one_sentence(
    mcpb_home: Path, arguments: list[str], why: str
) -> None:
    code, said = await refused("--port", "0", *arguments)
    assert code
    assert why in said
    assert "Traceback" not in said
    assert "chmod" not in said  # of a directory that others need


def test_a_name_that_nobody_has_is_named() -> None:
    with pytest.raises(ListenError, match=r"nowhere\.invalid is not an address of this machine") as error:
        listeners.listen("nowhere.invalid", 0)
    assert error.value.fault is ListenFault.UNKNOWN_ADDRESS


def test_a_port_for_administrators_is_named_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def create_server(*_: object, **__: object) -> socket.socket:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(socket, "create_server", create_server)
    with pytest.raises(ListenError, match="Port 80 needs administrator rights") as error:
        listeners.listen("localhost", 80)
    assert error.value.fault is ListenFault.PORT_PRIVILEGED


async def test_what_the_configuration_switches_off_does_not_start(mcpb_home: Path) -> None:
    (mcpb_home / "config.toml").write_text("[http]\nenabled = false\n")
    code, why = await refused()
    assert (code, why) == (
        1,
        "Error: mcpb serve is disabled: remove enabled = false below [http] in config.toml\n",
    )


async def test_where_others_can_connect_it_says_what_they_need(mcpb_home: Path) -> None:
    async with serving("--host", "0.0.0.0") as server:
        assert f"http://localhost:{server.port}/mcp" in server.said
        assert "Other machines reach it by an address of this one" in server.said


# ── Access tokens ───────────────────────────────────────────────────────────────────────────────────────────


def default_token(home: Path) -> str:
    return (home / "state" / "http-token").read_text().strip()


async def mcpb(*arguments: str) -> str:
    """The standard output of a command that succeeds."""
    with trio.fail_after(SOON_S):
        done = await trio.run_process([*MCPB, *arguments], capture_stdout=True, capture_stderr=True)
    return done.stdout.decode()


async def test_a_token_is_printed_to_a_terminal_and_never_into_a_file(mcpb_home: Path) -> None:
    async with serving() as server:
        token = default_token(mcpb_home)
        assert token not in server.said
        assert "Clients send an access token: mcpb serve --print-config CLIENT" in server.said
    shown = await trio.to_thread.run_sync(said_on_a_terminal)
    assert f'--header "Authorization: Bearer {token}"' in shown
    assert stat.S_IMODE((mcpb_home / "state" / "http-token").stat().st_mode) == 0o600


def said_on_a_terminal() -> str:
    """What `mcpb serve` prints where its standard output is a terminal."""
    ours, theirs = pty.openpty()
    with subprocess.Popen([*MCPB, "serve", "--port", "0"], stdout=theirs, stdin=theirs) as process:
        os.close(theirs)
        try:
            said = b""
            while b"--web\r\n" not in said:
                assert select.select([ours], [], [], SOON_S)[0], said
                said += os.read(ours, 4096)
        finally:
            process.kill()
            os.close(ours)
    return said.decode()


async def test_a_program_of_this_user_needs_the_token_and_is_told_how_to_get_it(mcpb_home: Path) -> None:
    async with serving() as server:
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{server.port}") as client:
            answers = [await client.post("/mcp", json=request(1, "ping")), await client.get("/tools")]
            assert (await client.get("/health")).status_code == 200
        assert [answer.status_code for answer in answers] == [401, 401]
        assert "mcpb serve --print-config CLIENT" in answers[0].json()["error"]["message"]
        async with server.client(default_token(mcpb_home)) as client:
            assert (await client.get("/tools")).status_code == 200


async def test_with_same_user_it_needs_none_and_status_says_so(mcpb_home: Path) -> None:
    async with serving() as server:
        assert f"localhost:{server.port}/ · pid {server.process.pid} · needs a token" in await mcpb("status")
    (mcpb_home / "config.toml").write_text('[http]\nauth = "same-user"\n')
    async with serving() as server:
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{server.port}") as client:
            assert (await client.get("/tools")).status_code == 200
        assert 'no token needed (auth = "same-user")' in await mcpb("status")
        assert 'auth = "same-user": every program of your user may connect' in server.said


async def test_a_running_server_accepts_an_added_token_and_ends_the_sessions_of_a_revoked_one(
    mcpb_home: Path,
) -> None:
    async with serving() as server:
        token = (await mcpb("serve", "token", "add", "laptop")).strip()
        assert "laptop" in await mcpb("serve", "token", "list")
        async with server.client(token) as laptop, server.client(default_token(mcpb_home)) as other:
            sessions = [await shake_hands(client) for client in (laptop, other)]
            opening = laptop.stream("GET", "/mcp", headers=sessions[0] | {"Accept": "text/event-stream"})
            async with opening as stream:
                assert await mcpb("serve", "token", "revoke", "laptop") == "Revoked the token of laptop.\n"
                with trio.fail_after(SOON_S):
                    assert "event: message" not in "".join([text async for text in stream.aiter_text()])
            refused = await laptop.post("/mcp", json=request(1, "ping"), headers=sessions[0])
            assert refused.status_code == 401
            answer = await other.post("/mcp", json=request(1, "ping"), headers=sessions[1])
            assert answer.status_code == 200


async def test_printed_configurations_name_the_server_that_runs_and_contain_the_token(
    mcpb_home: Path,
) -> None:
    printed = await mcpb("serve", "--print-config", "claude-code")
    assert f'http://localhost:3456/mcp --header "Authorization: Bearer {default_token(mcpb_home)}"' in printed
    async with serving() as server:
        entry = json.loads(await mcpb("serve", "--print-config", "cursor"))["mcpServers"]["browser"]
        assert entry["url"] == f"http://localhost:{server.port}/mcp"
        assert entry["headers"] == {"Authorization": f"Bearer {default_token(mcpb_home)}"}
        added = json.loads(await mcpb("serve", "token", "add", "editor", "--print-config", "cursor"))
        token = added["mcpServers"]["browser"]["headers"]["Authorization"].removeprefix("Bearer ")
        async with server.client(token) as client:
            assert (await client.get("/tools")).status_code == 200


async def test_options_of_a_run_and_the_command_token_are_not_combined(mcpb_home: Path) -> None:
    code, why = await refused("--port", "0", "token", "list")
    assert (code, "Options of mcpb serve cannot be combined with token" in why) == (2, True)


async def test_the_token_of_default_is_replaced_while_the_server_runs(mcpb_home: Path) -> None:
    async with serving() as server:
        old = default_token(mcpb_home)
        await mcpb("serve", "token", "revoke", "default")
        new = default_token(mcpb_home)
        assert new != old
        for token, expected in ((old, 401), (new, 200)):
            async with server.client(token) as client:
                assert (await client.get("/tools")).status_code == expected


async def test_over_the_unix_socket_no_token_is_needed_and_each_process_is_a_client(mcpb_home: Path) -> None:
    path = mcpb_home / "http" / "mcp.sock"
    async with serving("--socket", str(path)):
        transport = httpx2.AsyncHTTPTransport(uds=str(path))
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
            assert (await client.get("/tools")).status_code == 200
            await shake_hands(client)


async def test_a_token_is_in_no_log_state_file_or_argument_of_ours(
    mcpb_home: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MCPB_LOG", "debug")
    async with serving() as server:
        tokens = [default_token(mcpb_home), (await mcpb("serve", "token", "add", "laptop")).strip()]
        for token in tokens:
            async with server.client(token) as client:
                headers = await shake_hands(client)
                await client.post("/mcp", json=request(1, "tools/list"), headers=headers)
        await mcpb("status", "--json")
        arguments = Path(f"/proc/{server.process.pid}/cmdline").read_bytes()
        await server.end()
    found = {
        path.name
        for path in mcpb_home.rglob("*")
        if path.is_file() and any(token.encode() in path.read_bytes() for token in tokens)
    }
    assert found == {"http-token"}
    assert not any(token.encode() in arguments for token in tokens)
    assert not any(token in capfd.readouterr().err for token in tokens)


# ── A Unix socket ───────────────────────────────────────────────────────────────────────────────────────────


async def test_a_unix_socket_is_for_this_user_alone_and_gone_at_the_end(mcpb_home: Path) -> None:
    path = mcpb_home / "http" / "mcp.sock"
    async with serving("--socket", str(path)) as server:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        client = RawClient(await trio.open_unix_socket(path))
        async with client.stream:
            await client.say(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert (await client.answer()).status == 200
        assert await server.end(signal.SIGTERM) == 0
    assert not path.exists()
    assert find_running(mcpb_home / "state") is None


async def test_a_socket_that_a_killed_server_left_is_taken_over_and_a_live_one_is_not(
    mcpb_home: Path,
) -> None:
    path = mcpb_home / "mcp.sock"
    async with serving("--socket", str(path)) as server:
        code, why = await refused("--port", "0", "--socket", str(path))
        assert (code, "Another server listens at" in why) == (1, True)
        await server.end(signal.SIGKILL)
    assert path.exists()
    async with serving("--socket", str(path)):
        pass


async def test_a_file_in_the_place_of_the_socket_stays(mcpb_home: Path) -> None:
    path = mcpb_home / "mcp.sock"
    path.write_text("mine")
    code, why = await refused("--port", "0", "--socket", str(path))
    assert (code, "not a socket of yours" in why) == (1, True)
    assert path.read_text() == "mine"


# ── To be found ─────────────────────────────────────────────────────────────────────────────────────────────


async def test_our_commands_find_the_newest_server_that_lives(mcpb_home: Path) -> None:
    state = mcpb_home / "state"
    assert find_running(state) is None
    async with serving() as first:
        found = find_running(state)
        assert found
        assert (found.pid, found.url) == (first.process.pid, f"http://localhost:{first.port}/")
        assert abs(found.started_at - time.time()) < SOON_S
        assert stat.S_IMODE((state / f"serve-{found.pid}.json").stat().st_mode) == 0o600
        async with serving() as second:
            newest = find_running(state)
            assert newest
            assert newest.pid == second.process.pid
            await second.end(signal.SIGKILL)
        assert (state / f"serve-{newest.pid}.json").exists()
        assert find_running(state) == found
    assert find_running(state) is None
    assert not list(state.glob("serve-*"))


# ── The end ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGHUP])
async def test_a_signal_ends_it_in_order(mcpb_home: Path, by: signal.Signals) -> None:
    async with serving() as server:
        assert await server.end(by) == 0
    assert find_running(mcpb_home / "state") is None


async def test_with_streams_open_it_ends_in_time_and_its_clients_begin_anew_with_the_next(
    mcpb_home: Path,
) -> None:
    """Also with such as read nothing of it."""
    async with AsyncExitStack() as clients, serving() as server:
        streams = []
        token = default_token(mcpb_home)
        client = await clients.enter_async_context(server.client(token))
        for _ in range(50):  # each with a connection of its own
            session = await shake_hands(client)
            opening = client.stream("GET", "/mcp", headers=session | {"Accept": "text/event-stream"})
            streams.append(await clients.enter_async_context(opening))
        legacy = await clients.enter_async_context(connected(server.port))
        await legacy.say(head("GET /sse", port=server.port, Authorization=f"Bearer {token}"))
        assert await server.end() == 0
        for stream in streams[1:]:  # the first one is never read
            assert "".join([text async for text in stream.aiter_text()]).count("event: message") == 0
        assert (await legacy.until_end()).endswith(b"\r\n0\r\n\r\n")
        async with serving(port=server.port) as next_one, next_one.client(token) as client:
            gone = await client.post("/mcp", json=request(1, "ping"), headers=session)
            assert gone.status_code == 404
            await shake_hands(client)


# ── Crowds ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
async def test_a_thousand_idle_streams_are_in_nobody_s_way_and_leave_nothing_behind(mcpb_home: Path) -> None:
    allow_open_files(4096)
    async with serving() as server:
        token = default_token(mcpb_home)
        await with_streams_open(server, 1000, token)
        used_bytes = resident_bytes(server.process.pid)
        await with_streams_open(server, 500, token)
        assert resident_bytes(server.process.pid) < used_bytes * 1.1


async def with_streams_open(server: Server, count: int, token: str) -> None:
    """Open them all, see that the server is well, and close them."""
    bearer = f"Bearer {token}"
    async with AsyncExitStack() as clients:
        streams = [await clients.enter_async_context(connected(server.port)) for _ in range(count)]
        for stream in streams:
            await stream.say(head("GET /sse", port=server.port, Authorization=bearer))
        assert [(await stream.head())[0] for stream in streams] == [200] * count
        assert await is_well(server.port)


def allow_open_files(count: int) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(count, hard), hard))


async def test_calls_in_flight_at_sigterm_say_that_they_may_have_run(mcpb_home: Path) -> None:
    async def hold(_arguments: dict[str, Any]) -> NoReturn:
        await trio.sleep_forever()
        raise AssertionError

    answers: dict[str, mcp_types.CallToolResult] = {}
    async with SimulatedBrowser(HOST_COMMAND) as browser, serving() as server:
        browser.add_tab("http://localhost:8123/", "Shop").offer("hold", hold)
        url = f"http://127.0.0.1:{server.port}"
        bearer = {"Authorization": f"Bearer {default_token(mcpb_home)}"}

        async def call_through(kind: str, mode: str) -> None:
            async with httpx2.AsyncClient(headers=bearer, timeout=SOON_S) as http:
                over = sse_client(f"{url}/sse", bearer)
                if kind == "streamable":
                    over = streamable_http_client(f"{url}/mcp", http_client=http)
                async with mcp.Client(over, mode=mode) as client:
                    await client.list_tools()
                    name = "website_tool_localhost_8123_tab1_hold"
                    answers[f"{kind} {mode}"] = await client.call_tool(name, {})

        with trio.fail_after(SOON_S):
            async with trio.open_nursery() as nursery:
                for kind, mode in (("streamable", "legacy"), ("streamable", "auto"), ("sse", "legacy")):
                    nursery.start_soon(call_through, kind, mode)
                await until(lambda: len(browser.heard("browser/executeTool")) == 3)
                assert await server.end() == 0
    assert len(answers) == 3
    for answer in answers.values():
        assert answer.is_error
        assert "mcpb has ended this session. It may have run" in str(answer.content)


def test_a_token_s_name_in_a_wrong_form_is_wrong_usage_and_a_client_without_a_token_is_not(
    mcpb_home: Path,
) -> None:
    for arguments, code in ((["add", "a b"], 2), (["revoke", "laptop"], 1)):
        done = CliRunner().invoke(main, ["serve", "token", *arguments])
        assert done.exit_code == code
    assert not (mcpb_home / "state/http-tokens.json").exists()


# ── Discretion ──────────────────────────────────────────────────────────────────────────────────────────────


async def test_nothing_of_a_request_s_headers_query_or_body_is_logged(
    mcpb_home: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MCPB_LOG", "debug")
    async with serving() as server, connected(server.port) as client:
        told = {"Authorization": "Bearer secret", "Cookie": "a=secret", "Mcp_Session_Id": "session_secret"}
        for first in ("GET /health?token=secret", "POST /message?sessionId=secret", "GET /secret"):
            await client.say(head(first, port=server.port, **told))
            await client.answer()
        await client.say(b"secret\r\n\r\n")
        await client.answer()
        await server.end()
    assert "secret" not in capfd.readouterr().err
    assert "secret" not in (mcpb_home / "state" / "mcpb.log").read_text()
