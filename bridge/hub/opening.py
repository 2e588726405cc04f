"""A tab for a tool that has none: opened in the session's name, and waited for. Nothing is run by that."""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass

import msgspec
import trio

from bridge.errors import CallError
from bridge.hub.catalog import Catalog
from bridge.hub.entry import CachedEntry, LiveEntry
from bridge.hub.news import News
from bridge.hub.registry import Browser, Registry
from bridge.hub.sessions import Session
from bridge.hub.transport import TabAddress, TabTransport
from native_host import wire
from native_host.wire import Code

WAITS_S = (2.0, 1.0, 1.0, 1.0)
"""For the page server of a tab that was opened; then three tries a second apart (MCP-B specification, §3)."""
_REQUEST_S = 10.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Request:
    method: str
    params: wire.Wire
    tab_id: int | None
    """Of a tab that is there already; None: it is in the answer."""


class TabOpener:
    """Opens pages for tools that were kept, or whose tabs are all somebody else's."""

    def __init__(self, registry: Registry, catalog: Catalog, transport: TabTransport, news: News) -> None:
        self._registry = registry
        self._catalog = catalog
        self._transport = transport
        self._news = news
        self._locks: dict[tuple[str, str, str], trio.Lock] = {}
        """By session, profile and origin: calls at once share the tab that the first of them opens."""

    async def open(self, session: Session, entry: CachedEntry) -> LiveEntry:
        """The tool, in a tab of the session's own.

        Raises:
            CallError: its browser is not running, or its page does not offer it. Nothing was run.
        """
        at = session.id, entry.profile, entry.origin
        lock = self._locks.setdefault(at, trio.Lock())
        async with lock:
            try:
                return self._opened_before(session, entry) or await self._open(session, entry)
            finally:
                if not lock.statistics().tasks_waiting:
                    del self._locks[at]

    async def release(self, session: Session) -> None:
        """A session is over: the tabs that were opened for it are anybody's."""
        for profile in {profile for profile, _ in session.opened}:
            if browser := self._registry.live_browser(profile):
                closing = wire.CloseSession(session=session.id)
                with suppress(CallError):  # then they are after a minute
                    await self._transport.request(
                        TabAddress(browser.host), "closeSession", closing, _REQUEST_S
                    )

    def _opened_before(self, session: Session, entry: CachedEntry) -> LiveEntry | None:
        tab_id = session.opened.get((entry.profile, entry.origin))
        return None if tab_id is None else self._catalog.in_tab(session, entry, tab_id)

    async def _open(self, session: Session, entry: CachedEntry) -> LiveEntry:
        browser = self._registry.live_browser(entry.profile)
        if browser is None:
            detail = f"the browser profile that has {entry.origin} is not running; start that browser"
            raise CallError(Code.GONE, detail, handed=False)
        request = _request(session, entry, browser)
        try:
            answer = await self._transport.request(
                TabAddress(browser.host, request.tab_id), request.method, request.params, _REQUEST_S
            )
        except CallError as error:
            raise CallError(error.code, f"opening {entry.origin}: {error.detail}", handed=False) from None
        tab_id = request.tab_id or msgspec.json.decode(answer, type=wire.CreatedTab).tab_id
        session.opened[entry.profile, entry.origin] = tab_id
        return await self._appeared(session, entry, tab_id)

    async def _appeared(self, session: Session, entry: CachedEntry, tab_id: int) -> LiveEntry:
        for wait_s in WAITS_S:
            await self._news.wait_until(
                lambda: self._catalog.in_tab(session, entry, tab_id) is not None,
                until=trio.current_time() + wait_s,
            )
            if there := self._catalog.in_tab(session, entry, tab_id):
                return there
            _log.debug("%s offers no %s yet", entry.origin, entry.own_name)
        detail = (
            f"{entry.origin} was opened in a tab of its own and offers no {entry.own_name} there; "
            "it may want a person to sign in"
        )
        raise CallError(Code.NO_LONGER_OFFERED, detail, handed=False)


def _request(session: Session, entry: CachedEntry, browser: Browser) -> _Request:
    """A new tab; or the one that was opened before, when it is still there."""
    before = session.opened.get((entry.profile, entry.origin))
    tab = browser.tabs.get(before) if before is not None else None
    if tab is not None and tab.owner == session.id:
        params = wire.Navigate(session=session.id, tab_id=tab.tab_id, url=entry.url, wait_until="commit")
        return _Request("browser_navigate", params, tab.tab_id)
    return _Request("createTab", wire.CreateTab(session=session.id, url=entry.url, title=session.title), None)
