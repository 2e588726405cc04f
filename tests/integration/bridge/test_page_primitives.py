"""Resources, prompts and subscriptions of a simulated page, through a real native host and `mcpb bridge`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import mcp
import mcp_types as types
import pytest
import trio
from mcp import MCPError

from demo.simulated.browser import SimulatedBrowser
from demo.simulated.page_server import PageServer, ServerError
from demo.simulated.tabs import SimulatedTab
from mcp_client import BRIDGE_COMMAND
from wire_peers import HOST_COMMAND

SHOP = "http://localhost:8123/"
CART = "mcpb://page/localhost_8123/tab1/cart://1"
PAY = "localhost_8123_tab1_pay"
SOON_S = 30

pytestmark = pytest.mark.usefixtures("mcpb_home")


async def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    match method, params:
        case "resources/read", {"uri": "cart://1"}:
            return {"contents": [{"uri": "cart://1", "text": "two apples"}]}
        case "prompts/get", {"arguments": {"place": place}}:
            content = {"type": "text", "text": f"Send it to {place}."}
            return {"messages": [{"role": "user", "content": content}]}
        case "completion/complete", {"argument": {"value": value}}:
            return {"completion": {"values": [f"{value}ern"]}}
    raise ServerError(-32602, "not in this shop")


@pytest.fixture
async def shop(mcpb_home: Path) -> AsyncIterator[SimulatedTab]:
    async with SimulatedBrowser(HOST_COMMAND) as browser:
        tab = browser.add_tab(SHOP, "Shop")
        tab.serve(
            PageServer(
                answer,
                resources=[{"uri": "cart://1", "name": "Cart"}],
                resource_templates=[{"uriTemplate": "order://{id}", "name": "Order"}],
                prompts=[{"name": "pay", "arguments": [{"name": "place", "required": True}]}],
            )
        )
        yield tab


def bridge_client(mode: str) -> mcp.Client:
    command, *arguments = BRIDGE_COMMAND
    return mcp.Client(
        mcp.StdioServerParameters(command=command, args=arguments, env=dict(os.environ)), mode=mode
    )


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_page_s_resource_prompt_and_completion_reach_a_client(shop: SimulatedTab, mode: str) -> None:
    with trio.fail_after(SOON_S):
        async with bridge_client(mode) as client:
            assert CART in [str(each.uri) for each in (await client.list_resources()).resources]
            (content,) = (await client.read_resource(CART)).contents
            assert isinstance(content, types.TextResourceContents)
            assert content.text == "two apples"
            with pytest.raises(MCPError, match="http://localhost:8123: not in this shop"):
                await client.read_resource("order://7")
            assert PAY in [prompt.name for prompt in (await client.list_prompts()).prompts]
            last = (await client.get_prompt(PAY, {"place": "Bern"})).messages[-1].content
            assert isinstance(last, types.TextContent)
            assert last.text == "Send it to Bern."
            ref = types.PromptReference(name=PAY)
            completed = await client.complete(ref, {"name": "place", "value": "B"})
            assert completed.completion.values == ["Bern"]


async def test_updates_reach_a_subscriber_also_after_the_page_s_server_was_another_one(
    shop: SimulatedTab,
) -> None:
    with trio.fail_after(SOON_S):
        async with bridge_client("auto") as client, client.listen(resource_subscriptions=[CART]) as updates:
            await report_until_heard(shop, updates)
            shop.serve(PageServer(answer, resources=[{"uri": "cart://1", "name": "Cart"}]))
            await report_until_heard(shop, updates)


async def report_until_heard(shop: SimulatedTab, updates: Any) -> None:
    """Let the page report a change until the client hears of it: a watch begins a moment after its page."""
    async with trio.open_nursery() as nursery:

        async def report() -> None:
            while True:
                shop.top.report_update("cart://1")
                await trio.sleep(0.05)

        nursery.start_soon(report)
        assert str((await anext(updates)).uri) == CART
        nursery.cancel_scope.cancel()


async def test_status_shows_what_the_page_offers_and_who_is_subscribed(shop: SimulatedTab) -> None:
    with trio.fail_after(SOON_S):
        async with bridge_client("auto") as client, client.listen(resource_subscriptions=[CART]) as updates:
            await report_until_heard(shop, updates)
            browser = await read_status_until(
                lambda found: [each["subscriptions"] for each in found["sessions"]] == [[CART]]
            )
            (tab,) = browser["tabs"]
            assert (tab["resources"], tab["templates"], tab["prompts"]) == (1, 1, 1)
        await read_status_until(lambda found: not found["sessions"])


async def read_status_until(is_so: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Follow `mcpb status` until its first browser is as expected."""
    command = [sys.executable, "-m", "bridge", "status", "--json", "--watch"]
    async with trio.open_nursery() as nursery:
        process = await nursery.start(partial(trio.run_process, command, stdout=subprocess.PIPE, check=False))
        received = b""
        async for data in process.stdout:
            received += data
            *lines, received = received.split(b"\n")
            for line in lines:
                browser: dict[str, Any] = json.loads(line)["browsers"][0]
                if is_so(browser):
                    nursery.cancel_scope.cancel()
                    return browser
    raise AssertionError("mcpb status has ended")
