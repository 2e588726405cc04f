"""MCP transport for one client on a Unix socket: each message is a line.

TRANSPORT_SOCKET=~/.mcpb/mcp.sock PYTHONPATH=examples \
    mcpb bridge --transport unix_socket_transport:UnixSocketTransport
"""

import os
from contextlib import ExitStack, suppress
from pathlib import Path

import trio

from bridge.frontends.custom_transport import Transport, TransportError

MAX_LINE_BYTES = 8 * 1024 * 1024


class UnixSocketTransport(Transport):
    """Serves the first client that connects, and ends with it."""

    def __init__(self, tasks: trio.Nursery) -> None:
        self._tasks = tasks
        self._path = Path(os.environ["TRANSPORT_SOCKET"]).expanduser()
        self._client: trio.SocketStream | None = None
        self._held = ExitStack()

    async def start(self) -> None:
        """Open the socket, for this user alone. Another one at its path is an error."""
        listener = self._held.enter_context(trio.socket.socket(trio.socket.AF_UNIX))
        umask = os.umask(0o177)
        try:
            await listener.bind(os.fspath(self._path))
        finally:
            os.umask(umask)
        self._held.callback(self._path.unlink, missing_ok=True)
        listener.listen(1)
        self._tasks.start_soon(self._receive, listener)

    async def _receive(self, listener: trio.socket.SocketType) -> None:
        self._client = trio.SocketStream((await listener.accept())[0])
        self._held.close()  # no second client
        rest = b""
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            while len(rest) <= MAX_LINE_BYTES and (data := await self._client.receive_some()):
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    with suppress(TransportError):  # the client gets an error response
                        await self.on_message(line)
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
