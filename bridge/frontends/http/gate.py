"""Who may speak to us. Asked of every request before anything else; pure, but for what the connection knows.

A port of this machine is within reach of every program on it, of other users, and of all pages that a browser
on it shows. So a request has to be sent to a name of ours (else a page could have given its own name our
address), by no page that was not let in, and by our own user or with a token.
"""

from __future__ import annotations

import re
import secrets
from http import HTTPStatus
from ipaddress import ip_address

from starlette.requests import Request

from bridge.frontends.http.connection import Kind, connection_of, is_ours
from bridge.frontends.http.refusals import Refused
from bridge.frontends.http.settings import ANY_PORT, HttpSettings, is_address

HEALTH = "/health"
FOR_BROWSERS = {"/", "/open"}
"""The status page and the link that opens it: a person may come to them from anywhere."""
OF_THE_PAGE = "/page/"
"""What the status page consists of. It asks for a cookie where no token is sent."""
LINKS = "/page/links"
"""Makes links that open the status page, so it lets in nobody who could not do everything else."""

_PORT_OF_HTTP = 80
_LOOPBACK = {"localhost", "127.0.0.1", "[::1]"}
_WILDCARDS = {"0.0.0.0", "[::]"}  # noqa: S104  (compared, not bound)
"""Not names of anybody, though systems take them for this machine and pages have used that."""
_AUTHORITY = re.compile(r"(?P<name>[a-z0-9_.-]+|\[[0-9a-f:.]+\])(:(?P<port>[0-9]{1,5}))?")
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
_CONFIGURED = "It is the auth_token of [http] in config.toml, or CLAUDE_BROWSER_AUTH_TOKEN."
_KEPT = (
    "It is in ~/.mcpb/state/http-token of the user who runs mcpb serve ($MCPB_HOME/state, where that is set)."
)


class Gate:
    """The rules of one server."""

    def __init__(self, settings: HttpSettings, port: int, token: str) -> None:
        """`port` is the one that is listened on; `token` is right where one is needed, never empty."""
        self._port = port
        self._token = token.encode()
        self._always_asks = bool(settings.auth_token)
        self._where = _CONFIGURED if self._always_asks else _KEPT
        self._own_names = (_LOOPBACK | {_in_host(settings.host)}) - _WILDCARDS
        self._allowed_names = {_in_host(host) for host in settings.allowed_hosts}
        self._origins = [_pattern(origin) for origin in settings.cors_origins]

    def admit(self, request: Request) -> dict[str, str]:
        """The headers that whatever is answered gets besides: CORS, for pages that are let in.

        Raises:
            Refused: it is not let in. 421: sent to another name. 403: by a page, or another user. 401: the
                token is missing, or another.
        """
        asked = _Asked(request)
        if not self._is_for_us(asked):
            raise Refused(HTTPStatus.MISDIRECTED_REQUEST, self._other_name())
        is_page_let_in = self._is_page_let_in(asked)
        if not (is_page_let_in or _is_of_no_page(asked) or _is_of_own_page(asked)):
            raise Refused(HTTPStatus.FORBIDDEN, _FOREIGN)
        shared = _shared(asked) if is_page_let_in else {}
        if self._origins:
            shared["Vary"] = "Origin"
        is_preflight = is_page_let_in and asked.method == "OPTIONS"
        if refused := self._stranger(asked, is_preflight=is_preflight):
            refused.headers = {**(refused.headers or {}), **shared}
            raise refused
        return shared

    def _is_for_us(self, asked: _Asked) -> bool:
        found = _AUTHORITY.fullmatch(asked.said("host").lower())
        if found is None:
            return False
        name, port = found["name"], found["port"]
        if name in self._allowed_names:  # a proxy may have a port of its own
            return True
        if not asked.peer.address and name == "localhost" and port is None:  # a Unix socket has none
            return True
        # No page can have an address of ours for its own name, unless it is ours.
        is_ours = name in self._own_names or name == asked.called_at
        return is_ours and int(port or _PORT_OF_HTTP) == self._port

    def _other_name(self) -> str:
        return (
            f"the Host header names another server: this one is http://localhost:{self._port}. "
            "Further names are allowed_hosts, under [http] in config.toml"
        )

    def _is_page_let_in(self, asked: _Asked) -> bool:
        origin = asked.said("origin")
        return any(pattern.fullmatch(origin) for pattern in self._origins)

    def _stranger(self, asked: _Asked, *, is_preflight: bool) -> Refused | None:
        """Why this peer is not let in, if it is not."""
        has_token = "authorization" in asked.headers
        if has_token and self._is_token(asked.said("authorization")):
            return None
        if asked.peer.kind is Kind.ANOTHERS:
            return Refused(HTTPStatus.FORBIDDEN, _ANOTHERS)
        if asked.is_ours and not self._always_asks:
            return None
        if asked.path == HEALTH or is_preflight:  # browsers send no token when they ask first
            return None
        if asked.is_for_status_page and not has_token:
            return None
        what = "the token is not the right one" if has_token else "a token is needed"
        challenge = {"WWW-Authenticate": 'Bearer error="invalid_token"' if has_token else "Bearer"}
        return Refused(HTTPStatus.UNAUTHORIZED, f"{what}: {_SEND}. {self._where}", headers=challenge)

    def _is_token(self, said: str) -> bool:
        scheme, _, token = said.partition(" ")
        is_right = secrets.compare_digest(token.strip().encode(), self._token)
        return is_right and scheme.lower() == "bearer"


class _Asked:
    """What the gate looks at of a request."""

    def __init__(self, request: Request) -> None:
        self.peer = connection_of(request).peer
        self.is_ours = is_ours(request)
        self.method = request.method
        self.path: str = request.scope["path"]
        server = request.scope.get("server")
        self.called_at = _in_host(server[0]) if server else ""
        """The address of ours that the connection was made to."""
        self.headers: dict[str, list[str]] = {}
        for name, value in request.headers.items():
            self.headers.setdefault(name, []).append(value)

    def said(self, name: str) -> str:
        """A header's value; empty if it is not there, or more than once."""
        values = self.headers.get(name, [])
        return values[0] if len(values) == 1 else ""

    @property
    def is_for_status_page(self) -> bool:
        return self.path in FOR_BROWSERS or (
            self.path.startswith(OF_THE_PAGE) and not self.path.startswith(LINKS)
        )


def _is_of_no_page(asked: _Asked) -> bool:
    """No page has sent it; or a page's link has led a person to the status page."""
    if "origin" in asked.headers or _is_ahead(asked):
        return False
    # Browsers send no Origin with what a page fetches without wanting to read it, but say this.
    if "sec-fetch-site" not in asked.headers or asked.said("sec-fetch-site") == "none":
        return True
    is_followed = asked.said("sec-fetch-mode") == "navigate" and asked.said("sec-fetch-dest") == "document"
    return is_followed and asked.method == "GET" and asked.path in FOR_BROWSERS


def _is_ahead(asked: _Asked) -> bool:
    """Loaded before anybody wants it: a page may have asked for that, and Chromium calls its site `none`."""
    return any("prefetch" in value.lower() for name in _PURPOSES for value in asked.headers.get(name, ()))


def _is_of_own_page(asked: _Asked) -> bool:
    """A page of our own origin: there is one, the status page, and it asks for nothing but its own parts.

    Whoever had the port before us may have left others: a tab, or a service worker. Browsers tell of them by
    Sec-Fetch-Site; a program that says Origin alone, as MCP's conformance suite does, is none.
    """
    if "origin" in asked.headers:
        is_own = asked.said("origin") == f"http://{asked.said('host').lower()}"
    else:
        is_own = asked.said("sec-fetch-site") == "same-origin"
    if not is_own or _is_ahead(asked) or asked.path.startswith(LINKS):
        return False
    return asked.is_for_status_page or "sec-fetch-site" not in asked.headers


def _shared(asked: _Asked) -> dict[str, str]:
    """CORS (Fetch, "HTTP extensions"): what a browser lets the page do, and see of the answer."""
    shared = {"Access-Control-Allow-Origin": asked.said("origin"), "Access-Control-Expose-Headers": _EXPOSED}
    if "access-control-request-method" in asked.headers:
        shared |= _LETTING_IN
    if asked.said("access-control-request-private-network") == "true":
        shared["Access-Control-Allow-Private-Network"] = "true"
    return shared


def _in_host(host: str) -> str:
    """A configured host as the Host header has it, without its port."""
    if is_address(host) and ":" in host:
        return f"[{ip_address(host).compressed}]"
    return host.lower()


def _pattern(origin: str) -> re.Pattern[str]:
    if origin.endswith(ANY_PORT):
        return re.compile(re.escape(origin.removesuffix(ANY_PORT)) + r"(:[0-9]{1,5})?")
    return re.compile(re.escape(origin))
