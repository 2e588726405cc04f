"""WebSockets of extensions and clients: they move the messages and the time of a peer, which decides.

Each has one reader (`run`) and one writer (`WebSocketStream.run`). Received messages are handled in turns,
without a wait in between; then everything that they have queued is written, whichever socket it is for.
"""

from __future__ import annotations

import abc
import logging
import math
import traceback
from collections.abc import Collection
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import trio

from http_serving.websocket import CLOSE_S, WebSocketStream
from http_serving.websocket_protocol import NO_CLOSE_FRAME
from native_host.relay.coalescing import AnnouncementCoalescer
from websocket_proxy.clients import Client
from websocket_proxy.extensions import Extension
from websocket_proxy.limits import KIB
from websocket_proxy.protocol import CloseCode, DisconnectReason, Role

if TYPE_CHECKING:
    from collections.abc import Iterator

    from native_host.ipc.send_queue import Outgoing
    from native_host.protocol.announcements import AnnouncementMeta
    from websocket_proxy.claims import Identity
    from websocket_proxy.node.settings import ProxySettings

_GIVEN_BYTES = 64 * KIB
"""Bytes that an extension's writer takes at once: further messages can still be withdrawn."""
_SLOWEST_BYTES_PER_S = 256 * KIB
"""A peer with a full queue that reads slower is closed."""
_PONG_POLL_S = 0.05
"""Seconds between two looks for the pong of an extension whose id another one claims."""
_DROP_S = 1.0
"""Seconds that a peer that reads too slowly has to read the close frame."""
_TURN_S = 0.02
"""Seconds in which the messages of one socket are handled before it is the turn of others: a short message of
an extension may go to many clients."""
_SLOW = "Reads too slowly"

_log = logging.getLogger(__name__)


class SocketOwner(Protocol):
    """Node of a socket."""

    settings: ProxySettings
    changed: set[PeerWebSocket]
    """Sockets with messages to be written."""
    full: set[PeerWebSocket]
    """Sockets for which more bytes wait than the limit allows, since a reader began to handle messages."""

    def verify(self, socket: PeerWebSocket, token: str, role: Role) -> None:
        """Verify a token; the peer of the socket gets the outcome later."""

    def flush(self) -> None:
        """Write what the sockets in `changed` have to write."""

    def on_closed(self, socket: PeerWebSocket) -> None:
        """Note that the WebSocket has ended."""


AnyPeer = TypeVar("AnyPeer", Extension, Client)


class _Socket(abc.ABC, Generic[AnyPeer]):
    """WebSocket of a peer. Call `open` before `run`."""

    peer: AnyPeer
    stream: WebSocketStream

    def __init__(self, node: SocketOwner) -> None:
        self.identity: Identity | None = None
        """Bearer of the latest verified token."""
        self.close_s = CLOSE_S
        """Seconds that the peer has to read what is queued, when this end closes."""
        self.is_open = False
        """`open` has been called."""
        self.due_s = 0.0
        """Time of the next `run_timers`; 0: soon, because an event may have changed the timers."""
        self._node = node
        self._nursery: trio.Nursery | None = None
        self._resumed = trio.lowlevel.ParkingLot()
        self._waiting: set[trio.CancelScope] = set()
        """Readers that wait until this socket's queue is shorter."""
        self._is_paused = False
        """The socket is not read, so its pongs are not seen."""
        self._ping_due_s = trio.current_time() + node.settings.ping_interval_s
        self._pinged_at_s = 0.0
        self._unanswered = 0
        self._given_bytes = 0
        """Bytes that the stream has received from here."""
        self._full_since: tuple[float, int] | None = None
        """Time at which the queue was full, and the bytes that had been written by then."""

    def open(self, stream: WebSocketStream, peer: AnyPeer) -> None:
        """Connect a stream and a peer."""
        self.stream, self.peer = stream, peer
        self.is_open = True

    @property
    @abc.abstractmethod
    def queued_bytes(self) -> int:
        """Bytes that wait to be written."""

    @property
    def held_bytes(self) -> int:
        """Bytes in memory: those that wait to be written, and those of a message of which a part has come."""
        return self.queued_bytes + self.stream.partial_bytes

    # ── Reading ─────────────────────────────────────────────────────────────────────────────────────────────

    async def run(self) -> None:
        """Read until the end of the WebSocket, and close it."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            nursery.start_soon(self.stream.run)
            self._node.flush()
            try:
                await self._read()
            finally:
                self._report_end()
                self._node.on_closed(self._self)
                self._node.flush()
            await self.stream.finish()

    async def _read(self) -> None:
        node = self._node
        while messages := await self.stream.receive():
            messages.reverse()
            while messages:
                self._handle_turn(messages)
                node.flush()
                if node.full or not self.peer.can_read:
                    await self._pause(node.full.copy())
                elif messages:
                    await trio.lowlevel.checkpoint()

    def _handle_turn(self, messages: list[bytes]) -> None:
        """Handle the last messages of a list, and remove them: as many as a turn allows, at least one."""
        self._node.full.clear()
        self.due_s = 0.0
        now_s = trio.current_time()
        with self.closing_on_error(now_s):
            self.peer.on_message(messages.pop(), now_s)
            while messages and trio.current_time() < now_s + _TURN_S:
                self.peer.on_message(messages.pop(), now_s)

    async def _pause(self, full: set[PeerWebSocket]) -> None:
        """Wait until these sockets have room, and the peer can be read."""
        self._is_paused = True
        for each in full:
            await each.wait_room()
        while not (self.peer.can_read or self.peer.is_closed):
            await self._resumed.park()
        self._is_paused = False
        self._unanswered = 0

    @contextmanager
    def closing_on_error(self, now_s: float) -> Iterator[None]:
        """Close the socket if its peer raises an exception: the other sockets must not end with it."""
        try:
            yield
        except Exception as error:  # noqa: BLE001  (logged, without its text, which may quote a message)
            trace = "".join(traceback.format_tb(error.__traceback__))
            _log.error("Closed a WebSocket: unexpected %s\n%s", type(error).__name__, trace)
            self.peer.close(CloseCode.INTERNAL_ERROR, "Internal error", now_s)

    def resume(self) -> None:
        """Read again if reading was paused: `can_read` has become true."""
        self._resumed.unpark_all()

    def verify(self, token: str, role: Role) -> None:
        """Verify a token; the peer gets the outcome later."""
        self._node.verify(self._self, token, role)

    # ── Writing ─────────────────────────────────────────────────────────────────────────────────────────────

    def write(self) -> None:
        """Write what is queued, as far as the kernel takes it."""
        self.stream.flush()

    async def wait_room(self) -> None:
        """Wait until no more bytes wait than the limit allows, or the socket is about to close."""
        with trio.CancelScope() as scope, suppress(trio.BrokenResourceError):
            self._waiting.add(scope)
            try:
                if not self.peer.is_closed:
                    await self.stream.wait_room(self._node.settings.queued_bytes_per_socket)
            finally:
                self._waiting.discard(scope)

    # ── The end ─────────────────────────────────────────────────────────────────────────────────────────────

    def close(self, code: CloseCode, reason: str) -> None:
        """Write what is queued, then close."""
        self._give_all()
        self._resumed.unpark_all()
        for scope in self._waiting:
            scope.cancel()
        if self._nursery:
            self._nursery.start_soon(self.stream.finish, code, reason, self.close_s)

    def drop(self, now_s: float, reason: str = _SLOW) -> None:
        """Close the socket of a peer that fills the node's memory; withdraw what is queued."""
        self.close_s = _DROP_S
        self.peer.close(CloseCode.POLICY_VIOLATION, reason, now_s)
        self.stream.withdraw_all()

    @property
    def _was_lost(self) -> bool:
        return self.stream.close_code in {0, NO_CLOSE_FRAME}

    @abc.abstractmethod
    def _report_end(self) -> None:
        """Report the end of the stream to the peer."""

    @abc.abstractmethod
    def _lose(self, now_s: float) -> None:
        """Report to the peer that its other end does not respond."""

    def _give_all(self) -> None:
        """Give all messages that wait to the stream."""

    @property
    @abc.abstractmethod
    def _self(self) -> PeerWebSocket: ...

    # ── Times ───────────────────────────────────────────────────────────────────────────────────────────────

    def run_timers(self, now_s: float) -> None:
        """Do what is due, and set `due_s`. A socket with queued bytes is looked at every time."""
        if self.peer.is_closed:
            self.due_s = math.inf
            return
        if self.peer.next_timer_s <= now_s:
            self.peer.on_timer(now_s)
        if self._ping_due_s <= now_s:
            self._ping(now_s)
        self._check_speed(now_s)
        self.due_s = 0.0 if self.queued_bytes else min(self.peer.next_timer_s, self._ping_due_s)

    def _ping(self, now_s: float) -> None:
        if self._is_paused or self.stream.last_pong_at >= self._pinged_at_s:
            self._unanswered = 0
        if self._unanswered >= (most := self._node.settings.unanswered_pings):
            self._lose(now_s)
            self.close(CloseCode.GOING_AWAY, f"{most} pings without a pong")
            return
        self.stream.ping()
        self._pinged_at_s = now_s
        self._unanswered += 1
        self._ping_due_s = now_s + self._node.settings.ping_interval_s

    def _check_speed(self, now_s: float) -> None:
        """Close a socket that is full and read too slowly."""
        settings = self._node.settings
        if self.queued_bytes <= settings.queued_bytes_per_socket:
            self._full_since = None
            return
        written = self._given_bytes - self.stream.waiting_bytes
        since_s, before = self._full_since or (now_s, written)
        if now_s - since_s < settings.slow_reader_s:
            self._full_since = since_s, before
        elif written - before < _SLOWEST_BYTES_PER_S * settings.slow_reader_s:
            self.drop(now_s)
        else:
            self._full_since = now_s, written


class ExtensionWebSocket(_Socket[Extension]):
    """WebSocket of an extension. Messages wait in the extension's outbox."""

    def __init__(self, node: SocketOwner) -> None:
        super().__init__(node)
        self._given: list[tuple[Outgoing, str, int]] = []
        """Messages that the stream has, with their keys and sizes in the outbox."""
        self._claimed_at_s = math.inf
        """Time of a ping, because another connection claims the extension's id."""

    @property
    def queued_bytes(self) -> int:
        """Bytes that wait to be written."""
        return max(self.peer.queued_bytes, self.peer.outbox.queued_bytes + self.stream.waiting_bytes)

    def wake(self) -> None:
        """Write: messages wait in the outbox."""
        self.due_s = 0.0
        self._node.changed.add(self)

    def refill(self) -> None:
        """Give further messages to the stream, which has written all earlier ones."""
        if not (self.is_open and self.stream.accepts_messages):
            return
        for _, key, size in self._given:
            self.peer.on_written(key, size)
        self._given.clear()
        self._give(_GIVEN_BYTES)

    def _give(self, most: float) -> None:
        outbox, given = self.peer.outbox, 0
        while outbox and given < most:
            body, key, size = outbox.pop_next(0)
            self._given.append((self.stream.put(body), key, size))
            given += len(body)
        self._given_bytes += given

    def _give_all(self) -> None:
        self._give(math.inf)

    def withdraw(self) -> Collection[str]:
        """Withdraw the messages that were taken out of the outbox and of which no byte is written."""
        return [key for outgoing, key, _ in self._given if key and self.stream.withdraw(outgoing)]

    def ping(self) -> None:
        """Send a ping, then call `on_pong` of the extension when its pong arrives."""
        self._claimed_at_s = trio.current_time()
        self.due_s = 0.0
        self.stream.ping()

    def run_timers(self, now_s: float) -> None:
        """Do what is due, and set `due_s`."""
        if self.stream.last_pong_at >= self._claimed_at_s:
            self._claimed_at_s = math.inf
            self.peer.on_pong(now_s)
        super().run_timers(now_s)
        if self._claimed_at_s < math.inf:
            self.due_s = min(self.due_s, now_s + _PONG_POLL_S) if self.due_s else now_s + _PONG_POLL_S

    def _report_end(self) -> None:
        unwritten = [key for outgoing, key, _ in self._given if key and not outgoing.has_begun]
        reason = DisconnectReason.CONNECTION_LOST if self._was_lost else DisconnectReason.EXTENSION_CLOSED
        self.peer.on_closed(trio.current_time(), reason, unwritten)
        # Socket and peer refer to each other, so their memory would be free only after a garbage collection.
        self._given.clear()
        self.peer.outbox.clear()

    def _lose(self, now_s: float) -> None:
        self.peer.on_closed(now_s, DisconnectReason.CONNECTION_LOST, self.withdraw())

    @property
    def _self(self) -> PeerWebSocket:
        return self


class ClientWebSocket(_Socket[Client]):
    """WebSocket of a client."""

    _newest: AnnouncementCoalescer | None = None

    @property
    def queued_bytes(self) -> int:
        """Bytes that wait to be written."""
        return self.stream.held_bytes

    def put(self, parts: tuple[bytes, ...], meta: AnnouncementMeta | None = None) -> None:
        """Queue a message. One with `meta` may be replaced by a newer one."""
        stream, node = self.stream, self._node
        if meta is None:
            self._given_bytes += stream.put(*parts).size
        elif stream.accepts_messages:
            stream.flush()  # nothing is left out for a client that reads
            self._coalescer.put(stream.encode(parts), meta)
        self.due_s = 0.0
        node.changed.add(self)
        if stream.held_bytes > node.settings.queued_bytes_per_socket:
            node.full.add(self)

    @property
    def _coalescer(self) -> AnnouncementCoalescer:
        if self._newest is None:
            self._newest = AnnouncementCoalescer(self.stream.queue, lambda: None)
        return self._newest

    def _report_end(self) -> None:
        lost, closed = DisconnectReason.CONNECTION_LOST, DisconnectReason.CLIENT_CLOSED
        self.peer.on_closed(lost if self._was_lost else closed)

    def _lose(self, now_s: float) -> None:  # noqa: ARG002 - that of extensions needs the time
        self.peer.on_closed(DisconnectReason.CONNECTION_LOST)

    @property
    def _self(self) -> PeerWebSocket:
        return self


PeerWebSocket = ExtensionWebSocket | ClientWebSocket
