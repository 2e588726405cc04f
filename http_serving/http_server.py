"""HTTP server: accept loop, connection limits, graceful shutdown.

It reads no request: that is `http_connection.py`.
"""

from __future__ import annotations

import logging
import math
import resource
import sys
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from socket import AF_UNIX, socket
from ssl import SSLContext
from typing import NamedTuple

import trio
from hypercorn.config import Config
from hypercorn.trio.worker_context import WorkerContext
from starlette.types import ASGIApp

from http_serving.error_responses import RequestRejected
from http_serving.host_header import network_of
from http_serving.http_connection import (
    MAX_HEAD_BYTES,
    ConnectionContext,
    HttpConnection,
    UpgradeHandler,
    encode_rejection,
    reject_upgrade,
    wait_closed_by_client,
)
from http_serving.peer_credentials import Kind, Peer, peer_of
from http_serving.retrying_listener import RetryingListener, Shortage
from http_serving.tls import ServerCertificate, TlsChannel
from native_host.protocol.rate_limit import RateLimiter
from native_host.system.proc import SocketProcesses

COMPLETION_S = 0.4
"""Seconds that open responses have at shutdown to complete by themselves. Then they are ended."""
GOODBYE_S = 0.6
"""Seconds that clients have at shutdown to read the ends of their responses. Then connections are aborted."""
_MAX_LINGERING = 64
"""Rejected connections that wait at the same time for their client to read the reason."""
_RETRY_S = 10
"""Seconds after which a rejected client may find room."""

_log = logging.getLogger(__name__)


class ConnectionLimits(NamedTuple):
    """Limits of the connections of one server."""

    total: int = 2048
    """Connections at once. A further one ends the oldest idle one; without an idle one it is rejected."""
    other_users: int | None = 512
    """Connections at once that are not known to be this user's, at most a quarter of the total; None: all."""
    opened_per_minute: int = 6000
    """New connections per address and minute. It is also the size of a burst."""
    ends_requests: bool = False
    """Without an idle connection, a further one ends the oldest whose request is open. WebSockets stay. It is
    for servers whose requests are short, so that an old one is an attack."""


class ServerOptions(NamedTuple):
    """Decisions of one server that the library does not make."""

    limits: ConnectionLimits = ConnectionLimits()
    stopped_message: str = "the server stopped before it sent a response"
    """Error message of a request that is open when the server stops."""
    handle_upgrade: UpgradeHandler = reject_upgrade
    tls: SSLContext | ServerCertificate | None = None
    """TLS of all TCP connections; None: they are not encrypted. Unix sockets never are."""


_DEFAULTS = ServerOptions()


async def serve(
    app: ASGIApp, sockets: Iterable[socket], until: trio.Event, options: ServerOptions = _DEFAULTS
) -> None:
    """Serve all clients until an event is set. Then accept no more, and end within about a second.

    Open responses have a moment to complete by themselves. The sockets are closed.
    """
    server = _Server(app, options)
    opened = [trio.SocketListener(trio.socket.from_stdlib_socket(each)) for each in sockets]
    shortage = Shortage()
    listeners = [RetryingListener(each, shortage) for each in opened]
    async with trio.open_nursery() as connections:
        async with trio.open_nursery() as accepting:
            accept = partial(
                trio.serve_listeners, server.handle_stream, listeners, handler_nursery=connections
            )
            accepting.start_soon(accept)
            await until.wait()
            accepting.cancel_scope.cancel()
        await server.shut_down()


class _Server:
    def __init__(self, app: ASGIApp, options: ServerOptions) -> None:
        total = _raise_file_limit(options.limits.total)
        others = options.limits.other_users
        if others is not None:
            others = min(others, max(total // 4, 1))
        self._limits = options.limits._replace(total=total, other_users=others)
        self._tls = options.tls
        self._pace = RateLimiter(self._limits.opened_per_minute)
        self._worker = WorkerContext(None)
        self._context = ConnectionContext(
            app,
            _configure_hypercorn(),
            self._worker,
            SocketProcesses(),
            options.stopped_message,
            options.handle_upgrade,
        )
        self._connections: dict[HttpConnection, None] = {}
        self._lingering = 0
        self._closed = trio.lowlevel.ParkingLot()

    async def handle_stream(self, stream: trio.SocketStream) -> None:
        """Serve one connection until it ends, or reject it."""
        try:
            peer = peer_of(stream.socket)
            tls = self._tls_context if stream.socket.family != AF_UNIX else None
            if rejection := self._check_limits(peer):
                if tls is None:  # a client of TLS could not read it, and a handshake is too expensive for it
                    await self._reject(stream, rejection)
            else:
                channel = TlsChannel(tls) if tls else None
                await self._serve(HttpConnection(stream, peer, self._context, channel))
        except OSError:
            return  # the client has closed it already
        except Exception:  # noqa: BLE001  (a fault of one connection must not end the others)
            _log.exception("Closed a connection: unexpected error.")

    @property
    def _tls_context(self) -> SSLContext | None:
        return self._tls.context if isinstance(self._tls, ServerCertificate) else self._tls

    async def shut_down(self) -> None:
        """Let open responses complete, then end them, then abort the connections that remain."""
        await self._worker.terminated.set()  # no further request is read after an open response
        for connection in self._connections:
            if connection.is_idle:
                connection.finish()
        await self._wait_all_closed(COMPLETION_S)
        for connection in self._connections:
            connection.finish()
        await self._wait_all_closed(GOODBYE_S)
        for connection in self._connections:
            connection.abort()

    async def _wait_all_closed(self, seconds: float) -> None:
        with trio.move_on_after(seconds):
            while self._connections:
                await self._closed.park()

    async def _serve(self, connection: HttpConnection) -> None:
        self._connections[connection] = None
        try:
            await connection.run()
        finally:
            del self._connections[connection]
            self._closed.unpark_all()

    def _check_limits(self, peer: Peer) -> RequestRejected | None:
        limits = self._limits
        if wait_s := self._pace.wait_s(f"{peer.kind} {network_of(peer.address)}", trio.current_time()):
            text = f"{limits.opened_per_minute} connections were opened in a minute: reuse connections"
            return _too_many(text, math.ceil(wait_s))
        if peer.kind is not Kind.OURS and limits.other_users is not None:
            others = [each for each in self._connections if each.peer.kind is not Kind.OURS]
            if len(others) >= limits.other_users and not _end_oldest_idle(others):
                return _too_many(f"{limits.other_users} requests of other users are open: end one", _RETRY_S)
        if len(self._connections) >= limits.total and not self._make_room():
            return _too_many(f"{limits.total} requests are open: end one", _RETRY_S)
        return None

    def _make_room(self) -> bool:
        if _end_oldest_idle(self._connections):
            return True
        return self._limits.ends_requests and _abort_oldest_request(self._connections)

    async def _reject(self, stream: trio.SocketStream, rejection: RequestRejected) -> None:
        if self._lingering >= _MAX_LINGERING:
            return
        self._lingering += 1
        try:
            with suppress(trio.BrokenResourceError):
                await stream.send_all(encode_rejection(rejection))
                await stream.send_eof()
                await wait_closed_by_client(stream)
        finally:
            self._lingering -= 1


def _end_oldest_idle(connections: Iterable[HttpConnection]) -> bool:
    """End the oldest idle connection; return whether there was one."""
    for connection in connections:
        if connection.is_idle:
            connection.finish()
            return True
    return False


def _abort_oldest_request(connections: Iterable[HttpConnection]) -> bool:
    """Abort the oldest connection with an open request; return whether there was one."""
    for connection in connections:
        if connection.has_request:
            connection.abort()
            return True
    return False


def _too_many(text: str, wait_s: int) -> RequestRejected:
    return RequestRejected(HTTPStatus.TOO_MANY_REQUESTS, text, headers={"Retry-After": str(wait_s)})


def _raise_file_limit(connections: int) -> int:
    """Raise the limit of open files for so many connections; return how many of them it allows.

    Half of the files are for other purposes. The soft limit of a process is often below its hard limit.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * connections
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return connections
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    with suppress(OSError, ValueError):  # macOS reports no limit, and enforces one
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2


def _configure_hypercorn() -> Config:
    config = Config()
    config.accesslog = None  # headers contain session ids, and query strings their secrets
    config.errorlog = logging.getLogger("http_serving.hypercorn")
    config.include_server_header = False
    config.h11_max_incomplete_size = MAX_HEAD_BYTES
    config.keep_alive_max_requests = sys.maxsize
    return config
