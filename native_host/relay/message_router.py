"""Routes each message between one browser and its clients. Sans-IO.

Towards the browser messages go into `outbox`; towards clients they are returned as deliveries. The owner of
the descriptors (`RelayServer`, or a node of the WebSocket proxy) moves the bytes, and reports messages,
connections and disconnections. `RouterOptions` has all that differs between the two.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection
from itertools import chain
from typing import NamedTuple

import msgspec

from native_host.protocol import jsonrpc, wire
from native_host.protocol.announcements import AnnouncementKey, AnnouncementMeta, Kind
from native_host.protocol.chunking import Outbox
from native_host.protocol.jsonrpc import Envelope, UndecodableError
from native_host.protocol.untrusted_text import single_line
from native_host.protocol.validation_errors import describe_problem
from native_host.protocol.wire import Code, DropReason
from native_host.relay.replay import Announcement, Replay
from native_host.relay.request_ids import (
    IdInUseError,
    IdSuffixes,
    NumberedSuffixes,
    OpenElicitations,
    RequestIds,
    TooManyRequestsError,
)

logger = logging.getLogger(__name__)

_encode = msgspec.json.encode
_shared_id = msgspec.json.Decoder(str)
_browser_hello = msgspec.json.Decoder(wire.BrowserHello)
_bridge_hello = msgspec.json.Decoder(wire.BridgeHello)
_chunk_abort = msgspec.json.Decoder(wire.ChunkAbort)
_bridge_sessions = msgspec.json.Decoder(wire.BridgeSessions)


_REFUSALS_WAIT_BELOW = 10_000
"""Queued messages for the browser above which its own requests are dropped instead of rejected."""
_INVALID_ID = f"an id is a string or a number of at most {jsonrpc.ID_BYTES} bytes"
_REPORTS = {"browser/progress": Kind.PROGRESS, "browser/resourceUpdated": Kind.RESOURCE_UPDATED}
"""Messages about a request of which only the latest matters to a slow client."""


class Delivery(NamedTuple):
    """Message for one client, in parts; its connection closes after the last one."""

    connection: str
    parts: tuple[bytes, ...]
    is_last: bool = False
    meta: AnnouncementMeta | None = None


class RouterOptions(NamedTuple):
    """Differences between native messaging, whose values are the defaults, and the WebSocket proxy."""

    router_name: str = "native host"
    """Name of this end in messages about wire versions."""
    update_command: str = "mcpb install-native-host"
    """Command that updates this end; empty: the user of the browser cannot."""
    make_suffixes: Callable[[], IdSuffixes] = NumberedSuffixes
    """Source of request ids for each connection."""
    client_in_flight: int = wire.CLIENT_IN_FLIGHT
    """Requests in flight of one client."""
    browser_in_flight: float = float("inf")
    """Requests in flight of all clients together."""
    sessions_bytes: float = float("inf")
    """Bytes of the sessions of all clients together, which each change of one sends to all of them."""
    chunk_above_bytes: int = wire.TO_BROWSER_BYTES
    """Size above which messages for the browser are sent in chunks."""
    speaks_first: bool = True
    """True if every browser has our extension: `host/hello` goes out before its `browser/hello`. Otherwise an
    extension without `browser/hello` is foreign: it receives neither `host/clients` nor `browser/cancel`."""
    logs_problems: bool = True
    """Log why a message cannot be read. Such a text may quote what another user does."""
    may_notify: Callable[[str], bool] = lambda _method: False
    """Return whether a notification of a foreign extension is forwarded to all its clients."""


NATIVE = RouterOptions()


class _Cancel(wire.Wire, kw_only=True):
    id: msgspec.Raw


_cancel = msgspec.json.Decoder(_Cancel)


class _Client(msgspec.Struct):
    connection: str
    hello: wire.BridgeHello | None = None
    speaks_wire: bool = True
    """False for a foreign client: it receives neither announcements nor messages with `for`."""
    sessions: list[wire.Session] = msgspec.field(default_factory=list)
    sessions_bytes: int = 0
    rules: str = ""
    hears: bool = False
    """It has received the replay, so announcements reach it at once."""
    waiting_bytes: int = 0
    """Bytes of its messages that are not written to the browser."""


class MessageRouter:
    """Router between one browser and its clients; `hello` introduces the host to both."""

    def __init__(self, hello: wire.HostHello, options: RouterOptions = NATIVE) -> None:
        self.outbox = Outbox(options.chunk_above_bytes)
        self.largest_bytes = wire.CHUNKED_BYTES
        self.browser: wire.BrowserHello | None = None
        self.all_waiting_bytes = 0
        """Bytes of all clients' messages that wait for the browser."""
        self.dropped: Counter[DropReason] = Counter()
        self.refusal: wire.HostError | None = None
        """Rejection of the extension, which speaks another wire version."""
        self._options = options
        self._about_host = hello
        self._hello = jsonrpc.notification("host/hello", hello)
        self._clients: dict[str, _Client] = {}
        self._correlation = RequestIds(
            options.make_suffixes,
            max_per_connection=options.client_in_flight,
            max_in_all=options.browser_in_flight,
        )
        self._questions = OpenElicitations()
        self._replay = Replay()
        if options.speaks_first:
            self.outbox.put("", self._hello)

    @property
    def is_browser_ours(self) -> bool:
        """Return whether the browser has our extension, as far as is known."""
        return self._options.speaks_first or self.browser is not None

    def count_dropped(self, why: DropReason) -> None:
        """Count a dropped message; the first of each kind is logged, unless peers are strangers."""
        if why not in self.dropped and self._options.logs_problems:
            logger.warning("dropped a message (%s); further ones are only counted", why)
        self.dropped[why] += 1

    # ── Clients come and go ─────────────────────────────────────────────────────────────────────────────────

    def on_connected(self, connection: str) -> list[Delivery]:
        """Add a client, which then sends `bridge/hello`."""
        self._clients[connection] = _Client(connection)
        return [Delivery(connection, (self._hello,))]

    def introduce(
        self, connection: str, hello: wire.BridgeHello, sessions: list[wire.Session], *, speaks_wire: bool
    ) -> list[Delivery]:
        """Add a client that needs no `bridge/hello`; send it the replay if that is complete."""
        client = _Client(connection, hello=hello, speaks_wire=speaks_wire, sessions=sessions)
        self._clients[connection] = client
        replay = self.replay(connection) if self._replay.has_tabs else []
        return replay + self._tell_clients()

    def has_said_hello(self, connection: str) -> bool:
        """Return whether the client has sent `bridge/hello`."""
        client = self._clients.get(connection)
        return client is not None and client.hello is not None

    def waiting_bytes(self, connection: str) -> int:
        """Return the bytes of the client's messages that wait for the browser."""
        client = self._clients.get(connection)
        return client.waiting_bytes if client else 0

    @property
    def replay_bytes(self) -> int:
        """Bytes of the announcements that are kept for late clients."""
        return self._replay.size

    @property
    def requests_in_flight(self) -> int:
        """Number of requests without a response."""
        return len(self._correlation)

    def disconnect(self, connection: str) -> list[Delivery]:
        """Remove a client that can still receive: each of its calls gets an error."""
        failed = []
        for raw_id, shared in self._correlation.open_requests(connection).items():
            self._correlation.complete(shared)
            is_handed = self._withdraw(shared) is None
            error = jsonrpc.failure(raw_id, Code.GONE, "the client disconnected", handed=is_handed)
            failed.append(Delivery(connection, (error,)))
        return failed + self.on_disconnected(connection)

    def on_disconnected(self, connection: str) -> list[Delivery]:
        """Remove a client: cancel its calls, and answer the server requests that it was asked."""
        client = self._clients.pop(connection, None)
        for shared in self._correlation.abandon(connection):
            self._withdraw(shared)
        for raw_id in self._questions.abandon(connection):
            self.outbox.put("", jsonrpc.failure(raw_id, Code.GONE, "the MCP client went away"))
        if client is None:
            return []
        self._count_waiting(client, -client.waiting_bytes)
        return self._tell_clients() if client.hello else []

    def replay(self, connection: str) -> list[Delivery]:
        """Send the replay, once; afterwards the client receives announcements."""
        client = self._clients.get(connection)
        if client is None or client.hears or not client.speaks_wire:
            return []
        client.hears = True
        return [Delivery(connection, (body,)) for body in self._replay.messages()]

    # ── From a client ───────────────────────────────────────────────────────────────────────────────────────

    def from_client(self, connection: str, body: bytes) -> list[Delivery]:
        """Handle a message of a client."""
        client = self._clients[connection]
        try:
            message = jsonrpc.decode(body)
        except UndecodableError as error:
            return [Delivery(connection, (jsonrpc.failure(jsonrpc.NULL_ID, error.code, str(error)),))]
        if client.hello is None:
            return self._introduce(client, message)
        return self._client_message(client, message)

    def handle_client_message(self, connection: str, message: Envelope) -> list[Delivery]:
        """Handle a decoded message of a client that was introduced."""
        return self._client_message(self._clients[connection], message)

    def _client_message(self, client: _Client, message: Envelope) -> list[Delivery]:
        if message.is_request:
            return self._request(client, message)
        if message.is_response:
            return self._answer_question(client, message)
        return self._client_notification(client, message)

    def _introduce(self, client: _Client, message: Envelope) -> list[Delivery]:
        if message.method != "bridge/hello":
            return [_refuse(client, Code.INVALID_REQUEST, "bridge/hello has to come first")]
        try:
            hello = _bridge_hello.decode(bytes(message.params))
        except msgspec.DecodeError as error:
            return [_refuse(client, Code.INVALID_PARAMS, f"bridge/hello: {describe_problem(error)}")]
        if hello.wire != wire.WIRE_VERSION:
            return [_refuse_wire(client, hello)]
        client.hello = hello
        if self.refusal is not None:
            return [_say_last(client, self.refusal)]
        replay = self.replay(client.connection) if self._replay.has_tabs else []
        return replay + self._tell_clients()

    def _request(self, client: _Client, message: Envelope) -> list[Delivery]:
        raw_id = bytes(message.id)
        refused = self._forward(client, raw_id, message)
        return [Delivery(client.connection, (refused,))] if refused else []

    def _forward(self, client: _Client, raw_id: bytes, message: Envelope) -> bytes | None:
        """Pass a request on to the extension, or return the error response."""
        if not jsonrpc.is_id(raw_id):
            return jsonrpc.failure(jsonrpc.NULL_ID, Code.INVALID_REQUEST, _INVALID_ID)
        if message.method.startswith(("host/", "bridge/")):
            return jsonrpc.failure(raw_id, Code.METHOD_NOT_FOUND, f"{message.method} is not a request")
        try:
            shared = self._correlation.register(client.connection, raw_id)
        except IdInUseError as error:
            return jsonrpc.failure(raw_id, Code.INVALID_REQUEST, str(error))
        except TooManyRequestsError as error:
            return jsonrpc.failure(raw_id, Code.RATE_LIMITED, str(error), retryAfterMs=100)
        body = jsonrpc.request(_encode(shared), message.method, message.params)
        if len(body) > self.largest_bytes:
            self._correlation.complete(shared)
            text = f"{len(body)} bytes for the browser, the limit is {self.largest_bytes}"
            return jsonrpc.failure(raw_id, Code.TOO_LARGE, text)
        self._count_waiting(client, len(body))
        self.outbox.put(shared, body)
        return None

    def _answer_question(self, client: _Client, message: Envelope) -> list[Delivery]:
        raw_id = bytes(message.id)
        if self._questions.answer(raw_id, client.connection):
            self.outbox.put("", b"".join(jsonrpc.answer(raw_id, message)))
        else:
            self.count_dropped(DropReason.RESPONSE_WITHOUT_REQUEST)
        return []

    def _client_notification(self, client: _Client, message: Envelope) -> list[Delivery]:
        try:
            params = bytes(message.params)
            if message.method == "bridge/sessions" and self._may_store(client, len(params)):
                told = _bridge_sessions.decode(params)
                client.sessions, client.rules, client.sessions_bytes = told.sessions, told.rules, len(params)
                return self._tell_clients()
            if message.method == "browser/cancel":
                self._cancel(client, bytes(_cancel.decode(params).id))
                return []
        except msgspec.DecodeError as error:
            if self._options.logs_problems:
                logger.warning("client %s: %s: %s", client.connection, message.method, error)
        self.count_dropped(DropReason.CLIENT_NOTIFICATION)
        return []

    def _may_store(self, client: _Client, sessions_bytes: int) -> bool:
        others = sum(each.sessions_bytes for each in self._clients.values() if each is not client)
        return client.speaks_wire and others + sessions_bytes <= self._options.sessions_bytes

    def _cancel(self, client: _Client, raw_id: bytes) -> None:
        shared = self._correlation.cancel(client.connection, raw_id)
        if shared is not None:
            self._questions.close(shared)
            self._count_waiting(client, -(self._withdraw(shared) or 0))

    def _withdraw(self, shared: str) -> int | None:
        """Cancel a request in the outbox or in the browser; return the bytes that this frees in the outbox.

        None: it has left the outbox.
        """
        freed = self.outbox.abort(shared, "cancelled")
        if freed is None and self.is_browser_ours:
            self.outbox.put("", jsonrpc.notification("browser/cancel", b'{"id":%b}' % _encode(shared)))
        return freed

    # ── From the browser ────────────────────────────────────────────────────────────────────────────────────

    def from_browser(self, body: bytes) -> list[Delivery]:
        """Handle a message of the extension. An invalid one is dropped; the next may be valid."""
        try:
            message = jsonrpc.decode(body)
        except UndecodableError as error:
            return self._drop_browser_message(error)
        return self.handle_browser_message(message)

    def handle_browser_message(self, message: Envelope) -> list[Delivery]:
        """Handle a decoded message of the extension, as `from_browser` does."""
        try:
            if message.is_response:
                return self._answer(message)
            if message.id and not jsonrpc.is_id(bytes(message.id)):
                self._refuse_browser(jsonrpc.NULL_ID, Code.INVALID_REQUEST, _INVALID_ID)
                self.count_dropped(DropReason.BROWSER_MESSAGE)
                return []
            if message.for_:
                return self._to_asker(message)
            if message.is_request:
                text = f"{message.method} needs `for`: which call it belongs to"
                self._refuse_browser(bytes(message.id), Code.METHOD_NOT_FOUND, text)
                return []
            return self._announcement(message)
        except msgspec.DecodeError as error:
            return self._drop_browser_message(error)

    def _drop_browser_message(self, error: UndecodableError | msgspec.DecodeError) -> list[Delivery]:
        if self._options.logs_problems:
            logger.warning("the browser sent what cannot be read: %s", error)
        self.count_dropped(DropReason.BROWSER_MESSAGE)
        return []

    def on_browser_lost(self, unwritten: Collection[str] = ()) -> list[Delivery]:
        """Fail every request in flight: the browser is gone. The router is not used afterwards.

        Args:
            unwritten: keys of bodies that have left the outbox, and of which no byte was written.
        """
        queued = self.outbox.withdraw_keyed().union(unwritten)
        self._replay = Replay()
        failed = []
        for connection in self._clients:
            for raw_id, shared in self._correlation.open_requests(connection).items():
                self._correlation.complete(shared)
                is_handed = shared not in queued
                error = jsonrpc.failure(raw_id, Code.GONE, "the extension is gone", handed=is_handed)
                failed.append(Delivery(connection, (error,)))
        return failed

    def _answer(self, message: Envelope) -> list[Delivery]:
        shared = _decode_shared_id(message.id)
        asker = self._correlation.complete(shared)
        if asker is None:
            self.count_dropped(DropReason.LATE_RESPONSE)
            return []
        self._questions.close(shared)
        return [Delivery(asker.connection, jsonrpc.answer(asker.raw_id, message))]

    def _to_asker(self, message: Envelope) -> list[Delivery]:
        shared = _decode_shared_id(message.for_)
        asker = self._correlation.find(shared)
        raw_id = bytes(message.id)
        if asker is None:
            self.count_dropped(DropReason.MESSAGE_WITHOUT_CALL)
            if raw_id:
                self._refuse_browser(raw_id, Code.GONE, "the client has gone")
            return []
        if not self._clients[asker.connection].speaks_wire:
            if raw_id:
                self._refuse_browser(raw_id, Code.METHOD_NOT_FOUND, "this client cannot be asked")
            return []
        if raw_id:
            try:
                self._questions.ask(raw_id, asker.connection, shared)
            except TooManyRequestsError as error:
                self._refuse_browser(raw_id, Code.RATE_LIMITED, str(error))
                return []
        said = (jsonrpc.address_to(message, asker.raw_id),)
        kind = _REPORTS.get(message.method)
        meta = AnnouncementMeta(AnnouncementKey(kind, which=shared)) if kind else None
        return [Delivery(asker.connection, said, meta=meta)]

    def _refuse_browser(self, raw_id: bytes, code: Code, text: str) -> None:
        """Reject a request of the extension, unless the extension reads no responses."""
        if len(self.outbox) < _REFUSALS_WAIT_BELOW:
            self.outbox.put("", jsonrpc.failure(raw_id, code, text))
        else:
            self.count_dropped(DropReason.UNREAD_REJECTION)

    def _announcement(self, message: Envelope) -> list[Delivery]:
        method, params = message.method, bytes(message.params)
        if method == "host/chunkAbort":
            return self._transfer_refused(_chunk_abort.decode(params))
        if method == "browser/hello":
            is_first = self.browser is None
            self.browser = _browser_hello.decode(params)
            if is_first and self.browser.exits and self._options.logs_problems:
                _log_exits(self.browser.exits)
            if self.browser.wire != wire.WIRE_VERSION:
                return self._refuse_extension(self.browser)
            if is_first and not self._options.speaks_first:
                return self._tell_clients() + self._broadcast_all(method, params)
        elif method not in wire.ANNOUNCEMENTS:
            return self._forward_notification(method, params)
        return self._broadcast_all(method, params)

    def _forward_notification(self, method: str, params: bytes) -> list[Delivery]:
        """Forward a notification of a foreign extension to all its clients; drop another one."""
        if self.is_browser_ours or not self._options.may_notify(method):
            self.count_dropped(DropReason.BROWSER_NOTIFICATION)
            return []
        body = jsonrpc.notification(method, params)
        return [Delivery(connection, (body,)) for connection in self._clients]

    def _broadcast_all(self, method: str, params: bytes) -> list[Delivery]:
        """Store an announcement, and send it to the clients that receive announcements."""
        had_tabs = self._replay.has_tabs
        announced = self._replay.keep(method, params)
        heard = list(chain.from_iterable(map(self._broadcast, announced)))
        return heard if had_tabs or not self._replay.has_tabs else heard + self._replay_to_those_who_wait()

    def _replay_to_those_who_wait(self) -> list[Delivery]:
        waiting = [client.connection for client in self._clients.values() if client.hello]
        return [delivery for connection in waiting for delivery in self.replay(connection)]

    def _broadcast(self, announcement: Announcement) -> list[Delivery]:
        said = (jsonrpc.notification(announcement.method, announcement.params),)
        hearing = [client.connection for client in self._clients.values() if client.hears]
        return [Delivery(connection, said, meta=announcement.meta) for connection in hearing]

    def _refuse_extension(self, hello: wire.BrowserHello) -> list[Delivery]:
        theirs, ours, is_firefox = hello.wire, wire.WIRE_VERSION, hello.extension.id == wire.FIREFOX_ID
        is_older = theirs < ours
        old_part = "the extension" if is_older else "mcpb"
        command = f"mcpb extension{' --firefox' * is_firefox}" if is_older else self._options.update_command
        this_end = f"{self._options.router_name} {self._about_host.version}"
        text = (
            f"The mcpb extension {hello.extension.version} speaks wire version {theirs}, the {this_end} "
            f"speaks {ours}: update {old_part}, then reload the extension."
        )
        self.refusal = wire.HostError(code=Code.WIRE_VERSION, message=text, command=command)
        self.outbox.put("", jsonrpc.notification("host/error", self.refusal))
        informed = [client for client in self._clients.values() if client.hello and client.speaks_wire]
        return [_say_last(client, self.refusal) for client in informed]

    # ── The way to the browser ──────────────────────────────────────────────────────────────────────────────

    def on_written(self, key: str, size: int) -> None:
        """Release the `size` bytes of a written body."""
        client = self._clients.get(key.partition(":")[0])  # a client's own id may contain a colon
        if client is not None:
            self._count_waiting(client, -size)

    def _count_waiting(self, client: _Client, size: int) -> None:
        client.waiting_bytes += size
        self.all_waiting_bytes += size

    def expire(self, now_s: float) -> list[Delivery]:
        """Fail the calls whose chunks the browser did not take in time."""
        text = f"the browser did not take the call within {wire.CHUNK_SECONDS:g} s"
        failed = [self._fail_transfer(key, Code.TIMED_OUT, text) for key in self.outbox.find_expired(now_s)]
        return [delivery for deliveries in failed for delivery in deliveries]

    def _transfer_refused(self, abort: wire.ChunkAbort) -> list[Delivery]:
        key = self.outbox.key_of(abort.transfer)
        if key is None:
            self.count_dropped(DropReason.CHUNK_ABORT)
            return []
        text = f"the browser could not put the call together: {abort.reason}"
        return self._fail_transfer(key, Code.TOO_LARGE, text)

    def _fail_transfer(self, key: str, code: Code, text: str) -> list[Delivery]:
        """Fail the call of an incomplete transfer: nothing of it can have reached a page."""
        self.on_written(key, self.outbox.abort(key, text) or 0)
        asker = self._correlation.complete(key)
        return [Delivery(asker.connection, (jsonrpc.failure(asker.raw_id, code, text),))] if asker else []

    def _tell_clients(self) -> list[Delivery]:
        known = [client for client in self._clients.values() if client.hello]
        clients = [
            wire.Client(
                connection=client.connection,
                pid=client.hello.pid,
                version=client.hello.version,
                sessions=client.sessions,
                rules=client.rules,
            )
            for client in known
            if client.hello
        ]
        dropped = {why.value: count for why, count in self.dropped.items()}
        body = jsonrpc.notification("host/clients", wire.HostClients(clients=clients, dropped=dropped))
        if self.is_browser_ours:
            self.outbox.put_newest("host/clients", body)
        meta = AnnouncementMeta(AnnouncementKey(Kind.CLIENTS))
        return [Delivery(client.connection, (body,), meta=meta) for client in known if client.speaks_wire]


def _decode_shared_id(raw: msgspec.Raw) -> str:
    return _shared_id.decode(bytes(raw))


def _log_exits(exits: wire.HostExits) -> None:
    reason = single_line(exits.reason, wire.TROUBLE_BYTES)
    logger.warning("this browser's native hosts have exited %d times, the last one: %s", exits.count, reason)


def _refuse(client: _Client, code: Code, text: str, command: str = "") -> Delivery:
    return _say_last(client, wire.HostError(code=code, message=text, command=command))


def _say_last(client: _Client, error: wire.HostError) -> Delivery:
    return Delivery(client.connection, (jsonrpc.notification("host/error", error),), is_last=True)


def _refuse_wire(client: _Client, hello: wire.BridgeHello) -> Delivery:
    text = (
        f"the bridge speaks wire version {hello.wire}, the browser's native host speaks {wire.WIRE_VERSION}"
    )
    if hello.wire < wire.WIRE_VERSION:
        return _refuse(client, Code.WIRE_VERSION, text + ": restart the MCP client")
    return _refuse(client, Code.WIRE_VERSION, text + ": restart the browser", "mcpb install-native-host")
