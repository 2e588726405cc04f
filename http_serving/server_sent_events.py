"""Response of server-sent events, which ends when its client disconnects."""

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
    """Send the events of `pump` until the last one, or until the client disconnects."""
    await run_while_connected(request, partial(send_events, send, pump, headers))


async def send_events(send: Send, pump: Pump, headers: Mapping[str, str]) -> None:
    """Send the events of `pump` as one response."""
    raw_headers = [(name.encode(), value.encode()) for name, value in {**_HEADERS, **headers}.items()]
    await send({"type": "http.response.start", "status": HTTPStatus.OK, "headers": raw_headers})
    # The server sends the head with the first part of the body, and clients wait for the head.
    await send({"type": "http.response.body", "body": b"", "more_body": True})

    async def send_part(data: bytes) -> None:
        await send({"type": "http.response.body", "body": data, "more_body": True})

    await pump(send_part)
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def run_while_connected(request: Request, job: Callable[[], Awaitable[None]]) -> None:
    """Run a job until it ends, or until the client disconnects."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_cancel_on_disconnect, request, nursery.cancel_scope)
        await job()
        nursery.cancel_scope.cancel()


async def _cancel_on_disconnect(request: Request, job: trio.CancelScope) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
    job.cancel()
