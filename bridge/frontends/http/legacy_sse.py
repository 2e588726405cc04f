"""`/sse` and `/message`: the transport of MCP 2024-11-05, for clients that know no other.

What a client hears is one stream of events; the first one names the path to which it says everything. The
stream is the session: both end together.
"""

from __future__ import annotations

import time
from functools import partial
from http import HTTPStatus

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from bridge.frontends.http.body import message_in, read_json
from bridge.frontends.http.conversations import Conversation, Conversations, owner_of
from bridge.frontends.http.events import stream_events
from bridge.frontends.http.message_stream import LastingStream
from bridge.frontends.http.refusals import Refused, not_allowed
from native_host import envelope

TRANSPORT = "sse"
PING_S = 30.0
_ACCEPTED = msgspec.json.encode({"status": "accepted"})
_TO_NOBODY, _END = b'{"jsonrpc":"2.0","id":null,"error":', b"}\n"
"""Around the error of an answer to no request that could be named."""


def routes(conversations: Conversations) -> list[Route]:
    """Where a client listens, and where it speaks."""
    return [
        Route("/sse", _Listening(conversations)),
        Route("/message", partial(_take, conversations), methods=["POST"]),
    ]


class _Listening:
    """The ASGI application of `/sse`."""

    def __init__(self, conversations: Conversations) -> None:
        self._conversations = conversations

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A session, from its beginning to its end."""
        request = Request(scope, receive, send)
        if request.method != "GET":  # a HEAD would open a session that nobody hears
            raise not_allowed(request.method, "/sse", ["GET"])
        conversation = await self._conversations.open(TRANSPORT, owner_of(request))
        conversation.standalone = stream = _EventStream("", conversation.end)
        opening = f"event: endpoint\ndata: /message?sessionId={conversation.key}\n\n".encode()
        pump = partial(stream.pump, opening=opening, keep_alive=_ping, keep_alive_s=PING_S)
        headers = {"Cache-Control": "no-cache", "X-Session-Id": conversation.key}
        with conversation.in_use():
            try:
                await stream_events(request, send, pump, headers)
            finally:
                conversation.abandon()


class _EventStream(LastingStream):
    """With an event of its own for errors that answer no request."""

    def _event(self, number: int, line: bytes) -> bytes:
        if not line.startswith(_TO_NOBODY):
            return super()._event(number, line)
        return b"event: error\ndata: %b\n\n" % line[len(_TO_NOBODY) : -len(_END)]


def _ping() -> bytes:
    said = msgspec.json.encode({"timestamp": int(time.time() * 1000)})
    return b"event: ping\ndata: %b\n\n" % said


async def _take(conversations: Conversations, request: Request) -> Response:
    """What a client says; its answer goes out on its stream."""
    line = await read_json(request)
    conversation = _find(conversations, request)
    found = message_in(line)
    if found.method == "shutdown":
        _shut_down(conversation, bytes(found.id))
    else:
        if found.is_request:
            conversation.check_room()
        await conversation.lane.take(line)
    return Response(_ACCEPTED, HTTPStatus.ACCEPTED, media_type="application/json")


def _find(conversations: Conversations, request: Request) -> Conversation:
    key = request.query_params.get("sessionId", "")
    if not key:
        text = "sessionId is missing: send to the path that the first event of GET /sse names"
        raise Refused(HTTPStatus.BAD_REQUEST, text)
    return conversations.find(TRANSPORT, key, owner_of(request))


def _shut_down(conversation: Conversation, raw_id: bytes) -> None:
    """The client has said its last word (specification: session lifecycle)."""
    if envelope.is_id(raw_id):
        conversation.standalone.answer(envelope.result(raw_id, b"{}"), b"\n")
    conversation.end()
