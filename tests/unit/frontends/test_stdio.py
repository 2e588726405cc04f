"""The stdio front end: lines in, lines out, and an end in time."""

import json
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
import trio
import trio.testing

from bridge.frontends import stdio
from bridge.hub.client_session import Session
from bridge.hub.operation import FINISHED, Operation
from bridge.hub.router import Router
from bridge.hub.transport import DiscoveryFinished
from bridge.mcp_session import handover
from bridge.mcp_session.mcp_server import McpServer
from fake_transport import PlayedTransport, one_page
from mcp_client import McpLines, Speak, speaking_with
from native_host.ipc.streams import make_ready
from native_host.protocol import wire
from native_host.protocol.wire import Code
from wire_peers import until

SOON_S = 30
INITIALIZE = (
    b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":'
    b'{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"by hand","version":"1"}}}\n'
)
GET_CART = {"name": "website_tool_shop_example_tab1_getCart"}
PING = b'{"jsonrpc":"2.0","id":%d,"method":"ping"}'


class WaitingTransport(PlayedTransport):
    """Pages that answer when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self._may_answer = False
        self.held: list[Callable[[], object]] = []

    def send(self, *asked: Any, **more: Any) -> Operation:
        answer = partial(super().send, *asked, **more)
        if self._may_answer:
            return answer()
        self.held.append(answer)
        return FINISHED

    def let_answer(self) -> None:
        self._may_answer = True
        for answer in self.held:
            answer()


@pytest.fixture
def transport() -> WaitingTransport:
    return WaitingTransport()


@pytest.fixture
async def client(transport: WaitingTransport) -> AsyncIterator[McpLines]:
    router = Router(transport)
    transport.happen(DiscoveryFinished())
    transport.connect("h1", *one_page("getCart"))

    async def serve(speak: Speak) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(router.run)
            await speak(McpServer(router, Session("s1"), lambda: None))
            nursery.cancel_scope.cancel()

    async with speaking_with(serve) as client:
        with trio.fail_after(SOON_S):
            await client.shake_hands()
        yield client


class UnreadPipes:
    """A client that asks, and reads no answer."""

    def __init__(self) -> None:
        self.stdin, self._to_server = os.pipe()
        self.from_server, self.stdout = os.pipe()

    def fill(self) -> None:
        """So that not one answer goes out."""
        make_ready(self.stdout)
        for size in (4096, 1):
            with suppress(BlockingIOError):
                while True:
                    os.write(self.stdout, bytes(size))

    def say(self, lines: bytes) -> None:
        os.write(self._to_server, lines)

    def go(self) -> None:
        os.close(self._to_server)
        self._to_server = -1

    async def serve(self, router: Router) -> None:
        server = McpServer(router, Session("s1"), lambda: None)
        await stdio.serve_descriptors(server, self.stdin, self.stdout)

    def close(self) -> None:
        for fd in (self.stdin, self._to_server, self.from_server, self.stdout):
            with suppress(OSError):
                os.close(fd)


@pytest.fixture
def unread() -> Iterator[UnreadPipes]:
    pipes = UnreadPipes()
    yield pipes
    pipes.close()


async def next_answer_id(client: McpLines) -> object:
    return (await client.next_message())["id"]


async def test_empty_lines_and_carriage_returns_are_passed_over(client: McpLines) -> None:
    with trio.fail_after(SOON_S):
        await client.say_line(b"")
        await client.say_line(b"\r")
        await client.say_line(PING % 7 + b"\r")
        assert await next_answer_id(client) == 7


async def test_a_line_that_is_too_long_is_refused_and_the_next_one_is_read(
    client: McpLines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stdio, "MAX_LINE_BYTES", 1000)
    monkeypatch.setattr(stdio, "_READ_BYTES", 300)
    with trio.fail_after(SOON_S):
        await client.say_line(b"x" * 100_000)
        refusal = await client.next_message()
        await client.say_line(PING % 8)
        assert await next_answer_id(client) == 8
    assert refusal["error"] == {"code": -32600, "message": "the line is too long: the limit is 1000 bytes"}


async def test_a_line_far_above_what_a_call_may_carry_is_refused_before_it_is_read_whole(
    client: McpLines,
) -> None:
    with trio.fail_after(4 * SOON_S):
        await client.say_line(b"x" * (wire.CHUNKED_BYTES + 17 * wire.MIB))
        assert "the limit is 83886080 bytes" in (await client.next_message())["error"]["message"]


async def test_a_list_that_was_requested_before_the_end_of_stdin_is_sent(client: McpLines) -> None:
    with trio.fail_after(SOON_S):
        request_id = await client.send("tools/list")
        await client.aclose()
        assert GET_CART["name"] in [tool["name"] for tool in (await client.answer_to(request_id))["tools"]]
        assert await client.rest() == b""


async def test_a_script_that_has_sent_everything_before_it_is_read_gets_the_answers_of_its_calls(
    transport: WaitingTransport, unread: UnreadPipes
) -> None:
    router = Router(transport)
    transport.happen(DiscoveryFinished())
    transport.connect("h1", *one_page("getCart"))
    call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": GET_CART}
    unread.say(INITIALIZE + json.dumps(call).encode() + b"\n")
    unread.go()
    with trio.fail_after(SOON_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(router.run)
            nursery.start_soon(unread.serve, router)
            await until(lambda: len(transport.held) == 1)
            transport.let_answer()
            lines = b""
            while b'"id":2' not in lines:
                await trio.lowlevel.wait_readable(unread.from_server)
                lines += os.read(unread.from_server, 1 << 20)
            nursery.cancel_scope.cancel()
    assert b"tea" in lines


async def test_nothing_is_written_after_stdin_ends_with_a_call_open(
    client: McpLines, transport: WaitingTransport
) -> None:
    with trio.fail_after(SOON_S):
        await client.send("tools/call", GET_CART)
        await until(lambda: len(transport.held) == 1)
        await client.aclose()
        assert await client.rest() == b""


async def test_a_client_that_is_gone_and_reads_nothing_more_does_not_keep_the_bridge_alive(
    transport: WaitingTransport,
    unread: UnreadPipes,
    monkeypatch: pytest.MonkeyPatch,
    autojump_clock: trio.testing.MockClock,
) -> None:
    unread.fill()
    unread.say(b"no message\n" + INITIALIZE + PING % 2 + b"\n")
    unread.go()
    began = trio.current_time()
    with trio.fail_after(2 * stdio.STALLED_S):
        await unread.serve(Router(transport))
    assert trio.current_time() - began <= handover.GOODBYE_S + stdio.GOODBYE_S


async def test_a_client_that_asks_on_and_reads_nothing_is_given_up_in_the_end(
    transport: WaitingTransport,
    unread: UnreadPipes,
    monkeypatch: pytest.MonkeyPatch,
    autojump_clock: trio.testing.MockClock,
) -> None:
    monkeypatch.setattr(stdio, "MAX_UNREAD_BYTES", 100)
    unread.fill()
    unread.say(b"no message\n" * 100)
    began = trio.current_time()
    with trio.fail_after(2 * stdio.STALLED_S):
        await unread.serve(Router(transport))
    assert trio.current_time() - began == pytest.approx(stdio.STALLED_S)


async def test_a_request_too_many_is_refused_and_a_cancellation_makes_room_for_the_next(
    client: McpLines, monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    monkeypatch.setattr(stdio, "MAX_OPEN_REQUESTS", 2)
    with trio.fail_after(SOON_S):
        asked = [await client.send("tools/call", GET_CART) for _ in range(4)]
        began = trio.current_time()
        for request_id in asked[2:]:
            error = (await client.answer_to(request_id))["error"]
            assert (error["code"], error["message"][:20]) == (Code.RATE_LIMITED, "2 requests are open:")
        assert trio.current_time() - began == pytest.approx(stdio.COMPLETION_WAIT_S)  # once, not for each
        await client.notify("notifications/cancelled", {"requestId": asked[0]})
        assert await client.ask("ping") == {}


async def test_a_burst_of_calls_that_are_answered_soon_passes_whole(
    client: McpLines, transport: WaitingTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stdio, "MAX_OPEN_REQUESTS", 2)
    monkeypatch.setattr(stdio, "COMPLETION_WAIT_S", SOON_S)
    with trio.fail_after(SOON_S):
        asked = [await client.send("tools/call", GET_CART) for _ in range(5)]
        await trio.testing.wait_all_tasks_blocked()
        assert len(transport.held) == 2
        transport.let_answer()
        answers = [await client.answer_to(request_id) for request_id in asked]
    assert [answer["content"][0]["text"] for answer in answers] == ["tea"] * 5
