"""ASGI application for handlers that know no Starlette: plain requests in, plain responses out.

It checks Host and Origin before a handler runs, answers CORS preflights, and reads forms. Origins of web
pages are rejected: a page can send a form without reading the response. Rules: Fetch, "HTTP extensions".
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

import msgspec
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from http_serving.error_responses import RequestRejected, method_not_allowed
from http_serving.host_header import ServerNames
from http_serving.peer_credentials import Peer, connection_of
from http_serving.request_body import read_form_body

EXTENSION_SCHEMES = ("chrome-extension://", "moz-extension://")
MAX_FORM_BYTES = 16 * 1024
MAX_FIELDS = 32

_log = logging.getLogger(__name__)


class PlainRequest(NamedTuple):
    """A request whose Host and Origin are accepted."""

    path: str
    base_url: str
    """Scheme and authority by which the client has reached this server, without a slash at the end."""
    address: str
    """IP address of the client; empty for a Unix socket."""
    has_query: bool
    form: list[tuple[str, str]]
    """Fields in order; empty for a GET request."""


class PlainResponse(NamedTuple):
    """A response that no cache stores."""

    body: Mapping[str, Any] | str
    """An object is sent as JSON, a string as plain text."""
    status: HTTPStatus = HTTPStatus.OK
    headers: Mapping[str, str] = {}


Handler = Callable[[PlainRequest], Awaitable[PlainResponse]]
ErrorBody = Callable[[RequestRejected], Mapping[str, Any]]
"""Returns the JSON object that the client of a rejected request expects."""
AddressOf = Callable[[Peer, Sequence[str]], str]
"""Returns the IP address of a client; behind a proxy the values of X-Forwarded-For name it."""


class PlainRoute(NamedTuple):
    """Handler of a path. It may raise RequestRejected."""

    method: str
    """GET, or POST with a form."""
    handle: Handler


class OriginRule:
    """Accepts requests without an Origin, and those of extensions: all, or the configured ones."""

    def __init__(self, origins: Iterable[str] = ()) -> None:
        self._origins = frozenset(origins)

    def is_allowed(self, origin: str | None) -> bool:
        """Return whether a request with this Origin header (None: without one) is accepted."""
        if origin is None:
            return True
        return origin in self._origins if self._origins else origin.startswith(EXTENSION_SCHEMES)


def json_rpc_error(rejection: RequestRejected) -> Mapping[str, Any]:
    """Return the body that `error_response` sends."""
    return {"jsonrpc": "2.0", "id": None, "error": {"code": rejection.code, "message": rejection.message}}


def peer_address(peer: Peer, _: Sequence[str]) -> str:
    """Return the address at the other end of the connection."""
    return peer.address


class PlainRoutes:
    """The ASGI application."""

    def __init__(
        self,
        routes: Mapping[str, PlainRoute],
        names: ServerNames,
        origins: OriginRule,
        *,
        public_url: str = "",
        address_of: AddressOf = peer_address,
        error_body: ErrorBody = json_rpc_error,
    ) -> None:
        """Serve these paths.

        Args:
            routes: by path.
            names: for the check of the Host header.
            origins: for the check of the Origin header.
            public_url: URL by which clients reach a proxy in front of this server; it may speak TLS for it.
            address_of: see AddressOf.
            error_body: see ErrorBody.
        """
        self._routes = routes
        self._names = names
        self._origins = origins
        self._public_url = public_url.rstrip("/")
        self._address_of = address_of
        self._error_body = error_body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        request = Request(scope, receive, send)
        headers = {"Cache-Control": "no-store", "Pragma": "no-cache", "Vary": "Origin"}
        try:
            self._check_host(request)
            headers |= self._check_origin(request.headers)
            found = await self._respond(request)
            response = _encode(found)
            headers |= found.headers
        except RequestRejected as rejection:
            response = self._reject(rejection)
        except Exception as error:  # noqa: BLE001  (the last handler before the client)
            # Without its text: values of a form are secrets, and exceptions may quote them.
            trace = "".join(traceback.format_tb(error.__traceback__))
            _log.error("Failed to respond to a request: %s\n%s", type(error).__name__, trace)
            text = "the server failed to respond: its log names the cause"
            response = self._reject(RequestRejected(HTTPStatus.INTERNAL_SERVER_ERROR, text))
        response.headers.update(headers)
        await response(scope, receive, send)

    def _reject(self, rejection: RequestRejected) -> Response:
        body = msgspec.json.encode(self._error_body(rejection))
        return Response(body, rejection.status, rejection.headers, "application/json")

    async def _respond(self, request: Request) -> PlainResponse:
        path = request.scope["path"]
        route = self._routes.get(path)
        if route is None:
            raise RequestRejected(HTTPStatus.NOT_FOUND, f"{path} does not exist")
        if request.method == "OPTIONS":
            return PlainResponse("", HTTPStatus.NO_CONTENT)
        if request.method != route.method:
            raise method_not_allowed(request.method, path, [route.method, "OPTIONS"])
        form = await self._read_form(request) if route.method == "POST" else []
        address = self._address_of(connection_of(request).peer, request.headers.getlist("x-forwarded-for"))
        has_query = bool(request.scope.get("query_string"))
        return await route.handle(PlainRequest(path, self._base_url(request), address, has_query, form))

    async def _read_form(self, request: Request) -> list[tuple[str, str]]:
        body = await read_form_body(request, MAX_FORM_BYTES)
        try:
            text = body.decode("ascii")
            return parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=MAX_FIELDS)
        except ValueError:
            text = f"the form cannot be decoded: send at most {MAX_FIELDS} fields in UTF-8, percent-encoded"
            raise RequestRejected(HTTPStatus.BAD_REQUEST, text) from None

    def _base_url(self, request: Request) -> str:
        host = request.headers["host"].lower()
        if self._public_url.partition("://")[2] == host:
            return self._public_url
        return f"{request.scope.get('scheme', 'http')}://{host}"

    def _check_host(self, request: Request) -> None:
        hosts = request.headers.getlist("host")
        server = request.scope.get("server")
        local_address = server[0] if server else ""
        is_over_unix = not connection_of(request).peer.address
        is_own = len(hosts) == 1 and self._names.has_name_in(
            hosts[0], local_address, is_over_unix=is_over_unix
        )
        if not is_own:
            text = "the Host header does not name this server: add its name to the allowed hosts"
            raise RequestRejected(HTTPStatus.MISDIRECTED_REQUEST, text)

    def _check_origin(self, headers: Headers) -> dict[str, str]:
        """Return the CORS headers of the response. Raises RequestRejected."""
        origins = headers.getlist("origin")
        origin = ", ".join(origins) if origins else None
        if not self._origins.is_allowed(origin):
            text = "only extensions and programs may send this request, not web pages"
            raise RequestRejected(HTTPStatus.FORBIDDEN, text)
        if origin is None:
            return {}
        cors = {"Access-Control-Allow-Origin": origin, "Access-Control-Expose-Headers": "Retry-After"}
        if "access-control-request-method" in headers:
            cors |= {
                "Access-Control-Allow-Methods": "GET, POST",
                "Access-Control-Allow-Headers": "Accept, Content-Type",
            }
        if headers.get("access-control-request-private-network") == "true":
            cors["Access-Control-Allow-Private-Network"] = "true"
        return cors


def _encode(found: PlainResponse) -> Response:
    if isinstance(found.body, str):
        return Response(found.body, found.status, media_type="text/plain")
    return Response(msgspec.json.encode(found.body), found.status, media_type="application/json")
