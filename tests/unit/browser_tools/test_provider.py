"""The list of browser tools by client, and how long the tools hold a tab: while it is used and exists."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
import trio.testing

from bridge.browser_tools.provider import SCAN_INTERVAL_S
from bridge.browser_tools.tool_runner import CHOOSER_S, IDLE_S
from bridge.hub.tool_schema import Era
from fake_tool_client import PlayedTools, own_tab
from native_host.protocol import wire


@pytest.fixture
def tools(nursery: trio.Nursery, tmp_path: Path) -> PlayedTools:
    played = PlayedTools(nursery, tmp_path)
    nursery.start_soon(played.tools.run_forever)
    played.connect(own_tab(1), own_tab(2))
    return played


def held(tools: PlayedTools) -> list[int]:
    """The tabs whose events are heard."""
    given_up = {id(asked.params) for asked in tools.transport.given_up}
    return [params.tab_id for params in tools.sent("subscribeCDP") if id(params) not in given_up]


def kept_choosers(tools: PlayedTools) -> list[bool]:
    """What the tab was told of them."""
    commands = [each for each in tools.sent("forwardCDPCommand") if "FileChooser" in each.method]
    return [msgspec.json.decode(each.params)["enabled"] for each in commands]


def pages(tools: PlayedTools) -> dict[tuple[str, int], Any]:
    return tools.tools.runner.state_of(tools.session).pages


@pytest.mark.parametrize(
    ("client", "is_listed"), [("claude-in-chrome", True), ("Claude-In-Chrome", True), ("claude-code", False)]
)
async def test_clients_of_claude_in_chrome_are_listed_all_tools_and_other_clients_the_configured_set(
    tools: PlayedTools, client: str, is_listed: bool
) -> None:
    tools.session.client = wire.ClientInfo(name=client)
    listed = {
        tool["name"] for tool in tools.tools.definitions(Era.STATELESS, tools.tools.form_of(tools.session))
    }
    only_theirs = {
        "tabs_context_mcp",
        "tabs_create_mcp",
        "turn_answer_start",
        "turn_answer_complete",
        "dev_utils",
    }
    assert listed & only_theirs == (only_theirs if is_listed else set())
    assert {"navigate", "javascript_tool", "permissions_check"} <= listed


async def test_a_tab_that_is_not_used_is_let_go_and_one_that_is_used_is_not(
    tools: PlayedTools, autojump_clock: trio.testing.MockClock
) -> None:
    await tools.call("read_page", tabId=1)
    await tools.call("read_page", tabId=2)
    assert held(tools) == [1, 2]
    await trio.sleep(IDLE_S - 1)
    await tools.call("read_page", tabId=2)
    await trio.sleep(SCAN_INTERVAL_S + 2)
    assert held(tools) == [2]
    assert sorted(pages(tools)) == [("h1", 1), ("h1", 2)]


async def test_nothing_is_kept_of_a_tab_that_is_gone(
    tools: PlayedTools, autojump_clock: trio.testing.MockClock
) -> None:
    await tools.call("read_page", tabId=1)
    tools.transport.announce("h1", wire.TabRemoved(tab_id=1))
    await trio.sleep(SCAN_INTERVAL_S + 1)
    assert held(tools) == []
    assert pages(tools) == {}


async def test_choosers_of_files_are_the_person_s_again_a_moment_after_the_last_action(
    tools: PlayedTools, autojump_clock: trio.testing.MockClock
) -> None:
    await tools.call("read_page", tabId=1)
    tools.devtools["Page.setInterceptFileChooserDialog"] = {}
    await pages(tools)[("h1", 1)].keep_choosers()
    assert kept_choosers(tools) == [True]
    await trio.sleep(CHOOSER_S - 1)
    assert kept_choosers(tools) == [True]
    await trio.sleep(SCAN_INTERVAL_S + 2)
    assert kept_choosers(tools) == [True, False]
    await trio.sleep(IDLE_S)
    assert kept_choosers(tools) == [True, False]
    assert held(tools) == []
    await pages(tools)[("h1", 1)].keep_choosers()
    await tools.router.release(tools.session)
    assert kept_choosers(tools) == [True, False, True, False]


async def test_a_session_s_end_lets_all_go(
    tools: PlayedTools, autojump_clock: trio.testing.MockClock
) -> None:
    await tools.call("read_page", tabId=1)
    await tools.router.release(tools.session)
    assert held(tools) == []
    assert pages(tools) == {}
