"""Who connects, how many of them, and how serving ends."""

from __future__ import annotations

import logging
import math
import resource
import sys
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from socket import socket
from typing import NamedTuple

import trio
from hypercorn.config import Config
from hypercorn.trio.worker_context import WorkerContext
from starlette.types import ASGIApp

from http_serving.error_responses import RequestRejected
from http_serving.http_connection import MAX_HEAD_BYTES, HttpConnection, encode_rejection, let_it_hear
from http_serving.peer_credentials import Kind, Peer, peer_of
from native_host.protocol.rate_limit import CallPace
from native_host.system.proc import SocketProcesses

LAST_WORDS_S = 0.4
"""At the end, for what is being answered to come to its end by itself. Then it is ended."""
GOODBYE_S = 0.6
"""For clients to take the end of their answers. Then their connections are cut."""
_LINGERING = 64
"""Of those who are turned away, so many at once are told why; more are cut off."""
_RETRY_S = 10
"""After which there may be room again."""

_log = logging.getLogger(__name__)


class Bounds(NamedTuple):
    """What a flood of connections meets."""

    open: int = 2048
    """Connections at once. A further one ends the oldest idle one; without an idle one it is rejected."""
    strangers: int = 512
    """Of those, such as are not known to be our user's: at most a quarter, nobody else takes all the room."""
    per_minute: int = 6000
    """New ones from one address: so many at once, then a hundred a second."""


_BOUNDS = Bounds()


async def serve(app: ASGIApp, sockets: Iterable[socket], until: trio.Event, bounds: Bounds = _BOUNDS) -> None:
    """Serve all who connect; once `until` is set nobody else is let in, and it ends within about a second.

    What is being answered then has a moment to end by itself. The sockets are closed.
    """
    server = _Server(app, bounds)
    listeners = [trio.SocketListener(trio.socket.from_stdlib_socket(each)) for each in sockets]
    async with trio.open_nursery() as connections:
        async with trio.open_nursery() as accepting:
            take = partial(trio.serve_listeners, server.take, listeners, handler_nursery=connections)
            accepting.start_soon(take)
            await until.wait()
            accepting.cancel_scope.cancel()
        await server.end()


class _Server:
    def __init__(self, app: ASGIApp, bounds: Bounds) -> None:
        self._app = app
        room = _room(bounds.open)
        self._bounds = bounds._replace(open=room, strangers=min(bounds.strangers, max(room // 4, 1)))
        self._pace = CallPace(bounds.per_minute)
        self._config = _config()
        self._context = WorkerContext(None)
        self._processes = SocketProcesses()
        self._open: dict[HttpConnection, None] = {}
        """The oldest first."""
        self._lingering = 0
        self._gone = trio.lowlevel.ParkingLot()
        """Who waits for connections to end."""

    async def take(self, stream: trio.SocketStream) -> None:
        """Serve one connection to its end."""
        try:
            peer = peer_of(stream.socket)
            if rejection := self._too_many(peer):
                await self._turn_away(stream, rejection)
            else:
                await self._serve(self._connection(stream, peer))
        except OSError:
            return  # it has gone already
        except Exception:  # noqa: BLE001  (one connection's fault is not the others')
            _log.exception("a connection ended")

    def _connection(self, stream: trio.SocketStream, peer: Peer) -> HttpConnection:
        return HttpConnection(stream, peer, self._app, self._config, self._context, self._processes)

    async def end(self) -> None:
        """Let what is being answered come to its end, and see that it does."""
        await self._context.terminated.set()  # after which no answer is followed by another request
        for connection in self._open:
            if connection.is_idle:
                connection.finish()
        await self._wait_all_gone(LAST_WORDS_S)
        for connection in self._open:
            connection.finish()
        await self._wait_all_gone(GOODBYE_S)
        for connection in self._open:
            connection.abort()

    async def _wait_all_gone(self, seconds: float) -> None:
        with trio.move_on_after(seconds):
            while self._open:
                await self._gone.park()

    async def _serve(self, connection: HttpConnection) -> None:
        self._open[connection] = None
        try:
            await connection.run()
        finally:
            del self._open[connection]
            self._gone.unpark_all()

    def _too_many(self, peer: Peer) -> RequestRejected | None:
        if wait_s := self._pace.wait_s(f"{peer.kind} {peer.address}", trio.current_time()):
            text = f"{self._bounds.per_minute} connections in a minute: keep one, it takes many requests"
            return _turned_away(text, math.ceil(wait_s))
        if peer.kind is not Kind.OURS:
            strangers = [each for each in self._open if each.peer.kind is not Kind.OURS]
            if len(strangers) >= self._bounds.strangers and not _one_gives_way(strangers):
                text = f"{self._bounds.strangers} requests of others than this user are open: end some"
                return _turned_away(text, _RETRY_S)
        if len(self._open) >= self._bounds.open and not _one_gives_way(self._open):
            return _turned_away(f"{self._bounds.open} requests are open: end some", _RETRY_S)
        return None

    async def _turn_away(self, stream: trio.SocketStream, rejection: RequestRejected) -> None:
        if self._lingering >= _LINGERING:
            return
        self._lingering += 1
        try:
            with suppress(trio.BrokenResourceError):
                await stream.send_all(encode_rejection(rejection))
                await stream.send_eof()
                await let_it_hear(stream)
        finally:
            self._lingering -= 1


def _one_gives_way(connections: Iterable[HttpConnection]) -> bool:
    """Whether there is room for another, because the oldest one that does nothing is ended."""
    for connection in connections:
        if connection.is_idle:
            connection.finish()
            return True
    return False


def _turned_away(text: str, wait_s: int) -> RequestRejected:
    return RequestRejected(HTTPStatus.TOO_MANY_REQUESTS, text, headers={"Retry-After": str(wait_s)})


def _room(connections: int) -> int:
    """For so many connections, or fewer: for as many as the system allows us files, and as many besides.

    It allows a program more than it has at first.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * connections
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return connections
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    with suppress(OSError, ValueError):  # macOS says there is no limit, and has one
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2


def _config() -> Config:
    config = Config()
    config.accesslog = None  # requests have ids of sessions, and queries their secrets
    config.errorlog = logging.getLogger("http_serving.hypercorn")
    config.include_server_header = False
    config.h11_max_incomplete_size = MAX_HEAD_BYTES
    config.keep_alive_max_requests = sys.maxsize
    return config
