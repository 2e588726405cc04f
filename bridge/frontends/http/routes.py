"""Which path is whose, and what all of them have in common: who may speak to us, refusals, nothing leaks."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from http import HTTPStatus

from starlette.requests import Request
from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Receive, Scope, Send

from bridge.frontends.http import refusals
from bridge.frontends.http.refusals import Refused

_log = logging.getLogger(__name__)

Admit = Callable[[Request], dict[str, str]]
"""Raises Refused for a request that is not let in; else the headers that its answer gets besides (CORS)."""


class App:
    """The ASGI application."""

    def __init__(self, routes: Iterable[BaseRoute], admit: Admit) -> None:
        self._routes = list(routes)
        self._admit = admit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        request = Request(scope, receive, send)
        try:
            self._admit(request)
            await self._find(scope)(scope, receive, send)
        except Refused as refused:
            await refusals.response(refused)(scope, receive, send)
        except Exception:  # (the last line before the client)
            _log.exception("a request could not be answered")
            failed = Refused(HTTPStatus.INTERNAL_SERVER_ERROR, "mcpb failed to answer this; its log says why")
            await refusals.response(failed)(scope, receive, send)

    def _find(self, scope: Scope) -> ASGIApp:
        for route in self._routes:
            match, more = route.matches(scope)
            if match is Match.FULL:
                scope.update(more)
                return route.handle
        raise Refused(HTTPStatus.NOT_FOUND, f"there is nothing at {scope['path']}")

