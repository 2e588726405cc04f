"""The latest calls of each session, for the resource `mcpb://calls`. Without arguments. Sans-IO."""

from __future__ import annotations

from collections import deque

import msgspec

from bridge.hub.audit_records import AuditSink, CallKind, FinishedCall, Record
from bridge.hub.client_session import Session
from native_host.protocol.untrusted_text import single_line

MAX_CALLS = 100
"""Calls of a session that are kept."""
_MAX_TEXT = 300


class RecentCall(msgspec.Struct, rename="camel", omit_defaults=True):
    """A finished call."""

    name: str
    outcome: str
    """`ok`, or what went wrong: see `FinishedCall`."""
    duration_ms: float
    kind: CallKind = "tool"
    own_name: str = ""
    """The page's own name of the tool or prompt, or its own URI, if it differs."""
    site: str = ""
    detail: str = ""


_KeptCall = tuple[str, str, float, CallKind, str, str, str]
"""Members of a `RecentCall`, as they are: the path of a call has no time for more."""


class RecentCalls:
    """The latest calls by session."""

    def __init__(self) -> None:
        self._calls: dict[str, deque[_KeptCall]] = {}

    def keep_beside(self, keep: AuditSink) -> AuditSink:
        """Return a sink that passes each event to `keep`, and keeps those of calls."""
        calls = self._calls

        def keep_call(record: Record) -> None:
            keep(record)
            if type(record) is not FinishedCall:
                return
            latest = calls.get(record.session.id)
            if latest is None:
                latest = calls[record.session.id] = deque(maxlen=MAX_CALLS)
            name = record.name if len(record.name) <= _MAX_TEXT else record.name[: _MAX_TEXT + 1]
            latest.append(
                (
                    name,
                    record.outcome,
                    record.duration_s,
                    record.kind,
                    record.own_name,
                    record.site.origin,
                    record.detail,
                )
            )

        return keep_call

    def calls_of(self, session: Session) -> list[RecentCall]:
        """Return the calls of a session, the latest first."""
        return [_describe(call) for call in reversed(self._calls.get(session.id, ()))]

    def release(self, session: Session) -> None:
        """Discard the calls of a session that has ended."""
        self._calls.pop(session.id, None)


def _describe(call: _KeptCall) -> RecentCall:
    name, outcome, duration_s, kind, own_name, origin, detail = call
    name, own_name = single_line(name, _MAX_TEXT), single_line(own_name, _MAX_TEXT)
    return RecentCall(
        name,
        outcome,
        round(duration_s * 1000, 1),
        kind,
        own_name if own_name != name else "",
        single_line(origin, _MAX_TEXT),
        single_line(detail, _MAX_TEXT),
    )
