"""MCP transport for one client on a Unix socket: each message is a line.

TRANSPORT_SOCKET=~/.mcpb/mcp.sock PYTHONPATH=examples \
    mcpb bridge --transport unix_socket_transport:UnixSocketTransport
"""

import os
from contextlib import ExitStack, suppress
from pathlib import Path

import trio

from bridge.frontends.custom_transport import Transport, TransportError


class UnixSocketTransport(Transport):
    """Serves the first client that connects, and ends with it."""

    is_local = True  # only this user can open the socket
    max_line_bytes = 8 * 1024 * 1024

    def __init__(self, tasks: trio.Nursery) -> None:
        self._tasks = tasks
        self._path = Path(os.environ["TRANSPORT_SOCKET"]).expanduser()
        self._client: trio.SocketStream | None = None
        self._held = ExitStack()

    async def start(self) -> None:
        """Open the socket, for this user alone. Another one at its path is an error."""
        listener = self._held.enter_context(trio.socket.socket(trio.socket.AF_UNIX))
        with ExitStack() as umask:
            umask.callback(os.umask, os.umask(0o177))
            await listener.bind(os.fspath(self._path))
        self._held.callback(self._path.unlink, missing_ok=True)
        listener.listen(1)
        self._tasks.start_soon(self._receive, listener)

    async def _receive(self, listener: trio.socket.SocketType) -> None:
        self._client = trio.SocketStream((await listener.accept())[0])
        self._held.close()  # no second client
        rest = bytearray()
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            while len(rest) <= self.max_line_bytes and (data := await self._client.receive_some()):
                rest += data
                *lines, rest = rest.split(b"\n") if b"\n" in data else [rest]
                for line in lines:
                    with suppress(TransportError):  # the client gets an error response
                        await self.on_message(bytes(line))
        self.on_close()

    async def send(self, message: bytes) -> None:
        """Send a message to the client."""
        if self._client:
            await self._client.send_all(message + b"\n")

    async def close(self) -> None:
        """Close the socket and remove its file."""
        self._held.close()
        if self._client:
            await self._client.aclose()
