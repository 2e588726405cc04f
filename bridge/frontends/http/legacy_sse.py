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

from bridge.frontends.http.event_store import LastingStream
from bridge.frontends.http.http_sessions import Conversation, Conversations
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
            raise method_not_allowed(request.method, "/sse", ["GET"])
        conversation = await self._conversations.open(TRANSPORT, principal_of(request))
        conversation.standalone = stream = _EventStream("", conversation.end)
        stream.tell(b"endpoint", f"/message?sessionId={conversation.key}".encode())
        pump = partial(stream.pump, keep_alive_s=math.inf)
        headers = {"Cache-Control": "no-cache", "X-Session-Id": conversation.key}
        with conversation.in_use():
            try:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(_ping, stream)
                    await stream_events(request, send, pump, headers)
                    nursery.cancel_scope.cancel()
            finally:
                conversation.abandon()


class _EventStream(LastingStream):
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


async def _ping(stream: _EventStream) -> None:
    while True:
        await trio.sleep(PING_S)
        if not stream.waiting_bytes:  # a client that reads nothing is not to find hundreds
            stream.tell(b"ping", msgspec.json.encode({"timestamp": int(time.time() * 1000)}))


async def _take(conversations: Conversations, request: Request) -> Response:
    """What a client says; its answer goes out on its stream."""
    line = await read_json_body(request)
    conversation = _find(conversations, request)
    found = decode_message(line)
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
        raise RequestRejected(HTTPStatus.BAD_REQUEST, text)
    return conversations.find(TRANSPORT, key, principal_of(request))


def _shut_down(conversation: Conversation, raw_id: bytes) -> None:
    """The client has said its last word (specification: session lifecycle)."""
    if jsonrpc.is_id(raw_id):
        conversation.standalone.answer(jsonrpc.result(raw_id, b"{}"), b"\n")
    conversation.end()
