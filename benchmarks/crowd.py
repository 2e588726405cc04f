"""Many MCP clients at once, each with a bridge of its own, on one native host.

Calls are made at a fixed rate, whether or not those before have been answered, and timed from when they were
due: a call that had to wait for its turn has waited.
"""

from __future__ import annotations

import gc
import select
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import count, cycle, islice
from pathlib import Path
from statistics import median
from typing import NamedTuple

import msgspec

from benchmarks import limits
from benchmarks.conversation import PATIENCE_S, Conversation, EndError
from benchmarks.driver import Request
from benchmarks.loads import KB, SMALL
from benchmarks.mcp_client import McpClient
from benchmarks.measuring import take_turns
from benchmarks.memory import resident_mb
from benchmarks.processes import Corner, ran_ms
from benchmarks.routes import BRIDGE, running_host, running_server
from benchmarks.subject import Bench
from benchmarks.table import Compared, Row, Table

SIZES = (1, 8, 64)
CALLS_PER_SECOND = 1_000
CALLS = 1_000
IDLE_S = 3.0
"""So long the processor time of clients that wait is counted."""


class _Client(NamedTuple):
    bridge: int
    conversation: Conversation
    request: Request


def tables(bench: Bench) -> Iterator[Table]:
    """Measure calls of one client and of many, and the cost of an idle client."""
    corner = Corner.below(bench.directory)
    most = max(SIZES)
    with ExitStack() as stack:
        host = stack.enter_context(running_host(bench, corner))
        servers = [stack.enter_context(running_server(corner, BRIDGE)) for _ in range(most)]
        clients = [_connected(*server) for server in servers]
        waiting = list(_waiting(host, [client.bridge for client in clients]))
        measures = {str(size): partial(_paced, clients[:size], bench.count(CALLS)) for size in SIZES}
        for measure in measures.values():
            measure()
        found = take_turns(measures, bench.rounds)
        ran = list(_ran(host, clients, bench.count(CALLS)))
    calls = [
        Row(
            f"{size} of {most} clients call",
            SMALL.name,
            samples.p50,
            samples.p99,
            compared=[Compared(samples.p99, "ms p99", limits.CROWD_P99_MS)],
        )
        for size, samples in zip(SIZES, found.values(), strict=True)
    ]
    note = f"{CALLS_PER_SECOND} calls a second of all together, from when each was due; {bench.rounds} rounds"
    yield Table("Many clients on one host", [*calls, *ran, *waiting], note)


def _connected(bridge: int, conversation: Conversation) -> _Client:
    client = McpClient(conversation)
    client.shake_hands()
    name = client.listed(SMALL)
    return _Client(bridge, conversation, client.request_by(lambda _: name))


# ── Clients that only wait ──────────────────────────────────────────────────────────────────────────────────


def _waiting(host: int, bridges: Sequence[int]) -> Iterator[Row]:
    load = f"{len(bridges)} clients wait"
    yield Row("mcpb's native host", load, resident_mb(host), unit="MB")
    yield Row("mcpb bridge, each", load, median(map(resident_mb, bridges)), unit="MB")
    try:
        own = median(map(_own_mb, bridges))
        before = sum(map(ran_ms, bridges))
        time.sleep(IDLE_S)
        ran = (sum(map(ran_ms, bridges)) - before) / IDLE_S / len(bridges)
    except FileNotFoundError:  # not Linux
        return
    yield Row("mcpb bridge, each", f"{load}: not shared", own, unit="MB")
    yield Row("mcpb bridge, each", f"{load}: processor", ran, unit="ms/s")


def _own_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private")) / KB


# ── Calls at a fixed rate ───────────────────────────────────────────────────────────────────────────────────


class _Answer(msgspec.Struct):
    id: int | str | None = None
    result: msgspec.Raw = msgspec.Raw(b"")


class _Pace:
    """Calls of clients in turn, at a fixed rate."""

    def __init__(self, clients: Sequence[_Client], calls: int) -> None:
        self._clients = {client.conversation.from_fd: client for client in clients}
        self._turns = islice(cycle(clients), calls)
        self._ids = count(1_000_000)  # the conversations count their own from 1
        self._due_at = time.perf_counter()
        self._on_the_way: dict[int | str | None, float] = {}
        self._took_ms: list[float] = []

    def run(self) -> list[float]:
        """Return the duration of each call, in ms.

        Raises:
            EndError: one was refused, or not answered.
        """
        for client in self._turns:
            self._hear_until_due()
            number = next(self._ids)
            self._on_the_way[number] = self._due_at
            client.conversation.say(client.request(SMALL).replace(b"\0", b"%d" % number))
            self._due_at += 1 / CALLS_PER_SECOND
        while self._on_the_way:
            if not self._hear(PATIENCE_S):
                raise EndError(f"{len(self._on_the_way)} calls were not answered")
        return self._took_ms

    def _hear_until_due(self) -> None:
        while (left_s := self._due_at - time.perf_counter()) > 0:
            self._hear(left_s)

    def _hear(self, wait_s: float) -> bool:
        readable, _, _ = select.select(self._clients, [], [], wait_s)
        for descriptor in readable:
            for body in self._clients[descriptor].conversation.arrived():
                self._note(body)
        return bool(readable)

    def _note(self, body: bytes) -> None:
        answer = msgspec.json.decode(body, type=_Answer)
        due_at = self._on_the_way.pop(answer.id, None)
        if due_at is None:
            return  # a notification
        if (result := bytes(answer.result)) == b"" or b'"isError":true' in result:
            raise EndError(f"a call was refused: {body.decode()}")
        self._took_ms.append((time.perf_counter() - due_at) * 1e3)


def _ran(host: int, clients: Sequence[_Client], calls: int) -> Iterator[Row]:
    """How long the processor runs for a call: of many bridges each finds less of its own in the caches."""
    for size in SIZES:
        processes = [host, *(client.bridge for client in clients[:size])]
        try:
            before = sum(map(ran_ms, processes))
            _paced(clients[:size], calls)
            took = (sum(map(ran_ms, processes)) - before) / calls
        except FileNotFoundError:  # not Linux
            return
        yield Row(f"{size} of {len(clients)} clients call", "processor time of a call", took)


def _paced(clients: Sequence[_Client], calls: int) -> list[float]:
    gc.disable()  # the figures are the others', not ours
    try:
        return _Pace(clients, calls).run()
    finally:
        gc.enable()
