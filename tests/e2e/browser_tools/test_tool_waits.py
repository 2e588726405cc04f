"""Waits in a real Chromium: `navigate` until the page is usable, and `wait_for`."""

from __future__ import annotations

import time

import pytest

from tool_browser import Browsing, Tools

# ── navigate ────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_part_that_never_comes_keeps_no_navigation_waiting(tools: Tools, browsing: Browsing) -> None:
    tab_id = tools.open_site("index.html")
    result = tools.done("navigate", tabId=tab_id, url=f"{browsing.site.url}/never.html")
    page = tools.look(tab_id)
    parsed = "performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd"
    assert (
        500 <= page.evaluate(f"performance.now() - {parsed}") < 10_000
    )  # a busy machine; it answers after 0.6 s
    assert result.structured["loading"]
    assert "It is still loading" in result.text
    assert "heading" in tools.done("read_page").text


def test_a_page_that_is_loaded_is_not_waited_for(tools: Tools, browsing: Browsing) -> None:
    tab_id = tools.open_site("index.html")
    for _ in range(5):  # a busy machine may need longer for a load than the wait
        result = tools.done("navigate", tabId=tab_id, url=f"{browsing.site.url}/article.html")
        if not result.structured["loading"]:
            break
    assert not result.structured["loading"]
    assert tools.look(tab_id).evaluate("document.readyState") == "complete"


def test_the_load_event_is_waited_for_on_request(tools: Tools, browsing: Browsing) -> None:
    tab_id = tools.open_site("index.html")
    url = f"{browsing.site.url}/slow-parts.html?ms=1500"
    result = tools.done("navigate", tabId=tab_id, url=url, wait="load")
    assert not result.structured["loading"]
    assert tools.look(tab_id).evaluate("document.querySelector('img').complete")


def test_a_page_that_still_changes_is_waited_for(tools: Tools, browsing: Browsing) -> None:
    """Its load event never comes, and it writes for 1.5 s after it is parsed."""
    tab_id = tools.open_site("index.html")
    tools.done("navigate", tabId=tab_id, url=f"{browsing.site.url}/writes.html")
    assert "line 15" in tools.done("get_page_text").text


def test_a_page_that_never_stands_still_is_shown_after_five_seconds(tools: Tools, browsing: Browsing) -> None:
    tab_id = tools.open_site("index.html")
    began = time.monotonic()
    result = tools.done("navigate", tabId=tab_id, url=f"{browsing.site.url}/writes.html?lines=100000")
    assert 4.5 < time.monotonic() - began < 25
    assert result.structured["loading"]


def test_a_step_back_to_such_a_page_is_no_longer_wait_either(tools: Tools, browsing: Browsing) -> None:
    tab_id = tools.open_site("index.html")
    for path in ("never.html", "article.html"):
        tools.done("navigate", tabId=tab_id, url=f"{browsing.site.url}/{path}")
    assert "/never.html" in tools.done("navigate", tabId=tab_id, url="back").text


# ── wait_for ────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_text_that_comes_later_is_waited_for(tools: Tools) -> None:
    tab_id = tools.open_site("waiting.html")
    tools.look(tab_id).evaluate("setTimeout(() => (late.hidden = false), 600)")
    result = tools.done("wait_for", text="something WAS  late")
    assert result.structured["seconds"] >= 0.2


def test_a_text_that_goes_is_waited_for(tools: Tools) -> None:
    tab_id = tools.open_site("waiting.html")
    tools.look(tab_id).evaluate("setTimeout(() => document.querySelector('h1').remove(), 600)")
    tools.done("wait_for", textGone="Slow things")


@pytest.mark.parametrize("page", ["frames.html", "shadow.html"])
def test_texts_of_frames_and_shadow_trees_count(tools: Tools, page: str) -> None:
    tab_id = tools.open_site(page)
    outline = tools.done("get_page_text", tabId=tab_id).structured["text"]
    words = " ".join(outline.splitlines()[-1].split()[:4]).strip("#-*| ")
    assert not tools.call("wait_for", text=words, timeout=3).is_error


def test_an_address_is_waited_for_over_a_navigation(tools: Tools, browsing: Browsing) -> None:
    tab_id = tools.open_site("waiting.html")
    tools.look(tab_id).evaluate("setTimeout(() => location.assign('/arrived.html'), 600)")
    result = tools.done("wait_for", url="/arrived", text="arrived")
    assert result.structured["tabId"] == tab_id


def test_idle_means_that_requests_have_ended_and_the_page_stands_still(tools: Tools) -> None:
    tab_id = tools.open_site("waiting.html")
    page = tools.look(tab_id)
    page.evaluate("setTimeout(async () => { await fetch('/slow?ms=1500'); document.title = 'over' }, 300)")
    tools.done("wait_for", idle=True)
    assert page.evaluate("document.title") == "over"


def test_what_does_not_come_is_said_with_the_time(tools: Tools) -> None:
    tools.open_site("waiting.html")
    said = tools.refused("wait_for", text="Never there", textGone="Slow things", timeout=0.5)
    assert "Waited 0.5 s" in said
    assert "“Never there” is not there and “Slow things” is still there" in said


def test_nothing_to_wait_for_is_an_error(tools: Tools) -> None:
    tools.open_site("waiting.html")
    assert "Say what to wait for" in tools.refused("wait_for")
