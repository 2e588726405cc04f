"""The sockets that we listen on, and the connections that come in: hypercorn speaks HTTP on each.

Its own loop over connections is not used: it does not tell who is at the other end, and waits at its end for
clients that read nothing.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable

import trio
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.config import Config
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import WorkerContext

from bridge.frontends.http.connection import Kind, Peer
from bridge.frontends.http.routes import App

LOOPBACK = ("127.0.0.1", "::1")


def listen(host: str, port: int) -> list[socket.socket]:
    """Sockets that listen; on both loopback addresses where one of them is asked for."""
    listening = socket.create_server((host, port), backlog=100)
    return [listening]


async def serve(app: App, sockets: Iterable[socket.socket]) -> None:
    """Serve all who connect, until cancelled."""
    listeners = [trio.SocketListener(trio.socket.from_stdlib_socket(each)) for each in sockets]
    config = Config()
    config.accesslog = None
    config.include_server_header = False
    context = WorkerContext(None)

    async def speak(stream: trio.SocketStream) -> None:
        connection = _Connection(stream)
        await TCPServer(ASGIWrapper(app), config, context, {"connection": connection}, stream)

    await trio.serve_listeners(speak, listeners)


class _Connection:
    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self.peer = Peer(Kind.OURS, stream.socket.getpeername()[0])

    def abort(self) -> None:
        self._stream.socket.close()
