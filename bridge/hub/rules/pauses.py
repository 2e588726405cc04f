"""Pauses of the user: changes of site patterns and sessions, merged by their times. Sans-IO.

A pause holds in every browser, whichever browser or file it came from.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from bridge.errors import CallError
from bridge.hub.client_session import Session
from bridge.hub.rules.site_patterns import matches_pattern
from bridge.origins import canonicalize
from native_host.protocol import wire
from native_host.protocol.wire import Code, PauseChange


class PauseTarget(msgspec.Struct, frozen=True):
    """A site pattern or a session."""

    site: str = ""
    session: str = ""


class Pauses:
    """The latest change of each pause, and the checks that follow from them."""

    def __init__(self, changes: Iterable[PauseChange] = ()) -> None:
        self._changes: dict[PauseTarget, PauseChange] = {}
        for change in changes:
            target = target_of(change)
            if is_later(change, self._changes.get(target)):
                self._changes[target] = change
        paused = [target for target, change in self._changes.items() if change.paused]
        self.sites: tuple[str, ...] = tuple(sorted(target.site for target in paused if target.site))
        self.sessions = frozenset(target.session for target in paused if target.session)

    @property
    def changes(self) -> list[PauseChange]:
        """The latest change of each pause, removals included."""
        return list(self._changes.values())

    def change_of(self, target: PauseTarget) -> PauseChange | None:
        """Return the latest change of a pause."""
        return self._changes.get(target)

    def later_than(self, known: Pauses) -> list[PauseChange]:
        """Return the changes that `known` lacks. It does not need the removal of what it never had."""
        return [
            change
            for target, change in self._changes.items()
            if is_later(change, had := known.change_of(target)) and (had or change.paused)
        ]

    def pattern_of(self, origin: str) -> str:
        """Return the pattern that pauses an origin; empty when it is not paused."""
        return next((pattern for pattern in self.sites if matches_pattern(pattern, origin)), "")

    def check(self, session: Session, *origins: str) -> None:
        """Let a session call a tool that concerns these origins.

        Raises:
            CallError: the session or one of the origins is paused; return it to the client. Its detail is the
                site, or empty for the session.
        """
        if session.id in self.sessions:
            raise CallError(Code.PAUSED, handed=False)
        if not self.sites:
            return
        for origin in origins:
            if self.pattern_of(origin):
                raise CallError(Code.PAUSED, canonicalize(origin), handed=False)


def target_of(change: PauseChange) -> PauseTarget:
    """Return what a change pauses or resumes."""
    return PauseTarget(change.site, change.session)


def is_later(change: PauseChange, known: PauseChange | None) -> bool:
    """Return whether a change counts instead of the known one. At the same moment the pause counts."""
    return known is None or (change.at, change.paused) > (known.at, known.paused)


def changes_in(paused: wire.Paused) -> Iterator[PauseChange]:
    """Return the changes that a browser knows. Older extensions announce names without times."""
    yield from paused.changes
    known = {target_of(change) for change in paused.changes}
    for target in [*map(PauseTarget, paused.sites), *(PauseTarget("", id_) for id_ in paused.sessions)]:
        if target not in known:
            yield PauseChange(site=target.site, session=target.session, paused=True, at=0)
