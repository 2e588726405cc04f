"""The beginning and the end of an answer, and tools for who develops clients."""

from pathlib import Path

import pytest
import trio
import trio.testing

from bridge.browser_tools.page.page import Page
from bridge.errors import CallError
from fake_tool_client import SESSION, SHOP, PlayedTools, at, own_tab
from native_host import __version__
from native_host.protocol import wire
from native_host.protocol.wire import Code


@pytest.fixture
def tools(nursery: trio.Nursery, tmp_path: Path) -> PlayedTools:
    played = PlayedTools(nursery, tmp_path)
    played.connect(own_tab(1), own_tab(2), at(SHOP, 3))
    return played


async def test_a_model_that_begins_to_answer_lets_go_of_tabs_in_which_nothing_captures(
    tools: PlayedTools,
) -> None:
    kept = tools.tools.runner.state_of(tools.session)
    pages = kept.pages
    for tab_id in (1, 2):
        page = pages["h1", tab_id] = Page(tools.transport, "h1", tab_id, SESSION, kept.numbering)
        page.begin_subscription()
    pages["h1", 2].holds.add("console")
    told = await tools.call("turn_answer_start")
    assert told.text == "Go on with your answer. 1 tab of yours is still captured."
    assert [asked.tab.tab_id for asked in tools.transport.given_up] == [1]
    assert (told.structured["ownTabs"], told.structured["capturingTabs"]) == (2, 1)


async def test_after_the_answer_it_is_told_what_stays_open(tools: PlayedTools) -> None:
    assert (await tools.call("turn_answer_complete")).text == (
        "Noted. 2 tabs of yours stay open; tabs_close_mcp closes what the user does not need."
    )
    await tools.call("tabs_close_mcp", tabId=1)
    assert "1 tab of yours stays open" in (await tools.call("turn_answer_complete")).text
    await tools.call("tabs_close_mcp", tabId=2)
    assert (await tools.call("turn_answer_complete")).text == "Noted."


async def test_versions_session_and_browsers_are_told(tools: PlayedTools) -> None:
    told = await tools.call("dev_utils")
    info = told.structured["info"]
    assert info["mcpb"] == __version__
    assert info["session"]["id"] == SESSION[:8]
    assert info["session"]["canAskTheUser"] is False
    assert info["browsers"] == [{"deviceId": "p1", "name": "Chromium 156", "extension": "0.2.0", "tabs": 3}]


async def test_an_echo_gives_back_the_text(tools: PlayedTools) -> None:
    assert (await tools.call("dev_utils", action="echo", text="tea", other=1)).text == "tea"


async def test_a_delay_waits_so_long_and_no_longer_than_ten_seconds(
    tools: PlayedTools, autojump_clock: trio.testing.MockClock
) -> None:
    began = trio.current_time()
    assert (await tools.call("dev_utils", action="delay", seconds="2.5")).text == "2.5 s have passed."
    assert trio.current_time() - began == pytest.approx(2.5)
    for wrong in (10.5, -1):
        assert "from 0 to 10" in await tools.ask_fails("dev_utils", action="delay", seconds=wrong)


async def test_a_failure_on_demand_and_an_action_that_there_is_not(tools: PlayedTools) -> None:
    assert await tools.ask_fails("dev_utils", action="fail", text="no tea") == "no tea"
    said = await tools.ask_fails("dev_utils", action="reset")
    assert said == "There is no action reset; there are info, echo, delay and fail."


async def test_who_reads_a_page_that_hangs_is_told_that_nothing_was_changed(tools: PlayedTools) -> None:
    tools.devtools["Page.getFrameTree"] = CallError(Code.TIMED_OUT, "no answer", handed=True)
    said = await tools.ask_fails("read_page", tabId=1)
    assert "The page is busy" in said
    assert "Nothing was changed." in said
    assert "It may have run" in await tools.ask_fails("form_input", tabId=1, ref="ref_1", value="tea")


async def test_a_tab_of_one_s_own_that_was_closed_is_not_there_any_more(tools: PlayedTools) -> None:
    for tab_id in (2, 1):
        await tools.ask_fails("read_page", tabId=tab_id)  # from now on it is the current one
        tools.transport.announce("h1", wire.TabRemoved(tab_id=tab_id))
    assert "You have no tab any more." in await tools.ask_fails("read_page")
