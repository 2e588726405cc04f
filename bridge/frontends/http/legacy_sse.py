"""HTTP+SSE, the transport of MCP 2024-11-05: `/sse` and `/message`.

A client receives all messages on one event stream, whose first event names the path for its own messages. The
session ends with the stream. Rules: MCP 2024-11-05, "HTTP with SSE".
"""

from __future__ import annotations

import math
import time
from functools import partial
from http import HTTPStatus

import msgspec
import trio
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from bridge.frontends.http.event_store import SessionStream
from bridge.frontends.http.http_sessions import HttpSession, HttpSessions
from bridge.frontends.http.json_rpc_body import decode_message
from bridge.frontends.http.session_options import is_structured
from http_serving.error_responses import RequestRejected, method_not_allowed
from http_serving.peer_credentials import principal_of
from http_serving.request_body import read_json_body
from http_serving.server_sent_events import stream_events
from native_host.protocol import jsonrpc
from native_host.protocol.framing import Part

TRANSPORT = "sse"
PING_S = 30.0
_MESSAGE_PATHS = ("/message", "/messages")
"""The path that clients are given, and the one that samples of MCP use."""
_ACCEPTED = msgspec.json.encode({"status": "accepted"})
_EVENT = b"event: "
"""Begins an event that is no message: a message begins with a brace."""
_ERROR_WITHOUT_ID, _END = b'{"jsonrpc":"2.0","id":null,"error":', b"}\n"
"""Text around the error of a response without an id."""


def build_routes(sessions: HttpSessions) -> list[Route]:
    """Return the routes of the stream and of the client's messages."""
    receive = partial(_receive_message, sessions)
    return [
        Route("/sse", _SseEndpoint(sessions)),
        *(Route(path, receive, methods=["POST"]) for path in _MESSAGE_PATHS),
    ]


class _SseEndpoint:
    """The ASGI application of `/sse`."""

    def __init__(self, sessions: HttpSessions) -> None:
        self._sessions = sessions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Open a session and send its events until it ends."""
        request = Request(scope, receive, send)
        if request.method != "GET":  # a HEAD would open a session without a stream
            raise method_not_allowed(request.method, "/sse", ["GET"])
        session = await self._sessions.open(
            TRANSPORT, principal_of(request), is_structured=is_structured(request)
        )
        session.standalone = stream = _LegacyEventStream("", session.end)
        stream.write_event(b"endpoint", f"/message?sessionId={session.key}".encode())
        pump = partial(stream.pump, keep_alive_s=math.inf)
        headers = {"Cache-Control": "no-cache", "X-Session-Id": session.key}
        with session.in_use():
            try:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(_send_pings, stream)
                    await stream_events(request, send, pump, headers)
                    nursery.cancel_scope.cancel()
            finally:
                session.abandon()


class _LegacyEventStream(SessionStream):
    """A session's stream, also with events that are not messages."""

    def write_event(self, name: bytes, data: bytes) -> None:
        """Add an event with one line of data."""
        self._add_event(b"%b%b\ndata: %b\n\n" % (_EVENT, name, data))

    def answer(self, *parts: Part, error: int = 0) -> None:
        """Add a response. An error without an id is an event of its own."""
        line = b"".join(parts)
        if line.startswith(_ERROR_WITHOUT_ID):
            self.write_event(b"error", line[len(_ERROR_WITHOUT_ID) : -len(_END)])
        else:
            super().answer(line, error=error)

    def _format_event(self, number: int, line: bytes) -> bytes:
        return line if line.startswith(_EVENT) else super()._format_event(number, line)


async def _send_pings(stream: _LegacyEventStream) -> None:
    while True:
        await trio.sleep(PING_S)
        if not stream.waiting_bytes:  # no pings pile up for a client that reads nothing
            stream.write_event(b"ping", msgspec.json.encode({"timestamp": int(time.time() * 1000)}))


async def _receive_message(sessions: HttpSessions, request: Request) -> Response:
    """Handle a message of the client. The response is sent on its stream."""
    line = await read_json_body(request)
    session = _find_session(sessions, request)
    message = decode_message(line)
    if message.method == "shutdown":
        _end_session(session, bytes(message.id))
    else:
        if message.is_request:
            session.check_request_limit()
        await session.lane.handle_line(line)
    return Response(_ACCEPTED, HTTPStatus.ACCEPTED, media_type="application/json")


def _find_session(sessions: HttpSessions, request: Request) -> HttpSession:
    key = request.query_params.get("sessionId", "")
    if not key:
        text = "sessionId is missing: use the path in the first event of GET /sse"
        raise RequestRejected(HTTPStatus.BAD_REQUEST, text)
    return sessions.find(TRANSPORT, key, principal_of(request))


def _end_session(session: HttpSession, raw_id: bytes) -> None:
    """Handle `shutdown`: respond, and end the session (specification: session lifecycle)."""
    if jsonrpc.is_id(raw_id):
        session.standalone.answer(jsonrpc.result(raw_id, b"{}"), b"\n")
    session.end()
