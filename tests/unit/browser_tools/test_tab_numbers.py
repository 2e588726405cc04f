"""Tab numbers: one for each tab, the same in every session, and never one of a wrong tab."""

from pathlib import Path
from typing import Any

import pytest
import trio

from bridge.hub.transport import HostLost
from fake_tool_client import SESSION, SHOP, PlayedTools, at
from native_host.protocol import wire

CHROMIUM_ID = 1_977_398_476
"""As Chromium 150 chooses ids of tabs."""
NUMBERED = ("forwardCDPCommand", "documentId", "tabNumbers")


@pytest.fixture
def tools(nursery: trio.Nursery, tmp_path: Path) -> PlayedTools:
    return PlayedTools(nursery, tmp_path, tabs="any")


def tab_of(tab_id: int, number: int, owner: str | None = SESSION, **fields: Any) -> wire.Tab:
    return at(f"{SHOP}/", tab_id, ordinal=number, owner=owner, **fields)


def connect_two(tools: PlayedTools, work: wire.Tab, home: wire.Tab) -> None:
    tools.connect(work, host="h1", profile="work", label="Work", pid=1, commands=NUMBERED)
    tools.connect(home, host="h2", profile="home", label="Home", pid=2, commands=NUMBERED)


def closed(tools: PlayedTools) -> list[tuple[str, int]]:
    """The tabs that browsers were asked to close."""
    asked = [each for each in tools.transport.asked if each.method == "closeTab"]
    return [(each.tab.host, each.params.tab_id) for each in asked if isinstance(each.params, wire.OfTab)]


async def test_results_have_the_number_and_calls_may_have_the_number_or_the_browsers_id(
    tools: PlayedTools,
) -> None:
    tools.connect(tab_of(CHROMIUM_ID, 3), tab_of(CHROMIUM_ID + 1, 4), commands=NUMBERED)
    listed = (await tools.call("tabs_context")).structured
    assert [each["tabId"] for each in listed["availableTabs"]] == [3, 4]
    assert (await tools.call("tabs_close_mcp", tabId=4)).text == "Closed tab 4."
    assert (await tools.call("tabs_close_mcp", tabId=CHROMIUM_ID)).text == "Closed tab 3."
    assert closed(tools) == [("h1", CHROMIUM_ID + 1), ("h1", CHROMIUM_ID)]


async def test_a_number_whose_tab_is_closed_is_not_taken_as_the_id_of_another_tab(tools: PlayedTools) -> None:
    """Older browsers have small ids."""
    tools.connect(tab_of(7, 1), tab_of(1, 2), commands=NUMBERED)
    await tools.call("tabs_close_mcp", tabId=1)
    said = await tools.ask_fails("tabs_close_mcp", tabId=1)
    assert said == "No such tab: tab 1. Nothing was run. tabs_context lists your tabs."
    assert closed(tools) == [("h1", 7)]


async def test_an_extension_that_counts_in_each_domain_has_its_tabs_named_by_their_ids(
    tools: PlayedTools,
) -> None:
    two = (tab_of(CHROMIUM_ID, 1), at("https://bank.example/", CHROMIUM_ID + 1, ordinal=1, owner=SESSION))
    tools.connect(*two, commands=("forwardCDPCommand", "documentId"))
    listed = (await tools.call("tabs_context")).structured
    assert [each["tabId"] for each in listed["availableTabs"]] == [CHROMIUM_ID, CHROMIUM_ID + 1]
    assert "No such tab: tab 1" in await tools.ask_fails("tabs_close_mcp", tabId=1)
    assert not closed(tools)


async def test_a_tab_that_goes_on_under_another_id_keeps_its_number(tools: PlayedTools) -> None:
    tools.connect(tab_of(CHROMIUM_ID, 1), commands=NUMBERED)
    await tools.call("tabs_context")
    replaced = wire.TabRemoved(tab_id=CHROMIUM_ID), wire.TabChanged(tab=tab_of(CHROMIUM_ID + 9, 1))
    tools.transport.announce("h1", *replaced)
    assert (await tools.call("tabs_close_mcp", tabId=1)).text == "Closed tab 1."
    assert closed(tools) == [("h1", CHROMIUM_ID + 9)]


async def test_a_private_tab_has_no_number_and_cannot_be_named(tools: PlayedTools) -> None:
    tools.connect(tab_of(CHROMIUM_ID, 0, incognito=True), commands=NUMBERED)
    for wanted in (0, CHROMIUM_ID):
        assert "No such tab" in await tools.ask_fails("tabs_close_mcp", tabId=wanted)


# ── Several profiles ────────────────────────────────────────────────────────────────────────────────────────


async def test_a_number_of_two_profiles_is_answered_with_the_candidates(tools: PlayedTools) -> None:
    connect_two(tools, tab_of(CHROMIUM_ID, 1), tab_of(CHROMIUM_ID + 5, 1))
    said = await tools.ask_fails("tabs_close_mcp", tabId=1)
    assert said.startswith("tabId 1 is a tab of several browsers, and nothing was done.")
    assert f"{CHROMIUM_ID} in Work, {CHROMIUM_ID + 5} in Home" in said
    assert not closed(tools)
    told = await tools.call("tabs_close_mcp", tabId=CHROMIUM_ID + 5)
    assert told.text == f"Closed tab {CHROMIUM_ID + 5}.", "its number would be ambiguous"
    assert closed(tools) == [("h2", CHROMIUM_ID + 5)]


async def test_a_small_id_is_never_a_candidate_because_it_could_be_a_number(tools: PlayedTools) -> None:
    """In Firefox the session's tab 1 has the id 2, which is the number of another tab there."""
    connect_two(tools, tab_of(CHROMIUM_ID, 1), tab_of(2, 1))
    tools.transport.announce("h2", wire.TabChanged(tab=tab_of(9, 2)))
    said = await tools.ask_fails("tabs_close_mcp", tabId=1)
    assert f"({CHROMIUM_ID} in Work, a tab in Home), or choose the browser with select_browser" in said
    await tools.call("select_browser", deviceId="home")
    assert (await tools.call("tabs_close_mcp", tabId=1)).text == "Closed tab 1."
    assert closed(tools) == [("h2", 2)]


async def test_a_number_that_was_shown_for_tabs_of_two_browsers_is_rejected(tools: PlayedTools) -> None:
    """The user looks at one browser, then at the other, where the client follows: both have small ids."""
    handed_over: dict[str, Any] = {"owner": None, "handed_over": True}
    connect_two(tools, tab_of(5, 1, last_accessed=2.0, **handed_over), tab_of(7, 1, **handed_over))
    assert (await tools.call("tabs_context")).structured["browser"] == "Work"
    tools.transport.announce("h2", wire.TabChanged(tab=tab_of(7, 1, last_accessed=3.0, **handed_over)))
    assert (await tools.call("tabs_context")).structured["browser"] == "Home"
    assert "is a tab of several browsers" in await tools.ask_fails("tabs_close_mcp", tabId=1)
    assert not closed(tools)


async def test_the_chosen_browser_decides(tools: PlayedTools) -> None:
    connect_two(tools, tab_of(CHROMIUM_ID, 1), tab_of(CHROMIUM_ID + 5, 1))
    await tools.call("select_browser", deviceId="home")
    assert (await tools.call("tabs_close_mcp", tabId=1)).text == "Closed tab 1."
    assert closed(tools) == [("h2", CHROMIUM_ID + 5)]


@pytest.mark.parametrize(
    ("work", "home", "host"),
    [
        (tab_of(CHROMIUM_ID, 1), tab_of(CHROMIUM_ID + 5, 1, owner="another session"), "h1"),
        (tab_of(CHROMIUM_ID, 2, owner="another session"), tab_of(CHROMIUM_ID + 5, 1), "h2"),
        (tab_of(CHROMIUM_ID, 1, owner=None), tab_of(CHROMIUM_ID + 5, 1), "h2"),
    ],
    ids=[
        "the other tab is another client's",
        "only one profile has it",
        "one browser has tabs of the session",
    ],
)
async def test_a_number_is_not_ambiguous_where_one_tab_can_be_meant(
    tools: PlayedTools, work: wire.Tab, home: wire.Tab, host: str
) -> None:
    connect_two(tools, work, home)
    await tools.call("tabs_close_mcp", tabId=1)
    assert [each[0] for each in closed(tools)] == [host]


async def test_a_number_keeps_its_tab_in_a_session_and_does_not_pass_to_another_profile(
    tools: PlayedTools,
) -> None:
    connect_two(tools, tab_of(CHROMIUM_ID, 1), tab_of(CHROMIUM_ID + 5, 2, owner=None))
    await tools.call("tabs_context")
    tools.transport.announce("h2", wire.TabChanged(tab=tab_of(CHROMIUM_ID + 6, 1)))
    assert (await tools.call("tabs_close_mcp", tabId=1)).text == "Closed tab 1."
    assert "No such tab: tab 1" in await tools.ask_fails("tabs_close_mcp", tabId=1)
    assert closed(tools) == [("h1", CHROMIUM_ID)]


async def test_a_number_from_before_a_restart_of_the_browser_is_no_tab_until_tabs_are_listed(
    tools: PlayedTools,
) -> None:
    tools.connect(tab_of(CHROMIUM_ID, 1), host="h1", pid=1, commands=NUMBERED)
    await tools.call("tabs_context")
    tools.transport.happen(HostLost("h1"))
    tools.connect(tab_of(CHROMIUM_ID + 90, 1), host="h2", pid=2, commands=NUMBERED)
    assert "No such tab: tab 1" in await tools.ask_fails("tabs_close_mcp", tabId=1)
    await tools.call("tabs_context")
    assert (await tools.call("tabs_close_mcp", tabId=1)).text == "Closed tab 1."
    assert closed(tools) == [("h2", CHROMIUM_ID + 90)]


@pytest.mark.parametrize("tabs", ["own", "ask", "any"])
async def test_a_foreign_number_says_what_a_foreign_id_says_and_no_more(
    nursery: trio.Nursery, tmp_path: Path, tabs: str
) -> None:
    tools = PlayedTools(nursery, tmp_path, tabs=tabs)
    foreign: dict[str, Any] = {"owner": "another session", "title": "Secret plans"}
    work, home = tab_of(CHROMIUM_ID, 1, **foreign), tab_of(CHROMIUM_ID + 5, 1, **foreign)
    connect_two(tools, work, home)
    by_number = await tools.ask_fails("tabs_close_mcp", tabId=1)
    assert by_number == await tools.ask_fails("tabs_close_mcp", tabId=CHROMIUM_ID)
    assert "tab 1 belongs to another client. Nothing was run." in by_number
