"""Checks of a call before it is sent: rate limit, policy, pauses, tab ownership, schema. Sans-IO."""

from __future__ import annotations

from bridge.errors import CallError
from bridge.hub.argument_validation import ArgumentCheck, Arguments
from bridge.hub.catalog_entries import Entry, LiveEntry
from bridge.hub.client_session import Session
from bridge.hub.rules.pauses import Pauses
from native_host.protocol.rate_limit import RateLimiter
from native_host.protocol.wire import Code


class Admission:
    """The checks in their order; each raises a CallError that names the limit, the rule or the field."""

    def __init__(self, rate_limiter: RateLimiter | None = None) -> None:
        self._rate_limiter = rate_limiter or RateLimiter()
        self._check = ArgumentCheck()

    def count(self, session: Session, now: float) -> None:
        """Count a call of a session.

        Raises:
            CallError: the session exceeds its rate limit.
        """
        wait_s = self._rate_limiter.wait_s(session.id, now)
        if wait_s > 0:
            limit = (
                f"calls_per_minute allows {self._rate_limiter.per_minute} to each client; wait {wait_s:.1f} s"
            )
            raise CallError(Code.RATE_LIMITED, limit, handed=False)

    def admit(self, session: Session, entry: Entry, arguments: Arguments, pauses: Pauses) -> None:
        """Admit a session's call of this tool.

        Raises:
            CallError: a rule, a pause, the tab's owner or the schema rejects the call.
        """
        if entry.refusal:
            raise CallError(Code.NOT_ALLOWED, entry.refusal, handed=False)
        if isinstance(entry, LiveEntry):
            tab = entry.offer.tab
            # A frame is in its tab: who pauses a site wants nothing called there.
            pauses.check(session, entry.origin, tab.origin)
            if tab.owner not in (None, session.id):
                raise CallError(Code.NOT_YOURS, entry.name, handed=False)
        else:
            pauses.check(session, entry.origin)
        if refusal := self._check.find_errors(entry.tool, arguments.value):
            logged = self._check.rejected_fields(entry.tool, arguments.value)
            raise CallError(Code.INVALID_PARAMS, refusal, handed=False, logged=logged)
