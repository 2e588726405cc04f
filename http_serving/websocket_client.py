"""Opening of a WebSocket as a client: connection, TLS, opening handshake. Rules: RFC 6455, 4.1.

It follows no redirect and uses no HTTP proxy. Each cause of a failure has an error of its own.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from http.client import responses
from typing import Literal, NamedTuple
from urllib.parse import SplitResult, urlsplit

import trio
from wsproto.connection import ConnectionType
from wsproto.events import AcceptConnection, Event, RejectConnection, RejectData, Request
from wsproto.handshake import H11Handshake
from wsproto.utilities import RemoteProtocolError

from http_serving.host_header import DEFAULT_PORTS, format_host
from http_serving.tls import CertificateProblem, TlsChannel, certificate_problem, load_client_context
from http_serving.websocket import WebSocketStream
from http_serving.websocket_protocol import DEFAULT_LIMITS, WebSocketLimits, WebSocketProtocol

MAX_BODY_BYTES = 1024
"""Bytes of a rejection's body that are kept."""
_READ_BYTES = 16 * 1024
_TARGET = re.compile(r"[!-~]+")
_PROBLEM_TEXTS = {
    CertificateProblem.EXPIRED: "the certificate has expired: renew it, or set the clock of this machine",
    CertificateProblem.NOT_YET_VALID: "the certificate is not valid yet: set the clock of this machine",
    CertificateProblem.WRONG_NAME: "the certificate is for another host: use a name that it contains",
    CertificateProblem.UNTRUSTED: "the certificate is not trusted: name the file of its authority",
}

Headers = Iterable[tuple[str, str]]


class ConnectError(Exception):
    """No WebSocket was opened."""


class InvalidUrlError(ConnectError):
    """The URL cannot be used; correct it."""


class UnreachableError(ConnectError):
    """The host cannot be resolved or connected to, or it did not respond in time; try again later."""


class TlsFailedError(ConnectError):
    """The TLS handshake failed."""

    def __init__(self, message: str, problem: CertificateProblem | None) -> None:
        super().__init__(message)
        self.problem = problem
        """Problem of the server's certificate; None if the server speaks no TLS that this end accepts."""


class HttpStatusError(ConnectError):
    """The server responded with another status than 101."""

    def __init__(self, url: str, status: int, body: bytes) -> None:
        phrase = responses.get(status, "")
        super().__init__(f"{url} opened no WebSocket: HTTP status {status} {phrase}".rstrip())
        self.status = status
        self.body = body
        """First bytes of the body, at most MAX_BODY_BYTES. The server may have written anything."""


class InvalidUpgradeError(ConnectError):
    """The server's response is no valid opening handshake: it may not be a WebSocket server."""


async def connect(
    url: str,
    *,
    context: ssl.SSLContext | None = None,
    headers: Headers = (),
    timeout_s: float,
    limits: WebSocketLimits = DEFAULT_LIMITS,
) -> WebSocketStream:
    """Open a WebSocket. Run its `run`, and call its `finish` at the end.

    Args:
        url: `ws://` or `wss://`.
        context: TLS context (see `load_client_context`); by default the system's authorities are trusted.
        headers: further headers of the request.
        timeout_s: seconds for everything.
        limits: limits of what the server sends.

    Raises:
        ConnectError: one of its subclasses says why it is not open.
    """
    address = _parse_url(url)
    with trio.move_on_after(timeout_s):
        stream = await _open_stream(address)
        try:
            return await _open_websocket(address, stream, context, headers, limits)
        except BaseException:
            await trio.aclose_forcefully(stream)
            raise
    raise UnreachableError(f"{address.name} did not respond within {timeout_s:g} s")


class _Address(NamedTuple):
    url: str
    scheme: Literal["http", "https"]
    host: str
    port: int
    target: str

    @property
    def name(self) -> str:
        """Value of the Host header."""
        name = format_host(self.host)
        return name if self.port == DEFAULT_PORTS[self.scheme] else f"{name}:{self.port}"


def _parse_url(url: str) -> _Address:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise InvalidUrlError(f"{url!r} is not a URL: {error}") from error
    if parts.scheme not in {"ws", "wss"} or not parts.hostname:
        raise InvalidUrlError(f"{url!r} is not the URL of a WebSocket: it begins with ws:// or wss://")
    if "@" in parts.netloc or parts.fragment:
        raise InvalidUrlError("the URL of a WebSocket has no user name and no fragment (#)")
    target = _target(parts)
    if not _TARGET.fullmatch(target):
        raise InvalidUrlError(f"{url!r} is not a URL: its path or query is not percent-encoded")
    try:
        host = parts.hostname if ":" in parts.hostname else parts.hostname.encode("idna").decode()
    except UnicodeError as error:
        raise InvalidUrlError(f"{url!r} is not a URL: its host is not a valid name") from error
    scheme: Literal["http", "https"] = "http" if parts.scheme == "ws" else "https"
    return _Address(url, scheme, host, port or DEFAULT_PORTS[scheme], target)


def _target(parts: SplitResult) -> str:
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


async def _open_stream(address: _Address) -> trio.SocketStream:
    try:
        return await trio.open_tcp_stream(address.host, address.port)
    except OSError as error:
        cause = error.__cause__ or error
        reasons = [str(each) for each in getattr(cause, "exceptions", [cause])]
        raise UnreachableError(f"cannot connect to {address.name}: {'; '.join(reasons)}") from error


class _Opening:
    """A connection before its opening handshake is complete."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self.tls: TlsChannel | None = None
        self._received = b""

    async def send(self, data: bytes) -> None:
        """Send bytes."""
        await self.stream.send_all(self.tls.encrypt(data) if self.tls else data)

    async def receive(self) -> bytes:
        """Return the next bytes; empty at the end."""
        received, self._received = self._received, b""
        while not (received or (self.tls and self.tls.has_ended)):
            received = bytes(await self.stream.receive_some(_READ_BYTES))
            if not received:
                break
            if self.tls:
                received = self.tls.decrypt(received)
        return received

    async def start_tls(self, tls: TlsChannel) -> None:
        """Complete the handshake of TLS, or return at its end."""
        while not (tls.is_open or tls.has_ended):
            await self.stream.send_all(tls.take_outgoing())
            if not (data := await self.stream.receive_some(_READ_BYTES)):
                return
            self._received += tls.decrypt(bytes(data))
        if rest := tls.take_outgoing():
            await self.stream.send_all(rest)
        self.tls = tls


async def _open_websocket(
    address: _Address,
    stream: trio.SocketStream,
    context: ssl.SSLContext | None,
    headers: Headers,
    limits: WebSocketLimits,
) -> WebSocketStream:
    opening = _Opening(stream)
    if address.scheme == "https":
        await _secure(opening, address, context or _default_context())
    protocol = WebSocketProtocol(is_client=True, limits=limits)
    try:
        protocol.feed(await _shake_hands(opening, address, headers, limits.head_bytes))
    except trio.BrokenResourceError as error:
        raise InvalidUpgradeError(f"{address.name} closed the connection") from error
    except (RemoteProtocolError, UnicodeError) as error:
        raise InvalidUpgradeError(f"{address.name} sent no valid opening handshake: {error}") from error
    return WebSocketStream(stream, protocol, opening.tls)


@cache
def _default_context() -> ssl.SSLContext:
    return load_client_context()


async def _secure(opening: _Opening, address: _Address, context: ssl.SSLContext) -> None:
    tls = TlsChannel(context, address.host)
    with suppress(trio.BrokenResourceError):
        await opening.start_tls(tls)
    if tls.is_open:
        return
    problem = certificate_problem(tls.failure)
    text = _PROBLEM_TEXTS[problem] if problem else f"no TLS was agreed on ({tls.failure or 'it has closed'})"
    raise TlsFailedError(f"{address.name}: {text}", problem)


async def _shake_hands(opening: _Opening, address: _Address, headers: Headers, max_bytes: int) -> bytes:
    """Return the bytes after the server's head."""
    handshake = H11Handshake(ConnectionType.CLIENT)
    extra = [(name.encode(), value.encode()) for name, value in headers]
    await opening.send(handshake.send(Request(host=address.name, target=address.target, extra_headers=extra)))
    received = b""
    while (end := received.find(b"\r\n\r\n")) < 0 and len(received) <= max_bytes:
        if not (data := await opening.receive()):
            raise InvalidUpgradeError(f"{address.name} closed the connection")
        received += data
    if not 0 <= end <= max_bytes:
        raise InvalidUpgradeError(f"{address.name} sent a head of more than {max_bytes} bytes")
    head, rest = received[: end + 4], received[end + 4 :]
    for event in _events(handshake, head):
        if isinstance(event, RejectConnection):
            body = await _read_body(opening, handshake, rest) if event.has_body else b""
            raise HttpStatusError(address.url, event.status_code, body)
        assert isinstance(event, AcceptConnection)
    return rest


def _events(handshake: H11Handshake, data: bytes) -> list[Event]:
    handshake.receive_data(data)
    return list(handshake.events())


async def _read_body(opening: _Opening, handshake: H11Handshake, data: bytes) -> bytes:
    """Return the first bytes of a rejection's body, as far as they come."""
    body = b""
    with suppress(trio.BrokenResourceError, RemoteProtocolError):
        while True:
            for event in _events(handshake, data) if data else []:
                assert isinstance(event, RejectData)
                body += event.data
                if event.body_finished:
                    return body[:MAX_BODY_BYTES]
            if len(body) >= MAX_BODY_BYTES or not (data := await opening.receive()):
                break
    return body[:MAX_BODY_BYTES]
