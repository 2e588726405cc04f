"""`make screenshots`: pictures of all that a user sees of mcpb in a browser, for a look before a release.

The popup in each state, the extension's card, the status page, and the browser's window on an X display of
its own (Xvfb) with the tab group of a client and the toolbar icon. They go to `.screenshots/`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import trio
from PIL import ImageGrab

from demo.chromium import Chromium, Page
from demo.temporary_directory import throw_away_directory
from extension_card import open_card, switch_on_developer_mode
from full_chain import Chain, serving_pages, until_answered
from popup_states import SESSION, click, open_popup, visit_states, wait_state
from socket_observer import Onlooker, onlooking

FOLDER = Path(__file__).parents[2] / ".screenshots"
SCREEN = (1280, 800)
WINDOW_FLAGS = (f"--window-size={SCREEN[0]},{SCREEN[1]}", "--window-position=0,0")
TOOLBAR = (0, 0, SCREEN[0], 88)
"""Tab strip and toolbar."""
SCHEMES = ("light", "dark")
SETTLE_S = 0.3
"""For a change to be painted. A picture has no other event."""
MOST_S = 300.0


@contextmanager
def open_display() -> Iterator[str]:
    """Start an X server without a screen; its display, such as `:3`."""
    if shutil.which("Xvfb") is None:
        sys.exit("Missing: Xvfb. Run: sudo apt-get install xvfb")
    reading, writing = os.pipe()
    command = ["Xvfb", "-displayfd", str(writing), "-screen", "0", f"{SCREEN[0]}x{SCREEN[1]}x24"]
    server = subprocess.Popen([*command, "-nolisten", "tcp"], pass_fds=[writing], stderr=subprocess.DEVNULL)
    os.close(writing)
    try:
        with os.fdopen(reading) as number:
            yield f":{number.readline().strip()}"
    finally:
        server.terminate()
        server.wait()


async def take(page: Page, name: str, selector: str = "") -> None:
    """Take a picture of a page, or of one of its elements, in both color schemes."""
    for scheme in SCHEMES:
        features = {"prefers-color-scheme": scheme, "prefers-reduced-motion": "reduce"}
        media = [{"name": feature, "value": value} for feature, value in features.items()]
        await page.send("Emulation.setEmulatedMedia", {"features": media})
        await trio.sleep(SETTLE_S)
        params: dict[str, object] = {"format": "png"}
        if selector:
            clip = "({ x, y, width, height }) => ({ x, y, width, height, scale: 2 })"
            params["clip"] = await page.evaluate(f"({clip})({selector}.getBoundingClientRect())")
        picture = await page.send("Page.captureScreenshot", params)
        (FOLDER / f"{name}-{scheme}.png").write_bytes(b64decode(picture["data"]))


async def take_popups(chain: Chain) -> None:
    """Take the popup in each state, and its details."""

    async def visit(state: str, popup: Page) -> None:
        await take(popup, f"popup-{state}")
        if state == "one-agent":
            await click(popup, "#show-details")
            await take(popup, "popup-details")
            await popup.evaluate("document.getElementById('details').scrollTo(0, 10_000)")
            await take(popup, "popup-details-end")
            await click(popup, "#show-details")

    async with chain.browser(is_registered=False) as browser:
        await visit_states(chain, browser, visit)


async def take_card(browser: Chromium) -> None:
    """Take the extension's card on the browser's extensions page, in developer mode."""
    page = (await open_card(browser)).page
    card = (
        "document.querySelector('extensions-manager').shadowRoot?.querySelector('#itemsList')"
        "?.shadowRoot?.querySelector('extensions-item')?.shadowRoot?.querySelector('#card')"
    )
    await page.wait_until(f"{card}?.offsetHeight > 0")
    await take(page, "extension-card", card)
    await page.close()


async def take_status_page(chain: Chain, browser: Chromium) -> None:
    """Take the status page with one client that has called a tool."""
    printed = (await chain.mcpb("status", "--web", "--no-open")).stdout.decode()
    link = re.search(r"http://localhost:\d+/open\?code=\S+", printed)
    assert link, printed
    async with chain.client() as client:
        page = await browser.open_page(link[0])
        width, height = SCREEN
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        await page.send("Emulation.setDeviceMetricsOverride", size)
        await until_answered(client, chain.name("echo"), "echo: hi", text="hi")
        await page.wait_until("document.getElementById('clients')?.innerText.includes('over stdio')")
        await take(page, "status-page")
        await page.close()


async def take_windows(chain: Chain, display: str) -> None:
    """Take the browser's window: the tab group of a client, and each state of the toolbar icon."""

    async def grab(name: str, box: tuple[int, int, int, int] | None = None) -> None:
        await trio.sleep(2 * SETTLE_S)
        ImageGrab.grab(box, xdisplay=display).save(FOLDER / f"{name}.png")

    async with chain.browser("headed", WINDOW_FLAGS, is_registered=False, display=display) as browser:
        card = await open_card(browser)
        await card.pin()
        await chain.open(browser, "tabserver.html")
        await card.page.close()
        popup = await open_popup(browser)
        await wait_state(popup, "Not connected")
        await grab("toolbar-off", TOOLBAR)
        chain.register(chain.home / "headed")
        await wait_state(popup, "Connected, no agent")
        await grab("toolbar-connected", TOOLBAR)
        async with onlooking(chain) as agent:
            await agent.notify("bridge/sessions", sessions=[SESSION])
            await wait_state(popup, "Connected, 1 agent")
            await _use_tab(chain, agent)
            popup = await open_popup(browser)
            await wait_state(popup, "In use on this tab")
            await grab("window-in-use")
            await click(popup, "#clients button")
            await wait_state(popup, "Agents are paused")
            await grab("toolbar-paused", TOOLBAR)


async def _use_tab(chain: Chain, agent: Onlooker) -> None:
    """Open a tab of the client and attach the debugger to it."""
    opened = await agent.request("createTab", session="s1", url=f"{chain.pages}/plain.html", active=True)
    tab_id = opened["tabId"]
    await agent.until(lambda: agent.tabs.get(tab_id, {}).get("groupId") is not None)
    watched = {"session": "s1", "tabId": tab_id, "events": ["Page.frameNavigated"]}
    await agent.say(id="watch", method="subscribeCDP", params=watched)


async def main() -> None:
    """Take all pictures anew."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    with trio.fail_after(MOST_S):
        with throw_away_directory() as home, serving_pages() as pages:
            await take_popups(Chain(home, pages))
        with throw_away_directory() as home, serving_pages() as pages:
            chain = Chain(home, pages)
            switch_on_developer_mode(home / "profile")
            async with chain.serving(), chain.browser() as browser:
                await chain.open(browser, "tabserver.html")
                await take_card(browser)
                await take_status_page(chain, browser)
        with throw_away_directory() as home, serving_pages() as pages, open_display() as display:
            await take_windows(Chain(home, pages), display)
    print(f"{len(list(FOLDER.iterdir()))} pictures in {FOLDER.name}/")  # noqa: T201


if __name__ == "__main__":
    trio.run(main)
