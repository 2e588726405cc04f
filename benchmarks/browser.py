"""The whole chain on real parts: a page in Chromium, the native host, a bridge, the mcp package's client."""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median
from typing import Any

import trio
from mcp import Client, StdioServerParameters, stdio_client

import extension
from benchmarks.limits import REGISTRATION_MS, ROUND_TRIP_MS
from benchmarks.measuring import Samples
from benchmarks.subject import Bench
from benchmarks.table import Compared, Row, Table
from demo.chromium import Page, find_chromium, open_chromium
from demo.served_page import served_page
from demo.stage import Place

CALLS = 300
ROUNDS = 9
_APART_S = 1.5
"""Between two registrations: a page's second change within half a second waits for its turn."""
_PAGE = Path(__file__).with_name("page.html")


def tables(bench: Bench) -> Iterator[Table]:
    """From page to client, in a real Chromium; nothing where there is none."""
    executable = find_chromium()
    if executable is None:
        return
    place = Place(bench.directory / "chromium")
    place.directory.mkdir()
    yield Table("From page to client, in a real Chromium", trio.run(_measure, place, executable, bench))


async def _measure(place: Place, executable: Path, bench: Bench) -> list[Row]:
    place.register_host()
    with trio.fail_after(120), served_page(_PAGE.read_text()) as url:
        async with _browser(place, executable) as open_page, _client(place) as client:
            page = await open_page(url)
            name = await _listed(client, "_echo")
            calls = Samples([[await _call(client, name) for _ in range(bench.count(CALLS))]])
            changes = [await _register(client, page, number) for number in range(bench.count(ROUNDS))]
    return [
        Row(
            "from the page to the client's list",
            "10 tools",
            median(changes),
            compared=[
                Compared(median(changes), "ms", REGISTRATION_MS),
                Compared(max(changes), "ms, the slowest"),
            ],
        ),
        Row(
            "a call and its answer",
            "the mcp package's client",
            calls.p50,
            calls.p99,
            compared=[Compared(calls.p99, "ms p99", ROUND_TRIP_MS)],
        ),
    ]


async def _call(client: Client, name: str) -> float:
    began = time.perf_counter()
    result = await client.call_tool(name, {"text": "hello"})
    took = time.perf_counter() - began
    assert not result.is_error, result
    return took * 1000


async def _register(client: Client, page: Page, number: int) -> float:
    """From the page's own registration until the client has the tools in its list, as soon as it is told."""
    await trio.sleep(_APART_S)
    async with client.listen(tools_list_changed=True) as changes:
        offered_at = await page.evaluate(f"offerTen({number})")
        while not [name for name in await _names(client) if f"_late{number}_9" in name]:
            await anext(changes)
        return time.time() * 1000 - float(offered_at)


async def _listed(client: Client, ending: str) -> str:
    async with client.listen(tools_list_changed=True) as changes:
        while not (found := [name for name in await _names(client) if name.endswith(ending)]):
            await anext(changes)
        return found[0]


async def _names(client: Client) -> list[str]:
    return [tool.name for tool in (await client.list_tools(cache_mode="refresh")).tools]


@asynccontextmanager
async def _client(place: Place) -> AsyncIterator[Client]:
    bridge = StdioServerParameters(
        command=sys.executable, args=["-I", "-m", "bridge", "bridge"], env={"MCPB_HOME": str(place.home)}
    )
    async with Client(stdio_client(bridge)) as client:
        yield client


@asynccontextmanager
async def _browser(place: Place, executable: Path) -> AsyncIterator[Any]:
    with place.browser_log.open("wb") as log:
        async with open_chromium(place.profile, executable=executable, stderr=log.fileno()) as chromium:
            await chromium.load_extension(Path(next(iter(extension.__path__))))
            yield chromium.open_page
