"""Metrics of a node in Prometheus' text format. They name no user and no address.

Rules: https://prometheus.io/docs/instrumenting/exposition_formats/
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple


class Gauges(NamedTuple):
    """Current state of a node."""

    sockets: int
    unauthenticated_sockets: int
    users: int
    extensions: int
    clients: int
    connections: int
    requests_in_flight: int
    queued_bytes: int
    is_draining: bool


_GAUGES = {
    "sockets": "Open WebSockets.",
    "unauthenticated_sockets": "Open WebSockets that are not authenticated.",
    "users": "Users with a connected extension or client.",
    "extensions": "Connected extensions.",
    "clients": "Connected clients.",
    "connections": "Connections of clients to extensions.",
    "requests_in_flight": "Requests without a response.",
    "queued_bytes": "Bytes that wait to be written.",
    "draining": "1 while the node shuts down.",
}
_COUNTERS = {
    "openings_total": ("Authenticated sockets.", "role"),
    "rejected_sockets_total": ("Requests for a WebSocket that were rejected.", "status"),
    "rejected_tokens_total": ("Rejected access tokens.", "reason"),
    "closed_sockets_total": ("Closed WebSockets.", "code"),
    "requests_total": ("Requests that were forwarded to extensions.", ""),
    "failed_requests_total": ("Messages to which the proxy itself responded with an error.", "code"),
}


class Metrics:
    """Counters of a node."""

    def __init__(self) -> None:
        self.counts: dict[str, Counter[str]] = {name: Counter() for name in _COUNTERS}
        self.requests = 0
        """Forwarded requests, outside of `counts` because they are many."""

    def count(self, name: str, label: object = "") -> None:
        """Count an event."""
        self.counts[name][str(label)] += 1

    def format(self, gauges: Gauges) -> str:
        """Return all metrics as text."""
        values = dict(zip(_GAUGES, gauges, strict=True))
        self.counts["requests_total"][""] = self.requests
        return "\n".join([*_format_gauges(values), *self._format_counters(), ""])

    def _format_counters(self) -> Iterator[str]:
        for name, (text, label) in _COUNTERS.items():
            yield from _head(name, text, "counter")
            for value, count in sorted(self.counts[name].items()):
                labels = f'{{{label}="{value}"}}' if label else ""
                yield f"mcpb_proxy_{name}{labels} {count}"


def _format_gauges(values: Mapping[str, int]) -> Iterator[str]:
    for name, value in values.items():
        yield from _head(name, _GAUGES[name], "gauge")
        yield f"mcpb_proxy_{name} {int(value)}"


def _head(name: str, text: str, kind: str) -> Iterator[str]:
    yield f"# HELP mcpb_proxy_{name} {text}"
    yield f"# TYPE mcpb_proxy_{name} {kind}"
