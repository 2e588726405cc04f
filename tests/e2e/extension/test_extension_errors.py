"""Ordinary use leaves no error on the extension's card. Judge: the extensions page of the browser."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator

import pytest
import trio

from demo.chromium import Chromium, Page
from extension_card import open_card, switch_on_developer_mode
from full_chain import Chain
from popup_states import SESSION, click, open_popup, wait_state, worker_of
from socket_observer import Onlooker, hosts, onlooking, restart_worker
from wire_peers import until

KILLED_S = 60.0


@pytest.fixture
async def browser(chain: Chain) -> AsyncIterator[Chromium]:
    switch_on_developer_mode(chain.home / "profile")
    with trio.fail_after(240):
        async with chain.browser() as browser:
            yield browser


async def test_ordinary_use_leaves_no_error(chain: Chain, browser: Chromium) -> None:
    card = await open_card(browser)
    async with onlooking(chain) as agent:
        await agent.notify("bridge/sessions", sessions=[SESSION])
        page = await _visit_pages(chain, browser, agent)
        await _use_popup(browser)
        await _use_tabs(chain, agent)
    assert await card.errors() == []
    await restart_worker(chain, browser)
    (host,) = hosts(chain)
    os.kill(host.pid, signal.SIGKILL)
    with trio.fail_after(KILLED_S):
        await until(lambda: [it.pid for it in hosts(chain)] not in ([], [host.pid]))
    await page.close()
    assert await card.errors() == []


async def test_the_extensions_page_would_show_an_error(browser: Chromium) -> None:
    card = await open_card(browser)
    worker = await worker_of(browser)
    await worker.evaluate("chrome.tabs.get(2147483647, () => {})")
    with trio.fail_after(60):
        while not (errors := await card.errors()):  # noqa: ASYNC110 - the page has no event
            await trio.sleep(0.02)
    assert errors == ["Unchecked runtime.lastError: No tab with id: 2147483647."]


async def _visit_pages(chain: Chain, browser: Chromium, agent: Onlooker) -> Page:
    """Open pages, go back and forward through the back/forward cache, and leave one that has a frame."""
    page = await chain.open(browser, "tabserver.html")
    await agent.until_offered("echo")
    await page.evaluate("window.isKept = true")
    await page.load(f"{chain.pages}/plain.html")
    for step, is_kept in (("back", True), ("forward", False), ("back", True)):
        await page.evaluate(f"history.{step}()")
        await page.wait_until(f"(window.isKept === true) === {str(is_kept).lower()}")
    frame = await agent.until_offered("echo")
    assert await agent.call(frame, "echo", session="s1", text="hi") == "echo: hi"
    opening = {"expression": "open('plain.html?window', '', 'width=300,height=200'), 0", "userGesture": True}
    await page.send("Runtime.evaluate", opening)
    await agent.request("closeTab", tabId=await agent.until_tab("plain.html?window"))
    return page


async def _use_popup(browser: Chromium) -> None:
    """Hand a tab over and take it back, pause and resume, then close the popup."""
    await browser.open_page("about:blank")
    popup = await open_popup(browser)
    await wait_state(popup, "Connected, 1 agent")
    for state in ("Agents are paused", "Connected, 1 agent"):
        await click(popup, "#clients button")
        await wait_state(popup, state)
    await click(popup, "#show-details")
    await popup.close()


async def _use_tabs(chain: Chain, agent: Onlooker) -> None:
    """Open a tab for a client, control it, and close it while it is still in use."""
    opened = await agent.request("createTab", session="s1", url=f"{chain.pages}/tabserver.html")
    tab = {"session": "s1", "tabId": opened["tabId"]}
    await agent.request("browser_navigate", **tab, url=f"{chain.pages}/plain.html")
    await agent.say(id="watch", method="subscribeCDP", params={**tab, "events": ["Page.frameNavigated"]})
    opening = {"expression": "open('plain.html?opened', '', 'width=300,height=200'), 0", "userGesture": True}
    command = {**tab, "method": "Runtime.evaluate", "params": opening}
    await agent.say(id="open", method="forwardCDPCommand", params=command)
    await agent.until_tab("plain.html?opened")
    await agent.request("goBack", **tab)
    await agent.request("closeTab", **tab)
    await agent.request("closeSession", session="s1", closeTabs=True)
