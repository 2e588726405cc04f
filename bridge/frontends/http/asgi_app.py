"""ASGI application of the HTTP front end: admission, routing, error responses.

An exception never reaches a client: it is logged, and the response is a plain 500.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from http import HTTPStatus

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from http_serving.error_responses import RequestRejected, error_response, method_not_allowed

_log = logging.getLogger(__name__)

Admit = Callable[[Request], Awaitable[dict[str, str]]]
"""Returns CORS headers for the response, or raises RequestRejected."""
OnRejected = Callable[[HTTPStatus], None]


class App:
    """The ASGI application."""

    def __init__(
        self, routes: Iterable[Route], admit: Admit, on_rejected: OnRejected = lambda _: None
    ) -> None:
        self._routes = list(routes)
        self._admit = admit
        self._on_rejected = on_rejected

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        request = Request(scope, receive, send)
        try:
            send = _add_headers(await self._admit(request), send)
            if request.method == "OPTIONS":
                await Response(status_code=HTTPStatus.NO_CONTENT)(scope, receive, send)
                return
            await self._find_route(scope)(scope, receive, send)
        except RequestRejected as rejection:
            await self._reject(rejection, scope, receive, send)
        except Exception:  # noqa: BLE001  (the last handler before the client)
            _log.exception("Failed to respond to a request.")
            text = "mcpb failed to respond: its log names the cause"
            failure = RequestRejected(HTTPStatus.INTERNAL_SERVER_ERROR, text)
            await self._reject(failure, scope, receive, send)

    async def _reject(self, rejection: RequestRejected, scope: Scope, receive: Receive, send: Send) -> None:
        self._on_rejected(rejection.status)
        await error_response(rejection)(scope, receive, send)

    def _find_route(self, scope: Scope) -> ASGIApp:
        allowed: set[str] = set()
        for route in self._routes:
            match, more = route.matches(scope)
            if match is Match.FULL:
                scope.update(more)
                return route.handle
            if match is Match.PARTIAL:
                allowed |= route.methods or set()
        if allowed:
            raise method_not_allowed(scope["method"], scope["path"], sorted(allowed))
        raise RequestRejected(HTTPStatus.NOT_FOUND, f"{scope['path']} does not exist")


def _add_headers(headers: Mapping[str, str], send: Send) -> Send:
    """Return `send` with these headers added to the response."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).update(headers)
        await send(message)

    return send_with_headers if headers else send
