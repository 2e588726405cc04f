"""Names of page tools in two real profiles: they outlive tabs, bridges and browsers.

The mcp package's own client reads and calls them.
"""

from __future__ import annotations

import json

import trio
from mcp import Client

from full_chain import Chain, call, page_tools, until_listed

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


# ── Helpers ─────────────────────────────────────────────────────────────────────────────────────────────────


def name_of(tool: str, names: set[str]) -> str:
    (name,) = (name for name in names if name.endswith(f"_{tool}"))
    return name


async def until_where(client: Client, name: str, query: str) -> None:
    """Call until the page with this query answers."""
    while True:
        is_error, text = await call(client, name)
        if not is_error:
            assert json.loads(text)["path"].endswith(f"?{query}")
            return
        await trio.sleep(0.02)
