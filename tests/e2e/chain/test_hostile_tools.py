"""Tools that mean harm, in a real Chromium: each is listed and called as far as it is harmless."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
from mcp import Client

from bridge.hub.tool_definition import mark_of
from demo.chromium import Chromium
from full_chain import COUNTED, Chain, call, page_tools, until_listed

pytestmark = pytest.mark.one_browser


@pytest.fixture(autouse=True)
def counted() -> Iterator[list[str]]:
    """What pages, or who reads their schemas, have asked of the server."""
    COUNTED.clear()
    yield COUNTED
    COUNTED.clear()


def log_of(chain: Chain) -> str:
    path = Path(chain.home) / "state" / "mcpb.log"
    return path.read_text() if path.exists() else ""


async def opened(chain: Chain, browser: Chromium, client: Client, kind: str, *tools: str) -> None:
    """The page of a kind, and these of its tools listed."""
    await chain.open(browser, f"hostile.html?kind={kind}")
    wanted = {chain.name(tool) for tool in ("harmless", *tools)}
    await until_listed(client, lambda names: wanted <= names)


async def description(client: Client, name: str) -> str:
    listed = await client.list_tools(cache_mode="refresh")
    return next(tool.description or "" for tool in listed.tools if tool.name == name)


async def test_three_hundred_tools_are_searched_instead_of_listed(chain: Chain, browser: Chromium) -> None:
    with trio.fail_after(60):
        async with chain.client() as client:
            await chain.open(browser, "tabserver.html")
            await until_listed(client, lambda names: len(names) == 6)
            await chain.open(browser, "hostile.html?kind=many")
            await until_listed(client, lambda names: names == set())
            _, text = await call(client, "list_page_tools", query="t299")
            name = text.partition(":")[0]
            assert name == chain.name("t299", 2)
            assert await call(client, "call_page_tool", name=name) == (False, "extra: t299")
            _, text = await call(client, "list_page_tools")
            assert "of 307" in text
            assert await call(client, chain.name("echo"), text="still here") == (False, "echo: still here")


async def test_with_a_higher_limit_all_three_hundred_are_listed(chain: Chain, browser: Chromium) -> None:
    chain.settings["MCPB_MAX_LISTED_TOOLS"] = "0"
    with trio.fail_after(60):
        async with chain.client() as client:
            await opened(chain, browser, client, "many", "t0", "t299")
            assert len(await page_tools(client)) == 301


async def test_one_that_is_registered_in_a_loop_is_told_twice_a_second_at_most(
    chain: Chain, browser: Chromium
) -> None:
    with trio.fail_after(60):
        async with chain.client() as client, client.listen(tools_list_changed=True) as changes:
            await opened(chain, browser, client, "loop", "looped")
            told = 0
            with trio.move_on_after(1):
                while True:
                    await anext(changes)
                    told += 1
            assert told <= 3
            assert await call(client, chain.name("harmless")) == (False, "extra: harmless")


async def test_one_that_never_settles_ends_by_its_time_and_holds_up_nobody(
    chain: Chain, browser: Chromium
) -> None:
    chain.settings["MCPB_CALL_TIMEOUT_S"] = "2"
    outcomes: list[tuple[bool, str]] = []
    with trio.fail_after(60):
        async with chain.client() as client, trio.open_nursery() as nursery:
            await opened(chain, browser, client, "never", "never")

            async def wait() -> None:
                outcomes.append(await call(client, chain.name("never")))

            nursery.start_soon(wait)
            assert await call(client, chain.name("harmless")) == (False, "extra: harmless")
    ((is_error, text),) = outcomes
    assert is_error
    assert "did not answer in time: 2 s have passed. It may have run" in text


@pytest.mark.parametrize("kind", ["huge", "control"])
async def test_what_it_says_about_itself_is_cut_and_cleaned(
    chain: Chain, browser: Chromium, kind: str
) -> None:
    with trio.fail_after(60):
        async with chain.client() as client:
            await opened(chain, browser, client, kind, kind)
            said = await description(client, chain.name(kind))
            assert said.startswith(f"{mark_of(chain.pages)} [tab 1")
            assert len(said) < 2500
            assert all(char.isprintable() or char == "\n" for char in said)
            assert (await call(client, chain.name(kind)))[0] is False


async def test_one_whose_arguments_are_no_object_is_left_out_by_itself_and_named_in_the_log(
    chain: Chain, browser: Chromium
) -> None:
    with trio.fail_after(60):
        async with chain.client() as client:
            await opened(chain, browser, client, "array")
            assert await page_tools(client) == {chain.name("harmless")}
        assert "the inputSchema of 'array' does not describe an object" in log_of(chain)


@pytest.mark.parametrize("kind", ["file", "http", "pattern", "doubling"])
async def test_a_schema_that_reads_elsewhere_or_explodes_is_not_used_and_nothing_is_read(
    chain: Chain, browser: Chromium, counted: list[str], kind: str
) -> None:
    with trio.fail_after(60):
        async with chain.client() as client:
            await opened(chain, browser, client, kind, kind)
            given = {"x": "a" * 5000 + "b"}
            began = trio.current_time()
            is_error, text = await call(client, chain.name(kind), **given)
            assert trio.current_time() - began < 5
            if kind == "pattern":  # it can be used, in linear time
                assert is_error
                assert "x: " in text
            else:
                assert (is_error, json.loads(text)) == (False, given)
        assert counted == []
        assert (kind == "pattern") == ("schema" not in log_of(chain))
