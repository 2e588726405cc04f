"""MCP clients at the WebSocket proxy: list, connect, disconnect and forwarded messages. Sans-IO.

A client finds its extension through a `ClientDirectory`, and reaches it through an `ExtensionConnection`.
Rules: docs/PROXY_PROTOCOL.md, "Control methods" and "Forwarded messages".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Protocol

import msgspec

from native_host.protocol import jsonrpc, wire
from native_host.protocol.announcements import AnnouncementKey, AnnouncementMeta, Kind
from native_host.protocol.jsonrpc import Envelope, UndecodableError
from native_host.protocol.rate_limit import RateLimiter
from native_host.protocol.validation_errors import describe_problem
from native_host.protocol.wire import Code
from websocket_proxy import protocol
from websocket_proxy.dialects import ClientEnvelope, decode_client
from websocket_proxy.handshakes import (
    AdmitClient,
    ClientHandshake,
    Close,
    Rejection,
    Renew,
    Send,
    Step,
    VerifiedToken,
    Verify,
    find_request_problem,
)
from websocket_proxy.limits import KIB
from websocket_proxy.peer import ClientSocket, NodeContext, Peer, clean_name
from websocket_proxy.protocol import (
    CloseCode,
    DisconnectReason,
    ExtensionList,
    Handshake,
    ListedExtension,
    ProxyCode,
    Role,
)

_nothing = msgspec.json.Decoder(protocol.Nothing)
_connect = msgspec.json.Decoder(protocol.Connect)
SESSIONS_BYTES = 256 * KIB
"""Bytes of the sessions of an extension's clients together: each change of one sends all to each of them.
Above it a notification is dropped."""
_FULL_RETRY_MS = 10_000
"""Milliseconds after which a client above the limit of its user may try again."""
_EXTENSIONS = AnnouncementMeta(AnnouncementKey(Kind.EXTENSIONS))


class ClientProfile(NamedTuple):
    """Description of a client for its extension."""

    name: str
    version: str
    speaks_wire: bool


class ExtensionConnection(Protocol):
    """Connection of a client to an extension, wherever the extension is."""

    connection_id: str
    extension_id: str
    extension_name: str

    @property
    def accepts_messages(self) -> bool:
        """Return whether the client may be read; `on_room` of the client follows when this changes."""

    def begin(self, now_s: float) -> None:
        """Let messages flow towards the client, which has the response to `connect`."""

    def forward(self, message: Envelope) -> None:
        """Forward a request, a response or a notification of the client."""

    def disconnect(self, reason: DisconnectReason, *, is_answered: bool) -> None:
        """End the connection; with `is_answered` each open request gets an error response."""


class ClientDirectory(Protocol):
    """Extensions that a client may reach. Each request is answered by a callback, at once or later."""

    is_draining: bool
    """The node shuts down: requests in flight may finish, and no further ones begin."""

    def admit_client(self, client: Client) -> bool:
        """Add an authenticated client; return whether its user may have another one."""

    def remove_client(self, client: Client) -> None:
        """Remove a client."""

    def offer_list(self, client: Client) -> None:
        """Send the list to a client that wants it: it may have missed changes."""

    def list_extensions(self, client: Client, now_s: float) -> None:
        """Call `on_listed` of the client."""

    def connect(self, client: Client, extension_id: str, now_s: float) -> None:
        """Call `on_connected` or `on_not_found` of the client."""


class RequestRates(NamedTuple):
    """Rate limits of a node, by client and by user."""

    by_client: RateLimiter
    by_user: RateLimiter


class Client(Peer):
    """A client on its WebSocket."""

    role = Role.CLIENT

    def __init__(
        self,
        socket: ClientSocket,
        directory: ClientDirectory,
        rates: RequestRates,
        context: NodeContext,
        now_s: float,
    ) -> None:
        super().__init__(socket, context)
        self.peer_id = context.make_id(protocol.CLIENT_PREFIX)
        self.profile = ClientProfile("", "", speaks_wire=False)
        self._socket = socket
        self._directory = directory
        self._rates = rates
        self._handshake = ClientHandshake(context.limits, now_s)
        self._connection: ExtensionConnection | None = None
        self._pending_id = b""
        """Id of the request that the directory is answering."""

    @property
    def can_read(self) -> bool:
        """Return whether the node should read the socket."""
        return super().can_read and (self._connection is None or self._connection.accepts_messages)

    @property
    def wants_list(self) -> bool:
        """Return whether the client receives `extensions`."""
        return self.profile.speaks_wire and self._connection is None and not self.is_closed

    @property
    def connection_id(self) -> str:
        """Id of the connection to an extension; empty: not connected."""
        return self._connection.connection_id if self._connection else ""

    @property
    def next_timer_s(self) -> float:
        """Time at which `on_timer` has something to do; infinite: never."""
        return math.inf if self.is_closed else self._handshake.next_timer_s

    def on_verified(self, token: VerifiedToken, now_s: float) -> None:
        """Use a token that the socket has verified."""
        self._take(self._handshake.on_verified(token), now_s)
        self._stop_waiting(now_s)

    def on_rejected(self, rejection: Rejection, now_s: float) -> None:
        """Reject a token that the socket has verified."""
        self._take(self._handshake.on_rejected(rejection), now_s)

    def on_closed(self, reason: DisconnectReason = DisconnectReason.CLIENT_CLOSED) -> None:
        """Release everything: the socket is gone. `reason` is for its extension."""
        if not self.is_closed:
            self._release(is_answered=False, reason=reason)
            self.is_closed = True

    def announce_shutdown(self) -> None:
        """Send `status` before the node closes the socket."""
        if self.owner and not self.is_closed:
            self._put_status(is_connected=False)

    # ── From the extension and the directory ────────────────────────────────────────────────────────────────

    def deliver(self, parts: tuple[bytes, ...], meta: AnnouncementMeta | None = None) -> None:
        """Send a message of the extension."""
        if not self.is_closed:
            self._socket.put(parts, meta)

    def on_room(self) -> None:
        """Read again: the connection accepts messages."""
        if self.can_read:
            self._socket.resume()

    def on_disconnected(self, reason: DisconnectReason) -> None:
        """Report the end of the extension; the client may connect again without `disconnect`."""
        if self._connection is None:
            return
        notice = protocol.DisconnectNotice(connection_id=self._connection.connection_id, reason=reason)
        self._connection = None
        self._put(protocol.notification("disconnected", notice))
        self._put_status()
        self._socket.resume()

    def send_list(self, extensions: list[ListedExtension]) -> None:
        """Send `extensions`, of which only the latest waits for a slow client."""
        body = protocol.notification("extensions", ExtensionList(extensions=extensions))
        self.deliver((body,), _EXTENSIONS)

    def on_listed(
        self, extensions: list[ListedExtension], now_s: float, *, is_incomplete: bool = False
    ) -> None:
        """Respond to `list_extensions`."""
        if not self.is_closed:
            listed = ExtensionList(extensions=extensions, incomplete=is_incomplete)
            self._put(protocol.result(self._pending_id, listed))
            self._stop_waiting(now_s)

    def on_connected(self, connection: ExtensionConnection, now_s: float) -> None:
        """Respond to `connect`, then let messages flow."""
        if self.is_closed:
            connection.disconnect(DisconnectReason.CLIENT_CLOSED, is_answered=False)
            return
        self._connection = connection
        confirmation = protocol.ConnectResult(
            connection_id=connection.connection_id,
            extension_id=connection.extension_id,
            extension_name=connection.extension_name,
        )
        self._put(protocol.result(self._pending_id, confirmation))
        self._put_status()
        connection.begin(now_s)
        self._stop_waiting(now_s)

    def on_not_found(self, now_s: float) -> None:
        """Respond to `connect`: the user has no such extension."""
        if not self.is_closed:
            self._fail(self._pending_id, ProxyCode.SERVER_ERROR, "Extension not found or not accessible")
            self._stop_waiting(now_s)

    # ── From the client ─────────────────────────────────────────────────────────────────────────────────────

    def _handle(self, body: bytes, now_s: float) -> None:
        if not self.owner:
            self._take(self._handshake.on_message(body), now_s)
            return
        try:
            message = decode_client(body)
        except UndecodableError as error:
            self._fail(jsonrpc.NULL_ID, error.code, str(error))
            self._count_rejected(now_s)
            return
        if message.is_request:
            self._handle_request(message, len(body), now_s)
        elif self._connection is None or not message.is_for(self._connection.connection_id):
            pass  # a late response or notification, which has no response
        elif message.is_response or self._may_notify(message, len(body), now_s):
            self._connection.forward(message)

    def _handle_request(self, message: ClientEnvelope, size: int, now_s: float) -> None:
        if problem := find_request_problem(message):
            self._context.observer.on_request_failed(self, Code.INVALID_REQUEST)
            self._put(problem)
            self._count_rejected(now_s)
            return
        raw_id = bytes(message.id)
        if wait_s := self._wait_s(now_s):
            text = "too many requests in a minute"
            retry_after_ms = math.ceil(wait_s * 1000)
            self._fail(raw_id, Code.RATE_LIMITED, text, retry_after_ms)
        elif handle := self._CONTROLS.get(message.method):
            handle(self, message, now_s)
        else:
            self._forward(raw_id, message, size, now_s)

    def _wait_s(self, now_s: float) -> float:
        by_client = self._rates.by_client.wait_s(self.peer_id, now_s)
        return by_client or self._rates.by_user.wait_s(self.owner, now_s)

    def _may_notify(self, message: Envelope, size: int, now_s: float) -> bool:
        """Return whether a notification goes to the router, which drops all but two kinds."""
        if size > SESSIONS_BYTES:
            return False
        # A cancellation is the client's remedy against too many requests, so no limit holds it up.
        return message.method == "browser/cancel" or not self._wait_s(now_s)

    def _forward(self, raw_id: bytes, message: ClientEnvelope, size: int, now_s: float) -> None:
        if protocol.is_reserved(message.method):
            text = f"{message.method[:100]} is no request of a client"
            self._reject(raw_id, Code.METHOD_NOT_FOUND, text, now_s)
        elif self._directory.is_draining:
            self._fail(raw_id, Code.GONE, "the WebSocket proxy shuts down: send the request to its successor")
        elif self._connection is None:
            self._fail(raw_id, ProxyCode.SERVER_ERROR, "Not connected to an extension")
        elif not message.is_for(self._connection.connection_id):
            text = "connectionId: it is not the id of this socket's connection"
            self._reject(raw_id, Code.INVALID_PARAMS, text, now_s)
        elif size > (most := self._context.limits.message_bytes):
            self._fail(raw_id, Code.TOO_LARGE, f"a message of {size} bytes, the limit is {most}")
        else:
            self._context.observer.on_request(self, self._connection.connection_id, message.method)
            self._connection.forward(message)

    # ── Control methods ─────────────────────────────────────────────────────────────────────────────────────

    def _authenticate_again(self, message: Envelope, now_s: float) -> None:
        self._take(self._handshake.on_request(message), now_s)

    def _list(self, message: Envelope, now_s: float) -> None:
        if self._are_params_valid(message, _nothing, now_s):
            self._ask_directory(message)
            self._directory.list_extensions(self, now_s)

    def _connect(self, message: Envelope, now_s: float) -> None:
        if not self._are_params_valid(message, _connect, now_s):
            return
        if self._connection is not None:
            text = "MCP client already connected to an extension"
            self._fail(bytes(message.id), ProxyCode.ALREADY_CONNECTED, text)
            return
        self._ask_directory(message)
        self._directory.connect(self, _connect.decode(bytes(message.params)).extension_id, now_s)

    def _disconnect(self, message: Envelope, now_s: float) -> None:
        if not self._are_params_valid(message, _nothing, now_s):
            return
        was_connected = self._connection is not None
        self._leave(DisconnectReason.CLIENT_DISCONNECTED, is_answered=True)
        self._put(protocol.result(bytes(message.id), protocol.DisconnectResult(disconnected=True)))
        if was_connected:
            self._put_status()
            self._directory.offer_list(self)

    def _are_params_valid(self, message: Envelope, decoder: msgspec.json.Decoder[Any], now_s: float) -> bool:
        raw = bytes(message.params)
        try:
            decoder.decode(b"{}" if raw in (b"", b"null") else raw)
        except msgspec.DecodeError as error:
            text = f"{message.method}: {describe_problem(error)}"
            self._reject(bytes(message.id), Code.INVALID_PARAMS, text, now_s)
            return False
        return True

    def _ask_directory(self, message: Envelope) -> None:
        """Handle nothing else until the directory has answered."""
        self._pending_id = bytes(message.id)
        self._is_waiting = True

    _CONTROLS: ClassVar[dict[str, Callable[[Client, Envelope, float], None]]] = {
        "mcp_handshake": _authenticate_again,
        "list_extensions": _list,
        "connect": _connect,
        "disconnect": _disconnect,
    }

    # ── Opening and end ─────────────────────────────────────────────────────────────────────────────────────

    def _take(self, steps: list[Step], now_s: float) -> None:
        for step in steps:
            match step:
                case Send(body):
                    self._put(body)
                case Verify(token):
                    self._is_waiting = True
                    self._socket.verify(token, self.role)
                case AdmitClient(token, handshake, raw_id):
                    self._admit(token, handshake, raw_id, now_s)
                case Renew(raw_id):
                    self._confirm(raw_id)
                case Close():
                    self._take_close(step, now_s)

    def _admit(self, token: VerifiedToken, handshake: Handshake, raw_id: bytes, now_s: float) -> None:
        self.user_id, self.owner = token.user_id, token.owner
        client = handshake.client or wire.ClientInfo(name=handshake.client_id)
        self.profile = ClientProfile(
            clean_name(client.name, "MCP client"),
            clean_name(client.version, ""),
            speaks_wire=handshake.wire == wire.WIRE_VERSION,
        )
        self.name = self.profile.name
        if not self._directory.admit_client(self):
            text = f"{self._context.limits.clients_per_user} clients of this user are connected already"
            self._fail(raw_id, Code.RATE_LIMITED, text, _FULL_RETRY_MS)
            self.close(CloseCode.TRY_AGAIN_LATER, "Too many clients of this user", now_s)
            return
        self._context.observer.on_admitted(self)
        self._confirm(raw_id)
        self._directory.offer_list(self)

    def _confirm(self, raw_id: bytes) -> None:
        confirmation = protocol.HandshakeResult(
            authenticated=True, user_id=self.user_id, mcp_client_id=self.peer_id
        )
        self._put(protocol.result(raw_id, confirmation))

    def _handle_timer(self, now_s: float) -> None:
        self._take(self._handshake.on_timer(now_s), now_s)

    def _end(self, code: CloseCode, now_s: float) -> None:  # noqa: ARG002 - the same for every code
        self._release(is_answered=True)
        self.is_closed = True

    def _release(
        self, *, is_answered: bool, reason: DisconnectReason = DisconnectReason.CLIENT_CLOSED
    ) -> None:
        self._leave(reason, is_answered=is_answered)
        self._directory.remove_client(self)

    def _leave(self, reason: DisconnectReason, *, is_answered: bool) -> None:
        if connection := self._connection:
            connection.disconnect(reason, is_answered=is_answered)
            self._connection = None

    # ── Responses ───────────────────────────────────────────────────────────────────────────────────────────

    def _put(self, body: bytes) -> None:
        self.deliver((body,))

    def _put_status(self, *, is_connected: bool = True) -> None:
        status = protocol.Status(
            connected=is_connected,
            peer_count=1 if self._connection else 0,
            timestamp=self._context.timestamp(),
        )
        self._put(protocol.notification("status", status))

    def _fail(self, raw_id: bytes, code: int, text: str, retry_after_ms: int = 0) -> None:
        self._context.observer.on_request_failed(self, code)
        data = {"retryAfterMs": retry_after_ms} if retry_after_ms else {}
        self._put(jsonrpc.failure(raw_id, code, text, handed=False, **data))

    def _reject(self, raw_id: bytes, code: int, text: str, now_s: float) -> None:
        self._fail(raw_id, code, text)
        self._count_rejected(now_s)
