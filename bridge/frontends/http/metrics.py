"""`GET /metrics`: counts and durations for Prometheus, and nothing about what was called, where or by whom.

Origins, tools and clients are no labels: pages and clients make them up without end, and they are private.
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
from bridge.hub.audit_records import Called, Record
from bridge.hub.router import Router
from native_host.protocol.wire import Code

OUTCOMES = (
    "ok",
    "tool-error",
    "cancelled",
    "unknown_tool",
    *sorted(code.name.lower() for code in Code),
)
"""Of `Called.outcome`. Each is there from the beginning: the first of its kind is to count as a change."""
OTHER = "other"
"""Errors with numbers that browsers made up."""
BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
"""Most pages answer within milliseconds; a person who is asked may take 2 minutes."""


class Present(NamedTuple):
    """How many there are right now."""

    sessions: Mapping[str, int]
    """By transport."""
    responses: int
    """To clients of these sessions, that are not over: streams of events, and answers that are waited for."""
    browsers: int
    """That calls can reach."""
    tools: int
    """That may be called."""


def present(router: Router, sessions: Iterable[HttpSession]) -> Present:
    """As they are known here."""
    everybody = list(sessions)
    return Present(
        {**dict.fromkeys(TRANSPORTS, 0), **Counts(each.transport for each in everybody)},
        sum(each.open_responses for each in everybody),
        sum(browser.is_live for browser in router.registry.browsers()),
        len(router.catalog.entries()),
    )


class Metrics:
    """What has been counted since the start. It has its own registry: nothing of it is the process's."""

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

    def watch(self, look: Callable[[], Present]) -> None:
        """Tell what there is as well: `look` is asked whenever somebody reads."""
        self._registry.register(_Gauges(look))

    def keep(self, record: Record) -> None:
        """Count a call of the hub's records. A step is part of its batch's call."""
        if isinstance(record, Called) and not record.step:
            self._calls.labels(record.outcome if record.outcome in OUTCOMES else OTHER).inc()
            self._durations.observe(record.duration_s)

    def refused(self, status: HTTPStatus) -> None:
        """Count a request that was answered with an error."""
        self._refusals.labels(str(status.value)).inc()

    def written(self) -> bytes:
        """Everything, in Prometheus's text format."""
        return generate_latest(self._registry)

    def route(self) -> Route:
        """Where it is read."""

        async def answer(_: Request) -> Response:
            return Response(self.written(), media_type=CONTENT_TYPE_PLAIN_0_0_4)

        return Route("/metrics", answer, methods=["GET"])


class _Gauges(Collector):
    def __init__(self, look: Callable[[], Present]) -> None:
        self._look = look

    def collect(self) -> Iterator[Metric]:
        now = self._look()
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
