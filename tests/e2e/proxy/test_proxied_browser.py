"""A browser without a native host, used through `mcpb proxy serve` from another machine.

The clients are the MCP inspector and the mcp package through `mcpb bridge`, which signed in by `mcpb proxy
login`, and a WebSocket client of another author.
"""

from __future__ import annotations

import io
from base64 import b64decode
from collections.abc import Iterator, Mapping
from typing import Any

import mcp_types
import pytest
import trio
from mcp import Client
from PIL import Image

from demo.temporary_directory import throw_away_directory
from full_chain import REQUESTED, Chain, call, until_listed
from proxied_browser import ProxiedBrowser, log_in
from proxy_client import ProxyClient
from socket_observer import hosts
from tool_browser import Tab

INVALID_PARAMS, METHOD_NOT_FOUND = -32602, -32601
NOT_ALLOWED, NOT_YOURS, PAUSED = -32014, -32016, -32019
SESSIONS = [{"id": "session_1", "title": "agent in shop", "client": {"name": "agent", "version": "1"}}]
ROWS = "[...document.querySelectorAll('#clients .row')]"
IN_A_TAB: Mapping[str, Mapping[str, Any]] = {
    **{each: {} for each in ("selectTab", "closeTab", "goBack", "goForward", "screenshot", "activateTab")},
    **{each: {"x": 1, "y": 1} for each in ("click", "hover")},
    "type": {"text": "x"},
    "browser_navigate": {"url": "about:blank"},
    "forwardCDPCommand": {"method": "Runtime.evaluate", "params": {"expression": "1"}},
}
"""Requests that are about a tab, with their other parameters."""
IS_LOADED = "location.search && document.readyState === 'complete'"
"""The document of an address with a query; before it, a new tab has an empty one."""
FORM = """document.body.innerHTML = "<form><input id=name><button id=go>Go</button></form>";
window.seen = [];
document.forms[0].onsubmit = (event) => (event.preventDefault(), seen.push("submitted"));
go.onclick = ({ detail, isTrusted }) => seen.push(isTrusted ? detail : "untrusted");
go.onmouseenter = () => seen.push("entered"); 0"""


# ── Through mcpb bridge, on a machine of its own ────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def agent(machine: ProxiedBrowser) -> Iterator[Chain]:
    """A machine that has signed in by `mcpb proxy login`."""
    with throw_away_directory() as home:
        agent = machine.agent(home)
        machine.thread.run(log_in, agent, machine.proxy.url, machine.proxy.approve)
        yield agent


def named(names: set[str], tool: str) -> str:
    """The public name of a page's tool."""
    (name,) = [each for each in names if each.endswith(f"_{tool}")]
    return name


def test_the_inspector_calls_a_tool_of_a_page_through_a_bridge_with_another_home(
    agent: Chain, proxied: ProxiedBrowser
) -> None:
    with proxied.page("tabserver.html") as page:
        name = agent.name("echo", tab=None)
        result = proxied.thread.run(
            agent.inspect, "tools/call", "--tool-name", name, "--tool-arg", "text=hello"
        )
        assert result["content"] == [{"type": "text", "text": "echo: hello"}]
        assert page.evaluate("window.runs") == 1
    assert hosts(agent) == hosts(proxied.chain) == []


def test_progress_cancellation_and_a_large_result_pass_through_a_bridge(
    agent: Chain, proxied: ProxiedBrowser
) -> None:
    asked: list[str] = []

    async def on_elicitation(_: Any, params: mcp_types.ElicitRequestParams) -> mcp_types.ElicitResult:
        asked.append(params.message)
        return mcp_types.ElicitResult(action="accept", content={"apples": 2})

    bridge = agent.client(elicitation_callback=on_elicitation)
    with proxied.thread.holding(bridge) as client:
        with proxied.page("tabserver.html") as page:
            names = proxied.thread.run(until_listed, client, bool)
            assert proxied.thread.run(progress_of, client, named(names, "slow"), page) == [(1, 2, "half way")]
            proxied.thread.run(cancel, client, named(names, "slow"), page)
            large = proxied.thread.run(large_result, client, named(names, "big"))
            assert large == "x" * 5_000_000
        with proxied.page("requests.html"):
            names = proxied.thread.run(
                until_listed, client, lambda names: any("_order" in each for each in names)
            )
            is_error, text = proxied.thread.run(call, client, named(names, "order"))
        assert (is_error, text) == (False, '{"action":"accept","content":{"apples":2}}')
        assert asked == [f"{proxied.pages} asks: How many?"]


async def progress_of(client: Client, slow: str, page: Tab) -> list[tuple[float, float | None, str | None]]:
    """What a call that reports its progress has reported."""
    seen = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))
        await page.page.evaluate("window.finishSlow()")

    await client.call_tool(slow, progress_callback=on_progress)
    return seen


async def cancel(client: Client, slow: str, page: Tab) -> None:
    """Call a tool, and cancel the call once it runs."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.call_tool, slow)
        await page.page.wait_until("window.runs === 2")
        nursery.cancel_scope.cancel()
    await page.page.wait_until("window.cancelled === 1")


async def large_result(client: Client, big: str) -> str:
    is_error, text = await call(client, big, n=5_000_000)
    assert not is_error
    return text


# ── A client without sessions, which knows no wire of ours ──────────────────────────────────────────────────


@pytest.fixture
def foreign(proxied: ProxiedBrowser) -> Iterator[ProxyClient]:
    with proxied.client(name="foreign") as client:
        yield client


def evaluate(client: ProxyClient, expression: str) -> object:
    params = {"expression": expression, "returnByValue": True}
    evaluated = client.request("forwardCDPCommand", method="Runtime.evaluate", params=params)
    return evaluated["result"].get("value")


def test_the_current_tab_is_meant_where_a_request_names_none(
    proxied: ProxiedBrowser, foreign: ProxyClient
) -> None:
    assert foreign.rejection("goBack")["code"] == INVALID_PARAMS
    begun = len(REQUESTED)
    first = foreign.request("createTab", stealth=True)["tabId"]
    for query in ("?1", "?2"):
        foreign.request("browser_navigate", url=f"{proxied.pages}/plain.html{query}")
    requested = [each for each in REQUESTED[begun:] if "?" in each]
    assert requested == ["/plain.html?1", "/plain.html?2"]
    page = proxied.browser.until_open(f"{proxied.pages}/plain.html?2")
    assert foreign.request("goBack")["url"].endswith("?1")
    page.wait_until("location.search === '?1'")
    assert foreign.request("goForward")["url"].endswith("?2")
    page.wait_until("location.search === '?2'")

    second = foreign.request("createTab", url=f"{proxied.pages}/plain.html?3")["tabId"]
    other = proxied.browser.until_open(f"{proxied.pages}/plain.html?3")
    assert foreign.request("activateTab")["tab"]["tabId"] == second
    other.wait_until("document.visibilityState === 'visible'")
    tabs = [tab["tabId"] for tab in foreign.request("getTabs")["tabs"]]
    assert foreign.request("selectTab", tabIndex=tabs.index(first))["tab"]["tabId"] == first
    assert evaluate(foreign, "window.mark = location.search") == "?2"
    assert page.evaluate("window.mark") == "?2"
    assert foreign.request("selectTab", tabId=second, activate=True)["tab"]["active"]
    foreign.request("closeTab")
    assert other.page.target_id not in [each["targetId"] for each in proxied.browser.targets()]
    assert foreign.rejection("goBack")["code"] == INVALID_PARAMS
    foreign.request("closeTab", tabId=first)


def test_input_reaches_the_page_as_that_of_a_user_and_a_screenshot_has_its_size(
    proxied: ProxiedBrowser, foreign: ProxyClient
) -> None:
    tab_id = foreign.request("createTab", url=f"{proxied.pages}/plain.html?input")["tabId"]
    page = proxied.browser.until_open(f"{proxied.pages}/plain.html?input")
    page.wait_until(IS_LOADED)
    page.evaluate(FORM)
    assert foreign.request("hover", selector="#go") == {}
    assert foreign.request("click", selector="#go") == {}
    assert page.evaluate("window.seen.splice(0)") == ["entered", 1, "submitted"]
    point = page.evaluate("(({ x, y }) => ({ x: x + 5, y: y + 5 }))(go.getBoundingClientRect())")
    foreign.request("click", **point, clickCount=2)
    assert page.evaluate("window.seen.splice(0)") == [1, "submitted", 2, "submitted"]
    foreign.request("type", selector="#name", text="Ada é😀", submit=True)
    assert page.evaluate("document.getElementById('name').value") == "Ada é😀"
    assert "submitted" in page.evaluate("window.seen")

    shot = foreign.request("screenshot", format="jpeg", quality=40)
    with Image.open(io.BytesIO(b64decode(shot["data"]))) as picture:
        assert (picture.format, picture.size) == ("JPEG", (shot["width"], shot["height"]))
    assert shot["mimeType"] == "image/jpeg"
    assert shot["width"] == page.evaluate("innerWidth")
    assert foreign.request("screenshot", fullPage=True)["mimeType"] == "image/png"

    assert foreign.rejection("click", selector="#none")["data"]["handed"]
    for wrong in ({}, {"selector": ":::"}, {"x": "1", "y": 2}, {"x": 1, "y": 1, "button": "fourth"}):
        assert foreign.rejection("click", **wrong)["code"] == INVALID_PARAMS
    foreign.request("closeTab", tabId=tab_id)


def test_devtools_commands_that_no_client_may_send_are_rejected(
    proxied: ProxiedBrowser, foreign: ProxyClient
) -> None:
    tab_id = foreign.request("createTab", url=f"{proxied.pages}/plain.html?devtools")["tabId"]
    proxied.browser.until_open(f"{proxied.pages}/plain.html?devtools").wait_until(IS_LOADED)
    for method in ("Browser.close", "Target.createTarget", "Network.getAllCookies"):
        error = foreign.rejection("forwardCDPCommand", method=method, params={})
        assert (error["code"], error["data"]["handed"]) == (INVALID_PARAMS, False), method
    assert evaluate(foreign, "1 + 1") == 2
    foreign.request("closeTab", tabId=tab_id)


def test_a_client_uses_its_own_tabs_and_handed_over_ones_and_no_others(
    proxied: ProxiedBrowser, foreign: ProxyClient
) -> None:
    with proxied.client(name="another") as another, proxied.page("plain.html?user"):
        theirs = another.request("createTab", url=f"{proxied.pages}/plain.html?theirs")["tabId"]
        tabs = {tab["url"].rpartition("?")[2]: tab for tab in foreign.request("getTabs")["tabs"]}
        users = tabs["user"]["tabId"]
        for tab_id in (theirs, users):
            for method, params in IN_A_TAB.items():
                error = foreign.rejection(method, tabId=tab_id, **params)
                assert (error["code"], error["data"]) == (NOT_YOURS, {"handed": False}), method
        session = another.connection
        assert foreign.rejection("closeTab", tabId=theirs, session=session)["code"] == NOT_YOURS
        assert foreign.rejection("closeTab", tabId=theirs, session="session_1")["code"] == NOT_YOURS
        rejected = foreign.rejection("setOwner", tabId=users, session=foreign.connection)
        assert rejected["code"] == METHOD_NOT_FOUND
        rules = [{"session": session, "deny": ["http://localhost:*"]}]
        assert foreign.rejection("browser/siteRules", sessions=rules)["code"] == NOT_YOURS
        with proxied.popup() as popup:
            popup.tab.evaluate(
                "(globalThis.worker = chrome.runtime.connect({ name: 'mcpb-popup' }),"
                f"worker.postMessage({{ type: 'watch', tabId: {users} }}),"
                "worker.postMessage({ type: 'hand-over', handedOver: true }), 0)"
            )
            proxied.proxy.until(
                lambda: "result" in foreign.response_to(foreign.begin("selectTab", tabId=users))
            )
        assert evaluate(foreign, "location.search") == "?user"
        another.request("closeTab")


def test_the_tabs_of_a_client_that_has_gone_are_released_at_once(proxied: ProxiedBrowser) -> None:
    with proxied.client() as gone:
        tab_id = gone.request("createTab", url=f"{proxied.pages}/plain.html?gone")["tabId"]
        proxied.browser.until_open(f"{proxied.pages}/plain.html?gone").wait_until(IS_LOADED)
        assert evaluate(gone, "1") == 1
        own = [tab for tab in gone.request("getTabs")["tabs"] if tab["tabId"] == tab_id]
        assert own[0]["owner"] == gone.connection
    with proxied.client() as client:

        def owner() -> object:
            return [tab["owner"] for tab in client.request("getTabs")["tabs"] if tab["tabId"] == tab_id]

        proxied.proxy.until(lambda: owner() == [None])


# ── Pauses ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_sites_that_the_user_has_paused_are_paused_for_clients_of_a_proxy(
    proxied: ProxiedBrowser, foreign: ProxyClient
) -> None:
    site = proxied.pages
    with proxied.popup() as popup:
        popup.tab.evaluate(
            "(globalThis.worker = chrome.runtime.connect({ name: 'mcpb-popup' }),"
            f"worker.postMessage({{ type: 'pause-site', origin: {site!r}, paused: true }}), 0)"
        )
        proxied.proxy.until(lambda: foreign.response_to(foreign.begin("createTab", url=site)).get("error"))
        assert foreign.rejection("createTab", url=f"{site}/plain.html")["data"]["site"] == site
        assert foreign.rejection("browser/pause", site=site, paused=False)["code"] == NOT_ALLOWED
        popup.tab.evaluate(
            f"(worker.postMessage({{ type: 'pause-site', origin: {site!r}, paused: false }}), 0)"
        )
        proxied.proxy.until(lambda: "result" in foreign.response_to(foreign.begin("createTab", url=site)))


def test_each_client_has_a_row_in_the_popup_and_is_paused_there(
    proxied: ProxiedBrowser, foreign: ProxyClient
) -> None:
    with proxied.page("tabserver.html"), proxied.popup() as popup, proxied.client(wire=True) as ours:
        ours.send(method="bridge/sessions", params={"sessions": SESSIONS})
        names = f"{ROWS}.map((row) => row.querySelector('h3').textContent).sort().join()"
        popup.wait_until(f"{names} === 'agent in shop,foreign'")
        facts = popup.tab.evaluate(f"{ROWS}.map((row) => row.querySelector('p').textContent)")
        assert all(f"through localhost:{proxied.proxy.port}" in each for each in facts)

        row = f"{ROWS}.find((row) => row.textContent.includes('foreign'))"
        popup.tab.evaluate(f"{row}.querySelector('button').click()")
        popup.wait_until(f"{row}.textContent.includes('paused')")
        assert foreign.rejection("createTab")["code"] == PAUSED
        error = foreign.rejection("browser/pause", session=foreign.connection, paused=False)
        assert error["data"] == {"handed": False}
        assert created_by(ours)
        popup.tab.evaluate(f"{row}.querySelector('button').click()")
        popup.wait_until(f"!{row}.textContent.includes('paused')")
        assert created_by(foreign)


def created_by(client: ProxyClient) -> int:
    """Have a client open a tab, and close it again."""
    tab_id = int(client.request("createTab")["tabId"])
    client.request("closeTab", tabId=tab_id)
    return tab_id
