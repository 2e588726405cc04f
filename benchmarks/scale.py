"""Calls and lists among few tools and many, in few tabs and many.

All are listed one by one: `max_listed_tools = 0` lifts the usual limit of 128, which would keep a list short.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

import msgspec

from benchmarks import limits
from benchmarks.conversation import PATIENCE_S, Conversation, EndError
from benchmarks.driver import DrivenCaller, driven
from benchmarks.limits import Limit
from benchmarks.loads import ALL, SMALL, Load
from benchmarks.mcp_client import Era, McpClient
from benchmarks.measuring import take_turns
from benchmarks.processes import Corner
from benchmarks.routes import running_bridge, running_host
from benchmarks.subject import Bench
from benchmarks.table import Compared, Row, Table
from native_host.system.home_layout import HomeLayout

SIZES = ((10, 1), (10, 10), (10, 100), (1_000, 1), (1_000, 10), (1_000, 100), (10_000, 10), (10_000, 100))
"""How many tools, in how many tabs; the first is what the others are compared to. One page may have 1 024."""
CALLS, LISTS = 100, 5
_LISTING = Load("tools/list", "", b"", b"")
_ROUTE = "client's stdio → bridge → native host → extension's end → back, 2026-07-28"
_PAUSE_S = 0.05


def tables(bench: Bench) -> Iterator[Table]:
    """Measure the full path with hosts and bridges of all sizes at once."""
    with ExitStack() as stack:
        callers = [stack.enter_context(_serving(bench, *size)) for size in SIZES]
        yield _table(bench, "Calls among few tools and many", callers, SMALL, CALLS)
        yield _table(bench, "Lists of few tools and of many", callers, _LISTING, LISTS)


def _table(bench: Bench, title: str, callers: list[DrivenCaller], load: Load, count: int) -> Table:
    measures = {
        str(size): partial(_took_ms, caller, load, bench.count(count))
        for size, caller in zip(SIZES, callers, strict=True)
    }
    for measure in measures.values():
        measure()
    found = take_turns(measures, bench.rounds)
    rows = []
    for size, samples in zip(SIZES, found.values(), strict=True):
        beside = [
            Compared(samples.ratio_to(found[str(SIZES[0])]), "times the first", _ratio_limit(load, size))
        ]
        if load is _LISTING and size[0] == max(tools for tools, _ in SIZES):
            beside.append(Compared(samples.p50, "ms", limits.LIST_10_000_TOOLS_MS))
        rows.append(Row(_in_words(size), load.name, samples.p50, samples.p99, compared=beside))
    return Table(
        title, rows, f"client's stdio → bridge → native host → extension's end; {bench.rounds} rounds"
    )


def _ratio_limit(load: Load, size: tuple[int, int]) -> Limit:
    return limits.CALL_AMONG_MANY if load is SMALL and size == SIZES[-1] else limits.NONE


def _in_words(size: tuple[int, int]) -> str:
    tools, tabs = size
    return f"{tools:,} tools in {tabs} tab{'s' if tabs > 1 else ''}".replace(",", " ")


def _took_ms(caller: DrivenCaller, load: Load, count: int) -> list[float]:
    return [seconds * 1e3 for seconds in caller.call(load, count).seconds]


@contextmanager
def _serving(bench: Bench, tools: int, tabs: int) -> Iterator[DrivenCaller]:
    corner = Corner.below(bench.directory)
    HomeLayout(corner.directory).config.write_text("max_listed_tools = 0\n")
    with (
        running_host(bench, corner, tabs=tabs, other_tools=tools - len(ALL)),
        running_bridge(corner) as conversation,
    ):
        client = McpClient(conversation, Era.STATELESS)
        client.shake_hands()
        name = _public_name(client, tools)
        call = client.request_by(lambda _: name)
        meta = msgspec.json.encode(Era.STATELESS.meta)
        listing = b'{"jsonrpc":"2.0","id":\0,"method":"tools/list","params":%b}' % meta
        with driven(
            bench, corner, conversation, lambda load: listing if load is _LISTING else call(load)
        ) as caller:
            yield caller


def _public_name(client: McpClient[Conversation], tools: int) -> str:
    """Of the tool that is called, as soon as all are listed: the bridge's own are among those counted."""
    until = time.monotonic() + PATIENCE_S
    while True:
        names = client.tool_names()
        called = next((name for name in names if name.endswith(SMALL.tool)), None)
        if called is not None and len(names) >= tools:
            return called
        if time.monotonic() > until:
            raise EndError(f"{len(names)} of {tools} tools were listed")
        time.sleep(_PAUSE_S)
