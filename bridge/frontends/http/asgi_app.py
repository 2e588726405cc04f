"""Which path is whose, and what all of them have in common: who may speak to us, refusals, nothing leaks."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from http import HTTPStatus

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from http_serving import error_responses
from http_serving.error_responses import Refused, not_allowed

_log = logging.getLogger(__name__)

Admit = Callable[[Request], Awaitable[dict[str, str]]]
"""Raises Refused for a request that is not let in; else the headers that its answer gets besides (CORS)."""
OnRefused = Callable[[HTTPStatus], None]
"""Hears of each request that is refused."""


class App:
    """The ASGI application."""

    def __init__(self, routes: Iterable[Route], admit: Admit, on_refused: OnRefused = lambda _: None) -> None:
        self._routes = list(routes)
        self._admit = admit
        self._on_refused = on_refused

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        request = Request(scope, receive, send)
        try:
            send = _adding(await self._admit(request), send)
            if request.method == "OPTIONS":
                await Response(status_code=HTTPStatus.NO_CONTENT)(scope, receive, send)
                return
            await self._find(scope)(scope, receive, send)
        except Refused as refused:
            self._on_refused(refused.status)
            await error_responses.response(refused)(scope, receive, send)
        except Exception:  # noqa: BLE001  (the last line before the client)
            _log.exception("a request could not be answered")
            failed = Refused(HTTPStatus.INTERNAL_SERVER_ERROR, "mcpb failed to answer this; its log says why")
            self._on_refused(failed.status)
            await error_responses.response(failed)(scope, receive, send)

    def _find(self, scope: Scope) -> ASGIApp:
        allowed: set[str] = set()
        for route in self._routes:
            match, more = route.matches(scope)
            if match is Match.FULL:
                scope.update(more)
                return route.handle
            if match is Match.PARTIAL:
                allowed |= route.methods or set()
        if allowed:
            raise not_allowed(scope["method"], scope["path"], sorted(allowed))
        raise Refused(HTTPStatus.NOT_FOUND, f"there is nothing at {scope['path']}")


def _adding(headers: Mapping[str, str], send: Send) -> Send:
    async def add_and_send(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).update(headers)
        await send(message)

    return add_and_send if headers else send
