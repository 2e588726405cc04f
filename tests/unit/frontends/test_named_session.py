"""When the holder of a named session ends."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest
import trio
import trio.testing

from bridge.frontends import named_session
from bridge.frontends.command_calls import CommandCalls
from bridge.frontends.named_session import NamedSession, open_socket
from bridge.hub.client_session import Session
from bridge.hub.router import Router
from bridge.hub.transport import DiscoveryFinished
from fake_transport import Asked, PlayedTransport, one_page
from native_host.ipc import named_sessions
from native_host.ipc.named_sessions import (
    CallResult,
    CallTool,
    ContinuedSession,
    ListTools,
    NotStartedError,
    Rejection,
    Reply,
    Request,
    RetireHolder,
    encode_line,
)

SOON_S = 30
IDLE_S = 30 * 60
GET_CART = "website_tool_shop_example_tab1_getCart"


class Holder:
    """A holder in this process."""

    def __init__(self, path: Path, transport: PlayedTransport, session: Session) -> None:
        self.path = path
        self.transport = transport
        self.session = session
        self.end = threading.Event()

    async def call(self) -> None:
        assert isinstance(await self.ask(CallTool(name=GET_CART)), CallResult)

    async def ask(self, request: Request) -> Reply:
        return await trio.to_thread.run_sync(self._ask, request)

    def _ask(self, request: Request) -> Reply:
        connection = named_sessions.connect(self.path)
        assert connection
        with connection:
            return connection.ask(request)

    async def has_ended_after(self, seconds: float, clock: trio.testing.MockClock) -> bool:
        clock.jump(seconds)
        await trio.testing.wait_all_tasks_blocked(0.05)
        return await trio.to_thread.run_sync(self.end.wait, 0)

    async def ends(self) -> bool:
        """Wait, in real seconds, because the clock stands still."""
        return await trio.to_thread.run_sync(self.end.wait, SOON_S)


@pytest.fixture
async def holder(mcpb_home: Path) -> AsyncIterator[Holder]:
    transport = PlayedTransport()
    router = Router(transport)
    with open_socket("a") as opened:
        holder = Holder(opened.path, transport, Session("s1"))
        served = NamedSession("a", holder.session, router, opened)

        async def serve() -> None:
            await served.serve()
            holder.end.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(router.run)
            nursery.start_soon(serve)
            transport.happen(DiscoveryFinished())
            transport.connect("h1", *one_page("getCart"))
            yield holder
            nursery.cancel_scope.cancel()


async def test_a_session_ends_half_an_hour_after_its_last_call(
    holder: Holder, mock_clock: trio.testing.MockClock
) -> None:
    assert not await holder.has_ended_after(IDLE_S - 1, mock_clock)
    await holder.call()
    assert not await holder.has_ended_after(IDLE_S - 1, mock_clock)
    assert await holder.has_ended_after(2, mock_clock) or await holder.ends()


async def test_a_session_does_not_end_while_a_call_runs(
    holder: Holder, mock_clock: trio.testing.MockClock
) -> None:
    asked = threading.Event()
    waiting: list[Asked] = []

    def keep_waiting(request: Asked) -> None:
        waiting.append(request)
        asked.set()

    holder.transport.on_request = keep_waiting
    async with trio.open_nursery() as nursery:
        nursery.start_soon(holder.call)
        assert await trio.to_thread.run_sync(asked.wait, SOON_S)
        assert not await holder.has_ended_after(IDLE_S + 60, mock_clock)
        waiting[0].on_done(msgspec.json.encode(holder.transport.answer))
    assert not await holder.has_ended_after(IDLE_S - 1, mock_clock)


async def test_a_session_ends_when_its_socket_is_removed(
    holder: Holder, mock_clock: trio.testing.MockClock
) -> None:
    """Clients that cannot reach it any more would otherwise open a second one of that name."""
    holder.path.unlink()
    assert await holder.has_ended_after(15, mock_clock) or await holder.ends()


async def test_a_session_whose_socket_was_replaced_ends(
    holder: Holder, mock_clock: trio.testing.MockClock
) -> None:
    with open_socket("a"):
        assert await holder.has_ended_after(15, mock_clock) or await holder.ends()


@pytest.mark.usefixtures("mcpb_home")
def test_the_end_of_a_holder_leaves_the_socket_of_the_next_one() -> None:
    with ExitStack() as later:
        with open_socket("a") as old:
            new = later.enter_context(open_socket("a"))
            assert not old.is_published()
        assert new.is_published()


async def test_a_request_that_cannot_be_read_is_rejected_and_the_session_goes_on(
    holder: Holder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(named_session, "_MAX_REQUEST_BYTES", 1000)
    reply = await holder.ask(CallTool(name=GET_CART, arguments={"text": "x" * 100_000}))
    assert isinstance(reply, Rejection)
    assert reply.message.endswith("Nothing was run")
    await holder.call()


async def test_a_failure_of_mcpb_ends_the_request_and_not_the_session(
    holder: Holder, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        raise ValueError

    with monkeypatch.context() as patched:
        patched.setattr(CommandCalls, "list_tools", fail)
        assert isinstance(await holder.ask(ListTools()), Rejection)
    await holder.call()


async def read_line(stream: trio.SocketStream, begun: bytes = b"") -> bytes:
    while not begun.endswith(b"\n"):
        begun += await stream.receive_some()
    return begun


async def retire_slowly(holder: Holder) -> tuple[trio.SocketStream, bytes]:
    """Ask the holder to retire, and read the beginning of its reply, which fits into no socket's buffer."""
    holder.session.profiles.add("x" * 10_000_000)
    stream = await trio.open_unix_socket(str(holder.path))
    await read_line(stream)  # the greeting
    await stream.send_all(encode_line(RetireHolder()))
    return stream, await stream.receive_some(1)


async def test_a_call_that_comes_while_the_session_is_handed_over_does_not_begin(holder: Holder) -> None:
    stream, begun = await retire_slowly(holder)
    async with stream:
        with pytest.raises(NotStartedError):
            await holder.call()
        continued = msgspec.json.decode(await read_line(stream, begun), type=ContinuedSession)
    assert continued.id == holder.session.id
    assert await holder.ends()


async def test_a_session_whose_next_holder_has_gone_goes_on(holder: Holder) -> None:
    stream, _ = await retire_slowly(holder)
    await stream.aclose()
    await holder.call()
