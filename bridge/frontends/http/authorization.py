"""Authorization of every HTTP request: Host, origin, bearer token, sender; CORS.

Every program and user of this machine can reach its ports, and so can all pages and extensions of a browser
on it. So a request must name this server, contain an access token, and not come from a browser, except for a
page of `http.cors_origins`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from http import HTTPStatus
from typing import NamedTuple, Protocol

from starlette.requests import Request

from bridge.config.settings import ANY_PORT, HttpSettings
from bridge.frontends.http.access_tokens import TokenClient
from http_serving.error_responses import RequestRejected
from http_serving.host_header import ServerNames
from http_serving.peer_credentials import Kind, Principal, connection_of, is_ours
from native_host.system.proc import Process
from native_host.system.program_name import format_command

HEALTH = "/health"
LINKED_PATHS = {"/", "/open"}
"""The status page and the link that opens it: the user may follow a link to them from anywhere."""
PAGE_PREFIX = "/page/"
"""Prefix of the status page's parts. They need a cookie or a token."""
LINKS = "/page/links"
"""Creates links that open the status page, so it needs the same authorization as `/mcp`."""

_PREFETCH_HEADERS = ("sec-purpose", "purpose", "x-moz")
"""Headers in which browsers announce that they prefetch."""

_PREFLIGHT_HEADERS = {
    "Access-Control-Allow-Methods": "GET, POST, DELETE, OPTIONS",
    "Access-Control-Allow-Headers": "Authorization, Content-Type, Last-Event-ID, MCP-Protocol-Version, "
    "Mcp-Method, Mcp-Name, Mcp-Session-Id",
}
_EXPOSED_HEADERS = "Mcp-Session-Id, X-Session-Id"

_PAGE_NOT_ALLOWED = (
    "a web page may use mcpb only if its origin is among cors_origins, under [http] in config.toml"
)
_HOW_TO_SEND = "send it in a header, as Authorization: Bearer TOKEN, never in a URL"
_OTHER_USER = (
    "this connection belongs to a different user: start your own mcpb serve, or ask the user of this one "
    f"for a token, and {_HOW_TO_SEND}"
)
_BROWSER_NOT_ALLOWED = (
    "this connection comes from a browser: a web page may use mcpb only with a token and with an Origin that "
    "is among cors_origins, under [http] in config.toml; an extension may not"
)
_HOW_TO_CONFIGURE = (
    "The user who runs mcpb serve gets a client's configuration with its token by: "
    f"{format_command('serve --print-config CLIENT')} (claude-code, cursor, vscode, codex or curl)"
)

IsBrowser = Callable[[str], bool]
"""Returns whether the program with this path is a web browser."""


class Tokens(Protocol):
    """The part of `access_tokens.AccessTokens` that authorization needs."""

    def find(self, token: str) -> TokenClient | None:
        """Return the client of a token that is valid now."""
        ...


class Admission(NamedTuple):
    """A request that is admitted, unless `needs_program` and a browser sent it."""

    headers: dict[str, str]
    client: TokenClient | None = None
    """Client of the token; None if the request needed none."""
    needs_program: bool = False
    """Only a program that is not a browser may send the request."""


class Authorization:
    """Authorization rules of one server."""

    def __init__(self, settings: HttpSettings, port: int, tokens: Tokens, is_browser: IsBrowser) -> None:
        """Read the rules from the settings. `port` is the one on which the server listens."""
        self._port = port
        self._tokens = tokens
        self._is_browser = is_browser
        self._is_token_required = settings.auth == "token"
        self._scheme = settings.scheme
        self._names = ServerNames(settings.host, port, settings.allowed_hosts, settings.scheme)
        self._origins = [_compile_pattern(origin) for origin in settings.cors_origins]

    async def admit(self, request: Request) -> dict[str, str]:
        """Establish who sent a request (`principal_of`), and return further headers of its response.

        Raises:
            RequestRejected: as `check`, or 403: a browser sent it, and it is not for an allowed page.
        """
        admission = self.check(request)
        process = await connection_of(request).find_process() if admission.needs_program else None
        if process and self._is_browser(process.program):
            raise RequestRejected(HTTPStatus.FORBIDDEN, _BROWSER_NOT_ALLOWED, headers=admission.headers)
        request.scope["state"]["principal"] = _identify_sender(request, admission.client, process)
        return admission.headers

    def check(self, request: Request) -> Admission:
        """Check everything that the request and its connection show at once.

        Raises:
            RequestRejected: the Host header names another server (421), the page or the user is not allowed
                (403), or the token is missing or invalid (401).
        """
        view = _RequestView(request)
        is_over_unix = not view.peer.address
        if not self._names.has_name_in(
            view.get_header("host"), view.local_address, is_over_unix=is_over_unix
        ):
            raise self._other_server()
        is_page_allowed = self._is_page_allowed(view)
        if not (is_page_allowed or _is_sent_by_no_page(view) or _is_sent_by_status_page(view)):
            raise RequestRejected(HTTPStatus.FORBIDDEN, _PAGE_NOT_ALLOWED)
        headers = _cors_headers(view) if is_page_allowed else {}
        if self._origins:
            headers["Vary"] = "Origin"
        try:
            return self._authorize(view, headers, is_page_allowed=is_page_allowed)
        except RequestRejected as rejection:
            rejection.headers = {**(rejection.headers or {}), **headers}
            raise

    def _other_server(self) -> RequestRejected:
        text = (
            f"the Host header does not name this server: it is {self._scheme}://localhost:{self._port}. "
            "Add further names to allowed_hosts, under [http] in config.toml"
        )
        return RequestRejected(HTTPStatus.MISDIRECTED_REQUEST, text)

    def _is_page_allowed(self, view: _RequestView) -> bool:
        origin = view.get_header("origin")
        return any(pattern.fullmatch(origin) for pattern in self._origins)

    def _authorize(self, view: _RequestView, headers: dict[str, str], *, is_page_allowed: bool) -> Admission:
        has_token = "authorization" in view.headers
        if client := self._client_of(view) if has_token else None:
            return Admission(headers, client, needs_program=not is_page_allowed)
        if view.peer.kind is Kind.ANOTHERS:
            raise RequestRejected(HTTPStatus.FORBIDDEN, _OTHER_USER)
        is_preflight = is_page_allowed and view.method == "OPTIONS"  # browsers send it without the token
        if view.path == HEALTH or is_preflight:
            return Admission(headers)
        if not has_token:
            if view.is_for_status_page:
                return Admission(headers)
            if not is_page_allowed and self._needs_no_token(view):
                return Admission(headers, needs_program=True)
        what = "the token is not valid" if has_token else "a token is needed"
        challenge = {"WWW-Authenticate": 'Bearer error="invalid_token"' if has_token else "Bearer"}
        raise RequestRejected(
            HTTPStatus.UNAUTHORIZED, f"{what}: {_HOW_TO_SEND}. {_HOW_TO_CONFIGURE}", headers=challenge
        )

    def _needs_no_token(self, view: _RequestView) -> bool:
        """Return whether the connection alone shows that a program of this user sent the request."""
        is_over_unix = not view.peer.address
        return view.is_ours and (is_over_unix or not self._is_token_required)

    def _client_of(self, view: _RequestView) -> TokenClient | None:
        scheme, _, token = view.get_header("authorization").partition(" ")
        return self._tokens.find(token.strip()) if scheme.lower() == "bearer" else None


def _identify_sender(request: Request, client: TokenClient | None, process: Process | None) -> Principal:
    is_local = is_ours(request)
    if client:
        return Principal(client.digest, client.name, is_local=is_local)
    # Without a known process each connection is a client of its own: a client's own claims prove nothing.
    sender = f"process {process.pid} {process.started_at}" if process else connection_of(request).name
    return Principal(process=sender, is_local=is_local)


class _RequestView:
    """Parts of a request that authorization reads."""

    def __init__(self, request: Request) -> None:
        self.peer = connection_of(request).peer
        self.is_ours = is_ours(request)
        self.method = request.method
        self.path: str = request.scope["path"]
        self.scheme: str = request.scope.get("scheme", "http")
        server = request.scope.get("server")
        self.local_address: str = server[0] if server else ""
        self.headers: dict[str, list[str]] = {}
        for name, value in request.headers.items():
            self.headers.setdefault(name, []).append(value)

    def get_header(self, name: str) -> str:
        """Return the value of a header; empty if it is missing or occurs more than once."""
        values = self.headers.get(name, [])
        return values[0] if len(values) == 1 else ""

    @property
    def is_for_status_page(self) -> bool:
        return self.path in LINKED_PATHS or (
            self.path.startswith(PAGE_PREFIX) and not self.path.startswith(LINKS)
        )


def _is_sent_by_no_page(view: _RequestView) -> bool:
    """Return whether no page sent the request, or the user followed a link to the status page."""
    if "origin" in view.headers or _is_prefetch(view):
        return False
    # Browsers send no Origin with a page's request in mode no-cors, but they send Sec-Fetch-Site.
    if "sec-fetch-site" not in view.headers or view.get_header("sec-fetch-site") == "none":
        return True
    is_followed = (
        view.get_header("sec-fetch-mode") == "navigate" and view.get_header("sec-fetch-dest") == "document"
    )
    return is_followed and view.method == "GET" and view.path in LINKED_PATHS


def _is_prefetch(view: _RequestView) -> bool:
    """Return whether a browser prefetches. A page may cause it, and Chromium calls its site `none`."""
    return any(
        "prefetch" in value.lower() for name in _PREFETCH_HEADERS for value in view.headers.get(name, ())
    )


def _is_sent_by_status_page(view: _RequestView) -> bool:
    """Return whether a page of this server's origin may send the request.

    The status page requests its own parts only. Other pages of this origin are left over from an earlier
    server on the same port: a tab or a service worker. Browsers send Sec-Fetch-Site for them. A program that
    sends Origin alone, as MCP's conformance suite does, is not a page.
    """
    if "origin" in view.headers:
        is_own = view.get_header("origin") == f"{view.scheme}://{view.get_header('host').lower()}"
    else:
        is_own = view.get_header("sec-fetch-site") == "same-origin"
    if not is_own or _is_prefetch(view) or view.path.startswith(LINKS):
        return False
    return view.is_for_status_page or "sec-fetch-site" not in view.headers


def _cors_headers(view: _RequestView) -> dict[str, str]:
    """Return the CORS headers (Fetch, "HTTP extensions") for an allowed page."""
    headers = {
        "Access-Control-Allow-Origin": view.get_header("origin"),
        "Access-Control-Expose-Headers": _EXPOSED_HEADERS,
    }
    if "access-control-request-method" in view.headers:
        headers |= _PREFLIGHT_HEADERS
    if view.get_header("access-control-request-private-network") == "true":
        headers["Access-Control-Allow-Private-Network"] = "true"
    return headers


def _compile_pattern(origin: str) -> re.Pattern[str]:
    if origin.endswith(ANY_PORT):
        return re.compile(re.escape(origin.removesuffix(ANY_PORT)) + r"(:[0-9]{1,5})?")
    return re.compile(re.escape(origin))
