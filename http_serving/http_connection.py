"""One connection: hypercorn's HTTP/1.1 between a reader and a writer of ours, which do not wait for ever.

Of hypercorn this is what knows HTTP: heads and bodies (by h11), the order of requests, and what applications
send and receive. Its own reader and writer are not used: they do not tell who is at the other end, wait for
clients that take nothing, and change to other protocols when they are asked to.
"""

from __future__ import annotations

import itertools
import logging
import math
import socket
import struct
from contextlib import suppress
from http import HTTPStatus
from typing import Any, cast

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

from http_serving import error_responses
from http_serving.error_responses import RequestRejected
from http_serving.peer_credentials import Kind, Peer
from http_serving.request_tasks import Exchange, RequestTasks
from native_host.ipc.streams import Outlet
from native_host.system.proc import Process, SocketProcesses, read_process

MAX_HEAD_BYTES = 16 * 1024
KEEP_ALIVE_S = 75.0
"""Between an answer and the next request."""
HEAD_S = 10.0
"""From a request's first byte to the end of its head."""
STALLED_S = 30.0
"""A client that takes not a byte of what waits for it for so long is given up."""
LINGER_S = 1.0
"""After an answer to what is not read to its end: closed at once, a connection loses its last bytes."""
_READ_BYTES = 64 * 1024

_WHY = {
    HTTPStatus.BAD_REQUEST: "this is no request of HTTP/1.1, with one Host, one length and well-formed parts",
    HTTPStatus.REQUEST_TIMEOUT: f"the head of the request took longer than {HEAD_S:g} s",
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE: (
        f"the head of the request is too long: the limit is {MAX_HEAD_BYTES} bytes"
    ),
    HTTPStatus.NOT_IMPLEMENTED: "of transfer encodings only chunked is known here",
    HTTPStatus.HTTP_VERSION_NOT_SUPPORTED: "only HTTP/1.1 is spoken here",
}

_BOTH_LENGTHS = {b"content-length", b"transfer-encoding"}
"""Whoever reads one and whoever reads the other see different requests (RFC 9112, 11.2)."""

_numbers = itertools.count(1)
_log = logging.getLogger(__name__)


class HttpConnection:
    """A client's connection: to requests on it `connection.Connection`. `run` is its task."""

    def __init__(
        self,
        stream: trio.SocketStream,
        peer: Peer,
        app: ASGIApp,
        config: Config,
        context: WorkerContext,
        processes: SocketProcesses,
    ) -> None:
        self.peer = peer
        self.name = f"connection {next(_numbers)}"
        self._processes = processes
        self._process: Process | None = None
        self._is_process_known = False
        self._stream = stream
        self._app = app
        self._outlet = Outlet(stream.socket.fileno())
        self._tasks = RequestTasks()
        self._protocol = _Http1(
            cast("AppWrapper", self._answer),
            config,
            context,
            self._tasks,
            ConnectionState({"connection": self}),
            False,
            _address(stream.socket.getpeername()),
            _address(stream.socket.getsockname()),
            self._send,
        )
        self._exchange: Exchange | None = None
        """The one under way."""
        self._everything = trio.CancelScope()
        self._reading = trio.CancelScope()
        self._deadline = math.inf
        """Of `_reading`, now and the next time."""
        self._is_idle = True
        """No request is under way."""
        self._has_begun = False
        """The head of the next one is coming."""
        self._is_over = False

    async def run(self) -> None:
        """Serve one request after the other, until either end has had enough. Closes the stream."""
        try:
            with self._everything:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._write_later)
                    async with self._tasks:
                        await self._read()
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
        return self._processes.find(self.peer.inode) if self.peer.kind is Kind.OURS else None

    @property
    def is_idle(self) -> bool:
        """No request is under way, though one may be coming."""
        return self._is_idle and not self._is_over

    def finish(self) -> None:
        """End soon: an answer that is under way gets its end now."""
        if self._is_idle:
            self._end()
        elif self._exchange:
            self._exchange.finish()

    def abort(self) -> None:
        """End now, whatever waits to be written."""
        with suppress(OSError):  # nor shall the kernel keep it
            self._stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._everything.cancel()

    # ── Requests ────────────────────────────────────────────────────────────────────────────────────────────

    async def _answer(self, scope: Any, receive: Any, send: Any, *_of_threads: Any) -> None:
        """To one request, as hypercorn asks for it."""
        self._exchange = exchange = Exchange(scope, receive, send, self.abort)
        try:
            await exchange.run(self._app)
        finally:
            if self._exchange is exchange:  # else the next one has begun
                self._exchange = None

    # ── What comes ──────────────────────────────────────────────────────────────────────────────────────────

    async def _read(self) -> None:
        self._wait_at_most(KEEP_ALIVE_S)
        while not self._is_over and (data := await self._receive()):
            if self._is_idle and not self._has_begun:
                self._has_begun = True
                self._wait_at_most(HEAD_S)
            await self._protocol.handle(RawData(data))

    async def _receive(self) -> bytes:
        """Empty when nothing more is to be read."""
        with (
            trio.CancelScope(deadline=self._deadline) as self._reading,
            suppress(trio.BrokenResourceError, trio.ClosedResourceError),
        ):
            return bytes(await self._stream.receive_some(_READ_BYTES))
        if self._has_begun and self._reading.cancelled_caught and not self._is_over:
            await self._protocol.refuse(HTTPStatus.REQUEST_TIMEOUT)
        return b""

    def _wait_at_most(self, seconds: float) -> None:
        self._deadline = self._reading.deadline = trio.current_time() + seconds

    # ── What goes ───────────────────────────────────────────────────────────────────────────────────────────

    async def _send(self, event: Event) -> None:
        """What hypercorn has to say to the connection."""
        match event:
            case RawData():
                await self._write(event.data)
            case Updated():
                self._is_idle = event.idle
                self._has_begun = False
                self._wait_at_most(KEEP_ALIVE_S if event.idle else math.inf)
            case Closed():
                self._end()

    async def _write(self, data: bytes) -> None:
        self._outlet.put(data)
        if self._protocol.is_more_coming:
            return
        self._outlet.flush()
        await trio.lowlevel.checkpoint()  # others have their turn, however fast this client reads
        try:
            await self._wait_written()
        except trio.BrokenResourceError:
            self._everything.cancel()  # the reader need not notice: it may wait for the end of an answer
            await trio.lowlevel.checkpoint()  # nor shall anybody take for said what nobody has heard

    async def _wait_written(self) -> None:
        while unread := self._outlet.waiting_bytes:
            with trio.move_on_after(STALLED_S):
                await self._outlet.wait_room()
            if self._outlet.waiting_bytes >= unread:
                _log.info("a client takes nothing of its answer, and is given up")
                self.abort()
                await trio.lowlevel.checkpoint()
        await self._outlet.wait_room()  # raises when the other end is gone

    async def _write_later(self) -> None:
        """What the kernel does not take at once."""
        try:
            await self._outlet.run()
        except trio.BrokenResourceError:
            self._everything.cancel()

    def _end(self) -> None:
        self._is_over = True
        self._reading.cancel()

    async def _close(self) -> None:
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            await self._stream.send_eof()
            if self._protocol.has_refused:
                await let_it_hear(self._stream)


async def let_it_hear(stream: trio.SocketStream) -> None:
    """Wait a little until the other end has read what it was told last, and closes.

    Raises:
        trio.BrokenResourceError: it has gone in another way.
    """
    with trio.move_on_after(LINGER_S):
        while await stream.receive_some(_READ_BYTES):
            pass


def encode_rejection(rejection: RequestRejected) -> bytes:
    """An answer that ends its connection."""
    answer = error_responses.error_response(rejection)
    head = b"HTTP/1.1 %d %b\r\nconnection: close\r\n" % (rejection.status, rejection.status.phrase.encode())
    return head + b"".join(b"%b: %b\r\n" % header for header in answer.raw_headers) + b"\r\n" + answer.body


def _address(name: Any) -> tuple[str, int] | None:
    """From what a socket says of one of its ends."""
    return (name[0], name[1]) if isinstance(name, tuple) else None


class _Http1(H11Protocol):
    """HTTP/1.1 and nothing else, and what is wrong with a request is said in the answer."""

    is_more_coming = False
    """The body follows at once: its head goes out with it."""
    has_refused = False
    """The last answer was one to what could not be understood."""

    async def handle(self, event: Event) -> None:
        """Take what has come."""
        try:
            await super().handle(event)
        except _UnacceptableError as error:
            await self.refuse(error.status, error.why)

    async def refuse(self, status: HTTPStatus, why: str = "") -> None:
        """Say why, and end the connection."""
        await self._send_error_response(status, why)
        await self.send(Closed())

    async def stream_send(self, event: StreamEvent) -> None:
        """Take what the application has to say."""
        self.is_more_coming = isinstance(event, Response) and any(
            name == b"content-length" for name, _ in event.headers
        )
        await super().stream_send(event)

    async def _check_protocol(self, event: h11.Request) -> None:
        """An offer to change to HTTP/2 (h2c) is ignored, as RFC 9110 (7.8) allows."""
        if any(name == b"upgrade" and b"websocket" in value.lower() for name, value in event.headers):
            raise _UnacceptableError(HTTPStatus.BAD_REQUEST, "no WebSockets here: POST to /mcp")
        if event.http_version not in {b"1.0", b"1.1"}:
            raise _UnacceptableError(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED)
        if {name for name, _ in event.headers} >= _BOTH_LENGTHS:
            raise _UnacceptableError(HTTPStatus.BAD_REQUEST)

    async def _send_error_response(self, status_code: int, why: str = "") -> None:
        self.has_refused = True
        status = HTTPStatus(status_code)
        answer = error_responses.error_response(
            RequestRejected(status, why or _WHY.get(status, status.phrase))
        )
        headers = [*answer.raw_headers, (b"connection", b"close"), *self.config.response_headers("h11")]
        await self._send_h11_event(h11.Response(status_code=status_code, headers=headers))
        await self._send_h11_event(h11.Data(data=bytes(answer.body)))
        await self._send_h11_event(h11.EndOfMessage())


class _UnacceptableError(Exception):
    """A head that h11 lets pass."""

    def __init__(self, status: HTTPStatus, why: str = "") -> None:
        super().__init__(status)
        self.status = status
        self.why = why
