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

from bridge.frontends.http.connection import Kind, Peer
from bridge.frontends.http.conversations import US, Owner, owner_of
from bridge.frontends.http.gate import Gate
from bridge.frontends.http.refusals import Refused
from bridge.frontends.http.routes import App
from bridge.frontends.http.settings import HttpSettings

TOKEN = "the-token-that-is-right"
OURS = Peer(Kind.OURS, "127.0.0.1")
UNKNOWN = Peer(Kind.UNKNOWN, "192.168.1.9")
ANOTHERS = Peer(Kind.ANOTHERS, "127.0.0.1")
OVER_UNIX = Peer(Kind.OURS, "")

HOST = "localhost:3456"
BEARER = {"authorization": f"Bearer {TOKEN}"}
OWN_ORIGIN = {"origin": "http://localhost:3456"}
FRIEND = "https://shop.example"
FOLLOWED = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
LETS_FRIEND_IN = HttpSettings(cors_origins=(FRIEND, "http://localhost:*"))

PAGE_PATHS = ["/", "/open", "/page/page.js", "/page/events", "/page/pause"]
OTHER_PATHS = ["/mcp", "/sse", "/message", "/tools", "/metrics", "/page/links", "/nothing"]


def request(
    path: str = "/mcp",
    headers: dict[str, str] | list[tuple[str, str]] | None = None,
    *,
    method: str = "POST",
    peer: Peer = OURS,
    host: str | None = HOST,
    at: str = "127.0.0.1",
) -> Request:
    given = list(headers.items() if isinstance(headers, dict) else headers or [])
    if host is not None:
        given.append(("host", host))

    class Connection:
        def __init__(self) -> None:
            self.peer = peer

    return Request(
        {
            "type": "http",
            "method": method,
            "path": path,
            "query_string": b"",
            "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in given],
            "state": {"connection": Connection()},
            "server": (at, 3456),
        }
    )


def gate(settings: HttpSettings | None = None, port: int = 3456) -> Gate:
    settings = settings or HttpSettings()
    return Gate(settings, port, settings.auth_token or TOKEN)


def refusal(asked: Request, settings: HttpSettings | None = None, port: int = 3456) -> Refused | None:
    try:
        gate(settings, port).admit(asked)
    except Refused as refused:
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


# ── Users ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("path", [*PAGE_PATHS, *OTHER_PATHS, "/health"])
@pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer wrong"}])
def test_another_user_gets_nothing_without_the_token(path: str, headers: dict[str, str]) -> None:
    refused = refusal(request(path, headers, peer=ANOTHERS))
    assert refused
    assert refused.status == 403
    assert "another user" in refused.message
    assert status(request(path, BEARER, peer=ANOTHERS)) == 200


@pytest.mark.parametrize("path", [*OTHER_PATHS, "/health\n", "/page/links/x", "/page/links\n", "/Page/"])
def test_who_is_not_known_needs_the_token(path: str) -> None:
    refused = refusal(request(path, peer=UNKNOWN))
    assert refused
    assert refused.status == 401
    assert refused.headers == {"WWW-Authenticate": "Bearer"}
    assert "http-token" in refused.message
    assert status(request(path, BEARER, peer=UNKNOWN)) == 200


@pytest.mark.parametrize("path", [*PAGE_PATHS, "/health"])
def test_the_status_page_asks_for_its_cookie_and_health_for_nothing(path: str) -> None:
    assert status(request(path, peer=UNKNOWN)) == 200


@pytest.mark.parametrize("peer", [OURS, OVER_UNIX, UNKNOWN, ANOTHERS])
def test_a_configured_token_is_asked_of_everybody(peer: Peer) -> None:
    settings = HttpSettings(auth_token=TOKEN)
    refused = refusal(request(peer=peer), settings)
    assert refused
    assert refused.status == (403 if peer is ANOTHERS else 401)
    assert status(request(headers=BEARER, peer=peer), settings) == 200
    if peer is not ANOTHERS:
        assert "auth_token of [http]" in refused.message
        assert "CLAUDE_BROWSER_AUTH_TOKEN" in refused.message


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
def test_another_token_is_refused_where_one_is_needed(given: str, path: str) -> None:
    refused = refusal(request(path, {"authorization": given}, peer=UNKNOWN))
    assert refused
    assert refused.status == 401
    assert refused.headers == {"WWW-Authenticate": 'Bearer error="invalid_token"'}
    assert TOKEN not in refused.message


def test_two_tokens_are_refused_even_if_both_are_right() -> None:
    asked = request(headers=[*BEARER.items(), *BEARER.items()], peer=UNKNOWN)
    assert status(asked) == 401


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_the_scheme_is_read_as_http_has_it(scheme: str) -> None:
    assert status(request(headers={"authorization": f"{scheme} {TOKEN}"}, peer=UNKNOWN)) == 200


def test_a_token_in_the_url_is_no_token() -> None:
    asked = request(peer=UNKNOWN)
    asked.scope["query_string"] = (
        f"token={TOKEN}&access_token={TOKEN}&authorization=Bearer%20{TOKEN}".encode()
    )
    refused = refusal(asked)
    assert refused
    assert refused.status == 401
    assert "never in a URL" in refused.message


def test_a_token_that_nobody_asks_for_does_no_harm() -> None:
    assert status(request(headers={"authorization": "Bearer of-something-else"})) == 200


@pytest.mark.parametrize("header", ["forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip"])
def test_a_proxy_of_ours_speaks_for_who_is_not_known(header: str) -> None:
    asked = request(headers={header: "for=192.0.2.1"})
    assert status(asked) == 401
    assert status(request(headers={header: "for=192.0.2.1", **BEARER})) == 200
    assert owner_of(asked) == Owner("127.0.0.1")
    assert owner_of(request()) == US


# ── Answers to pages (CORS) ─────────────────────────────────────────────────────────────────────────────────


def test_who_is_no_page_gets_no_word_of_cors() -> None:
    assert gate().admit(request()) == {}
    assert gate(LETS_FRIEND_IN).admit(request()) == {"Vary": "Origin"}
    assert gate().admit(request("/page/pause", OWN_ORIGIN)) == {}


def test_a_page_that_is_let_in_may_read_the_answer_and_the_session_s_id() -> None:
    assert gate(LETS_FRIEND_IN).admit(request(headers={"origin": FRIEND})) == {
        "Access-Control-Allow-Origin": FRIEND,
        "Access-Control-Expose-Headers": "Mcp-Session-Id, X-Session-Id",
        "Vary": "Origin",
    }


PREFLIGHT = {"origin": FRIEND, "access-control-request-method": "POST"}


def preflight(headers: dict[str, str] | None = None, peer: Peer = OURS) -> Request:
    return request(headers={**PREFLIGHT, **(headers or {})}, method="OPTIONS", peer=peer)


def test_a_browser_that_asks_first_hears_what_the_page_may_send() -> None:
    found = gate(LETS_FRIEND_IN).admit(preflight())
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
    assert gate(LETS_FRIEND_IN).admit(asked)["Access-Control-Allow-Private-Network"] == "true"


def test_a_browser_sends_no_token_when_it_asks_first() -> None:
    settings = HttpSettings(cors_origins=(FRIEND,), auth_token=TOKEN)
    assert status(preflight(), settings) == 200
    assert status(preflight(peer=UNKNOWN), settings) == 200
    assert status(preflight(peer=ANOTHERS), settings) == 403
    assert status(request(headers=PREFLIGHT), settings) == 401
    assert status(request(method="OPTIONS"), settings) == 401


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
    ("path", "peer", "expected"), [("/mcp", UNKNOWN, 401), ("/nothing", OURS, 404), ("/fail", OURS, 500)]
)
async def test_a_page_that_is_let_in_may_read_errors_too(path: str, peer: Peer, expected: int) -> None:
    asked = request(path, {"origin": FRIEND}, peer=peer, method="GET")
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
