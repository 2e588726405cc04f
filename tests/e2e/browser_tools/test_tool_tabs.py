"""`navigate` and the tools for tabs, in a real browser: whose tabs are whose, and where they may go."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from native_host.ipc import endpoint
from tool_browser import REF, Browsing, Tools, open_browsing


@pytest.fixture(scope="module")
def browsing() -> Iterator[Browsing]:
    with open_browsing() as opened:
        yield opened


@pytest.fixture(scope="module")
def tools(browsing: Browsing) -> Iterator[Tools]:
    with browsing.client() as opened:
        yield opened


def path(tools: Tools, tab: int) -> str:
    return str(tools.look(tab).evaluate("location.pathname"))


def test_without_a_tab_one_is_opened_in_a_group_of_the_client_s_own(browsing: Browsing) -> None:
    with browsing.client("newcomer") as tools:
        assert "You have no tab yet" in tools.refused("read_page")
        assert tools.done("tabs_context").structured["availableTabs"] == []
        there = tools.done("navigate", url=f"{browsing.site.url}/article.html").structured
        context = tools.done("tabs_context_mcp", createIfEmpty=True).structured
    assert there["title"].endswith("Town library")
    (listed,) = context["availableTabs"]
    assert (listed["tabId"], listed["access"]) == (there["tabId"], "own")
    assert context["selectedTabId"] == there["tabId"]
    assert isinstance(context["tabGroupId"], int)


@pytest.mark.parametrize(
    ("opener", "given"), [("tabs_create", {}), ("tabs_context_mcp", {"createIfEmpty": True})]
)
def test_an_empty_tab_can_be_looked_at_at_once(
    browsing: Browsing, opener: str, given: dict[str, bool]
) -> None:
    with browsing.client("newcomer") as tools:
        tools.done(opener, **given)
        assert tools.done("computer", action="screenshot").images
        assert tools.done("read_page").text


def test_the_current_tab_is_the_one_that_was_used_last(tools: Tools) -> None:
    first, second = tools.open_site("search.html"), tools.open_site("history.html")
    assert tools.done("tabs_context").structured["selectedTabId"] == second
    tools.done("get_page_text", tabId=first)
    assert "Search" in tools.done("get_page_text").text
    for tab in (first, second):
        tools.done("tabs_close_mcp", tabId=tab)


def test_a_tab_goes_back_and_forward_in_its_history(tools: Tools, browsing: Browsing) -> None:
    tab = tools.open_site("search.html", in_new_tab=True)
    tools.done("navigate", tabId=tab, url=f"{browsing.site.url}/tall.html")
    tools.done("navigate", tabId=tab, url="back")
    assert path(tools, tab) == "/search.html"
    tools.done("navigate", tabId=tab, url="forward")
    assert path(tools, tab) == "/tall.html"
    assert "its history ends here" in tools.refused("navigate", tabId=tab, url="forward")


def test_an_address_without_a_scheme_is_of_this_machine_or_of_the_web(
    tools: Tools, browsing: Browsing
) -> None:
    tab = tools.open_site("tall.html")
    tools.done("navigate", tabId=tab, url=browsing.site.url.removeprefix("http://") + "/search.html")
    assert path(tools, tab) == "/search.html"
    refused = tools.refused("navigate", tabId=tab, url="no-such-host.invalid")
    assert "https://no-such-host.invalid/ did not load: net::ERR_NAME_NOT_RESOLVED" in refused


def test_a_page_that_did_not_load_is_seen_as_one_of_its_address(tools: Tools, browsing: Browsing) -> None:
    tab = tools.open_site("tall.html")
    with socket.create_server(("localhost", 0)) as server:
        port = server.getsockname()[1]
    failed = f"http://localhost:{port}/ did not load: net::ERR_CONNECTION_REFUSED"
    assert failed in tools.refused("navigate", tabId=tab, url=f"http://localhost:{port}/")
    read = tools.done("get_page_text", tabId=tab).text
    assert f"from http://localhost:{port}" in read
    assert "ERR_CONNECTION_REFUSED" in read
    tools.done("navigate", tabId=tab, url=f"{browsing.site.url}/search.html")
    assert failed in tools.refused("navigate", tabId=tab, url="back")


def test_the_page_of_a_new_tab_does_not_pass_for_the_one_that_was_asked_for(tools: Tools) -> None:
    with socket.create_server(("localhost", 0)) as server:
        port = server.getsockname()[1]
    for _ in range(4):  # which of the two comes first is the machine's to decide
        tools.done("tabs_create")
        assert "ERR_CONNECTION_REFUSED" in tools.refused("navigate", url=f"http://localhost:{port}/")
        tools.done("tabs_close_mcp")


def test_the_way_back_from_the_first_page_of_a_tab_ends_at_an_empty_one(
    tools: Tools, browsing: Browsing
) -> None:
    tab = tools.done("tabs_create").structured["tabId"]
    tools.look(tab).wait_until("location.href === 'about:blank' && document.readyState === 'complete'")
    tools.done("navigate", tabId=tab, url=f"{browsing.site.url}/tall.html")
    tools.done("get_page_text", tabId=tab)  # its DevTools end with the way
    assert f"Tab {tab} is at an empty page." in tools.done("navigate", tabId=tab, url="back").text


@pytest.mark.parametrize("url", ["file:///etc/passwd", "chrome://quit", "javascript:alert(1)", "data:,x"])
def test_only_web_addresses_are_loaded(tools: Tools, url: str) -> None:
    assert f"not {url.partition(':')[0]}: ones; nothing was loaded" in tools.refused("navigate", url=url)


def test_a_pdf_is_a_page_that_has_loaded(tools: Tools) -> None:
    tab = tools.open_site("leaflet.pdf")
    assert path(tools, tab) == "/leaflet.pdf"


def test_an_address_that_is_a_download_leaves_the_tab_where_it_is(tools: Tools, browsing: Browsing) -> None:
    tools.open_site("downloads.html")
    tools.done("get_page_text")  # from here on events of the tab are heard
    told = tools.done("navigate", url=f"{browsing.site.url}/loans.csv")
    assert "That address is no page. Downloaded “loans.csv” (350 B) to “" in told.text
    assert told.structured["url"].endswith("/downloads.html")
    assert "List of books" in tools.done("get_page_text").text


def test_a_page_that_asks_whether_to_leave_it_is_left_when_that_is_answered(
    tools: Tools, browsing: Browsing
) -> None:
    tab, elsewhere = tools.open_site("leaving.html"), f"{browsing.site.url}/tall.html"
    tools.done("computer", action="left_click", ref=tools.ref_of("Draft"))
    tools.done("computer", action="type", text="hello")
    assert "whether to leave it" in tools.refused("navigate", url=elsewhere)
    tools.done("computer", action="key", text="Escape")
    assert path(tools, tab) == "/leaving.html"
    tools.refused("navigate", url=elsewhere)
    assert "/tall.html now" in tools.done("computer", action="key", text="Return").text
    assert path(tools, tab) == "/tall.html"


def test_the_tabs_of_another_client_and_of_the_person_are_out_of_reach(
    tools: Tools, browsing: Browsing
) -> None:
    mine = tools.open_site("search.html")
    persons = browsing.browser.open(f"{browsing.site.url}/tall.html")
    with browsing.client("neighbour") as neighbour:
        theirs = neighbour.open_site("search.html")
        for name in ("read_page", "tabs_close_mcp", "get_page_text"):
            assert "belongs to another client" in tools.refused(name, tabId=theirs)
            assert "belongs to another client" in neighbour.refused(name, tabId=mine)
        context = tools.done("tabs_context")
        assert f"tab {mine} (own, current)" in context.text
        told = context.structured
        assert theirs not in [tab["tabId"] for tab in told["availableTabs"]]
        assert told["tabsOfOthers"] >= 2
    persons.close()


def test_a_tab_that_is_gone_is_said_to_be(tools: Tools) -> None:
    tab = tools.open_site("search.html", in_new_tab=True)
    tools.done("tabs_close_mcp", tabId=tab)
    assert f"No such tab: tab {tab}. Nothing was run." in tools.refused("read_page", tabId=tab)
    assert "tabs_context lists your tabs" in tools.refused("read_page", tabId=str(tab))
    assert "tabId is a whole number" in tools.refused("read_page", tabId="the first")


def test_a_ref_from_before_the_connection_broke_means_nothing_afterwards(
    tools: Tools, browsing: Browsing
) -> None:
    tab = tools.open_site("dialogs.html")
    before = tools.ref_of('button "Alert"')
    run = browsing.chain.home / "run"
    (host,) = endpoint.live_hosts(run)
    os.kill(host.pid, signal.SIGKILL)
    browsing.browser.until(lambda: any(other.pid != host.pid for other in endpoint.live_hosts(run)))
    again = tools.ref_of('button "Alert"', tab)
    assert again != before
    assert "not in the page any more" in tools.refused("computer", action="left_click", ref=before)
    tools.done("computer", action="left_click", ref=again)


def test_two_calls_at_once_name_the_elements_of_a_new_document_once(tools: Tools, browsing: Browsing) -> None:
    tools.open_site("forms.html")
    with ThreadPoolExecutor(4) as threads:
        trees = list(threads.map(lambda _: tools.done("read_page", filter="interactive").text, range(4)))
    refs = [REF.findall(tree) for tree in trees]
    assert refs[1:] == refs[:-1]
    assert len(refs[0]) > 10
