"""Context of one tool call: session state, prompts, permissions, and the tabs that it may use."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

import msgspec
import trio
from msgspec import UNSET, UnsetType

from bridge import origins
from bridge.browser_tools.page.bound_documents import BoundDocument, TabKey, bind_document
from bridge.browser_tools.page.devtools import DOWNLOAD, NotControllableError
from bridge.browser_tools.page.event_notes import EventNotes
from bridge.browser_tools.page.page import Frame, Page
from bridge.browser_tools.session import tab_access
from bridge.browser_tools.session.client_prompts import ClientPrompts
from bridge.browser_tools.session.permissions import AccessRequest, Permissions
from bridge.browser_tools.session.session_state import SessionState
from bridge.browser_tools.session.tab_access import NoBrowserError, NoTabError, TabRef
from bridge.browser_tools.session.tool_services import ToolServices
from bridge.browser_tools.tool import Tool
from bridge.browser_tools.tool_output import Quote, ToolError, ToolResult
from bridge.errors import CallError
from bridge.hub.audit_records import CallRecord
from bridge.hub.catalog_entries import site_of
from bridge.hub.client_session import Session
from bridge.hub.registry import GRACE_S, Browser
from bridge.hub.rules.root_sites import NO_ROOTS, RootSites, read_roots
from bridge.hub.transport import TabAddress
from native_host.protocol import wire
from native_host.protocol.wire import Code

REQUEST_S = 15.0
"""Seconds for one of the extension's commands."""
SEEN_S = 2.0
"""Seconds for the browser to announce what a command has changed."""

R = TypeVar("R", bound=wire.Wire)


@dataclass
class CallContext:
    """One call, as its tool sees it."""

    services: ToolServices
    session: Session
    state: SessionState
    prompts: ClientPrompts
    recording: CallRecord
    tool: Tool[Any, CallContext]
    """The running tool; the steps of a batch run one after the other."""
    run_tool: Callable[[CallContext, str, dict[str, Any], int], Awaitable[ToolResult]]
    """Run another browser tool within this call; see `call_tool`."""
    approved_once: set[tuple[str, str]] = field(default_factory=set)
    """Origins that the user approved for this one call, each with `read` or `act`."""
    quotes: list[Quote] = field(default_factory=list)
    is_read: bool = False
    """True for a resource that is read or watched: the current tab and the notes on pages stay."""

    @property
    def permissions(self) -> Permissions:
        """Decisions about this call."""
        return Permissions(self.services, self.prompts, self.state, self.tool, self.approved_once)

    async def wait_discovered(self) -> None:
        """Wait for browsers that were just found, or that are back in a moment."""
        registry, news = self.services.registry, self.services.news
        if tab_access.live_browsers(registry):
            return
        await self.services.settle()

        def is_decided() -> bool:
            nobody_comes = all(browser.is_live for browser in registry.all_browsers())
            return nobody_comes or bool(tab_access.live_browsers(registry))

        await news.wait_until(is_decided, until=trio.current_time() + GRACE_S)

    async def list_root_sites(self) -> RootSites:
        """Return the client's roots where they concern sites; none if they only concern files."""
        if self.services.settings.roots == "files":
            return NO_ROOTS
        return read_roots(await self.prompts.list_roots() or ())

    # ── Tabs ────────────────────────────────────────────────────────────────────────────────────────────────

    def current_browser(self) -> Browser:
        """Return the browser that the session works in.

        Raises:
            ToolError: no browser is connected; the text says what is missing.
        """
        try:
            return tab_access.browser_of_session(self.services.registry, self.state, self.session)
        except NoBrowserError as error:
            raise NoBrowserError(self.services.whats_missing() or str(error)) from None

    async def use_tab(self, tab_id: int | UnsetType, *, leaves: bool = False) -> TabRef:
        """Return the tab that the call names, and make it the session's current tab.

        The user may be asked first. With `leaves`, the call leaves the page, whose site does not matter then.

        Raises:
            CallError: the tab does not exist or has another owner, or a rule or the user forbids its site.
            ToolError: the call names no tab, and the session has none.
        """
        browser = self.current_browser()
        place = self._current_tab(browser) if tab_id is UNSET else self.find_tab(tab_id)
        check_extension(place.browser)
        while True:  # During a prompt, the tab may navigate.
            place = tab_access.look_again(self.services.registry, place)
            if await self._is_stale(place):
                continue
            self.record_site(place.browser, place.tab.origin, place.tab.tab_id)
            if not await self._admit_all(self._access_requests(place, leaves)):
                continue
            if leaves or await self._admit_all(await self._requests_of_blank(place)):
                if not self.is_read:
                    self.state.tab_id = place.tab.tab_id
                return place

    def peek_tab(self, tab_id: int | UnsetType) -> TabRef | None:
        """Return the tab that the call names if it may be used without a prompt to the user, else None."""
        try:
            place = self._current_tab(self.current_browser()) if tab_id is UNSET else self.find_tab(tab_id)
        except (CallError, ToolError):
            return None
        requests = self._access_requests(place, leaves=False)
        decisions = [self.permissions.judge_tool(), *map(self.permissions.decide, requests)]
        return place if all(decision.outcome == "yes" for decision in decisions) else None

    def find_tab(self, tab_id: int | UnsetType) -> TabRef:
        """Return the tab that the call names, before any check of it. Raises as `use_tab` does."""
        assert isinstance(tab_id, int)
        return tab_access.find_tab(
            self.services.registry, self.state, self.session, tab_id, self.permissions.may_use_tab
        )

    def show_tab(self, place: TabRef) -> int:
        """Return what the client is to call a tab."""
        return tab_access.show_tab(
            self.services.registry, self.state, self.session, place, self.permissions.may_use_tab
        )

    async def _admit_all(self, requests: list[AccessRequest]) -> bool:
        """Return whether all are allowed already; else ask the user, after which things may be different.

        Raises as `use_tab` does.
        """
        if all(self.permissions.decide(request).outcome == "yes" for request in requests):
            return True
        for request in requests:
            await self.permissions.admit(request)
        return False

    async def _is_stale(self, place: TabRef) -> bool:
        """Return whether DevTools reported a document of which the tab's announcement was still on its way.

        Waits for it, at most SEEN_S.
        """
        at, announced = (place.browser.host, place.tab.tab_id), place.tab.document_id
        page = self.state.pages.get(at)
        if page is None or not announced or page.judged[0] != announced or page.judged[1] == page.documents:
            return False
        page.judged = (announced, page.documents)  # once: it may be the same document after all
        return await self.wait_announced({at: BoundDocument(announced)})

    async def _requests_of_blank(self, place: TabRef) -> list[AccessRequest]:
        """Return the access requests of a blank page, which has the origin of its opener."""
        if place.tab.url not in ("", "about:blank") or not supports_devtools(place.browser):
            return []
        try:
            origin = await self.page_of(place).blank_origin()
        except NotControllableError:  # a new tab is announced before its page, which is the browser's own
            return []
        return [AccessRequest(place.browser, origin, place.tab)] if origin else []

    def _access_requests(self, place: TabRef, leaves: bool) -> list[AccessRequest]:
        """DevTools may hear of another site before the tab is announced anew."""
        tab, found = place.tab, [origins.get_tab_origin(place.tab)]
        known = self.state.pages.get((place.browser.host, tab.tab_id))
        if known and known.origin:
            found.append(known.origin)
        return [AccessRequest(place.browser, origin, tab, leaves) for origin in found]

    async def admit(self, url: str) -> None:
        """Let the call open this address, after a prompt where rules want one. Raises as `use_tab` does."""
        browser, origin = self.current_browser(), origins.get_origin(url)
        self.record_site(browser, origin, self.recording.site.tab_id)
        await self.permissions.admit(AccessRequest(browser, origin))

    def record_site(self, browser: Browser, origin: str = "", tab_id: int | None = None) -> None:
        """Record the location of this call, as far as it is known."""
        self.recording.site = site_of(browser, origin, tab_id)
        self.recording.own_name = self.recording.name
        self._touch_tab(origin)

    def may_read(self, origin: str) -> bool:
        """Return whether texts of this origin may be reported, inside an admitted page."""
        is_allowed = self.permissions.decide(AccessRequest(self.current_browser(), origin)).outcome != "no"
        if is_allowed:
            self._touch_tab(origin)
        return is_allowed

    def take_notes(self, page: Page) -> str:
        """Return what has happened in a tab since the last call, for the end of a sentence.

        With the downloads of the session's other tabs. A read of a resource leaves them to the next call.
        """
        if self.is_read:
            return ""
        return self._pop_notes(page.happened) + self._pop_notes(self.state.download_notes)

    def _pop_notes(self, notes: EventNotes) -> str:
        text, quotes = notes.pop_notes(self.may_read)
        self.quotes.extend(quotes)
        return text

    def check_frame(self, origin: str) -> None:
        """Check an action on a document inside an admitted page.

        Raises:
            ToolError: its site is forbidden.
        """
        if not self.may_read(origin):
            whose = origins.format_origin(origin)
            raise ToolError(f"There is a frame of {whose}, which may not be used. Nothing was done in it.")

    async def check_input(self, page: Page) -> None:
        """Check that input may be sent to the page, which may move its frames and the focus at any moment.

        Raises:
            ToolError: a frame of a site that may not be used may get it.
        """
        why = "which may not be used, and input may reach it. Nothing was done in it"
        await self._check_frames(page, why)

    async def check_picture(self, page: Page) -> None:
        """Check that a picture of the page may be returned.

        Raises:
            ToolError: a frame of a site that may not be used may be on it.
        """
        await self._check_frames(page, "which may not be seen, so there is no picture")

    async def _check_frames(self, page: Page, why: str) -> None:
        hidden = await self._find_forbidden_frame(page)
        self.check_silent_frames(page)
        if hidden:
            whose = origins.format_origin(hidden.origin)
            then = "Load the page again with navigate: the frame stays empty then."
            raise ToolError(f"There is a frame of {whose}, {why}. {then}")

    async def _find_forbidden_frame(self, page: Page) -> Frame | None:
        """Return a frame of the page whose site may not be used.

        It was there before the rule: site rules keep such a frame from loading.
        """
        if not self._has_site_rules():
            return None
        for frame in (await page.find_frames())[1:]:
            if frame.has_failed or frame.origin == origins.OPAQUE:
                continue
            if self.permissions.decide(AccessRequest(self.current_browser(), frame.origin)).outcome == "no":
                return frame
        return None

    def check_silent_frames(self, page: Page) -> None:
        """All frames of a page answered when they were looked for last.

        Raises:
            ToolError: one did not, so that its site is not known, and there are rules about sites.
        """
        if page.has_silent_frames and self._has_site_rules():
            raise ToolError(
                "A frame in the page does not answer, so its site is not known. Nothing was done. Try again "
                "later, or load the page again with navigate."
            )

    def _has_site_rules(self) -> bool:
        """Return whether there are sites that may not be used: pages of unknown site are forbidden then."""
        return self.permissions.decide(AccessRequest(self.current_browser(), origins.OPAQUE)).outcome == "no"

    def check_here(self, origin: str) -> None:
        """Check the origin of the page that a tab shows now, whatever it showed when it was admitted.

        Raises:
            ToolError: its site is forbidden, or needs a prompt.
        """
        if not self.may_see(origin):
            there = origins.format_origin(origin)
            raise ToolError(
                f"The tab has just gone to {there}. Nothing was done there, and nothing "
                "of it is reported. Call again: whether you may use that site is decided then."
            )

    def may_see(self, origin: str) -> bool:
        """Return whether a page that a tab was led to may be looked at, without asking the user."""
        is_allowed = self.permissions.decide(AccessRequest(self.current_browser(), origin)).outcome == "yes"
        if is_allowed:
            self._touch_tab(origin)
        return is_allowed

    def _touch_tab(self, origin: str) -> None:
        """Record that this call reads or changes a site, for the audit log."""
        if origin not in ("", "null"):
            self.recording.touched[origin] = None

    async def open_page(self, tab_id: int | UnsetType = UNSET) -> Page:
        """Return the DevTools of the tab that the call names. Raises as `use_tab` does."""
        return self.page_of(await self.use_tab(tab_id))

    def page_of(self, place: TabRef) -> Page:
        """Return the DevTools page of a tab that this session may use."""
        host, tab_id = place.browser.host, place.tab.tab_id
        if not supports_devtools(place.browser):
            raise ToolError(
                f"{tab_access.browser_name(place.browser)} has no DevTools for extensions, which this needs: "
                "use Chromium or a browser made of it. Tools of pages work in both."
            )
        session = self.session.id if place.is_mine(self.session) else ""
        page = self.state.pages.get((host, tab_id))
        if page is None:
            page = Page(self.services.transport, host, tab_id, session, self.state.numbering)
            page.downloads.notes = self.state.download_notes
            self.state.pages[host, tab_id] = page
        page.number = self.show_tab(place)
        page.is_shown = place.tab.active
        page.downloads.reports_ends = reports_downloads(place.browser)
        page.check = partial(self._check_rules, place, self.services.policy.version)
        page.may_read = self.may_read
        page.judged = (place.tab.document_id, page.documents)
        bind_document((host, tab_id), place.tab.document_id)
        return page

    def watched_page(self, place: TabRef) -> Page:
        """Return the DevTools page of a tab for a watch, which changes nothing for a call that runs there."""
        page = self.state.pages.get((place.browser.host, place.tab.tab_id))
        if page is None:
            return self.page_of(place)
        bind_document((place.browser.host, place.tab.tab_id), place.tab.document_id)
        return page

    def _check_rules(self, place: TabRef, version: int) -> None:
        """Judge a tab again when the rules have changed since version `version`.

        Raises:
            CallError: they forbid what the tab shows now.
        """
        if self.services.policy.version == version:
            return
        tab = place.browser.tabs.get(place.tab.tab_id, place.tab)
        for request in self._access_requests(replace(place, tab=tab), leaves=False):
            decision = self.permissions.decide(request)
            if decision.outcome == "no":
                raise CallError(decision.code, decision.rule, handed=False, then=decision.then)

    async def follow_page(self, page: Page) -> bool:
        """Bind the rest of the call to the document that an action has led the tab to.

        Returns:
            False if it may not be looked at unasked: the call stays bound to the document that is gone.
        """
        bound, at = page.bound_document, (page.host, page.tab_id)
        if page.documents == page.judged[1]:
            return True
        await self.wait_announced({at: bound})
        place = self._place_of(page)
        if any(
            self.permissions.decide(request).outcome != "yes"
            for request in self._access_requests(place, leaves=False)
        ):
            return False
        self.page_of(place)
        return True

    def _place_of(self, page: Page) -> TabRef:
        registry = self.services.registry
        for browser in tab_access.live_browsers(registry):
            if browser.host == page.host:
                return tab_access.get_tab(registry, browser, page.tab_id, page.number)
        raise CallError(Code.NO_SUCH_TAB, f"tab {page.number}", handed=False)

    async def wait_announced(self, left: Mapping[TabKey, BoundDocument], origin: str | None = None) -> bool:
        """Wait until the browsers have announced other documents than these, at most SEEN_S.

        With `origin`, a document of that origin suffices: it may be the same document.
        """
        links = {browser.host: browser for browser in self.services.registry.all_browsers()}

        def is_announced() -> bool:
            return all(
                host not in links
                or (tab := links[host].tabs.get(tab_id)) is None
                or tab.document_id != document.id
                or origins.get_tab_origin(tab) == origin
                for (host, tab_id), document in left.items()
            )

        return await self.wait_condition(is_announced)

    def _current_tab(self, browser: Browser) -> TabRef:
        tab = browser.tabs.get(self.state.tab_id) if self.state.tab_id is not None else None
        if tab is not None and tab.owner in (None, self.session.id):
            return TabRef(browser, tab)
        own = [tab for tab in browser.tabs.values() if tab.owner == self.session.id]
        if not own and self.services.policy.is_read_only:
            raise NoTabError(
                "You have no tab, and policy.read_only is on: you cannot open one. Ask the user to hand a "
                "tab over in the extension's popup; tabs_context lists what there is."
            )
        if not own:
            yet = "yet" if self.state.tab_id is None else "any more"
            raise NoTabError(
                f"You have no tab {yet}. navigate with a url opens one, tabs_create an empty one; "
                "tabs_context lists what there is."
            )
        return TabRef(browser, max(own, key=lambda tab: tab.last_accessed))

    async def new_tab(self, *, browser: Browser | None = None) -> TabRef:
        """Create an empty tab in the session's group, and make it current.

        The browser's own new-tab page is not used: no extension may look at it or control it.
        """
        browser = browser or self.current_browser()
        check_extension(browser)
        asked = self.services.new_tab_request(self.session, "about:blank")
        created = await self.ask_browser(browser, "createTab", asked, wire.CreatedTab)
        self.session.profiles.add(browser.profile)
        self.state.tab_id = created.tab_id
        await self.wait_condition(lambda: _is_own(browser, created.tab_id, self.session))
        return tab_access.get_tab(self.services.registry, browser, created.tab_id, created.tab_id)

    async def wait_condition(self, is_so: Callable[[], bool]) -> bool:
        """Wait until announcements of the browser fulfill the condition, at most SEEN_S."""
        return await self.services.news.wait_until(is_so, until=trio.current_time() + SEEN_S)

    async def ask_browser(
        self, browser: Browser, method: str, params: wire.Wire, result: type[R], timeout_s: float = REQUEST_S
    ) -> R:
        """One of the extension's commands.

        Raises:
            CallError: it failed, in the browser's words.
        """
        tab_id = getattr(params, "tab_id", None)
        at = TabAddress(browser.host, tab_id)
        answer = await self.services.transport.request(at, method, params, timeout_s)
        return msgspec.json.decode(answer, type=result)

    async def call_tool(self, name: str, arguments: dict[str, Any], *, step: int = 0) -> ToolResult:
        """Run another browser tool within this call. Raises as that tool does.

        With `step`, its number within the call's batch, it has an entry of its own in the audit log.
        """
        return await self.run_tool(self, name, arguments, step)


def supports_devtools(browser: Browser) -> bool:
    """Return whether the extension passes DevTools commands on, which Firefox has none of."""
    return browser.hello is None or "forwardCDPCommand" in browser.hello.capabilities.commands


def reports_downloads(browser: Browser) -> bool:
    """Return whether the extension reports the end of downloads; older ones do not."""
    return browser.hello is not None and DOWNLOAD in browser.hello.capabilities.commands


def check_extension(browser: Browser) -> None:
    """Check that the extension binds commands to documents.

    Raises:
        ToolError: it is older than this bridge; the user has to update it.
    """
    if browser.hello is not None and "documentId" not in browser.hello.capabilities.commands:
        version = browser.hello.extension.version
        raise ToolError(
            f"The mcpb extension in {tab_access.browser_name(browser)} ({version}) is too old: it does not "
            "bind commands to documents (documentId). Nothing was done. Ask the user to run `mcpb "
            "extension` and "
            "to reload it on the browser's page of extensions."
        )


def _is_own(browser: Browser, tab_id: int, session: Session) -> bool:
    tab = browser.tabs.get(tab_id)
    return tab is not None and tab.owner == session.id
