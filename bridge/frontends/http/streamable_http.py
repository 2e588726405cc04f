"""`/mcp`: MCP's Streamable HTTP, in both eras of the protocol.

A request is answered in its own response: as JSON when its answer comes first and soon, else as server-sent
events. In the handshake era (a session id, `Mcp-Session-Id`) a stream that breaks is no loss: its client asks
for the rest with `Last-Event-ID`. Since 2026-07-28 there is no session: who closes a response has cancelled
its request.
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
from bridge.frontends.http.mcp_headers import Asked, Disagreement
from bridge.hub.tool_schema import Era
from bridge.mcp_session.mcp_server import HANDSHAKE_VERSIONS
from bridge.mcp_session.session import load_package
from http_serving.error_responses import RequestRejected, method_not_allowed
from http_serving.peer_credentials import principal_of
from http_serving.request_body import read_json_body
from http_serving.server_sent_events import send_events, stream_events, while_there
from native_host.protocol import jsonrpc
from native_host.protocol.wire import Code

TRANSPORT = "streamable"
SESSION_ID = "mcp-session-id"
SOON_S = 0.05
"""An answer within this time is JSON. What takes longer gets a stream, which a client can come back for."""
QUICK_S = 0.02
"""So long nobody looks whether the client of a request is still there: most are answered by then."""
_STATUS = {
    Code.PARSE_ERROR: HTTPStatus.BAD_REQUEST,
    Code.INVALID_REQUEST: HTTPStatus.BAD_REQUEST,
    Code.INVALID_PARAMS: HTTPStatus.BAD_REQUEST,
    Code.METHOD_NOT_FOUND: HTTPStatus.NOT_FOUND,
    mcp_headers.HEADER_MISMATCH: HTTPStatus.BAD_REQUEST,
    mcp_headers.UNSUPPORTED_VERSION: HTTPStatus.BAD_REQUEST,
    -32021: HTTPStatus.BAD_REQUEST,  # a capability of the client is missing
}
"""Of an error that is the answer to a request (MCP 2026-07-28); what is not here is 200."""
_NUMBER = re.compile(r"[0-9]{1,15}")
"""Of an event. Python reads numbers of thousands of digits slowly, or not at all."""
_PRIMED_VERSIONS = ("2025-11-25",)
"""Whose clients can read an event without a message."""


class Streamable:
    """The ASGI application of `/mcp`."""

    def __init__(self, sessions: HttpSessions) -> None:
        self._sessions = sessions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request."""
        request = Request(scope, receive, send)
        is_of_handshake = mcp_headers.is_of_handshake(request.headers)
        match request.method:
            case "POST" if is_of_handshake:
                await self._post(request, send)
            case "POST":
                await self._post_stateless(request, send)
            case "GET" if is_of_handshake:
                await self._get(request, send)
            case "DELETE" if is_of_handshake:
                self._find(request).end()
                await Response(status_code=HTTPStatus.NO_CONTENT)(scope, receive, send)
            case method:
                raise method_not_allowed(
                    method, "/mcp", ["GET", "POST", "DELETE"] if is_of_handshake else ["POST"]
                )

    # ── The handshake era ───────────────────────────────────────────────────────────────────────────────────

    async def _post(self, request: Request, send: Send) -> None:
        line = await read_json_body(request)
        found = decode_message(line)
        _check_id(found)
        session = await self._session(request, found)
        with session.in_use():
            if not found.is_request:
                # A notification, or the answer to a question: nothing is said to it.
                await session.lane.take(line, EventStream())
                await Response(status_code=HTTPStatus.ACCEPTED)(request.scope, request.receive, send)
                return
            session.check_request_limit()
            stream = session.create_stream(bytes(found.id))
            await session.lane.take(line, stream)
            await self._reply(request, send, session, stream)

    async def _session(self, request: Request, found: jsonrpc.Envelope) -> HttpSession:
        if SESSION_ID in request.headers:
            return self._find(request)
        if found.method == "initialize" and found.is_request:
            session = await self._sessions.open(TRANSPORT, principal_of(request))
            session.is_primed = _asks_for(found) in _PRIMED_VERSIONS
            return session
        text = (
            "Mcp-Session-Id is missing: begin with initialize, and send the id that its answer's header has"
        )
        raise RequestRejected(HTTPStatus.BAD_REQUEST, text)

    def _find(self, request: Request) -> HttpSession:
        if session_id := request.headers.get(SESSION_ID):
            return self._sessions.find(TRANSPORT, session_id, principal_of(request))
        raise RequestRejected(
            HTTPStatus.BAD_REQUEST, "Mcp-Session-Id is missing: it names the session that is meant"
        )

    async def _reply(self, request: Request, send: Send, session: HttpSession, stream: EventStream) -> None:
        headers = {SESSION_ID: session.key}
        if not _takes_events(request):
            await _respond(request, send, await stream.wait_last(), headers)
            return
        with trio.move_on_after(SOON_S):
            await stream.wait_written()
        if answer := stream.pop_only_response():
            if stream.error and SESSION_ID not in request.headers:
                session.end()  # what opened it was no handshake
            await _respond(request, send, answer, headers)
            return
        session.store_stream(stream)
        pump = partial(stream.pump, opening=_opening(session, stream))
        await stream_events(request, send, pump, headers)

    async def _get(self, request: Request, send: Send) -> None:
        if not _takes_events(request):
            text = "GET /mcp is a stream of events: send Accept: text/event-stream"
            raise RequestRejected(HTTPStatus.NOT_ACCEPTABLE, text)
        session = self._find(request)
        headers = {SESSION_ID: session.key}
        with session.in_use():
            if last := request.headers.get("last-event-id"):
                stream, number = _place(session, last)
                if stream.is_last_event(number):
                    # A client takes this for the end; an empty stream it would lose, and come back again.
                    await Response(status_code=HTTPStatus.NO_CONTENT)(request.scope, request.receive, send)
                    return
                await stream_events(request, send, partial(stream.pump, after=number), headers)
                return
            stream = session.standalone
            if stream.is_read:
                text = "this session has its stream already, and a second one would get nothing"
                raise RequestRejected(HTTPStatus.CONFLICT, text)
            pump = partial(stream.pump, opening=_opening(session, stream))
            await stream_events(request, send, pump, headers)

    # ── Since 2026-07-28 ────────────────────────────────────────────────────────────────────────────────────

    async def _post_stateless(self, request: Request, send: Send) -> None:
        line = await read_json_body(request)
        found = decode_message(line)
        _check_id(found)
        if not found.is_request:
            await _acknowledge(request, send, found)
            return
        asked = mcp_headers.read(request.headers, line)
        if isinstance(asked, Disagreement):
            await _disagree(request, send, bytes(found.id), asked)
            return
        if found.method == "initialize":
            text = "Method not found: there is no handshake since 2026-07-28"
            await _disagree(request, send, bytes(found.id), Disagreement(Code.METHOD_NOT_FOUND, text))
            return
        if found.method == "subscriptions/listen" and not _takes_events(request):
            text = "subscriptions/listen is answered by events: send Accept: text/event-stream"
            raise RequestRejected(HTTPStatus.NOT_ACCEPTABLE, text)
        session = await self._sessions.open_shared(principal_of(request))
        with session.in_use():
            if disagreement := await _about_parameters(session, request, asked):
                await _disagree(request, send, bytes(found.id), disagreement)
                return
            stream = EventStream()
            lane = session.new_lane(stream, Era.STATELESS)
            try:
                await lane.take(line, stream)
                await _reply_stateless(request, send, stream)
            finally:
                session.end_lane(lane)


async def _acknowledge(request: Request, send: Send, found: jsonrpc.Envelope) -> None:
    """What is no request is no use here: there is nothing that a client could mean."""
    if not found.method:
        raise RequestRejected(HTTPStatus.BAD_REQUEST, "an answer, and nothing was asked: send a request")
    if refused := mcp_headers.unsupported(request.headers):
        await _disagree(request, send, b"", refused)
        return
    await Response(status_code=HTTPStatus.ACCEPTED)(request.scope, request.receive, send)


async def _disagree(request: Request, send: Send, raw_id: bytes, found: Disagreement) -> None:
    error = {"code": int(found.code), "message": found.message}
    if found.data is not None:
        error["data"] = found.data
    answer = b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (
        raw_id or jsonrpc.NULL_ID,
        msgspec.json.encode(error),
    )
    await _respond(request, send, answer, {}, _STATUS[found.code])


async def _about_parameters(session: HttpSession, request: Request, asked: Asked) -> Disagreement | None:
    """What a page wants to have said twice of its tool's arguments (`x-mcp-header`)."""
    schema = session.server.input_schema(asked.tool) if asked.tool else b""
    if b'"x-mcp-header"' not in schema or asked.arguments[:1] != b"{":
        return None
    package = await load_package()
    found: ProtocolError | None = package.parameter_disagreement(schema, asked.arguments, request.headers)
    return Disagreement(*found) if found else None


async def _reply_stateless(request: Request, send: Send, stream: EventStream) -> None:
    with trio.move_on_after(QUICK_S):
        await stream.wait_written()
    if answer := stream.pop_only_response():
        await _respond(request, send, answer, {}, _status(stream))
        return

    async def reply() -> None:
        with trio.move_on_after(KEEP_ALIVE_S):
            await stream.wait_written()
        answer = stream.pop_only_response()
        if answer is None and not _takes_events(request):
            answer = await stream.wait_last()
        if answer:
            await _respond(request, send, answer, {}, _status(stream))
        else:
            await send_events(send, stream.pump, {})

    await while_there(request, reply)


def _status(stream: EventStream) -> HTTPStatus:
    return _STATUS.get(stream.error, HTTPStatus.OK)


# ── What is read ────────────────────────────────────────────────────────────────────────────────────────────


def _check_id(found: jsonrpc.Envelope) -> None:
    if bytes(found.id) and not jsonrpc.is_id(bytes(found.id)):
        raise RequestRejected(HTTPStatus.BAD_REQUEST, "an id is a string or an integer")


def _asks_for(found: jsonrpc.Envelope) -> str:
    """The revision that an `initialize` asks for, and gets if it is one of this era."""
    try:
        asked = msgspec.json.decode(found.params, type=_Asked).protocol_version
    except msgspec.DecodeError:
        return ""
    return asked if asked in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1]


class _Asked(msgspec.Struct, rename="camel"):
    protocol_version: str


def _takes_events(request: Request) -> bool:
    accept = request.headers.get("accept", "*/*")
    return any(kind in accept for kind in ("text/event-stream", "text/*", "*/*"))


def _place(session: HttpSession, last_event_id: str) -> tuple[EventStream, int]:
    """The stream that an event was of, and its number there."""
    name, _, digits = last_event_id.rpartition("-")
    stream = session.find_stream(name)
    number = int(digits) if _NUMBER.fullmatch(digits) else -1
    if stream is None or not stream.has_event(number):
        text = f"there is no event {last_event_id[:40]!r} here, or not any more: what followed it is lost"
        raise RequestRejected(HTTPStatus.BAD_REQUEST, text)
    return stream, number


# ── What is sent ────────────────────────────────────────────────────────────────────────────────────────────


def _opening(session: HttpSession, stream: EventStream) -> bytes:
    return stream.priming_event() if session.is_primed else b""


async def _respond(
    request: Request,
    send: Send,
    answer: bytes,
    headers: Mapping[str, str],
    status: HTTPStatus = HTTPStatus.OK,
) -> None:
    response = Response(answer, status, dict(headers), "application/json")
    await response(request.scope, request.receive, send)
