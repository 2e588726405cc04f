"""A response of server-sent events: begun at once, written as they come, over when its client is gone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from http import HTTPStatus

import trio
from starlette.requests import Request
from starlette.types import Send

SendData = Callable[[bytes], Awaitable[None]]
"""Sends a part of the body. It waits while the client does not read."""
Pump = Callable[[SendData], Awaitable[None]]
"""Sends the events of one response, until the last one."""

_HEADERS = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache, no-transform"}


async def stream_events(request: Request, send: Send, pump: Pump, headers: Mapping[str, str]) -> None:
    """Send what `pump` passes on, for as long as the client is there."""
    await while_there(request, partial(send_events, send, pump, headers))


async def send_events(send: Send, pump: Pump, headers: Mapping[str, str]) -> None:
    """Send what `pump` passes on, as one response."""
    raw_headers = [(name.encode(), value.encode()) for name, value in {**_HEADERS, **headers}.items()]
    await send({"type": "http.response.start", "status": HTTPStatus.OK, "headers": raw_headers})
    # The head goes out with the first part of a body, and a client waits for it.
    await send({"type": "http.response.body", "body": b"", "more_body": True})

    async def send_part(data: bytes) -> None:
        await send({"type": "http.response.body", "body": data, "more_body": True})

    await pump(send_part)
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def while_there(request: Request, job: Callable[[], Awaitable[None]]) -> None:
    """Do it, for as long as the client of the request is there."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_watch, request, nursery.cancel_scope)
        await job()
        nursery.cancel_scope.cancel()


async def _watch(request: Request, job: trio.CancelScope) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
    job.cancel()
