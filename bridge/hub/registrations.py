"""Registration listener: records announced tool lists, and caches the tools that allow it. Pure."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from bridge.hub.audit_records import AuditSink, Site, ToolRedefinition, ToolRegistration
from bridge.hub.cached_tools import CachedToolRow, ToolKey, ToolStore
from bridge.hub.catalog_entries import site_of
from bridge.hub.page_tool import PageTool
from bridge.hub.policy import Policy
from bridge.hub.registry import Browser, Registry
from bridge.hub.transport import Event, HostAnnouncement
from native_host.protocol import wire

MAX_KNOWN = 8192
"""Definitions whose hashes are remembered, of all sites: those that were announced last."""


class RegistrationListener:
    """Receives all events before the registry, and passes them on to it."""

    def __init__(self, registry: Registry, policy: Policy, store: ToolStore, keep: AuditSink) -> None:
        self._registry = registry
        self._policy = policy
        self._store = store
        self._keep = keep
        self._known: OrderedDict[ToolKey, bytes] = OrderedDict()
        """Hash of each tool's definition, also after its document has gone."""

    def on_event(self, event: Event, now: float) -> bool:
        """Let the registry hear an event; whether the store's tools are others now."""
        if not isinstance(event, HostAnnouncement) or not isinstance(event.message, wire.FrameTools):
            self._registry.on_event(event, now)
            return False
        announced, browser = event.message, self._registry.find_browser(event.host)
        before = _tool_names(browser, announced)
        self._registry.on_event(event, now)
        tab = browser.tabs.get(announced.tab_id)
        if tab is None or tab.incognito:
            return False
        names = _tool_names(browser, announced)
        site = site_of(browser, announced.origin, announced.tab_id)
        if names != before:
            self._keep(ToolRegistration(site, names))
        frame = browser.find_frame(announced.tab_id, announced.frame_id)
        self._record_changes(site, frame.tools if frame else [])
        return self._record_offer(browser, announced)

    def _record_changes(self, site: Site, tools: Sequence[PageTool]) -> None:
        """Record each tool whose definition is not the one that was known under its name."""
        known = {tool.name: self._known.get(ToolKey(site.profile, site.origin, tool.name)) for tool in tools}
        if None in known.values():
            # An earlier process may have cached the definition.
            cached = {each.tool.name: each.tool.digest for each in self._store.tools() if _is_of(each, site)}
            known = {name: digest or cached.get(name) for name, digest in known.items()}
        for tool in tools:
            before = known[tool.name]
            if before is not None and before != tool.digest:
                self._keep(ToolRedefinition(site, tool.name, before.hex(), tool.digest.hex()))
            key = ToolKey(site.profile, site.origin, tool.name)
            self._known[key] = tool.digest
            self._known.move_to_end(key)
        while len(self._known) > MAX_KNOWN:
            self._known.popitem(last=False)

    def _record_offer(self, browser: Browser, announced: wire.FrameTools) -> bool:
        is_whole_page = announced.frame_id == 0  # a frame need not work when it is opened by itself
        if not is_whole_page or not browser.profile or self._policy.origin_refusal(announced.origin):
            return False
        frame = browser.find_frame(announced.tab_id, announced.frame_id)
        at = browser.profile, announced.tab_id, announced.origin, announced.url
        return self._store.record_offer(*at, frame.tools if frame else [])


def _is_of(cached: CachedToolRow, site: Site) -> bool:
    return (cached.profile, cached.origin) == (site.profile, site.origin)


def _tool_names(browser: Browser, announced: wire.FrameTools) -> tuple[str, ...]:
    frame = browser.find_frame(announced.tab_id, announced.frame_id)
    return tuple(tool.name for tool in frame.tools) if frame else ()
