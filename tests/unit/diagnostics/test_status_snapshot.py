"""What `mcpb status` shows of a hub, as data and as text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bridge.cli.columns import Columns, cut_text, display_width
from bridge.cli.status_output import as_text
from bridge.config.remote_settings import RemoteSettings
from bridge.diagnostics.connection_problem import find_connection_problem
from bridge.diagnostics.remote_status import describe_remote
from bridge.diagnostics.status_snapshot import LocalState, Rules, find_tools, make_status
from bridge.hub.client_session import ListForm
from bridge.hub.consent.page_tool_settings import PageSettings, PageSite
from bridge.hub.policy import Policy, PolicyRules, ToolRule
from bridge.hub.providers import NoProvider
from bridge.hub.router import Router, Terms
from bridge.hub.tool_schema import Era
from bridge.state.remote_records import BridgeRecord, RemoteRecord
from fake_transport import PlayedTransport, browser_hello, one_page, tab, tools
from install.checks.existing_channel import Channel
from native_host.protocol import wire
from native_host.system.problem import Problem
from page_resources import CART, SHOP, page

GOLDEN = Path(__file__).parents[2] / "data/output"
GET_CART = "website_tool_shop_example_tab1_getCart"
CLAUDE = wire.Session(
    id="5e551011", title="Claude Code", client=wire.ClientInfo(name="claude-code", version="2.1")
)
CALL: Mapping[str, Any] = {
    "at": "2026-11-21T12:00:00.250Z",
    "event": "call",
    "client": {"name": "Claude Code"},
    "origin": "https://shop.example",
    "tab": 1,
    "tool": "getCart",
    "outcome": "timed_out",
    "detail": "10 s have passed",
    "handed": True,
    "ms": 10_000.4,
}


class NoProblems:
    problems: Mapping[str, Any] = {}


REMOTE_SERVERS = [
    RemoteSettings(name="orders", url="https://orders.example/mcp"),
    RemoteSettings(name="notes", command="npx"),
    RemoteSettings(name="prices", url="https://prices.example/mcp"),
    RemoteSettings(name="archive", url="https://archive.example/mcp", enabled=False),
]
REMOTE_RECORDS = (
    RemoteRecord(
        name="orders",
        state="ready",
        revision="2026-07-28",
        transport="streamable-http",
        tools=3,
        prompts=1,
        left_out=1,
        synced_at=1795232023.4,
    ),
    RemoteRecord(
        name="notes", state="unreachable", cause="command", error="its process exited with status 1"
    ),
)


@pytest.fixture
def transport() -> PlayedTransport:
    return PlayedTransport()


@pytest.fixture
def router(transport: PlayedTransport) -> Router:
    return Router(transport)


def client(*sessions: wire.Session, pid: int = 4711) -> wire.Client:
    return wire.Client(connection=f"c-{pid}", pid=pid, version="0.2.0", sessions=list(sessions))


def found(router: Router, *calls: Mapping[str, Any]) -> dict[str, Any]:
    data = make_status(router, NoProblems(), LocalState(calls))
    json.dumps(data)
    return data


def text(router: Router, *calls: Mapping[str, Any], width: int = 0) -> list[str]:
    return list(as_text(found(router, *calls), width))


async def test_a_tab_has_its_number_its_tools_and_what_stands_out_about_it(
    router: Router, transport: PlayedTransport
) -> None:
    transport.connect(
        "h1",
        wire.Tabs(tabs=[tab(1, title="Shop", active=True, focused=True, owner=CLAUDE.id), tab(2, ordinal=2)]),
        tools(1, "getCart"),
        wire.Paused(sites=["https://shop.example"]),
        wire.HostClients(clients=[client(CLAUDE)]),
    )
    (shown,) = found(router)["browsers"][0]["tabs"]
    assert shown == {
        "origin": "https://shop.example",
        "tab": 1,
        "tabId": 1,
        "title": "Shop",
        "active": True,
        "owner": {"session": CLAUDE.id, "title": "Claude Code"},
        "handedOver": False,
        "paused": True,
        "pausedBy": "https://shop.example",
        "tools": [GET_CART],
        "resources": 0,
        "templates": 0,
        "prompts": 0,
        "notices": [],
        "servers": [],
    }
    lines = text(router)
    shown = lines.index("  https://shop.example · tab 1  “Shop” • Active • of Claude Code • paused")
    assert lines[shown + 1] == f"    {GET_CART}"


async def test_what_the_policy_hides_is_counted_and_the_rule_named(transport: PlayedTransport) -> None:
    rules = PolicyRules(tools=(ToolRule(name="p*", allow=False),))
    router = Router(transport, terms=Terms(policy=Policy(rules)))
    transport.connect("h1", *one_page("getCart", "pay", "pledge"))
    ((shop,),) = (browser["tabs"] for browser in found(router)["browsers"])
    assert shop["tools"] == [GET_CART]
    assert shop["notices"] == [
        '2 tools are not offered, by config.toml: policy.tools[0] (origin "*", name "p*") forbids pay'
    ]


async def test_tabs_without_tools_are_shown_when_a_client_may_use_them(
    router: Router, transport: PlayedTransport
) -> None:
    transport.connect(
        "h1",
        wire.Tabs(
            tabs=[
                tab(1, ordinal=1),
                tab(2, ordinal=2, handed_over=True),
                tab(3, ordinal=3, owner="gone-by-now"),
                tab(4, ordinal=4, handed_over=True, incognito=True),
            ]
        ),
    )
    shown = found(router)["browsers"][0]["tabs"]
    assert [tab["tab"] for tab in shown] == [2, 3]
    assert shown[1]["owner"]["title"] == "session gone-by-"


async def test_clients_are_named_with_version_process_session_and_whether_they_are_paused(
    router: Router, transport: PlayedTransport
) -> None:
    transport.connect("h1", *one_page("getCart"), wire.Paused(sessions=[CLAUDE.id]))
    transport.announce("h1", wire.HostClients(clients=[client(CLAUDE)]))
    browser = found(router)["browsers"][0]
    assert browser["clients"] == ["Claude Code"]
    assert browser["sessions"] == [
        {
            "id": CLAUDE.id,
            "title": "Claude Code",
            "version": "2.1",
            "pid": 4711,
            "paused": True,
            "subscriptions": [],
        }
    ]
    assert "    Claude Code 2.1  pid 4711  session 5e551011  paused" in text(router)


async def test_a_connection_that_names_no_session_is_no_client(
    router: Router, transport: PlayedTransport
) -> None:
    """`mcpb status` is one itself."""
    transport.connect("h1", *one_page("getCart"), wire.HostClients(clients=[client()]))
    assert found(router)["browsers"][0]["sessions"] == []
    assert "  clients: none" in text(router)


# ── Resources, prompts, subscriptions, requests of pages ────────────────────────────────────────────────────


ORDER = {"uriTemplate": "order://{id}", "name": "Order"}
PAY = {"name": "pay"}


def count(site: Mapping[str, Any]) -> tuple[int, ...]:
    return tuple(site[kind] for kind in ("tools", "resources", "templates", "prompts"))


async def test_entries_of_each_kind_are_counted_by_tab_and_by_site(
    router: Router, transport: PlayedTransport
) -> None:
    framed = page(2, CART, origin="https://pay.example", frame_id=3)
    transport.connect("h1", wire.Tabs(tabs=[tab(1), tab(2, ordinal=2)]), page(1, CART, ORDER, PAY))
    transport.announce("h1", page(2, CART), framed, tools(1, "getCart", frame_id=9))
    status = found(router)
    first, second = status["browsers"][0]["tabs"]
    assert (len(first["tools"]), *count({**first, "tools": 0})) == (1, 0, 1, 1, 1)
    assert (second["tools"], second["resources"]) == ([], 2)
    assert {site["origin"]: count(site) for site in status["sites"]} == {
        "https://pay.example": (0, 1, 0, 0),
        "https://shop.example": (1, 2, 1, 1),
    }
    assert "  https://shop.example  1 tool, 2 resources, 1 template, 1 prompt" in text(router)


@pytest.mark.parametrize(
    ("terms", "counts"),
    [
        (Terms(pages=PageSettings(resources="off")), [(0, 0, 0, 1)]),
        (Terms(pages=PageSettings(prompts="off")), [(0, 1, 1, 0)]),
        (Terms(policy=Policy(PolicyRules(deny=("shop.example",)))), []),
    ],
)
async def test_what_clients_may_not_use_is_not_counted(
    transport: PlayedTransport, terms: Terms, counts: list[tuple[int, ...]]
) -> None:
    router = Router(transport, terms=terms)
    transport.connect("h1", wire.Tabs(tabs=[tab(1)]), page(1, CART, ORDER, PAY))
    assert [count(site) for site in found(router)["sites"]] == counts


@pytest.mark.parametrize("pages", [{"tools": "off"}, {"sites": (PageSite(origin=SHOP, tools="off"),)}])
async def test_tools_that_are_off_are_not_counted_and_the_tab_says_why(
    transport: PlayedTransport, pages: dict[str, Any]
) -> None:
    router = Router(transport, terms=Terms(pages=PageSettings(**pages)))
    transport.connect("h1", *one_page("getCart"))
    status = found(router)
    (shown,) = status["browsers"][0]["tabs"]
    assert (status["sites"], shown["tools"]) == ([], [])
    reason = f"page tools of {SHOP} are off, by [pages] in config.toml or in the extension's popup"
    assert shown["notices"] == [f"1 tool is not offered: {reason}"]
    assert find_tools(router, "", 10) == ({}, 0)


async def test_subscriptions_stand_below_their_client(router: Router, transport: PlayedTransport) -> None:
    session = msgspec.structs.replace(CLAUDE, subscriptions=["cart://1", "a\nb\x1b[2J"])
    transport.connect("h1", wire.Tabs(tabs=[]), wire.HostClients(clients=[client(session)]))
    assert found(router)["browsers"][0]["sessions"][0]["subscriptions"] == ["cart://1", "a b [2J"]
    lines = text(router)
    shown = lines.index("    Claude Code 2.1  pid 4711  session 5e551011")
    assert lines[shown + 1 : shown + 3] == ["      subscribed to cart://1", "      subscribed to a b [2J"]


async def test_requests_of_pages_have_a_section_of_their_own(router: Router) -> None:
    request = {**CALL, "kind": "sampling", "tool": "", "name": "sampling/createMessage", "outcome": "ok"}
    status = make_status(router, NoProblems(), LocalState(page_requests=[request]))
    assert (status["calls"], status["pageRequests"]) == ([], [request])
    heading, line = list(as_text(status))[-2:]
    assert heading == "Requests of pages and servers"
    assert "sampling sampling/createMessage  https://shop.example tab 1  ok" in line


async def test_paused_sites_are_named_also_when_no_tab_of_theirs_is_open(
    router: Router, transport: PlayedTransport
) -> None:
    transport.connect("h1", *one_page("getCart"), wire.Paused(sites=["https://bank.example"]))
    assert "  paused: https://bank.example" in text(router)


async def test_recent_calls_say_who_what_where_and_what_came_of_it(router: Router) -> None:
    assert found(router, CALL)["calls"] == [CALL]
    line = text(router, CALL)[-1]
    assert line.endswith(
        "  Claude Code  getCart  https://shop.example tab 1  timed_out  10000 ms  "
        "10 s have passed; it may have run"
    )


async def test_no_text_of_a_page_or_a_client_reaches_beyond_its_line(
    router: Router, transport: PlayedTransport
) -> None:
    evil = "a\nb\x1b[2J\u202ec"
    session = wire.Session(id=evil, title=evil, client=wire.ClientInfo(name=evil, version=evil))
    transport.connect(
        "h1",
        wire.Tabs(tabs=[tab(1, title=evil, owner=evil)]),
        tools(1, "getCart"),
        wire.HostClients(clients=[client(session)]),
        wire.Paused(sites=[f"https://{evil}"]),
    )
    call = {"at": evil, "event": evil, "client": {"name": evil}, "tool": evil, "detail": evil, "tab": evil}
    assert all(line.isprintable() for line in text(router, call))


async def test_where_the_extension_is_kept_out_of_sites_that_is_what_is_missing(
    router: Router, transport: PlayedTransport
) -> None:
    transport.connect("h1", wire.Tabs(tabs=[tab(1)]))
    assert "Open a page that does" in find_connection_problem(router.registry, NoProblems())
    transport.announce("h1", msgspec.structs.replace(browser_hello(), sites_allowed=False))
    assert "kept out of some or all sites" in find_connection_problem(router.registry, NoProblems())


@pytest.mark.parametrize(
    "call",
    [
        {"at": "", "event": "registered", "tools": {}, "count": []},
        {"at": "9999-12-31T23:59:59Z", "event": "call", "client": 5, "ms": 10**400, "tab": {}},
        {"at": "x", "event": "call", "ms": "soon", "handed": "yes"},
    ],
)
async def test_a_line_that_somebody_wrote_into_the_log_does_no_harm(
    router: Router, call: dict[str, Any]
) -> None:
    assert len(text(router, call)) > 3


async def test_lines_with_titles_fit_the_terminal(router: Router, transport: PlayedTransport) -> None:
    transport.connect("h1", wire.Tabs(tabs=[tab(1, title="買い物かご" * 12)]), tools(1, "getCart"))
    assert max(map(display_width, text(router, CALL, width=70)[4:8])) <= 70


# ── The verdict ─────────────────────────────────────────────────────────────────────────────────────────────


class WithTools(NoProvider):
    """Offers one browser tool."""

    def definitions(self, era: Era, form: ListForm) -> list[dict[str, Any]]:  # noqa: ARG002
        return [{"name": "navigate"}]


@pytest.fixture
def with_tools(router: Router) -> Router:
    router.set_provider(WithTools())
    return router


async def test_a_browser_without_page_tools_is_ready_because_its_own_tools_are(
    with_tools: Router, transport: PlayedTransport
) -> None:
    transport.connect("h1", wire.Tabs(tabs=[tab(1)]), tools(1))
    status = found(with_tools)
    assert (status["ready"], status["obstacle"], status["missing"], status["browserTools"]) == (
        True,
        "",
        "",
        1,
    )
    assert text(with_tools)[0] == "Ready: Chromium 156, browser tools on, no page tools open."


async def test_without_browser_tools_a_page_has_to_offer_some(
    router: Router, transport: PlayedTransport
) -> None:
    transport.connect("h1", wire.Tabs(tabs=[tab(1)]), tools(1))
    assert not found(router)["ready"]
    transport.announce("h1", tools(1, "getCart"))
    assert text(router)[0] == "Ready: Chromium 156, browser tools off, 1 page tool."


async def test_without_a_browser_the_verdict_is_what_is_missing(transport: PlayedTransport) -> None:
    problem = Problem("Chromium is not running. Start it.")
    router = Router(transport, lambda _: problem)
    assert (found(router)["ready"], found(router)["obstacle"]) == (False, problem)
    assert text(router)[:2] == ["Not ready: Chromium is not running. Start it.", "Details: mcpb doctor"]


async def test_a_broken_configuration_is_an_obstacle_although_a_browser_is_connected(
    with_tools: Router, transport: PlayedTransport
) -> None:
    transport.connect("h1", *one_page("getCart"))
    local = LocalState(rules=Rules("", "config.toml:3: max_nme is no key"))
    status = make_status(with_tools, NoProblems(), local)
    assert not status["ready"]
    assert status["obstacle"] == status["problems"][0]
    assert next(as_text(status)).startswith("Not ready: config.toml:3: max_nme is no key. Clients")
    assert "problem: " not in "\n".join(as_text(status))


CLOSED = Problem("Chromium is not set up. Run: mcpb extension", "mcpb extension")
ORDERS, LOST = REMOTE_RECORDS


def with_remote(router: Router, *records: RemoteRecord) -> dict[str, Any]:
    """Return the status beside a running client that has these servers; without one, no client runs."""
    bridges = [BridgeRecord(7, records)] if records else []
    return make_status(
        router, NoProblems(), LocalState(remote=list(describe_remote(REMOTE_SERVERS, bridges)))
    )


async def test_a_remote_server_makes_clients_ready_and_what_browsers_lack_follows(
    transport: PlayedTransport,
) -> None:
    status = with_remote(Router(transport, lambda _: CLOSED), ORDERS, LOST)
    assert (status["ready"], status["obstacle"], status["missing"]) == (True, "", CLOSED)
    assert status["verdict"].commands == ("mcpb extension",)
    assert list(as_text(status))[:2] == [
        f"Ready: 1 of 3 remote servers (3 tools, 1 prompt). Browser not ready: {CLOSED}",
        "",
    ]


@pytest.mark.parametrize(
    ("records", "remote"),
    [
        ((), "no running client uses a remote server (to test them, run: mcpb remote test)"),
        ((LOST,), "no remote server is connected (to find out why, run: mcpb remote test)"),
    ],
)
async def test_remote_servers_that_no_client_is_connected_to_do_not_make_clients_ready(
    transport: PlayedTransport, records: tuple[RemoteRecord, ...], remote: str
) -> None:
    status = with_remote(Router(transport, lambda _: CLOSED), *records)
    assert not status["ready"]
    assert status["obstacle"] == f"{remote}. Browser not ready: {CLOSED}"
    assert status["obstacle"].commands == ("mcpb remote test", "mcpb extension")
    assert list(as_text(status))[:2] == [f"Not ready: {status['obstacle']}", "Details: mcpb doctor"]


async def test_beside_a_browser_that_works_remote_servers_are_counted(
    with_tools: Router, transport: PlayedTransport
) -> None:
    transport.connect("h1", wire.Tabs(tabs=[tab(1)]), tools(1))
    browser = "Ready: Chromium 156, browser tools on, no page tools open"
    assert with_remote(with_tools)["verdict"] == f"{browser}."
    assert with_remote(with_tools, LOST)["verdict"] == f"{browser}, 0 of 3 remote servers."


async def test_with_a_remote_server_a_browser_without_tools_is_no_obstacle(
    router: Router, transport: PlayedTransport
) -> None:
    transport.connect("h1", wire.Tabs(tabs=[tab(1)]), tools(1))
    status = with_remote(router, ORDERS)
    assert status["ready"]
    assert "Browser not ready: the browser tools are switched off in config.toml" in status["verdict"]


async def test_what_limits_a_browser_is_noted_with_the_codes_of_the_doctor(
    with_tools: Router, transport: PlayedTransport
) -> None:
    old = msgspec.structs.replace(
        browser_hello(), extension=wire.ExtensionInfo(id=wire.EXTENSION_ID, version="0.0.9")
    )
    before = tab(2, "https://bank.example", title="Bank", status="complete")
    transport.connect(
        "h1",
        old,
        wire.Tabs(tabs=[tab(1), before, tab(3, "https://down.example", error_page=True)]),
        tools(1, "getCart"),
        wire.Paused(sites=["shop.example"], sessions=[CLAUDE.id, "gone"]),
        wire.HostClients(clients=[client(CLAUDE)]),
    )
    status = found(with_tools)
    assert status["ready"]
    assert [(note["code"], note["command"]) for note in status["notes"]] == [
        ("extension-old", "mcpb extension"),
        ("tab-needs-reload", ""),
        ("paused", "mcpb pause shop.example --resume"),
        ("paused", f"mcpb pause {CLAUDE.id} --resume"),
    ]
    assert "1 tab: “Bank” (https://bank.example)" in status["notes"][1]["text"]


EXPOSED = "other machines can reach it, and nothing is encrypted"


async def test_a_server_is_shown_with_its_clients_and_whether_it_needs_a_token(
    router: Router, transport: PlayedTransport
) -> None:
    transport.connect("h1", *one_page("getCart"), wire.HostClients(clients=[client(CLAUDE, pid=7)]))
    server = {
        "pid": 7,
        "url": "http://localhost:3456/",
        "auth": "token",
        "is_exposed": False,
        "startedAt": 1.0,
    }
    others = [{**server, "auth": "same-user"}, {**server, "is_exposed": True}]
    status = make_status(router, NoProblems(), LocalState(servers=[server, *others]))
    assert status["servers"][0] == {
        "pid": 7,
        "url": "http://localhost:3456/",
        "auth": "token",
        "exposed": False,
        "clients": 1,
    }
    assert [line for line in as_text(status) if line.startswith("mcpb serve")] == [
        "mcpb serve  http://localhost:3456/ · pid 7 · 1 client · needs a token",
        'mcpb serve  http://localhost:3456/ · pid 7 · 1 client · no token needed (auth = "same-user")',
        f"mcpb serve  http://localhost:3456/ · pid 7 · 1 client · needs a token · {EXPOSED}",
    ]


async def test_details_have_ids_versions_capabilities_page_servers_and_counts_of_dropped_messages(
    router: Router, transport: PlayedTransport
) -> None:
    about = {"server_info": {"name": "Shop", "version": "2"}, "capabilities": {"tools": {}, "prompts": {}}}
    trouble = wire.Trouble(attempts=3, reason="Native host has exited.", at=1795232023444)
    exits = wire.HostExits(count=2, reason="Native host has exited.", at=1795232023444)
    transport.connect(
        "h1",
        msgspec.structs.replace(browser_hello(), trouble=trouble, exits=exits),
        wire.Tabs(tabs=[tab(1)]),
        msgspec.structs.replace(tools(1, "getCart"), **about),
        wire.HostClients(clients=[], dropped={"late-response": 2}),
    )
    browser = found(router)["browsers"][0]
    assert browser["dropped"] == {"late-response": 2}
    assert browser["trouble"] == {
        "attempts": 3,
        "reason": "Native host has exited.",
        "at": "2026-11-21T03:33:43.444Z",
    }
    assert browser["exits"] == {
        "count": 2,
        "reason": "Native host has exited.",
        "at": "2026-11-21T03:33:43.444Z",
    }
    assert browser["tabs"][0]["servers"] == [
        {"name": "Shop", "version": "2", "capabilities": ["tools", "prompts"]}
    ]
    short, detailed = "\n".join(text(router)), "\n".join(as_text(found(router), is_detailed=True))
    for detail in ("profile p1", "(h1)", "  can: ", "page server Shop 2: tools, prompts", "late-response 2"):
        assert detail in detailed
        assert detail not in short


async def test_the_text_has_the_wording_of_its_golden_file(
    with_tools: Router, transport: PlayedTransport
) -> None:
    """All other assertions are about codes and values."""
    transport.connect(
        "h1",
        wire.Tabs(tabs=[tab(1, title="Shop", active=True, focused=True, owner=CLAUDE.id), tab(2, ordinal=2)]),
        tools(1, "getCart"),
        tools(2),
        wire.Paused(sites=["bank.example"]),
        wire.HostClients(clients=[client(CLAUDE)]),
    )
    server = {"pid": 7, "url": "http://localhost:3456/", "auth": "token", "is_exposed": False}
    remote = describe_remote(REMOTE_SERVERS, [BridgeRecord(7, REMOTE_RECORDS), BridgeRecord(8, ())])
    status = make_status(with_tools, NoProblems(), LocalState(servers=[server], remote=list(remote)))
    assert "\n".join([*as_text(status), ""]) == (GOLDEN / "status.txt").read_text()


# ── Another product's channel ───────────────────────────────────────────────────────────────────────────────


HELD = Channel(
    title="Claude in Chrome, through its own host (pid 7)",
    use="used by mcpb (pid 1)",
    path="/tmp/claude-mcp-browser-bridge-ada/7.sock",
    pid=7,
    program="/opt/claude",
    holder=1,
)


def with_channel(router: Router, channel: Channel) -> dict[str, Any]:
    return make_status(router, NoProblems(), LocalState(channels=[msgspec.to_builtins(channel)]))


async def test_a_channel_is_shown_with_whose_it_is_and_whether_it_is_used(router: Router) -> None:
    unused = msgspec.structs.replace(
        HELD, holder=0, use="not used: `--existing-channel` would", connections=1
    )
    found = with_channel(router, unused)
    assert found["channels"][0]["path"] == HELD.path
    assert list(as_text(found))[-2:] == [
        "Claude in Chrome, through its own host (pid 7): not used: `--existing-channel` would",
        "  /tmp/claude-mcp-browser-bridge-ada/7.sock, program /opt/claude, 1 connection",
    ]


async def test_the_process_that_holds_a_channel_is_no_browser_and_its_clients_are_the_channel_s(
    router: Router, transport: PlayedTransport
) -> None:
    transport.connect("h1", wire.Tabs(tabs=[]), wire.HostClients(clients=[client(CLAUDE)]))
    assert len(found(router)["browsers"]) == 1
    held = with_channel(router, HELD)
    assert held["browsers"] == []
    assert [session["title"] for session in held["channels"][0]["sessions"]] == ["Claude Code"]
    assert "    Claude Code 2.1  pid 4711  session 5e551011" in list(as_text(held))


async def test_who_only_looks_is_told_that_only_the_channel_is_there_which_a_bridge_uses(
    router: Router,
) -> None:
    """A command is not linked to the process that holds it, where the configuration does not say so."""
    held = with_channel(router, HELD)
    assert held["missing"].startswith("Only the extension of Claude in Chrome is connected")
    assert "mcpb extension" in held["missing"]


async def test_what_helps_is_not_said_again_below_what_is_missing_where_a_channel_says_it(
    transport: PlayedTransport,
) -> None:
    router = Router(transport, lambda _: Problem("No browser is connected.\nTo use it: do this."))
    assert "To use it" in found(router)["missing"]
    assert (
        with_channel(router, msgspec.structs.replace(HELD, holder=0))["missing"] == "No browser is connected."
    )


async def test_sockets_of_ours_are_shown_with_their_server(router: Router) -> None:
    ours = {"path": "/tmp/theirs/7.sock", "pid": 7, "isLeft": False}
    shown = make_status(router, NoProblems(), LocalState(published=[ours, {**ours, "isLeft": True}]))
    assert list(as_text(shown))[-2:] == [
        f"Socket for programs made for Claude in Chrome: /tmp/theirs/7.sock ({by})"
        for by in ("mcpb serve, pid 7", "left by a killed mcpb serve; the next one removes it")
    ]


async def test_an_extension_of_another_product_is_not_told_as_a_version_of_ours(
    router: Router, transport: PlayedTransport
) -> None:
    theirs = wire.Capabilities(tools=[msgspec.Raw(b'{"name":"navigate"}')])
    brand = wire.BrowserInfo(brand="Claude in Chrome", version="")
    transport.connect("h1", msgspec.structs.replace(browser_hello(), browser=brand, capabilities=theirs))
    assert "  Claude in Chrome" in text(router)
    assert "extension" not in "\n".join(text(router)[1:])


async def test_what_helps_of_a_channel_is_said_below_what_is_missing(router: Router) -> None:
    missing = find_connection_problem(router.registry, NoProblems(), lambda: "", lambda: "There is one.")
    assert missing.splitlines()[1:] == ["There is one."]
    assert "No browser is connected" in missing
    text = list(as_text({**found(router), "missing": missing}))
    assert all(line.isprintable() for line in text)


async def test_where_a_browser_is_connected_nothing_is_said_of_a_channel(
    router: Router, transport: PlayedTransport
) -> None:
    transport.connect("h1", wire.Tabs(tabs=[tab(1)]))
    missing = find_connection_problem(router.registry, NoProblems(), channel=lambda: "There is one.")
    assert "There is one." not in missing


# ── Columns ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_columns_are_as_wide_as_their_widest_cell_and_empty_ones_take_no_room() -> None:
    rows = [("a", "", "1", "end"), ("long", "", "22", "")]
    assert Columns([10, 10, 10]).format_lines(rows) == ["a     1   end", "long  22"]


def test_columns_keep_their_width_for_rows_that_come_later() -> None:
    columns = Columns([10])
    lines = columns.format_lines([("long", "x")]) + columns.format_lines([("a", "y")])
    assert lines == ["long  x", "a     y"]


def test_a_cell_beyond_its_limit_is_cut_and_the_last_one_at_the_end_of_the_line() -> None:
    assert Columns([5], line_width=24).format_lines([("abcdefgh", "x" * 30)]) == ["abcd…  " + "x" * 16 + "…"]


@pytest.mark.parametrize(
    ("text", "width", "expected"),
    [("abc", 3, "abc"), ("abcd", 3, "ab…"), ("買い物", 6, "買い物"), ("買い物", 5, "買い…"), ("", 0, "")],
)
def test_texts_are_cut_by_the_places_they_take(text: str, width: int, expected: str) -> None:
    assert cut_text(text, width) == expected
