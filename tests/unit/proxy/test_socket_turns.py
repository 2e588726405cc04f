"""Turns of a node's sockets: one whose messages cost much time does not hold up the others."""

from __future__ import annotations

from typing import Any, cast

import trio
import trio.testing

from http_serving.websocket import WebSocketStream
from websocket_proxy.clients import Client
from websocket_proxy.node.peer_sockets import ClientWebSocket, PeerWebSocket
from websocket_proxy.node.settings import ProxySettings
from websocket_proxy.protocol import Role


class Node:
    """Owner of a socket that writes nothing."""

    def __init__(self) -> None:
        self.settings = ProxySettings()
        self.changed: set[PeerWebSocket] = set()
        self.full: set[PeerWebSocket] = set()

    def verify(self, socket: PeerWebSocket, token: str, role: Role) -> None:
        raise NotImplementedError

    def flush(self) -> None:
        """Write nothing."""

    def on_closed(self, socket: PeerWebSocket) -> None:
        """Note nothing."""


class Stream:
    """A stream on which three messages have arrived together."""

    close_code = 1000

    def __init__(self) -> None:
        self._messages = [b"1", b"2", b"3"]

    async def run(self) -> None:
        """Write nothing."""

    async def receive(self) -> list[bytes]:
        found, self._messages = self._messages, []
        return found

    async def finish(self, *_: object) -> None:
        """End at once."""


class Peer:
    """A client each of whose messages costs some seconds."""

    can_read = True
    is_closed = False

    def __init__(self, clock: trio.testing.MockClock, events: list[str], cost_s: float) -> None:
        self._clock, self._events, self._cost_s = clock, events, cost_s

    def on_message(self, body: bytes, now_s: float) -> None:  # noqa: ARG002 - the interface
        self._events.append(body.decode())
        self._clock.jump(self._cost_s)

    def on_closed(self, *_: object) -> None:
        """Note nothing."""


async def play(clock: trio.testing.MockClock, cost_s: float) -> str:
    """The messages in the order of handling, with a dot for each turn of another task."""
    events: list[str] = []

    async def note_turns() -> None:
        while True:
            events.append(".")
            await trio.lowlevel.checkpoint()

    socket = ClientWebSocket(Node())
    peer: Any = Peer(clock, events, cost_s)
    socket.open(cast("WebSocketStream", Stream()), cast("Client", peer))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(note_turns)
        await socket.run()
        nursery.cancel_scope.cancel()
    return "".join(events).strip(".")


async def test_between_messages_that_cost_much_time_it_is_the_turn_of_others(
    mock_clock: trio.testing.MockClock,
) -> None:
    played = await play(mock_clock, 1.0)
    assert played != "123"
    assert played.replace(".", "") == "123"


async def test_short_messages_that_have_come_together_are_handled_together(
    mock_clock: trio.testing.MockClock,
) -> None:
    assert await play(mock_clock, 0.0) == "123"
