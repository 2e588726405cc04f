"""What persons have paused, in the form in which each call is checked against it. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from bridge.errors import CallError
from bridge.hub.origins import canonical
from bridge.hub.sessions import Session
from native_host import wire
from native_host.wire import Code


class Pauses:
    """Sessions everywhere; sites in the profile in which somebody paused them."""

    def __init__(self, told: Iterable[tuple[str, wire.Paused]] = ()) -> None:
        """`told` is what each browser has said, by its profile."""
        self._sessions: set[str] = set()
        self._sites: dict[str, set[str]] = {}
        for profile, paused in told:
            self._sessions.update(paused.sessions)
            self._sites.setdefault(profile, set()).update(map(canonical, paused.sites))

    @property
    def have_sites(self) -> bool:
        """Whether any site is paused anywhere."""
        return any(self._sites.values())

    def check(self, session: Session, profile: str, *origins: str) -> None:
        """A session calls a tool that concerns these origins.

        Raises:
            CallError: it, or one of them, is paused.
        """
        if session.id in self._sessions:
            resume = f"mcpb pause {session.id[:8]} --resume"
            raise CallError(Code.PAUSED, f"it is this client; to resume it: {resume}", handed=False)
        if not (sites := self._sites.get(profile)):
            return
        for origin in origins:
            if canonical(origin) in sites:
                resume = f"mcpb pause {canonical(origin)} --resume"
                raise CallError(Code.PAUSED, f"{origin}; to resume it: {resume}", handed=False)
