"""Extensions at the WebSocket proxy, each with its connected clients. Sans-IO.

An extension is a `MessageRouter` with its replay. Its messages wait in `outbox`, where they can be withdrawn;
the node takes them out as it writes, and reports what is written. Rules: docs/PROXY_PROTOCOL.md.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection
from typing import Protocol

import msgspec

from native_host.protocol import jsonrpc, wire
from native_host.protocol.chunking import Outbox
from native_host.protocol.jsonrpc import Envelope, UndecodableError
from native_host.protocol.wire import Code, DropReason
from native_host.relay.message_router import Delivery, MessageRouter, RouterOptions
from native_host.relay.request_ids import OwnIdSuffixes
from websocket_proxy import protocol
from websocket_proxy.clients import SESSIONS_BYTES, Client
from websocket_proxy.dialects import decode_extension, may_notify_clients
from websocket_proxy.handshakes import (
    AdmitExtension,
    Close,
    ExtensionHandshake,
    Rejection,
    Send,
    Step,
    VerifiedToken,
    Verify,
)
from websocket_proxy.peer import ExtensionSocket, NodeContext, Peer, clean_name
from websocket_proxy.protocol import CloseCode, DisconnectReason, Role

_PROXY_ID = b'"proxy:'


class ExtensionDirectory(Protocol):
    """Extensions of all users of a node."""

    def admit_extension(self, extension: Extension, client_id: str, now_s: float) -> None:
        """Call `on_admitted` or `close` of an authenticated extension, at once or later."""

    def remove_extension(self, extension: Extension, now_s: float) -> None:
        """Remove an extension whose socket closes."""

    def on_alive(self, extension: Extension, now_s: float) -> None:
        """Note that an extension has answered a ping."""

    def on_replacement_due(self, extension: Extension, now_s: float) -> None:
        """Let a newcomer replace the extension with its id, which has not answered a ping in time."""

    def on_list_changed(self, owner: str) -> None:
        """Send the list of a user's extensions to the clients that want it."""


class Extension(Peer):
    """An extension on its WebSocket."""

    role = Role.EXTENSION

    def __init__(
        self,
        socket: ExtensionSocket,
        directory: ExtensionDirectory,
        context: NodeContext,
        now_s: float,
        *,
        origin: str = "",
        direct_user: VerifiedToken | None = None,
    ) -> None:
        """Begin the opening.

        Args:
            socket: its WebSocket.
            directory: extensions of the node.
            context: parts of the node.
            now_s: the time.
            origin: `Origin` of the WebSocket request.
            direct_user: user of an extension that connects without a token, in blueprint's free mode.
        """
        super().__init__(socket, context)
        self._socket = socket
        self._directory = directory
        self._origin = origin
        self._handshake = ExtensionHandshake(context.limits, now_s, direct_user=direct_user)
        self._router = MessageRouter(_make_hello(context), _make_options(context))
        self._router.largest_bytes = context.limits.message_bytes
        self._connections: dict[str, Connection] = {}
        self._blocked: list[Connection] = []
        """Connections whose clients are not read."""
        self._replays_due_s: dict[str, float] = {}
        """Times at which replays are sent although the list of tabs is missing, the earliest first."""
        self._status_due_s = math.inf
        self._replacement_due_s = math.inf
        self._is_ours = False
        self._take(self._handshake.begin(), now_s)

    @property
    def extension_id(self) -> str:
        """Id for clients; empty: not admitted."""
        return self.peer_id

    @property
    def requests_in_flight(self) -> int:
        """Number of requests without a response."""
        return self._router.requests_in_flight

    @property
    def outbox(self) -> Outbox:
        """Messages for the socket. Call `on_written` when one that was taken out is written."""
        return self._router.outbox

    @property
    def queued_bytes(self) -> int:
        """Bytes of clients' messages that are not written."""
        return self._router.all_waiting_bytes

    @property
    def peer_count(self) -> int:
        """Number of connections."""
        return len(self._connections)

    @property
    def listed(self) -> protocol.ListedExtension:
        """Entry for `list_extensions`."""
        version = wire.WIRE_VERSION if self._is_ours else 0
        return protocol.ListedExtension(id=self.extension_id, name=self.name, connected=True, wire=version)

    @property
    def next_timer_s(self) -> float:
        """Time at which `on_timer` has something to do; infinite: never."""
        if self.is_closed:
            return math.inf
        replay_s = next(iter(self._replays_due_s.values()), math.inf)
        return min(self._handshake.next_timer_s, self._status_due_s, self._replacement_due_s, replay_s)

    # ── The socket ──────────────────────────────────────────────────────────────────────────────────────────

    def on_verified(self, token: VerifiedToken, now_s: float) -> None:
        """Use a token that the socket has verified."""
        self._take(self._handshake.on_verified(token, now_s), now_s)

    def on_rejected(self, rejection: Rejection, now_s: float) -> None:
        """Reject a token that the socket has verified."""
        self._take(self._handshake.on_rejected(rejection), now_s)

    def on_pong(self, now_s: float) -> None:
        """Note that the extension has answered a ping."""
        if not self.is_closed:
            self._directory.on_alive(self, now_s)

    def on_written(self, key: str, size: int) -> None:
        """Release the bytes of a message that is written: key and size as `outbox.pop_next` returned them."""
        self._router.on_written(key, size)
        if self._blocked:
            self._unblock()

    def on_closed(
        self,
        now_s: float,
        reason: DisconnectReason = DisconnectReason.EXTENSION_CLOSED,
        unwritten: Collection[str] = (),
    ) -> None:
        """Fail all requests in flight: the socket is gone.

        Args:
            now_s: the time.
            reason: reason for the clients.
            unwritten: keys of messages that were taken out of the outbox, and of which no byte was written.
        """
        if not self.is_closed:
            self._release(now_s, reason, unwritten)

    def announce_shutdown(self) -> None:
        """Send `status` before the node closes the socket."""
        if self.extension_id and not self.is_closed:
            self._put_status(is_connected=False)
            self._socket.wake()

    def ping(self) -> None:
        """Send a ping: another connection claims this extension's id."""
        self._socket.ping()

    # ── The directory ───────────────────────────────────────────────────────────────────────────────────────

    def wait_for_replacement(self, now_s: float) -> None:
        """Wait whether the connected extension with the same id answers a ping."""
        self._replacement_due_s = now_s + self._context.limits.replacement_ping_s

    def on_admitted(self, extension_id: str, now_s: float) -> None:
        """Confirm the extension to its socket."""
        self.peer_id = extension_id
        self._replacement_due_s = math.inf
        self._context.observer.on_admitted(self)
        confirmation = protocol.AuthenticatedNotice(
            user_id=self.user_id,
            extension_id=extension_id,
            wire=wire.WIRE_VERSION,
            version=self._context.version,
        )
        self.outbox.put("", protocol.notification("authenticated", confirmation))
        self._announce_status(now_s)
        self._directory.on_list_changed(self.owner)
        self._stop_waiting(now_s)

    def connect(self, client: Client) -> Connection:
        """Return a connection of a client, which `begin`s it after its response to `connect`."""
        return Connection(self, client, self._context.make_id(protocol.CONNECTION_PREFIX))

    # ── Connections ─────────────────────────────────────────────────────────────────────────────────────────

    def add(self, connection: Connection, now_s: float) -> None:
        """Introduce a client to the router; send it what a native host sends if it speaks the wire."""
        if self.is_closed:
            connection.client.on_disconnected(DisconnectReason.EXTENSION_CLOSED)
            return
        profile, connection_id = connection.client.profile, connection.connection_id
        self._connections[connection_id] = connection
        self._context.observer.on_connected(connection.client, self, connection_id)
        if profile.speaks_wire:
            connection.client.deliver((self._greet(connection_id),))
            self._replays_due_s[connection_id] = now_s + self._context.limits.replay_wait_s
        hello = wire.BridgeHello(wire=wire.WIRE_VERSION, version=profile.version, pid=0)
        client = wire.ClientInfo(name=profile.name, version=profile.version)
        session = wire.Session(id=connection_id, client=client)
        introduced = self._router.introduce(connection_id, hello, [session], speaks_wire=profile.speaks_wire)
        self._deliver(introduced)
        self._announce_status(now_s)

    def remove(self, connection: Connection, reason: DisconnectReason, *, is_answered: bool) -> None:
        """Cancel the requests of a client that leaves, and report its end."""
        connection_id = connection.connection_id
        if self._connections.get(connection_id) is not connection:
            return
        end = self._router.disconnect if is_answered else self._router.on_disconnected
        self._deliver(end(connection_id))
        if self._connections.pop(connection_id, None) is None:
            return  # the client read too slowly, and was closed by one of these messages
        if connection in self._blocked:
            self._blocked.remove(connection)
        self._context.observer.on_disconnected(connection_id, reason)
        self._replays_due_s.pop(connection_id, None)
        notice = protocol.DisconnectNotice(connection_id=connection_id, reason=reason)
        self.outbox.put("", protocol.notification("disconnected", notice))
        self._put_status()
        self._unblock()
        self._socket.wake()

    def forward(self, connection: Connection, message: Envelope) -> None:
        """Forward a message of a client."""
        self._deliver(self._router.handle_client_message(connection.connection_id, message))
        if connection.accepts_messages and not self._has_room(connection):
            connection.accepts_messages = False
            self._blocked.append(connection)
        if self.outbox:
            self._socket.wake()

    def _greet(self, connection_id: str) -> bytes:
        # The uuid of the connection begins with 8 hex digits, whatever the prefix.
        instance = connection_id.partition("-")[2][:8]
        digest = hashlib.sha256(self.extension_id.encode()).digest()
        hello = msgspec.structs.replace(
            _make_hello(self._context),
            instance=instance,
            browser_pid=-1 - (int.from_bytes(digest[:4]) >> 1),
            extension_origin=self._origin,
        )
        return jsonrpc.notification("host/hello", hello)

    def _has_room(self, connection: Connection) -> bool:
        limits = self._context.limits
        if self._router.waiting_bytes(connection.connection_id) > limits.client_waiting_bytes:
            return False
        return self.queued_bytes <= limits.queued_bytes_per_socket

    def _unblock(self) -> None:
        ready = [connection for connection in self._blocked if self._has_room(connection)]
        for connection in ready:
            self._blocked.remove(connection)
            connection.accepts_messages = True
            connection.client.on_room()

    def _deliver(self, deliveries: list[Delivery]) -> None:
        for delivery in deliveries:
            # A client that reads too slowly may have been closed by an earlier message.
            if connection := self._connections.get(delivery.connection):
                connection.client.deliver(delivery.parts, delivery.meta)

    # ── From the extension ──────────────────────────────────────────────────────────────────────────────────

    def _handle(self, body: bytes, now_s: float) -> None:
        if not self.extension_id:
            self._take(self._handshake.on_message(body), now_s)
            return
        try:
            message = decode_extension(body)
        except UndecodableError as error:
            self._context.observer.on_request_failed(self, error.code)
            self.outbox.put("", jsonrpc.failure(jsonrpc.NULL_ID, error.code, str(error)))
            self._socket.wake()
            self._count_rejected(now_s)
            return
        if message.method:
            self._handle_initiated(message, now_s)
        elif bytes(message.id).startswith(_PROXY_ID):
            self._take(self._handshake.on_response(message, now_s), now_s)
        else:
            self._handle_response(message, len(body))

    def _handle_response(self, message: Envelope, size: int) -> None:
        if size > (most := self._context.limits.message_bytes):
            text = f"a response of {size} bytes, the limit is {most}"
            error = jsonrpc.Error(code=Code.TOO_LARGE, message=text, data={"handed": True})
            message.result, message.error = msgspec.Raw(b""), msgspec.Raw(msgspec.json.encode(error))
        self._deliver(self._router.handle_browser_message(message))

    def _handle_initiated(self, message: Envelope, now_s: float) -> None:
        """Handle a notification or a request of the extension."""
        if message.for_ and protocol.is_reserved(message.method):
            self._reject_reserved(message, now_s)
            return
        unreadable = self._router.dropped[DropReason.BROWSER_MESSAGE]
        self._deliver(self._router.handle_browser_message(message))
        if self.outbox:
            self._socket.wake()
        if self._router.refusal is not None:
            self.close(CloseCode.POLICY_VIOLATION, "Another wire version", now_s)
            return
        if self._router.replay_bytes > (most := self._context.limits.replay_bytes):
            self.close(CloseCode.POLICY_VIOLATION, f"Tabs and tools of more than {most} bytes", now_s)
            return
        if not self._is_ours and self._router.is_browser_ours:
            self._is_ours = True
            self._directory.on_list_changed(self.owner)
        is_unaddressed = bool(message.id) and not message.for_
        if is_unaddressed or self._router.dropped[DropReason.BROWSER_MESSAGE] > unreadable:
            self._count_rejected(now_s)

    def _reject_reserved(self, message: Envelope, now_s: float) -> None:
        """Reject a message to one client that the client could take for one of the proxy's own."""
        if raw_id := bytes(message.id):
            text = f"{message.method[:100]} is no request of an extension"
            shown = raw_id if jsonrpc.is_id(raw_id) else jsonrpc.NULL_ID
            self.outbox.put("", jsonrpc.failure(shown, Code.METHOD_NOT_FOUND, text))
            self._socket.wake()
        self._count_rejected(now_s)

    # ── Opening, times and end ──────────────────────────────────────────────────────────────────────────────

    def _take(self, steps: list[Step], now_s: float) -> None:
        for step in steps:
            match step:
                case Send(body):
                    self.outbox.put("", body)
                    self._socket.wake()
                case Verify(token):
                    # A new token does not hold up responses: the old one is still valid.
                    self._is_waiting = not self.extension_id
                    self._socket.verify(token, self.role)
                case AdmitExtension(token, credentials):
                    self.user_id, self.owner = token.user_id, token.owner
                    self.name = clean_name(credentials.name, "Browser")
                    self._is_waiting = True
                    self._directory.admit_extension(self, credentials.client_id, now_s)
                case Close():
                    self._take_close(step, now_s)

    def _handle_timer(self, now_s: float) -> None:
        self._take(self._handshake.on_timer(now_s), now_s)
        if now_s >= self._replacement_due_s:
            self._replacement_due_s = math.inf
            self._directory.on_replacement_due(self, now_s)
        if now_s >= self._status_due_s and not self.is_closed:
            self._announce_status(now_s)
        due = [connection_id for connection_id, due_s in self._replays_due_s.items() if due_s <= now_s]
        for connection_id in due:
            del self._replays_due_s[connection_id]
            self._deliver(self._router.replay(connection_id))

    def _announce_status(self, now_s: float) -> None:
        """Send `status`; the next one follows after the interval."""
        self._status_due_s = now_s + self._context.limits.status_interval_s
        self._put_status()
        self._socket.wake()

    def _put_status(self, *, is_connected: bool = True) -> None:
        status = protocol.Status(
            connected=is_connected, peer_count=self.peer_count, timestamp=self._context.timestamp()
        )
        self.outbox.put_newest("status", protocol.notification("status", status))

    def _end(self, code: CloseCode, now_s: float) -> None:
        reasons = {
            CloseCode.GOING_AWAY: DisconnectReason.SHUTDOWN,
            CloseCode.REPLACED: DisconnectReason.EXTENSION_REPLACED,
        }
        reason = reasons.get(code, DisconnectReason.EXTENSION_CLOSED)
        self._release(now_s, reason, self._socket.withdraw())

    def _release(self, now_s: float, reason: DisconnectReason, unwritten: Collection[str]) -> None:
        self.is_closed = True
        self._deliver(self._router.on_browser_lost(unwritten))
        connections, self._connections = list(self._connections.values()), {}
        for connection in connections:
            self._context.observer.on_disconnected(connection.connection_id, reason)
            connection.client.on_disconnected(reason)
        self._blocked.clear()
        self._replays_due_s.clear()
        self._directory.remove_extension(self, now_s)


class Connection:
    """Connection of a client to an extension of this node."""

    def __init__(self, extension: Extension, client: Client, connection_id: str) -> None:
        self.connection_id = connection_id
        self.extension_id = extension.extension_id
        self.extension_name = extension.name
        self.client = client
        self.accepts_messages = True
        self._extension = extension

    def begin(self, now_s: float) -> None:
        """Let messages flow towards the client."""
        self._extension.add(self, now_s)

    def forward(self, message: Envelope) -> None:
        """Forward a message of the client."""
        self._extension.forward(self, message)

    def disconnect(self, reason: DisconnectReason, *, is_answered: bool) -> None:
        """End the connection; with `is_answered` each open request gets an error response."""
        self._extension.remove(self, reason, is_answered=is_answered)


def _make_options(context: NodeContext) -> RouterOptions:
    return RouterOptions(
        router_name="WebSocket proxy",
        update_command="",
        make_suffixes=OwnIdSuffixes,
        client_in_flight=context.limits.requests_in_flight_per_client,
        browser_in_flight=context.limits.requests_in_flight_per_extension,
        sessions_bytes=SESSIONS_BYTES,
        chunk_above_bytes=context.limits.received_message_bytes,
        speaks_first=False,
        logs_problems=False,
        may_notify=may_notify_clients,
    )


def _make_hello(context: NodeContext) -> wire.HostHello:
    most = context.limits.message_bytes
    return wire.HostHello(
        wire=wire.WIRE_VERSION,
        instance="",
        version=context.version,
        pid=0,
        browser_pid=0,
        extension_origin="",
        limits=wire.Limits(to_browser=most, from_browser=most, socket=most),
    )
