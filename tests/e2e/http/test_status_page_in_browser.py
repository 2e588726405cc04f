"""The status page in a real Chromium, beside a page whose tools are called: by keyboard, and on a phone."""

from __future__ import annotations

import json
import re

import pytest
import trio
from mcp import Client

from demo.chromium import Chromium, Page
from full_chain import Chain, call, until_listed, until_said
from page_layout import SCHEMES, choose_scheme, measure_layout

PHONE = {"width": 360, "height": 740, "deviceScaleFactor": 2, "mobile": True}
KEYS = {"Tab": 9, "Enter": 13}


async def press(page: Page, key: str) -> None:
    """A key, as a keyboard sends it."""
    code = {"key": key, "code": key, "windowsVirtualKeyCode": KEYS[key]}
    text = {"text": "\r"} if key == "Enter" else {}
    await page.send("Input.dispatchKeyEvent", {"type": "keyDown", **code, **text})
    await page.send("Input.dispatchKeyEvent", {"type": "keyUp", **code})


async def tab_to(page: Page, selector: str, begin: str = "body") -> None:
    """Press Tab until the focus is there; it has to be visible then."""
    await page.evaluate(f"document.querySelector({begin!r}).focus()")
    for _ in range(60):
        await press(page, "Tab")
        if await page.evaluate(f"document.activeElement.matches({json.dumps(selector)})"):
            assert await page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
            return
    pytest.fail(f"Tab does not lead to {selector}")


async def text_of(page: Page, selector: str) -> str:
    return str(await page.evaluate(f"document.querySelector({selector!r}).innerText"))


async def until_shown(page: Page, selector: str, words: str, *, is_there: bool = True) -> None:
    found = f"document.querySelector({selector!r})?.innerText.includes({words!r}) ?? false"
    await page.wait_until(f"({found}) === {str(is_there).lower()}")


async def open_status_page(chain: Chain, browser: Chromium) -> Page:
    """With the link that the command prints."""
    printed = (await chain.mcpb("status", "--web", "--no-open")).stdout.decode()
    link = re.search(r"http://localhost:\d+/open\?code=\S+", printed)
    assert link, printed
    return await browser.open_page(link[0])


async def test_a_person_sees_tools_and_calls_searches_and_pauses_a_site(
    chain: Chain, browser: Chromium
) -> None:
    with trio.fail_after(120):
        async with chain.serving():
            await chain.open(browser, "tabserver.html")
            page = await open_status_page(chain, browser)
            async with chain.client() as client:
                await _calls_appear(chain, client, page)
                await _details_open_by_keyboard_and_stay_open(chain, client, page)
                await _a_search_leaves_what_fits(page)
                await _a_site_is_paused_by_keyboard(chain, client, page)
            await _nothing_is_cut_and_nothing_overlaps(page)
            await _nothing_is_wider_than_a_phone(page)
            await _nothing_is_cut_and_nothing_overlaps(page)
        await until_shown(page, "#trouble", "mcpb serve does not respond")


async def _calls_appear(chain: Chain, client: Client, page: Page) -> None:
    echo = chain.name("echo")
    await until_listed(client, lambda names: echo in names)
    await until_shown(page, "#tools", "echo")
    assert await page.evaluate("location.pathname + location.search") == "/"
    await until_shown(page, "#state", "Live")
    assert "No calls yet" in await text_of(page, "#calls")
    assert await call(client, echo, text="hi") == (False, "echo: hi")
    await until_shown(page, "#calls [role=log]", "echo")
    assert "ok" in await text_of(page, ".call")
    await until_shown(page, "#clients", "over stdio")


async def _details_open_by_keyboard_and_stay_open(chain: Chain, client: Client, page: Page) -> None:
    echo = chain.name("echo")
    await tab_to(page, f"#tool-{echo} > summary")
    await press(page, "Enter")
    await until_shown(page, f"#tool-{echo} .body", echo)
    assert "text" in await text_of(page, f"#tool-{echo} dl")
    await call(client, echo, text="again")
    await page.wait_until("document.querySelectorAll('.call').length === 2")
    assert await page.evaluate(f"document.getElementById('tool-{echo}').open")
    assert await page.evaluate("document.activeElement.localName") == "summary"


async def _a_search_leaves_what_fits(page: Page) -> None:
    await tab_to(page, "#search")
    await page.send("Input.insertText", {"text": "zzzzzz"})
    await until_shown(page, "#tools", "No tool matches")
    assert await page.evaluate("document.querySelectorAll('#tools details').length") == 0
    await page.evaluate("document.activeElement.select()")
    await page.send("Input.insertText", {"text": "echo"})
    await until_shown(page, "#tools", "echo")
    assert await page.evaluate("document.activeElement.id") == "search"


async def _a_site_is_paused_by_keyboard(chain: Chain, client: Client, page: Page) -> None:
    button = f'.tab button[data-who="{chain.pages}"]'
    await tab_to(page, button)
    await press(page, "Enter")
    await until_shown(page, button, "Resume")
    assert await page.evaluate("document.activeElement.innerText") == "Resume"
    is_error, text = await call(client, chain.name("echo"), text="no")
    assert is_error
    assert "paused" in text
    await until_shown(page, ".call", "paused")
    await press(page, "Enter")
    await until_shown(page, button, "Pause")

    async def ask() -> str:
        return (await call(client, chain.name("echo"), text="on"))[1]

    await until_said(ask, "echo: on")  # the client's bridge may hear of it later than the page


async def _nothing_is_cut_and_nothing_overlaps(page: Page) -> None:
    for scheme in SCHEMES:
        await choose_scheme(page, scheme)
        measured = await measure_layout(page, scrolled="[role=log]")
        assert (measured["cut"], measured["overlapping"]) == ([], [])


async def _nothing_is_wider_than_a_phone(page: Page) -> None:
    await page.send("Emulation.setDeviceMetricsOverride", PHONE)
    await page.wait_until("innerWidth === 360")
    assert await page.evaluate("document.documentElement.scrollWidth") == 360
