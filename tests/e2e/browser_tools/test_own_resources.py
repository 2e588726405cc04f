"""The browser's own resources in a real Chromium: types, rules, and the current tab."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import mcp_types as types
import pytest
import trio
from mcp import Client, MCPError

from tool_browser import Browsing, Tools

MARK = "dev.mcpb/untrusted"


def read(tools: Tools, uri: str) -> types.TextResourceContents | types.BlobResourceContents:
    """The one content of a resource."""
    (content,) = tools.run(tools.client.read_resource, uri).contents
    assert content.uri == uri
    return content


def text_of(tools: Tools, uri: str, mime_type: str = "text/plain") -> str:
    content = read(tools, uri)
    assert isinstance(content, types.TextResourceContents)
    assert content.mime_type == mime_type
    return content.text


def json_of(tools: Tools, uri: str) -> Any:
    return json.loads(text_of(tools, uri, "application/json"))


def blob_of(tools: Tools, uri: str) -> tuple[str | None, bytes]:
    content = read(tools, uri)
    assert isinstance(content, types.BlobResourceContents)
    return content.mime_type, b64decode(content.blob)


def listed(tools: Tools) -> dict[str, types.Resource]:
    found = tools.run(tools.client.list_resources).resources
    return {str(resource.uri): resource for resource in found}


@contextmanager
def rejected(code: int, words: str) -> Iterator[None]:
    with pytest.raises(MCPError, match=words) as caught:
        yield
    assert caught.value.code == code


def test_a_tab_is_read_as_text_and_as_an_outline(tools: Tools, browsing: Browsing) -> None:
    tab_id = tools.open_site("article.html")
    for part, tool in (("text", "get_page_text"), ("outline", "read_page")):
        uri = f"mcpb://tab/{tab_id}/{part}"
        content = read(tools, uri)
        assert isinstance(content, types.TextResourceContents)
        assert content.meta == {MARK: True, "dev.mcpb/origin": browsing.site.url}
        structured = tools.done(tool, tabId=tab_id).structured
        assert structured["text" if part == "text" else "outline"].strip() in content.text
    whole = text_of(tools, f"mcpb://tab/{tab_id}/text")
    part = text_of(tools, f"mcpb://tab/{tab_id}/text?offset=20&limit=30")
    assert part.splitlines()[-1] in whole
    assert len(part) < len(whole)


def test_a_tab_is_seen_as_a_picture_and_as_a_pdf(tools: Tools) -> None:
    tab_id = tools.open_site("article.html")
    mime_type, picture = blob_of(tools, f"mcpb://tab/{tab_id}/screenshot")
    assert mime_type in ("image/png", "image/jpeg")
    assert picture.startswith((b"\x89PNG", b"\xff\xd8\xff"))
    mime_type, printed = blob_of(tools, f"mcpb://tab/{tab_id}/pdf")
    assert mime_type == "application/pdf"
    assert printed.startswith(b"%PDF-")


def test_console_and_network_are_json(tools: Tools) -> None:
    tab_id = tools.open_site("article.html")
    assert json_of(tools, f"mcpb://tab/{tab_id}/console")["messages"] == []
    assert "requests" in json_of(tools, f"mcpb://tab/{tab_id}/network")
    script = "console.error('no tea'), fetch('article.html').then((response) => response.text())"
    tools.look(tab_id).evaluate(script)
    messages = json_of(tools, f"mcpb://tab/{tab_id}/console")["messages"]
    assert [(message["level"], message["text"]) for message in messages] == [("error", "no tea")]
    requests = json_of(tools, f"mcpb://tab/{tab_id}/network")["requests"]
    assert any(request["url"].endswith("article.html") for request in requests)


def test_pictures_and_gifs_are_read_by_their_links(tools: Tools) -> None:
    tools.open_site("article.html")
    (link,) = tools.done("computer", action="screenshot").links
    mime_type, picture = blob_of(tools, str(link.uri))
    assert (mime_type, len(picture)) == (link.mime_type, link.size)
    assert listed(tools)[str(link.uri)].size == link.size
    tools.done("gif_creator", action="start_recording")
    tools.done("computer", action="screenshot")
    (link,) = tools.done("gif_creator", action="export").links
    mime_type, picture = blob_of(tools, str(link.uri))
    assert mime_type == "image/gif"
    assert picture.startswith(b"GIF8")


def test_the_tabs_are_listed_and_the_current_one_stays(tools: Tools) -> None:
    first, second = tools.open_site("article.html"), tools.open_site("tall.html")
    uris = listed(tools)
    for tab_id in (first, second):
        for part in ("text", "outline", "screenshot", "console", "network", "pdf"):
            assert f"mcpb://tab/{tab_id}/{part}" in uris
    text_of(tools, f"mcpb://tab/{first}/text")
    tabs = json_of(tools, "mcpb://tabs")
    assert {first, second} <= {tab["tabId"] for tab in tabs["availableTabs"]}
    assert tabs["selectedTabId"] == second
    assert "/tall.html" in text_of(tools, "mcpb://tab/current/text")


def test_status_and_calls_are_those_of_this_session(tools: Tools, browsing: Browsing) -> None:
    tools.open_site("article.html")
    (browser,) = json_of(tools, "mcpb://status")["browsers"]
    assert browser["isConnected"]
    tools.refused("computer", action="screenshot", tabId=99_999)
    newest, *_ = [call for call in json_of(tools, "mcpb://calls")["calls"] if "kind" not in call]
    assert (newest["name"], newest["outcome"]) == ("computer", "no_such_tab")
    with browsing.client() as other:
        assert json_of(other, "mcpb://calls")["calls"] == []


def test_what_the_tool_may_not_do_the_resource_may_not_either(tools: Tools, browsing: Browsing) -> None:
    users_tab = browsing.open_as_user(f"{browsing.site.url}/article.html")
    for part in ("text", "outline", "screenshot", "console", "network", "pdf"):
        with rejected(-32016, "not yours"):
            read(tools, f"mcpb://tab/{users_tab}/{part}")
    with rejected(-32001, "No such tab"):
        read(tools, "mcpb://tab/99999/text")


@pytest.mark.parametrize(
    "uri", ["mcpb://tab/1/cookies", "mcpb://tab/x/text", "mcpb://pictures/none", "mcpb://tree"]
)
def test_what_is_not_there_has_the_code_of_the_era(tools: Tools, uri: str) -> None:
    with rejected(-32602, "does not exist"):
        read(tools, uri)


def test_read_resource_reads_them_too(tools: Tools) -> None:
    tab_id = tools.open_site("article.html")
    uri = f"mcpb://tab/{tab_id}/text"
    result = tools.run(tools.client.call_tool, "read_resource", {"uri": uri, "max_chars": 40})
    (embedded,) = [block.resource for block in result.content if isinstance(block, types.EmbeddedResource)]
    assert isinstance(embedded, types.TextResourceContents)
    assert embedded.text == text_of(tools, uri)[:40]


# ── Subscriptions ───────────────────────────────────────────────────────────────────────────────────────────


class Watching:
    """A client that subscribes to resources of its tab."""

    def __init__(self, browsing: Browsing) -> None:
        self.site = browsing.site.url
        self.updates: list[str] = []
        self.client: Client
        self.tab = 0

    async def receive(self, message: object) -> None:
        if isinstance(message, types.ResourceUpdatedNotification):
            self.updates.append(str(message.params.uri).rpartition("/")[2])

    async def call(self, name: str, **arguments: Any) -> types.CallToolResult:
        result = await self.client.call_tool(name, arguments)
        assert not result.is_error, result.content
        return result

    async def run_script(self, script: str) -> None:
        await self.call("javascript_tool", action="javascript_exec", text=script, tabId=self.tab)

    async def open(self) -> None:
        result = await self.call("navigate", url=f"{self.site}/article.html")
        assert result.structured_content
        self.tab = result.structured_content["tabId"]

    async def subscribe(self, *parts: str) -> None:
        for part in parts:
            await self.client.subscribe_resource(f"mcpb://tab/{self.tab}/{part}")

    async def until_updated(self, *parts: str) -> None:
        while not set(parts) <= set(self.updates):  # noqa: ASYNC110 - notifications add to it
            await trio.sleep(0.01)
        self.updates.clear()


def watch(browsing: Browsing, test: Callable[[Watching], Awaitable[None]]) -> None:
    async def run() -> None:
        watching = Watching(browsing)
        with trio.fail_after(60):
            async with browsing.chain.client("legacy", watching.receive) as watching.client:
                await watching.open()
                await test(watching)

    browsing.run_long(run)


DEPRECATED = pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")


@DEPRECATED
def test_subscribers_learn_of_changes_entries_and_navigations(browsing: Browsing) -> None:
    async def test(watching: Watching) -> None:
        await watching.subscribe("text", "outline", "console", "screenshot")
        await watching.run_script("document.body.append('more')")
        await watching.until_updated("text", "outline")
        await watching.run_script("console.log('tea')")
        await watching.until_updated("console")
        await watching.call("navigate", url=f"{watching.site}/tall.html", tabId=watching.tab)
        await watching.until_updated("text", "outline", "console", "screenshot")
        await watching.run_script("document.body.append('more')")
        await watching.until_updated("text")

    watch(browsing, test)


@DEPRECATED
def test_requests_of_a_page_update_its_network(browsing: Browsing) -> None:
    async def test(watching: Watching) -> None:
        await watching.subscribe("network")
        await watching.run_script("fetch('article.html')")
        await watching.until_updated("network")

    watch(browsing, test)


@DEPRECATED
def test_after_the_end_of_a_subscription_nothing_is_reported(browsing: Browsing) -> None:
    async def test(watching: Watching) -> None:
        await watching.subscribe("text", "console")
        await watching.client.unsubscribe_resource(f"mcpb://tab/{watching.tab}/text")
        await watching.run_script("document.body.append('more'), console.log('tea')")
        await watching.until_updated("console")
        await watching.run_script("console.log('more tea')")
        while "console" not in watching.updates:  # noqa: ASYNC110 - a second later at the earliest
            await trio.sleep(0.01)
        assert "text" not in watching.updates

    watch(browsing, test)


@DEPRECATED
def test_a_subscriber_is_notified_once_a_second_at_most(browsing: Browsing) -> None:
    async def test(watching: Watching) -> None:
        await watching.subscribe("text")
        await watching.run_script("void setInterval(() => document.body.append('more'), 10)")
        await watching.until_updated("text")
        began = trio.current_time()
        while len(watching.updates) < 2:  # noqa: ASYNC110 - notifications add to it
            await trio.sleep(0.01)
        assert trio.current_time() - began > 1.5

    watch(browsing, test)


@DEPRECATED
def test_a_tab_of_the_user_cannot_be_subscribed_to(browsing: Browsing) -> None:
    async def test(watching: Watching) -> None:
        watching.tab = users_tab
        with pytest.raises(MCPError) as caught:
            await watching.subscribe("text")
        assert caught.value.code == -32016

    users_tab = browsing.open_as_user(f"{browsing.site.url}/article.html")
    watch(browsing, test)
