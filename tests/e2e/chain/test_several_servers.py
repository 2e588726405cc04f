"""Resources of several page servers on one channel, where each server receives every request."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import mcp
import mcp_types as types
import pytest
import trio
from mcp import MCPError

from demo.chromium import Chromium
from full_chain import Chain, until_resources
from socket_observer import onlooking

pytestmark = [
    pytest.mark.one_browser,
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),  # of the handshake era
]

SOON_S = 5.0
"""Seconds, less than the timeouts of a list and of a request, which are 10 s each."""


@asynccontextmanager
async def connected(chain: Chain) -> AsyncIterator[tuple[mcp.Client, list[str]]]:
    """A client, and the URIs of the updates that it receives."""
    updates: list[str] = []

    async def receive(message: Any) -> None:
        if isinstance(message, types.ResourceUpdatedNotification):
            updates.append(str(message.params.uri))

    with trio.fail_after(60):
        async with chain.client("legacy", receive) as client:
            yield client, updates


async def text_of(client: mcp.Client, uri: str) -> str:
    (content,) = (await client.read_resource(uri)).contents
    assert isinstance(content, types.TextResourceContents)
    return content.text


async def test_a_server_that_joins_later_is_asked_for_its_resources(chain: Chain, browser: Chromium) -> None:
    page = await chain.open(browser, "servers.html")
    async with connected(chain) as (client, _), onlooking(chain) as onlooker:
        await page.evaluate("startShelf('first', [])")
        await onlooker.until_offered("first_echo")
        await page.evaluate("startShelf('second', ['b://1'])")
        await until_resources(client, "b://1")
        assert await text_of(client, "b://1") == "second has b://1"


async def test_a_server_that_took_another_one_s_place_without_a_message_is_introduced(
    chain: Chain, browser: Chromium
) -> None:
    page = await chain.open(browser, "servers.html")
    async with connected(chain) as (client, _), onlooking(chain) as onlooker:
        await page.evaluate("startShelf('first', [])")
        await onlooker.until_offered("first_echo")
        await page.evaluate("first.vanish(), startShelf('second', ['b://1'])")
        await until_resources(client, "b://1")


async def test_the_pages_of_each_server_s_list_are_followed(chain: Chain, browser: Chromium) -> None:
    page = await chain.open(browser, "servers.html")
    async with connected(chain) as (client, _):
        await page.evaluate("startShelf('first', ['a://1', 'a://2', 'a://3'], { pages: true, late: 20 })")
        await page.evaluate("startShelf('second', ['b://1', 'b://2'], { pages: true })")
        await page.evaluate("startShelf('third', ['c://1'])")
        await until_resources(client, "a://1", "a://2", "a://3", "b://1", "b://2", "c://1")


async def test_a_server_that_does_not_know_a_uri_does_not_answer_for_one_that_does(
    chain: Chain, browser: Chromium
) -> None:
    page = await chain.open(browser, "servers.html")
    async with connected(chain) as (client, _):
        await page.evaluate("startShelf('first', ['a://1']), startShelf('second', ['b://1'], { late: 80 })")
        await until_resources(client, "a://1", "b://1")
        assert await text_of(client, "b://1") == "second has b://1"
        assert await text_of(client, "a://1") == "first has a://1"


async def test_after_several_servers_a_single_one_is_not_waited_for(chain: Chain, browser: Chromium) -> None:
    page = await chain.open(browser, "servers.html")
    async with connected(chain) as (client, _):
        await page.evaluate("startShelf('first', ['a://1']), startShelf('second', ['b://1'])")
        await until_resources(client, "a://1", "b://1")
        uris = [str(each.uri) for each in (await client.list_resources()).resources]
        uri = next(uri for uri in uris if uri.endswith("a://1"))
        await page.evaluate("first.stop(), second.stop(), startShelf('third', ['c://1'])")
        await until_resources(client, "c://1")
        with trio.fail_after(SOON_S), pytest.raises(MCPError, match="Resource not found"):
            await client.read_resource(uri.replace("a://1", "d://1"))


async def test_a_resource_of_a_server_without_subscriptions_is_subscribed_to_beside_one_with_them(
    chain: Chain, browser: Chromium
) -> None:
    page = await chain.open(browser, "servers.html")
    async with connected(chain) as (client, updates):
        await page.evaluate(
            "startShelf('first', ['a://1']), startShelf('second', ['b://1'], { updates: true })"
        )
        await until_resources(client, "a://1", "b://1")
        await client.subscribe_resource("a://1")
        await page.evaluate("first.notify('notifications/resources/updated', { uri: 'a://1' })")
        while updates != ["a://1"]:  # noqa: ASYNC110 - set by the notification
            await trio.sleep(0.01)


async def test_a_list_that_a_server_does_not_have_is_empty_and_the_server_is_not_introduced_again(
    chain: Chain, browser: Chromium
) -> None:
    page = await chain.open(browser, "servers.html")
    async with connected(chain) as (client, _):
        await page.evaluate("startShelf('first', ['a://1'], { without: ['resources/templates/list'] })")
        await until_resources(client, "a://1")
        for _ in range(3):
            before = await page.evaluate("requests.length")
            await page.evaluate("first.notify('notifications/resources/list_changed')")
            await page.wait_until(
                f"requests.slice({before}).filter((each) => each.endsWith('/list')).length >= 2"
            )
        await page.evaluate("startShelf('second', ['b://1'])")
        await until_resources(client, "a://1", "b://1")
        first = await page.evaluate(
            "requests.slice(0, requests.findIndex((each) => each.startsWith('second')))"
        )
        assert first.count("initialize") == 2  # of the first server, and because of the second
