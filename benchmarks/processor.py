"""Processor time: how long each of our processes runs for one call. Others on the machine hardly change it.

Where a call takes longer than it may, this says in which process to look.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import median

from benchmarks.calls import CALLS, DEPTH, PIPELINED
from benchmarks.loads import SMALL, Load
from benchmarks.mcp_client import Era
from benchmarks.processes import Corner, ran_ms
from benchmarks.routes import BRIDGE, running_host, running_server, speaking
from benchmarks.subject import Bench, Caller
from benchmarks.table import Row, Table


def tables(bench: Bench) -> Iterator[Table]:
    """Measure the native host and the bridge on the full path, if the system reports processor time."""
    corner = Corner.below(bench.directory)
    with (
        running_host(bench, corner) as host,
        running_server(corner, BRIDGE) as (bridge, conversation),
        speaking(bench, corner, conversation, Era.HANDSHAKE) as caller,
    ):
        processes = {"mcpb bridge": bridge, "mcpb's native host": host}
        try:
            rows = list(_rows(bench, caller, processes))
        except FileNotFoundError:  # not Linux
            return
    yield Table("Processor time of a call", rows, f"on the full path; median of {bench.rounds} rounds")


def _rows(bench: Bench, caller: Caller, processes: Mapping[str, int]) -> Iterator[Row]:
    loads = [(load, count, 1) for load, count in CALLS.items()]
    for load, count, depth in [*loads, (SMALL, PIPELINED, DEPTH)]:
        caller.call(load, bench.count(count), depth)  # what happens once, happens before
        rounds = [_ran(caller, processes, load, bench.count(count), depth) for _ in range(bench.rounds)]
        what = load.name if depth == 1 else f"{load.name}, {depth} on the way"
        for number, name in enumerate(processes):
            yield Row(name, what, median(ran[number] for ran in rounds))


def _ran(caller: Caller, processes: Mapping[str, int], load: Load, count: int, depth: int) -> list[float]:
    """For each process, how many ms it ran for a call."""
    before = [ran_ms(pid) for pid in processes.values()]
    caller.call(load, count, depth)
    return [(ran_ms(pid) - then) / count for pid, then in zip(processes.values(), before, strict=True)]
