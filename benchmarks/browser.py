"""The whole chain on real parts: pages in Chromium, our extension, the host, `mcpb bridge`, a client."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median

import msgspec
import trio

import extension
from benchmarks import calls, limits, routes
from benchmarks.conversation import Conversation
from benchmarks.floor import open_floor
from benchmarks.limits import REGISTRATION_MS, ROUND_TRIP_MS
from benchmarks.loads import ALL, RESULT_1MB, SMALL
from benchmarks.mcp_client import Era, McpClient
from benchmarks.peers import missing_chromium
from benchmarks.processes import Corner
from benchmarks.subject import Bench, Caller, Role, Subject
from benchmarks.table import Compared, Row, Table
from demo.chromium import Page, find_chromium, open_chromium
from demo.environment import Place
from demo.served_page import served_page

CHANGES = 9
_APART_S = 1.5
"""Between two registrations: a page's second change within half a second waits for its turn."""
_PAGE = Path(__file__).with_name("page.html")
_PLACE = "const offered = [];"
_NATIVE = "?native"
_TO_FLOOR: calls.Limits = {
    (SMALL, Role.EXTENSION_FLOOR): limits.CHROMIUM_SMALL_TO_FLOOR,
    (RESULT_1MB, Role.EXTENSION_FLOOR): limits.CHROMIUM_1MB_TO_FLOOR,
}
_CALLS = "Calls in a real Chromium"
_CHANGED = "notifications/tools/list_changed"


def tables(bench: Bench) -> Iterator[Table]:
    """Measure calls of page tools, and the time until a new one is listed."""
    if missing := missing_chromium():
        yield Table(_CALLS, [Row("mcpb", note=missing)])
    else:
        yield from trio.run(_measured, bench)


async def _measured(bench: Bench) -> list[Table]:
    """Blocks while calls are made: there is nothing to hear from the browser meanwhile."""
    place = Place(Corner.below(bench.directory).directory)
    place.register_host()
    with served_page(page_html()) as url, place.browser_log.open("wb") as log:
        browser = open_chromium(
            place.profile,
            [routes.WEBMCP],
            executable=find_chromium(),
            env=place.browser_environment,
            stderr=log.fileno(),
        )
        async with browser as chromium:
            await chromium.load_extension(Path(next(iter(extension.__path__))))
            page = await chromium.open_page(url)
            await chromium.open_page(url + _NATIVE)
            async with open_floor(bench, url, ["", _NATIVE]) as floor:
                called = _calls(bench, place, chromium.version, floor)
            return [called, await _registrations(bench, place, page)]


def page_html() -> str:
    """Return the page with the tools of the loads and their answers."""
    offered = [{"definition": load.definition, "result": msgspec.Raw(load.result)} for load in ALL]
    return _PAGE.read_text().replace(_PLACE, f"const offered = {msgspec.json.encode(offered).decode()};")


# ── Calls ───────────────────────────────────────────────────────────────────────────────────────────────────


def _calls(bench: Bench, place: Place, version: str, floor: Sequence[Subject]) -> Table:
    kinds = ("a page server of MCP-B", "the browser's own WebMCP")
    parts = [_calls_of(bench, place, *part) for part in zip(kinds, (1, 2), floor, strict=True)]
    route = f"client's stdio → bridge → native host → extension in {version} → page → back"
    note = f"{route}; {bench.programs.name}; {bench.rounds} rounds"
    return Table(_CALLS, [row for part in parts for row in part.rows], note)


def _calls_of(bench: Bench, place: Place, kind: str, tab: int, floor: Subject) -> Table:
    without = replace(routes.path_subjects(bench)[0], name="the same without a browser", role=Role.BESIDE)
    ours = Subject(kind, partial(_in_tab, place, tab), Role.OURS, ALL)
    beside = [replace(floor, name=f"{floor.name}, {kind}"), *([without] if tab == 1 else [])]
    return calls.one_at_a_time(bench, _CALLS, "", [ours, *beside], _TO_FLOOR, p99_limit=ROUND_TRIP_MS)


@contextmanager
def _in_tab(place: Place, tab: int, bench: Bench) -> Iterator[Caller]:
    corner = Corner(place.home)
    with (
        routes.running_bridge(corner) as conversation,
        routes.speaking(bench, corner, conversation, Era.HANDSHAKE, tab) as caller,
    ):
        yield caller


# ── Registrations ───────────────────────────────────────────────────────────────────────────────────────────


async def _registrations(bench: Bench, place: Place, page: Page) -> Table:
    with routes.running_bridge(Corner(place.home)) as conversation:
        client = McpClient(conversation)
        client.shake_hands()
        client.listed(SMALL, tab=1)
        took = [await _register(client, page, number) for number in range(bench.count(CHANGES))]
    compared = [Compared(median(took), "ms", REGISTRATION_MS), Compared(max(took), "ms, the slowest")]
    row = Row("a page server of MCP-B", "10 new tools", median(took), compared=compared)
    return Table("From a page's registration to the client's list, in a real Chromium", [row])


async def _register(client: McpClient[Conversation], page: Page, number: int) -> float:
    """Milliseconds until a client that lists tools on each notification has the tools."""
    await trio.sleep(_APART_S)
    offered_at = await page.evaluate(f"offerTen({number})")
    while not any(f"_late{number}_9" in name for name in client.tool_names()):
        client.conversation.hear(lambda message: message.get("method") == _CHANGED)
    return time.time() * 1000 - float(offered_at)
