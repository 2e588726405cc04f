"""WebSocket servers and clients for tests: ours, and certificates of an authority that the test trusts."""

from __future__ import annotations

import datetime
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import trio
import trustme

from http_frontend import hello, serving_app
from http_serving.http_connection import UpgradeRequest
from http_serving.websocket import WebSocketStream
from http_serving.websocket_client import connect
from http_serving.websocket_protocol import DEFAULT_LIMITS, WebSocketLimits
from http_serving.websocket_server import accept_websocket

SOON_S = 30
Talk = Callable[[WebSocketStream], Awaitable[None]]


class Authority:
    """An authority with the certificate of a server, and the contexts of those who trust it."""

    def __init__(
        self,
        directory: Path,
        *names: str,
        begins: datetime.datetime | None = None,
        expires: datetime.datetime | None = None,
    ) -> None:
        authority = trustme.CA()
        names = names or ("localhost", "127.0.0.1", "::1")
        issued = authority.issue_cert(*names, not_before=begins, not_after=expires)
        self.file = directory / "authority.pem"
        authority.cert_pem.write_to_path(self.file)
        self.certificate, self.key = directory / "server.pem", directory / "server.key"
        issued.cert_chain_pems[0].write_to_path(self.certificate)
        issued.private_key_pem.write_to_path(self.key)
        self.key.chmod(0o600)
        self.server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        issued.configure_cert(self.server)
        self.client = ssl.create_default_context(cafile=self.file)


async def echo(stream: WebSocketStream) -> None:
    """Send everything back, until the other end closes."""
    while messages := await stream.receive():
        for message in messages:
            stream.put(message)
        stream.flush()


@asynccontextmanager
async def serving_websockets(
    talk: Talk = echo,
    tls: ssl.SSLContext | None = None,
    limits: WebSocketLimits = DEFAULT_LIMITS,
    until: trio.Event | None = None,
) -> AsyncIterator[str]:
    """Serve WebSockets in the way of `talk`, at the URL that this yields."""

    async def handle(request: UpgradeRequest) -> None:
        async with running(accept_websocket(request, limits)) as stream:
            await talk(stream)

    async with serving_app(hello, until=until, handle_upgrade=handle, tls=tls) as port:
        yield f"wss://localhost:{port}/" if tls else f"ws://127.0.0.1:{port}/"


@asynccontextmanager
async def running(stream: WebSocketStream) -> AsyncIterator[WebSocketStream]:
    """Run one end, and close it at the end of the block."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stream.run)
        try:
            yield stream
        finally:
            with trio.fail_after(SOON_S):
                await stream.finish()


@asynccontextmanager
async def connected(
    url: str, tls: ssl.SSLContext | None = None, limits: WebSocketLimits = DEFAULT_LIMITS
) -> AsyncIterator[WebSocketStream]:
    """Open one end of ours as a client."""
    async with running(await connect(url, context=tls, timeout_s=SOON_S, limits=limits)) as stream:
        yield stream


async def receive(stream: WebSocketStream, count: int = 1) -> list[bytes]:
    """The next messages, of which so many come."""
    messages: list[bytes] = []
    with trio.fail_after(SOON_S):
        while len(messages) < count:
            more = await stream.receive()
            assert more, (stream.close_code, stream.close_reason)
            messages += more
    assert len(messages) == count
    return messages


async def wait_end(stream: WebSocketStream) -> tuple[int, str]:
    """How the connection ends, whatever comes before."""
    with trio.fail_after(SOON_S):
        while await stream.receive():
            pass
    return stream.close_code, stream.close_reason
