"""Access of a session to tabs: its own, those handed over, or what the policy adds. Sans-IO.

`permissions.py` checks ownership, and so does the extension (docs/PROTOCOL.md); requests for tabs that the
user opened to all sessions carry no session.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from bridge.browser_tools.session.session_state import SessionState
from bridge.browser_tools.tool_output import ToolError
from bridge.errors import CallError
from bridge.hub.client_session import Session
from bridge.hub.registry import Browser, Registry
from native_host.protocol import wire
from native_host.protocol.untrusted_text import single_line
from native_host.protocol.wire import Code

NO_BROWSER = "No browser is connected."
MAX_NAME = 60


class NoBrowserError(ToolError):
    """No browser is connected."""


@dataclass(frozen=True)
class TabRef:
    """A tab in a browser."""

    browser: Browser
    tab: wire.Tab

    def is_mine(self, session: Session) -> bool:
        """Return whether the extension lets the session command it."""
        return self.tab.owner == session.id or (self.tab.owner is None and self.tab.handed_over)


def browser_name(browser: Browser) -> str:
    """Return the display name of a browser: the profile's label, else brand and version."""
    assert browser.hello is not None, "only known browsers are asked for"
    about = browser.hello.browser
    return single_line(browser.hello.profile.label or f"{about.brand} {about.version}", MAX_NAME)


def live_browsers(registry: Registry) -> list[Browser]:
    """Return the browsers that can be reached, the oldest first."""
    return [browser for browser in registry.browsers() if browser.is_live]


def device_id(browser: Browser, among: Iterable[Browser]) -> str:
    """Return the device id of a browser: its profile's id, with the process id where a profile was copied."""
    twins = [other for other in among if other.profile == browser.profile]
    return browser.profile if len(twins) < 2 else f"{browser.profile}.{browser.pid}"


def browser_of_session(registry: Registry, kept: SessionState, session: Session) -> Browser:
    """Return the browser of a session: the chosen one, else the one with its tabs, else the last used.

    The extension of Claude in Chrome is the last choice.

    Raises:
        NoBrowserError: no browser is connected.
        ToolError: the chosen one is not connected; return it to the client.
    """
    browsers = live_browsers(registry)
    if not browsers:
        raise NoBrowserError(NO_BROWSER)
    if kept.profile:
        of_profile = [browser for browser in browsers if browser.profile == kept.profile]
        # A restarted browser has a new process id, and a copy of its profile may run beside it.
        for browser in of_profile:
            if browser.pid == kept.browser_pid or len(of_profile) == 1:
                return browser
        names = ", ".join(map(browser_name, browsers))
        raise ToolError(
            f"The browser that this session works in is not connected any more. Connected: {names}. "
            "Start it again, or choose another with select_browser."
        )
    return max(browsers, key=lambda it: (not it.is_channel, _has_tabs(it, session), _last_used(it)))


def channel_in_use(registry: Registry, kept: SessionState, session: Session) -> Browser | None:
    """Return the browser of a session if it is the extension of Claude in Chrome."""
    if any(browser.is_channel for browser in live_browsers(registry)):
        with suppress(ToolError):
            browser = browser_of_session(registry, kept, session)
            return browser if browser.is_channel else None
    return None


def _has_tabs(browser: Browser, session: Session) -> bool:
    return any(tab.owner == session.id for tab in browser.tabs.values())


def _last_used(browser: Browser) -> float:
    return max((tab.last_accessed for tab in browser.tabs.values()), default=0)


def visible_tabs(browser: Browser) -> Iterator[TabRef]:
    """All that clients may know of, in the order of the browser's windows."""
    yield from (TabRef(browser, tab) for tab in browser.tabs.values() if not tab.incognito)


def _is_chosen(browser: Browser, kept: SessionState) -> bool:
    return (browser.profile, browser.pid) == (kept.profile, kept.browser_pid)


def find_tab(registry: Registry, kept: SessionState, session: Session, tab_id: int) -> TabRef:
    """Return the tab that a session names: in its browser, else in the only other one that has it.

    Raises:
        CallError: no browser has it.
    """
    found = [
        place
        for browser in live_browsers(registry)
        for place in visible_tabs(browser)
        if place.tab.tab_id == tab_id
    ]
    mine = [place for place in found if place.is_mine(session)] or found
    if kept.profile:
        mine = [place for place in mine if _is_chosen(place.browser, kept)] or mine
    if not mine:
        raise CallError(Code.NO_SUCH_TAB, f"tab {tab_id}", handed=False)
    return mine[0]
