"""Which tabs a session may use, and how: its own, those handed over, or what the policy adds. Pure.

The extension checks ownership once more (docs/PROTOCOL.md); what the policy opens beyond that is asked for
without a session, which is why it is checked here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from bridge.browser_tools.answer import ToolError
from bridge.browser_tools.keeping import Kept
from bridge.errors import CallError
from bridge.hub.describing import cleaned
from bridge.hub.policy import Policy
from bridge.hub.registry import Browser, Registry
from bridge.hub.sessions import Session
from native_host import wire
from native_host.wire import Code

NO_BROWSER = "No browser is connected."
MAX_NAME = 60


@dataclass(frozen=True)
class Place:
    """A tab in a browser."""

    browser: Browser
    tab: wire.Tab

    def is_mine(self, session: Session) -> bool:
        """Whether the extension lets the session command it."""
        return self.tab.owner == session.id or (self.tab.owner is None and self.tab.handed_over)


def called(browser: Browser) -> str:
    """What a person calls a browser: the profile's label, else its brand and version."""
    assert browser.hello is not None, "only known browsers are asked for"
    about = browser.hello.browser
    return cleaned(browser.hello.profile.label or f"{about.brand} {about.version}", MAX_NAME)


def live_browsers(registry: Registry) -> list[Browser]:
    """The browsers that can be reached, the oldest first."""
    return [browser for browser in registry.browsers() if browser.is_live]


def chosen_browser(registry: Registry, kept: Kept) -> Browser:
    """The browser that a session works in: the one it has chosen, else where it has tabs, else the only one.

    Raises:
        ToolError: there is none, or it is not clear which.
    """
    browsers = live_browsers(registry)
    if not browsers:
        raise ToolError(NO_BROWSER)
    if kept.profile:
        for browser in browsers:
            if browser.profile == kept.profile:
                return browser
        names = ", ".join(map(called, browsers))
        raise ToolError(
            f"The browser that this session works in is not connected any more. Connected: {names}. "
            "Start it again, or choose another with select_browser."
        )
    return max(browsers, key=_last_used)


def _last_used(browser: Browser) -> float:
    return max((tab.last_accessed for tab in browser.tabs.values()), default=0)


def visible_tabs(browser: Browser) -> Iterator[Place]:
    """All that clients may know of, in the order of the browser's windows."""
    yield from (Place(browser, tab) for tab in browser.tabs.values() if not tab.incognito)


def find_tab(registry: Registry, kept: Kept, session: Session, tab_id: int) -> Place:
    """The tab that a session names: in its browser, else in the only other one that has it.

    Raises:
        CallError: there is none.
    """
    found = [
        place
        for browser in live_browsers(registry)
        for place in visible_tabs(browser)
        if place.tab.tab_id == tab_id
    ]
    mine = [place for place in found if place.is_mine(session)] or found
    if kept.profile:
        mine = [place for place in mine if place.browser.profile == kept.profile] or mine
    if not mine:
        raise CallError(Code.NO_SUCH_TAB, f"tab {tab_id}", handed=False)
    return mine[0]


def check_origin(policy: Policy, origin: str) -> None:
    """The policy lets this origin be used.

    Raises:
        CallError: it does not, and why.
    """
    if refusal := policy.origin_refusal(origin):
        raise CallError(Code.NOT_ALLOWED, refusal, handed=False)
