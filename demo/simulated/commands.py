"""Commands about tabs in the simulated browser (docs/PROTOCOL.md, "Requests")."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from demo.simulated.tabs import BrowserState, SimulatedTab, origin_of
from native_host.protocol import wire
from native_host.protocol.wire import Code


class RefusedError(Exception):
    """The browser does not do what it was asked; nothing reached a page."""

    def __init__(self, code: Code, text: str, **data: str) -> None:
        super().__init__(text)
        self.code = code
        self.data = data


def get_tabs(browser: BrowserState, _params: wire.Asked) -> wire.Tabs:
    """All tabs."""
    return wire.Tabs(tabs=[tab.state for tab in browser.tabs.values()])


def create_tab(browser: BrowserState, params: wire.CreateTab) -> wire.CreatedTab:
    """Open a tab; with a session, in its group and owned by it."""
    check_site(browser, origin_of(params.url))
    tab = browser.add_tab(params.url or "about:blank", active=params.active)
    if params.session:
        tab.change(owner=params.session, group_id=browser.group_of(params.session))
    state = tab.state
    return wire.CreatedTab(
        tab_id=state.tab_id, window_id=state.window_id, group_id=state.group_id, url=state.url
    )


def activate_tab(browser: BrowserState, params: wire.ActivateTab) -> wire.TabResult:
    """Bring a tab to the front."""
    tab = _allowed(browser, params)
    browser.activate(tab)
    return wire.TabResult(tab=tab.state)


def close_tab(browser: BrowserState, params: wire.OfTab) -> wire.Nothing:
    """Close a tab."""
    browser.remove_tab(_allowed(browser, params))
    return wire.Nothing()


def set_owner(browser: BrowserState, params: wire.SetOwner) -> wire.TabResult:
    """Set or clear the owner of a tab."""
    tab = browser.tab(params.tab_id)
    tab.change(owner=params.session)
    return wire.TabResult(tab=tab.state)


def close_session(browser: BrowserState, params: wire.CloseSession) -> wire.Nothing:
    """Release or close the tabs of an ended session."""
    for tab in [tab for tab in browser.tabs.values() if tab.state.owner == params.session]:
        if params.closing in ("unused", "always"):
            browser.remove_tab(tab)
        else:
            tab.change(owner=None, group_id=None)
    return wire.Nothing()


def navigate(browser: BrowserState, params: wire.Navigate) -> wire.Navigated:
    """Load a URL; here that takes no time."""
    tab = _allowed(browser, params)
    check_site(browser, origin_of(params.url))
    tab.navigate(params.url)
    return _where(tab)


def go_back(browser: BrowserState, params: wire.OfTab) -> wire.Navigated:
    """One page back in the tab's history."""
    return _travel(_allowed(browser, params), -1)


def go_forward(browser: BrowserState, params: wire.OfTab) -> wire.Navigated:
    """One page forward in the tab's history."""
    return _travel(_allowed(browser, params), 1)


def pause(browser: BrowserState, params: wire.Pause) -> wire.Nothing:
    """Pause or resume a site or a session."""
    if bool(params.site) == bool(params.session):
        raise RefusedError(Code.INVALID_PARAMS, "name either a site or a session")
    if params.site and origin_of(params.site) != params.site:
        raise RefusedError(Code.INVALID_PARAMS, f"{params.site} is no origin")
    browser.pause(site=params.site, session=params.session, paused=params.paused)
    return wire.Nothing()


def check_site(browser: BrowserState, origin: str) -> None:
    """Refuse what is asked of a paused site.

    Raises:
        RefusedError: it is paused.
    """
    if origin in browser.paused.sites:
        raise RefusedError(Code.PAUSED, f"The user paused {origin}.", site=origin)


def check_session(browser: BrowserState, session: str) -> None:
    """Refuse what a paused session asks.

    Raises:
        RefusedError: it is paused.
    """
    if session in browser.paused.sessions:
        raise RefusedError(Code.PAUSED, f"The user paused this client (session {session}).")


COMMANDS: dict[str, Callable[[BrowserState, Any], wire.Wire]] = {
    "getTabs": get_tabs,
    "createTab": create_tab,
    "activateTab": activate_tab,
    "closeTab": close_tab,
    "setOwner": set_owner,
    "closeSession": close_session,
    "browser_navigate": navigate,
    "goBack": go_back,
    "goForward": go_forward,
    "browser/pause": pause,
}
"""By method; each takes the params that `wire.METHODS` names for it. May raise RefusedError."""


def _allowed(browser: BrowserState, params: wire.ActivateTab | wire.OfTab | wire.Navigate) -> SimulatedTab:
    """Return the tab if the session may use it; a request without a session may use all."""
    tab = browser.tab(params.tab_id)
    is_free = tab.state.owner is None and tab.state.handed_over
    if not params.session or is_free or tab.state.owner == params.session:
        return tab
    raise RefusedError(Code.NOT_YOURS, f"tab {params.tab_id} is not this session's, and was not handed over")


def _travel(tab: SimulatedTab, steps: int) -> wire.Navigated:
    if not tab.travel(steps):
        raise RefusedError(Code.INVALID_PARAMS, f"tab {tab.tab_id} has no page there in its history")
    return _where(tab)


def _where(tab: SimulatedTab) -> wire.Navigated:
    return wire.Navigated(
        tab_id=tab.tab_id, url=tab.state.url, title=tab.state.title, document_id=tab.top.document_id
    )
