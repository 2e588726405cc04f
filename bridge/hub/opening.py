"""Which tab a tool without one is opened in. Pure; `routing` does the asking and waiting."""

from __future__ import annotations

from dataclasses import dataclass

from bridge.hub.entry import CachedEntry
from bridge.hub.registry import Browser
from bridge.hub.sessions import Session
from native_host import wire

WAITS_S = (2.0, 1.0, 1.0, 1.0)
"""For the page server of a tab that was opened; then three tries, a second apart (specs/000 §3)."""


@dataclass(frozen=True)
class Opening:
    """What to ask of the browser."""

    method: str
    params: wire.Wire
    tab_id: int | None
    """Of a tab that is there already; None: it is in the answer."""


def opening(session: Session, entry: CachedEntry, browser: Browser) -> Opening:
    """A new tab of the session's own; or the one that was opened before, when it is still there."""
    before = session.opened.get((entry.profile, entry.origin))
    tab = browser.tabs.get(before) if before is not None else None
    if tab is not None and tab.owner == session.id:
        params = wire.Navigate(session=session.id, tab_id=tab.tab_id, url=entry.url, wait_until="commit")
        return Opening("browser_navigate", params, tab.tab_id)
    return Opening("createTab", wire.CreateTab(session=session.id, url=entry.url, title=session.title), None)
