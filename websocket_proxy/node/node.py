"""Node of the WebSocket proxy: owns the sockets of all peers, their tokens, timers and end.

The peers decide (`extensions.py`, `clients.py`, `user_directory.py`); the node moves bytes and time. It opens
no port: `server.py` does.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from http import HTTPStatus

import trio

from http_serving.error_responses import RequestRejected
from http_serving.http_connection import UpgradeRequest
from http_serving.peer_credentials import Kind
from http_serving.websocket_protocol import WebSocketLimits
from http_serving.websocket_server import accept_websocket
from websocket_proxy import __version__
from websocket_proxy.claims import SKEW_S, Identity, TokenRejected
from websocket_proxy.handshakes import Rejection, VerifiedToken
from websocket_proxy.node.admission import (
    Admission,
    CountedSocket,
    ForwardedAddress,
    SocketCounts,
    shutting_down,
    values_of,
)
from websocket_proxy.node.audit import Audit, format_time
from websocket_proxy.node.metrics import Gauges
from websocket_proxy.node.peer_sockets import ClientWebSocket, ExtensionWebSocket, PeerWebSocket
from websocket_proxy.node.settings import ProxySettings
from websocket_proxy.peer import NodeContext
from websocket_proxy.protocol import CloseCode, Role
from websocket_proxy.token_verifier import TokenVerifier
from websocket_proxy.user_directory import UserDirectory

CLOSING_S = 2.0
"""Seconds over which the sockets of a node that shuts down are closed: their peers do not return at once."""
_TICK_S = 0.5
"""Seconds between two looks at all sockets; a peer's next timer may come earlier."""
_EARLIEST_TICK_S = 0.02
_CLOSE_INTERVAL_S = 0.02
_CROWDED = "Too many bytes wait in the proxy"
_LAST_CLOSE_S = 1.0
"""Seconds that a peer has to read its last messages when the node shuts down."""


class Node:
    """All sockets of a node. `run` is its task."""

    def __init__(self, settings: ProxySettings, verifier: TokenVerifier, audit: Audit) -> None:
        self.settings = settings
        self.changed: set[PeerWebSocket] = set()
        self.full: set[PeerWebSocket] = set()
        self.directory = UserDirectory(
            NodeContext(settings, __version__, lambda: format_time(time.time()), observer=audit)
        )
        self.addresses = ForwardedAddress(
            is_behind_proxy=settings.behind_tls_proxy, trusted=settings.trusted_proxies
        )
        self._verifier = verifier
        self._audit = audit
        self._counts = SocketCounts(settings)
        self._sockets: dict[PeerWebSocket, CountedSocket] = {}
        self._is_idle = trio.lowlevel.ParkingLot()
        """Where the timers wait while there is no socket."""
        self._closed = trio.lowlevel.ParkingLot()
        self._nursery: trio.Nursery | None = None
        self._partial_bytes = 0
        """Bytes of messages of which a part has come, at the last look; it costs too much for each tick."""
        self._partial_due_s = 0.0

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Verify tokens and run timers until it is cancelled."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            nursery.start_soon(self._verifier.run)
            nursery.start_soon(self._run_timers)
            task_status.started()

    @property
    def is_draining(self) -> bool:
        """Return whether the node shuts down."""
        return self.directory.is_draining

    def gauges(self) -> Gauges:
        """Return the state for metrics and reports."""
        extensions, clients = list(self._extensions()), list(self._clients())
        return Gauges(
            sockets=self._counts.total,
            unauthenticated_sockets=self._counts.unauthenticated,
            users=self.directory.user_count,
            extensions=len(extensions),
            clients=len(clients),
            connections=sum(each.peer.peer_count for each in extensions),
            requests_in_flight=self._requests_in_flight,
            queued_bytes=sum(each.queued_bytes for each in self._sockets),
            is_draining=self.is_draining,
        )

    def _extensions(self) -> Iterator[ExtensionWebSocket]:
        for each in self._sockets:
            if isinstance(each, ExtensionWebSocket) and each.peer.extension_id:
                yield each

    def _clients(self) -> Iterator[ClientWebSocket]:
        for each in self._sockets:
            if isinstance(each, ClientWebSocket) and each.peer.user_id:
                yield each

    @property
    def _requests_in_flight(self) -> int:
        return sum(each.peer.requests_in_flight for each in self._extensions())

    # ── Sockets ─────────────────────────────────────────────────────────────────────────────────────────────

    async def handle_upgrade(
        self, request: UpgradeRequest, *, admission: Admission, direct_user: VerifiedToken | None = None
    ) -> None:
        """Serve a WebSocket until its end; `direct_user` is the user of the port without tokens.

        Raises:
            RequestRejected: the request is rejected.
        """
        address = self.addresses.find(request.peer, values_of(request, b"x-forwarded-for"))
        try:
            socket = self._accept(request, admission, address, direct_user)
        except RequestRejected as rejection:
            self._audit.on_rejected(rejection.status, rejection.message, address)
            raise
        with self._counts.count(address) as self._sockets[socket]:
            if direct_user:
                self._admit(socket)
            self._is_idle.unpark_all()
            try:
                await socket.run()
            finally:
                del self._sockets[socket]
                self._closed.unpark_all()

    def check_room(self, address: str) -> None:
        """Check that a WebSocket of this address could be opened now. Raises RequestRejected (429 or 503)."""
        if self.is_draining:
            raise shutting_down()
        self._counts.check(address)

    def _accept(
        self, request: UpgradeRequest, admission: Admission, address: str, direct_user: VerifiedToken | None
    ) -> PeerWebSocket:
        role, origin = admission.check(request)
        if direct_user and (role is not Role.EXTENSION or not origin or request.peer.kind is not Kind.OURS):
            text = "this port is for extensions in browsers of the user who runs the proxy"
            raise RequestRejected(HTTPStatus.FORBIDDEN, text)
        self.check_room(address)
        now_s = trio.current_time()
        if role is Role.CLIENT:
            client = ClientWebSocket(self)
            stream = accept_websocket(request, self._first_limits)
            client.open(stream, self.directory.open_client(client, now_s))
            client.peer.address = address
            return client
        extension = ExtensionWebSocket(self)
        stream = accept_websocket(request, self._first_limits, extension.refill)
        peer = self.directory.open_extension(extension, now_s, origin=origin, direct_user=direct_user)
        extension.open(stream, peer)
        extension.peer.address = address
        return extension

    @property
    def _first_limits(self) -> WebSocketLimits:
        return WebSocketLimits(message_bytes=self.settings.unauthenticated_message_bytes)

    def _admit(self, socket: PeerWebSocket) -> None:
        """Use the limits of authenticated sockets."""
        socket.stream.max_message_bytes = self.settings.received_message_bytes
        self._sockets[socket].authenticate()

    def on_closed(self, socket: PeerWebSocket) -> None:
        """Note that a WebSocket has ended."""
        stream = socket.stream
        # The reason that a peer sends is its own text, which may have anything in it.
        reason = stream.close_reason if stream.is_closed_here else "by the peer"
        self._audit.on_closed(socket.peer, stream.close_code, reason)

    def flush(self) -> None:
        """Write what the changed sockets have to write."""
        while self.changed:
            self.changed.pop().write()

    # ── Tokens ──────────────────────────────────────────────────────────────────────────────────────────────

    def verify(self, socket: PeerWebSocket, token: str, role: Role) -> None:
        """Verify a token; the peer of the socket gets the outcome later."""
        if self._nursery:
            self._nursery.start_soon(self._verify, socket, token, role)

    async def _verify(self, socket: PeerWebSocket, token: str, role: Role) -> None:
        with socket.closing_on_error(trio.current_time()):
            await self._report_outcome(socket, token, role)
        self.flush()

    async def _report_outcome(self, socket: PeerWebSocket, token: str, role: Role) -> None:
        peer = socket.peer
        try:
            identity = await self._verifier.verify(token, role)
        except TokenRejected as error:
            outcome = partial(peer.on_rejected, Rejection(error.reason, error.detail))
        else:
            socket.identity = identity
            outcome = partial(peer.on_verified, _on_our_clock(identity))
        if peer.is_closed:
            return
        outcome(trio.current_time())
        socket.due_s = 0.0
        if peer.user_id and socket in self._sockets:
            self._admit(socket)

    def revoke(self, family: str) -> None:
        """Close the sockets of a family of tokens."""
        now_s = trio.current_time()
        for socket in list(self._sockets):
            if socket.identity and socket.identity.family == family:
                socket.peer.revoke(now_s)
        self.flush()

    def count_by_family(self) -> Counter[str]:
        """Return the number of sockets of each family of tokens."""
        return Counter(socket.identity.family for socket in self._sockets if socket.identity)

    # ── Times ───────────────────────────────────────────────────────────────────────────────────────────────

    async def _run_timers(self) -> None:
        while True:
            if not self._sockets:
                await self._is_idle.park()
            now_s = trio.current_time()
            due = [socket for socket in self._sockets if socket.due_s <= now_s]
            for socket in due:
                with socket.closing_on_error(now_s):
                    socket.run_timers(now_s)
            self.flush()
            self._limit_bytes(due, now_s)
            next_s = min((each.due_s for each in self._sockets if each.due_s), default=math.inf)
            next_s = max(next_s, now_s + _EARLIEST_TICK_S)
            await trio.sleep_until(min(next_s, now_s + _TICK_S))

    def _limit_bytes(self, due: list[PeerWebSocket], now_s: float) -> None:
        """Close sockets until few enough bytes wait: of the user with the most the fullest one first."""
        if self._partial_due_s <= now_s:
            self._partial_due_s = now_s + _TICK_S
            self._partial_bytes = sum(socket.stream.partial_bytes for socket in self._sockets)
        most = self.settings.queued_bytes
        if self._partial_bytes + sum(socket.queued_bytes for socket in due) <= most:
            return
        self._partial_due_s = 0.0
        held = {socket: socket.held_bytes for socket in self._sockets if not socket.peer.is_closed}
        users: Counter[str] = Counter()
        for socket, size in held.items():
            users[socket.peer.owner] += size
        while users.total() > most:
            owner, _ = users.most_common(1)[0]
            fullest = max((each for each in held if each.peer.owner == owner), key=held.__getitem__)
            users[owner] -= held.pop(fullest)
            fullest.drop(now_s, _CROWDED)
        self.flush()

    # ── Shutdown ────────────────────────────────────────────────────────────────────────────────────────────

    async def drain(self) -> None:
        """Accept no socket and no request; let running requests finish, then close all sockets."""
        begun_s = trio.current_time()
        self.directory.is_draining = True
        with trio.move_on_after(self.settings.drain_s):
            while self._requests_in_flight:  # noqa: ASYNC110 - responses change it, in many places
                await trio.sleep(_EARLIEST_TICK_S)
        for socket in list(self._sockets):
            socket.close_s = _LAST_CLOSE_S
            socket.peer.announce_shutdown()
        self.flush()
        end_s = begun_s + self.settings.shutdown_s
        with trio.move_on_at(end_s):
            await self._close_all(end_s)
            while self._sockets:
                await self._closed.park()

    async def _close_all(self, end_s: float) -> None:
        """Close extensions first, then clients, one after the other."""
        sockets = sorted(self._sockets, key=lambda each: each.peer.role is Role.CLIENT)
        left_s = end_s - _LAST_CLOSE_S - trio.current_time()
        interval_s = min(min(CLOSING_S, max(left_s, 0)) / max(len(sockets), 1), _CLOSE_INTERVAL_S)
        next_s = trio.current_time()
        for socket in sockets:
            socket.peer.close(CloseCode.GOING_AWAY, "The proxy shuts down", trio.current_time())
            self.flush()
            next_s += interval_s
            await trio.sleep_until(next_s)


def _on_our_clock(identity: Identity) -> VerifiedToken:
    """Return what a token says, with its end on trio's clock."""
    left_s = identity.expires_at + SKEW_S - time.time()
    expires_at_s = trio.current_time() + left_s if math.isfinite(left_s) else math.inf
    return VerifiedToken(identity.user_id, expires_at_s, identity.issuer, SKEW_S)
