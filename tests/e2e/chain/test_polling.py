"""A page server that does not say when its tools change is asked once a minute.

The minutes pass at once here: the content script's timers of that length are kept, to be let off by hand.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import trio

from demo.chromium import Chromium, Page
from full_chain import Chain
from isolated_world import IsolatedWorld
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
