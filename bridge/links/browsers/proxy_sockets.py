"""WebSocket of this bridge at a proxy: opening with a token, renewal of the token, and signs of life.

Rules: docs/PROXY_PROTOCOL.md.
"""

from __future__ import annotations

import itertools
import math
import time
from contextlib import suppress
from http import HTTPStatus
from typing import TypeVar

import msgspec
import trio

from bridge import __version__
from bridge.links.browsers.host_streams import HostStream
from bridge.links.browsers.proxy_credentials import UsedProxy
from bridge.links.browsers.proxy_problem import ProxyCause, ProxyProblem
from bridge.links.remote_problem import RemoteProblem
from http_serving.websocket import WebSocketStream
from http_serving.websocket_client import ConnectError, HttpStatusError, TlsFailedError, connect
from http_serving.websocket_protocol import WebSocketLimits
from native_host.ipc.send_queue import Outgoing
from native_host.protocol import jsonrpc, wire
from native_host.protocol.jsonrpc import Envelope, UndecodableError
from native_host.protocol.wire import Code
from websocket_proxy import protocol
from websocket_proxy.protocol import CloseCode

OPENING_S = 10.0
"""Seconds for a connection with its opening, and for a response of the proxy itself."""
PING_S = 20.0
SILENCE_S = 50.0
"""Seconds after which a proxy that answers no ping is lost."""
CLOSE_S = 1.0
_LOOK_S = 30.0
"""Seconds between two looks at the clock, which may have been set."""
_LEAST_S = 1.0
_BUSY = {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE}
_CAUSES: dict[int, ProxyCause] = {Code.WIRE_VERSION: ProxyCause.VERSION, Code.RATE_LIMITED: ProxyCause.BUSY}
_OF_TIME = {ProxyCause.TOKEN_EXPIRED, ProxyCause.TOKEN_NOT_YET_VALID}
_LIMITS = WebSocketLimits(message_bytes=wire.SOCKET_BYTES)
_CLIENT = wire.ClientInfo(name="mcpb", version=__version__)
T = TypeVar("T", bound=msgspec.Struct)


class _ErrorData(msgspec.Struct):
    reason: str = ""
    detail: str = ""


class _Error(msgspec.Struct):
    code: int
    message: str = ""
    data: _ErrorData = msgspec.field(default_factory=_ErrorData)


class ProxySocket(HostStream):
    """A signed-in WebSocket. `open_socket` makes it."""

    def __init__(self, stream: WebSocketStream, proxy: UsedProxy, token: str) -> None:
        self._stream = stream
        self._proxy = proxy
        self._token = token
        self._due_at = proxy.tokens.due_at
        """Time in seconds since the epoch at which this socket's token is to be renewed."""
        self._numbers = itertools.count(1)
        self._received: list[bytes] = []
        """Messages that came with a response of the proxy."""

    # ── HostStream ──────────────────────────────────────────────────────────────────────────────────────────

    async def run(self) -> None:
        """See `HostStream`. It also renews the token, and ends a connection without signs of life."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._renew_token)
            nursery.start_soon(self._watch_pongs)
            await self._stream.run()
            nursery.cancel_scope.cancel()

    async def receive(self) -> list[bytes]:
        """See `HostStream`."""
        if self._received:
            received, self._received = self._received, []
            return received
        return await self._stream.receive()

    def put(self, *parts: bytes) -> Outgoing:
        """See `HostStream`."""
        return self._stream.put(*parts)

    def flush(self) -> None:
        """See `HostStream`."""
        self._stream.flush()

    def withdraw(self, outgoing: Outgoing) -> bool:
        """See `HostStream`."""
        return self._stream.withdraw(outgoing)

    async def finish(self) -> None:
        """See `HostStream`."""
        await self._stream.finish(timeout_s=CLOSE_S)

    async def close(self) -> None:
        """See `HostStream`."""
        with trio.CancelScope(shield=True):
            await self._stream.finish(timeout_s=0)

    # ── The proxy's own messages, before the other end is an extension ──────────────────────────────────────

    async def sign_in(self) -> None:
        """Send the first message.

        Raises:
            ProxyProblem: the proxy rejects it.
        """
        await self._ask("mcp_handshake", self._make_handshake(), protocol.HandshakeResult)

    async def connect_extension(self, extension_id: str) -> str:
        """Connect to an extension; return the id of the connection.

        The next received message is that of a native host.

        Raises:
            ProxyProblem: it is gone.
        """
        connect = protocol.Connect(extension_id=extension_id)
        connected = await self._ask("connect", connect, protocol.ConnectResult)
        with trio.move_on_after(OPENING_S):
            while True:
                received = await self._receive_some()
                for index, body in enumerate(received):
                    message = _decode(body)
                    if message.method == "disconnected":
                        raise ProxyProblem(ProxyCause.LOST)
                    if message.method in {"host/hello", "host/error"}:
                        self._received = received[index:]
                        return connected.connection_id
        raise ProxyProblem(ProxyCause.ADDRESS, f"no host/hello within {OPENING_S:g} s")

    async def receive_list(self) -> list[protocol.ListedExtension] | None:
        """Wait for the next list of the user's extensions; None at the end."""
        while received := await self.receive():
            messages = [_decode(body) for body in received]
            for message in messages:
                if message.error:  # the response to a new token
                    self._read_response(message, protocol.HandshakeResult)
            if lists := [message for message in messages if message.method == "extensions"]:
                return _read(bytes(lists[-1].params), protocol.ExtensionList).extensions
        return None

    def end_problem(self) -> ProxyProblem:
        """Return why the connection has ended."""
        cause = ProxyCause.BUSY if self._stream.close_code == CloseCode.TRY_AGAIN_LATER else ProxyCause.LOST
        return ProxyProblem(cause, self._masked(self._stream.close_reason))

    async def _ask(self, method: str, params: msgspec.Struct, result: type[T]) -> T:
        raw_id = self._send_request(method, params)
        with trio.move_on_after(OPENING_S):
            while True:
                received = await self._receive_some()
                for index, body in enumerate(received):
                    message = _decode(body)
                    if message.is_response and bytes(message.id) == raw_id:
                        self._received = received[index + 1 :]
                        return self._read_response(message, result)
        raise ProxyProblem(ProxyCause.ADDRESS, f"no response to {method} within {OPENING_S:g} s")

    async def _receive_some(self) -> list[bytes]:
        if received := await self.receive():
            return received
        raise self.end_problem()

    def _send_request(self, method: str, params: msgspec.Struct) -> bytes:
        # Requests of a `HostConnection` have numbers.
        raw_id = b'"%b-%d"' % (method.encode(), next(self._numbers))
        self._stream.put(jsonrpc.request(raw_id, method, msgspec.json.encode(params)))
        self._stream.flush()
        return raw_id

    def _read_response(self, message: Envelope, result: type[T]) -> T:
        if not message.error:
            return _read(bytes(message.result), result)
        error = _read(bytes(message.error), _Error)
        if error.data.reason:
            raise self._rejected(error.data.reason, self._masked(error.data.detail))
        raise ProxyProblem(_CAUSES.get(error.code, ProxyCause.LOST), self._masked(error.message))

    def _rejected(self, reason: str, detail: str) -> ProxyProblem:
        problem = ProxyProblem.of_token(reason, detail)
        is_new = time.time() < self._proxy.tokens.due_at < math.inf
        if is_new and problem.cause in _OF_TIME:
            return ProxyProblem(ProxyCause.CLOCK, detail)
        return problem

    def _masked(self, text: str) -> str:
        """Return a text of the proxy without the token, which it may quote."""
        return text.replace(self._token, "(token)")

    def _make_handshake(self) -> protocol.Handshake:
        return protocol.Handshake(access_token=self._token, client=_CLIENT, wire=wire.WIRE_VERSION)

    # ── While it is open ────────────────────────────────────────────────────────────────────────────────────

    async def _renew_token(self) -> None:
        """Send each new token on this socket, which would end with the old one."""
        tokens = self._proxy.tokens
        while True:
            await trio.sleep(min(max(self._due_at - time.time(), _LEAST_S), _LOOK_S))
            if time.time() < self._due_at:
                continue
            with suppress(RemoteProblem):  # the next opening reports it
                token = await tokens.read()
                if token and token != self._token:
                    self._token, self._due_at = token, tokens.due_at
                    self._send_request("mcp_handshake", self._make_handshake())

    async def _watch_pongs(self) -> None:
        while trio.current_time() - self._stream.last_pong_at < SILENCE_S:
            self._stream.ping()
            await trio.sleep(PING_S)
        await self._stream.finish(timeout_s=0)


async def open_socket(proxy: UsedProxy) -> ProxySocket:
    """Open a WebSocket and sign in. Run its `run`, and call its `close` at the end.

    Raises:
        ProxyProblem: it cannot be opened.
    """
    token = await _read_token(proxy)
    try:
        return await _open_with(proxy, token)
    except ProxyProblem as problem:
        if not problem.cause.is_of_token:
            raise
        # Another process may have received a new one meanwhile.
        fresh = await _read_token(proxy, is_rejected=True)
        if fresh == token:
            raise
    return await _open_with(proxy, fresh)


async def _read_token(proxy: UsedProxy, *, is_rejected: bool = False) -> str:
    try:
        token = await proxy.tokens.read(is_rejected=is_rejected)
    except RemoteProblem as problem:
        raise ProxyProblem.of_sign_in(problem) from None
    if not token:
        raise ProxyProblem(ProxyCause.NOT_SIGNED_IN)
    return token


async def _open_with(proxy: UsedProxy, token: str) -> ProxySocket:
    try:
        stream = await connect(proxy.address.client_url, timeout_s=OPENING_S, limits=_LIMITS)
    except TlsFailedError as error:
        raise ProxyProblem(ProxyCause.TLS, str(error)) from None
    except HttpStatusError as error:
        cause = ProxyCause.BUSY if error.status in _BUSY else ProxyCause.ADDRESS
        raise ProxyProblem(cause, str(error)) from None
    except ConnectError as error:
        raise ProxyProblem(ProxyCause.ADDRESS, str(error)) from None
    socket = ProxySocket(stream, proxy, token)
    try:
        await socket.sign_in()
    except BaseException:
        await socket.close()
        raise
    return socket


def _decode(body: bytes) -> Envelope:
    try:
        return jsonrpc.decode(body)
    except UndecodableError as error:
        raise ProxyProblem(ProxyCause.ADDRESS, f"it sent what cannot be read: {error}") from None


def _read(raw: bytes, result: type[T]) -> T:
    try:
        return msgspec.json.decode(raw or b"{}", type=result)
    except (msgspec.DecodeError, RecursionError):
        raise ProxyProblem(ProxyCause.ADDRESS, "it sent a response that cannot be read") from None
