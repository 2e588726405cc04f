"""The tabs of a session over HTTP, in real Chromium: a group of its own, from its first tab to its end."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import trio

from demo.chromium import Chromium
from full_chain import Chain, until_listed
from http_frontend import call, shake_hands

GROUPS = """(async () => {
    const tabs = ({id}) => chrome.tabs.query({groupId: id});
    const paths = async (one) => (await tabs(one)).map(({url}) => new URL(url).pathname);
    const groups = await chrome.tabGroups.query({});
    return Object.fromEntries(await Promise.all(groups.map(async (one) => [one.title, await paths(one)])));
})()"""


async def test_a_tab_that_a_session_needs_is_in_its_group_which_is_gone_with_it_if_so_configured(
    chain: Chain, browser: Chromium
) -> None:
    (chain.home / "config.toml").write_text("[http]\nclose_tabs = true\n")
    kept = chain.name("count", tab=None)
    with trio.fail_after(120):
        async with chain.client() as client:
            tab = await chain.open(browser, "kept.html")
            await until_listed(client, lambda names: chain.name("count") in names)
            await client.call_tool(
                chain.name("count"), {}
            )  # a cached tool is listed once its site was called
            await tab.close()
            await until_listed(client, lambda names: kept in names)
        async with chain.serving() as url, http_client(chain, url) as http:
            headers = await shake_hands(http, clientInfo={"name": "By Hand", "version": "1"})
            assert await groups(browser) == {}
            async with http.stream("POST", "/mcp", json=call(1, kept), headers=headers) as response:
                answer = answer_in(await response.aread())
            assert answer["result"]["content"][0]["text"] == "/kept.html run 2"
            assert await groups(browser) == {"By Hand (HTTP)": ["/kept.html"]}
            assert (await http.delete("/mcp", headers=headers)).status_code == 204
            while await groups(browser):
                pass


def http_client(chain: Chain, url: str) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(base_url=url, headers=chain.http_headers, timeout=60)


def answer_in(body: bytes) -> Any:
    """The last message of a response, JSON or events."""
    last = [line for line in body.splitlines() if b'"jsonrpc"' in line][-1]
    return json.loads(last.removeprefix(b"data: "))


async def groups(browser: Chromium) -> dict[str, list[str]]:
    """The tab groups by title, with the paths of their tabs, as the extension sees them."""
    (worker,) = await browser.targets("service_worker")
    looking = await browser.attach(str(worker["targetId"]))
    found: dict[str, list[str]] = await looking.evaluate(GROUPS)
    return found
