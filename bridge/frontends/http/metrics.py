"""Prometheus metrics (`/metrics`): counts and durations of calls, gauges of sessions and tools.

Origins, tools and clients are not labels: they are private, and pages and clients invent them without limit.
"""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Callable, Iterable, Iterator, Mapping
from http import HTTPStatus
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bridge.frontends.http.http_sessions import TRANSPORTS, HttpSession
from bridge.hub.audit_records import FinishedCall, Record
from bridge.hub.router import Router
from native_host.protocol.wire import Code

OUTCOMES = ("ok", "tool_error", "cancelled", "unknown_tool", *sorted(code.name.lower() for code in Code))
"""Values of `FinishedCall.outcome`. All are exported at the start, so that a first call is a change."""
OTHER = "other"
BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
"""Most pages respond within milliseconds; a user has up to 2 minutes to answer a prompt."""


class Gauges(NamedTuple):
    """Current counts."""

    sessions: Mapping[str, int]
    responses: int
    """Open HTTP responses of these sessions, event streams included."""
    browsers: int
    tools: int


def count_now(router: Router, sessions: Iterable[HttpSession]) -> Gauges:
    """Return the current counts."""
    current = list(sessions)
    return Gauges(
        {**dict.fromkeys(TRANSPORTS, 0), **Counts(each.transport for each in current)},
        sum(each.open_responses for each in current),
        sum(browser.is_live for browser in router.registry.browsers()),
        len(router.catalog.all_entries()),
    )


class Metrics:
    """Counters since the start, in a registry of their own: it has no metrics of the process."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._calls = Counter(
            "mcpb_calls", "Tool calls that are over, by outcome.", ["outcome"], registry=self._registry
        )
        self._durations = Histogram(
            "mcpb_call_duration_seconds",
            "How long tool calls took, whatever came of them.",
            buckets=BUCKETS_S,
            registry=self._registry,
        )
        self._refusals = Counter(
            "mcpb_http_refused_requests",
            "HTTP requests that were refused, by status.",
            ["status"],
            registry=self._registry,
        )
        for outcome in (*OUTCOMES, OTHER):
            self._calls.labels(outcome)

    def add_gauges(self, count: Callable[[], Gauges]) -> None:
        """Export current counts as well. `count` is called at each scrape."""
        self._registry.register(_GaugeCollector(count))

    def keep(self, record: Record) -> None:
        """Count a call in the hub's records. A step of a batch counts as part of the batch."""
        if isinstance(record, FinishedCall) and not record.step:
            self._calls.labels(record.outcome if record.outcome in OUTCOMES else OTHER).inc()
            self._durations.observe(record.duration_s)

    def count_rejection(self, status: HTTPStatus) -> None:
        """Count a rejected request."""
        self._refusals.labels(str(status.value)).inc()

    def export(self) -> bytes:
        """Return all metrics in Prometheus's text format."""
        return generate_latest(self._registry)

    def route(self) -> Route:
        """Return the route of the metrics."""

        async def respond(_: Request) -> Response:
            return Response(self.export(), media_type=CONTENT_TYPE_PLAIN_0_0_4)

        return Route("/metrics", respond, methods=["GET"])


class _GaugeCollector(Collector):
    def __init__(self, count: Callable[[], Gauges]) -> None:
        self._count = count

    def collect(self) -> Iterator[Metric]:
        now = self._count()
        sessions = GaugeMetricFamily(
            "mcpb_http_sessions", "MCP sessions now, by transport.", labels=["transport"]
        )
        for transport, count in now.sessions.items():
            sessions.add_metric([transport], count)
        yield sessions
        yield GaugeMetricFamily(
            "mcpb_http_open_responses",
            "Streams of events, and answers that are waited for, now.",
            now.responses,
        )
        yield GaugeMetricFamily("mcpb_browsers", "Browsers that calls can reach now.", now.browsers)
        yield GaugeMetricFamily("mcpb_tools", "Tools that may be called now.", now.tools)
