"""Several tabs in real Chromium: which one a call hits, and that it never hits another document."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
import trio
from mcp import Client

from demo.chromium import Chromium, Page
from demo.devtools import DevToolsError
from full_chain import COUNTED, Chain, call, page_tools, serving_pages, until_listed
from native_host.protocol.wire import Code
from socket_observer import Onlooker, onlooking
from wire_peers import until

pytestmark = pytest.mark.one_browser

TOOLS = 6
"""Of tabserver.html."""


@pytest.fixture(autouse=True)
def counted() -> Iterator[list[str]]:
    """What pages have told their server in this test."""
    COUNTED.clear()
    yield COUNTED
    COUNTED.clear()


def exactly(count: int) -> Callable[[set[str]], bool]:
    """A wish for `until_listed`."""
    return lambda names: len(names) == count


async def where(client: Client, name: str) -> str:
    """The query of the page that a call hits."""
    is_error, text = await call(client, name)
    assert not is_error, text
    return str(json.loads(text)["path"].partition("?")[2])


async def tabs_in_order(chain: Chain, browser: Chromium, client: Client, *queries: str) -> list[Page]:
    """Tabs of one site, numbered in the order in which they are named."""
    tabs: list[Page] = []
    for count, query in enumerate(queries, 1):
        tabs.append(await chain.open(browser, f"tabserver.html?{query}"))
        await until_listed(client, exactly(count * TOOLS))
    return tabs


async def show(page: Page) -> None:
    """Bring a tab to the front, as a person does."""
    await page.send("Page.bringToFront")


async def test_a_name_with_a_tab_hits_that_tab_and_one_without_the_tab_that_is_shown_or_was_last(
    chain: Chain, browser: Chromium
) -> None:
    with trio.fail_after(120):
        async with chain.client() as client:
            first, _, _ = await tabs_in_order(chain, browser, client, "first", "second", "third")
            with serving_pages() as elsewhere:
                other = await browser.open_page(f"{elsewhere}/tabserver.html?other")
                names = await until_listed(client, exactly(4 * TOOLS))
                port = elsewhere.rpartition(":")[2]
                assert f"website_tool_localhost_{port}_tab{chain.tabs_before + 4}_whoami" in names
                for tab, query in enumerate(("first", "second", "third"), 1):
                    assert await where(client, chain.name("whoami", tab)) == query
                await show(first)
                anywhere = chain.name("whoami", tab=None)
                await until_where(client, anywhere, "first")
                await show(other)
                await until_active(chain, elsewhere)
                assert await where(client, anywhere) == "first"
                assert await where(client, f"website_tool_localhost_{port}_whoami") == "other"


async def until_where(client: Client, name: str, query: str) -> None:
    with trio.fail_after(60):
        while await where(client, name) != query:  # noqa: ASYNC110 - a change of the active tab is told to nobody
            await trio.sleep(0.02)


async def until_active(chain: Chain, origin: str) -> None:
    """Until the hub knows that a tab of this origin is the one that is shown."""
    with trio.fail_after(60):
        while True:
            (browser,) = (await chain.status())["browsers"]
            if any(tab["active"] and tab["origin"] == origin for tab in browser["tabs"]):
                return


async def test_the_description_of_the_tab_that_is_shown_says_so_and_no_list_changes_for_it(
    chain: Chain, browser: Chromium
) -> None:
    with trio.fail_after(120):
        async with chain.client() as client:
            first, second = await tabs_in_order(chain, browser, client, "first", "second")
            for page, tab in ((first, 1), (second, 2)):
                await show(page)
                await until_shown_as_active(chain, client, tab)


async def until_shown_as_active(chain: Chain, client: Client, tab: int) -> None:
    wanted = {chain.name("echo", number): number == tab for number in (1, 2)}
    with trio.fail_after(60):
        while True:
            listed = await client.list_tools(cache_mode="refresh")
            marks = {tool.name: "• Active" in (tool.description or "") for tool in listed.tools}
            if {name: marks[name] for name in wanted} == wanted:
                return
            await trio.sleep(0.02)


async def test_closing_a_tab_takes_its_tools_alone_and_a_call_without_a_tab_goes_to_the_next(
    chain: Chain, browser: Chromium
) -> None:
    with trio.fail_after(120):
        async with chain.client() as client:
            _, second = await tabs_in_order(chain, browser, client, "first", "second")
            await show(second)
            await second.close()
            assert await where(client, chain.name("whoami", tab=None)) in ("first", "second")
            names = await until_listed(client, exactly(TOOLS))
            assert chain.name("whoami", 1) in names
            is_error, text = await call(client, chain.name("whoami", 2))
            assert is_error
            assert "Nothing was run" in text


async def test_a_reloaded_page_is_called_by_the_same_name(chain: Chain, browser: Chromium) -> None:
    with trio.fail_after(120):
        async with chain.client() as client:
            (tab,) = await tabs_in_order(chain, browser, client, "first")
            await tab.load(f"{chain.pages}/tabserver.html?first")
            await until_runs(client, chain.name("whoami"))
            assert await tab.evaluate("window.runs") == 1


async def test_a_call_while_its_page_reloads_waits_and_runs_once_in_the_next_document(
    chain: Chain, browser: Chromium
) -> None:
    with trio.fail_after(120):
        async with chain.client() as client:
            (tab,) = await tabs_in_order(chain, browser, client, "first")
            name = chain.name("whoami")
            for _ in range(5):
                await tab.evaluate("window.isLeft = true, void location.reload()")
                with trio.move_on_after(5) as waiting:
                    while name in await page_tools(client):
                        with suppress(DevToolsError):  # between two documents
                            # The next one may be there, and announced, before the list is read.
                            if not await tab.evaluate("window.isLeft"):
                                waiting.deadline = min(waiting.deadline, trio.current_time() + 1)
                assert await where(client, name) == "first"
                assert await tab.evaluate("window.runs") == 1


async def test_reading_a_page_while_it_reloads_waits_for_it(chain: Chain, browser: Chromium) -> None:
    reading = {
        "read_page": {},
        "find": {"query": "add"},
        "get_page_text": {},
        "computer": {"action": "screenshot"},
    }
    reload = {"action": "javascript_exec", "text": "void setTimeout(() => location.reload())"}
    with trio.fail_after(120):
        async with chain.client() as client:
            await tabs_in_order(chain, browser, client, "first")
            is_error, text = await call(client, "navigate", url=f"{chain.pages}/tabserver.html")
            assert not is_error, text
            for tool, arguments in reading.items():
                for _ in range(3):
                    await call(client, "javascript_tool", **reload)
                    is_error, text = await call(client, tool, **arguments)
                    assert not is_error, text


async def until_runs(client: Client, name: str) -> None:
    """Call until the page is back; what does not run has no effect."""
    while True:
        is_error, text = await call(client, name)
        if not is_error:
            return
        assert "Nothing was run" in text


async def test_a_tool_that_was_listed_on_one_page_never_runs_on_the_next(
    chain: Chain, browser: Chromium
) -> None:
    """The same site, the same tool by name, another address: what was meant is not there any more."""
    with trio.fail_after(120):
        async with chain.client() as client:
            (tab,) = await tabs_in_order(chain, browser, client, "listed")
            await tab.load(f"{chain.pages}/tabserver.html?another")
            with trio.move_on_after(30):
                while True:
                    is_error, text = await call(client, chain.name("whoami"))
                    assert is_error, text
                    assert "Nothing was run" in text
                    if "another document" in text:
                        break
            assert "another document" in text
            assert await tab.evaluate("window.runs") == 0
            await page_tools(client)
            assert await where(client, chain.name("whoami")) == "another"


async def test_a_call_for_a_document_that_was_reloaded_runs_nothing_in_the_next_one(
    chain: Chain, browser: Chromium, counted: list[str]
) -> None:
    """The same address and the same tool; no bridge is between that would find the new document."""
    with trio.fail_after(120):
        async with onlooking(chain) as client:
            page = await chain.open(browser, "counting.html")
            before = await client.until_offered("count")
            await page.load(f"{chain.pages}/counting.html")
            await client.until(lambda: (client.offering("count") or before) != before)
            rejected = await client.call(before, "count", id="before")
            assert counted == []
            assert (rejected["code"], rejected["data"]) == (Code.NAVIGATED, {"handed": False})
            after = await client.until_offered("count")
            assert await client.call(after, "count", id="after") == "counted after"
            assert counted == ["after"]


async def test_two_local_servers_on_two_ports_are_two_sites(chain: Chain, browser: Chromium) -> None:
    with trio.fail_after(120), serving_pages() as elsewhere:
        async with chain.client() as client:
            await tabs_in_order(chain, browser, client, "here")
            await browser.open_page(f"{elsewhere}/tabserver.html?there")
            await until_listed(client, exactly(2 * TOOLS))
            assert await where(client, chain.name("whoami", tab=None)) == "here"
            port = elsewhere.rpartition(":")[2]
            assert await where(client, f"website_tool_localhost_{port}_whoami") == "there"


# ── Never twice ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("then", ["reload", "leave", "hang"])
@pytest.mark.parametrize("tab", [1, None], ids=["by tab", "by site"])
async def test_a_call_that_reached_its_page_is_never_run_again(
    chain: Chain, browser: Chromium, counted: list[str], then: str, tab: int | None
) -> None:
    """The page counts on its server, then takes away the ground under the call. A second tab stands ready."""
    chain.settings["MCPB_CALL_TIMEOUT_S"] = "2"
    with trio.fail_after(120):
        async with chain.client() as client:
            await chain.open(browser, f"counting.html?then={then}")
            await until_listed(client, exactly(1))
            await chain.open(browser, f"counting.html?then={then}")
            await until_listed(client, exactly(2))
            is_error, text = await call(client, chain.name("count", tab), id="once")
            assert is_error
            assert "It may have run" in text
            assert counted == ["once"]


async def test_a_host_or_a_worker_that_dies_under_calls_makes_none_of_them_run_again(
    chain: Chain, browser: Chromium, counted: list[str]
) -> None:
    outcomes: dict[str, Any] = {}

    async def count(client: Client, call_id: str) -> None:
        outcomes[call_id] = await call(client, chain.name("count", tab=None), id=call_id)

    with trio.fail_after(200):
        async with chain.client() as client:
            await chain.open(browser, "counting.html")
            await until_listed(client, exactly(1))
            async with trio.open_nursery() as nursery:
                for number in range(60):
                    nursery.start_soon(count, client, f"c{number}")
                    await trio.sleep(0.02)
                    if number in (15, 40):
                        await browser.stop_workers()
            await until(lambda: len(outcomes) == 60)
    assert len(counted) == len(set(counted)), "no call may be counted twice"
    for call_id, (is_error, text) in outcomes.items():
        if not is_error:
            assert call_id in counted
        elif "Nothing was run" in text:
            assert call_id not in counted


# ── Tabs of sessions that have ended ────────────────────────────────────────────────────────────────────────

UNNAMED = """chrome.storage.session.get("owners")
    .then(({ owners }) => owners.unnamed.map(([session]) => session))"""
"""The sessions that own tabs and that no client names."""


async def test_tabs_of_a_session_that_no_client_names_for_60_seconds_become_unowned(
    chain: Chain, browser: Chromium
) -> None:
    """The worker's clock is 50 s late while the client leaves, so that the browser's alarm is 10 s away."""
    with trio.fail_after(120):
        async with onlooking(chain) as staying:
            (target,) = await browser.targets("service_worker")
            worker = await browser.attach(target["targetId"])
            await worker.evaluate("globalThis.realNow = Date.now, Date.now = () => realNow() - 50_000")
            tabs: dict[str, int] = {}
            async with onlooking(chain) as leaving:
                await staying.notify("bridge/sessions", sessions=sessions("stays"))
                await leaving.notify("bridge/sessions", sessions=sessions("ends", "returns"))
                for session in ("stays", "ends", "returns"):
                    client = staying if session == "stays" else leaving
                    opened = await client.request(
                        "createTab", session=session, url=f"{chain.pages}/plain.html"
                    )
                    tabs[session] = opened["tabId"]
                await staying.until(lambda: owners(staying, tabs) == {name: name for name in tabs})
                await until_unnamed(worker)
                before = await worker.evaluate("Date.now()")
            await until_unnamed(worker, "ends", "returns")
            after = await worker.evaluate("Date.now()")
            await staying.notify("bridge/sessions", sessions=sessions("stays", "returns"))
            await until_unnamed(worker, "ends")
            alarm = await worker.evaluate("chrome.alarms.get('unnamed-sessions')")
            assert before + 60_000 <= alarm["scheduledTime"] <= after + 60_000
            await worker.evaluate("Date.now = realNow")
            await staying.until(lambda: owners(staying, tabs)["ends"] is None)
            assert await worker.evaluate("Date.now()") >= alarm["scheduledTime"]
            assert owners(staying, tabs) == {"stays": "stays", "ends": None, "returns": "returns"}


def owners(client: Onlooker, tabs: dict[str, int]) -> dict[str, str | None]:
    """The owner of each tab, as far as the client was notified; no tab: empty."""
    return {name: client.tabs.get(tab, {"owner": ""})["owner"] for name, tab in tabs.items()}


def sessions(*names: str) -> list[dict[str, Any]]:
    return [{"id": name, "title": name, "client": {"name": name}} for name in names]


async def until_unnamed(worker: Page, *names: str) -> None:
    with trio.fail_after(60):
        while sorted(await worker.evaluate(UNNAMED)) != sorted(names):  # noqa: ASYNC110 - no event
            await trio.sleep(0.02)
