"""Access of a session to tabs: its own, those handed over, or what the policy adds. Sans-IO.

Clients name a tab by its number in the profile. All profiles count from 1: a number keeps its tab in a
session, and an ambiguous one is rejected with its candidates.

`permissions.py` checks ownership, and so does the extension (docs/PROTOCOL.md); requests for tabs that the
user opened to all sessions carry no session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from bridge.browser_tools.session.session_state import BrowserKey, SessionState
from bridge.browser_tools.tool_output import ToolError
from bridge.errors import CallError
from bridge.hub.client_session import Session
from bridge.hub.registry import FIRST_TAB_ID, Browser, Registry
from native_host.protocol import wire
from native_host.protocol.untrusted_text import single_line
from native_host.protocol.wire import Code

NO_BROWSER = "No browser is connected."
MAX_NAME = 60


class NoBrowserError(ToolError):
    """No browser is connected."""


class NoTabError(ToolError):
    """The session has no tab that it may use."""


@dataclass(frozen=True)
class TabRef:
    """A tab in a browser."""

    browser: Browser
    tab: wire.Tab

    @property
    def number(self) -> int:
        """Number of the tab in its profile; the browser's id if the extension does not count tabs."""
        return self.browser.number_of(self.tab)

    @property
    def browser_key(self) -> BrowserKey:
        """Identity of the running browser."""
        return BrowserKey(self.browser.profile, self.browser.pid)

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


IsUsable = Callable[[TabRef], bool]
"""Returns whether the session may use a tab, perhaps after a prompt to the user."""


def find_tab(
    registry: Registry, kept: SessionState, session: Session, wanted: int, is_usable: IsUsable
) -> TabRef:
    """Return the tab that a session names by its number, or by the browser's id of it.

    The chosen browser decides, then what the number stood for when the session saw it last. Else one browser
    has it, or the only one with tabs of the session.

    Raises:
        CallError: no browser has it, or not the one in which the session saw it.
        ToolError: tabs of several browsers may be meant; return it to the client.
    """
    found = [place for browser in live_browsers(registry) if (place := _place_of(browser, wanted))]
    seen = kept.numbers.get(wanted)
    chosen = [place for place in found if kept.is_chosen(place.browser_key)]
    if chosen and not (seen and seen.is_restarted_as(chosen[0].browser_key)):
        return chosen[0]
    if seen:
        found = [place for place in found if place.browser_key == seen]
    if not found:
        raise CallError(Code.NO_SUCH_TAB, f"tab {wanted}", handed=False)
    usable = [place for place in found if is_usable(place)] or found[:1]
    if len(usable) == 1:
        return usable[0]
    in_use = [browser for browser in live_browsers(registry) if _has_tabs(browser, session)]
    at_home = [place for place in usable if in_use == [place.browser]]
    if not at_home or wanted in kept.numbers:  # the session was shown it for several
        raise ToolError(_describe_choices(wanted, usable))
    return at_home[0]


def show_tab(
    registry: Registry, kept: SessionState, session: Session, place: TabRef, is_usable: IsUsable
) -> int:
    """Return what a session is to call a tab: its number, which then stands for this tab.

    It is the browser's id if the number means a tab of another browser to the session, or might. A small id
    could be taken for a number: then it is the number, which stands for several tabs from then on.
    """
    if _is_free(registry, kept, session, place, is_usable):
        kept.bind_number(place.number, place.browser_key)
    elif tab_id := _tab_id_of(place):
        return tab_id
    else:
        kept.bind_number(place.number, None)
    return place.number


def _is_free(
    registry: Registry, kept: SessionState, session: Session, place: TabRef, is_usable: IsUsable
) -> bool:
    """Return whether the number of a tab means no other tab to the session."""
    try:
        known = find_tab(registry, kept, session, place.number, is_usable)
    except CallError:
        return True
    except ToolError:
        return False
    return (known.browser_key, known.number) == (place.browser_key, place.number)


def look_again(registry: Registry, place: TabRef) -> TabRef:
    """Return a tab as it is announced now, also behind another host of its browser.

    Raises:
        CallError: it is gone.
    """
    return get_tab(registry, place.browser, place.tab.tab_id, place.number)


def get_tab(registry: Registry, browser: Browser, tab_id: int, shown: int) -> TabRef:
    """Return a tab by the browser's id, also behind another host of that browser.

    Raises:
        CallError: there is no tab with this id, which clients call `shown`.
    """
    for each in live_browsers(registry):
        tab = each.tabs.get(tab_id)
        if (each.profile, each.pid) == (browser.profile, browser.pid) and tab and not tab.incognito:
            return TabRef(each, tab)
    raise CallError(Code.NO_SUCH_TAB, f"tab {shown}", handed=False)


def _place_of(browser: Browser, wanted: int) -> TabRef | None:
    tab = browser.find_tab(wanted)
    return TabRef(browser, tab) if tab and not tab.incognito else None


def _tab_id_of(place: TabRef) -> int | None:
    """Return the browser's id of a tab, unless it could be taken for a number."""
    return place.tab.tab_id if place.tab.tab_id >= FIRST_TAB_ID else None


def _describe_choices(wanted: int, places: Iterable[TabRef]) -> str:
    choices = ", ".join(
        f"{_tab_id_of(place) or 'a tab'} in {browser_name(place.browser)}" for place in places
    )
    return (
        f"tabId {wanted} is a tab of several browsers, and nothing was done. Give the browser's id instead "
        f"({choices}), or choose the browser with select_browser."
    )
