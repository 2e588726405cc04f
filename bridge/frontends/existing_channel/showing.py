"""A session's tab, shown to the person when its client asks for that."""

from __future__ import annotations

from collections.abc import Callable

from bridge.errors import CallError
from bridge.hub.client_session import Session
from bridge.hub.registry import Browser, Registry
from bridge.hub.transport import ENDED, Pending, TabAddress, TabTransport
from native_host.protocol import wire

SHOW_S = 5.0


def show(
    registry: Registry, transport: TabTransport, session: Session, on_shown: Callable[[bool], None]
) -> Pending:
    """Bring the tab that a session has used last to the front; what is told is whether there was one."""
    tabs = [
        (browser, tab) for browser in registry.browsers() if browser.is_live for tab in _own(browser, session)
    ]
    if not tabs:
        on_shown(False)
        return ENDED
    browser, tab = max(tabs, key=lambda found: found[1].last_accessed)
    try:
        registry.pauses.check(session, tab.origin)
    except CallError:  # a person has paused it: nothing of it comes to the front
        on_shown(False)
        return ENDED

    def on_done(answer: bytes | CallError) -> None:
        on_shown(not isinstance(answer, CallError))

    asked = wire.ActivateTab(session=session.id, tab_id=tab.tab_id, focus_window=True)
    return transport.send(TabAddress(browser.host, tab.tab_id), "activateTab", asked, SHOW_S, on_done)


def _own(browser: Browser, session: Session) -> list[wire.Tab]:
    return [tab for tab in browser.tabs.values() if tab.owner == session.id]
