"""Opening of a tab for a tool without one, on behalf of a session. It runs no tool."""

from __future__ import annotations

import logging
from contextlib import suppress

import msgspec
import trio

from bridge.errors import CallError
from bridge.hub.catalog import Catalog
from bridge.hub.catalog_entries import CachedEntry, LiveEntry
from bridge.hub.change_signal import ChangeSignal
from bridge.hub.client_session import Session
from bridge.hub.registry import GRACE_S, Browser, Registry
from bridge.hub.transport import TabAddress, TabTransport
from native_host.protocol import wire
from native_host.protocol.wire import Code

WAITS_S = (2.0, 1.0, 1.0, 1.0)
"""For the page server of a tab that was opened; then three tries a second apart (MCP-B specification, §3)."""
_REQUEST_S = 10.0

_log = logging.getLogger(__name__)


class _Attempt:
    """A page that is being opened: further calls wait for what comes of it."""

    def __init__(self) -> None:
        self.done = trio.Event()
        self.error: CallError | None = None


class TabOpener:
    """Opens pages for cached tools, or for tools whose tabs belong to other sessions."""

    def __init__(
        self, registry: Registry, catalog: Catalog, transport: TabTransport, changes: ChangeSignal
    ) -> None:
        self.closing: wire.Closing = "unused"
        """Tabs of a session that are closed at its end."""
        self._registry = registry
        self._catalog = catalog
        self._transport = transport
        self._changes = changes
        self._attempts: dict[tuple[str, str, str], _Attempt] = {}

    async def open(self, session: Session, entry: CachedEntry) -> LiveEntry:
        """Return the tool in a tab that the session owns.

        Raises:
            CallError: its browser is not running, or its page does not offer it. Nothing was run.
        """
        while True:
            if there := self._find_tool(session, entry):
                return there
            running = self._attempts.get((session.id, entry.profile, entry.url))
            if running is None:
                return await self._start_attempt(session, entry)
            await running.done.wait()
            if running.error is not None:
                raise running.error

    def closing_of(self, session: Session) -> wire.Closing:
        """Return which tabs of a session are closed at its end."""
        return "never" if session.keeps_tabs else self.closing

    def format_request(self, session: Session, url: str) -> wire.CreateTab:
        """Return the request for a tab of a session."""
        return wire.CreateTab(
            session=session.id,
            url=url,
            title=session.title,
            group_key=session.group_key,
            closing=self.closing_of(session),
        )

    async def release(self, session: Session) -> None:
        """Release or close the tabs that were opened for a session."""
        for profile in {profile for profile, _ in session.opened} | session.profiles:
            if browser := self._registry.live_browser(profile):
                closing = wire.CloseSession(session=session.id, closing=self.closing_of(session))
                with suppress(CallError):  # then they are after a minute
                    await self._transport.request(
                        TabAddress(browser.host), "closeSession", closing, _REQUEST_S
                    )

    def _find_tool(self, session: Session, entry: CachedEntry) -> LiveEntry | None:
        tab_id = session.opened.get((entry.profile, entry.url))
        return None if tab_id is None else self._catalog.in_tab(session, entry, tab_id)

    async def _start_attempt(self, session: Session, entry: CachedEntry) -> LiveEntry:
        key = session.id, entry.profile, entry.url
        attempt = self._attempts[key] = _Attempt()
        try:
            return await self._open_tab(session, entry)
        except CallError as error:
            attempt.error = error
            raise
        finally:
            del self._attempts[key]
            attempt.done.set()

    async def _open_tab(self, session: Session, entry: CachedEntry) -> LiveEntry:
        is_new = await self._make_tab(session, entry)
        for number, wait_s in enumerate(WAITS_S):
            if number or not is_new:
                await self._load_again(session, entry)
            until = trio.current_time() + wait_s
            await self._changes.wait_until(lambda: self._find_tool(session, entry) is not None, until=until)
            if there := self._find_tool(session, entry):
                return there
            _log.debug("%s offers no %s yet", entry.origin, entry.own_name)
        detail = (
            f"{entry.origin} was opened in a tab of its own and offers no {entry.own_name} there; "
            "the user may have to sign in there"
        )
        raise CallError(Code.NO_LONGER_OFFERED, detail, handed=False)

    async def _make_tab(self, session: Session, entry: CachedEntry) -> bool:
        """Open a tab for the tool's page, unless the previous one still exists."""
        browser = await self._running_browser(entry)
        if self._find_tab(session, entry) is not None:
            return False
        create = self.format_request(session, entry.url)
        answer = await self._request_tab(TabAddress(browser.host), "createTab", create, entry.origin)
        created = msgspec.json.decode(answer, type=wire.CreatedTab)
        session.opened[entry.profile, entry.url] = created.tab_id
        return True

    async def _load_again(self, session: Session, entry: CachedEntry) -> None:
        """Reload a page that failed to load. A loaded page stays: the user may have to sign in."""
        browser = await self._running_browser(entry)
        tab = self._find_tab(session, entry)
        if tab is None or tab.status != "complete" or browser.find_frame(tab.tab_id, 0):
            return
        again = wire.Navigate(session=session.id, tab_id=tab.tab_id, url=entry.url, wait_until="commit")
        await self._request_tab(TabAddress(browser.host, tab.tab_id), "browser_navigate", again, entry.origin)

    def _find_tab(self, session: Session, entry: CachedEntry) -> wire.Tab | None:
        browser = self._registry.live_browser(entry.profile)
        tab_id = session.opened.get((entry.profile, entry.url))
        tab = browser.tabs.get(tab_id) if browser and tab_id is not None else None
        return tab if tab is not None and tab.owner == session.id else None

    async def _running_browser(self, entry: CachedEntry) -> Browser:
        """Return the browser of its profile; wait for one that has just disconnected."""
        if self._registry.is_missed(entry.profile):
            await self._changes.wait_until(
                lambda: self._registry.live_browser(entry.profile) is not None,
                until=trio.current_time() + GRACE_S,
            )
        browser = self._registry.live_browser(entry.profile)
        if browser is None:
            where = f"the browser profile that has {entry.origin}"
            detail = f"{where} is not running; start that browser, or open the page"
            raise CallError(Code.GONE, detail, handed=False)
        return browser

    async def _request_tab(self, at: TabAddress, method: str, params: wire.Wire, origin: str) -> bytes:
        try:
            return await self._transport.request(at, method, params, _REQUEST_S)
        except CallError as error:
            raise CallError(
                error.code, f"opening {origin}: {error.detail}", handed=False, logged=error.audit_detail
            ) from None
