"""The extension reloads itself once its directory has another version, between calls, and nothing is lost."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from demo.chromium import Chromium, Page
from extension_card import ExtensionCard, open_card, switch_on_developer_mode
from full_chain import EXTENSION, Chain
from popup_states import SESSION, click, open_popup, wait_state, worker_of
from socket_observer import Onlooker, onlooking

CHECKED_S = 90.0
"""The extension looks once a minute."""


@pytest.fixture
def directory(short_tmp: Path) -> Path:
    """A copy of the extension, as `mcpb extension` makes it."""
    return Path(shutil.copytree(EXTENSION, short_tmp / "extension"))


@pytest.fixture
async def browser(chain: Chain, directory: Path) -> AsyncIterator[Chromium]:
    switch_on_developer_mode(chain.home / "profile")
    with trio.fail_after(280):
        async with chain.browser(is_registered=False, extension=directory) as browser:
            yield browser


def write_version(directory: Path, version: str, name: str) -> None:
    """Replace the manifest as a whole, last of all files."""
    manifest = directory / "manifest.json"
    changed = {**json.loads(manifest.read_bytes()), "version": version, "version_name": name}
    draft = directory.parent / "manifest.json"
    draft.write_text(json.dumps(changed))
    draft.replace(manifest)


async def ring_alarm(browser: Chromium) -> Page:
    """Let the alarm ring that the extension has set for the next minute; return its worker."""
    worker = await worker_of(browser)
    await worker.evaluate("chrome.alarms.create('upgrade', { when: Date.now() })")
    return worker


async def look_now(browser: Chromium) -> None:
    """Let the alarm ring; it has rung when this returns, and the extension must not have reloaded itself."""
    worker = await ring_alarm(browser)
    await worker.wait_until("chrome.alarms.get('upgrade').then((alarm) => alarm === undefined)")
    await browser.send("Target.detachFromTarget", {"sessionId": worker.session})


async def wait_version(card: ExtensionCard, version: str) -> None:
    with trio.fail_after(CHECKED_S):
        while await card.version() != version:  # noqa: ASYNC110 - the page has no event
            await trio.sleep(0.02)


async def open_tabs(chain: Chain, browser: Chromium, agent: Onlooker) -> tuple[int, int]:
    """A tab of a client and one that the user handed over."""
    await agent.notify("bridge/sessions", sessions=[SESSION])
    await chain.open(browser, "tabserver.html")
    opened = await agent.request("createTab", session="s1", url=f"{chain.pages}/plain.html")
    handed_over = await agent.until_tab("tabserver.html")
    popup = await open_popup(browser)
    await wait_state(popup, "Connected, 1 agent")
    await click(popup, "#tab-action")
    await agent.until(lambda: agent.tabs[handed_over]["handedOver"])
    await popup.close()
    return opened["tabId"], handed_over


async def test_it_reloads_between_calls_and_keeps_owners_and_handovers(
    chain: Chain, browser: Chromium, directory: Path
) -> None:
    chain.register(chain.home / "profile")
    card = await open_card(browser)
    async with onlooking(chain) as agent:
        own, handed_over = await open_tabs(chain, browser, agent)
        await agent.request("browser/pause", session="s2", paused=True)
        frame = await agent.until_offered("slow")
        call = await agent.begin_call(frame, "slow", session="s1")
        page = await page_at(browser, "tabserver.html")
        await page.wait_until("window.runs === 1")

        write_version(directory, "0.2.0", "0.2.0 (0123456789ab)")
        await look_now(browser)
        await page.evaluate("finishSlow()")
        assert (await agent.answer_to(call))["result"]["success"]
        assert await card.version() == "0.2.0"
        await ring_alarm(browser)
        await wait_version(card, "0.2.0 (0123456789ab)")

    async with onlooking(chain) as agent:
        await agent.until(lambda: agent.paused and handed_over in agent.tabs)
        assert agent.tabs[own]["owner"] == "s1"
        assert agent.tabs[handed_over]["handedOver"]
        assert agent.paused["sessions"] == ["s2"]
        frame = await agent.until_offered("echo")
        assert await agent.call(frame, "echo", text="again") == "echo: again"
    assert await card.errors() == []


async def test_site_rules_hold_after_the_reload_while_no_native_host_starts(
    chain: Chain, browser: Chromium, directory: Path
) -> None:
    chain.register(chain.home / "profile")
    denied = chain.pages.replace("localhost", "127.0.0.1")
    card = await open_card(browser)
    async with onlooking(chain) as agent:
        await agent.request("browser/siteRules", sessions=[{"session": "s1", "deny": [denied]}])
        await open_tabs(chain, browser, agent)
        page = await page_at(browser, "plain.html")
        assert await reaches(page, denied) is False

    wrapper = chain.home / "bin/mcpb-native-host"
    wrapper.write_text(wrapper.read_text().replace("\n", "\nexit 3\n", 1))
    write_version(directory, "0.2.0", "0.2.0 (0123456789ab)")
    await ring_alarm(browser)
    await wait_version(card, "0.2.0 (0123456789ab)")
    worker = await worker_of(browser)
    await worker.wait_until(
        "chrome.declarativeNetRequest.getSessionRules().then((rules) => rules.length > 0)", 10
    )
    assert await reaches(page, denied) is False
    assert await reaches(page, chain.pages) is True


async def page_at(browser: Chromium, path: str) -> Page:
    """Attach to the tab at an address that ends with this."""
    target = next(each for each in await browser.targets() if each["url"].endswith(path))
    return await browser.attach(target["targetId"])


async def reaches(page: Page, site: str) -> bool:
    """Return whether a page can send a request to a site."""
    send = f"fetch('{site}/plain.html', {{mode: 'no-cors'}})"
    return bool(await page.evaluate(f"{send}.then(() => true, () => false)"))


async def test_an_upgrade_is_found_while_no_host_is_there(browser: Chromium, directory: Path) -> None:
    """By the alarm that the extension sets itself, or when the next attempt to connect ends."""
    card = await open_card(browser)
    write_version(directory, "0.3.0", "0.3.0 (ba9876543210)")
    await wait_version(card, "0.3.0 (ba9876543210)")
    write_version(directory, "0.2.0", "0.2.0 (0123456789ab)")
    await wait_version(card, "0.2.0 (0123456789ab)")
    assert await card.errors() == []


async def test_a_browser_reloads_what_mcpb_extension_has_updated(chain: Chain) -> None:
    directory = chain.home / "mcpb-extension"
    await chain.mcpb("extension", "--directory", str(directory))
    current = json.loads((directory / "manifest.json").read_bytes())["version_name"]
    write_version(directory, "0.2.0", "0.2.0 (000000000000)")
    switch_on_developer_mode(chain.home / "profile")
    with trio.fail_after(280):
        async with chain.browser(extension=directory) as browser:
            card = await open_card(browser)
            assert await card.version() == "0.2.0 (000000000000)"
            worker = await worker_of(browser)
            await worker.wait_until(
                "chrome.alarms.get('upgrade').then((alarm) => alarm?.periodInMinutes === 1)"
            )
            await chain.mcpb("extension")
            await worker.evaluate("void chrome.alarms.create('upgrade', { when: Date.now() })")
            await wait_version(card, current)
            assert await card.errors() == []
