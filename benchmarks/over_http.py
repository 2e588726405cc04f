"""Calls of clients that come over HTTP: one at a time on each way, and of several clients at once."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks import calls, limits
from benchmarks.http_routes import HANDSHAKE, SSE, STATELESS, subjects
from benchmarks.subject import Bench
from benchmarks.table import Table

CLIENTS = 8
_ROUTE = "→ mcpb serve → native host → extension's end → back, without the limit of calls a minute"


def tables(bench: Bench) -> Iterator[Table]:
    """Measure the full path with HTTP in place of stdio."""
    for title, ways, way, limit in (
        ("Streamable HTTP", (HANDSHAKE, STATELESS), "client's keep-alive connection", limits.STREAMABLE_MS),
        ("Legacy SSE", (SSE,), "client's POST", limits.SSE_MS),
    ):
        yield calls.one_at_a_time(bench, title, f"{way} {_ROUTE}", subjects(ways), {}, p50_limit=limit)
    title = f"Over HTTP, {CLIENTS} clients at once"
    route = f"a keep-alive connection of each {_ROUTE}"
    yield calls.at_once(bench, title, route, subjects((HANDSHAKE, STATELESS, SSE), CLIENTS), 1)
