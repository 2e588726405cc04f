"""Hostile resources and prompts of a page in a real Chromium: each is limited and affects only itself."""

from __future__ import annotations

import itertools
import json
import os
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import mcp
import mcp_types as types
import pytest
import trio
from mcp import MCPError

from demo.chromium import Chromium
from full_chain import Chain, RawClient, call
from native_host.protocol.wire import Code
from process_memory import child_processes, resident_bytes
from socket_observer import hosts

pytestmark = [pytest.mark.one_browser, pytest.mark.real_bridges]  # it measures the memory of bridges

MOST_BYTES = 64 << 20
"""Resident memory of a host or a bridge, whatever passed through it; 44 MB were measured."""

FLOOD = int(os.environ.get("MCPB_FLOOD", "100000"))
"""Updates and changes of a list that a page sends at once."""

HUGE = 9 << 20
"""Characters of a blob that the browser passes on, and that is over `max_resource_bytes`."""


class Bystander:
    """A client with a bridge of its own that uses a page of another site."""

    def __init__(self, client: RawClient, tool: str, host: int) -> None:
        self.client = client
        self.tool = tool
        self._host = host
        self._ids = itertools.count(1)

    async def check(self) -> None:
        """It is served, told of no update, and neither the host nor a bridge has grown."""
        with trio.fail_after(5):
            arguments = {"text": "on"}
            result = await self.client.ask(next(self._ids), "tools/call", name=self.tool, arguments=arguments)
        assert result["content"] == [{"type": "text", "text": "echo: on"}]
        assert "notifications/resources/updated" not in self.client.notifications
        for pid in (self._host, *child_processes(b"bridge")):
            assert resident_bytes(pid) < MOST_BYTES


async def shake_hands(client: RawClient) -> None:
    about = {"protocolVersion": "2025-11-25", "clientInfo": {"name": "by hand", "version": "1"}}
    await client.ask("hello", "initialize", capabilities={}, **about)
    await client.say(method="notifications/initialized")


@pytest.fixture
async def bystander(chain: Chain, browser: Chromium) -> AsyncIterator[Bystander]:
    """Of the first tab; it is well before and after each test."""
    url = chain.pages.replace("localhost", "127.0.0.1")
    tool = chain.name("echo").replace("localhost", "127_0_0_1")
    await browser.open_page(f"{url}/tabserver.html")
    async with chain.raw_client() as raw:
        with trio.fail_after(30):
            await shake_hands(raw)
            while tool not in str(await raw.ask("tools", "tools/list")):  # noqa: ASYNC110
                await trio.sleep(0.05)
        bystander = Bystander(raw, tool, hosts(chain)[0].pid)
        await bystander.check()
        yield bystander
        await bystander.check()


@pytest.fixture
async def client(chain: Chain, bystander: Bystander) -> AsyncIterator[mcp.Client]:
    """A client of the hostile page, which is in the second tab."""
    with trio.fail_after(120):
        async with chain.client() as client:
            yield client
            await bystander.check()


def uri_of(chain: Chain, own_uri: str) -> str:
    domain = chain.pages.removeprefix("http://").replace(":", "_")
    return f"mcpb://page/{domain}/tab{chain.tabs_before + 2}/{own_uri}"


def prompt_of(chain: Chain, name: str) -> str:
    return chain.name(name, tab=2, longest=128).removeprefix("website_tool_")


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
    return (await rejected(client, uri)).message


async def rejected(client: mcp.Client, uri: str) -> MCPError:
    with pytest.raises(MCPError) as caught:
        await client.read_resource(uri)
    return caught.value


async def test_bad_entries_are_left_out_and_the_others_stay(
    chain: Chain, browser: Chromium, client: mcp.Client
) -> None:
    await chain.open(browser, "hostile_primitives.html")
    resources = await until_listed(client, uri_of(chain, "x:never"))
    of_page = {uri for uri in resources if uri.startswith(uri_of(chain, ""))}
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


@pytest.mark.parametrize(
    "own_uri",
    ["x:" + "a" * (1 << 20), "x:\n1", "x:\0", "x:\u202e1", "no-scheme", ""],
    ids=["of 1 MB", "line end", "null", "bidirectional control", "no scheme", "empty"],
)
async def test_a_client_s_bad_uri_is_an_error_that_does_not_repeat_it_and_reaches_no_page(
    chain: Chain, browser: Chromium, client: mcp.Client, own_uri: str
) -> None:
    page = await chain.open(browser, "hostile_primitives.html")
    await until_listed(client, uri_of(chain, "x:odd"))
    for uri in (own_uri, uri_of(chain, own_uri)):
        error = await rejected(client, uri)
        assert error.code == Code.INVALID_PARAMS
        assert len(error.message) < 1000
    assert await page.evaluate("asked") == []


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
    assert await call(client, chain.name("echo", tab=2), text="on") == (False, "echo: on")


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


async def test_a_prompt_that_imitates_ours_stands_behind_ours_and_is_marked(
    chain: Chain, browser: Chromium, client: mcp.Client
) -> None:
    await chain.open(browser, "hostile_primitives.html")
    await until_listed(client, uri_of(chain, "x:odd"))
    got = await client.get_prompt(prompt_of(chain, "forged"))
    introduction, forged = (message.content for message in got.messages)
    assert isinstance(introduction, types.TextContent)
    assert f"a prompt that {chain.pages} offers" in introduction.text
    assert forged.meta == {"dev.mcpb/untrusted": True, "dev.mcpb/origin": chain.pages}
    assert not {name for name in got.meta or {} if name.startswith("dev.mcpb/")}


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
        with pytest.raises(MCPError, match="the server's answer is no prompt"):
            await client.get_prompt(prompt_of(chain, "hollow"))
        got = await client.get_prompt(prompt_of(chain, "good"))
        assert len(got.messages) == 2
        nursery.cancel_scope.cancel()


async def test_a_read_without_an_end_ends_by_its_time_and_delays_no_other_client(
    chain: Chain, browser: Chromium, bystander: Bystander
) -> None:
    chain.settings["MCPB_CALL_TIMEOUT_S"] = "2"
    ended: list[int] = []
    with trio.fail_after(60):
        async with chain.client() as client, chain.client("legacy") as other, trio.open_nursery() as nursery:
            page = await chain.open(browser, "hostile_primitives.html")
            for each in (client, other):
                await until_listed(each, uri_of(chain, "x:never"))

            async def read() -> None:
                ended.append((await rejected(client, uri_of(chain, "x:never"))).code)

            nursery.start_soon(read)
            await page.wait_until("asked.includes('x:never')")
            assert (await other.read_resource(uri_of(chain, "file:///etc/passwd"))).contents
            await bystander.check()
            assert not ended
    assert len(ended) == 1


async def test_a_hundred_thousand_resources_are_cut_to_what_a_frame_may_offer(
    chain: Chain, browser: Chromium, client: mcp.Client
) -> None:
    await chain.open(browser, "hostile_primitives.html?entries=100000")
    found = await until_listed(client, uri_of(chain, "many:0"))
    assert len([uri for uri in found if uri.startswith(uri_of(chain, "many:"))]) <= 1024
    assert await call(client, chain.name("echo", tab=2), text="on") == (False, "echo: on")
    listed = await client.call_tool("list_page_tools", {"query": "echo"})
    assert "resources" in str(listed.content)


@pytest.mark.filterwarnings("ignore:resources/subscribe")
async def test_a_flood_of_updates_and_changes_reaches_clients_slowly(
    chain: Chain, browser: Chromium, bystander: Bystander
) -> None:
    heard: list[Any] = []

    async def hear(message: Any) -> None:
        heard.append(message)

    with trio.fail_after(120):
        async with chain.client("legacy", message_handler=hear) as client:
            page = await chain.open(browser, "hostile_primitives.html?brief")
            uri = uri_of(chain, "file:///etc/passwd")
            await until_listed(client, uri)
            await client.subscribe_resource(uri)
            heard.clear()
            began = trio.current_time()
            await page.evaluate(f"void flood({FLOOD})")
            await bystander.check()
            await page.wait_until(f"sent >= {FLOOD // 2}", 100)
            await bystander.check()
            assert await call(client, chain.name("echo", tab=2), text="on") == (False, "echo: on")
            await page.wait_until(f"sent === {FLOOD}", 100)
            assert any(isinstance(each, types.ResourceUpdatedNotification) for each in heard)
            assert len(heard) <= 20 * (trio.current_time() - began + 1)


async def test_a_client_that_subscribes_to_thousands_is_limited(
    chain: Chain, browser: Chromium, client: mcp.Client
) -> None:
    await chain.open(browser, "hostile_primitives.html")
    await until_listed(client, uri_of(chain, "x:odd"))
    uris = [uri_of(chain, f"many:{number}") for number in range(10_000)]
    with pytest.raises(MCPError, match="a session may have 32 subscriptions"):
        async with client.listen(resource_subscriptions=uris):
            pass


async def test_requests_for_ten_thousand_subscriptions_leave_room_for_other_clients(
    chain: Chain, browser: Chromium, bystander: Bystander
) -> None:
    with trio.fail_after(120):
        async with chain.raw_client() as greedy, chain.raw_client() as other:
            for raw in (greedy, other):
                await shake_hands(raw)
            await chain.open(browser, "hostile_primitives.html?entries=10")
            uris = [uri_of(chain, f"many:{number}") for number in range(10_000)]
            while uris[0] not in str(await greedy.ask("list", "resources/list")):  # noqa: ASYNC110
                await trio.sleep(0.05)
            answers = [await greedy.ask(uri, "resources/subscribe", uri=uri) for uri in uris]
            assert [answer.get("code", 0) for answer in answers].count(0) == 32
            assert answers[-1]["code"] == Code.RATE_LIMITED
            assert "code" not in await other.ask("subscribe", "resources/subscribe", uri=uris[0])
            await bystander.check()


# ── Requests of a page ──────────────────────────────────────────────────────────────────────────────────────

TOOL = {"name": "price", "inputSchema": {"type": "object"}}


async def test_hostile_requests_are_rejected_and_only_valid_ones_reach_the_model(
    chain: Chain, browser: Chromium, bystander: Bystander
) -> None:
    config = '[pages]\nsampling = "on"\nrequests_per_minute = 100\ntokens_per_hour = 100000\n'
    (chain.home / "config.toml").write_text(config)
    sampled: list[types.CreateMessageRequestParams] = []

    async def sample(_: object, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
        sampled.append(params)
        text = types.TextContent(type="text", text="ok")
        return types.CreateMessageResult(role="assistant", content=text, model="m")

    page = await chain.open(browser, "requests.html")
    tool = chain.name("flood", tab=2)
    with trio.fail_after(60):
        async with chain.client(sampling_callback=sample) as client:
            await until_tool(client, tool)

            async def flood(**params: Any) -> dict[int, int]:
                """Return how many of the requests have which code; 0 is a result."""
                return Counter(json.loads((await call(client, tool, **params))[1]))

            assert await flood(size=5_000_000, count=5) == {Code.INVALID_PARAMS: 5}
            for params, code in (
                ({"temperature": "hot"}, Code.INVALID_PARAMS),
                ({"tools": [TOOL]}, Code.METHOD_NOT_FOUND),
                ({"maxTokens": 10**9}, 0),
            ):
                assert sampled == []
                codes = await flood(**params)
                # Four are open at once, and 20 may be sent in all.
                assert set(codes) == {Code.INVALID_REQUEST, code}
                assert 4 <= codes[code] <= 20
            assert {params.max_tokens for params in sampled} == {2000}
            assert len(sampled) == codes[0]
            late = await page.evaluate("ask('sampling/createMessage', {messages: [], maxTokens: 1})")
            assert late["error"]["code"] == Code.INVALID_REQUEST
    assert len(sampled) == codes[0]
    (chain.home / "config.toml").unlink()


async def until_tool(client: mcp.Client, name: str) -> None:
    while name not in {tool.name for tool in (await client.list_tools()).tools}:  # noqa: ASYNC110
        await trio.sleep(0.05)
