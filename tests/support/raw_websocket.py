"""WebSocket clients by hand: the sans-IO protocol of the package websockets on a trio stream.

They read only when told to, and can send bytes that no library sends.
"""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import trio
from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.http11 import Response
from websockets.uri import parse_uri

SOON_S = 60
READ_BYTES = 64 * 1024


class RawPeer:
    """A client after its opening handshake."""

    def __init__(self, stream: trio.abc.Stream, protocol: ClientProtocol, read_bytes: int) -> None:
        self.stream = stream
        self._read_bytes = read_bytes
        self.protocol = protocol
        self._frames: list[Frame] = []
        self._response: Response | None = None

    async def send(self, **message: Any) -> None:
        """Send a message of JSON-RPC."""
        await self.send_text(json.dumps({"jsonrpc": "2.0", **message}).encode())

    async def send_text(self, body: bytes) -> None:
        self.protocol.send_text(body)
        await self.flush()

    async def flush(self) -> None:
        for data in self.protocol.data_to_send():
            await self.stream.send_all(data)

    async def receive(self) -> Any:
        """The next message; little more is read than that."""
        with trio.fail_after(SOON_S):
            while not self._frames:
                assert await self._read(), "the connection has ended"
        frame = self._frames.pop(0)
        return json.loads(bytes(frame.data))

    async def receive_response(self) -> Any:
        while "id" not in (message := await self.receive()) or "method" in message:
            pass
        return message

    async def _read(self) -> bool:
        try:
            data = await self.stream.receive_some(self._read_bytes)
        except (trio.BrokenResourceError, ConnectionResetError):
            data = b""
        if data:
            self.protocol.receive_data(data)
        else:
            self.protocol.receive_eof()
        for event in self.protocol.events_received():
            if isinstance(event, Frame) and event.opcode is Opcode.TEXT:
                self._frames.append(event)
            elif isinstance(event, Response):
                self._response = event
        with suppress(trio.BrokenResourceError, trio.BusyResourceError):  # another task may be sending
            await self.flush()
        return bool(data)

    async def receive_response_head(self) -> Response:
        """Response to the opening handshake."""
        while self._response is None:
            assert await self._read() or self._response, "the connection has ended"
        return self._response

    async def wait_code(self) -> int:
        """Code of the other end's close frame; 1006 if there was none."""
        with trio.fail_after(SOON_S):
            while self.protocol.close_rcvd is None and await self._read():
                pass
        return self.protocol.close_rcvd.code if self.protocol.close_rcvd else 1006

    def abort(self) -> None:
        """Reset the connection."""
        raw = self.stream.transport_stream if isinstance(self.stream, trio.SSLStream) else self.stream
        assert isinstance(raw, trio.SocketStream)
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        raw.socket.close()


async def open_stream(port: int, tls: ssl.SSLContext | None = None, buffer_bytes: int = 0) -> trio.abc.Stream:
    """A connection to a port of this machine, with a small receive buffer if one is given."""
    connection = trio.socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    if buffer_bytes:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
    await connection.connect(("127.0.0.1", port))
    stream = trio.SocketStream(connection)
    return trio.SSLStream(stream, tls, server_hostname="localhost") if tls else stream


@asynccontextmanager
async def raw_connected(
    url: str,
    *,
    buffer_bytes: int = 0,
    headers: dict[str, str] | None = None,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[RawPeer]:
    """Open a WebSocket; a rejection fails."""
    async with raw_opened(url, buffer_bytes=buffer_bytes, headers=headers, tls=tls) as (response, peer):
        assert response.status_code == 101, response
        yield peer


@asynccontextmanager
async def raw_opened(
    url: str,
    *,
    buffer_bytes: int = 0,
    headers: dict[str, str] | None = None,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[tuple[Response, RawPeer]]:
    """Ask for a WebSocket; yield the response as well. Headers replace those of the library."""
    uri = parse_uri(url)
    protocol = ClientProtocol(uri, max_size=None)
    request = protocol.connect()
    for name, value in (headers or {}).items():
        if name in request.headers:
            del request.headers[name]
        request.headers[name] = value
    protocol.send_request(request)
    stream = await open_stream(uri.port, tls, buffer_bytes)
    try:
        peer = RawPeer(stream, protocol, buffer_bytes or READ_BYTES)
        await peer.flush()
        with trio.fail_after(SOON_S):
            response = await peer.receive_response_head()
        yield response, peer
    finally:
        await trio.aclose_forcefully(stream)
