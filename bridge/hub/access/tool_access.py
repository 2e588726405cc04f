"""Access of calls to their tools, once page, tab and user permit.

It waits for pages, browsers, tabs and the user. `PageCall` needs it only if it cannot be sent at once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio

from bridge.errors import CallError, UnknownToolError
from bridge.hub.access.tab_opener import TabOpener
from bridge.hub.catalog_entries import CachedEntry, Entry, LiveEntry
from bridge.hub.change_signal import ChangeSignal
from bridge.hub.consent.doubt_prompts import DoubtPrompts
from bridge.hub.page_call import PageCall
from bridge.hub.providers import Providers
from bridge.hub.registry import GRACE_S, Registry
from native_host.protocol.wire import Code

MAX_PROMPTS = 4
"""Prompts before one call: a page could change its tool during each."""


class ToolAccess:
    """Brings calls to their tools."""

    def __init__(
        self,
        registry: Registry,
        prompts: DoubtPrompts,
        changes: ChangeSignal,
        tabs: TabOpener,
        providers: Providers,
        wait_discovered: Callable[[], Awaitable[None]],
        expire_lost: Callable[[], None],
    ) -> None:
        """`wait_discovered` waits until every host that lives has said what it knows.

        `expire_lost` drops the browsers and pages that have not come back in time.
        """
        self._registry = registry
        self._prompts = prompts
        self._changes = changes
        self._tabs = tabs
        self._providers = providers
        self._wait_discovered = wait_discovered
        self._expire_lost = expire_lost

    async def bring_to_tool(self, call: PageCall) -> None:
        """Send the call to its tool once it may run there, or let it fail. Cancellation cancels the call."""
        try:
            call.send_to(await self._reach_tool(call))
        except trio.Cancelled:
            call.cancel()
            raise
        except Exception as error:  # noqa: BLE001  (other calls go on)
            call.fail(error)

    async def _reach_tool(self, call: PageCall) -> LiveEntry:
        """Return the tool in the tab that runs it, or raise if the call is rejected."""
        entry = await self._find_allowed(call)
        if isinstance(entry, CachedEntry):
            if self._registry.live_browser(entry.site.profile) is None:
                await self._wait_discovered()  # it may have been started just now
            await self._providers.prepare_tab(call.session, call.observer)
            entry = await self._tabs.open(call.session, entry)
            call.admit(entry)
            if call.doubt:  # the page has another tool than the one that was cached
                entry = await self._find_allowed(call)
        if not isinstance(entry, LiveEntry):
            raise CallError(Code.NO_LONGER_OFFERED, call.name, handed=False)
        return entry

    async def _find_allowed(self, call: PageCall) -> Entry:
        """Return the tool behind the name, admitted, and approved by the user where needed."""
        for _ in range(MAX_PROMPTS):
            entry = await self._find_live(call)
            call.admit(entry)
            if call.doubt is None:
                return entry
            await self._ask_user(call, entry)  # meanwhile page, rules and tab may change: look again
        raise CallError(Code.NOT_ALLOWED, f"{call.name} changed while the user was asked", handed=False)

    async def _ask_user(self, call: PageCall, entry: Entry) -> None:
        async with self._prompts.lock(call.session):
            call.admit(entry)
            doubt = call.doubt
            if doubt is None:  # another call asked the same
                return
            host = entry.offer.browser.host if isinstance(entry, LiveEntry) else ""
            await self._prompts.ask(call.session, doubt, call.observer, host)
            call.resolve_doubt(doubt)

    async def _find_live(self, call: PageCall) -> Entry:
        """Return the tool behind the name; if its host is lost, wait until its page is back."""
        entry = await self._find_reloaded(call)
        lost_at = _lost_at(entry)
        if lost_at is None:
            return entry
        is_back = await self._changes.wait_until(lambda: _is_live(call), until=lost_at + GRACE_S)
        if is_back:
            return call.find_entry()
        if self._registry.live_browser(entry.site.profile) is None:
            raise CallError(Code.GONE, "its browser has not come back", handed=False)
        self._expire_lost()
        try:
            entry = call.find_entry()  # what is kept, if it is
        except UnknownToolError:
            raise CallError(Code.NO_LONGER_OFFERED, call.name, handed=False) from None
        if _lost_at(entry) is not None:
            raise CallError(Code.NO_LONGER_OFFERED, call.name, handed=False)
        return entry

    async def _find_reloaded(self, call: PageCall) -> Entry:
        """Return the tool behind the name; wait for its page if that is reloading."""
        try:
            return call.find_entry()
        except UnknownToolError:
            await self._wait_discovered()
        except CallError:
            pass  # its page may be reloading

        if (until := call.reloading_until()) is not None:
            await self._changes.wait_until(lambda: _has_ended_reload(call), until=until)
        return call.find_entry()


def _lost_at(entry: Entry) -> float | None:
    return entry.offer.lost_at if isinstance(entry, LiveEntry) else None


def _has_ended_reload(call: PageCall) -> bool:
    """Return whether the tool is offered again, or another one in its place, or its tab went elsewhere."""
    try:
        entry = call.find_entry()
    except UnknownToolError:
        return call.reloading_until() is None
    except CallError as error:
        return error.code != Code.NO_LONGER_OFFERED or call.reloading_until() is None
    return _lost_at(entry) is None


def _is_live(call: PageCall) -> bool:
    try:
        return _lost_at(call.find_entry()) is None
    except (CallError, UnknownToolError):
        return False  # a restarted browser may be back before its page is
