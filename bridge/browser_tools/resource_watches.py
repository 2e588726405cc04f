"""Watches of the browser's resources: navigations, console and network entries, changes of a document.

A watch asks the user nothing, and reports only while the session may use the tab without a prompt. Watches of
the status, of calls and of pictures report nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import trio
from msgspec import UNSET

from bridge.browser_tools.browser_resources import TABS, TabPart, TabUri, parse_tab_uri, tab_views
from bridge.browser_tools.page import console_log, network_log
from bridge.browser_tools.page.page import Frame, Page
from bridge.browser_tools.session.call_context import CallContext
from bridge.browser_tools.session.readable_frames import MAX_FRAMES, readable_frames
from bridge.browser_tools.session.tab_access import TabRef
from bridge.browser_tools.tool_output import ToolError
from bridge.browser_tools.tools.captured_events import get_captures
from bridge.errors import CallError
from native_host.protocol import wire

APART_S = 1.0
"""Seconds between two notifications of one subscriber."""
DOCUMENT_S = 3.0
"""Seconds for which each document of a page is asked for its next change at once."""
_RETRY_S = 2.0
_EVENTS: dict[TabPart, tuple[str, ...]] = {"console": console_log.EVENTS, "network": network_log.EVENTS}


async def watch_resource(
    uri: str,
    make_context: Callable[[], CallContext],
    tell: Callable[[], None],
    task_status: trio.TaskStatus[None],
) -> None:
    """Call `tell` whenever the content of a resource may have changed. Runs until cancelled.

    Args:
        uri: of a resource of the browser.
        make_context: returns a context of the tool that reads it.
        tell: called at most once in APART_S seconds.
        task_status: started once changes are noticed.
    """
    wanted = parse_tab_uri(uri)
    if wanted is None and uri != TABS:
        await trio.sleep_forever()
    watch = _Watch(wanted, make_context)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch.follow_browser)
        if wanted and wanted.part in _EVENTS:
            await nursery.start(watch.follow_events, wanted.part)
        if wanted and wanted.part in ("text", "outline"):
            await nursery.start(watch.follow_document)
        task_status.started()
        while True:
            await watch.changed.wait()
            watch.changed = trio.Event()
            if watch.may_tell():
                tell()
            await trio.sleep(APART_S)


class _Watch:
    """What a URI names now, and whether it has changed."""

    def __init__(self, wanted: TabUri | None, make_context: Callable[[], CallContext]) -> None:
        """`wanted` is None for the list of tabs."""
        self.changed = trio.Event()
        self._wanted = wanted
        self._make_context = make_context
        self._counts: dict[tuple[str, str], int] = {}
        """Changes of each document, by frame and load."""
        self._has_begun = False
        """The documents that were there at first are known."""

    def may_tell(self) -> bool:
        """Return whether the session may use what has changed."""
        if self._wanted is None:
            return self._make_context().permissions.judge_tool().outcome == "yes"
        return self._place() is not None

    async def follow_browser(self) -> None:
        """Notice when the tab goes to another document, or the list of tabs changes."""
        news = self._make_context().services.news
        seen = self._look()
        while True:
            await news.wait()
            await trio.lowlevel.checkpoint_if_cancelled()  # else a session that has ended would get a state
            now = self._look()
            if now != seen:
                seen = now
                self.changed.set()

    async def follow_events(
        self, part: TabPart, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Notice new entries of the console, or of the network log. The tab is captured from now on."""
        page: Page | None = None
        captured: object = None
        try:
            while True:
                found = self._page()
                if found is not page:
                    self._leave(page)
                    page = found
                    if page:
                        page.add_listener(self._on_event, _EVENTS[part])
                if page and captured != (page, page.lost):
                    await self._capture(page, part)
                    captured = (page, page.lost)
                task_status.started()
                task_status = trio.TASK_STATUS_IGNORED
                await self._wait_browser()
        finally:
            self._leave(page)

    async def follow_document(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Notice changes of the document, in all frames that the session may read."""
        while True:
            has_looked = await self._look_at_document()
            self._has_begun = True
            task_status.started()
            task_status = trio.TASK_STATUS_IGNORED
            if not has_looked:
                await self._wait_browser()
            elif self.changed.is_set():
                await trio.sleep(APART_S)

    async def _look_at_document(self) -> bool:
        """Wait for a change, or begin to; return whether the document could be asked."""
        with suppress(CallError, ToolError):
            if page := self._page():
                await self._wait_document(page)
                return True
        return False

    def _on_event(self, _event: wire.CdpEvent) -> None:
        self.changed.set()

    def _leave(self, page: Page | None) -> None:
        if page:
            page.remove_listener(self._on_event)

    async def _capture(self, page: Page, part: TabPart) -> None:
        captures = get_captures(self._make_context())
        capture = captures.console_of if part == "console" else captures.network_of
        with suppress(CallError, ToolError):
            await capture(page, page.url).continue_capture()

    async def _wait_browser(self) -> None:
        with trio.move_on_after(_RETRY_S):
            await self._make_context().services.news.wait()
        await trio.lowlevel.checkpoint_if_cancelled()

    async def _wait_document(self, page: Page) -> None:
        context = self._make_context()
        frames = readable_frames(context, await page.find_frames())[:MAX_FRAMES]
        shown = {(frame.id, frame.loader) for frame in frames}
        self._counts = {key: count for key, count in self._counts.items() if key in shown}
        async with trio.open_nursery() as nursery:
            for frame in frames:
                nursery.start_soon(self._wait_frame, page, frame)

    async def _wait_frame(self, page: Page, frame: Frame) -> None:
        key = (frame.id, frame.loader)
        asked = {"since": self._counts.get(key), "ms": DOCUMENT_S * 1000}
        try:
            count = await page.call_script("untilChanged", asked, frame=frame, timeout_s=2 * DOCUMENT_S)
        except (CallError, ToolError):
            await self._wait_browser()
            return
        before = self._counts.get(key)
        if before != count and (before is not None or self._has_begun):  # also a document that came meanwhile
            self.changed.set()
        self._counts[key] = count

    def _look(self) -> object:
        if self._wanted is None:
            context = self._make_context()
            registry, session = context.services.registry, context.session
            return context.state.tab_id, tab_views(registry.browsers(), session)
        place = self._place()
        return place and (place.browser.host, place.tab.tab_id, place.tab.document_id, place.tab.url)

    def _place(self) -> TabRef | None:
        assert self._wanted
        tab = self._wanted.tab
        return self._make_context().peek_tab(UNSET if tab is None else tab)

    def _page(self) -> Page | None:
        """Return the DevTools of the tab; None while the session may not use it."""
        place = self._place()
        with suppress(CallError, ToolError):
            return self._make_context().watched_page(place) if place else None
        return None
