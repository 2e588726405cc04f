"""Audit log of a node: one line per opening, rejection, connection and end. Never params, never tokens.

It is the log of the process, on stderr, as text or as JSON; so warnings of other modules stand in it as well.
docs/PROXY.md lists the lines.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import time
from datetime import UTC, datetime
from http import HTTPStatus

from http_serving.host_header import network_of
from http_serving.websocket_protocol import NO_CLOSE_FRAME
from native_host.protocol.rate_limit import RateLimiter
from websocket_proxy.node.metrics import Metrics
from websocket_proxy.peer import Observer, Peer
from websocket_proxy.protocol import CloseCode, DisconnectReason, RejectionReason

_REJECTIONS_PER_MINUTE = 60
"""Lines of one address about rejected requests; further ones are only counted in the metrics."""

_CLOSE_CODES = {1000, NO_CLOSE_FRAME, *CloseCode}
"""Codes that have a metric of their own; a peer may send many others."""

_PLAIN = re.compile(r"[\w.,:/+@~-]+", re.ASCII)
"""Values that a line of text has without quotation marks."""

_log = logging.getLogger("websocket_proxy.audit")


def format_time(seconds: float) -> str:
    """Return a time in RFC 3339, UTC, with milliseconds."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def configure_log(*, is_json: bool) -> None:
    """Write the log of this process to stderr, one event per line."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonFormatter() if is_json else _TextFormatter())
    logging.basicConfig(handlers=[handler], level=logging.WARNING)
    _log.setLevel(logging.INFO)


class _Formatter(logging.Formatter):
    def fields_of(self, record: logging.LogRecord) -> dict[str, object]:
        """Return the members of a line."""
        begin = {"time": format_time(record.created)}
        if isinstance(fields := getattr(record, "fields", None), dict):
            return {**begin, "event": record.getMessage(), **fields}
        text = record.getMessage()
        if record.exc_info:
            text += "\n" + self.formatException(record.exc_info)
        return {**begin, "event": "log", "level": record.levelname.lower(), "message": text}


class _JsonFormatter(_Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return json.dumps(self.fields_of(record), ensure_ascii=True)


class _TextFormatter(_Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields = self.fields_of(record)
        begin = f"{fields.pop('time')} {fields.pop('event')}"
        if "message" in fields:
            return f"{begin} {fields['level']}: {fields['message']}"
        return " ".join([begin, *(f"{key}={_format_value(value)}" for key, value in fields.items())])


def _format_value(value: object) -> str:
    text = str(value)
    return text if _PLAIN.fullmatch(text) else json.dumps(text)


class Audit(Observer):
    """Observer of a node: writes lines, and counts."""

    def __init__(self, metrics: Metrics, *, with_methods: bool = False) -> None:
        self._metrics = metrics
        self._with_methods = with_methods
        self._rejections = RateLimiter(_REJECTIONS_PER_MINUTE)

    # ── Before a socket is authenticated ────────────────────────────────────────────────────────────────────

    def on_rejected(self, status: HTTPStatus, reason: str, address: str) -> None:
        """Note that a request for a WebSocket is rejected."""
        self._metrics.count("rejected_sockets_total", status.value)
        if not self._rejections.wait_s(network_of(address), time.monotonic()):
            _write("rejected", status=status.value, reason=reason, address=address)

    def on_token_rejected(self, peer: Peer, reason: RejectionReason) -> None:
        """Note that the socket of a peer closes because of its token."""
        self._metrics.count("rejected_tokens_total", reason)
        if not self._rejections.wait_s(network_of(peer.address), time.monotonic()):
            _write("token-rejected", role=peer.role, reason=reason, address=peer.address, **_name(peer))

    # ── Peers and connections ───────────────────────────────────────────────────────────────────────────────

    def on_admitted(self, peer: Peer) -> None:
        """Note that an extension or a client is authenticated, and counts."""
        self._metrics.count("openings_total", peer.role)
        _write(
            "opened", role=peer.role, user=peer.user_id, **_name(peer), name=peer.name, address=peer.address
        )

    def on_closed(self, peer: Peer, code: int, reason: str) -> None:
        """Note the end of a socket; those that were not authenticated are only counted."""
        self._metrics.count("closed_sockets_total", code if code in _CLOSE_CODES else "other")
        if peer.user_id:
            _write("closed", role=peer.role, **_name(peer), code=code, reason=reason)

    def on_connected(self, client: Peer, extension: Peer, connection_id: str) -> None:
        """Note that a client is connected to an extension."""
        _write(
            "connected",
            connection=connection_id,
            client=client.peer_id,
            extension=extension.peer_id,
            user=client.user_id,
        )

    def on_disconnected(self, connection_id: str, reason: DisconnectReason) -> None:
        """Note the end of a connection."""
        _write("disconnected", connection=connection_id, reason=reason)

    # ── Requests ────────────────────────────────────────────────────────────────────────────────────────────

    def on_request(self, client: Peer, connection_id: str, method: str) -> None:
        """Note that a request goes to an extension."""
        self._metrics.requests += 1
        if self._with_methods:
            _write("request", connection=connection_id, client=client.peer_id, method=method[:100])

    def on_request_failed(self, peer: Peer, code: int) -> None:  # noqa: ARG002 - counted without the peer
        """Note that the proxy itself responds to a client, or to an undecodable message, with an error."""
        self._metrics.count("failed_requests_total", code)

    # ── The process ─────────────────────────────────────────────────────────────────────────────────────────

    def on_event(self, event: str, **fields: object) -> None:
        """Note an event of the process."""
        _write(event, **fields)


def _name(peer: Peer) -> dict[str, object]:
    return {"id": peer.peer_id} if peer.peer_id else {}


def _write(event: str, **fields: object) -> None:
    _log.info("%s", event, extra={"fields": fields})
