"""The floor of MCP over HTTP: hypercorn on trio, and an application that has every answer ready.

    python -m benchmarks.bare_server fd://FD

FD is a socket that listens. Answers are those of `page.mcp_answers`: on `/mcp` in the response, on `/message`
as an event on the stream that `GET /sse` opened.
"""

from __future__ import annotations

import re
import sys
from typing import cast

import hypercorn.trio
import trio
from hypercorn.config import Config
from hypercorn.typing import ASGIFramework
from starlette.types import ASGIApp, Receive, Scope, Send

from benchmarks import page
from benchmarks.answerer import EDGE_BYTES

KEEP_ALIVE_S = 600.0
"""A connection waits while others have their turn."""
_ID = re.compile(rb'"id":([^,}]*)')
_JSON = (b"content-type", b"application/json")
_EVENTS = (b"content-type", b"text/event-stream")


class BareServer:
    """The application."""

    def __init__(self) -> None:
        self._answers = page.mcp_answers()
        self._streams: dict[bytes, trio.MemorySendChannel[bytes]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "lifespan":
            await live(receive, send)
            return
        if scope["path"] == "/sse":
            await self._stream(send)
            return
        answer = self._answer(await _body(receive))
        if scope["path"] == "/message":
            await _respond(send, 202, b'{"status":"accepted"}')
            await self._streams[scope["query_string"]].send(answer)
        else:
            await _respond(send, 200, answer)

    async def _stream(self, send: Send) -> None:
        name = b"%d" % len(self._streams)
        self._streams[name], messages = trio.open_memory_channel[bytes](1)
        await send({"type": "http.response.start", "status": 200, "headers": [_EVENTS]})
        await _say(send, b"event: endpoint\ndata: /message?%b\n\n" % name)
        async for message in messages:
            await _say(send, b"event: message\ndata: %b\n\n" % message)

    def _answer(self, body: bytes) -> bytes:
        head = body[:EDGE_BYTES]
        answer = next(answer for text, answer in self._answers if text in head)
        found = _ID.search(body)
        assert found
        return answer.replace(b"\0", found[1], 1)


async def _body(receive: Receive) -> bytes:
    parts = []
    while (event := await receive())["type"] == "http.request":
        parts.append(event["body"])
        if not event["more_body"]:
            break
    return b"".join(parts)


async def _respond(send: Send, status: int, body: bytes) -> None:
    headers = [_JSON, (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _say(send: Send, text: bytes) -> None:
    await send({"type": "http.response.body", "body": text, "more_body": True})


async def live(receive: Receive, send: Send) -> None:
    """Through an application's lifespan, when there is nothing to do at either end."""
    for phase in ("startup", "shutdown"):
        await receive()
        await send({"type": f"lifespan.{phase}.complete"})


async def serve_app(app: ASGIApp, bind: str) -> None:
    """Serve an application on hypercorn until cancelled."""
    config = Config()
    config.bind = [bind]
    config.accesslog = None
    config.keep_alive_max_requests = sys.maxsize
    config.keep_alive_timeout = KEEP_ALIVE_S
    await hypercorn.trio.serve(cast("ASGIFramework", app), config)


if __name__ == "__main__":
    trio.run(serve_app, BareServer(), sys.argv[1])
