"""`/sse` and `/message`: the transport of MCP 2024-11-05, for clients that know no other.

What a client hears is one stream of events; the first one names the path to which it says everything. The
stream is the session: both end together.
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
from http_serving.error_responses import RequestRejected, method_not_allowed
from http_serving.peer_credentials import principal_of
from http_serving.request_body import read_json_body
from http_serving.server_sent_events import stream_events
from native_host.protocol import jsonrpc
from native_host.protocol.framing import Part

TRANSPORT = "sse"
PING_S = 30.0
_ACCEPTED = msgspec.json.encode({"status": "accepted"})
_EVENT = b"event: "
_TO_NOBODY, _END = b'{"jsonrpc":"2.0","id":null,"error":', b"}\n"
"""Around the error of an answer to no request that could be named. A message begins with a brace."""


def build_routes(sessions: HttpSessions) -> list[Route]:
    """Where a client listens, and where it speaks."""
    return [
        Route("/sse", _SseEndpoint(sessions)),
        Route("/message", partial(_receive_message, sessions), methods=["POST"]),
    ]


class _SseEndpoint:
    """The ASGI application of `/sse`."""

    def __init__(self, sessions: HttpSessions) -> None:
        self._sessions = sessions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A session, from its beginning to its end."""
        request = Request(scope, receive, send)
        if request.method != "GET":  # a HEAD would open a session that nobody hears
            raise method_not_allowed(request.method, "/sse", ["GET"])
        session = await self._sessions.open(TRANSPORT, principal_of(request))
        session.standalone = stream = _LegacyEventStream("", session.end)
        stream.tell(b"endpoint", f"/message?sessionId={session.key}".encode())
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
    """With events that are no messages."""

    def tell(self, name: bytes, data: bytes) -> None:
        """Add an event; its data are one line."""
        self._add(b"%b%b\ndata: %b\n\n" % (_EVENT, name, data))

    def answer(self, *parts: Part, error: int = 0) -> None:
        """Add an answer; an error that answers no request that could be named has an event of its own."""
        line = b"".join(parts)
        if line.startswith(_TO_NOBODY):
            self.tell(b"error", line[len(_TO_NOBODY) : -len(_END)])
        else:
            super().answer(line, error=error)

    def _event(self, number: int, line: bytes) -> bytes:
        return line if line.startswith(_EVENT) else super()._event(number, line)


async def _send_pings(stream: _LegacyEventStream) -> None:
    while True:
        await trio.sleep(PING_S)
        if not stream.waiting_bytes:  # a client that reads nothing is not to find hundreds
            stream.tell(b"ping", msgspec.json.encode({"timestamp": int(time.time() * 1000)}))


async def _receive_message(sessions: HttpSessions, request: Request) -> Response:
    """What a client says; its answer goes out on its stream."""
    line = await read_json_body(request)
    session = _find_session(sessions, request)
    found = decode_message(line)
    if found.method == "shutdown":
        _end_session(session, bytes(found.id))
    else:
        if found.is_request:
            session.check_request_limit()
        await session.lane.take(line)
    return Response(_ACCEPTED, HTTPStatus.ACCEPTED, media_type="application/json")


def _find_session(sessions: HttpSessions, request: Request) -> HttpSession:
    key = request.query_params.get("sessionId", "")
    if not key:
        text = "sessionId is missing: send to the path that the first event of GET /sse names"
        raise RequestRejected(HTTPStatus.BAD_REQUEST, text)
    return sessions.find(TRANSPORT, key, principal_of(request))


def _end_session(session: HttpSession, raw_id: bytes) -> None:
    """The client has said its last word (specification: session lifecycle)."""
    if jsonrpc.is_id(raw_id):
        session.standalone.answer(jsonrpc.result(raw_id, b"{}"), b"\n")
    session.end()
