"""The popup of the extension over a tab, in each state that a user meets."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import trio

from demo.chromium import Chromium, Page
from demo.devtools import DevToolsError
from full_chain import Chain
from socket_observer import Onlooker, onlooking

SHOWN_S = 60.0
ANSWERED_S = 3.0
"""A worker that is not ending answers at once."""
SESSION = {
    "id": "s1",
    "title": "claude-code in shop",
    "client": {"name": "claude-code", "version": "2.1.329"},
}
STATES = (
    "not-registered",
    "does-not-start",
    "no-agent",
    "one-agent",
    "in-use",
    "agent-paused",
    "handed-over",
    "browser-page",
)
Visit = Callable[[str, Page], Awaitable[None]]
"""Looks at the popup in a state."""


async def worker_of(browser: Chromium) -> Page:
    """Attach to the service worker of the extension, which the browser does not stop meanwhile. Bound it."""
    while True:
        for target in await browser.targets("service_worker"):
            with suppress(trio.TooSlowError, DevToolsError):  # one that is just ending never answers
                worker = await browser.attach(target["targetId"])
                await worker.wait_until("globalThis.chrome?.action !== undefined", ANSWERED_S)
                return worker
        await trio.sleep(0.02)


async def open_popup(browser: Chromium) -> Page:
    """Open the popup over the tab that is shown, as a click on the toolbar icon does. Bound it."""
    worker = await worker_of(browser)
    await worker.evaluate("chrome.action.openPopup()")
    await browser.send("Target.detachFromTarget", {"sessionId": worker.session})
    popup = await browser.attach(await _find_popup(browser))
    await popup.wait_until("document.readyState === 'complete'")
    return popup


async def _find_popup(browser: Chromium) -> str:
    while True:
        for target in await browser.targets():
            if target["url"].endswith("/popup/popup.html"):
                return str(target["targetId"])
        await trio.sleep(0.02)


async def wait_state(popup: Page, text: str) -> None:
    """Wait until the line with the state says this."""
    await popup.wait_until(f"document.getElementById('state').innerText === {text!r}", SHOWN_S)


async def click(popup: Page, selector: str) -> None:
    """Press a button of the popup."""
    await popup.evaluate(f"document.querySelector({selector!r}).click()")


@asynccontextmanager
async def connected_agent(chain: Chain, popup: Page) -> AsyncIterator[Onlooker]:
    """One agent, and the popup shows it."""
    async with onlooking(chain) as agent:
        await agent.notify("bridge/sessions", sessions=[SESSION])
        await wait_state(popup, "Connected, 1 agent")
        yield agent


async def visit_states(chain: Chain, browser: Chromium, visit: Visit) -> None:
    """Go through all states, in a browser with which the host is not registered yet."""
    await chain.open(browser, "tabserver.html")
    popup = await open_popup(browser)
    await _visit_unconnected(chain, popup, visit)
    async with connected_agent(chain, popup) as agent:
        await visit("one-agent", popup)
        await _visit_agent(agent, popup, visit)
        await browser.open_page("chrome://extensions")
        popup = await open_popup(browser)
        await wait_state(popup, "Connected, 1 agent")
        await visit("browser-page", popup)


async def _visit_unconnected(chain: Chain, popup: Page, visit: Visit) -> None:
    await wait_state(popup, "Not connected")
    await visit("not-registered", popup)
    chain.register(chain.home / "profile")
    wrapper = chain.home / "bin/mcpb-native-host"
    works = wrapper.read_text()
    wrapper.write_text(works.replace("\n", "\nexit 3\n", 1))
    await popup.wait_until(
        "document.getElementById('what').innerText.startsWith('mcpb does not start')", SHOWN_S
    )
    await visit("does-not-start", popup)
    wrapper.write_text(works)
    await click(popup, "#connect")
    await wait_state(popup, "Connected, no agent")
    await visit("no-agent", popup)


async def _visit_agent(agent: Onlooker, popup: Page, visit: Visit) -> None:
    frame = await agent.until_offered("slow")
    call = await agent.begin_call(frame, "slow", session="s1", ms=SHOWN_S * 1000)
    await wait_state(popup, "In use on this tab")
    await visit("in-use", popup)
    await agent.notify("browser/cancel", id=call)
    await wait_state(popup, "Connected, 1 agent")
    await click(popup, "#clients button")
    await wait_state(popup, "Agents are paused")
    await visit("agent-paused", popup)
    await click(popup, "#clients button")
    await wait_state(popup, "Connected, 1 agent")
    await click(popup, "#tab-action")
    await popup.wait_until("document.getElementById('tab').innerText === 'Agents can control this tab.'")
    await visit("handed-over", popup)
    await click(popup, "#tab-action")
