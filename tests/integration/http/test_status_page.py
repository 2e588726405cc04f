"""The status page: what it shows, who may see it, and what may be done there."""

from __future__ import annotations

import html.parser
import os
import re
import signal
import socket
import subprocess
import sys
import webbrowser
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import click
import httpx2
import msgspec
import pytest
import trio
import trio.testing
from click.testing import CliRunner

from bridge.cli import status_page as page_command
from bridge.cli.group import main
from bridge.config.remote_settings import RemoteSettings
from bridge.config.settings import HttpSettings
from bridge.diagnostics.connection_problem import find_connection_problem
from bridge.diagnostics.remote_status import describe_remote
from bridge.diagnostics.status_snapshot import find_tools as read_tools
from bridge.errors import CallError
from bridge.frontends.http.asgi_app import App
from bridge.frontends.http.authorization import Authorization
from bridge.frontends.http.status_page.html import PageContent, make_element, status_page
from bridge.frontends.http.status_page.page_routes import StatusPage
from bridge.frontends.http.status_page.sign_in import COOKIE_S, LINK_S, SignIn
from bridge.frontends.http.status_page.updates import PING_S, SHOWN_CALLS, SHOWN_TOOLS, StatusUpdates
from bridge.hub.argument_validation import NOTHING, Arguments
from bridge.hub.audit_records import FinishedCall, Site
from bridge.hub.client_session import Session
from bridge.hub.router import Router
from bridge.hub.transport import DiscoveryFinished
from bridge.links.browsers.link_problem import LinkProblem
from bridge.state.audit_log import AuditLog
from bridge.state.pause_sync import PauseSync
from bridge.state.pauses_file import PausesFile
from bridge.state.remote_records import BridgeRecord, RemoteRecord
from bridge.state.server_record import ServeRecord, find_running
from bridge.state.site_approvals import Approvals
from fake_transport import PlayedTransport, browser_hello, one_page, tab
from http_frontend import CLOSES_EARLY, Events, OneToken
from http_serving.http_server import serve
from http_serving.listeners import listen
from native_host.protocol import wire
from native_host.protocol.wire import Code
from native_host.system.problem import Problem

SHOP = "https://shop.example"
GET_CART = "website_tool_shop_example_tab1_getCart"
SOON_S = 30
TOKEN = "the-token-that-is-right"
EVIL = "<script>alert(1)</script>\"'><img src=x onerror=y>\n\x1b[2J\u202e"
CLAUDE = wire.Session(
    id="5e551011", title="Claude Code", client=wire.ClientInfo(name="claude-code", version="2.1")
)


class Troubles:
    """Of links; the test says which."""

    def __init__(self) -> None:
        self.problems: dict[str, Any] = {}


class Page:
    """A status page that is watched without a server, and what it shows."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.transport = PlayedTransport()
        self.troubles = Troubles()
        self.router = Router(
            self.transport, lambda registry: find_connection_problem(registry, self.troubles)
        )
        self.remote: list[dict[str, Any]] = []
        self.watching = StatusUpdates(
            self.router, self.troubles, state, lambda: {CLAUDE.id: "streamable"}, remote=lambda: self.remote
        )

    def shown(self, query: str = "") -> Markup:
        """What a person gets to see."""
        return Markup(status_page(self.watching.read_content(query)))


class Markup(html.parser.HTMLParser):
    """A document: its elements and its text, as a browser would find them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self._text: list[str] = []
        self.feed(text)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self._text).split())

    def having(self, attribute: str) -> list[str | None]:
        """The values of an attribute."""
        return [attributes[attribute] for _, attributes in self.elements if attribute in attributes]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self._text.append(data)


@pytest.fixture
async def page(short_tmp: Path) -> AsyncIterator[Page]:
    page = Page(short_tmp / "state")
    yield page
    page.watching.close()


def defined(tab_id: int, *definitions: Any, origin: str = SHOP) -> wire.FrameTools:
    raw = [msgspec.Raw(msgspec.json.encode(definition)) for definition in definitions]
    return wire.FrameTools(tab_id=tab_id, frame_id=0, document_id="d1", origin=origin, tools=raw)


def called(own_name: str = "getCart", outcome: str = "ok", **fields: Any) -> FinishedCall:
    client = Session(CLAUDE.id, client=wire.ClientInfo(name="claude-code"))
    site = Site(profile="p1", browser="Chromium", origin=SHOP, tab_id=1, ordinal=1)
    return FinishedCall(client, GET_CART, outcome, 0.25, site, own_name, **fields)


# ── What it shows ───────────────────────────────────────────────────────────────────────────────────────────


async def test_a_tool_has_its_description_its_parameters_and_its_public_name(page: Page) -> None:
    schema = {
        "type": "object",
        "properties": {"item": {"type": "string", "description": "Which one"}, "size": {"enum": ["S", "M"]}},
        "required": ["item"],
    }
    add = {"name": "addToCart", "description": "Puts it there.\nReally.", "inputSchema": schema}
    page.transport.connect(
        "h1", wire.Tabs(tabs=[tab(1, title="Tea", active=True, focused=True)]), defined(1, add)
    )
    shown = page.shown()
    assert "Tea Active https://shop.example · tab 1" in shown.text
    assert "Puts it there. Really. item string required Which one size S | M" in shown.text
    assert "website_tool_shop_example_tab1_addToCart" in shown.having("data-copy")


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": 1, "b": {"type": 5}}},
        {"properties": []},
        {"required": "x", "properties": {}},
        {"$ref": "#"},
    ],
)
async def test_a_schema_of_any_shape_is_no_obstacle(page: Page, schema: dict[str, Any]) -> None:
    page.transport.connect("h1", wire.Tabs(tabs=[tab(1)]), defined(1, {"name": "odd", "inputSchema": schema}))
    assert "odd" in page.shown().text


async def test_clients_have_what_they_are_connected_over_and_a_button(page: Page) -> None:
    other = wire.Session(id="c0ffee00", client=wire.ClientInfo(name="cursor"))
    page.transport.connect("h1", *one_page("getCart"), wire.Paused(sessions=[other.id]))
    clients = [wire.Client(connection="c", pid=4711, version="0.2.0", sessions=[CLAUDE, other])]
    page.transport.announce("h1", wire.HostClients(clients=clients))
    shown = page.shown()
    assert "Claude Code version 2.1 · over Streamable HTTP · pid 4711 · session 5e551011 Pause" in shown.text
    assert "cursor paused over stdio · pid 4711 · session c0ffee00 Resume" in shown.text


async def test_a_client_of_two_browsers_is_one_client(page: Page) -> None:
    clients = wire.HostClients(
        clients=[wire.Client(connection="c", pid=1, version="0.2.0", sessions=[CLAUDE])]
    )
    page.transport.connect("h1", *one_page("getCart"), clients)
    page.transport.happen()
    assert page.shown().text.count("Claude Code") == 1


async def test_calls_of_all_bridges_are_there_the_newest_first(page: Page, short_tmp: Path) -> None:
    log = AuditLog(short_tmp / "state", with_arguments=False)
    log.write_record(called("getCart"))
    assert "getCart ok 250 ms claude-code https://shop.example tab 1" in page.shown().text
    log.write_record(called("checkout", "timed_out", detail="10 s have passed"))
    text = page.shown().text
    assert text.index("checkout timed out") < text.index("getCart ok")
    assert "10 s have passed; it may have run" in text
    log.close()


async def test_offers_of_sites_subscriptions_and_requests_of_pages_are_there(
    page: Page, short_tmp: Path
) -> None:
    client = msgspec.structs.replace(CLAUDE, subscriptions=["cart://1", EVIL])
    offered = msgspec.structs.replace(
        defined(1), resources=[msgspec.Raw(b'{"uri":"cart://1","name":"Cart"}')] * 2, prompts=[]
    )
    page.transport.connect("h1", wire.Tabs(tabs=[tab(1, title="Tea")]), offered)
    clients = [wire.Client(connection="c", pid=4711, version="0.2.0", sessions=[client])]
    page.transport.announce("h1", wire.HostClients(clients=clients))
    log = AuditLog(short_tmp / "state", with_arguments=False)
    kinds: Any = {"kind": "sampling"}
    request = called("sampling/createMessage", "not_allowed", **kinds)
    for record in (request, *(called() for _ in range(SHOWN_CALLS - 1))):
        log.write_record(record)
    log.close()
    text = page.shown().text
    assert "Tea https://shop.example · tab 1 · 1 resource" in text
    assert "What sites offer https://shop.example 1 resource" in text
    assert "Subscribed to cart://1 Subscribed to <script>alert(1)</script>" in text
    assert "Requests of pages and servers" in text
    line = "sampling sampling/createMessage not allowed 250 ms claude-code https://shop.example tab 1"
    assert text.count(line) == 1


async def test_a_call_of_this_process_is_there_while_it_runs(page: Page) -> None:
    page.transport.connect("h1", *one_page("getCart"))
    page.transport.answer = None
    session = Session(CLAUDE.id, client=wire.ClientInfo(name="claude-code"))
    pending = page.router.begin(session, GET_CART, NOTHING, lambda _: None)
    assert re.search(
        r"\d\d:\d\d:\d\d getCart running claude-code https://shop.example tab 1", page.shown().text
    )
    pending.cancel()
    assert "running" not in page.shown().text


@pytest.mark.parametrize(
    "answer", [{"success": True, "payload": {"content": []}}, CallError(Code.TIMED_OUT, handed=True)]
)
async def test_a_call_that_is_over_does_not_run(page: Page, answer: Any) -> None:
    page.transport.connect("h1", *one_page("getCart"))
    page.transport.answer = answer
    page.router.begin(Session("s"), GET_CART, NOTHING, lambda _: None)
    page.router.begin(Session("s"), GET_CART, Arguments(b'{"x":'), lambda _: None)
    assert page.router.running_calls() == []


async def test_what_is_missing_has_its_command_ready_to_be_copied(page: Page) -> None:
    shown = page.shown()
    assert "No browser is connected. To find out why" in shown.text
    assert "mcpb doctor" in shown.having("data-copy")
    assert "No calls yet" in shown.text
    commands = shown.having("data-copy")
    assert "claude mcp add --scope user browser -- mcpb bridge --name browser" in commands
    assert "mcpb serve --print-config claude-code" in commands


async def test_with_a_remote_server_what_is_missing_concerns_the_browser_only(page: Page) -> None:
    record = RemoteRecord(name="orders", state="ready", tools=3)
    settings = RemoteSettings(name="orders", url="https://orders.example/mcp")
    page.remote += describe_remote([settings], [BridgeRecord(1, (record,))])
    shown = page.shown()
    assert "Browser not ready: No browser is connected. To find out why" in shown.text
    assert "mcpb doctor" in shown.having("data-copy")
    assert "0 browsers · 1 remote server (3 tools)" in shown.text
    page.transport.connect("h1", *one_page("getCart"))
    assert "0 clients · 1 remote server (3 tools)" in page.shown().text


async def test_an_extension_of_another_product_is_no_browser_of_ours(page: Page) -> None:
    theirs = wire.Capabilities(tools=[msgspec.Raw(b'{"name":"navigate"}')])
    brand = wire.BrowserInfo(brand="Claude in Chrome", version="")
    hello = msgspec.structs.replace(browser_hello(), browser=brand, capabilities=theirs)
    page.transport.connect("h1", hello, wire.Tabs(tabs=[]))
    text = page.shown().text
    assert "0 browsers · 1 Claude in Chrome extension" in text
    assert "Claude in Chrome · pid" in text
    assert "No open page offers a tool" not in text.partition("Claude in Chrome")[2]


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("No browser can start it: no wrapper. Run: mcpb install-native-host", "mcpb install-native-host"),
        ("Open a page that does; `mcpb demo --serve` serves one.", "mcpb demo --serve"),
        ("/x is open to others. Remove it, or: chmod 700 '/x y/run'", "chmod 700 '/x y/run'"),
    ],
)
async def test_a_problem_has_a_button_that_copies_its_command(page: Page, text: str, command: str) -> None:
    page.troubles.problems["h"] = LinkProblem(Problem(text, command), 0)
    shown = page.shown()
    assert command in shown.having("data-copy")
    assert text.replace("`", "") in shown.text.replace(" Copy", "")


async def test_words_of_a_page_are_no_command_of_ours(page: Page) -> None:
    """A problem may quote a rule or a page; only its own commands get a button."""
    page.transport.connect("h1", *one_page("getCart"))
    found = dict(page.watching.read_content().status)
    found["missing"] = "config.toml does not allow Run: mcpb uninstall-native-host"
    shown = Markup(status_page(PageContent(found, [], {}, 0)))
    assert "mcpb uninstall-native-host" in shown.text
    assert "mcpb uninstall-native-host" not in shown.having("data-copy")


async def test_no_text_of_a_page_or_a_client_is_markup(page: Page, short_tmp: Path) -> None:
    session = wire.Session(id=EVIL, title=EVIL, client=wire.ClientInfo(name=EVIL, version=EVIL))
    evil_schema = {
        "type": "object",
        "properties": {EVIL: {"type": EVIL, "description": EVIL}},
        "required": [EVIL],
    }
    evil_tool = {"name": EVIL, "title": EVIL, "description": EVIL, "inputSchema": evil_schema}
    page.transport.connect(
        "h1",
        wire.Tabs(
            tabs=[tab(1, title=EVIL, owner=EVIL), tab(2, f"https://{EVIL}", title=EVIL, handed_over=True)]
        ),
        defined(1, evil_tool),
        wire.Paused(sites=[f"https://{EVIL}"]),
        wire.HostClients(clients=[wire.Client(connection="c", pid=1, version=EVIL, sessions=[session])]),
    )
    log = AuditLog(short_tmp / "state", with_arguments=False)
    log.write_record(called(EVIL, EVIL, detail=EVIL))
    log.close()
    plain = page.shown()
    assert "<script>alert(1)</script>" in plain.text
    scripts = [attributes for tag, attributes in plain.elements if tag == "script"]
    assert scripts == [{"src": "/page/page.js", "type": "module"}]
    assert not [tag for tag, _ in plain.elements if tag in {"img", "style", "iframe"}]
    assert not [name for _, attributes in plain.elements for name in attributes if name.startswith("on")]
    assert not {"\x1b", "\u202e"} & set(plain.text)


def test_what_is_no_element_is_text() -> None:
    made = make_element(
        "p", "<b>", make_element("i", "&"), [None, ["'"]], title='"x"', hidden=True, lang=None
    )
    assert made == '<p title="&quot;x&quot;" hidden>&lt;b&gt;<i>&amp;</i>&#x27;</p>'
    assert make_element("p", made + "<b>") == make_element("p", str(made) + "<b>")


async def test_a_search_leaves_what_fits(page: Page) -> None:
    page.transport.connect("h1", *one_page("getCart", "checkout"))
    shown = page.shown("checkout")
    assert "checkout" in shown.text
    assert "getCart" not in shown.text
    assert "No tool matches" in page.shown("zzzzzzzz").text


async def test_of_many_tools_some_are_shown_and_the_others_are_found(page: Page) -> None:
    page.transport.connect("h1", *one_page(*(f"tool{number}" for number in range(SHOWN_TOOLS + 50))))
    assert "50 more tools" in page.shown().text
    last = f"tool{SHOWN_TOOLS + 49}"
    assert last not in page.shown().text
    assert last in page.shown(last).text
    assert len(read_tools(page.router, "", 3)[0]) == 3


# ── What it is told, and when ───────────────────────────────────────────────────────────────────────────────


class Told:
    """What an open page hears of."""

    def __init__(self) -> None:
        self.changes = 0
        self.pings = 0

    async def hear(self, is_change: bool) -> None:
        self.changes += is_change
        self.pings += not is_change


@asynccontextmanager
async def looking_at(page: Page) -> AsyncIterator[Told]:
    told = Told()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(page.watching.watch_changes, told.hear, lambda: True)
        await trio.testing.wait_all_tasks_blocked()
        assert told.changes == 1, "what was there before is told at once"
        told.changes = 0
        yield told
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    "message",
    [
        wire.Tabs(tabs=[tab(1, title="Another title")]),
        wire.TabChanged(tab=tab(1, active=True)),
        wire.Paused(sites=[SHOP]),
        wire.HostClients(clients=[wire.Client(connection="c", pid=1, version="1", sessions=[CLAUDE])]),
        defined(1, {"name": "pay"}),
        wire.TabRemoved(tab_id=1),
    ],
    ids=lambda message: type(message).__name__,
)
async def test_whatever_changes_is_told_within_half_a_second(
    page: Page, autojump_clock: trio.testing.MockClock, message: wire.Wire
) -> None:
    page.transport.connect("h1", *one_page("getCart"))
    async with looking_at(page) as told:
        page.transport.announce("h1", message)
        await trio.sleep(0.6)
        assert (told.changes, told.pings) == (1, 0)


async def test_a_flood_is_told_twice_a_second(
    page: Page, short_tmp: Path, autojump_clock: trio.testing.MockClock
) -> None:
    log = AuditLog(short_tmp / "state", with_arguments=False)
    page.transport.connect("h1", *one_page("getCart"))
    async with looking_at(page) as told:
        for _ in range(100):
            log.write_record(called())
            await trio.sleep(0.02)
        await trio.sleep(1)
        assert 3 <= told.changes <= 5
    log.close()


async def test_while_nothing_happens_there_is_a_sign_of_life(
    page: Page, autojump_clock: trio.testing.MockClock
) -> None:
    page.transport.connect("h1", *one_page("getCart"))
    async with looking_at(page) as told:
        await trio.sleep(2 * PING_S + 1.5)
        assert (told.changes, told.pings) == (0, 2)


async def test_what_is_wrong_with_a_registration_is_looked_at_again(
    page: Page, autojump_clock: trio.testing.MockClock
) -> None:
    async with looking_at(page) as told:
        await trio.sleep(PING_S + 1)
        assert told.changes == 1


# ── Signing in ──────────────────────────────────────────────────────────────────────────────────────────────


def test_a_code_is_good_once() -> None:
    sign_in = SignIn()
    code = sign_in.create_code(0)
    cookie = sign_in.exchange_code(code, 1)
    assert cookie
    assert sign_in.is_valid(cookie, 2)
    assert sign_in.exchange_code(code, 1) is None
    assert not sign_in.is_valid(code, 2)


@pytest.mark.parametrize("code", ["", "x", "\udcff", "x" * 100_000])
def test_no_other_code_or_cookie_is_good(code: str) -> None:
    sign_in = SignIn()
    sign_in.create_code(0)
    assert sign_in.exchange_code(code, 1) is None
    assert not sign_in.is_valid(code, 1)


def test_codes_and_cookies_grow_old() -> None:
    sign_in = SignIn()
    assert sign_in.exchange_code(sign_in.create_code(0), LINK_S) is None
    cookie = sign_in.exchange_code(sign_in.create_code(0), LINK_S - 1)
    assert cookie
    assert sign_in.is_valid(cookie, LINK_S + COOKIE_S - 2)
    assert not sign_in.is_valid(cookie, LINK_S + COOKIE_S - 1)


def test_who_asks_for_links_without_end_fills_nothing() -> None:
    sign_in = SignIn()
    codes = [sign_in.create_code(0) for _ in range(1000)]
    good = [code for code in codes if sign_in.exchange_code(code, 1)]
    assert good == codes[-32:]


# ── Over HTTP ───────────────────────────────────────────────────────────────────────────────────────────────


class Served:
    """A status page behind the real gate, on a real port."""

    def __init__(self, page: Page, port: int) -> None:
        self.page = page
        self.url = f"http://localhost:{port}"
        self.client = httpx2.AsyncClient(base_url=self.url, timeout=SOON_S)

    async def link(self, **headers: str) -> httpx2.Response:
        """Ask for one, as `mcpb status --web` does."""
        given = {"Authorization": f"Bearer {TOKEN}", **headers}
        return await self.client.post("/page/links", json={}, headers=given)

    async def sign_in(self) -> None:
        """As a browser that opens a link; the client has the cookie then."""
        answer = await self.client.get((await self.link()).json()["url"])
        assert answer.status_code == 303

    async def pause(self, body: Any, **headers: str) -> httpx2.Response:
        return await self.post("/page/pause", body, **headers)

    async def post(self, path: str, body: Any, **headers: str) -> httpx2.Response:
        """As the page's own script, unless `headers` say otherwise; an empty one is left out."""
        own = {"Origin": self.url, "X-Mcpb-Page": "1", "Content-Type": "application/json"}
        given = {**own, **{name.replace("_", "-"): value for name, value in headers.items()}}
        given = {name: value for name, value in given.items() if value}
        content = body if isinstance(body, bytes) else msgspec.json.encode(body)
        return await self.client.post(path, content=content, headers=given)


@asynccontextmanager
async def serving(page: Page) -> AsyncIterator[Served]:
    page.transport.happen(DiscoveryFinished())
    page.transport.connect("h1", *one_page("getCart"))
    sockets = listen("localhost", 0)
    port = sockets[0].getsockname()[1]
    url = f"http://localhost:{port}/"
    pauses = PauseSync(page.router.registry, page.transport, page.router.changes, PausesFile(page.state))
    status_page = StatusPage(page.router, pauses, page.watching, url)
    gate = Authorization(HttpSettings(), port, OneToken(TOKEN), lambda _: False)
    stop = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve, App(status_page.routes(), gate.admit), sockets, stop)
        served = Served(page, port)
        async with served.client:
            yield served
        stop.set()


@pytest.fixture
async def served(page: Page) -> AsyncIterator[Served]:
    with trio.fail_after(30):
        async with serving(page) as served:
            yield served


async def test_a_link_sets_a_cookie_for_the_page_and_leads_there(served: Served) -> None:
    made = await served.link()
    assert re.fullmatch(rf"{served.url}/open\?code=[\w-]{{22}}", made.json()["url"])
    opened = await served.client.get(made.json()["url"])
    assert (opened.status_code, opened.headers["location"]) == (303, "/")
    name, _, rest = opened.headers["set-cookie"].partition("=")
    assert name == f"mcpb-page-{served.url.rpartition(':')[2]}"
    assert re.fullmatch(r"[\w-]{43}; HttpOnly; Max-Age=43200; Path=/; SameSite=strict", rest)
    shown = await served.client.get("/")
    assert (shown.status_code, shown.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "getCart" in shown.text


async def test_a_used_link_says_what_to_run_unless_one_is_signed_in(served: Served) -> None:
    url = (await served.link()).json()["url"]
    assert (await served.client.get(url)).status_code == 303
    assert (await served.client.get(url)).status_code == 303  # loaded twice
    served.client.cookies.clear()
    again = await served.client.get(url)
    assert again.status_code == 401
    assert "This link was used before, or is older than two minutes." in again.text
    assert "mcpb status --web" in again.text
    assert "set-cookie" not in again.headers


@pytest.mark.parametrize("header", ["Sec-Purpose", "Purpose"])
async def test_a_link_that_is_fetched_ahead_stays_good(served: Served, header: str) -> None:
    url = (await served.link()).json()["url"]
    ahead = await served.client.get(url, headers={header: "prefetch;prerender"})
    assert ahead.status_code == 403
    assert (await served.client.head(url)).status_code == 403
    assert (await served.client.get(url)).status_code == 303


async def test_without_a_cookie_nothing_is_shown(served: Served) -> None:
    page = await served.client.get("/")
    assert page.status_code == 401
    assert "mcpb status --web" in page.text
    assert "getCart" not in page.text
    for path in ("/page/now", "/page/events"):
        refused = await served.client.get(path)
        assert refused.status_code == 401
        assert "mcpb status --web" in refused.json()["error"]["message"]
    paused = await served.pause({"site": SHOP, "paused": True})
    assert paused.status_code == 401
    assert served.page.transport.asked == []


async def test_a_cookie_of_another_server_is_none(served: Served) -> None:
    for value in ("", "x", "é"):
        served.client.cookies.clear()
        cookie = f"mcpb-page-{served.url.rpartition(':')[2]}={value}".encode()
        assert (await served.client.get("/", headers=[(b"cookie", cookie)])).status_code == 401


@pytest.mark.parametrize("path", ["/", "/open", "/page/now", "/page/page.js", "/page/page.css"])
async def test_every_answer_forbids_browsers_what_the_page_does_not_need(served: Served, path: str) -> None:
    await served.sign_in()
    headers = (await served.client.get(path)).headers
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cache-control"] == "no-store"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert headers["cross-origin-opener-policy"] == "same-origin"


@pytest.mark.parametrize("header", ["Origin", "Cookie"])
async def test_no_page_gets_a_link(served: Served, header: str) -> None:
    value = {"Origin": served.url, "Cookie": "mcpb-page-1=x"}[header]
    assert (await served.link(**{header: value})).status_code == 403


async def test_where_a_token_is_needed_a_link_is_only_for_who_has_it(page: Page) -> None:
    with trio.fail_after(30):
        async with serving(page) as served:
            assert (await served.client.post("/page/links", json={})).status_code == 401
            made = await served.link()
            opened = await served.client.get(made.json()["url"])
            assert opened.status_code == 303
            assert (await served.client.get("/")).status_code == 200


async def test_the_page_s_script_pauses_a_site_and_a_session(served: Served) -> None:
    await served.sign_in()
    answer = await served.pause({"site": SHOP, "paused": True})
    assert (answer.status_code, answer.json()) == (200, {"errors": []})
    await served.pause({"session": "5e551011", "paused": False})
    asked = [each.params for each in served.page.transport.asked]
    assert all(isinstance(each, wire.Pause) and each.at > 0 for each in asked)
    assert [msgspec.structs.replace(each, at=0) for each in asked] == [
        wire.Pause(site=SHOP, paused=True),
        wire.Pause(session="5e551011", paused=False),
    ]


async def test_a_browser_that_does_not_pause_says_why(served: Served) -> None:
    await served.sign_in()
    served.page.transport.answer = CallError(Code.GONE, handed=False)
    (error,) = (await served.pause({"site": SHOP, "paused": True})).json()["errors"]
    assert error.startswith("Chromium 156: ")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": ""}, 403),
        ({"Origin": "http://localhost:1"}, 403),
        ({"Origin": "null"}, 403),
        ({"X_Mcpb_Page": ""}, 403),
        ({"Content_Type": "application/x-www-form-urlencoded"}, 415),
        ({"Content_Type": "text/plain"}, 415),
        ({"Origin": "", "X_Mcpb_Page": "", "Content_Type": "application/x-www-form-urlencoded"}, 403),
        ({"Host": "evil.example"}, 421),
        ({"Sec_Fetch_Site": "same-site", "Origin": ""}, 403),
    ],
    ids=str,
)
async def test_what_no_script_of_the_page_has_sent_changes_nothing(
    served: Served, headers: dict[str, str], status: int
) -> None:
    await served.sign_in()
    answer = await served.pause({"site": SHOP, "paused": True}, **headers)
    assert answer.status_code == status
    assert answer.json()["error"]["message"]
    assert served.page.transport.asked == []


async def test_approvals_are_listed_and_revoked(served: Served, short_tmp: Path) -> None:
    approvals = Approvals(short_tmp / "state")
    approvals.grant([SHOP], ["act"], client=EVIL)
    approvals.grant(["https://tea.example"], ["read", "page-tools"])
    approvals.grant(["https://pages.example"], ["tools:orders"])
    revoke = {"origin": "https://tea.example", "for": ["read", "page-tools"], "client": ""}
    assert (await served.post("/page/revoke", revoke)).status_code == 401
    await served.sign_in()
    shown = served.page.shown()
    assert "https://tea.example read, page-tools · for every client Revoke" in shown.text
    assert "https://pages.example tools:orders · for its pages Revoke" in shown.text
    assert "https://shop.example" in shown.having("data-revoke")
    assert not [name for name, _ in shown.elements if name == "img"]
    assert (await served.post("/page/revoke", revoke, Origin="")).status_code == 403
    assert (await served.post("/page/revoke", {"origin": SHOP})).status_code == 400
    assert (await served.post("/page/revoke", revoke)).json() == {"errors": []}
    assert [each.origin for each in approvals.read_all()] == ["https://pages.example", SHOP]
    (short_tmp / "state/approvals.json").write_text("[]")
    assert "it is not an object" in served.page.shown().text


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        {"paused": True},
        {"site": SHOP},
        {"site": SHOP, "session": "s", "paused": True},
        {"site": "x y", "paused": True},
    ],
    ids=str,
)
async def test_a_pause_of_nothing_is_refused(served: Served, body: Any) -> None:
    await served.sign_in()
    assert (await served.pause(body)).status_code == 400
    assert (await served.pause(b" " * 5000)).status_code == 413
    assert served.page.transport.asked == []


async def test_the_error_of_an_invalid_request_names_the_field(served: Served) -> None:
    await served.sign_in()
    for path, field in (("/page/pause", "site"), ("/page/revoke", "origin")):
        rejected = await served.post(path, {field: 7})
        assert rejected.status_code == 400
        assert rejected.json()["error"]["message"].endswith(f": {field}: expected str, got int")


async def test_without_a_browser_a_pause_counts_for_those_that_connect(served: Served) -> None:
    await served.sign_in()
    served.page.router.registry.all_browsers()[0].lost_at = 0
    answer = await served.pause({"site": SHOP, "paused": True})
    assert (answer.status_code, answer.json()) == (200, {"errors": []})
    assert served.page.router.registry.pauses.sites == (SHOP,)
    assert SHOP in (served.page.state / "pauses.json").read_text()


@CLOSES_EARLY
async def test_an_open_page_is_told_of_a_call(served: Served, short_tmp: Path) -> None:
    await served.sign_in()
    async with served.client.stream("GET", "/page/events") as events:
        assert events.headers["content-type"] == "text/event-stream"
        heard = Events(events)

        async def until_changed() -> None:
            with trio.fail_after(SOON_S):
                while (await heard.next() or {}).get("event") != "changed":
                    pass

        await until_changed()
        log = AuditLog(short_tmp / "state", with_arguments=False)
        log.write_record(called("checkout"))
        log.close()
        await until_changed()
    assert "checkout" in (await served.client.get("/page/now")).text


@CLOSES_EARLY
async def test_an_open_page_is_told_nothing_any_more_once_its_cookie_is_no_good(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    await served.sign_in()
    async with served.client.stream("GET", "/page/events") as events:
        heard = Events(events)
        with trio.fail_after(SOON_S):
            assert await heard.next()
            monkeypatch.setattr(SignIn, "is_valid", lambda *_: False)
            while await heard.next():
                pass


# ── mcpb status --web ───────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a browser was told to open."""
    opened: list[str] = []

    def open_in_browser(url: str) -> bool:
        opened.append(url)
        return True

    monkeypatch.setattr("webbrowser.open", open_in_browser)
    return opened


async def open_page(served: Served, state: Path, token: str = TOKEN, *, opens: bool = True) -> None:
    """As the command does, while the server runs in this process."""
    record = ServeRecord(pid=os.getpid(), url=f"{served.url}/", started_at=0)
    settings = HttpSettings(auth_token=token)
    await trio.to_thread.run_sync(partial(page_command.open_page, record, state, settings, opens=opens))


async def test_the_command_opens_the_page_and_does_not_say_the_code(
    served: Served, short_tmp: Path, opened: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    await open_page(served, short_tmp / "state")
    assert capsys.readouterr().out == f"The status page is open in your browser: {served.url}/\n"
    (link,) = opened
    assert (await served.client.get(link)).status_code == 303
    assert (await served.client.get("/")).status_code == 200


async def test_where_nothing_is_to_be_opened_the_link_is_printed(
    served: Served, short_tmp: Path, opened: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    await open_page(served, short_tmp / "state", opens=False)
    link = capsys.readouterr().out.split()[-1]
    assert opened == []
    assert (await served.client.get(link)).status_code == 303


@pytest.mark.parametrize("answer", [False, webbrowser.Error("there is none")])
async def test_without_a_browser_the_link_is_printed(
    served: Served,
    short_tmp: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    answer: bool | Exception,
) -> None:
    def open_in_browser(_url: str) -> bool:
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr("webbrowser.open", open_in_browser)
    await open_page(served, short_tmp / "state")
    assert f"{served.url}/open?code=" in capsys.readouterr().out


async def test_the_command_sends_the_token_that_is_needed(
    page: Page, short_tmp: Path, opened: list[str]
) -> None:
    with trio.fail_after(30):
        async with serving(page) as served:
            await open_page(served, short_tmp / "state")
            assert len(opened) == 1
            with pytest.raises(click.ClickException, match="the token is not valid"):
                await open_page(served, short_tmp / "state", token="another")


async def test_where_nothing_serves_the_command_serves_the_page_until_ctrl_c(mcpb_home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        port = reserved.getsockname()[1]
    (mcpb_home / "config.toml").write_text(f"[http]\nport = {port}\n")
    command = [sys.executable, "-m", "bridge", "status", "--web", "--no-open"]
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            serving = await nursery.start(
                partial(trio.run_process, command, stdout=subprocess.PIPE, check=False)
            )
            said = ""
            while "/open?code=" not in said:
                said += (await serving.stdout.receive_some()).decode()
            url = f"http://localhost:{port}/"
            assert said.startswith(f"No mcpb serve was running. This command serves {url} until Ctrl-C.\n")
            async with httpx2.AsyncClient() as client:
                assert (await client.get(said.split()[-1])).status_code == 303
            serving.send_signal(signal.SIGINT)
            assert await serving.wait() == 0
    assert find_running(mcpb_home / "state") is None


def test_a_server_that_does_not_answer_is_named(short_tmp: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        url = f"http://localhost:{gone.getsockname()[1]}/"
    record = ServeRecord(pid=os.getpid(), url=url, started_at=0)
    with pytest.raises(click.ClickException) as refused:
        page_command.open_page(record, short_tmp / "state", HttpSettings(), opens=False)
    assert f"mcpb serve (pid {os.getpid()}) does not answer at {url}" in str(refused.value)


@pytest.mark.parametrize("options", [["--web", "--json"], ["--web", "--watch"], ["--no-open"]])
def test_options_that_do_not_go_together_are_refused(options: list[str]) -> None:
    assert CliRunner().invoke(main, ["status", *options]).exit_code == 2


def test_the_page_asks_nobody_else_for_anything() -> None:
    here = Path(__file__).parents[3] / "bridge/frontends/http/status_page"
    for name in ("page.js", "page.css"):
        assert "://" not in (here / name).read_text()
