"""HTTP of one remote server: its limits, its headers, and the record of what was sent.

It stands between the transports of the mcp package and the network. A request that fails here gets a stand-in
response, so that it fails alone and not with the whole connection; its `Exchange` has the cause.
TLS is verified against the system's certificates.
"""

from __future__ import annotations

import ipaddress
import logging
import math
import socket
import ssl
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, cast

import httpx2
import msgspec
import trio

from bridge.links.message_meter import MessageMeter
from bridge.links.remote_problem import Cause, RemoteProblem
from native_host.protocol.wire import Code

CONNECT_S = 10.0
WRITE_S = 30.0
END_SESSION_S = 2.0
CONNECTIONS = 64
"""Of one server: 32 calls, their notifications, and the streams for changes."""
MAX_RESUMPTIONS = 100
"""Of the response to one request. The mcp package nests them: some 950 exceed Python's recursion limit, which
can end all of trio."""
_PAUSE_FACTOR = 10
"""A message stops the bridge while it is read; a pause behind it is so much longer."""
_LEAST_PAUSE_S = 1.0
"""Shorter pauses are left out: an event of 25 000 values is nothing unusual."""
_FIRST_PAUSE_S = 1.0
_MAX_PAUSE_S = 60.0
_STEADY_S = 60.0
"""A stream that lasted so long is opened again after the first pause."""
_MAX_HEADER_CHARS = 1024
_ENDS_OF_EVENTS = (b"\n\n", b"\r\n\r\n", b"\r\r")
_LONGEST_END = 4
_SESSION = "mcp-session-id"
_LAST_EVENT = "last-event-id"
_NOT_TLS = {"WRONG_VERSION_NUMBER", "PACKET_LENGTH_TOO_LONG"}
"""What OpenSSL reports of a response that is plain HTTP."""
_STAND_IN_STATUS = 202
"""Status of the response that stands for a failed request.

Of all errors, this one alone leaves the mcp package's tasks alive when their recipient is gone already.
"""
_PROTOCOL_HEADERS = frozenset(
    {"accept", "accept-encoding", "cache-control", "connection", "content-length", "content-type", "host"}
    | {"transfer-encoding", _SESSION, _LAST_EVENT}
)
"""What the protocol needs overrides configured headers; so do all others that begin with `mcp-`."""

ReadHeaders = Callable[[bool], Awaitable[dict[str, str]]]
"""Returns the headers of a request; its argument: the last ones were answered with 401."""


class Exchange:
    """What happened on HTTP to one JSON-RPC request. Other tasks see it through `current_exchange`."""

    def __init__(
        self, call: object = None, *, opens_stream: bool = False, timeout_s: float = math.inf
    ) -> None:
        self.call = call
        """Whatever the messages of its response belong to."""
        self.opens_stream = opens_stream
        """Whether the mcp package opens the stream of changes after it."""
        self.has_begun = False
        """Whether its request was posted; what the same task posts later is no part of it."""
        self._deadline = trio.current_time() + timeout_s
        self.was_sent = False
        """Whether the server may have received the request."""
        self.status = 0
        self.problem: RemoteProblem | None = None
        self.has_ended = False
        """Whether the stream of the response has ended."""
        self.resumptions = 0
        """GET requests for the rest of the response."""
        self._is_over = False
        self._scopes: set[trio.CancelScope] = set()

    def close(self) -> None:
        """End what still waits for the response: its recipient is gone."""
        self._is_over = True
        for scope in self._scopes:
            scope.cancel()

    @contextmanager
    def until_over(self) -> Any:
        """Return the scope of a wait that ends with the exchange."""
        with trio.CancelScope(deadline=self._deadline) as scope:
            if self._is_over:
                scope.cancel()
            self._scopes.add(scope)
            try:
                yield scope
            finally:
                self._scopes.discard(scope)


current_exchange: ContextVar[Exchange | None] = ContextVar("current_exchange", default=None)

_FOREIGN_LOGGERS = (
    *("client", "httpx2", "mcp.client.sse", "mcp.client.streamable_http", "mcp.shared.jsonrpc_dispatcher"),
    *(f"httpcore2.{name}" for name in ("connection", "http11", "http2", "proxy", "socks")),
)


def _is_foreign(_record: logging.LogRecord) -> bool:
    return current_exchange.get() is None


def silence_foreign_loggers() -> None:
    """Drop what libraries log of remote servers: URLs, session ids and text of servers."""
    for name in _FOREIGN_LOGGERS:
        # A filter is added once only, by its identity.
        logging.getLogger(name).addFilter(_is_foreign)


class _EventStream(httpx2.AsyncByteStream):
    """Body of an event stream: each event is limited, and a broken stream ends like a closed one."""

    def __init__(
        self, stream: httpx2.AsyncByteStream, exchange: Exchange, on_end: Callable[[], None] | None
    ) -> None:
        self._stream = stream
        self._exchange = exchange
        self._on_end = on_end
        self._meter = MessageMeter(is_event=True)
        self._tail = b""
        self._pause_s = 0.0
        """Pause before the next chunk: what parses for a long time stops the other servers and clients."""

    def __aiter__(self) -> AsyncIterator[bytes]:
        # No generator: the mcp package leaves the loop early, and a generator would wait for the collector.
        self._chunks = aiter(self._stream)
        return self

    async def __anext__(self) -> bytes:
        exchange = self._exchange
        try:
            with exchange.until_over():
                if self._pause_s > _LEAST_PAUSE_S:
                    await trio.sleep(self._pause_s)
                chunk = await anext(self._chunks)
                self._count(chunk)
                return chunk
        except StopAsyncIteration:
            pass
        except httpx2.HTTPError as error:
            exchange.problem = exchange.problem or describe_error(error, handed=True)
        except RemoteProblem as problem:
            exchange.problem = problem
        exchange.has_ended = True
        if self._on_end is not None:
            self._on_end()
        raise StopAsyncIteration

    async def aclose(self) -> None:
        await self._stream.aclose()

    def _count(self, chunk: bytes) -> None:
        text = self._tail + chunk
        end = max(text.rfind(end) for end in _ENDS_OF_EVENTS)
        self._pause_s = 0.0
        if end >= 0:
            self._pause_s = _PAUSE_FACTOR * self._meter.parse_s
            self._meter.begin()
        self._meter.add(text[end:] if end >= 0 else chunk)
        self._tail = chunk[-_LONGEST_END:]


class RemoteTransport(httpx2.AsyncBaseTransport):
    """HTTP connections to one server."""

    def __init__(self, url: str, read_headers: ReadHeaders, trusted: ssl.SSLContext, *, watch: bool) -> None:
        """Make the transport; nothing is connected.

        Args:
            url: of the server.
            read_headers: returns the configured headers.
            trusted: verifies the server's certificate.
            watch: False: a GET request for a stream of changes is not sent.
        """
        self.on_stream_opened: Callable[[], None] = lambda: None
        self.on_stream_ended: Callable[[], None] = lambda: None
        self.on_no_stream: Callable[[str], None] = lambda _reason: None
        """The server offers no stream of changes."""
        self.on_problem: Callable[[RemoteProblem], None] = lambda _problem: None
        """A request for the stream of changes has failed."""
        self._read_headers = read_headers
        self._has_stream = watch
        self._next_stream_at = 0.0
        self._pause_s = _FIRST_PAUSE_S
        self._transport = httpx2.AsyncHTTPTransport(
            verify=trusted,
            proxy=find_proxy(url),
            limits=httpx2.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS),
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request; return a stand-in if that fails."""
        exchange = current_exchange.get() or Exchange()
        if request.method == "POST":
            # A response to a server request, or a cancellation, is sent in the context of its call.
            exchange = Exchange(exchange.call) if exchange.has_begun else exchange
            exchange.has_begun = True
        is_stream = request.method == "GET" and exchange.opens_stream
        if is_stream and not self._has_stream:
            return httpx2.Response(405)
        try:
            if is_stream:
                return await self._open_stream(request)
            if request.method == "DELETE":
                return await self._end_session(request)
            if request.method == "GET" and _LAST_EVENT in request.headers:
                _count_resumption(exchange)
            return await self._send(request, exchange)
        except RemoteProblem as problem:
            exchange.problem = problem
            return httpx2.Response(_STAND_IN_STATUS)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._transport.aclose()

    async def _end_session(self, request: httpx2.Request) -> httpx2.Response:
        # The mcp package waits for the response before it closes the connection.
        with trio.move_on_after(END_SESSION_S):
            return await self._send(request, Exchange())
        return httpx2.Response(_STAND_IN_STATUS)

    async def _open_stream(self, request: httpx2.Request) -> httpx2.Response:
        exchange = Exchange()
        await trio.sleep_until(self._next_stream_at)
        opened_at = trio.current_time()
        try:
            response = await self._send(request, exchange, on_end=lambda: self._end_stream(opened_at))
        except RemoteProblem as problem:
            self._end_stream(opened_at)
            self.on_problem(problem)
            raise
        if response.status_code >= 500 or response.status_code == 404:
            self.on_problem(exchange.problem or status_problem(response.status_code, handed=False))
        elif response.status_code >= 400:
            self._has_stream = False
            self.on_no_stream(f"it answered the GET request with HTTP status {response.status_code}")
        else:
            self.on_stream_opened()
        return response

    def _end_stream(self, opened_at: float) -> None:
        now = trio.current_time()
        if now - opened_at > _STEADY_S:
            self._pause_s = _FIRST_PAUSE_S
        self._next_stream_at = now + self._pause_s
        self._pause_s = min(2 * self._pause_s, _MAX_PAUSE_S)
        self.on_stream_ended()

    async def _send(
        self, request: httpx2.Request, exchange: Exchange, on_end: Callable[[], None] | None = None
    ) -> httpx2.Response:
        headers = await self._read_headers(False)
        response = await self._send_once(request, exchange, headers)
        try:
            if response.status_code == 401:
                fresh = await self._read_headers(True)
                if fresh != headers:
                    await response.aclose()
                    response = await self._send_once(request, exchange, fresh)
            exchange.status = response.status_code
            return await self._check(request, response, exchange, on_end)
        except BaseException:
            await response.aclose()
            raise

    async def _send_once(
        self, request: httpx2.Request, exchange: Exchange, headers: dict[str, str]
    ) -> httpx2.Response:
        outgoing = httpx2.Request(
            request.method,
            request.url,
            headers=_merge_headers(request.headers, headers),
            stream=cast("httpx2.AsyncByteStream", request.stream),
            extensions=request.extensions,
        )
        exchange.was_sent = True
        exchange.has_ended = False
        try:
            with exchange.until_over():
                return await self._transport.handle_async_request(outgoing)
        except httpx2.HTTPError as error:
            exchange.was_sent = not _is_unsent(error)
            raise describe_error(error, handed=exchange.was_sent) from None
        raise RemoteProblem(Cause.CLOSED, "the request has ended", handed=True)

    async def _check(
        self,
        request: httpx2.Request,
        response: httpx2.Response,
        exchange: Exchange,
        on_end: Callable[[], None] | None,
    ) -> httpx2.Response:
        _check_headers(response.headers)
        status, content_type = response.status_code, response.headers.get("content-type", "").lower()
        stream = cast("httpx2.AsyncByteStream", response.stream)
        if content_type.startswith("application/json"):
            body = await _read(stream, exchange)
            await response.aclose()
            exchange.problem = _find_rejection(request, status, body)
            return httpx2.Response(
                status, headers=response.headers, content=body, extensions=_version(response)
            )
        if status >= 400:
            exchange.problem = _find_rejection(request, status, b"")
        elif status == 200 and request.method == "POST" and not content_type.startswith("text/event-stream"):
            exchange.problem = RemoteProblem(
                Cause.NOT_MCP, "it answers with neither JSON nor events", handed=True
            )
        return httpx2.Response(
            status,
            headers=response.headers,
            stream=_EventStream(stream, exchange, on_end),
            extensions=response.extensions,
        )


async def open_transport(url: str, read_headers: ReadHeaders, *, watch: bool) -> RemoteTransport:
    """Return a transport; reading the system's certificates does not stop other tasks.

    Raises:
        RemoteProblem: the address is not valid.
    """
    try:
        scheme = httpx2.URL(url).scheme
        if scheme == "https":
            trusted = await trio.to_thread.run_sync(httpx2.create_ssl_context)
        else:
            trusted = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # trusts no certificate
        return RemoteTransport(url, read_headers, trusted, watch=watch)
    except (httpx2.InvalidURL, ValueError):
        raise RemoteProblem(Cause.NOT_MCP, "its address, or that of the proxy, is not valid") from None
    except ImportError:
        raise RemoteProblem(Cause.REFUSED, "mcpb cannot use a SOCKS proxy") from None


def make_client(transport: RemoteTransport) -> httpx2.AsyncClient:
    """Return the HTTP client that the mcp package's transports use."""
    timeout = httpx2.Timeout(connect=CONNECT_S, write=WRITE_S, pool=WRITE_S, read=None)
    return httpx2.AsyncClient(transport=transport, timeout=timeout, headers={"accept-encoding": "identity"})


def status_problem(status: int, *, handed: bool) -> RemoteProblem:
    """Return the problem of a response without a JSON-RPC message."""
    if status in {401, 403}:
        cause = Cause.UNAUTHORIZED if status == 401 else Cause.FORBIDDEN
    else:
        cause = Cause.CLOSED if status >= 500 else Cause.NOT_MCP
    return RemoteProblem(cause, f"it answered with HTTP status {status}", handed=handed)


def describe_error(error: Exception, *, handed: bool) -> RemoteProblem:
    """Return the problem of a request that the network has ended. No text of the error is quoted."""
    causes = list(_causes(error))
    if any(isinstance(cause, socket.gaierror) for cause in causes):
        return RemoteProblem(Cause.NO_SUCH_HOST, "no host has this name", handed=handed)
    for cause in causes:
        if isinstance(cause, ssl.SSLError):
            if cause.reason in _NOT_TLS:
                return RemoteProblem(Cause.NO_TLS, "the server does not speak TLS", handed=handed)
            reason = getattr(cause, "verify_message", "") or cause.reason or "the handshake failed"
            return RemoteProblem(Cause.TLS, f"no trusted TLS connection: {reason}", handed=handed)
    if isinstance(error, httpx2.TimeoutException):
        return RemoteProblem(Cause.TOO_SLOW, "it did not answer in time", handed=handed)
    if isinstance(error, httpx2.ConnectError):
        return RemoteProblem(Cause.REFUSED, "it cannot be connected to", handed=handed)
    if isinstance(error, httpx2.LocalProtocolError | httpx2.UnsupportedProtocol):
        return RemoteProblem(Cause.HEADERS, "a configured header or the address is not valid", handed=handed)
    return RemoteProblem(Cause.CLOSED, "it closed the connection", handed=handed)


def _causes(error: BaseException | None) -> Any:
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        cause = waiting.pop()
        if cause is None or id(cause) in seen:
            continue
        seen.add(id(cause))
        yield cause
        waiting += [cause.__cause__, cause.__context__]
        if isinstance(cause, BaseExceptionGroup):
            waiting += cause.exceptions


def _is_unsent(error: httpx2.HTTPError) -> bool:
    unsent = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.ProxyError)
    return isinstance(error, (*unsent, httpx2.LocalProtocolError, httpx2.UnsupportedProtocol))


def _merge_headers(own: httpx2.Headers, configured: dict[str, str]) -> httpx2.Headers:
    headers = httpx2.Headers(own)
    for name, value in configured.items():
        if name.lower() not in _PROTOCOL_HEADERS and not name.lower().startswith("mcp-"):
            headers[name] = value
    if not _is_visible(headers.get(_LAST_EVENT, "-")):
        del headers[_LAST_EVENT]
    return headers


def _count_resumption(exchange: Exchange) -> None:
    exchange.resumptions += 1
    if exchange.resumptions > MAX_RESUMPTIONS:
        reason = f"it ended its response {MAX_RESUMPTIONS} times without a result"
        raise RemoteProblem(Cause.CLOSED, reason, handed=True)


def _is_visible(value: str) -> bool:
    return 0 < len(value) <= _MAX_HEADER_CHARS and all("!" <= char <= "~" for char in value)


def _check_headers(headers: httpx2.Headers) -> None:
    if not _is_visible(headers.get(_SESSION, "-")):
        raise RemoteProblem(Cause.NOT_MCP, "it sent a session id that is not valid", handed=True)
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise RemoteProblem(Cause.NOT_MCP, "it compressed its response without being asked", handed=True)


async def _read(stream: httpx2.AsyncByteStream, exchange: Exchange) -> bytes:
    body, meter = bytearray(), MessageMeter()
    try:
        with exchange.until_over():
            async for chunk in stream:
                meter.add(chunk)
                body += chunk
            return bytes(body)
    except httpx2.HTTPError as error:
        raise describe_error(error, handed=True) from None
    raise RemoteProblem(Cause.CLOSED, "the request has ended", handed=True)


class _Error(msgspec.Struct):
    """JSON-RPC error."""

    code: int


class _ErrorBody(msgspec.Struct):
    """Body of an HTTP error response."""

    error: _Error
    id: str | int | None = None


def _find_rejection(request: httpx2.Request, status: int, body: bytes) -> RemoteProblem | None:
    """Return the problem of an HTTP error response; None if a JSON-RPC error answers the request."""
    if status < 400:
        return None
    try:
        found: _ErrorBody | None = msgspec.json.decode(body, type=_ErrorBody)
    except msgspec.DecodeError:
        found = None
    if _SESSION in request.headers and _is_unknown_session(status, found):
        return RemoteProblem(Cause.CLOSED, "it has closed the session", is_session_lost=True)
    if found is None or status in {401, 403}:
        return status_problem(status, handed=status >= 500)
    return None


def _is_unknown_session(status: int, found: _ErrorBody | None) -> bool:
    """Return whether a rejection is that of a session id: 404, or 400 without the request's id."""
    if status == 404:
        return found is None or found.error.code != Code.METHOD_NOT_FOUND
    return status == 400 and found is not None and found.id is None


def _version(response: httpx2.Response) -> dict[str, Any]:
    return {"http_version": response.extensions.get("http_version", b"HTTP/1.1")}


def find_proxy(url: str) -> str | None:
    """Return the proxy that the environment names for this address."""
    address = httpx2.URL(url)
    # `http:` may lead to this machine because no one else can read it: a proxy could.
    if _is_loopback(address.host) or urllib.request.proxy_bypass(address.host):
        return None
    proxies = urllib.request.getproxies()
    return proxies.get(address.scheme) or proxies.get("all")


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
