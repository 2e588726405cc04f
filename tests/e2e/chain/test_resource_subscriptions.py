"""Subscriptions to resources of a page, of several clients and bridges. The page's own log judges."""

from __future__ import annotations

import json
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlencode

import mcp
import mcp_types as types
import pytest
import trio
from mcp import MCPError

from demo.chromium import Chromium, Page
from full_chain import MCPB, Chain
from socket_observer import onlooking
from wire_peers import until

pytestmark = [
    pytest.mark.one_browser,
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),  # of the handshake era
]

SUBSCRIPTIONS = "requests.filter((each) => each.includes('subscribe'))"
HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "by hand", "version": "1"},
}


class Subscriber:
    """A client, and the URIs of the updates that it has received."""

    def __init__(self) -> None:
        self.client: mcp.Client
        self.updates: list[str] = []
        self.lists = 0
        """Notifications that the list of resources has changed."""

    async def hear(self, message: Any) -> None:
        self.lists += isinstance(message, types.ResourceListChangedNotification)
        if isinstance(message, types.ResourceUpdatedNotification):
            self.updates.append(str(message.params.uri))

    async def listen(self, *uris: str, task_status: trio.TaskStatus[None]) -> None:
        """Subscribe in the way of 2026-07-28, until cancelled."""
        async with self.client.listen(resource_subscriptions=uris) as events:
            task_status.started()
            async for event in events:
                self.updates.append(event.uri)  # type: ignore[union-attr]

    async def subscribe(self, uri: str) -> None:
        """Subscribe in the way of the handshake era."""
        await self.client.subscribe_resource(uri)


@asynccontextmanager
async def subscriber(chain: Chain, mode: Any = "legacy", url: str = "") -> AsyncIterator[Subscriber]:
    """A client with a bridge of its own, or of the bridge at a URL."""
    made = Subscriber()
    hear = made.hear if mode == "legacy" else None
    opened = chain.http_client(url, mode, message_handler=hear) if url else chain.client(mode, hear)
    async with opened as made.client:
        yield made


@pytest.fixture
async def page(chain: Chain, browser: Chromium) -> AsyncIterator[Page]:
    with trio.fail_after(60):
        yield await chain.open(browser, "resources.html")


def cart(chain: Chain) -> str:
    domain = chain.pages.removeprefix("http://").replace(":", "_")
    return f"mcpb://page/{domain}/tab{chain.tabs_before + 1}/cart://1"


async def until_offered(subscribed: Subscriber, uri: str) -> None:
    while True:
        try:
            await subscribed.client.read_resource(uri)
        except MCPError:
            await trio.sleep(0.05)
        else:
            return


async def until_asked(page: Page, *expected: str) -> None:
    """Wait until the page's server was asked this about subscriptions, and no more."""
    await page.wait_until(f"{SUBSCRIPTIONS}.length >= {len(expected)}", timeout_s=30)
    assert await page.evaluate(SUBSCRIPTIONS) == list(expected)


async def test_clients_of_two_bridges_cause_one_subscription_which_the_last_one_ends(
    chain: Chain, browser: Chromium, page: Page
) -> None:
    uri = cart(chain)
    async with (
        chain.serving() as url,
        subscriber(chain, "auto", url) as first,
        subscriber(chain, "legacy", url) as second,
        trio.open_nursery() as nursery,
    ):
        async with subscriber(chain) as third:
            await until_offered(first, uri)
            await nursery.start(first.listen, uri, "x://1")
            await second.subscribe("cart://1")
            await third.subscribe(uri)
            await page.evaluate("addApple(), addApple('photo://1')")
            await until(lambda: bool(first.updates and second.updates and third.updates))
            assert (first.updates, second.updates, third.updates) == ([uri], ["cart://1"], [uri])
            await until_asked(page, "subscribe cart://1")
            await second.client.unsubscribe_resource("cart://1")
            await page.evaluate("addApple()")
            await until(lambda: len(first.updates) == len(third.updates) == 2)
            assert second.updates == ["cart://1"]
        await page.evaluate("addApple()")
        await until(lambda: len(first.updates) == 3)
        await until_asked(page, "subscribe cart://1")
        nursery.cancel_scope.cancel()
    await until_asked(page, "subscribe cart://1", "unsubscribe cart://1")


async def test_a_killed_bridge_ends_its_subscription(chain: Chain, browser: Chromium, page: Page) -> None:
    await until_announced(chain)
    lines: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": HELLO},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "resources/subscribe", "params": {"uri": cart(chain)}},
    ]
    bridge = await trio.lowlevel.open_process(
        [*MCPB, "bridge"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, env=chain.env
    )
    assert bridge.stdin
    async with bridge.stdin as stdin:
        for line in lines:
            await stdin.send_all(json.dumps({"jsonrpc": "2.0", **line}).encode() + b"\n")
        await until_asked(page, "subscribe cart://1")
        bridge.kill()
        await bridge.wait()
    await until_asked(page, "subscribe cart://1", "unsubscribe cart://1")


async def until_announced(chain: Chain) -> None:
    async with onlooking(chain) as client:
        await client.until_offered("echo", "resources.html")


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_page_that_returns_is_subscribed_to_again(
    chain: Chain, browser: Chromium, page: Page, nursery: trio.Nursery, mode: str
) -> None:
    uri = cart(chain)
    async with subscriber(chain, mode) as subscribed:
        await until_offered(subscribed, uri)
        if mode == "auto":
            await nursery.start(subscribed.listen, uri)
        else:
            await subscribed.subscribe(uri)
        await until_asked(page, "subscribe cart://1")
        await page.load(f"{chain.pages}/resources.html?apples=7")
        await until_asked(page, "subscribe cart://1")
        await page.evaluate("addApple()")
        await until(lambda: subscribed.updates == [uri])
        await page.evaluate("server.stop(), requests.length = 0, startAgain(), 0")
        await until_asked(page, "subscribe cart://1")
        await page.evaluate("addApple()")
        await until(lambda: subscribed.updates == [uri, uri])
        nursery.cancel_scope.cancel()


async def test_what_a_server_reports_without_subscriptions_is_passed_on(
    chain: Chain, browser: Chromium, page: Page
) -> None:
    await page.load(f"{chain.pages}/resources.html?subscribe=no")
    uri = cart(chain)
    async with subscriber(chain) as subscribed:
        await until_offered(subscribed, uri)
        await subscribed.subscribe(uri)
        await page.evaluate("addApple()")
        await until(lambda: subscribed.updates == [uri])
        assert await page.evaluate(SUBSCRIPTIONS) == []


async def test_a_subscription_that_the_page_rejects_is_an_error(
    chain: Chain, browser: Chromium, page: Page
) -> None:
    uri = cart(chain)
    async with subscriber(chain) as subscribed:
        await until_offered(subscribed, uri)
        with pytest.raises(MCPError, match="Resource not found: order://1"):
            await subscribed.subscribe(uri.replace("cart://", "order://"))


async def test_a_server_in_an_iframe_is_subscribed_to(chain: Chain, browser: Chromium) -> None:
    other = chain.pages.replace("localhost", "127.0.0.1")
    await browser.open_page(f"{other}/plain.html")  # now its resources need no question in frames
    query = urlencode({"frame": f"{other}/resources.html?parent"})
    around = await browser.open_page(f"{chain.pages}/nest.html?{query}")
    with trio.fail_after(60):
        async with subscriber(chain) as made:
            await until_offered(made, "cart://1")
            await made.client.subscribe_resource("cart://1")
            await around.evaluate("frames[0].postMessage({ run: 'addApple()' }, '*')")
            await until(lambda: made.updates == ["cart://1"])
            before = made.lists
            await around.evaluate("frames[0].postMessage({ run: `addResource('tea://1')` }, '*')")
            await until(lambda: made.lists > before)
            await until_offered(made, "tea://1")
