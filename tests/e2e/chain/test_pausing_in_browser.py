"""The person pauses sites and clients, and hands tabs over: in the popup, or by the command's request."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import trio

from demo.chromium import Chromium, Page
from full_chain import Chain
from native_host.protocol.wire import EXTENSION_ID, Code
from socket_observer import Onlooker, onlooking, restart_worker

pytestmark = pytest.mark.one_browser


@pytest.fixture
async def client(chain: Chain, browser: Chromium) -> AsyncIterator[Onlooker]:
    with trio.fail_after(120):
        async with onlooking(chain) as client:
            yield client


CLIENT = "this client (session s1)"


def paused(client: Onlooker) -> tuple[list[str], list[str]]:
    return client.paused["sites"], client.paused["sessions"]


def assert_paused(error: dict[str, Any], who: str) -> None:
    assert error["code"] == Code.PAUSED
    assert error["data"] == ({"handed": False, "site": who} if "//" in who else {"handed": False})
    assert error["message"].startswith(f"The user paused {who}")


async def test_a_paused_site_s_tools_are_not_run_until_it_is_resumed(
    chain: Chain, browser: Chromium, client: Onlooker
) -> None:
    tab = await chain.open(browser, "tabserver.html")
    frame = await client.until_offered("echo")
    assert await client.request("browser/pause", site=chain.pages, paused=True) == {}
    assert paused(client) == ([chain.pages], [])
    assert_paused(await client.call(frame, "echo", text="hi"), chain.pages)
    assert await tab.evaluate("window.runs") == 0

    assert await client.request("browser/pause", site=chain.pages, paused=False) == {}
    assert paused(client) == ([], [])
    assert await client.call(frame, "echo", text="hi") == "echo: hi"


async def test_another_site_goes_on_while_one_is_paused(
    chain: Chain, browser: Chromium, client: Onlooker
) -> None:
    other = chain.pages.replace("localhost", "127.0.0.1")
    await browser.open_page(f"{other}/tabserver.html")
    frame = await client.until_offered("echo")
    await client.request("browser/pause", site=chain.pages, paused=True)
    assert await client.call(frame, "echo", text="on") == "echo: on"


@pytest.mark.parametrize("dot", ["", "."], ids=["a name", "a name with a dot"])
async def test_a_dot_behind_the_host_does_not_lead_around_a_pause(
    chain: Chain, browser: Chromium, client: Onlooker, dot: str
) -> None:
    """To the browser `localhost.` is another origin, so that a page can choose which of them it is."""
    dotted = chain.pages.replace("localhost", "localhost.")
    await browser.open_page(f"{dotted}/tabserver.html")
    frame = await client.until_offered("echo")
    assert frame["origin"] == dotted
    site = chain.pages.replace("localhost", f"localhost{dot}")
    await client.request("browser/pause", site=site, paused=True)
    assert client.paused["sites"] == [chain.pages]
    assert_paused(await client.call(frame, "echo", text="hi"), chain.pages)
    assert_paused(await client.request("createTab", url=f"{dotted}/plain.html"), chain.pages)
    await client.request("browser/pause", site=site, paused=False)
    assert await client.call(frame, "echo", text="hi") == "echo: hi"


async def test_a_host_pauses_each_of_its_origins(chain: Chain, browser: Chromium, client: Onlooker) -> None:
    await chain.open(browser, "tabserver.html")
    frame = await client.until_offered("echo")
    await client.request("browser/pause", site="localhost", paused=True)
    assert client.paused["sites"] == ["localhost"]
    refused = await client.call(frame, "echo", text="hi")
    assert refused["data"] == {"handed": False, "site": "localhost"}
    await client.request("browser/pause", site="localhost", paused=False)
    assert await client.call(frame, "echo", text="hi") == "echo: hi"


async def test_of_two_changes_of_one_pause_the_later_one_stays(client: Onlooker) -> None:
    site = "https://bank.example"
    await client.request("browser/pause", site=site, paused=True)
    (change,) = [each for each in client.paused["changes"] if each.get("site") == site]
    await client.request("browser/pause", site=site, paused=False, at=change["at"] - 1)
    await client.request("browser/pause", site=site, paused=False, at=change["at"])
    assert client.paused["sites"] == [site]
    await client.request("browser/pause", site=site, paused=False, at=change["at"] + 1)
    await client.request("browser/pause", site=site, paused=True, at=change["at"])
    assert client.paused["sites"] == []
    (change,) = [each for each in client.paused["changes"] if each.get("site") == site]
    assert change == {"site": site, "paused": False, "at": change["at"]}


SANDBOXED = """document.body.append(Object.assign(document.createElement("iframe"),
    { sandbox: "allow-scripts", %s })); 0"""


async def test_a_paused_site_s_tools_are_not_run_in_a_sandboxed_iframe_either(
    chain: Chain, browser: Chromium, client: Onlooker
) -> None:
    elsewhere = chain.pages.replace("localhost", "127.0.0.1")
    tab = await browser.open_page(f"{elsewhere}/plain.html")
    await tab.evaluate(SANDBOXED % f"src: '{chain.pages}/tabserver.html'")
    frame = await client.until_offered("echo")
    assert frame["origin"] == "null"
    await client.request("browser/pause", site=chain.pages, paused=True)
    assert_paused(await client.call(frame, "echo", text="hi"), chain.pages)
    await client.request("browser/pause", site=chain.pages, paused=False)
    assert await client.call(frame, "echo", text="hi") == "echo: hi"


@pytest.mark.parametrize("frame", ["of another site", "without a site"])
async def test_whatever_is_in_a_tab_of_a_paused_site_is_paused_with_it(
    chain: Chain, browser: Chromium, client: Onlooker, frame: str
) -> None:
    elsewhere = chain.pages.replace("localhost", "127.0.0.1")
    scripts = "".join(f'<script src="{elsewhere}/{name}.js"></script>' for name in ("tools", "tabserver"))
    server = "<script>startServer(new Map(Object.entries(tools)))</script>"
    attributes = {
        "of another site": f"src: '{elsewhere}/tabserver.html'",
        "without a site": f"srcdoc: {json.dumps(scripts + server)}",
    }
    tab = await chain.open(browser, "plain.html")
    await tab.evaluate(SANDBOXED % attributes[frame])
    offered = await client.until_offered("echo")
    await client.request("browser/pause", site=chain.pages, paused=True)
    assert_paused(await client.call(offered, "echo", text="hi"), chain.pages)


async def test_no_tab_is_led_to_a_paused_site(chain: Chain, client: Onlooker) -> None:
    created = await client.request("createTab", session="s1", url="about:blank")
    await client.request("browser/pause", site=chain.pages, paused=True)
    url = f"{chain.pages}/plain.html"
    assert_paused(await client.request("createTab", url=url), chain.pages)
    navigated = await client.request("browser_navigate", session="s1", tabId=created["tabId"], url=url)
    assert_paused(navigated, chain.pages)
    assert not [tab for tab in client.tabs.values() if tab["origin"] == chain.pages]


async def test_whatever_a_paused_session_asks_is_refused_except_to_resume_it(
    chain: Chain, browser: Chromium, client: Onlooker
) -> None:
    await chain.open(browser, "tabserver.html")
    frame = await client.until_offered("echo")
    await client.request("browser/pause", session="s1", paused=True)
    assert paused(client) == ([], ["s1"])
    assert_paused(await client.call(frame, "echo", session="s1", text="hi"), CLIENT)
    assert_paused(await client.request("getTabs", session="s1"), CLIENT)
    assert await client.call(frame, "echo", session="s2", text="hi") == "echo: hi"
    assert await client.request("browser/pause", session="s1", paused=False) == {}
    assert await client.call(frame, "echo", session="s1", text="hi") == "echo: hi"


async def test_pauses_outlive_the_worker_and_are_announced_with_the_tabs(
    chain: Chain, browser: Chromium, client: Onlooker
) -> None:
    await chain.open(browser, "tabserver.html")
    await client.request("browser/pause", site=chain.pages, paused=True)
    await client.request("browser/pause", session="s1", paused=True)
    await restart_worker(chain, browser)
    async with onlooking(chain) as after:
        frame = await after.until_offered("echo")
        assert paused(after) == ([chain.pages], ["s1"])
        assert_paused(await after.call(frame, "echo", text="hi"), chain.pages)
        assert_paused(await after.request("getTabs", session="s1"), CLIENT)


async def test_a_paused_site_stays_paused_when_the_browser_is_started_again(chain: Chain) -> None:
    with trio.fail_after(120):
        async with chain.browser(), onlooking(chain) as client:
            await client.request("browser/pause", site="https://bank.example", paused=True)
            await client.request("browser/pause", session="s1", paused=True)
        async with chain.browser(), onlooking(chain) as client:
            await client.until(lambda: client.paused)
            assert paused(client) == (["https://bank.example"], [])


NO_PAUSES: list[tuple[dict[str, Any], str]] = [
    ({"paused": True}, "either a site or a session"),
    ({"site": "https://a.example", "session": "s", "paused": True}, "either a site or a session"),
    ({"site": "https://a.example"}, "paused must be true to pause"),
    ({"site": "https://a.example", "paused": "yes"}, "paused must be true to pause"),
    ({"site": "a.example:80", "paused": True}, "write its origin"),
    ({"site": "https://a.example/path", "paused": True}, "write its origin"),
    ({"site": "null", "paused": True}, "write its origin"),
]


async def test_a_pause_of_nothing_is_refused_and_says_what_is_missing(client: Onlooker) -> None:
    for params, complaint in NO_PAUSES:
        error = await client.request("browser/pause", **params)
        assert error["code"] == Code.INVALID_PARAMS, params
        assert complaint in error["message"], params
    assert paused(client) == ([], [])


# ── The popup ───────────────────────────────────────────────────────────────────────────────────────────────


async def open_popup(browser: Chromium) -> Page:
    """A popup over the tab that is shown: it is opened behind that."""
    behind = await browser.send("Target.createTarget", {"url": "about:blank", "background": True})
    popup = await browser.attach(behind["targetId"])
    await popup.load(f"chrome-extension://{EXTENSION_ID}/popup/popup.html")
    await popup.wait_until("document.getElementById('state').innerText.startsWith('Connected')")
    return popup


async def click(popup: Page, part: str, text: str, button: str) -> None:
    """Click the button of a section or a row, once both say this."""
    parts = f"[...document.querySelectorAll({part!r})].some((each) => each.innerText.includes({text!r}))"
    buttons = f"[...document.querySelectorAll({part + ' button'!r})]"
    find = f"{buttons}.find((each) => each.innerText === {button!r})"
    await popup.wait_until(f"{parts} && {find} !== undefined")
    await popup.evaluate(f"{find}.click()")


TAB = "#overview > section:first-child"
CLIENT_ROW = "#clients li"
SITE_ROW = "#sites li"


async def test_the_popup_pauses_this_tab_s_site_and_resumes_it(
    chain: Chain, browser: Chromium, client: Onlooker
) -> None:
    await chain.open(browser, "tabserver.html")
    frame = await client.until_offered("echo")
    popup = await open_popup(browser)
    await click(popup, TAB, chain.pages, "Pause")
    await client.until(lambda: client.paused["sites"] == [chain.pages])
    assert_paused(await client.call(frame, "echo", text="hi"), chain.pages)
    await click(popup, TAB, "This site is paused", "Resume")
    await client.until(lambda: client.paused["sites"] == [])
    assert await client.call(frame, "echo", text="hi") == "echo: hi"


async def test_the_popup_shows_a_site_under_its_name_without_a_dot(
    chain: Chain, browser: Chromium, client: Onlooker
) -> None:
    await browser.open_page(f"{chain.pages.replace('localhost', 'localhost.')}/tabserver.html")
    await client.until_offered("echo")
    popup = await open_popup(browser)
    await click(popup, TAB, chain.pages, "Pause")
    await client.until(lambda: client.paused["sites"] == [chain.pages])
    await click(popup, TAB, "This site is paused", "Resume")
    await client.until(lambda: client.paused["sites"] == [])


async def test_the_popup_pauses_an_attached_client_and_resumes_it(
    browser: Chromium, client: Onlooker
) -> None:
    sessions = [{"id": "s1", "title": "", "client": {"name": "claude-code", "version": "2"}}]
    await client.notify("bridge/sessions", sessions=sessions)
    popup = await open_popup(browser)
    await click(popup, CLIENT_ROW, "claude-code", "Pause")
    await client.until(lambda: client.paused["sessions"] == ["s1"])
    assert_paused(await client.request("getTabs", session="s1"), CLIENT)
    await click(popup, CLIENT_ROW, "paused", "Resume")
    await client.until(lambda: client.paused["sessions"] == [])


async def test_a_site_that_is_paused_elsewhere_can_be_resumed_in_any_popup(
    browser: Chromium, client: Onlooker
) -> None:
    await client.request("browser/pause", site="https://bank.example", paused=True)
    popup = await open_popup(browser)
    await click(popup, SITE_ROW, "https://bank.example", "Resume")
    await client.until(lambda: client.paused["sites"] == [])


async def test_a_tab_that_is_handed_over_may_be_commanded_until_it_is_taken_back(
    chain: Chain, browser: Chromium, client: Onlooker
) -> None:
    await chain.open(browser, "plain.html")
    tab_id = await client.until_tab("plain.html")
    refused = await client.request("activateTab", session="s1", tabId=tab_id)
    assert refused["code"] == Code.NOT_YOURS
    popup = await open_popup(browser)
    await click(popup, TAB, "own tools only", "Let agents control this tab")
    await client.until(lambda: client.tabs[tab_id]["handedOver"])
    assert "tab" in await client.request("activateTab", session="s1", tabId=tab_id)

    await restart_worker(chain, browser)
    async with onlooking(chain) as after:
        await after.until(lambda: after.tabs)
        assert after.tabs[tab_id]["handedOver"]
        await click(popup, TAB, "can control this tab", "Stop agents")
        await after.until(lambda: not after.tabs[tab_id]["handedOver"])
        refused = await after.request("activateTab", session="s1", tabId=tab_id)
        assert refused["code"] == Code.NOT_YOURS


async def test_a_tab_of_a_client_is_named_as_such_and_is_not_there_to_be_handed_over(
    browser: Chromium, client: Onlooker
) -> None:
    sessions = [{"id": "s1", "title": "hana in shop", "client": {"name": "hana", "version": "2"}}]
    await client.notify("bridge/sessions", sessions=sessions)
    await client.request("createTab", session="s1", url="about:blank", active=True)
    popup = await open_popup(browser)
    tab = "document.getElementById('tab').innerText"
    await popup.wait_until(f"{tab} === 'This tab belongs to hana in shop.'")
    await client.request("closeSession", session="s1")
    await client.notify("bridge/sessions", sessions=[])
    await click(popup, TAB, "own tools only", "Let agents control this tab")
    await popup.wait_until(f"{tab} === 'Agents can control this tab.'")


async def test_a_handover_ends_with_its_tab(chain: Chain, browser: Chromium, client: Onlooker) -> None:
    page = await chain.open(browser, "plain.html")
    await client.until_tab("plain.html")
    popup = await open_popup(browser)
    await click(popup, TAB, "own tools only", "Let agents control this tab")
    await client.until(lambda: any(tab["handedOver"] for tab in client.tabs.values()))
    await page.close()
    await client.until(lambda: not any(tab["handedOver"] for tab in client.tabs.values()))
    worker = await popup.evaluate("chrome.storage.session.get('handedOver')")
    assert worker == {"handedOver": []}
