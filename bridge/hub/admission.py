"""What a call must pass before it is sent: policy, pauses, whose tab it is, the tool's own schema. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bridge.errors import CallError
from bridge.hub.arguments import ArgumentCheck
from bridge.hub.entry import Entry, LiveEntry
from bridge.hub.origins import canonical
from bridge.hub.pace import CallPace
from bridge.hub.registry import Browser
from bridge.hub.sessions import Session
from native_host.wire import Code


class Admission:
    """The checks in their order; each raises a CallError that names the limit, the rule or the field."""

    def __init__(self, pace: CallPace | None = None) -> None:
        self._pace = pace or CallPace()
        self._check = ArgumentCheck()

    def count(self, session: Session, now: float) -> None:
        """A session calls once more.

        Raises:
            CallError: it has called too often.
        """
        wait_s = self._pace.wait_s(session.id, now)
        if wait_s > 0:
            limit = f"calls_per_minute allows {self._pace.per_minute} to each client; wait {wait_s:.1f} s"
            raise CallError(Code.RATE_LIMITED, limit, handed=False)

    def admit(
        self, session: Session, entry: Entry, arguments: dict[str, Any], browsers: Iterable[Browser]
    ) -> None:
        """A session calls this tool.

        Raises:
            CallError: it may not, or not so.
        """
        if entry.refusal:
            raise CallError(Code.NOT_ALLOWED, entry.refusal, handed=False)
        for browser in browsers:
            _check_pauses(session, entry, browser)
        if isinstance(entry, LiveEntry) and entry.offer.tab.owner not in (None, session.id):
            raise CallError(Code.NOT_YOURS, entry.name, handed=False)
        if refusal := self._check.refusal(entry.tool, arguments):
            raise CallError(Code.INVALID_PARAMS, refusal, handed=False)


def _check_pauses(session: Session, entry: Entry, browser: Browser) -> None:
    if session.id in browser.paused.sessions:
        resume = f"mcpb pause {session.id[:8]} --resume"
        raise CallError(Code.PAUSED, f"it is this client; to resume it: {resume}", handed=False)
    if browser.profile != entry.site.profile:
        return
    # A frame is in its tab: who pauses a site wants nothing called there.
    paused = {canonical(site) for site in browser.paused.sites}
    around = entry.offer.tab.origin if isinstance(entry, LiveEntry) else entry.origin
    for origin in (entry.origin, around):
        if canonical(origin) in paused:
            resume = f"mcpb pause {canonical(origin)} --resume"
            raise CallError(Code.PAUSED, f"{origin}; to resume it: {resume}", handed=False)
