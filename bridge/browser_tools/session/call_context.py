"""One call of a tool: who calls, what is kept for them, which tabs they may use, the person behind them."""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import trio
from msgspec import UNSET, UnsetType

from bridge import origins
from bridge.browser_tools.page.bound_documents import BoundDocument, TabKey, bind_document
from bridge.browser_tools.page.devtools import NotControllableError
from bridge.browser_tools.page.page import Frame, Page
from bridge.browser_tools.session import permissions, tab_access
from bridge.browser_tools.session.permissions import Wish
from bridge.browser_tools.session.session_state import Kept
from bridge.browser_tools.session.tab_access import Place
from bridge.browser_tools.tool import Tool
from bridge.browser_tools.tool_output import Answer, Quote, ToolError
from bridge.config.settings import BrowserSettings
from bridge.errors import CallError
from bridge.hub.audit_records import CallRecord
from bridge.hub.catalog_entries import site_of
from bridge.hub.change_signal import ChangeSignal
from bridge.hub.client_session import Session
from bridge.hub.consent.approval_prompts import ApprovalPrompts
from bridge.hub.consent.user_prompts import Kind, PromptRequest
from bridge.hub.policy import Policy
from bridge.hub.registry import GRACE_S, Browser, Registry
from bridge.hub.transport import QUESTION_S, CallObserver, OnProgress, Prompt, TabAddress, TabTransport
from bridge.state.site_approvals import Approvals
from native_host.protocol import wire

REQUEST_S = 15.0
"""For one of the extension's commands."""
SEEN_S = 2.0
"""Until what a command has changed is announced."""
SAMPLE_S = 45.0
"""For a client's model; the person may be shown what it is asked."""
ROOTS_S = 5.0
"""For a client to tell its roots, which it knows."""

_log = logging.getLogger(__name__)

_REMARK_STEP = 0.001
"""How much further a call is after a message that says nothing of that."""

R = TypeVar("R", bound=wire.Wire)


@dataclass
class Surroundings:
    """What all calls are made with. Only the settings change, when config.toml does."""

    registry: Registry
    transport: TabTransport
    news: ChangeSignal
    policy: Policy
    settings: BrowserSettings
    home: Path
    """Where everything of mcpb is below."""
    approvals: Approvals
    prompts: ApprovalPrompts
    settle: Callable[[], Awaitable[None]]
    """Waits until the browsers that live have said what they know."""
    whats_missing: Callable[[], str]
    """Why no browser is connected, and the command that mends it."""
    tools: Mapping[str, Tool[Any]]
    """By name."""
    call_tool: Callable[[Turn, str, dict[str, Any], int], Any]
    """Another of our tools, within this call, and its step's number: an awaitable `Answer`."""
    sites_changed: Callable[[], None] = lambda: None
    """A session may use other sites now: the browsers need the new rules before its next command."""


@dataclass
class ProgressReports:
    """Progress of one call towards its client; its numbers only grow, as MCP wants."""

    on_progress: OnProgress | None = None
    """None: the client wants no progress."""
    last: wire.Progress = field(default_factory=lambda: wire.Progress(progress=-1))

    def report(self, progress: wire.Progress) -> None:
        """Report how far the call is."""
        self.last = progress
        if self.on_progress:
            self.on_progress(progress)

    def remark(self, progress: wire.Progress) -> None:
        """Report a message of a part of the call, which does not know how far the whole is."""
        step = 1.0 if self.last.progress < 0 else _REMARK_STEP
        self.report(
            wire.Progress(progress=self.last.progress + step, total=self.last.total, message=progress.message)
        )


@dataclass
class Turn:
    """A call, as its tool sees it."""

    around: Surroundings
    session: Session
    kept: Kept
    caller: CallObserver
    recording: CallRecord
    tool: Tool[Any]
    """Which is being run; within a call of several, one after the other."""
    limits: list[trio.CancelScope] = field(default_factory=list)
    """What bounds the call's time; they stand still while a person is asked."""
    once: set[tuple[str, str]] = field(default_factory=set)
    """Origins that the user approved for this one call, each with `read` or `act`."""
    progress: ProgressReports = field(default_factory=ProgressReports)
    """What the client is told of this call, also by the steps of a batch."""
    quotes: list[Quote] = field(default_factory=list)
    """Texts of pages for the end of the answer."""
    told_roots: list[list[str]] = field(default_factory=list)
    """What the client has said of its roots, once it was asked in this call."""

    async def settle(self) -> None:
        """Wait for browsers that were just found, or that are back in a moment."""
        registry, news = self.around.registry, self.around.news
        if tab_access.live_browsers(registry):
            return
        await self.around.settle()

        def is_decided() -> bool:
            nobody_comes = all(browser.is_live for browser in registry.links())
            return nobody_comes or bool(tab_access.live_browsers(registry))

        await news.wait_until(is_decided, until=trio.current_time() + GRACE_S)

    # ── Tabs ────────────────────────────────────────────────────────────────────────────────────────────────

    def browser(self) -> Browser:
        """The browser that the session works in.

        Raises:
            ToolError: none is connected; it says what is missing.
        """
        try:
            return tab_access.chosen_browser(self.around.registry, self.kept, self.session)
        except ToolError as refusal:
            missing = self.around.whats_missing() if str(refusal) == tab_access.NO_BROWSER else ""
            raise ToolError(missing or str(refusal)) from None

    async def place(self, tab_id: int | UnsetType, *, leaves: bool = False) -> Place:
        """The tab that is meant, if this session may use it; from now on it is the current one.

        The person may be asked first. With `leaves`, what the tab shows is only left: no matter what it is.

        Raises:
            CallError: there is no such tab, it is another's, or its site may not be used.
            ToolError: none is named, and the session has none; or nobody answered.
        """
        browser = self.browser()
        wanted = self._current(browser) if tab_id is UNSET else tab_id
        assert isinstance(wanted, int)
        check_extension(tab_access.find_tab(self.around.registry, self.kept, self.session, wanted).browser)
        while True:  # while the person is asked, the tab may go elsewhere
            place = tab_access.find_tab(self.around.registry, self.kept, self.session, wanted)
            if await self._is_stale(place):
                continue
            self.record(place.browser, place.tab.origin, wanted)
            if not await self._admit_all(self._wishes(place, leaves)):
                continue
            if leaves or await self._admit_all(await self._wishes_of_blank(place)):
                self.kept.tab_id = wanted
                return place

    async def _admit_all(self, wishes: list[Wish]) -> bool:
        """Return whether all are allowed already; else ask the user, after which things may be different.

        Raises as `place` does.
        """
        if all(permissions.judge(self, wish).decision == "yes" for wish in wishes):
            return True
        for wish in wishes:
            await permissions.admit(self, wish)
        return False

    async def _is_stale(self, place: Place) -> bool:
        """Return whether DevTools reported a document of which the tab's announcement was still on its way.

        Waits for it, at most SEEN_S.
        """
        at, announced = (place.browser.host, place.tab.tab_id), place.tab.document_id
        page = self.kept.pages.get(at)
        if page is None or not announced or page.judged[0] != announced or page.judged[1] == page.documents:
            return False
        page.judged = (announced, page.documents)  # once: it may be the same document after all
        return await self.wait_announced({at: BoundDocument(announced)})

    async def _wishes_of_blank(self, place: Place) -> list[Wish]:
        """An empty page has the origin of the page that opened it, which only the browser knows."""
        if place.tab.url not in ("", "about:blank") or not supports_devtools(place.browser):
            return []
        try:
            origin = await self.page_of(place).blank_origin()
        except NotControllableError:  # a new tab is announced before its page, which is the browser's own
            return []
        return [Wish(place.browser, origin, place.tab)] if origin else []

    def _wishes(self, place: Place, leaves: bool) -> list[Wish]:
        """DevTools may hear of another site before the tab is announced anew."""
        tab, found = place.tab, [origins.get_tab_origin(place.tab)]
        known = self.kept.pages.get((place.browser.host, tab.tab_id))
        if known and known.origin:
            found.append(known.origin)
        return [Wish(place.browser, origin, tab, leaves) for origin in found]

    async def admit(self, url: str) -> None:
        """This address may be opened, if need be after the person was asked. Raises as `place` does."""
        browser, origin = self.browser(), origins.get_origin(url)
        self.record(browser, origin, self.recording.site.tab_id)
        await permissions.admit(self, Wish(browser, origin))

    def record(self, browser: Browser, origin: str = "", tab_id: int | None = None) -> None:
        """Where this call is made, as far as it is known by now."""
        self.recording.site = site_of(browser, origin, tab_id)
        self.recording.own_name = self.recording.name
        self._touch(origin)

    def may_read(self, origin: str) -> bool:
        """Whether what a document of this origin says may be told, inside a page that may be used."""
        is_allowed = permissions.judge(self, Wish(self.browser(), origin)).decision != "no"
        if is_allowed:
            self._touch(origin)
        return is_allowed

    def take_notes(self, page: Page) -> str:
        """Return what has happened in a tab since the last call, for the end of a sentence."""
        text, quotes = page.happened.take(self.may_read)
        self.quotes.extend(quotes)
        return text

    def check_frame(self, origin: str) -> None:
        """A document inside a page that may be used is to be acted on.

        Raises:
            ToolError: its site may not be used.
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
        for frame in (await page.frames())[1:]:
            if frame.has_failed or frame.origin == origins.OPAQUE:
                continue
            if permissions.judge(self, Wish(self.browser(), frame.origin)).decision == "no":
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
        return permissions.judge(self, Wish(self.browser(), origins.OPAQUE)).decision == "no"

    def check_here(self, origin: str) -> None:
        """A tab shows a page of this origin now, whatever it showed when it was admitted.

        Raises:
            ToolError: it has gone to a site that may not be used, or not unasked.
        """
        if not self.may_see(origin):
            there = origins.format_origin(origin)
            raise ToolError(
                f"The tab has just gone to {there}. Nothing was done there, and nothing "
                "of it is told. Call again: whether you may use that site is decided then."
            )

    def may_see(self, origin: str) -> bool:
        """Return whether a page that a tab was led to may be looked at, without asking the user."""
        is_allowed = permissions.judge(self, Wish(self.browser(), origin)).decision == "yes"
        if is_allowed:
            self._touch(origin)
        return is_allowed

    def _touch(self, origin: str) -> None:
        """Record that this call reads or changes a site, for the audit log."""
        if origin not in ("", "null"):
            self.recording.touched[origin] = None

    async def page(self, tab_id: int | UnsetType = UNSET) -> Page:
        """The tab that is meant, for DevTools. Raises as `place` does."""
        return self.page_of(await self.place(tab_id))

    def page_of(self, place: Place) -> Page:
        """A tab that this session may use, for DevTools."""
        host, tab_id = place.browser.host, place.tab.tab_id
        if not supports_devtools(place.browser):
            raise ToolError(
                f"{tab_access.called(place.browser)} has no DevTools for extensions, which this needs: use "
                "Chromium or a browser made of it. Tools of pages work in both."
            )
        session = self.session.id if place.is_mine(self.session) else ""
        page = self.kept.pages.get((host, tab_id))
        if page is None:
            page = Page(self.around.transport, host, tab_id, session, self.kept.numbering)
            self.kept.pages[host, tab_id] = page
        page.is_shown = place.tab.active
        page.check = partial(self._check_rules, place, self.around.policy.version)
        page.may_read = self.may_read
        page.judged = (place.tab.document_id, page.documents)
        bind_document((host, tab_id), place.tab.document_id)
        return page

    def _check_rules(self, place: Place, version: int) -> None:
        """Judge a tab again when the rules have changed since version `version`.

        Raises:
            CallError: they forbid what the tab shows now.
        """
        if self.around.policy.version == version:
            return
        tab = place.browser.tabs.get(place.tab.tab_id, place.tab)
        for wish in self._wishes(replace(place, tab=tab), leaves=False):
            verdict = permissions.judge(self, wish)
            if verdict.decision == "no":
                raise CallError(verdict.code, verdict.rule, handed=False, then=verdict.then)

    async def follow(self, page: Page) -> bool:
        """Bind the rest of the call to the document that an action has led the tab to.

        Returns:
            False if it may not be looked at unasked: the call stays bound to the document that is gone.
        """
        bound, at = page.bound_document, (page.host, page.tab_id)
        if page.documents == page.judged[1]:
            return True
        await self.wait_announced({at: bound})
        place = tab_access.find_tab(self.around.registry, self.kept, self.session, page.tab_id)
        if any(permissions.judge(self, wish).decision != "yes" for wish in self._wishes(place, leaves=False)):
            return False
        self.page_of(place)
        return True

    async def wait_announced(self, left: Mapping[TabKey, BoundDocument]) -> bool:
        """Wait until the browsers have announced other documents than these, at most SEEN_S."""
        links = {browser.host: browser for browser in self.around.registry.links()}

        def is_announced() -> bool:
            return all(
                host not in links
                or (tab := links[host].tabs.get(tab_id)) is None
                or tab.document_id != document.id
                for (host, tab_id), document in left.items()
            )

        return await self.seen(is_announced)

    def _current(self, browser: Browser) -> int:
        tab = browser.tabs.get(self.kept.tab_id) if self.kept.tab_id is not None else None
        if tab is not None and tab.owner in (None, self.session.id):
            return tab.tab_id
        own = [tab for tab in browser.tabs.values() if tab.owner == self.session.id]
        if not own and self.around.policy.is_read_only:
            raise ToolError(
                "You have no tab, and policy.read_only is on: you cannot open one. Ask the user to hand a "
                "tab over in the extension's popup; tabs_context_mcp lists what there is."
            )
        if not own:
            yet = "yet" if self.kept.tab_id is None else "any more"
            raise ToolError(
                f"You have no tab {yet}. navigate with a url opens one, tabs_create_mcp an empty one; "
                "tabs_context_mcp lists what there is."
            )
        return max(own, key=lambda tab: tab.last_accessed).tab_id

    async def new_tab(self, url: str = "", *, browser: Browser | None = None) -> Place:
        """A tab of the session's own, in its group; its current one from now on."""
        browser = browser or self.browser()
        check_extension(browser)
        asked = wire.CreateTab(session=self.session.id, url=url, title=self.session.title)
        created = await self.ask_browser(browser, "createTab", asked, wire.CreatedTab)
        self.session.profiles.add(browser.profile)
        self.kept.tab_id = created.tab_id
        await self.seen(lambda: _is_own(browser, created.tab_id, self.session))
        return tab_access.find_tab(self.around.registry, self.kept, self.session, created.tab_id)

    async def seen(self, is_so: Callable[[], bool]) -> bool:
        """Wait until the browser has announced what makes it so, at most SEEN_S."""
        return await self.around.news.wait_until(is_so, until=trio.current_time() + SEEN_S)

    async def ask_browser(
        self, browser: Browser, method: str, params: wire.Wire, result: type[R], timeout_s: float = REQUEST_S
    ) -> R:
        """One of the extension's commands.

        Raises:
            CallError: it failed, in the browser's words.
        """
        tab_id = getattr(params, "tab_id", None)
        at = TabAddress(browser.host, tab_id)
        answer = await self.around.transport.request(at, method, params, timeout_s)
        return msgspec.json.decode(answer, type=result)

    # ── The person ──────────────────────────────────────────────────────────────────────────────────────────

    @property
    def can_ask(self) -> bool:
        """Whether the client can ask the person behind it."""
        return self.caller.on_question is not None

    async def ask(self, message: str, schema: dict[str, Any] | None = None) -> Any:
        """An MCP ElicitResult (`action`, `content`): what the person says to a question of ours.

        Raises:
            ToolError: the client cannot ask, or nobody answered within QUESTION_S.
        """
        if self.caller.on_question is None:
            raise ToolError(
                "This client cannot ask the user. Nothing was done: ask them in the conversation."
            )
        raw = msgspec.Raw(msgspec.json.encode(schema)) if schema else UNSET
        question = wire.ElicitConfirmation(message=message, requested_schema=raw)
        try:
            with self.unhurried(), trio.fail_after(QUESTION_S):
                return msgspec.json.decode(await self.caller.on_question(question))
        except trio.TooSlowError:
            text = f"The user was asked and did not answer within {QUESTION_S:g} s. Nothing was done."
            raise ToolError(text) from None
        except CallError as error:
            raise ToolError(f"The user could not be asked: {error.detail}. Nothing was done.") from None

    async def prompt(
        self, text: str, choices: tuple[str, ...], origin: str, kind: Kind, host: str = ""
    ) -> str:
        """Ask the user to approve something, where `browser.ask_in` says, and return the choice.

        Raises:
            CallError: there is no choice; return it to the client.
        """
        caller = replace(self.caller, on_progress=self.progress.remark)
        request = PromptRequest(self.session, origin, kind, text, choices, caller, host)
        with self.unhurried():
            return await self.around.prompts.ask(request)

    @property
    def can_sample(self) -> bool:
        """Whether the client lets its model be asked, and the person allows it."""
        return self.caller.on_prompt is not None and self.around.settings.find_with_model

    async def sample(self, messages: Sequence[str], system: str, max_tokens: int) -> str | None:
        """What the client's model says to the user's messages; None: nothing, or not within SAMPLE_S."""
        if self.caller.on_prompt is None or not self.can_sample:
            return None
        prompt = Prompt(tuple(messages), system, max_tokens)
        try:
            with self.unhurried(), trio.move_on_after(SAMPLE_S):
                return (await self.caller.on_prompt(prompt)).decode()
        except CallError as error:
            _log.info("the client's model was not asked: %s", error.detail)
        return None

    async def roots(self) -> list[str]:
        """URIs of the folders that the client says it works in; it is asked once in a call.

        Empty where it has none, tells none within ROOTS_S, or is elsewhere: then they mean nothing here.
        """
        if not self.told_roots:
            self.told_roots.append(await self._ask_roots())
        return self.told_roots[0]

    async def _ask_roots(self) -> list[str]:
        if self.caller.on_roots is None or not self.session.is_local:
            return []
        try:
            with self.unhurried(), trio.move_on_after(ROOTS_S):
                return await self.caller.on_roots()
        except CallError as error:
            _log.info("the client's roots are not known: %s", error.detail)
        return []

    def report(self, progress: float, total: float | None = None, message: str = "") -> None:
        """How far a call is that takes long."""
        if self.caller.on_progress:
            self.progress.report(wire.Progress(progress=progress, total=total, message=message))

    # ── Time ────────────────────────────────────────────────────────────────────────────────────────────────

    @contextmanager
    def limited(self, limit_s: float) -> Iterator[trio.CancelScope]:
        """At most so long, without the time in which a person is asked."""
        with trio.move_on_after(limit_s) as scope:
            self.limits.append(scope)
            try:
                yield scope
            finally:
                self.limits.remove(scope)

    @contextmanager
    def unhurried(self) -> Iterator[None]:
        """Time stands still for this call."""
        began = trio.current_time()
        left = [(scope, scope.deadline - began) for scope in self.limits]
        for scope in self.limits:
            scope.deadline = math.inf
        try:
            yield
        finally:
            for scope, left_s in left:
                scope.deadline = trio.current_time() + left_s

    # ── Others ──────────────────────────────────────────────────────────────────────────────────────────────

    async def call_tool(self, name: str, arguments: dict[str, Any], *, step: int = 0) -> Answer:
        """Another of our tools, within this call. Raises as that tool does.

        With `step`, its number within the call's batch, it has an entry of its own in the audit log.
        """
        answer: Answer = await self.around.call_tool(self, name, arguments, step)
        return answer


def supports_devtools(browser: Browser) -> bool:
    """Return whether the extension passes DevTools commands on, which Firefox has none of."""
    return browser.hello is None or "forwardCDPCommand" in browser.hello.capabilities.commands


def check_extension(browser: Browser) -> None:
    """Check that the extension binds commands to documents.

    Raises:
        ToolError: it is older than this bridge; the user has to update it.
    """
    if browser.hello is not None and "documentId" not in browser.hello.capabilities.commands:
        version = browser.hello.extension.version
        raise ToolError(
            f"The mcpb extension in {tab_access.called(browser)} ({version}) is too old: it does not bind "
            "commands to documents (documentId). Nothing was done. Ask the user to run `mcpb extension` and "
            "to reload it on the browser's page of extensions."
        )


def _is_own(browser: Browser, tab_id: int, session: Session) -> bool:
    tab = browser.tabs.get(tab_id)
    return tab is not None and tab.owner == session.id
