"""One request and its answer. Whatever the application does, the body is read and the answer has an end.

A client may send its whole body before it reads a word, and loses the answer if the connection ends under it:
a body that the application has not asked for is read to its end here, within bounds.
"""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus

import trio
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from http_serving import error_responses
from http_serving.error_responses import Refused

DRAINED_BYTES = 64 * 1024 * 1024
DRAINED_S = 5.0


class Exchange:
    """What an application answers to one request."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, abort: Callable[[], None]) -> None:
        self._scope = scope
        self._receive_on = receive
        self._send_on = send
        self._abort = abort
        self._answering = trio.CancelScope()
        self._is_read = False
        """The whole body has been taken."""
        self._has_begun = False
        self._has_ended = False
        """The answer."""

    async def run(self, app: ASGIApp) -> None:
        """Until there is an answer, or nobody is there to take it."""
        with self._answering:
            await app(self._scope, self._receive, self._send)
        if not self._answering.cancelled_caught:
            return
        if not self._has_begun:
            text = "mcpb serve was ended before there was an answer; a call may have run. Start it again"
            gone = Refused(HTTPStatus.SERVICE_UNAVAILABLE, text)
            await error_responses.response(gone)(self._scope, self._receive, self._send)
        elif not self._has_ended:
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    def finish(self) -> None:
        """The server ends: so does the answer."""
        self._answering.cancel()

    async def _receive(self) -> Message:
        message = await self._receive_on()
        self._is_read = not message.get("more_body", False)
        return message

    async def _send(self, message: Message) -> None:
        self._has_begun = True
        if message["type"] != "http.response.body" or message.get("more_body", False):
            await self._send_on(message)
            return
        self._has_ended = True
        if not self._is_read:
            await self._send_on({**message, "more_body": True})
            await self._drain()
            message = {"type": "http.response.body", "body": b"", "more_body": False}
        await self._send_on(message)

    async def _drain(self) -> None:
        size = 0
        with trio.move_on_after(DRAINED_S):
            while not self._is_read and size <= DRAINED_BYTES:
                size += len((await self._receive()).get("body", b""))
        if not self._is_read:
            self._abort()
