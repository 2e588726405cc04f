"""Access check of every HTTP request: Host, page, token, and whether the sender is a browser.

A port of this machine is within reach of every program on it, of other users, and of all pages and extensions
of a browser on it. So a request has to be sent to a name of ours (else a page could have given its own name
our address), with an access token, and by no browser, unless for a page of `http.cors_origins`.
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

HEALTH = "/health"
FOR_BROWSERS = {"/", "/open"}
"""The status page and the link that opens it: a person may come to them from anywhere."""
OF_THE_PAGE = "/page/"
"""What the status page consists of. It asks for a cookie where no token is sent."""
LINKS = "/page/links"
"""Makes links that open the status page, so it lets in nobody who could not do everything else."""

_PURPOSES = ("sec-purpose", "purpose", "x-moz")
"""In these browsers say that they load something ahead."""

_LETTING_IN = {
    "Access-Control-Allow-Methods": "GET, POST, DELETE, OPTIONS",
    "Access-Control-Allow-Headers": "Authorization, Content-Type, Last-Event-ID, MCP-Protocol-Version, "
    "Mcp-Method, Mcp-Name, Mcp-Session-Id",
}
_EXPOSED = "Mcp-Session-Id, X-Session-Id"

_FOREIGN = "a web page may use mcpb only if its origin is among cors_origins, under [http] in config.toml"
_SEND = "send it in a header, as Authorization: Bearer TOKEN, never in a URL"
_ANOTHERS = (
    "this connection is another user's: start an mcpb serve of your own, or ask whoever runs this one "
    f"for the token, and {_SEND}"
)
_BROWSER = (
    "this connection comes from a browser: a web page may use mcpb only with a token and with an Origin that "
    "is among cors_origins, under [http] in config.toml; an extension may not"
)
_CONFIGURATION = (
    "The user who runs mcpb serve gets a client's configuration with its token by: "
    "mcpb serve --print-config CLIENT (claude-code, cursor, vscode, codex or curl)"
)

IsBrowser = Callable[[str], bool]
"""Returns whether the program with this path is a web browser."""


class Tokens(Protocol):
    """The access tokens: `access_tokens.AccessTokens`."""

    def find(self, token: str) -> TokenClient | None:
        """Return the client of a token that is valid now."""
        ...


class Admission(NamedTuple):
    """A request that is admitted, unless `needs_program` and a browser sent it."""

    headers: dict[str, str]
    """CORS: the response gets them as well."""
    client: TokenClient | None = None
    """None: the request needed no token."""
    needs_program: bool = False
    """Only a program that is not a browser may send this."""


class Authorization:
    """The rules of one server."""

    def __init__(self, settings: HttpSettings, port: int, tokens: Tokens, is_browser: IsBrowser) -> None:
        """`port` is the one that is listened on."""
        self._port = port
        self._tokens = tokens
        self._is_browser = is_browser
        self._is_token_required = settings.auth == "token"
        self._names = ServerNames(settings.host, port, settings.allowed_hosts)
        self._origins = [_pattern(origin) for origin in settings.cors_origins]

    async def admit(self, request: Request) -> dict[str, str]:
        """Establish who sent a request (`principal_of`), and return further headers of its response.

        Raises:
            RequestRejected: as `check`, or 403: a browser sent it, and it is not for an allowed page.
        """
        admission = self.check(request)
        process = await connection_of(request).find_process() if admission.needs_program else None
        if process and self._is_browser(process.program):
            raise RequestRejected(HTTPStatus.FORBIDDEN, _BROWSER, headers=admission.headers)
        request.scope["state"]["principal"] = _principal(request, admission.client, process)
        return admission.headers

    def check(self, request: Request) -> Admission:
        """Check everything that the request and its connection show at once.

        Raises:
            RequestRejected: the Host header names another server (421), the page or the user is not allowed
                (403), or the token is missing or invalid (401).
        """
        view = _RequestView(request)
        is_over_unix = not view.peer.address
        if not self._names.has_name_in(view.header("host"), view.local_address, is_over_unix=is_over_unix):
            raise RequestRejected(HTTPStatus.MISDIRECTED_REQUEST, self._other_name())
        is_page_let_in = self._is_page_let_in(view)
        if not (is_page_let_in or _is_of_no_page(view) or _is_of_own_page(view)):
            raise RequestRejected(HTTPStatus.FORBIDDEN, _FOREIGN)
        headers = _shared(view) if is_page_let_in else {}
        if self._origins:
            headers["Vary"] = "Origin"
        try:
            return self._authorize(view, headers, is_page_let_in=is_page_let_in)
        except RequestRejected as rejection:
            rejection.headers = {**(rejection.headers or {}), **headers}
            raise

    def _other_name(self) -> str:
        return (
            f"the Host header names another server: this one is http://localhost:{self._port}. "
            "Further names are allowed_hosts, under [http] in config.toml"
        )

    def _is_page_let_in(self, view: _RequestView) -> bool:
        origin = view.header("origin")
        return any(pattern.fullmatch(origin) for pattern in self._origins)

    def _authorize(self, view: _RequestView, headers: dict[str, str], *, is_page_let_in: bool) -> Admission:
        has_token = "authorization" in view.headers
        if client := self._client_of(view) if has_token else None:
            return Admission(headers, client, needs_program=not is_page_let_in)
        if view.peer.kind is Kind.ANOTHERS:
            raise RequestRejected(HTTPStatus.FORBIDDEN, _ANOTHERS)
        is_preflight = is_page_let_in and view.method == "OPTIONS"  # browsers send it without the token
        if view.path == HEALTH or is_preflight:
            return Admission(headers)
        if not has_token:
            if view.is_for_status_page:
                return Admission(headers)
            if not is_page_let_in and self._needs_no_token(view):
                return Admission(headers, needs_program=True)
        what = "the token is not valid" if has_token else "a token is needed"
        challenge = {"WWW-Authenticate": 'Bearer error="invalid_token"' if has_token else "Bearer"}
        raise RequestRejected(
            HTTPStatus.UNAUTHORIZED, f"{what}: {_SEND}. {_CONFIGURATION}", headers=challenge
        )

    def _needs_no_token(self, view: _RequestView) -> bool:
        """Return whether the connection alone shows that a program of this user sent the request."""
        is_over_unix = not view.peer.address
        return view.is_ours and (is_over_unix or not self._is_token_required)

    def _client_of(self, view: _RequestView) -> TokenClient | None:
        scheme, _, token = view.header("authorization").partition(" ")
        return self._tokens.find(token.strip()) if scheme.lower() == "bearer" else None


def _principal(request: Request, client: TokenClient | None, process: Process | None) -> Principal:
    is_local = is_ours(request)
    if client:
        return Principal(client.digest, client.name, is_local=is_local)
    # Without a process every connection is a client of its own: what a client says of itself proves nothing.
    sender = f"process {process.pid} {process.started_at}" if process else connection_of(request).name
    return Principal(process=sender, is_local=is_local)


class _RequestView:
    """What the gate looks at of a request."""

    def __init__(self, request: Request) -> None:
        self.peer = connection_of(request).peer
        self.is_ours = is_ours(request)
        self.method = request.method
        self.path: str = request.scope["path"]
        server = request.scope.get("server")
        self.local_address: str = server[0] if server else ""
        """The address to which the client has connected."""
        self.headers: dict[str, list[str]] = {}
        for name, value in request.headers.items():
            self.headers.setdefault(name, []).append(value)

    def header(self, name: str) -> str:
        """A header's value; empty if it is not there, or more than once."""
        values = self.headers.get(name, [])
        return values[0] if len(values) == 1 else ""

    @property
    def is_for_status_page(self) -> bool:
        return self.path in FOR_BROWSERS or (
            self.path.startswith(OF_THE_PAGE) and not self.path.startswith(LINKS)
        )


def _is_of_no_page(view: _RequestView) -> bool:
    """No page has sent it; or a page's link has led a person to the status page."""
    if "origin" in view.headers or _is_ahead(view):
        return False
    # Browsers send no Origin with what a page fetches without wanting to read it, but say this.
    if "sec-fetch-site" not in view.headers or view.header("sec-fetch-site") == "none":
        return True
    is_followed = view.header("sec-fetch-mode") == "navigate" and view.header("sec-fetch-dest") == "document"
    return is_followed and view.method == "GET" and view.path in FOR_BROWSERS


def _is_ahead(view: _RequestView) -> bool:
    """Loaded before anybody wants it: a page may have view for that, and Chromium calls its site `none`."""
    return any("prefetch" in value.lower() for name in _PURPOSES for value in view.headers.get(name, ()))


def _is_of_own_page(view: _RequestView) -> bool:
    """A page of our own origin: there is one, the status page, and it asks for nothing but its own parts.

    Whoever had the port before us may have left others: a tab, or a service worker. Browsers tell of them by
    Sec-Fetch-Site; a program that says Origin alone, as MCP's conformance suite does, is none.
    """
    if "origin" in view.headers:
        is_own = view.header("origin") == f"http://{view.header('host').lower()}"
    else:
        is_own = view.header("sec-fetch-site") == "same-origin"
    if not is_own or _is_ahead(view) or view.path.startswith(LINKS):
        return False
    return view.is_for_status_page or "sec-fetch-site" not in view.headers


def _shared(view: _RequestView) -> dict[str, str]:
    """CORS (Fetch, "HTTP extensions"): what a browser lets the page do, and see of the answer."""
    shared = {"Access-Control-Allow-Origin": view.header("origin"), "Access-Control-Expose-Headers": _EXPOSED}
    if "access-control-request-method" in view.headers:
        shared |= _LETTING_IN
    if view.header("access-control-request-private-network") == "true":
        shared["Access-Control-Allow-Private-Network"] = "true"
    return shared


def _pattern(origin: str) -> re.Pattern[str]:
    if origin.endswith(ANY_PORT):
        return re.compile(re.escape(origin.removesuffix(ANY_PORT)) + r"(:[0-9]{1,5})?")
    return re.compile(re.escape(origin))
