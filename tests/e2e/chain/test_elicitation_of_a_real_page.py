"""Elicitation by a page in a real Chromium, in both protocol eras."""

from __future__ import annotations

import json
from typing import Any

import mcp
import mcp_types
import pytest
import trio

from demo.chromium import Chromium
from full_chain import Chain, until_listed
from wire_peers import until

FORM = {"type": "object", "properties": {"apples": {"type": "integer", "title": "How many?"}}}
TWO = {"action": "accept", "content": {"apples": 2}}
SOON_S = 30


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_page_in_a_real_browser_hears_the_person(
    chain: Chain, browser: Chromium, mode: str, nursery: trio.Nursery
) -> None:
    asked: list[str] = []
    results: list[mcp_types.CallToolResult] = []

    async def person(context: Any, params: mcp_types.ElicitRequestParams) -> mcp_types.ElicitResult:
        asked.append(params.message)
        return mcp_types.ElicitResult(action="accept", content={"apples": 2})

    async def call(client: mcp.Client) -> None:
        results.append(await client.call_tool(chain.name("slow"), {}))

    with trio.fail_after(3 * SOON_S):
        async with mcp.Client(chain.command, mode=mode, elicitation_callback=person) as client:
            page = await chain.open(browser, "tabserver.html")
            await until_listed(client, lambda names: chain.name("slow") in names)
            nursery.start_soon(call, client)
            await page.wait_until("window.runs === 1")
            question = json.dumps({"message": "Buy?", "requestedSchema": FORM})
            await page.evaluate(
                f"window.answer = null; void server.request('elicitation/create', {question})"
            )
            assert (await page.wait_until("window.answer"))["result"] == TWO
            await page.evaluate("window.finishSlow()")
            await until(lambda: bool(results))
            assert await page.evaluate("window.runs") == 1
    assert asked == [f"{chain.pages} asks: Buy?"]
    assert not results[0].is_error
