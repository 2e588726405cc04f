"""Prompts of mcpb and of the user, in a real Chromium and through the mcp package's client."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import mcp_types as types
import pytest
import trio
from mcp import MCPError

from tool_browser import Browsing, Tools

GREETING = "+++\ntitle = 'Greet'\n[[argument]]\nname = 'tab'\ndefault = 'current'\n+++\nHello.\n@embed mcpb://tab/{tab}/text\n"


@pytest.fixture
def greeting(browsing: Browsing) -> Iterator[Path]:
    """A prompt file of the user."""
    directory = browsing.chain.home / "prompts"
    directory.mkdir(mode=0o700, exist_ok=True)
    path = directory / "greet.md"
    path.write_text(GREETING)
    path.chmod(0o600)
    yield path
    path.unlink(missing_ok=True)


def prompts(tools: Tools) -> dict[str, types.Prompt]:
    return {prompt.name: prompt for prompt in tools.run(tools.client.list_prompts).prompts}


def embedded(result: types.GetPromptResult) -> dict[str, str]:
    """The texts of embedded resources, by URI."""
    found = {}
    for message in result.messages:
        if isinstance(message.content, types.EmbeddedResource):
            resource = message.content.resource
            assert isinstance(resource, types.TextResourceContents)
            assert resource.meta is not None
            assert resource.meta["dev.mcpb/untrusted"] is True
            found[str(resource.uri)] = resource.text
    return found


def test_debug_page_embeds_what_the_page_shows_and_has_written(tools: Tools) -> None:
    tab_id = tools.open_site("article.html")
    console = f"mcpb://tab/{tab_id}/console"
    tools.run(tools.client.read_resource, console)  # captured from now on
    tools.look(tab_id).evaluate("console.error('no tea')")
    result = tools.run(tools.client.get_prompt, "debug-page", {"tab": f"tab={tab_id}"})
    found = embedded(result)
    assert list(found) == [console, f"mcpb://tab/{tab_id}/network", f"mcpb://tab/{tab_id}/outline"]
    assert "no tea" in found[console]
    assert "heading" in found[f"mcpb://tab/{tab_id}/outline"]
    assert {message.role for message in result.messages} == {"user", "assistant"}


def test_the_others_embed_texts_and_outlines(tools: Tools) -> None:
    first, second = tools.open_site("article.html"), tools.open_site("tall.html")
    get = tools.client.get_prompt
    assert list(embedded(tools.run(get, "explain-page", {}))) == ["mcpb://tab/current/text"]
    filled = tools.run(get, "fill-form", {"data": "Ada", "tab": str(first)})
    assert list(embedded(filled)) == [f"mcpb://tab/{first}/outline"]
    compared = tools.run(get, "compare-tabs", {"first": str(first), "second": str(second)})
    assert list(embedded(compared)) == [f"mcpb://tab/{first}/text", f"mcpb://tab/{second}/text"]


def test_a_tab_of_the_user_is_explained_with_how_to_hand_it_over(tools: Tools, browsing: Browsing) -> None:
    users_tab = browsing.open_as_user(f"{browsing.site.url}/article.html")
    with pytest.raises(MCPError, match="choose “Let agents control this tab”") as caught:
        tools.run(tools.client.get_prompt, "explain-page", {"tab": str(users_tab)})
    assert caught.value.code == -32016


def test_a_prompt_file_is_served_in_its_new_form_once_it_has_changed(
    tools: Tools, greeting: Path, browsing: Browsing
) -> None:
    tools.open_site("article.html")
    before = prompts(tools)["greet"]
    assert before.title == "Greet"
    hello, page = tools.run(tools.client.get_prompt, "greet", {}).messages
    assert isinstance(hello.content, types.TextContent)
    assert hello.content.text == "Hello."
    assert isinstance(page.content, types.EmbeddedResource)
    greeting.write_text("Good bye.")
    after = prompts(tools)["greet"]
    assert after.meta != before.meta
    (message,) = tools.run(tools.client.get_prompt, "greet", {}).messages
    assert isinstance(message.content, types.TextContent)
    assert message.content.text == "Good bye."


def test_a_prompt_file_that_other_users_could_write_is_not_served(tools: Tools, greeting: Path) -> None:
    greeting.chmod(0o622)
    assert "greet" not in prompts(tools)
    with pytest.raises(MCPError) as caught:
        tools.run(tools.client.get_prompt, "greet", {})
    assert caught.value.code == -32602


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_new_prompt_file_is_notified_of(browsing: Browsing, greeting: Path, mode: str) -> None:
    greeting.unlink()

    async def until_notified() -> None:
        changed = trio.Event()

        async def receive(message: object) -> None:
            if isinstance(message, types.PromptListChangedNotification):
                changed.set()

        with trio.fail_after(30):
            async with browsing.chain.client("legacy", receive) as client:
                await client.list_prompts()
                greeting.write_text("New.")
                greeting.chmod(0o600)
                await changed.wait()

    async def until_event() -> None:
        with trio.fail_after(30):
            async with browsing.chain.client("auto") as client:
                await client.list_prompts()
                async with client.listen(prompts_list_changed=True) as events:
                    greeting.write_text("New.")
                    greeting.chmod(0o600)
                    async for _ in events:
                        return

    browsing.thread.run(until_notified if mode == "legacy" else until_event)


def test_tabs_are_completed_for_prompts_and_templates(tools: Tools) -> None:
    tab_id = str(tools.open_site("article.html"))
    prompt = types.PromptReference(type="ref/prompt", name="debug-page")
    template = types.ResourceTemplateReference(type="ref/resource", uri="mcpb://tab/{tabId}/outline")
    for reference, name in ((prompt, "tab"), (template, "tabId")):
        whole = tools.run(tools.client.complete, reference, {"name": name, "value": ""})
        assert {"current", tab_id} <= set(whole.completion.values)
        some = tools.run(tools.client.complete, reference, {"name": name, "value": tab_id})
        assert set(some.completion.values) <= {
            value for value in whole.completion.values if value.startswith(tab_id)
        }
