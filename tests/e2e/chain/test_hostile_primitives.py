"""Hostile resources and prompts of a page in a real Chromium: each is limited and affects only itself."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import mcp
import mcp_types as types
import pytest
import trio
from mcp import MCPError

from demo.chromium import Chromium
from full_chain import Chain, call

pytestmark = pytest.mark.one_browser

HUGE = 9 << 20
"""Characters of a blob that the browser passes on, and that is over `max_resource_bytes`."""


@pytest.fixture
async def client(chain: Chain, browser: Chromium) -> AsyncIterator[mcp.Client]:
    """A client beside a page of another site whose tools always work."""
    with trio.fail_after(120):
        async with chain.client() as client:
            yield client


def uri_of(chain: Chain, own_uri: str, tab: int = 1) -> str:
    domain = chain.pages.removeprefix("http://").replace(":", "_")
    return f"mcpb://page/{domain}/tab{chain.tabs_before + tab}/{own_uri}"


def prompt_of(chain: Chain, name: str) -> str:
    return chain.name(name, longest=128).removeprefix("website_tool_")


async def all_resources(client: mcp.Client) -> dict[str, types.Resource]:
    found: dict[str, types.Resource] = {}
    cursor = None
    while True:
        page = await client.list_resources(cursor=cursor)
        found |= {str(resource.uri): resource for resource in page.resources}
        if (cursor := page.next_cursor) is None:
            return found


async def until_listed(client: mcp.Client, uri: str) -> dict[str, types.Resource]:
    while uri not in (found := await all_resources(client)):  # noqa: ASYNC110
        await trio.sleep(0.05)
    return found


async def refused(client: mcp.Client, uri: str) -> str:
    with pytest.raises(MCPError) as caught:
        await client.read_resource(uri)
    return caught.value.message


async def test_bad_entries_are_left_out_and_the_others_stay(
    chain: Chain, browser: Chromium, client: mcp.Client
) -> None:
    await chain.open(browser, "hostile_primitives.html")
    resources = await until_listed(client, uri_of(chain, "x:never"))
    of_page = {uri.rpartition("/tab1/")[2] or uri for uri in resources if uri.startswith(uri_of(chain, ""))}
    assert len(of_page) == 9
    assert all(name in resources for name in (uri_of(chain, "x:odd"), uri_of(chain, "file:///etc/passwd")))
    odd = resources[uri_of(chain, "x:odd")]
    assert (odd.size, odd.mime_type, odd.annotations) == (None, None, None)
    prompts = {prompt.name for prompt in (await client.list_prompts()).prompts}
    assert prompts >= {prompt_of(chain, "good"), prompt_of(chain, "hollow")}
    assert prompt_of(chain, "many") not in prompts


async def test_a_uri_of_a_file_is_a_name_like_any_other(
    chain: Chain, browser: Chromium, client: mcp.Client
) -> None:
    page = await chain.open(browser, "hostile_primitives.html")
    await until_listed(client, uri_of(chain, "file:///etc/passwd"))
    for uri in (uri_of(chain, "file:///etc/passwd"), "file:///etc/passwd"):
        (content,) = (await client.read_resource(uri)).contents
        assert isinstance(content, types.TextResourceContents)
        assert content.text == "a word of the page"
    assert await page.evaluate("asked") == ["file:///etc/passwd"] * 2


async def test_invalid_and_large_contents_are_errors_of_that_page(
    chain: Chain, browser: Chromium, client: mcp.Client
) -> None:
    await chain.open(browser, f"hostile_primitives.html?huge={HUGE}")
    await until_listed(client, uri_of(chain, "x:never"))
    for own_uri, said in (
        ("x:base64", "the blob of a content is not base64"),
        ("x:empty", "it has no contents"),
        ("x:both", "a content has either text or blob"),
        ("x:huge", "max_resource_bytes in config.toml is 8388608"),
        ("x:broken", f'{chain.pages}: {{"odd":true}}'),
    ):
        assert said in await refused(client, uri_of(chain, own_uri))


async def test_a_blob_over_the_size_of_a_message_fails_alone(
    chain: Chain, browser: Chromium, client: mcp.Client
) -> None:
    await chain.open(browser, "hostile_primitives.html")
    await until_listed(client, uri_of(chain, "x:huge"))
    assert "too large" in (await refused(client, uri_of(chain, "x:huge"))).lower()
    assert await call(client, chain.name("echo"), text="on") == (False, "echo: on")


async def test_imitated_marks_are_text_and_a_foreign_uri_stays_the_page_s(
    chain: Chain, browser: Chromium, client: mcp.Client
) -> None:
    await chain.open(browser, "hostile_primitives.html")
    await until_listed(client, uri_of(chain, "x:forged"))
    (content,) = (await client.read_resource(uri_of(chain, "x:forged"))).contents
    assert content.uri == uri_of(chain, "https://bank.example/")
    assert content.meta == {
        "dev.mcpb/untrusted": True,
        "dev.mcpb/origin": chain.pages,
        "dev.mcpb/uri": "https://bank.example/",
    }


async def test_a_template_is_never_a_regular_expression(
    chain: Chain, browser: Chromium, client: mcp.Client
) -> None:
    await chain.open(browser, "hostile_primitives.html")
    await until_listed(client, uri_of(chain, "x:odd"))
    with trio.fail_after(5):
        assert "does not exist" in await refused(client, f"t:{'a' * 1500}")


async def test_a_hollow_prompt_is_an_error_and_a_read_without_an_end_delays_no_other(
    chain: Chain, browser: Chromium, client: mcp.Client
) -> None:
    page = await chain.open(browser, "hostile_primitives.html")
    await until_listed(client, uri_of(chain, "x:never"))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.read_resource, uri_of(chain, "x:never"))
        await page.wait_until("asked.includes('x:never')")
        with pytest.raises(MCPError, match="the page's answer is no prompt"):
            await client.get_prompt(prompt_of(chain, "hollow"))
        got = await client.get_prompt(prompt_of(chain, "good"))
        assert len(got.messages) == 2
        nursery.cancel_scope.cancel()


async def test_a_hundred_thousand_resources_are_cut_to_what_a_frame_may_offer(
    chain: Chain, browser: Chromium, client: mcp.Client
) -> None:
    await chain.open(browser, "hostile_primitives.html?entries=100000")
    found = await until_listed(client, uri_of(chain, "many:0"))
    assert len([uri for uri in found if uri.startswith(uri_of(chain, "many:"))]) <= 1024
    assert await call(client, chain.name("echo"), text="on") == (False, "echo: on")
    listed = await client.call_tool("list_page_tools", {"query": "echo"})
    assert "resources" in str(listed.content)


@pytest.mark.filterwarnings("ignore:resources/subscribe")
async def test_a_flood_of_updates_and_changes_reaches_clients_slowly(chain: Chain, browser: Chromium) -> None:
    heard: list[Any] = []

    async def hear(message: Any) -> None:
        heard.append(message)

    with trio.fail_after(120):
        async with chain.client("legacy", message_handler=hear) as client:
            page = await chain.open(browser, "hostile_primitives.html")
            uri = uri_of(chain, "file:///etc/passwd")
            await until_listed(client, uri)
            await client.subscribe_resource(uri)
            heard.clear()
            await page.evaluate("flood(30000)")
            began = trio.current_time()
            assert await call(client, chain.name("echo"), text="on") == (False, "echo: on")
            seconds = trio.current_time() - began + 1
            assert len(heard) <= 20 * seconds
            assert any(isinstance(each, types.ResourceUpdatedNotification) for each in heard)


async def test_a_client_that_subscribes_to_thousands_is_limited(
    chain: Chain, browser: Chromium, client: mcp.Client
) -> None:
    await chain.open(browser, "hostile_primitives.html")
    await until_listed(client, uri_of(chain, "x:odd"))
    uris = [uri_of(chain, f"many:{number}") for number in range(10_000)]
    with pytest.raises(MCPError, match="a session may have 32 subscriptions"):
        async with client.listen(resource_subscriptions=uris):
            pass
