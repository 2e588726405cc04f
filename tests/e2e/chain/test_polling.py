"""Polling of page servers: once a minute without announcements, and more often on slow pages.

The minutes pass at once: the tests store the content script's timers of that length and fire them by hand.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import trio

from demo.chromium import Chromium, Page, open_chromium
from full_chain import EXTENSION, Chain, until_resources
from page_scripts import IsolatedWorld
from socket_observer import Onlooker, onlooking

pytestmark = pytest.mark.one_browser

HOLD_MINUTES = """globalThis.polls = new Map();
    const { setTimeout: start, clearTimeout: stop } = globalThis;
    globalThis.setTimeout = (act, ms) => {
        if (ms !== 60_000) return start(act, ms);
        const timer = start(() => {}, 0);
        polls.set(timer, act);
        return timer;
    };
    globalThis.clearTimeout = (timer) => { polls.delete(timer); stop(timer); }; 0"""
ONE_MINUTE = "[...polls].forEach(([timer, act]) => { polls.delete(timer); act(); })"


@pytest.fixture
async def client(chain: Chain, browser: Chromium) -> AsyncIterator[Onlooker]:
    with trio.fail_after(60):
        async with onlooking(chain) as client:
            yield client


async def listing_again(page: Page) -> None:
    """Let the page be listed once more, so that the content script sets its timers anew."""
    before = await page.evaluate("window.listed")
    await page.evaluate("server.changed()")
    await page.wait_until(f"window.listed > {before}")


async def polled(browser: Chromium, page: Page) -> IsolatedWorld:
    """The world of a page's content script, which waits for a minute that we hold."""
    world = await IsolatedWorld.of(browser, page)
    await world.evaluate(HOLD_MINUTES)
    await listing_again(page)
    while await world.evaluate("polls.size") == 0:  # noqa: ASYNC110 - set when the list has come
        await trio.sleep(0.01)
    return world


async def test_a_server_that_does_not_notify_is_listed_again_after_a_minute(
    chain: Chain, browser: Chromium, client: Onlooker
) -> None:
    page = await chain.open(browser, "silent.html")
    await client.until_offered("echo")
    world = await polled(browser, page)
    for name in ("first", "second"):
        await page.evaluate(f"addTool('{name}')")
        await world.evaluate(ONE_MINUTE)
        await client.until_offered(name)
        while await world.evaluate("polls.size") == 0:  # noqa: ASYNC110 - set when the list has come
            await trio.sleep(0.01)
        assert await world.evaluate("polls.size") == 1


async def test_a_list_that_has_not_changed_is_not_announced_again(
    chain: Chain, browser: Chromium, client: Onlooker
) -> None:
    page = await chain.open(browser, "silent.html")
    await client.until_offered("echo")
    world = await polled(browser, page)
    announced = client.announcements
    for _ in range(3):
        before = await page.evaluate("window.listed")
        await world.evaluate(ONE_MINUTE)
        await page.wait_until(f"window.listed > {before}")
        while await world.evaluate("polls.size") == 0:  # noqa: ASYNC110 - set when the list has come
            await trio.sleep(0.01)
    await page.evaluate("addTool('extra')")
    await world.evaluate(ONE_MINUTE)
    await client.until_offered("extra")
    assert client.announcements == announced + 1


async def test_a_server_that_notifies_is_not_polled(
    chain: Chain, browser: Chromium, client: Onlooker
) -> None:
    page = await chain.open(browser, "silent.html?notifies")
    await client.until_offered("echo")
    world = await IsolatedWorld.of(browser, page)
    await world.evaluate(HOLD_MINUTES)
    await page.evaluate("addTool('extra')")
    await listing_again(page)
    await client.until_offered("extra")
    assert await world.evaluate("polls.size") == 0


async def test_resources_of_a_server_that_does_not_notify_are_listed_again_after_a_minute(
    chain: Chain, browser: Chromium
) -> None:
    page = await chain.open(browser, "servers.html")
    world = await IsolatedWorld.of(browser, page)
    await world.evaluate(HOLD_MINUTES)
    with trio.fail_after(60):
        async with chain.client("legacy") as client:
            await page.evaluate("window.shelf = ['a://1'], startShelf('first', shelf, { silent: true })")
            await until_resources(client, "a://1")
            while await world.evaluate("polls.size") < 2:  # noqa: ASYNC110 - resources and templates
                await trio.sleep(0.01)
            await page.evaluate("shelf.push('b://1')")
            await world.evaluate(ONE_MINUTE)
            await until_resources(client, "a://1", "b://1")
            assert (await page.evaluate("requests")).count("initialize") == 1


# ── Pages whose tools come late are announced as soon as they do ────────────────────────────────────────────


SOON_S = 20.0
"""Well below the minute after which a page is polled."""


@pytest.mark.parametrize("page", ["late.html", "late.html?tools"])
async def test_a_page_that_is_ready_long_after_its_load_is_announced_at_once(
    chain: Chain, browser: Chromium, page: str
) -> None:
    with trio.fail_after(60):
        async with onlooking(chain) as client:
            tab = await chain.open(browser, page)
            assert client.offering("echo") is None
            await tab.wait_until("window.appeared")
            with trio.fail_after(SOON_S):
                frame = await client.until_offered("echo")
                assert await client.call(frame, "echo", text="late") == "echo: late"


async def test_a_server_that_appears_late_in_an_iframe_is_announced_at_once(
    chain: Chain, browser: Chromium
) -> None:
    with trio.fail_after(60):
        async with onlooking(chain) as client:
            tab = await chain.open(browser, "nest.html?frame=late.html")
            await tab.wait_until("frames[0].appeared")
            with trio.fail_after(SOON_S):
                frame = await client.until_offered("echo", "late.html")
                assert await client.call(frame, "echo", text="late") == "echo: late"


async def test_a_page_that_was_open_before_its_content_script_came_is_announced(chain: Chain) -> None:
    profile = chain.home / "late"
    profile.mkdir()
    with trio.fail_after(60):
        chain.register(profile)
        async with open_chromium(profile, env={"TMPDIR": str(chain.home)}) as chromium:
            await chain.open(chromium, "tabserver.html")
            await chromium.load_extension(EXTENSION)
            async with onlooking(chain) as client:
                with trio.fail_after(SOON_S):
                    frame = await client.until_offered("echo")
                assert await client.call(frame, "echo", text="late") == "echo: late"
