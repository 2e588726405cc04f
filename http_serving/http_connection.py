"""One HTTP/1.1 connection, on hypercorn's H11Protocol.

Of hypercorn it uses what knows HTTP: heads and bodies (by h11), the order of requests, and the translation to
ASGI. It does not use hypercorn's reader and writer: they do not report the peer, they wait for clients that
read nothing, and they change to other protocols on request.
"""

from __future__ import annotations

import itertools
import logging
import math
import socket
import struct
from collections.abc import Awaitable, Callable
from contextlib import suppress
from http import HTTPStatus
from typing import Any, NamedTuple, cast

import h11
import trio
from hypercorn.config import Config
from hypercorn.events import Closed, Event, RawData, Updated
from hypercorn.protocol.events import Event as StreamEvent
from hypercorn.protocol.events import Response
from hypercorn.protocol.h11 import H11Protocol
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import AppWrapper, ConnectionState
from starlette.types import ASGIApp

from http_serving.error_responses import RequestRejected, error_response
from http_serving.peer_credentials import Kind, Peer
from http_serving.request_tasks import RequestExchange, RequestTasks
from http_serving.tls import TlsChannel
from http_serving.tls_writer import open_writer
from native_host.system.proc import Process, SocketProcesses, read_process

MAX_HEAD_BYTES = 16 * 1024
FIRST_BYTE_S = 30.0
"""Seconds between the start of a connection and the first byte of its first request."""
KEEP_ALIVE_S = 75.0
"""Seconds between a response and the next request."""
HEAD_S = 10.0
"""Seconds from the first byte of a request to the end of its head."""
STALLED_S = 30.0
"""Seconds after which a client that reads nothing of a waiting response loses its connection."""
LINGER_S = 1.0
"""Seconds that a client has to read a rejection. Closed at once, it may lose the last bytes."""
_READ_BYTES = 64 * 1024

_REASONS = {
    HTTPStatus.BAD_REQUEST: "the head is not valid HTTP/1.1 with one Host and one length",
    HTTPStatus.REQUEST_TIMEOUT: f"the head of the request took longer than {HEAD_S:g} s",
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE: (
        f"the head of the request is too long: the limit is {MAX_HEAD_BYTES} bytes"
    ),
    HTTPStatus.NOT_IMPLEMENTED: "the transfer encoding is not supported: use chunked",
    HTTPStatus.HTTP_VERSION_NOT_SUPPORTED: "the version of HTTP is not supported: use HTTP/1.1",
}

_TLS_EXPECTED = "this port expects TLS: use https:// in place of http://"

_BOTH_LENGTHS = {b"content-length", b"transfer-encoding"}
"""Parsers that prefer one of them see different requests (RFC 9112, 11.2)."""

_numbers = itertools.count(1)
_log = logging.getLogger(__name__)


class UpgradeRequest(NamedTuple):
    """A request to continue its connection as a WebSocket, and the connection."""

    head: h11.Request
    stream: trio.SocketStream
    received: bytes
    """Bytes that came after the head."""
    peer: Peer
    tls: TlsChannel | None
    """Channel through which all bytes of the stream pass, in both directions; `received` is decrypted."""


UpgradeHandler = Callable[[UpgradeRequest], Awaitable[None]]
"""Takes the connection over and ends it, TLS included, or raises RequestRejected before it sends a byte.

The application has not seen the request: the handler also checks its authorization.
"""


async def reject_upgrade(_: UpgradeRequest) -> None:
    """Reject every upgrade.

    Raises:
        RequestRejected: always (400).
    """
    raise RequestRejected(HTTPStatus.BAD_REQUEST, "WebSocket is not supported here")


class ConnectionContext(NamedTuple):
    """Objects that all connections of one server share."""

    app: ASGIApp
    config: Config
    worker: WorkerContext
    processes: SocketProcesses
    stopped_message: str
    """Error message of a request that is open when the server stops."""
    handle_upgrade: UpgradeHandler


class HttpConnection:
    """A client's connection. It is the `Connection` of requests on it; `run` is its task."""

    def __init__(
        self, stream: trio.SocketStream, peer: Peer, context: ConnectionContext, tls: TlsChannel | None = None
    ) -> None:
        self.peer = peer
        self.name = f"connection {next(_numbers)}"
        self._context = context
        self._process: Process | None = None
        self._is_process_known = False
        self._stream = stream
        self._tls = tls
        self._outlet = open_writer(stream.socket.fileno(), tls)
        self._tasks = RequestTasks()
        self._protocol = _Http1(
            cast("AppWrapper", self._run_app),
            context.config,
            context.worker,
            self._tasks,
            ConnectionState({"connection": self}),
            tls is not None,
            _address(stream.socket.getpeername()),
            _address(stream.socket.getsockname()),
            self._send,
        )
        self._protocol.on_upgrade = self._upgrade
        self._exchange: RequestExchange | None = None
        self._scope = trio.CancelScope()
        self._reading = trio.CancelScope()
        self._deadline = math.inf
        """Deadline of `_reading`, now and the next time."""
        self._is_idle = True
        self._has_begun = False
        self._is_over = False
        self._is_upgraded = False

    async def run(self) -> None:
        """Serve one request after the other, until either end closes. Close the stream."""
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._flush_later)
                    async with self._tasks:
                        await self._read_requests()
                        await self._protocol.handle(Closed())
                    await self._close()
                    nursery.cancel_scope.cancel()
        finally:
            await trio.aclose_forcefully(self._stream)

    async def find_process(self) -> Process | None:
        """Return the process at its other end. /proc is read once, in a thread: it may take milliseconds."""
        if not self._is_process_known:
            self._process = await trio.to_thread.run_sync(self._read_process)
            self._is_process_known = True
        return self._process

    def _read_process(self) -> Process | None:
        if self.peer.pid:
            return read_process(self.peer.pid)
        return self._context.processes.find(self.peer.inode) if self.peer.kind is Kind.OURS else None

    @property
    def is_idle(self) -> bool:
        """True if no request is open. A part of the next one may have arrived."""
        return self._is_idle and not self._is_over

    @property
    def has_request(self) -> bool:
        """True if a request is open, and not one that has become a WebSocket."""
        return not (self._is_idle or self._is_over or self._is_upgraded)

    def finish(self) -> None:
        """Close soon: complete the open response now."""
        if self._is_idle:
            self._end_reading()
        elif self._exchange:
            self._exchange.finish()

    def abort(self) -> None:
        """Close now and drop all that waits to be written."""
        with suppress(OSError):  # the kernel drops it as well
            self._stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._is_over = True
        self._scope.cancel()

    # ── Requests ────────────────────────────────────────────────────────────────────────────────────────────

    async def _run_app(self, scope: Any, receive: Any, send: Any, *_for_threads: Any) -> None:
        self._exchange = exchange = RequestExchange(scope, receive, send, self.abort)
        try:
            await exchange.run(self._context.app, self._context.stopped_message)
        finally:
            if self._exchange is exchange:  # else the next request has begun
                self._exchange = None

    async def _upgrade(self, head: h11.Request, received: bytes) -> None:
        self._is_upgraded = True
        await self._context.handle_upgrade(UpgradeRequest(head, self._stream, received, self.peer, self._tls))
        self._tls = None  # the handler has ended it

    # ── Reading ─────────────────────────────────────────────────────────────────────────────────────────────

    async def _read_requests(self) -> None:
        self._set_deadline(FIRST_BYTE_S)
        while not self._is_over and (data := await self._receive()):
            if self._is_idle and not self._has_begun:
                self._has_begun = True
                self._set_deadline(HEAD_S)
            await self._protocol.handle(RawData(data))

    async def _receive(self) -> bytes:
        """Return the next bytes; empty at the end, or when the deadline has passed."""
        with (
            trio.CancelScope(deadline=self._deadline) as self._reading,
            suppress(trio.BrokenResourceError, trio.ClosedResourceError),
        ):
            return await self._receive_decrypted()
        if self._has_begun and self._reading.cancelled_caught and not self._is_over:
            await self._protocol.reject(_rejection(HTTPStatus.REQUEST_TIMEOUT))
        return b""

    async def _receive_decrypted(self) -> bytes:
        """Return the next bytes of the client; empty at the end."""
        while not (self._tls and self._tls.has_ended):
            data = bytes(await self._stream.receive_some(_READ_BYTES))
            if self._tls is None or not data:
                return data
            data = self._tls.decrypt(data)
            if self._tls.outgoing_bytes:
                # A client that reads nothing must not make the handshake or key updates pile up.
                self._outlet.flush()
                await self._wait_written()
            if self._tls.is_cleartext:
                self._tls = None
                await self._protocol.reject(RequestRejected(HTTPStatus.BAD_REQUEST, _TLS_EXPECTED))
                return b""
            if data:
                return data
        return b""

    def _set_deadline(self, seconds: float) -> None:
        self._deadline = self._reading.deadline = trio.current_time() + seconds

    # ── Writing ─────────────────────────────────────────────────────────────────────────────────────────────

    async def _send(self, event: Event) -> None:
        """Handle an event that hypercorn sends to the connection."""
        match event:
            case RawData():
                await self._write(event.data)
            case Updated():
                self._is_idle = event.idle
                self._has_begun = False
                self._set_deadline(KEEP_ALIVE_S if event.idle else math.inf)
            case Closed():
                self._end_reading()

    async def _write(self, data: bytes) -> None:
        self._outlet.put(data)
        if self._protocol.is_more_coming:
            return
        self._outlet.flush()
        await trio.lowlevel.checkpoint()  # other tasks run, however fast this client reads
        try:
            await self._wait_written()
        except trio.BrokenResourceError:
            # The reader may not notice it, because it waits for the end of the response. The checkpoint
            # raises, so that the application does not take a lost part for a sent one.
            self._scope.cancel()
            await trio.lowlevel.checkpoint()

    async def _wait_written(self) -> None:
        while unread := self._outlet.waiting_bytes:
            with trio.move_on_after(STALLED_S):
                await self._outlet.wait_room()
            if self._outlet.waiting_bytes >= unread:
                _log.info("Closed a connection: the client read nothing for %g s.", STALLED_S)
                self.abort()
                await trio.lowlevel.checkpoint()
        await self._outlet.wait_room()  # raises if the client has closed

    async def _flush_later(self) -> None:
        """Write what the kernel did not accept at once."""
        try:
            await self._outlet.run()
        except trio.BrokenResourceError:
            self._scope.cancel()

    def _end_reading(self) -> None:
        self._is_over = True
        self._reading.cancel()

    async def _close(self) -> None:
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            if self._tls:
                self._tls.close()
                self._outlet.flush()
                await self._wait_written()
            await self._stream.send_eof()
            if self._protocol.has_rejected:
                await wait_closed_by_client(self._stream)


async def wait_closed_by_client(stream: trio.SocketStream) -> None:
    """Wait at most LINGER_S until the client has read the last response and closes.

    Raises:
        trio.BrokenResourceError: the client reset the connection; nothing is left to do.
    """
    with trio.move_on_after(LINGER_S):
        while await stream.receive_some(_READ_BYTES):
            pass


def encode_rejection(rejection: RequestRejected) -> bytes:
    """Return the bytes of a rejection that ends its connection."""
    response = error_response(rejection)
    head = b"HTTP/1.1 %d %b\r\nconnection: close\r\n" % (rejection.status, rejection.status.phrase.encode())
    headers = b"".join(b"%b: %b\r\n" % header for header in response.raw_headers)
    return head + headers + b"\r\n" + response.body


def _address(name: Any) -> tuple[str, int] | None:
    """Return address and port of a TCP socket's end; None for a Unix socket."""
    return (name[0], name[1]) if isinstance(name, tuple) else None


def _rejection(status: HTTPStatus) -> RequestRejected:
    return RequestRejected(status, _REASONS.get(status, status.phrase))


class _Http1(H11Protocol):
    """HTTP/1.1 alone, with the reason in the response to a request that cannot be parsed."""

    on_upgrade: Callable[[h11.Request, bytes], Awaitable[None]]
    """Handles the head of an upgrade request, and the bytes after it."""
    is_more_coming = False
    """The body follows at once: its head is written together with it."""
    has_rejected = False
    """The last response was a rejection by the protocol."""

    async def handle(self, event: Event) -> None:
        """Handle received bytes, or the end of the connection."""
        try:
            await super().handle(event)
        except RequestRejected as rejection:
            await self.reject(rejection)
        except _UpgradedError:
            await self.send(Closed())

    async def reject(self, rejection: RequestRejected) -> None:
        """Send a rejection, and end the connection."""
        await self._send_rejection(rejection)
        await self.send(Closed())

    async def stream_send(self, event: StreamEvent) -> None:
        """Send an event of the application."""
        self.is_more_coming = isinstance(event, Response) and any(
            name == b"content-length" for name, _ in event.headers
        )
        await super().stream_send(event)

    async def _check_protocol(self, event: h11.Request) -> None:
        # An offer of HTTP/2 (h2c) is ignored, as RFC 9110 (7.8) allows.
        if event.http_version not in {b"1.0", b"1.1"}:
            raise _rejection(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED)
        if {name for name, _ in event.headers} >= _BOTH_LENGTHS:
            raise _rejection(HTTPStatus.BAD_REQUEST)
        if any(name == b"upgrade" and b"websocket" in value.lower() for name, value in event.headers):
            received, _ = cast("h11.Connection", self.connection).trailing_data
            await self.on_upgrade(event, received)
            raise _UpgradedError

    async def _send_error_response(self, status_code: int) -> None:
        await self._send_rejection(_rejection(HTTPStatus(status_code)))

    async def _send_rejection(self, rejection: RequestRejected) -> None:
        self.has_rejected = True
        response = error_response(rejection)
        headers = [*response.raw_headers, (b"connection", b"close"), *self.config.response_headers("h11")]
        await self._send_h11_event(h11.Response(status_code=rejection.status, headers=headers))
        await self._send_h11_event(h11.Data(data=bytes(response.body)))
        await self._send_h11_event(h11.EndOfMessage())


class _UpgradedError(Exception):
    """Another protocol has used the connection to its end."""
