"""Names and numbers of tabs in two real profiles: they outlive tabs, bridges, workers and browsers.

The mcp package's own client reads and calls them.
"""

from __future__ import annotations

import json
import re
from typing import Any

import trio
from mcp import Client

from extension_card import install_extension, open_card, switch_on_developer_mode
from full_chain import EXTENSION, Chain, call, page_tools, until_listed

TOOLS = 6
"""Of tabserver.html."""
BOUND_S = 180


async def test_the_first_profile_keeps_its_names_and_both_keep_theirs_over_restarts(chain: Chain) -> None:
    with trio.fail_after(BOUND_S):
        async with chain.browser("work") as work:
            await chain.open(work, "tabserver.html?work")
            async with chain.client() as client:
                first = await until_listed(client, lambda names: len(names) == TOOLS)
                assert chain.name("whoami") in first
                async with chain.browser("home") as home:
                    await chain.open(home, "tabserver.html?home")
                    both = await until_listed(client, lambda names: len(names) == 2 * TOOLS)
                    assert first < both, "the first profile keeps its names"
                    marked = name_of("whoami", both - first)
                    await until_where(client, chain.name("whoami"), "work")
                    await until_where(client, marked, "home")
                    async with chain.client() as other_bridge:
                        assert await page_tools(other_bridge) == both
                await until_listed(client, lambda names: names == first)
            async with chain.browser("home") as home, chain.client() as later_bridge:
                await chain.open(home, "tabserver.html?home")
                assert await until_listed(later_bridge, lambda names: len(names) == 2 * TOOLS) == both
        async with chain.browser("home") as home, chain.client() as client:
            await chain.open(home, "tabserver.html?home")
            assert await until_listed(client, lambda names: len(names) == TOOLS) == both - first
            is_error, text = await call(client, chain.name("whoami"))
            assert is_error
            assert f"call one of these by its whole name: {marked} ({chain.pages} in " in text
            async with chain.browser("work") as work:
                await chain.open(work, "tabserver.html?work")
                assert await until_listed(client, lambda names: len(names) == 2 * TOOLS) == both
                await until_where(client, chain.name("whoami"), "work")
    stored = json.loads((chain.home / "state/profiles.json").read_text())["profiles"]
    assert [row["marked"] for row in stored] == [False, True]


async def test_a_number_of_two_profiles_is_answered_with_its_candidates_until_a_browser_is_chosen(
    chain: Chain,
) -> None:
    """The user lets the client use all tabs, so that it can mean those of either profile."""
    chain.settings["MCPB_BROWSER_TABS"] = "any"
    with trio.fail_after(BOUND_S):
        async with chain.browser("work") as work, chain.browser("home") as home, chain.client() as client:
            for browser in (work, home):
                await chain.open(browser, "plain.html")
            devices = await until_browsers(client, 2)
            text = ""
            while "is a tab of several browsers" not in text:  # the tabs are announced one after the other
                is_error, text = await call(client, "get_page_text", tabId=1)
            assert is_error
            choices = re.findall(r"(\d+|a tab) in ", text)  # "a tab": its id is small
            assert len(set(choices)) == 2, text
            ids = [int(each) for each in choices if each != "a tab"]
            read = await structured(client, "get_page_text", tabId=ids[0])
            assert read["tabId"] == ids[0], "its number would be ambiguous"
            for device in devices:
                await structured(client, "select_browser", deviceId=device)
                assert (await structured(client, "get_page_text", tabId=1))["tabId"] == 1


async def test_a_tab_has_one_number_for_all_sessions_in_names_and_results(chain: Chain) -> None:
    with trio.fail_after(BOUND_S):
        async with chain.browser() as browser, chain.client() as client, chain.client() as other:
            await chain.open(browser, "plain.html")
            opened = await until_opened(client, f"{chain.pages}/tabserver.html?mine")
            assert opened == 2
            for each in (client, other):
                names = await until_listed(each, lambda names: len(names) == TOOLS)
                assert chain.name("whoami", 2) in names
            listed = await structured(client, "tabs_context")
            assert [each["tabId"] for each in listed["availableTabs"]] == [listed["selectedTabId"]] == [2]
            assert (await structured(client, "read_page", tabId=2))["message"].startswith("Tab 2")
            is_error, text = await call(other, "read_page", tabId=2)
            assert is_error
            assert "tab 2 belongs to another client" in text
            assert "No such tab: tab 3." in (await call(client, "read_page", tabId=3))[1]


async def test_a_number_is_not_given_again_and_stays_over_restarts_of_worker_and_extension(
    chain: Chain,
) -> None:
    with trio.fail_after(BOUND_S):
        async with chain.browser() as browser, chain.client() as client:
            first = await chain.open(browser, "tabserver.html?first")
            await until_listed(client, lambda names: len(names) == TOOLS)
            second = await chain.open(browser, "tabserver.html?second")
            await until_listed(client, lambda names: len(names) == 2 * TOOLS)
            await second.close()
            await until_listed(client, lambda names: len(names) == TOOLS)
            await chain.open(browser, "tabserver.html?third")
            names = await until_listed(client, lambda names: len(names) == 2 * TOOLS)
            assert {chain.name("whoami", 1), chain.name("whoami", 3)} < names
            await browser.stop_workers()
            await until_where(client, chain.name("whoami", 3), "third")
            await first.load(f"{chain.pages}/tabserver.html?first")
            assert await until_listed(client, lambda names: len(names) == 2 * TOOLS) == names
            await browser.load_extension(EXTENSION)
            await until_where(client, chain.name("whoami", 3), "third")
            await chain.open(browser, "tabserver.html?fourth")
            names = await until_listed(client, lambda names: len(names) == 3 * TOOLS)
            assert {chain.name("whoami", tab) for tab in (1, 3, 4)} < names


async def test_a_number_is_not_given_again_though_its_tab_was_closed_while_the_extension_was_off(
    chain: Chain,
) -> None:
    switch_on_developer_mode(chain.home / "profile")
    with trio.fail_after(BOUND_S):
        async with chain.browser() as browser, chain.client() as client:
            first = await chain.open(browser, "tabserver.html?first")
            await until_listed(client, lambda names: chain.name("whoami", 1) in names)
            card = await open_card(browser)
            await card.switch(is_on=False)
            await first.close()
            await card.switch(is_on=True)
            await chain.open(browser, "tabserver.html?second")
            await until_listed(client, lambda names: chain.name("whoami", 2) in names)


async def test_numbers_begin_anew_with_the_browser(chain: Chain) -> None:
    install_extension(chain.home / "profile", EXTENSION)
    with trio.fail_after(BOUND_S):
        async with chain.browser(extension=None) as browser, chain.client() as client:
            for page in ("first", "second"):
                await chain.open(browser, f"tabserver.html?{page}")
            await until_listed(client, lambda names: chain.name("whoami", 2) in names)
        async with chain.browser(extension=None) as browser, chain.client() as client:
            await chain.open(browser, "tabserver.html?third")
            await until_listed(client, lambda names: chain.name("whoami", 1) in names)


# ── Helpers ─────────────────────────────────────────────────────────────────────────────────────────────────


def name_of(tool: str, names: set[str]) -> str:
    (name,) = (name for name in names if name.endswith(f"_{tool}"))
    return name


async def structured(client: Client, name: str, /, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(name, arguments)
    assert not result.is_error, result.content
    return dict(result.structured_content or {})


async def until_opened(client: Client, url: str) -> int:
    """Open an address once the browser is connected; the number of its tab."""
    await until_browsers(client, 1)
    return int((await structured(client, "navigate", url=url))["tabId"])


async def until_browsers(client: Client, count: int) -> list[str]:
    """The deviceIds, once so many browsers are connected."""
    while True:
        listed = (await structured(client, "list_connected_browsers"))["browsers"]
        if len(listed) == count:
            return [each["deviceId"] for each in listed]
        await trio.sleep(0.02)


async def until_where(client: Client, name: str, query: str) -> None:
    """Call until the page with this query answers."""
    while True:
        is_error, text = await call(client, name)
        if not is_error:
            assert json.loads(text)["path"].endswith(f"?{query}")
            return
        await trio.sleep(0.02)
