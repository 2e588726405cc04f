"""The stdio front end: lines in, lines out, and an end in time."""

from collections.abc import AsyncIterator

import pytest
import trio
import trio.testing

from bridge.frontends import stdio
from bridge.hub.routing import Router
from bridge.hub.sessions import Session
from bridge.hub.transport import LookedAround
from bridge.server import McpServer
from mcp_lines import McpLines, Speak, speaking_with
from played_transport import PlayedTransport
from said_by_hosts import one_page

SOON_S = 5
PING = b'{"jsonrpc":"2.0","id":%d,"method":"ping"}'


class WaitingTransport(PlayedTransport):
    """Pages that answer when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.may_answer = trio.Event()

    async def request(self, *asked: object, **more: object) -> bytes:
        await self.may_answer.wait()
        return await super().request(*asked, **more)  # type: ignore[arg-type]


@pytest.fixture
def transport() -> WaitingTransport:
    return WaitingTransport()


@pytest.fixture
async def client(transport: WaitingTransport) -> AsyncIterator[McpLines]:
    router = Router(transport)
    transport.happen(LookedAround())
    transport.connect("h1", *one_page("getCart"))

    async def serve(speak: Speak) -> None:
        await speak(McpServer(router, Session("s1"), lambda: None))

    async with speaking_with(serve) as client:
        with trio.fail_after(SOON_S):
            await client.shake_hands()
        yield client


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
    assert refusal["error"] == {"code": -32600, "message": "the line is too long"}


async def test_what_was_asked_before_the_end_of_stdin_is_answered(
    client: McpLines, transport: WaitingTransport
) -> None:
    with trio.fail_after(SOON_S):
        arguments = {"name": "website_tool_shop_example_tab1_getCart"}
        request_id = await client.send("tools/call", arguments)
        await client.aclose()
        transport.may_answer.set()
        assert (await client.answer_to(request_id))["content"][0]["text"] == "tea"


async def test_what_takes_longer_than_the_goodbye_is_given_up(
    client: McpLines, autojump_clock: trio.testing.MockClock
) -> None:
    request_id = await client.send("tools/call", {"name": "website_tool_shop_example_tab1_getCart"})
    await client.aclose()
    ended_at = trio.current_time()
    answer = await client.answer_to(request_id)
    assert answer["error"]["message"] == "Connection closed"
    assert trio.current_time() - ended_at == pytest.approx(stdio.GOODBYE_S)


# The package leaves its streams open when it is cancelled; the process ends then.
@pytest.mark.filterwarnings("ignore:.*MemoryObject:pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    ("lines", "ends_after_s"),
    [
        (PING % 1 + b"\n" + PING % 2 + b"\n", 2 * stdio.GOODBYE_S),
        (b"no message\nno message\n", stdio.STALLED_S),
    ],
    ids=["requests", "no messages"],
)
async def test_a_client_that_is_gone_and_reads_nothing_more_does_not_keep_the_bridge_alive(
    transport: WaitingTransport,
    lines: bytes,
    ends_after_s: float,
    autojump_clock: trio.testing.MockClock,
) -> None:
    to_server, stdin = trio.testing.memory_stream_one_way_pair()
    stdout, _unread = trio.testing.lockstep_stream_one_way_pair()
    await to_server.send_all(lines)  # the first one's answer is being written, without end
    await to_server.aclose()
    began = trio.current_time()
    server = McpServer(Router(transport), Session("s1"), lambda: None)
    with trio.fail_after(2 * stdio.STALLED_S):
        await stdio.serve_streams(server, stdin, stdout)
    assert trio.current_time() - began == pytest.approx(ends_after_s)
