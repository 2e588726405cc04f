"""`mcpb bridge --transport`: the example transport in a process, and transports that fail in each way."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from bridge.frontends import custom_transport, stdio
from bridge.frontends.custom_transport import (
    MakeTransport,
    MessageParseError,
    MessageProtocolError,
    Transport,
    TransportCleanupError,
    TransportConnectionError,
    TransportError,
    TransportLoadError,
    TransportTimeoutError,
    load_transport,
    serve_transport,
)
from bridge.hub.client_session import Session
from bridge.hub.router import Router
from bridge.hub.transport import DiscoveryFinished
from bridge.mcp_session.mcp_server import McpServer
from fake_host import PlayedHost
from fake_transport import PlayedTransport, one_page, tools
from mcp_client import McpLines
from native_host.protocol.wire import MIB
from page_resources import CART, page
from source_trees import ROOT
from wire_peers import until

GET_CART = "website_tool_shop_example_tab1_getCart"
CART_URI = "mcpb://page/shop.example/tab1/cart://1"
EXAMPLE = "unix_socket_transport:UnixSocketTransport"
PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
PONG = b'{"jsonrpc":"2.0","id":1,"result":{}}'
HELLO = (
    b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25",'
    b'"capabilities":{},"clientInfo":{"name":"by hand","version":"1"}}}'
)
FORM = {"type": "object", "properties": {"apples": {"type": "integer"}}}
SOON_S = 30
LIMIT_BYTES = 200_000
"""In place of 80 MiB."""


# ── The example ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def socket_path(mcpb_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = mcpb_home / "mcp.sock"
    monkeypatch.setenv("TRANSPORT_SOCKET", str(path))
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "examples"))
    return path


@asynccontextmanager
async def bridge_process(*arguments: str) -> AsyncIterator[trio.Process]:
    command = [sys.executable, "-m", "bridge", "bridge", "--transport", *arguments]
    process = await trio.lowlevel.open_process(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        yield process
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()
            for stream in (process.stdout, process.stderr):
                assert stream
                await stream.aclose()


async def connect(path: Path) -> trio.SocketStream:
    await until(path.exists)
    while True:
        try:
            return await trio.open_unix_socket(path)
        except ConnectionRefusedError:  # it is bound, and does not listen yet
            await trio.testing.wait_all_tasks_blocked(0.001)


async def test_the_example_carries_a_whole_session(mcpb_home: Path, socket_path: Path) -> None:
    async with PlayedHost.in_directory(mcpb_home / "run") as host, bridge_process(EXAMPLE) as process:
        with trio.fail_after(SOON_S):
            offered = page(1, CART)
            offered.tools = tools(1, "getCart").tools
            await host.welcome(one_page("getCart")[0], offered)
            stream = await connect(socket_path)
            assert not socket_path.exists() or socket_path.stat().st_mode & 0o077 == 0
            client = McpLines(stream, stream)
            client.capabilities = {"elicitation": {}}
            assert (await client.shake_hands("2025-06-18"))["serverInfo"]["name"] == "mcpb"
            await client.until_offered(GET_CART)

            request_id = await client.send("tools/call", {"name": GET_CART})
            call = await host.heard("browser/executeTool")
            await host.ask(call, "ext:1", message="Buy?", requestedSchema=FORM)
            question = await client.asked("elicitation/create")
            await client.reply(question, result={"action": "accept", "content": {"apples": 2}})
            assert (await host.answer_to("ext:1"))["result"]["content"] == {"apples": 2}
            payload = {"content": [{"type": "text", "text": "x" * 1_000_000}]}
            await host.answer(call, {"success": True, "payload": payload})
            assert (await client.answer_to(request_id))["content"] == payload["content"]

            listed = (await client.ask("resources/list"))["resources"]
            assert CART_URI in [each["uri"] for each in listed]
            request_id = await client.send("resources/read", {"uri": CART_URI})
            read = await host.heard("browser/mcp")
            contents = [{"uri": "cart://1", "text": "two apples"}]
            await host.answer(read, {"success": True, "payload": {"contents": contents}})
            assert (await client.answer_to(request_id))["contents"][0]["text"] == "two apples"

            await client.say_line(b"{")
            assert await client.ask("ping") == {}
            assert client.unasked[-1]["error"]["code"] == -32700
            await client.aclose()
            assert await process.wait() == 0
    assert not socket_path.exists()


async def test_a_client_of_the_example_that_goes_during_a_call_cancels_it(
    mcpb_home: Path, socket_path: Path
) -> None:
    async with PlayedHost.in_directory(mcpb_home / "run") as host, bridge_process(EXAMPLE) as process:
        with trio.fail_after(SOON_S):
            await host.welcome(*one_page("getCart"))
            stream = await connect(socket_path)
            client = McpLines(stream, stream)
            await client.shake_hands()
            await client.until_offered(GET_CART)
            await client.send("tools/call", {"name": GET_CART})
            call = await host.heard("browser/executeTool")
            await client.aclose()
            assert (await host.heard("browser/cancel"))["params"]["id"] == call["id"]
            assert await process.wait() == 0


async def test_the_example_removes_no_socket_of_another_program(mcpb_home: Path, socket_path: Path) -> None:
    socket_path.write_text("of another program")
    async with bridge_process(EXAMPLE) as process:
        with trio.fail_after(SOON_S):
            assert process.stderr
            said = b"".join([part async for part in process.stderr]).decode()
            assert await process.wait() == 1
    assert said.count("TransportConnectionError: start failed: [Errno 98]") == 1
    assert socket_path.read_text() == "of another program"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_the_session_and_closes_the_transport(
    mcpb_home: Path, socket_path: Path, number: signal.Signals
) -> None:
    async with bridge_process(EXAMPLE) as process:
        with trio.fail_after(SOON_S):
            await until(socket_path.exists)
            process.send_signal(number)
            assert await process.wait() == 0
    assert not socket_path.exists()


async def test_the_example_takes_no_longer_for_a_line_of_many_parts(
    socket_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(ROOT / "examples")
    receive_some = trio.SocketStream.receive_some
    monkeypatch.setattr(trio.SocketStream, "receive_some", lambda stream: receive_some(stream, 1024))
    received: list[int] = []
    has_ended = trio.Event()

    async def receive(message: bytes) -> None:
        received.append(len(message))

    with trio.fail_after(SOON_S):
        async with trio.open_nursery() as tasks:
            transport = load_transport(EXAMPLE)(tasks)
            transport.on_message, transport.on_close = receive, has_ended.set
            await transport.start()
            begun_at = time.process_time()
            async with await connect(socket_path) as stream:
                await stream.send_all(b"x" * 4 * MIB + b"\ny\nz")
            await has_ended.wait()
            await transport.close()
    assert received == [4 * MIB, 1]
    assert time.process_time() - begun_at < 2  # copies of the whole line for each part took 4


def test_the_example_has_at_most_60_lines() -> None:
    assert len((ROOT / "examples/unix_socket_transport.py").read_text().splitlines()) <= 60


# ── MODULE:NAME ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ("unix_socket_transport", "names no transport: write it as MODULE:NAME"),
        (":Name", "names no transport: write it as MODULE:NAME"),
        ("nowhere_at_all:Name", "nowhere_at_all cannot be imported: No module named 'nowhere_at_all'"),
        ("..up:Name", "..up cannot be imported"),
        ("json:Name", "json has no class or function Name that makes a transport"),
        ("json:__doc__", "json has no class or function __doc__ that makes a transport"),
    ],
)
def test_what_is_no_transport_is_named(spec: str, why: str) -> None:
    with pytest.raises(TransportLoadError, match=re.escape(why)):
        load_transport(spec)


def test_a_module_that_fails_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "failing_transport.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(TransportLoadError, match="failing_transport cannot be imported: division by zero"):
        load_transport("failing_transport:Name")


async def test_a_process_without_its_transport_says_so_once_and_fails(mcpb_home: Path) -> None:
    async with bridge_process("nowhere_at_all:Name") as process:
        with trio.fail_after(SOON_S):
            assert process.stderr
            said = b"".join([part async for part in process.stderr]).decode()
            assert await process.wait() == 1
    assert said.count("nowhere_at_all cannot be imported") == 1
    assert "Traceback" not in said


# ── Failures ────────────────────────────────────────────────────────────────────────────────────────────────


class Played(Transport):
    """The test says what happens, and reads what is sent."""

    def __init__(self, tasks: trio.Nursery) -> None:
        self.tasks = tasks
        self.sent: list[bytes] = []
        self.closed = 0

    async def start(self) -> None:
        self.tasks.start_soon(self.receive)

    async def receive(self) -> None:
        await self.on_message(HELLO)
        await until(lambda: bool(self.sent))
        self.on_close()

    async def send(self, message: bytes) -> None:
        self.sent.append(message)

    async def close(self) -> None:
        self.closed += 1


class Outcome:
    """What a session on a transport has left."""

    def __init__(self) -> None:
        self.transport: Played
        self.session = Session("s1", folder="/srv/shop", is_local=True)
        self.error: Exception | None = None
        self.reports: list[str] = []
        """Lines of the log: the type of each error, and its text."""


Serve = Callable[[MakeTransport], Awaitable[Outcome]]


@pytest.fixture
async def serve(caplog: pytest.LogCaptureFixture) -> AsyncIterator[Serve]:
    """Serve a transport of this class to its end."""
    router = Router(played := PlayedTransport())
    played.happen(DiscoveryFinished())
    played.connect("h1", *one_page("getCart"))

    async def run(make: MakeTransport) -> Outcome:
        outcome = Outcome()

        def make_played(tasks: trio.Nursery) -> Transport:
            made = make(tasks)
            assert isinstance(made, Played)
            outcome.transport = made
            return made

        with trio.fail_after(SOON_S):
            try:
                server = McpServer(router, outcome.session, lambda: None)
                await serve_transport("played:Played", make_played, server)
            except (TransportError, ExceptionGroup) as error:
                outcome.error = error
        name = custom_transport.__name__
        outcome.reports = [each.getMessage() for each in caplog.records if each.name == name]
        return outcome

    async with trio.open_nursery() as nursery:
        nursery.start_soon(router.run)
        yield run
        nursery.cancel_scope.cancel()


async def test_a_session_ends_with_its_client_without_an_error(serve: Serve) -> None:
    outcome = await serve(Played)
    assert (outcome.error, outcome.reports, outcome.transport.closed) == (None, [], 1)
    assert b'"serverInfo"' in outcome.transport.sent[0]


@pytest.mark.parametrize(
    ("declared", "is_local"), [(None, False), (False, False), ("no", False), (True, True)]
)
async def test_a_client_is_local_only_if_the_transport_says_so(
    serve: Serve, declared: object, is_local: bool
) -> None:
    declaring = Played if declared is None else type("Declaring", (Played,), {"is_local": declared})
    session = (await serve(declaring)).session
    assert (session.is_local, session.folder) == (is_local, "")
    assert session.principal == "played:Played"


@pytest.mark.parametrize(
    ("method", "kind", "why"),
    [
        ("start", TransportConnectionError, "start failed: no network"),
        ("send", TransportConnectionError, "send failed: no network"),
        ("close", TransportCleanupError, "close failed: no network"),
        ("receive", TransportConnectionError, "a task failed: no network"),
    ],
)
@pytest.mark.parametrize("is_reported", [False, True], ids=["raised", "reported and raised"])
async def test_an_error_of_a_method_is_reported_once_and_raised_once(
    serve: Serve, method: str, kind: type[TransportError], why: str, is_reported: bool
) -> None:
    class Failing(Played):
        async def fail(self, *_: object) -> None:
            error = OSError("no network")
            if is_reported:
                self.on_error(error)
            raise error

    setattr(Failing, method, Failing.fail)
    outcome = await serve(Failing)
    assert type(outcome.error) is kind
    assert str(outcome.error) == why
    assert outcome.reports == (["OSError: no network"] if is_reported else [f"{kind.__name__}: {why}"])
    assert outcome.transport.closed == (method != "close")


@pytest.mark.parametrize("method", ["start", "send", "close"])
async def test_a_method_that_hangs_is_a_timeout(
    serve: Serve, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Hanging(Played):
        async def hang(self, *_: object) -> None:
            await trio.sleep_forever()

    setattr(Hanging, method, Hanging.hang)
    monkeypatch.setattr(custom_transport, f"{method.upper()}_S", 0.05)
    outcome = await serve(Hanging)
    assert type(outcome.error) is TransportTimeoutError
    assert outcome.reports == [f"TransportTimeoutError: {method} did not return within 0.05 s"]
    assert outcome.transport.closed == (method != "close")


@pytest.mark.parametrize("method", ["start", "send", "close"])
async def test_a_timeout_of_a_method_itself_is_its_failure(serve: Serve, method: str) -> None:
    class Impatient(Played):
        async def wait_briefly(self, *_: object) -> None:
            with trio.fail_after(0):
                await trio.sleep_forever()

    setattr(Impatient, method, Impatient.wait_briefly)
    outcome = await serve(Impatient)
    kind = TransportCleanupError if method == "close" else TransportConnectionError
    assert type(outcome.error) is kind
    assert outcome.reports == [f"{kind.__name__}: {method} failed: TooSlowError"]


@pytest.mark.parametrize(
    ("kind", "text"), [(OSError, "no network"), (TransportConnectionError, "start failed: no network")]
)
async def test_an_error_in_a_nursery_of_a_method_keeps_its_type_and_reason(
    serve: Serve, kind: type[Exception], text: str
) -> None:
    error = kind(text)

    class Nested(Played):
        async def start(self) -> None:
            async with trio.open_nursery() as outer, trio.open_nursery() as inner:
                outer.start_soon(trio.sleep_forever)
                inner.start_soon(self.fail)

        async def fail(self) -> None:
            raise error

    outcome = await serve(Nested)
    assert type(outcome.error) is TransportConnectionError
    assert error in (outcome.error, outcome.error.__cause__)
    assert outcome.reports == ["TransportConnectionError: start failed: no network"]


@pytest.mark.parametrize("method", ["start", "send", "receive"])
async def test_both_the_failure_and_the_failed_cleanup_are_reported_and_raised(
    serve: Serve, method: str
) -> None:
    class Failing(Played):
        async def fail(self, *_: object) -> None:
            raise OSError("no network")

        async def close(self) -> None:
            raise OSError("still open")

    setattr(Failing, method, Failing.fail)
    outcome = await serve(Failing)
    assert isinstance(outcome.error, ExceptionGroup)
    assert [type(each) for each in outcome.error.exceptions] == [
        TransportConnectionError,
        TransportCleanupError,
    ]
    reports = [f"{type(each).__name__}: {each}" for each in outcome.error.exceptions]
    assert sorted(outcome.reports) == sorted(reports)
    assert "TransportCleanupError: close failed: still open" in reports


@pytest.mark.parametrize(
    ("message", "kind", "code"),
    [
        (b"{", MessageParseError, -32700),
        (b"\xff", MessageParseError, -32700),
        (b'{"params":' + b"[" * 100_000, MessageParseError, -32700),
        (b"[]", MessageProtocolError, -32600),
        (b'{"jsonrpc":"2.0"}', MessageProtocolError, -32600),
        (b'{"method":1}', MessageProtocolError, -32600),
        (PING.ljust(LIMIT_BYTES + 1), MessageProtocolError, -32600),
        ("text", MessageProtocolError, None),
    ],
    ids=lambda value: repr(value)[:20],
)
async def test_a_message_that_is_not_json_rpc_is_reported_once_and_the_session_goes_on(
    serve: Serve, message: Any, kind: type[TransportError], code: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stdio, "MAX_LINE_BYTES", LIMIT_BYTES)

    class Careless(Played):
        async def receive(self) -> None:
            await self.on_message(HELLO)
            with pytest.raises(kind):
                await self.on_message(message)
            await self.on_message(PING)
            await until(lambda: PONG in self.sent)
            self.on_close()

    outcome = await serve(Careless)
    assert outcome.error is None
    assert [report.partition(":")[0] for report in outcome.reports] == [kind.__name__]
    answers = outcome.transport.sent[1:-1]
    assert [f'"code":{code}'.encode() in answer for answer in answers] == ([True] if code else [])


async def test_blank_messages_are_skipped_and_the_longest_is_accepted(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stdio, "MAX_LINE_BYTES", LIMIT_BYTES)

    class Padding(Played):
        async def receive(self) -> None:
            await self.on_message(HELLO)
            for blank in (b"", b"\r\n", b" \t"):
                await self.on_message(blank)
            await self.on_message(PING.ljust(LIMIT_BYTES))
            await until(lambda: PONG in self.sent)
            self.on_close()

    outcome = await serve(Padding)
    assert (outcome.error, outcome.reports, outcome.transport.sent[1:]) == (None, [], [PONG])


async def test_a_receiver_that_does_not_catch_such_an_error_ends_the_session(serve: Serve) -> None:
    class Careless(Played):
        async def receive(self) -> None:
            await self.on_message(b"{")

    outcome = await serve(Careless)
    assert type(outcome.error) is MessageParseError
    assert len(outcome.reports) == 1
    assert outcome.transport.closed == 1


async def test_messages_of_several_lines_and_before_start_has_returned_are_received(serve: Serve) -> None:
    class Early(Played):
        is_started = False

        async def start(self) -> None:
            await self.on_message(HELLO.replace(b",", b",\r\n"))
            await self.on_message(PING)
            self.is_started = True
            self.tasks.start_soon(self.receive)

        async def receive(self) -> None:
            await until(lambda: PONG in self.sent)
            self.on_close()

        async def send(self, message: bytes) -> None:
            assert self.is_started
            await super().send(message)

    outcome = await serve(Early)
    assert (outcome.error, outcome.reports) == (None, [])


async def test_closing_again_and_messages_after_that_change_nothing(serve: Serve) -> None:
    class Closing(Played):
        async def receive(self) -> None:
            await self.on_message(HELLO)
            self.on_close()
            self.on_close()
            await self.on_message(PING)

        async def close(self) -> None:
            await super().close()
            self.on_close()

    outcome = await serve(Closing)
    assert (outcome.error, outcome.reports, outcome.transport.closed) == (None, [], 1)
    assert PONG not in outcome.transport.sent


async def test_nothing_is_sent_to_a_client_that_has_gone_during_a_call(serve: Serve) -> None:
    class Gone(Played):
        async def receive(self) -> None:
            await self.on_message(HELLO)

        async def send(self, message: bytes) -> None:
            await super().send(message)
            self.on_close()
            await trio.sleep_forever()

    outcome = await serve(Gone)
    assert (outcome.error, outcome.reports, outcome.transport.closed) == (None, [], 1)


async def test_errors_after_which_a_transport_goes_on_are_reported(serve: Serve) -> None:
    class Unsteady(Played):
        async def receive(self) -> None:
            for _ in range(2):
                self.on_error(OSError("connected again\n\x1b[2J"))
            await super().receive()

    outcome = await serve(Unsteady)
    assert outcome.error is None
    assert outcome.reports == ["OSError: connected again [2J"] * 2


@pytest.mark.parametrize("name", ["start", "send", "close"])
async def test_an_object_without_a_method_is_no_transport(serve: Serve, name: str) -> None:
    class Lacking(Played):
        pass

    setattr(Lacking, name, None)
    outcome = await serve(Lacking)
    assert type(outcome.error) is TransportLoadError
    assert outcome.reports == [f"TransportLoadError: Lacking has no method {name}"]
    assert outcome.transport.closed == 0


async def test_an_object_that_cannot_be_made_is_no_transport(serve: Serve) -> None:
    class Unmade(Played):
        def __init__(self, tasks: trio.Nursery) -> None:
            super().__init__(tasks)
            raise KeyError("TRANSPORT_SOCKET")

    outcome = await serve(Unmade)
    assert outcome.reports == ["TransportLoadError: the transport cannot be made: 'TRANSPORT_SOCKET'"]
