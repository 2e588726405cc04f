"""WebSocket proxy: processor time of relayed messages, idle sockets, sign-ins, and a call to a real browser.

Each relay is one process. Both ends are in the bench, and encode all messages before they are timed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

from benchmarks import limits, proxy_browser
from benchmarks.limits import Limit
from benchmarks.measuring import Measure, Samples, take_turns
from benchmarks.memory import REST_S, resident_mb
from benchmarks.processes import Corner, all_ran_ms
from benchmarks.proxy_relays import (
    BYTE_COPIER,
    MCPB_PROXY,
    NODE_WS,
    Certificate,
    ProxyNode,
    Relay,
    make_certificate,
    running_node,
    subjects,
)
from benchmarks.relay_traffic import IMAGE_16MB, SMALL_COMMAND, TEXT_1MB, BurstMaker, RelayLoad
from benchmarks.subject import Bench
from benchmarks.table import Compared, Row, Table
from benchmarks.websocket_peer import WebSocketPeer
from websocket_proxy.protocol import Role

DEPTH = 64
IDLE_SOCKETS = 2_000
SIGN_INS = 200
"""In a round."""
AT_ONCE = 8
"""Sign-ins that are on the way at once."""
_KB = 1024


@dataclass(frozen=True)
class Work:
    """What a relay does in one round."""

    load: RelayLoad
    depth: int
    calls: int
    rounds: int
    """Most rounds of a full run: large messages need few."""

    @property
    def name(self) -> str:
        """Text for the column of loads."""
        return self.load.name if self.depth == 1 else f"{self.load.name}, {self.depth} at once"

    @property
    def messages_per_call(self) -> int:
        """Number of messages that a call counts as: request and response of a large one count once."""
        return 1 if self.load.is_large else 2


WORKS = (
    Work(SMALL_COMMAND, 1, 500, 10),
    Work(SMALL_COMMAND, DEPTH, 40 * DEPTH, 10),
    Work(TEXT_1MB, 1, 10, 10),
    Work(TEXT_1MB, DEPTH, DEPTH, 3),
    Work(IMAGE_16MB, 1, 2, 10),
    Work(IMAGE_16MB, DEPTH, DEPTH, 1),
)


def tables(bench: Bench) -> Iterator[Table]:
    """Measure relays without and with TLS, then the node alone, then a browser."""
    certificate = make_certificate(bench.directory)
    for used in (None, certificate):
        yield from relayed(bench, used)
    yield from _of_nodes(bench, certificate)
    yield from proxy_browser.tables(bench)


# ── Relayed messages ────────────────────────────────────────────────────────────────────────────────────────


def relayed(bench: Bench, certificate: Certificate | None) -> Iterator[Table]:
    """Measure all relays in the same rounds, with a certificate over TLS."""
    costs: list[Row] = []
    rates: list[Row] = []
    with ExitStack() as stack:
        missing = {each.name: each.missing for each in subjects() if each.missing}
        relays = {
            each.name: stack.enter_context(each.open(bench, certificate))
            for each in subjects()
            if not each.missing
        }
        for work in WORKS:
            found = _measured(bench, work, relays)
            costs += _cost_rows(work, found, missing, is_encrypted=certificate is not None)
            if work.depth > 1 and not work.load.is_large:
                rates += _rate_rows(work, found, is_encrypted=certificate is not None)
    how = "with TLS" if certificate else "without TLS"
    route = "client → relay → extension → relay → client, a process each way; all threads of the relay"
    yield Table(
        f"Processor time of a relayed message, {how}", costs, f"{route}; of a large call, both messages"
    )
    yield Table(f"Relayed messages a second, {how}", rates, f"{DEPTH} calls at once, each two messages")


@dataclass(frozen=True)
class _Found:
    """Of one relay: microseconds of its processor for a message, and messages a second."""

    cost: Samples
    rate: Samples


def _measured(bench: Bench, work: Work, relays: dict[str, Relay]) -> dict[str, _Found]:
    buffer = bytearray(max(_KB * _KB, len(work.load.result) + _KB))
    measures: dict[str, Measure] = {}
    for name, relay in relays.items():
        maker = BurstMaker(work.load, relay.prefix)
        measures[name] = partial(_run, bench, work, relay, maker, buffer)
        if work.load.is_large:  # what happens once, happens before
            maker.make(1).run(relay.client, relay.extension, buffer)
        else:
            measures[name]()
    found = take_turns(measures, min(bench.rounds, work.rounds))
    return {name: _Found(*_columns(samples)) for name, samples in found.items()}


def _columns(samples: Samples) -> Iterator[Samples]:
    for column in zip(*samples.rounds, strict=True):
        yield Samples([[each] for each in column])


def _run(bench: Bench, work: Work, relay: Relay, maker: BurstMaker, buffer: bytearray) -> list[float]:
    """Return the microseconds for a message, and the messages a second."""
    calls = bench.count(work.calls)
    depth = min(work.depth, calls)
    bursts = [maker.make(depth) for _ in range(calls // depth)]
    messages = len(bursts) * depth * work.messages_per_call
    before, began = all_ran_ms(relay.pid), time.perf_counter()
    for burst in bursts:
        burst.run(relay.client, relay.extension, buffer)
    elapsed_s = time.perf_counter() - began
    return [(all_ran_ms(relay.pid) - before) * 1e3 / messages, messages / elapsed_s]


def _cost_rows(
    work: Work, found: dict[str, _Found], missing: dict[str, str], *, is_encrypted: bool
) -> Iterator[Row]:
    for name, each in found.items():
        compared = []
        if name != BYTE_COPIER:
            limit = _limit_to_copier(work, is_encrypted=is_encrypted) if name == MCPB_PROXY else limits.NONE
            ratio = each.cost.ratio_to(found[BYTE_COPIER].cost)
            compared.append(Compared(ratio, "times the copier", limit))
        if name == MCPB_PROXY and NODE_WS in found:
            limit = limits.NONE if work.load.is_large else limits.RELAY_TO_NODE
            compared.append(Compared(each.cost.ratio_to(found[NODE_WS].cost), "times the relay on ws", limit))
        if work.load.is_large:
            yield Row(name, work.name, each.cost.p50 / 1e3, each.cost.p99 / 1e3, "ms", compared)
        else:
            yield Row(name, work.name, each.cost.p50, each.cost.p99, "µs", compared)
    for name, reason in missing.items():
        yield Row(name, work.name, note=reason)


def _limit_to_copier(work: Work, *, is_encrypted: bool) -> Limit:
    """Return the limit of the node's ratio to the copier.

    64 calls at once are two system calls for the copier, which does not know that they are 64.
    """
    if is_encrypted or work.depth > 1:
        return limits.NONE
    return {SMALL_COMMAND: limits.RELAY_TO_COPIER, IMAGE_16MB: limits.RELAY_16MB_TO_COPIER}.get(
        work.load, limits.NONE
    )


def _rate_rows(work: Work, found: dict[str, _Found], *, is_encrypted: bool) -> Iterator[Row]:
    limit = limits.RELAYED_PER_SECOND_TLS if is_encrypted else limits.RELAYED_PER_SECOND
    for name, each in found.items():
        rate = each.rate.p50
        compared = [Compared(rate, "messages/s", limit)] if name == MCPB_PROXY else []
        yield Row(name, work.name, rate, unit="messages/s", compared=compared)


# ── Sign-ins and idle sockets ───────────────────────────────────────────────────────────────────────────────


def _of_nodes(bench: Bench, certificate: Certificate) -> Iterator[Table]:
    corners = Corner.below(bench.directory), Corner.below(bench.directory)
    with running_node(corners[0]) as plain, running_node(corners[1], certificate) as encrypted:
        nodes = {"a client": plain, "a client with TLS": encrypted}
        yield _idle(bench, nodes)
        yield _signed_in(bench, nodes)


def _signed_in(bench: Bench, nodes: dict[str, ProxyNode]) -> Table:
    measures: dict[str, Measure] = {name: partial(_sign_in, bench, node) for name, node in nodes.items()}
    rows: list[Row] = []
    for name, samples in take_turns(measures, min(bench.rounds, 5)).items():
        cost, rate = _columns(samples)
        beside = [Compared(rate.p50, "sign-ins/s")]
        rows.append(Row(MCPB_PROXY, name, cost.p50, cost.p99, "ms of processor", beside))
    note = f"connection, WebSocket handshake, EdDSA token, end; {AT_ONCE} at once"
    return Table("Sign-ins at a node", rows, note)


def _sign_in(bench: Bench, node: ProxyNode) -> list[float]:
    """Return the node's processor time for a sign-in in ms, and the sign-ins a second."""
    tokens = [node.token(Role.CLIENT, f"user-{number}") for number in range(bench.count(SIGN_INS))]
    before, began = all_ran_ms(node.pid), time.perf_counter()
    for client in _connect_all(node, tokens):
        client.close()
    elapsed_s = time.perf_counter() - began
    return [(all_ran_ms(node.pid) - before) / len(tokens), len(tokens) / elapsed_s]


def _connect_all(node: ProxyNode, tokens: Sequence[str]) -> list[WebSocketPeer]:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(node.connect_client, tokens))


def _idle(bench: Bench, nodes: dict[str, ProxyNode]) -> Table:
    count = bench.count(IDLE_SOCKETS)
    rows: list[Row] = []
    for name, node in nodes.items():
        each_kb = _idle_kb(node, count)
        limit = limits.IDLE_SOCKET_KB if node.tls else limits.NONE
        rows.append(Row(MCPB_PROXY, name, each_kb, unit="kB", compared=[Compared(each_kb, "kB", limit)]))
    note = f"resident memory of the node, {REST_S:g} s after the last sign-in, divided by {count} sockets"
    return Table("Idle sockets of signed-in clients", rows, note)


def _idle_kb(node: ProxyNode, count: int) -> float:
    with ExitStack() as stack:
        for client in _connect_all(node, [node.token(Role.CLIENT)] * AT_ONCE):
            stack.callback(client.close)
        before = resident_mb(node.pid)
        tokens = [node.token(Role.CLIENT, f"user-{number}") for number in range(count)]
        for client in _connect_all(node, tokens):
            stack.callback(client.close)
        time.sleep(REST_S)
        return (resident_mb(node.pid) - before) * _KB / count
