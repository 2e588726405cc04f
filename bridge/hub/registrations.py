"""What follows from an announced list of tools: a record of it, and what its page allows to be kept. Pure."""

from __future__ import annotations

from bridge.hub.caching import ToolStore
from bridge.hub.entry import site_of
from bridge.hub.policy import Policy
from bridge.hub.records import Keep, Registered
from bridge.hub.registry import Browser, Registry
from bridge.hub.transport import Announced, Event
from native_host import wire


class Registrations:
    """Stands before the registry: what it hears is heard there."""

    def __init__(self, registry: Registry, policy: Policy, store: ToolStore, keep: Keep) -> None:
        self._registry = registry
        self._policy = policy
        self._store = store
        self._keep = keep

    def hear(self, event: Event, now: float) -> bool:
        """Let the registry hear an event; whether the store's tools are others now."""
        if not isinstance(event, Announced) or not isinstance(event.message, wire.FrameTools):
            self._registry.hear(event, now)
            return False
        announced, browser = event.message, self._registry.browser(event.host)
        before = _names(browser, announced)
        self._registry.hear(event, now)
        tab = browser.tabs.get(announced.tab_id)
        if tab is None or tab.incognito:
            return False
        names = _names(browser, announced)
        if names != before:
            self._keep(Registered(site_of(browser, announced.origin, announced.tab_id), names))
        return self._offered(browser, announced)

    def _offered(self, browser: Browser, announced: wire.FrameTools) -> bool:
        is_whole_page = announced.frame_id == 0  # a frame need not work when it is opened by itself
        if not is_whole_page or not browser.profile or self._policy.origin_refusal(announced.origin):
            return False
        frame = browser.frame(announced.tab_id, announced.frame_id)
        at = browser.profile, announced.tab_id, announced.origin, announced.url
        return self._store.offered(*at, frame.tools if frame else [])


def _names(browser: Browser, announced: wire.FrameTools) -> tuple[str, ...]:
    frame = browser.frame(announced.tab_id, announced.frame_id)
    return tuple(tool.name for tool in frame.tools) if frame else ()
