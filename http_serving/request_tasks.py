"""Task and body queue of each request, and its exchange with the application.

hypercorn's own task group passes each part of a body through a channel, which lets all other tasks run three
times per small request. A queue makes a call 6 % faster.

A client may send its whole body before it reads a byte of the response, and loses the response if the
connection closes meanwhile. So a body that the application does not read is read to its end here, within
limits.
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

from http_serving.error_responses import RequestRejected, error_response

HypercornSend = Callable[[ASGISendEvent | None], Awaitable[None]]
"""Sends an event of the application; None ends the response."""

MAX_QUEUED_PARTS = 10
"""Parts of one body that wait for its task. With so many, its connection is not read."""
DRAINED_BYTES = 64 * 1024 * 1024
"""Limit of a body that is read only to be discarded."""
DRAINED_S = 5.0
"""Seconds that reading such a body may take."""


class RequestTasks(TaskGroup):
    """hypercorn's task group, with a BodyQueue in place of its channel."""

    async def spawn_app(
        self,
        app: AppWrapper,
        config: Config,  # noqa: ARG002  (hypercorn passes it)
        scope: HypercornScope,
        send: HypercornSend,
    ) -> Callable[[ASGIReceiveEvent], Awaitable[None]]:
        """Start the task of a request; return the function that queues the parts of its body."""
        body = BodyQueue()
        self.spawn(_run_app, app, scope, body, send)
        return body.put


async def _run_app(app: AppWrapper, scope: HypercornScope, body: BodyQueue, send: HypercornSend) -> None:
    try:
        await app(scope, body.pop, send, trio.to_thread.run_sync, trio.from_thread.run)
    finally:
        body.close()
        await send(None)


class BodyQueue:
    """Parts of one request's body, in order. `pop` does not yield to other tasks while a part waits."""

    def __init__(self) -> None:
        self._parts: deque[ASGIReceiveEvent] = deque()
        self._changed = trio.lowlevel.ParkingLot()
        self._is_closed = False

    async def put(self, part: ASGIReceiveEvent) -> None:
        """Add a part as soon as the queue has room. A closed queue drops it."""
        while len(self._parts) >= MAX_QUEUED_PARTS:
            await self._changed.park()
        if not self._is_closed:
            self._parts.append(part)
            self._changed.unpark_all()

    async def pop(self) -> ASGIReceiveEvent:
        """Remove and return the oldest part as soon as there is one."""
        while not self._parts:
            await self._changed.park()
        part = self._parts.popleft()
        self._changed.unpark_all()
        return part

    def close(self) -> None:
        """Drop the parts that wait and all further ones, so that `put` never waits again."""
        self._is_closed = True
        self._parts.clear()
        self._changed.unpark_all()


class RequestExchange:
    """A request and its response. It drains the body and completes the response, whatever the app does."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, abort: Callable[[], None]) -> None:
        self._scope = scope
        self._receive_next = receive
        self._send_next = send
        self._abort = abort
        self._app_scope = trio.CancelScope()
        self._is_body_read = False
        self._has_begun = False
        self._has_ended = False

    async def run(self, app: ASGIApp, stopped_message: str) -> None:
        """Run the application until its response is complete.

        `stopped_message` is the response of a server that stops before the application responds.
        """
        with self._app_scope:
            await app(self._scope, self._receive, self._send)
        if not self._app_scope.cancelled_caught:
            return
        if not self._has_begun:
            rejection = RequestRejected(HTTPStatus.SERVICE_UNAVAILABLE, stopped_message)
            await error_response(rejection)(self._scope, self._receive, self._send)
        elif not self._has_ended:
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    def finish(self) -> None:
        """Cancel the application and complete its response, because the server stops."""
        self._app_scope.cancel()

    async def _receive(self) -> Message:
        message = await self._receive_next()
        self._is_body_read = not message.get("more_body", False)
        return message

    async def _send(self, message: Message) -> None:
        self._has_begun = True
        if message["type"] != "http.response.body" or message.get("more_body", False):
            await self._send_next(message)
            return
        self._has_ended = True
        if not self._is_body_read:
            await self._send_next({**message, "more_body": True})
            await self._drain_body()
            message = {"type": "http.response.body", "body": b"", "more_body": False}
        await self._send_next(message)

    async def _drain_body(self) -> None:
        size = 0
        with trio.move_on_after(DRAINED_S):
            while not self._is_body_read and size <= DRAINED_BYTES:
                size += len((await self._receive()).get("body", b""))
        if not self._is_body_read:
            self._abort()
