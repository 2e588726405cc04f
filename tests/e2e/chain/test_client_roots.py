"""Roots of a client that are sites, in a real Chromium: they rank lists, or are the only sites."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from demo.chromium import Chromium
from full_chain import REQUESTED, Chain
from mcp_client import BridgeProcess, McpLines, text_of

PROJECT = "file:///srv/shop"
FRAME = """new Promise((loaded) => {{
    const frame = document.body.appendChild(document.createElement('iframe'));
    frame.onload = () => loaded();
    frame.src = {url};
}})"""
"""Adds a frame with this address, until it has loaded, or shows an error page."""


@asynccontextmanager
async def client_with_roots(chain: Chain, mode: str) -> AsyncIterator[McpLines]:
    """A client by hand, as that of the mcp package lists files alone."""
    (chain.home / "config.toml").write_text(f'[browser]\nroots = "{mode}"\n')
    async with BridgeProcess.started(chain.env) as client:
        client.capabilities = {"roots": {"listChanged": True}}
        await client.shake_hands("2025-11-25")
        yield client


async def target_at(browser: Chromium, url: str) -> str:
    """The id of the tab at an address."""
    (target,) = [each for each in await browser.targets() if each["url"] == url]
    found: str = target["targetId"]
    return found


async def call(client: McpLines, name: str, *roots: str, **arguments: Any) -> Any:
    """Call a tool; with `roots`, the client is asked for them, and answers so."""
    request_id = await client.send("tools/call", {"name": name, "arguments": arguments})
    if roots:
        answer = {"roots": [{"uri": uri} for uri in roots]}
        await client.reply(await client.asked("roots/list"), result=answer)
    return await client.answer_to(request_id)


@pytest.fixture
def elsewhere(chain: Chain) -> str:
    """The test pages as another site."""
    return chain.pages.replace("localhost", "127.0.0.1")


async def test_strict_roots_are_the_only_sites_also_where_a_page_leads_on(
    chain: Chain, browser: Chromium, elsewhere: str
) -> None:
    here = f"{chain.pages}/plain.html"
    REQUESTED.clear()
    with trio.fail_after(60):
        async with client_with_roots(chain, "strict") as client:
            connected = await call(client, "tabs_context", PROJECT, chain.pages)
            while connected.get("isError"):
                await trio.sleep(0.05)
                connected = await call(client, "tabs_context")
            opened = await call(client, "navigate", url=here, wait="load")
            assert not opened.get("isError"), opened
            refused = await call(client, "navigate", url=f"{elsewhere}/plain.html?refused")
            assert refused["isError"]
            assert f"The client's roots: {PROJECT}, {chain.pages}." in text_of(refused)
            page = await browser.attach(await target_at(browser, here))
            leave = f"location.href = {json.dumps(elsewhere + '/plain.html?led')}; 1"
            await call(client, "javascript_tool", action="javascript_exec", text=leave)
            await page.wait_until("location.protocol === 'chrome-error:'")
            assert not (await call(client, "navigate", url=f"{here}?again", wait="load")).get("isError")
            await page.evaluate(FRAME.format(url=json.dumps(f"{elsewhere}/plain.html?framed")))
            text = await call(client, "get_page_text")
            assert "A page without tools." in text_of(text)
            assert [path for path in REQUESTED if path.startswith("/plain.html")] == [
                "/plain.html",
                "/plain.html?again",
            ]
            await client.notify("notifications/roots/list_changed")
            there = f"{elsewhere}/plain.html?allowed"
            moved = await call(client, "navigate", elsewhere, url=there, wait="load")
            assert not moved.get("isError"), moved
            assert "/plain.html?allowed" in REQUESTED
            assert (await call(client, "navigate", url=here))["isError"]


async def test_roots_that_guide_put_their_tools_and_tabs_first(
    chain: Chain, browser: Chromium, elsewhere: str
) -> None:
    for site in (chain.pages, elsewhere):
        await browser.open_page(f"{site}/tabserver.html")
    with trio.fail_after(60):
        async with client_with_roots(chain, "guide") as client:
            # The page that is to come first is the one that would come last.
            for site in (elsewhere, chain.pages):
                await client.notify("notifications/roots/list_changed")
                listed = await call(client, "list_page_tools", PROJECT, f"{site}/app", query="echo")
                while len(listed["structuredContent"]["tools"]) < 2:
                    await trio.sleep(0.05)
                    listed = await call(client, "list_page_tools", query="echo")
                assert listed["structuredContent"]["tools"][0]["origin"] == site
            for site in (chain.pages, elsewhere):
                await call(client, "tabs_create")
                assert not (await call(client, "navigate", url=f"{site}/plain.html")).get("isError")
            for site in (elsewhere, chain.pages):
                await client.notify("notifications/roots/list_changed")
                tabs = await call(client, "tabs_context", site)
                found = [tab["url"].rpartition("/")[0] for tab in tabs["structuredContent"]["availableTabs"]]
                assert found == [site, *({chain.pages, elsewhere} - {site})]
