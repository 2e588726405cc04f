"""Streamable HTTP (`/mcp`), in both eras of the protocol.

The HTTP response is JSON if the JSON-RPC response is soon ready and no message precedes it. Otherwise it is
an event stream. In the handshake era, with `Mcp-Session-Id`, a client resumes a broken stream by
`Last-Event-ID`. In 2026-07-28 a client cancels its request by closing the response.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from http import HTTPStatus

import msgspec
import trio
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from bridge.errors import ProtocolError
from bridge.frontends.http import mcp_headers
from bridge.frontends.http.event_store import KEEP_ALIVE_S, EventStream
from bridge.frontends.http.http_sessions import HttpSession, HttpSessions
from bridge.frontends.http.json_rpc_body import decode_message
from bridge.frontends.http.mcp_headers import CheckedRequest, HeaderError
from bridge.frontends.http.session_options import is_structured
from bridge.hub.tool_schema import Era
from bridge.mcp_session.mcp_server import HANDSHAKE_VERSIONS
from bridge.mcp_session.session import load_package
from http_serving.error_responses import RequestRejected, method_not_allowed
from http_serving.peer_credentials import principal_of
from http_serving.request_body import read_json_body
from http_serving.server_sent_events import run_while_connected, send_events, stream_events
from native_host.protocol import jsonrpc
from native_host.protocol.wire import Code

TRANSPORT = "streamable"
SESSION_ID = "mcp-session-id"
SOON_S = 0.05
"""Seconds until a response becomes an event stream, which a client can resume."""
QUICK_S = 0.02
"""Seconds before the client is watched for disconnecting: most responses are ready by then."""
_STATUS = {
    Code.PARSE_ERROR: HTTPStatus.BAD_REQUEST,
    Code.INVALID_REQUEST: HTTPStatus.BAD_REQUEST,
    Code.INVALID_PARAMS: HTTPStatus.BAD_REQUEST,
    Code.METHOD_NOT_FOUND: HTTPStatus.NOT_FOUND,
    mcp_headers.HEADER_MISMATCH: HTTPStatus.BAD_REQUEST,
    mcp_headers.UNSUPPORTED_VERSION: HTTPStatus.BAD_REQUEST,
    -32021: HTTPStatus.BAD_REQUEST,  # the client lacks a capability
}
"""HTTP status of a JSON-RPC error (MCP 2026-07-28); 200 for all others."""
_NUMBER = re.compile(r"[0-9]{1,15}")
"""Number of an event. Python parses thousands of digits slowly, or not at all."""
_PRIMED_VERSIONS = ("2025-11-25",)
"""Revisions whose clients understand an event without a message."""


class StreamableHttp:
    """The ASGI application of `/mcp`."""

    def __init__(self, sessions: HttpSessions) -> None:
        self._sessions = sessions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request."""
        request = Request(scope, receive, send)
        is_of_handshake = mcp_headers.is_of_handshake(request.headers)
        match request.method:
            case "POST" if is_of_handshake:
                await self._handle_post(request, send)
            case "POST":
                await self._handle_stateless_post(request, send)
            case "GET" if is_of_handshake:
                await self._handle_get(request, send)
            case "DELETE" if is_of_handshake:
                self._find_session(request).end()
                await Response(status_code=HTTPStatus.NO_CONTENT)(scope, receive, send)
            case method:
                raise method_not_allowed(
                    method, "/mcp", ["GET", "POST", "DELETE"] if is_of_handshake else ["POST"]
                )

    # ── The handshake era ───────────────────────────────────────────────────────────────────────────────────

    async def _handle_post(self, request: Request, send: Send) -> None:
        line = await read_json_body(request)
        message = decode_message(line)
        _check_id(message)
        session = await self._find_or_open_session(request, message)
        with session.in_use():
            if not message.is_request:
                # A notification, or a response to a server request: neither has a response.
                await session.lane.handle_line(line, EventStream())
                await Response(status_code=HTTPStatus.ACCEPTED)(request.scope, request.receive, send)
                return
            session.check_request_limit()
            stream = session.create_stream()
            await session.lane.handle_line(line, stream)
            await self._send_response(request, send, session, stream)
            if stream.error and SESSION_ID not in request.headers:
                session.end()  # the initialize request was not valid

    async def _find_or_open_session(self, request: Request, message: jsonrpc.Envelope) -> HttpSession:
        if SESSION_ID in request.headers:
            return self._find_session(request)
        if message.method == "initialize" and message.is_request:
            session = await self._sessions.open(
                TRANSPORT, principal_of(request), is_structured=is_structured(request)
            )
            session.is_primed = _negotiated_version(message) in _PRIMED_VERSIONS
            return session
        text = "Mcp-Session-Id is missing: send initialize first, then the id in the header of its response"
        raise RequestRejected(HTTPStatus.BAD_REQUEST, text)

    def _find_session(self, request: Request) -> HttpSession:
        if session_id := request.headers.get(SESSION_ID):
            return self._sessions.find(TRANSPORT, session_id, principal_of(request))
        raise RequestRejected(
            HTTPStatus.BAD_REQUEST, "Mcp-Session-Id is missing: it names the session that is meant"
        )

    async def _send_response(
        self, request: Request, send: Send, session: HttpSession, stream: EventStream
    ) -> None:
        headers = {SESSION_ID: session.key}
        if not _accepts_events(request):
            last = await stream.wait_last()
            status = HTTPStatus.OK if last else HTTPStatus.ACCEPTED  # it was cancelled
            await _respond(request, send, last, headers, status)
            return
        with trio.move_on_after(SOON_S):
            await stream.wait_written()
        if response := stream.pop_only_response():
            await _respond(request, send, response, headers)
            return
        session.store_stream(stream)
        pump = partial(stream.pump, opening=_format_opening(session, stream))
        await stream_events(request, send, pump, headers)

    async def _handle_get(self, request: Request, send: Send) -> None:
        if not _accepts_events(request):
            text = "GET /mcp is an event stream: send Accept: text/event-stream"
            raise RequestRejected(HTTPStatus.NOT_ACCEPTABLE, text)
        session = self._find_session(request)
        headers = {SESSION_ID: session.key}
        with session.in_use():
            if last := request.headers.get("last-event-id"):
                stream, number = _find_event(session, last)
                if stream.is_last_event(number):
                    # It tells the client that the stream is complete. An empty stream would be resumed again.
                    await Response(status_code=HTTPStatus.NO_CONTENT)(request.scope, request.receive, send)
                    return
                await stream_events(request, send, partial(stream.pump, after=number), headers)
                return
            stream = session.standalone
            if stream.is_read:
                text = "this session has an open stream already: close it first"
                raise RequestRejected(HTTPStatus.CONFLICT, text)
            pump = partial(stream.pump, opening=_format_opening(session, stream))
            await stream_events(request, send, pump, headers)

    # ── MCP 2026-07-28 ──────────────────────────────────────────────────────────────────────────────────────

    async def _handle_stateless_post(self, request: Request, send: Send) -> None:
        line = await read_json_body(request)
        message = decode_message(line)
        _check_id(message)
        if not message.is_request:
            await _acknowledge(request, send, message)
            return
        checked = mcp_headers.read_headers(request.headers, line)
        if isinstance(checked, HeaderError):
            await _respond_with_error(request, send, bytes(message.id), checked)
            return
        if message.method == "initialize":
            text = "Method not found: there is no handshake since 2026-07-28"
            await _respond_with_error(
                request, send, bytes(message.id), HeaderError(Code.METHOD_NOT_FOUND, text)
            )
            return
        if message.method == "subscriptions/listen" and not _accepts_events(request):
            text = "subscriptions/listen needs an event stream: send Accept: text/event-stream"
            raise RequestRejected(HTTPStatus.NOT_ACCEPTABLE, text)
        session = await self._sessions.open_shared(
            principal_of(request), is_structured=is_structured(request)
        )
        with session.in_use():
            if error := await _check_parameter_headers(session, request, checked):
                await _respond_with_error(request, send, bytes(message.id), error)
                return
            stream = EventStream()
            lane = session.new_lane(stream, Era.STATELESS)
            try:
                await lane.handle_line(line, stream)
                await _send_stateless_response(request, send, stream)
            finally:
                session.end_lane(lane)


async def _acknowledge(request: Request, send: Send, message: jsonrpc.Envelope) -> None:
    """Accept a notification and ignore it: in this era no notification of a client has a meaning."""
    if not message.method:
        raise RequestRejected(
            HTTPStatus.BAD_REQUEST, "a response, but no request was sent to you: send a request"
        )
    if error := mcp_headers.check_version(request.headers):
        await _respond_with_error(request, send, b"", error)
        return
    await Response(status_code=HTTPStatus.ACCEPTED)(request.scope, request.receive, send)


async def _respond_with_error(request: Request, send: Send, raw_id: bytes, error: HeaderError) -> None:
    body = {"code": int(error.code), "message": error.message}
    if error.data is not None:
        body["data"] = error.data
    response = b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (
        raw_id or jsonrpc.NULL_ID,
        msgspec.json.encode(body),
    )
    await _respond(request, send, response, {}, _STATUS[error.code])


async def _check_parameter_headers(
    session: HttpSession, request: Request, checked: CheckedRequest
) -> HeaderError | None:
    """Check headers that repeat arguments, as a tool's schema demands by `x-mcp-header`."""
    schema = session.server.input_schema(checked.tool) if checked.tool else b""
    if b'"x-mcp-header"' not in schema or checked.arguments[:1] != b"{":
        return None
    package = await load_package()
    found: ProtocolError | None = package.parameter_disagreement(schema, checked.arguments, request.headers)
    return HeaderError(*found) if found else None


async def _send_stateless_response(request: Request, send: Send, stream: EventStream) -> None:
    with trio.move_on_after(QUICK_S):
        await stream.wait_written()
    if response := stream.pop_only_response():
        await _respond(request, send, response, {}, _status_of(stream))
        return

    async def send_response() -> None:
        with trio.move_on_after(KEEP_ALIVE_S):
            await stream.wait_written()
        response = stream.pop_only_response()
        if response is None and not _accepts_events(request):
            response = await stream.wait_last()
        if response:
            await _respond(request, send, response, {}, _status_of(stream))
        else:
            await send_events(send, stream.pump, {})

    await run_while_connected(request, send_response)


def _status_of(stream: EventStream) -> HTTPStatus:
    return _STATUS.get(stream.error, HTTPStatus.OK)


# ── Reading ─────────────────────────────────────────────────────────────────────────────────────────────────


def _check_id(message: jsonrpc.Envelope) -> None:
    if bytes(message.id) and not jsonrpc.is_id(bytes(message.id)):
        raise RequestRejected(HTTPStatus.BAD_REQUEST, "the id must be a string or an integer")


def _negotiated_version(message: jsonrpc.Envelope) -> str:
    """Return the revision that `initialize` leads to; empty if its parameters are not valid."""
    try:
        requested = msgspec.json.decode(message.params, type=_InitializeParams).protocol_version
    except msgspec.DecodeError:
        return ""
    return requested if requested in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1]


class _InitializeParams(msgspec.Struct, rename="camel"):
    protocol_version: str


def _accepts_events(request: Request) -> bool:
    accept = request.headers.get("accept", "*/*")
    return any(kind in accept for kind in ("text/event-stream", "text/*", "*/*"))


def _find_event(session: HttpSession, last_event_id: str) -> tuple[EventStream, int]:
    """Return the stream of an event id, and the number of the event."""
    name, _, digits = last_event_id.rpartition("-")
    stream = session.find_stream(name)
    number = int(digits) if _NUMBER.fullmatch(digits) else -1
    if stream is None or not stream.has_event(number):
        text = f"no event {last_event_id[:40]!r}: it is not stored any more, and the events after it are lost"
        raise RequestRejected(HTTPStatus.BAD_REQUEST, text)
    return stream, number


# ── Sending ─────────────────────────────────────────────────────────────────────────────────────────────────


def _format_opening(session: HttpSession, stream: EventStream) -> bytes:
    # A client would resume a primed stream, also that of a request that it has cancelled.
    return stream.priming_event() if session.is_primed and not stream.is_finished else b""


async def _respond(
    request: Request, send: Send, body: bytes, headers: Mapping[str, str], status: HTTPStatus = HTTPStatus.OK
) -> None:
    response = Response(body, status, dict(headers), "application/json")
    await response(request.scope, request.receive, send)
