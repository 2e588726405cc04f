"""The tasks that answer one connection's requests, and how what comes of a request gets to its task.

hypercorn's own hand each part over through a channel at which all other tasks have their turn, three times
for a small request: a call takes 6 % less without.

One request and its answer. Whatever the application does, the body is read and the answer has an end.

A client may send its whole body before it reads a word, and loses the answer if the connection ends under it:
a body that the application has not asked for is read to its end here, within bounds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from http import HTTPStatus

import trio
from hypercorn.config import Config
from hypercorn.trio.task_group import TaskGroup
from hypercorn.typing import AppWrapper, ASGIReceiveEvent, ASGISendEvent
from hypercorn.typing import Scope as HypercornScope
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from http_serving import error_responses
from http_serving.error_responses import RequestRejected

HypercornSend = Callable[[ASGISendEvent | None], Awaitable[None]]
"""None: there is nothing more to say."""

MAX_PARTS = 10
"""Of one request, that its task has not taken; then its connection is not read."""


class RequestTasks(TaskGroup):
    """hypercorn's, but for the way of what comes."""

    async def spawn_app(
        self,
        app: AppWrapper,
        config: Config,  # noqa: ARG002  (hypercorn gives it)
        scope: HypercornScope,
        send: HypercornSend,
    ) -> Callable[[ASGIReceiveEvent], Awaitable[None]]:
        """Begin to answer a request; what comes of it is given to what is returned."""
        parts = Parts()
        self.spawn(_answer, app, scope, parts, send)
        return parts.put


async def _answer(app: AppWrapper, scope: HypercornScope, parts: Parts, send: HypercornSend) -> None:
    try:
        await app(scope, parts.take, send, trio.to_thread.run_sync, trio.from_thread.run)
    finally:
        parts.close()
        await send(None)


class Parts:
    """What has come of one request, in its order. Nobody else has a turn while there is something to take."""

    def __init__(self) -> None:
        self._parts: deque[ASGIReceiveEvent] = deque()
        self._changed = trio.lowlevel.ParkingLot()
        self._is_closed = False

    async def put(self, part: ASGIReceiveEvent) -> None:
        """Add one, as soon as there is room."""
        while len(self._parts) >= MAX_PARTS:
            await self._changed.park()
        if not self._is_closed:
            self._parts.append(part)
            self._changed.unpark_all()

    async def take(self) -> ASGIReceiveEvent:
        """The next one, as soon as it is there."""
        while not self._parts:
            await self._changed.park()
        part = self._parts.popleft()
        self._changed.unpark_all()
        return part

    def close(self) -> None:
        """Nobody takes any more: what still comes is dropped, and waits for nobody."""
        self._is_closed = True
        self._parts.clear()
        self._changed.unpark_all()


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
            gone = RequestRejected(HTTPStatus.SERVICE_UNAVAILABLE, text)
            await error_responses.error_response(gone)(self._scope, self._receive, self._send)
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
