"""The gate of `mcpb serve`: to which name, from which page, and by whom a request has to be sent."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Any

import pytest
import trio
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bridge.config.settings import HttpSettings
from bridge.frontends.http.access_tokens import digest_of
from bridge.frontends.http.asgi_app import App
from bridge.frontends.http.authorization import Authorization
from http_frontend import OneToken
from http_serving.error_responses import RequestRejected
from http_serving.peer_credentials import Kind, Peer, Principal, principal_of
from native_host.system.proc import Process

TOKEN = "the-token-that-is-right"
OURS = Peer(Kind.OURS, "127.0.0.1")
UNKNOWN = Peer(Kind.UNKNOWN, "192.168.1.9")
ANOTHERS = Peer(Kind.ANOTHERS, "127.0.0.1")
OVER_UNIX = Peer(Kind.OURS, "")

EDITOR = Process(7, 100, "/usr/bin/editor")
BROWSER = Process(8, 200, "/opt/chrome/chrome")
SAME_USER = HttpSettings(auth="same-user")

HOST = "localhost:3456"
BEARER = {"authorization": f"Bearer {TOKEN}"}
OWN_ORIGIN = {"origin": "http://localhost:3456"}
FRIEND = "https://shop.example"
FOLLOWED = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
LETS_FRIEND_IN = HttpSettings(cors_origins=(FRIEND, "http://localhost:*"))

PAGE_PATHS = ["/", "/open", "/page/page.js", "/page/events", "/page/pause"]
OTHER_PATHS = ["/mcp", "/sse", "/message", "/tools", "/metrics", "/page/links", "/nothing"]


class Connection:
    name = "connection 1"

    def __init__(self, peer: Peer, process: Process | None) -> None:
        self.peer = peer
        self._process = process

    async def find_process(self) -> Process | None:
        return self._process


def request(
    path: str = "/mcp",
    headers: dict[str, str] | list[tuple[str, str]] | None = None,
    *,
    method: str = "POST",
    peer: Peer = OURS,
    process: Process | None = EDITOR,
    host: str | None = HOST,
    at: str = "127.0.0.1",
    has_token: bool = True,
) -> Request:
    """A request with the right token, unless it has an Authorization of its own."""
    given = list(headers.items() if isinstance(headers, dict) else headers or [])
    if has_token and not any(name.lower() == "authorization" for name, _ in given):
        given.extend(BEARER.items())
    if host is not None:
        given.append(("host", host))
    return Request(
        {
            "type": "http",
            "method": method,
            "path": path,
            "query_string": b"",
            "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in given],
            "state": {"connection": Connection(peer, process)},
            "server": (at, 3456),
        }
    )


def gate(settings: HttpSettings | None = None, port: int = 3456) -> Authorization:
    return Authorization(
        settings or HttpSettings(), port, OneToken(TOKEN), lambda program: program == BROWSER.program
    )


def refusal(asked: Request, settings: HttpSettings | None = None, port: int = 3456) -> RequestRejected | None:
    try:
        gate(settings, port).check(asked)
    except RequestRejected as refused:
        return refused
    return None


def status(asked: Request, settings: HttpSettings | None = None, port: int = 3456) -> int:
    """200 when it is let in."""
    refused = refusal(asked, settings, port)
    return HTTPStatus.OK if refused is None else refused.status


# ── The name by which we are called ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("host", ["localhost:3456", "127.0.0.1:3456", "[::1]:3456", "LocalHost:3456"])
@pytest.mark.parametrize("path", ["/mcp", "/health", "/", "/sse"])
def test_our_own_names_are_right_with_our_port(host: str, path: str) -> None:
    assert status(request(path, host=host)) == 200


@pytest.mark.parametrize(
    ("called", "at", "expected"),
    [
        ("192.168.1.5:3456", "192.168.1.5", 200),
        ("[fe80::1]:3456", "fe80::1", 200),
        ("192.168.1.5:80", "192.168.1.5", 421),
        ("192.168.1.5:3456", "127.0.0.1", 421),
        ("0.0.0.0:3456", "192.168.1.5", 421),
    ],
)
def test_the_address_that_a_connection_was_made_to_is_right(called: str, at: str, expected: int) -> None:
    assert status(request(host=called, at=at)) == expected


@pytest.mark.parametrize(
    "host",
    [
        None,
        "",
        "localhost",
        "localhost:",
        "localhost:3457",
        "localhost:80",
        "localhost:034560",
        "localhost:3456:3456",
        "localhost:3456 ",
        "localhost.:3456",
        "evil.example:3456",
        "evil.example",
        "localhost.evil.example:3456",
        "localhost@evil.example:3456",
        "evil.example#localhost:3456",
        "127.0.0.1.evil.example:3456",
        "::1:3456",
        "[::2]:3456",
        "0.0.0.0:3456",
        "localhost:३४५६".encode().decode("latin-1"),
    ],
)
@pytest.mark.parametrize("path", ["/mcp", "/health", "/", "/sse", "/nothing"])
def test_any_other_name_is_refused_on_every_route(host: str | None, path: str) -> None:
    refused = refusal(request(path, host=host, headers=BEARER))
    assert refused
    assert refused.status == 421
    assert "http://localhost:3456" in refused.message
    assert "allowed_hosts" in refused.message


def test_two_names_are_refused_even_if_both_are_right() -> None:
    assert status(request(headers=[("host", HOST), ("Host", HOST)], host=None)) == 421


def test_at_port_80_browsers_write_no_port() -> None:
    assert status(request(host="localhost"), port=80) == 200
    assert status(request(host="localhost:80"), port=80) == 200
    assert status(request(host="localhost:3456"), port=80) == 421


@pytest.mark.parametrize(
    ("host", "called"),
    [
        ("192.168.1.5", "192.168.1.5:3456"),
        ("My-Box.local", "my-box.local:3456"),
        ("2001:DB8:0::1", "[2001:db8::1]:3456"),
    ],
)
def test_the_configured_host_is_a_name_of_ours(host: str, called: str) -> None:
    assert status(request(host=called), HttpSettings(host=host)) == 200
    assert status(request(host=called)) == 421
    assert status(request(host=called.replace("3456", "3457")), HttpSettings(host=host)) == 421


@pytest.mark.parametrize(("host", "called"), [("0.0.0.0", "0.0.0.0:3456"), ("::", "[::]:3456")])
def test_all_addresses_are_nobody_s_name(host: str, called: str) -> None:
    """Browsers say of such a request neither an origin nor that a page makes it."""
    assert status(request(host=called), HttpSettings(host=host)) == 421
    assert status(request(), HttpSettings(host=host)) == 200


@pytest.mark.parametrize(
    "called", ["mcpb.example", "mcpb.example:443", "mcpb.example:3456", "[fd00::1]:8443"]
)
def test_allowed_names_may_be_at_any_port_since_a_proxy_has_its_own(called: str) -> None:
    settings = HttpSettings(allowed_hosts=("mcpb.example", "fd00::1"))
    assert status(request(host=called), settings) == 200
    assert status(request(host=f"x{called}"), settings) == 421


def test_over_the_unix_socket_localhost_has_no_port() -> None:
    assert status(request(peer=OVER_UNIX, host="localhost")) == 200
    assert status(request(peer=OVER_UNIX, host="localhost:3456")) == 200
    assert status(request(peer=OVER_UNIX, host="evil.example")) == 421


# ── Pages ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example",
        "http://localhost:8080",
        "http://127.0.0.1:3456",
        "http://localhost",
        "https://localhost:3456",
        "null",
        "",
        "chrome-extension://abcdefghijklmnopabcdefghijklmnop",
        "https://shop.example",
    ],
)
@pytest.mark.parametrize("path", [*PAGE_PATHS, *OTHER_PATHS, "/health"])
def test_a_page_of_another_origin_is_refused_on_every_route(origin: str, path: str) -> None:
    refused = refusal(request(path, {"origin": origin, **BEARER}))
    assert refused
    assert refused.status == 403
    assert "cors_origins" in refused.message


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "DELETE", "TRACE"])
def test_a_page_of_another_origin_is_refused_by_whatever_method(method: str) -> None:
    assert status(request("/tools", {"origin": "http://localhost:5173"}, method=method)) == 403


SAME_ORIGIN = {"sec-fetch-site": "same-origin"}


@pytest.mark.parametrize("path", PAGE_PATHS)
def test_a_page_of_ours_may_ask_for_its_own_parts(path: str) -> None:
    assert status(request(path, {**OWN_ORIGIN, **SAME_ORIGIN})) == 200
    assert status(request(path, SAME_ORIGIN, method="GET")) == 200


@pytest.mark.parametrize("path", [*OTHER_PATHS, "/health"])
def test_what_had_our_origin_before_us_may_do_nothing_else(path: str) -> None:
    assert status(request(path, {**OWN_ORIGIN, **SAME_ORIGIN})) == 403
    assert status(request(path, SAME_ORIGIN, method="GET")) == 403


@pytest.mark.parametrize("path", ["/mcp", "/sse", "/page/pause"])
def test_a_program_that_is_no_browser_may_say_our_origin(path: str) -> None:
    assert status(request(path, OWN_ORIGIN)) == 200


@pytest.mark.parametrize("path", ["/page/links", "/page/links/"])
def test_no_page_makes_a_link_that_signs_in(path: str) -> None:
    assert status(request(path, OWN_ORIGIN)) == 403


def test_two_origins_are_refused_even_if_both_are_right() -> None:
    asked = request("/page/pause", [*OWN_ORIGIN.items(), *OWN_ORIGIN.items()])
    assert status(asked) == 403
    asked = request(headers=[("origin", FRIEND), ("origin", FRIEND)])
    assert status(asked, LETS_FRIEND_IN) == 403


@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        (FRIEND, 200),
        ("https://shop.example:8443", 403),
        ("https://shop.example.evil.example", 403),
        ("https://www.shop.example", 403),
        ("http://shop.example", 403),
        ("https://shopXexample", 403),
        ("http://localhost", 200),
        ("http://localhost:5173", 200),
        ("https://localhost:5173", 403),
        ("http://localhost:5173.evil.example", 403),
        ("http://localhost.evil.example:5173", 403),
        ("http://localhost:", 403),
        ("http://localhost:517351", 403),
        ("http://localhost:*", 403),
        ("null", 403),
    ],
)
def test_configured_origins_are_let_in_and_no_others(origin: str, expected: int) -> None:
    assert status(request(headers={"origin": origin}), LETS_FRIEND_IN) == expected


@pytest.mark.parametrize("site", ["cross-site", "same-site", "something-new"])
@pytest.mark.parametrize("path", ["/mcp", "/sse", "/health", "/", "/page/page.js"])
def test_what_a_page_fetches_without_saying_its_origin_is_refused(site: str, path: str) -> None:
    asked = request(path, {"sec-fetch-site": site, "sec-fetch-mode": "no-cors"}, method="GET")
    assert status(asked) == 403


@pytest.mark.parametrize("path", ["/", "/page/page.js", "/tools"])
def test_what_a_person_opens_is_fine(path: str) -> None:
    assert status(request(path, {"sec-fetch-site": "none"}, method="GET")) == 200


@pytest.mark.parametrize("path", ["/sse", "/tools", "/", "/open"])
@pytest.mark.parametrize("site", [{"sec-fetch-site": "none"}, {"sec-fetch-site": "same-origin"}, {}])
@pytest.mark.parametrize("purpose", ["sec-purpose", "purpose", "x-moz"])
def test_what_a_browser_loads_ahead_is_refused_since_a_page_may_have_asked_for_it(
    path: str, site: dict[str, str], purpose: str
) -> None:
    assert status(request(path, {**FOLLOWED, **site, purpose: "Prefetch;prerender"}, method="GET")) == 403


@pytest.mark.parametrize("path", ["/", "/open"])
def test_a_link_elsewhere_may_lead_to_the_status_page(path: str) -> None:
    assert status(request(path, FOLLOWED, method="GET")) == 200


@pytest.mark.parametrize(
    ("path", "method", "headers"),
    [
        ("/tools", "GET", FOLLOWED),
        ("/sse", "GET", FOLLOWED),
        ("/page/now", "GET", FOLLOWED),
        ("/", "POST", FOLLOWED),
        ("/", "GET", {**FOLLOWED, "sec-fetch-dest": "iframe"}),
        ("/open", "GET", {**FOLLOWED, "sec-fetch-mode": "no-cors"}),
        ("/", "GET", {**FOLLOWED, "origin": "https://evil.example"}),
    ],
)
def test_a_link_or_form_elsewhere_may_do_nothing_else(
    path: str, method: str, headers: dict[str, str]
) -> None:
    assert status(request(path, headers, method=method)) == 403


# ── Tokens ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("path", [*PAGE_PATHS, *OTHER_PATHS, "/health"])
@pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer wrong"}])
@pytest.mark.parametrize("settings", [HttpSettings(), SAME_USER], ids=lambda each: each.auth)
def test_another_user_gets_nothing_without_the_token(
    path: str, headers: dict[str, str], settings: HttpSettings
) -> None:
    refused = refusal(request(path, headers, peer=ANOTHERS, has_token=False), settings)
    assert refused
    assert refused.status == 403
    assert "a different user" in refused.message
    assert status(request(path, peer=ANOTHERS), settings) == 200


@pytest.mark.parametrize("path", [*OTHER_PATHS, "/health\n", "/page/links/x", "/page/links\n", "/Page/"])
@pytest.mark.parametrize("peer", [OURS, UNKNOWN])
def test_over_tcp_every_client_needs_a_token(path: str, peer: Peer) -> None:
    refused = refusal(request(path, peer=peer, has_token=False))
    assert refused
    assert refused.status == 401
    assert refused.headers == {"WWW-Authenticate": "Bearer"}
    assert "mcpb serve --print-config CLIENT" in refused.message
    assert status(request(path, peer=peer)) == 200


@pytest.mark.parametrize("path", [*PAGE_PATHS, "/health"])
@pytest.mark.parametrize("peer", [OURS, OVER_UNIX, UNKNOWN])
def test_the_status_page_asks_for_its_cookie_and_health_for_nothing(path: str, peer: Peer) -> None:
    assert status(request(path, peer=peer, has_token=False)) == 200


@pytest.mark.parametrize("settings", [HttpSettings(), HttpSettings(auth_token=TOKEN), SAME_USER])
def test_over_the_unix_socket_no_token_is_needed(settings: HttpSettings) -> None:
    assert status(request(peer=OVER_UNIX, has_token=False), settings) == 200
    assert status(request(peer=OVER_UNIX, headers={"authorization": "Bearer wrong"}), settings) == 401


def test_with_same_user_only_processes_of_this_user_need_no_token() -> None:
    assert status(request(peer=OURS, has_token=False), SAME_USER) == 200
    assert status(request(peer=UNKNOWN, has_token=False), SAME_USER) == 401
    assert status(request(peer=OURS, headers={"authorization": "Bearer wrong"}), SAME_USER) == 401


@pytest.mark.parametrize(
    "given",
    [
        "",
        "Bearer",
        "Bearer ",
        f"Bearer {TOKEN}x",
        f"Bearer {TOKEN[:-1]}",
        f"Bearer {TOKEN.upper()}",
        f"Basic {TOKEN}",
        TOKEN,
        f"Bearer {TOKEN} {TOKEN}",
        "Bearer ÿÿÿ",
    ],
)
@pytest.mark.parametrize("path", ["/mcp", "/", "/page/page.js"])
def test_a_token_that_is_not_valid_is_rejected(given: str, path: str) -> None:
    refused = refusal(request(path, {"authorization": given}))
    assert refused
    assert refused.status == 401
    assert refused.headers == {"WWW-Authenticate": 'Bearer error="invalid_token"'}
    assert TOKEN not in refused.message


def test_two_tokens_are_refused_even_if_both_are_right() -> None:
    assert status(request(headers=[*BEARER.items(), *BEARER.items()])) == 401


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_the_scheme_is_read_as_http_has_it(scheme: str) -> None:
    assert status(request(headers={"authorization": f"{scheme} {TOKEN}"})) == 200


def test_a_token_in_the_url_is_no_token() -> None:
    asked = request(has_token=False)
    asked.scope["query_string"] = (
        f"token={TOKEN}&access_token={TOKEN}&authorization=Bearer%20{TOKEN}".encode()
    )
    refused = refusal(asked)
    assert refused
    assert refused.status == 401
    assert "never in a URL" in refused.message


@pytest.mark.parametrize("header", ["forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip"])
@pytest.mark.parametrize(("peer", "settings"), [(OVER_UNIX, HttpSettings()), (OURS, SAME_USER)])
def test_what_a_proxy_of_this_user_passes_on_needs_a_token(
    header: str, peer: Peer, settings: HttpSettings
) -> None:
    forwarded = {header: "for=192.0.2.1"}
    assert status(request(headers=forwarded, peer=peer, has_token=False), settings) == 401
    assert status(request(headers=forwarded, peer=peer), settings) == 200


# ── Browsers ────────────────────────────────────────────────────────────────────────────────────────────────


async def admitted(asked: Request, settings: HttpSettings | None = None) -> int:
    """200, or the status of the rejection, after the sender's process was looked up."""
    try:
        await gate(settings).admit(asked)
    except RequestRejected as refused:
        return refused.status
    return HTTPStatus.OK


@pytest.mark.parametrize("path", OTHER_PATHS)
@pytest.mark.parametrize("headers", [{}, {"sec-fetch-site": "none"}, OWN_ORIGIN])
async def test_a_browser_without_an_allowed_origin_is_rejected_with_token_too(
    path: str, headers: dict[str, str]
) -> None:
    """An extension can remove Origin and Sec-Fetch-Site from its requests."""
    method = "GET" if "sec-fetch-site" in headers else "POST"
    assert await admitted(request(path, headers, process=BROWSER, method=method)) == 403
    assert await admitted(request(path, headers, process=BROWSER, has_token=False), SAME_USER) == 403


async def test_a_page_of_an_allowed_origin_needs_the_token() -> None:
    page = {"origin": FRIEND, "sec-fetch-site": "cross-site"}
    same_user = HttpSettings(cors_origins=(FRIEND,), auth="same-user")
    for settings in (LETS_FRIEND_IN, same_user):
        assert await admitted(request(headers=page, process=BROWSER), settings) == 200
        assert await admitted(request(headers=page, process=BROWSER, has_token=False), settings) == 401


@pytest.mark.parametrize("path", [*PAGE_PATHS, "/health"])
async def test_a_browser_opens_the_status_page_and_health(path: str) -> None:
    assert await admitted(request(path, process=BROWSER, has_token=False)) == 200


async def test_a_browser_s_rejection_may_be_read_by_an_allowed_page_alone() -> None:
    with pytest.raises(RequestRejected) as refused:
        await gate(LETS_FRIEND_IN).admit(request(process=BROWSER))
    assert refused.value.headers == {"Vary": "Origin"}
    assert "cors_origins" in refused.value.message


# ── Who sent it ─────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_client_is_its_token_whatever_it_is_connected_by() -> None:
    for peer, is_local in ((OURS, True), (OVER_UNIX, True), (UNKNOWN, False), (ANOTHERS, False)):
        asked = request(peer=peer)
        await gate().admit(asked)
        assert principal_of(asked) == Principal(digest_of(TOKEN), "laptop", is_local=is_local)


async def test_a_client_without_a_token_is_its_process_or_else_its_connection() -> None:
    for process, name in ((EDITOR, "process 7 100"), (None, "connection 1")):
        asked = request(peer=OVER_UNIX, process=process, has_token=False)
        await gate().admit(asked)
        assert principal_of(asked) == Principal(process=name, is_local=True)


# ── Answers to pages (CORS) ─────────────────────────────────────────────────────────────────────────────────


def test_who_is_no_page_gets_no_word_of_cors() -> None:
    assert gate().check(request()).headers == {}
    assert gate(LETS_FRIEND_IN).check(request()).headers == {"Vary": "Origin"}
    assert gate().check(request("/page/pause", OWN_ORIGIN)).headers == {}


def test_a_page_that_is_let_in_may_read_the_answer_and_the_session_s_id() -> None:
    assert gate(LETS_FRIEND_IN).check(request(headers={"origin": FRIEND})).headers == {
        "Access-Control-Allow-Origin": FRIEND,
        "Access-Control-Expose-Headers": "Mcp-Session-Id, X-Session-Id",
        "Vary": "Origin",
    }


PREFLIGHT = {"origin": FRIEND, "access-control-request-method": "POST"}


def preflight(headers: dict[str, str] | None = None, peer: Peer = OURS) -> Request:
    return request(headers={**PREFLIGHT, **(headers or {})}, method="OPTIONS", peer=peer, has_token=False)


def test_a_browser_that_asks_first_hears_what_the_page_may_send() -> None:
    found = gate(LETS_FRIEND_IN).check(preflight()).headers
    assert found["Access-Control-Allow-Origin"] == FRIEND
    assert found["Access-Control-Allow-Methods"] == "GET, POST, DELETE, OPTIONS"
    allowed = {name.lower() for name in found["Access-Control-Allow-Headers"].split(", ")}
    for header in ("mcp-session-id", "mcp-protocol-version", "last-event-id", "mcp-method", "mcp-name"):
        assert header in allowed
    assert {"content-type", "authorization"} <= allowed
    assert "Access-Control-Allow-Private-Network" not in found
    assert "Access-Control-Allow-Credentials" not in found


def test_a_browser_that_asks_about_the_private_network_is_told() -> None:
    asked = preflight({"access-control-request-private-network": "true"})
    assert gate(LETS_FRIEND_IN).check(asked).headers["Access-Control-Allow-Private-Network"] == "true"


def test_a_browser_sends_no_token_when_it_asks_first() -> None:
    settings = HttpSettings(cors_origins=(FRIEND,), auth_token=TOKEN)
    assert status(preflight(), settings) == 200
    assert status(preflight(peer=UNKNOWN), settings) == 200
    assert status(preflight(peer=ANOTHERS), settings) == 403
    assert status(request(headers=PREFLIGHT, has_token=False), settings) == 401
    assert status(request(method="OPTIONS", has_token=False), settings) == 401


# ── In front of the routes ──────────────────────────────────────────────────────────────────────────────────


async def answer(asked: Request, settings: HttpSettings) -> tuple[int, dict[str, str], Any]:
    """What the application says: status, headers, body."""

    async def greet(_: Request) -> Response:
        return Response("welcome", headers={"Mcp-Session-Id": "session_1"})

    async def fail(_: Request) -> Response:
        raise ValueError("a secret")

    said: list[Any] = []

    async def send(message: Any) -> None:
        said.append(message)

    app = App([Route("/mcp", greet, methods=["POST"]), Route("/fail", fail)], gate(settings).admit)
    with trio.fail_after(30):
        await app(asked.scope, asked.receive, send)
    head = {name.decode().lower(): value.decode() for name, value in said[0]["headers"]}
    body = b"".join(message.get("body", b"") for message in said[1:]).decode()
    return said[0]["status"], head, json.loads(body) if body.startswith("{") else body


async def test_what_is_let_in_finds_its_route() -> None:
    found, headers, body = await answer(request(headers={"origin": FRIEND}), LETS_FRIEND_IN)
    assert (found, body) == (200, "welcome")
    assert headers["access-control-allow-origin"] == FRIEND
    assert headers["mcp-session-id"] == "session_1"


async def test_what_is_not_let_in_finds_none_and_hears_why() -> None:
    found, headers, body = await answer(request(headers={"origin": "https://evil.example"}), LETS_FRIEND_IN)
    assert found == 403
    assert "access-control-allow-origin" not in headers
    assert body["error"]["code"] == -32600
    assert "cors_origins" in body["error"]["message"]


@pytest.mark.parametrize(
    ("path", "has_token", "expected"), [("/mcp", False, 401), ("/nothing", True, 404), ("/fail", True, 500)]
)
async def test_a_page_that_is_let_in_may_read_errors_too(path: str, has_token: bool, expected: int) -> None:
    asked = request(path, {"origin": FRIEND}, has_token=has_token, method="GET")
    found, headers, body = await answer(asked, LETS_FRIEND_IN)
    assert found == expected
    assert headers["access-control-allow-origin"] == FRIEND
    assert headers["vary"] == "Origin"
    assert body["error"]["message"]
    assert "secret" not in body["error"]["message"]


async def test_a_browser_that_asks_first_gets_an_empty_answer() -> None:
    found, headers, body = await answer(preflight(), LETS_FRIEND_IN)
    assert (found, body) == (204, "")
    assert headers["access-control-allow-methods"]
    found, headers, _ = await answer(preflight({"origin": "https://evil.example"}), LETS_FRIEND_IN)
    assert found == 403
    assert "access-control-allow-methods" not in headers
