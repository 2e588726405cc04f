"""From a public name and arguments to the page's answer; and the lists of what may be called."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec
import trio

from bridge.errors import CallError, UnknownToolError, failed, sentence
from bridge.hub import toolbox
from bridge.hub.admission import Admission
from bridge.hub.arguments import Arguments
from bridge.hub.caching import NothingKept, ToolStore
from bridge.hub.catalog import Catalog
from bridge.hub.describing import cleaned
from bridge.hub.entry import CachedEntry, Entry, LiveEntry
from bridge.hub.listing import Listing
from bridge.hub.naming import MAX_NAME
from bridge.hub.news import News
from bridge.hub.opening import TabOpener
from bridge.hub.pace import CallPace
from bridge.hub.policy import Policy
from bridge.hub.records import Keep, Recording
from bridge.hub.registrations import Registrations
from bridge.hub.registry import GRACE_S, Registry
from bridge.hub.sessions import Identity, Session
from bridge.hub.tool_shape import Era
from bridge.hub.transport import NOBODY, Caller, Event, OnQuestion, Pending, TabAddress, TabTransport
from native_host import wire
from native_host.wire import Code

CALL_S = 10.0
SETTLE_S = 1.0
"""So long a client waits for browsers that were found but have not said everything yet."""
CHANGES_APART_S = 0.5
"""The first change of the tool list is told at once, later ones are joined."""
STORE_LOOK_S = 2.0
"""Between two looks at what other bridges have kept or somebody has forgotten."""
ATTEMPTS = 3
"""How often a call that names no tab, and did not run, is tried: pages go while they are called."""
_MAX_PAGE_TEXT = 64 * 1024
_MAX_QUESTION = 1000

_log = logging.getLogger(__name__)


Outcome = bytes | UnknownToolError
"""A CallToolResult as JSON, failures included; or nobody offers that name, and this session was never shown
it."""


@dataclass(frozen=True)
class Terms:
    """What a person may set. See docs/CONFIGURATION.md."""

    call_s: float = CALL_S
    max_name: int = MAX_NAME
    max_listed: int = 0
    """More tools than that are not listed one by one; 0: no limit."""
    policy: Policy = field(default_factory=Policy)
    pace: CallPace = field(default_factory=CallPace)


@dataclass
class _Call:
    """A call on its way."""

    session: Session
    name: str
    arguments: Arguments
    caller: Caller
    recording: Recording
    missed: set[Identity] = field(default_factory=set)
    """The tools that were not there when they were called."""
    profile: str | None = None
    """Where it was tried first: another profile is another account."""

    def meets(self, entry: Entry) -> None:
        self.recording.site, self.recording.own_name = entry.site, entry.own_name
        self.profile = entry.site.profile


class _Task:
    """A call that somebody began."""

    def __init__(
        self,
        router: Router,
        session: Session,
        name: str,
        arguments: Arguments,
        on_done: Callable[[Outcome], None],
        caller: Caller,
    ) -> None:
        self._call = partial(router.call, session, name, arguments, caller)
        self._on_done = on_done
        self._scope = trio.CancelScope()

    def cancel(self) -> None:
        self._scope.cancel()

    async def run(self) -> None:
        with self._scope:
            outcome: Outcome
            try:
                outcome = await self._call()
            except UnknownToolError as error:
                outcome = error
        if not self._scope.cancel_called:
            self._on_done(outcome)


class Router:
    """Lists and calls tools for sessions, over a transport."""

    def __init__(
        self,
        transport: TabTransport,
        whats_missing: Callable[[Registry], str] = lambda _: "",
        *,
        terms: Terms | None = None,
        store: ToolStore | None = None,
        keep: Keep = lambda _: None,
    ) -> None:
        self._terms = terms or Terms()
        self._store = store or NothingKept()
        self.registry = Registry()
        self.catalog = Catalog(self.registry, self._terms.max_name, self._terms.policy, self._store)
        self._listing = Listing(self.catalog, self._terms.max_listed)
        self._admission = Admission(self._terms.pace)
        self._transport = transport
        self._whats_missing = whats_missing
        self._registrations = Registrations(self.registry, self._terms.policy, self._store, keep)
        self._keep = keep
        self.news = News()
        self._nursery: trio.Nursery | None = None
        self.tabs = TabOpener(self.registry, self.catalog, transport, self.news)
        transport.listen(self._hear)

    def whats_missing(self) -> str:
        """Which link of the chain to a page's tool is missing, and the command that mends it; or nothing."""
        documents = self.catalog.documents()
        if any(document.allowed for document in documents):
            return ""
        if documents:
            refusal = next(self.catalog.live()).refusal
            return f"Pages offer tools, but config.toml does not allow them: {refusal}."
        return self._whats_missing(self.registry)

    async def run(self) -> None:
        """Forget browsers that stay away, hear of what others keep, and wait for what calls need. Runs until
        cancelled."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            try:
                await self._keep_up()
            finally:
                self._nursery = None

    async def _keep_up(self) -> None:
        look_at = trio.current_time()
        while True:
            with trio.move_on_at(min(look_at, self.registry.next_expiry())):
                await self.news.wait()
                continue
            if trio.current_time() >= look_at:
                self._look_into_store()
                look_at = trio.current_time() + STORE_LOOK_S
            if trio.current_time() >= self.registry.next_expiry():
                self._forget_the_lost()

    async def tell_changes(self, tell: Callable[[], Awaitable[None]]) -> None:
        """Call `tell` whenever the list of tools has changed. Runs until cancelled."""
        told, version = self._listing.told(), self.catalog.version
        while True:
            while self.catalog.version == version:
                await self.news.wait()
            listed, version = self._listing.told(), self.catalog.version
            if listed != told:
                told = listed
                await tell()
            await trio.sleep(CHANGES_APART_S)

    async def settle(self) -> None:
        """Wait, at most SETTLE_S, until every host that lives now has said everything it knows."""
        self._transport.look()
        self._look_into_store()
        await self.news.wait_until(lambda: self.registry.is_settled, until=trio.current_time() + SETTLE_S)

    # ── Lists ───────────────────────────────────────────────────────────────────────────────────────────────

    async def tools(self, session: Session) -> list[dict[str, Any]]:
        """What `listing` has for the newest clients, as Python values: for who is no client."""
        tools: list[dict[str, Any]] = msgspec.json.decode(await self.listing(session, Era.STATELESS))
        return tools

    async def listing(self, session: Session, era: Era) -> bytes:
        """The MCP Tools that this session may call, as a JSON array in one line.

        Our own, then the pages' unless they are too many; those that are no tools in `era` are left out. From
        now on the names mean these tools to the session.
        """
        await self.settle()
        session.show(self._listing.meanings())
        return self._listing.written(era)

    async def _list_page_tools(self, session: Session, arguments: Arguments) -> bytes:
        asked = toolbox.read_arguments(toolbox.ListPageTools, arguments.value)
        await self.settle()
        notices = [toolbox.notice(frame) for _, _, frame in self.registry.frames()]
        entries = self.catalog.entries()
        if entries:
            notices.append(self.whats_missing())  # what is kept needs a browser as well
        session.show(self.catalog.meanings())
        return toolbox.page_tools(entries, asked, notices, self.whats_missing)

    # ── Calls ───────────────────────────────────────────────────────────────────────────────────────────────

    def begin(
        self,
        session: Session,
        name: str,
        arguments: Arguments,
        on_done: Callable[[Outcome], None],
        caller: Caller = NOBODY,
    ) -> Pending:
        """Run a tool, while `run` does, without waiting for it: see `call`. Cancelling tells the page."""
        if self._nursery is None:
            raise RuntimeError("the router does not run")
        task = _Task(self, session, name, arguments, on_done, caller)
        self._nursery.start_soon(task.run)
        return task

    async def call(self, session: Session, name: str, arguments: Arguments, caller: Caller = NOBODY) -> bytes:
        """Run a tool; a CallToolResult as JSON. What fails is such a result too.

        Raises:
            UnknownToolError: nobody offers that name, and this session was never shown it.
        """
        try:
            match name:
                case toolbox.LIST_PAGE_TOOLS:
                    return await self._list_page_tools(session, arguments)
                case toolbox.CALL_PAGE_TOOL:
                    return await self._call_page_tool(session, arguments, caller)
                case _:
                    return await self._call_page(session, name, arguments, caller)
        except CallError as error:
            _log.debug("%s: %s", name, error)
            return failed(self._told(error))

    def _told(self, error: CallError) -> str:
        """A tool that is gone may be gone because a whole link of the chain is."""
        missing = self.whats_missing() if error.code == Code.NO_LONGER_OFFERED else ""
        return f"{sentence(error)} {missing}".rstrip()

    async def _call_page_tool(self, session: Session, arguments: Arguments, caller: Caller) -> bytes:
        asked = toolbox.read_arguments(toolbox.CallPageTool, arguments.value)
        try:
            return await self._call_page(session, asked.name, Arguments.of(asked.arguments), caller)
        except UnknownToolError:
            detail = f"no page offers {asked.name!r}; list_page_tools has the names"
            raise CallError(Code.INVALID_PARAMS, detail, handed=False) from None

    async def _call_page(self, session: Session, name: str, arguments: Arguments, caller: Caller) -> bytes:
        """One call, recorded whatever comes of it."""
        recording = Recording(session, name, arguments.value, trio.current_time())
        call = _Call(session, name, arguments, caller, recording)
        outcome: bytes | BaseException = b""
        try:
            outcome = await self._run(call)
        except BaseException as error:
            outcome = error
            raise
        finally:
            self._keep(recording.ended(outcome, trio.current_time()))
        return outcome

    async def _run(self, call: _Call) -> bytes:
        self._admission.count(call.session, trio.current_time())
        refused: CallError | None = None
        for left in reversed(range(ATTEMPTS)):
            try:
                entry = await self._reach(call)
            except UnknownToolError:
                raise refused or UnknownToolError(call.name) from None
            names_a_tab = self.catalog.names_a_tab(call.session, call.name)
            try:
                return await self._execute(call, entry)
            except CallError as error:
                if left == 0 or names_a_tab or not _may_go_elsewhere(error, entry):
                    raise
                refused = error
                call.missed.add(entry.meaning.identity)
        raise AssertionError("the last attempt returns or raises")

    async def _reach(self, call: _Call) -> LiveEntry:
        """The tool in the tab that is to run it; a call that may not be made goes no further."""
        entry = await self._find_live(call)
        call.meets(entry)
        self._admission.admit(call.session, entry, call.arguments.value, self.registry.browsers())
        if isinstance(entry, CachedEntry):
            if self.registry.live_browser(entry.site.profile) is None:
                await self.settle()  # it may have been started just now
            entry = await self.tabs.open(call.session, entry)
            call.meets(entry)
            self._admission.admit(call.session, entry, call.arguments.value, self.registry.browsers())
        assert isinstance(entry, LiveEntry), "a tool is in a tab or without one"
        return entry

    async def _execute(self, call: _Call, entry: LiveEntry) -> bytes:
        offer = entry.offer
        params = wire.ExecuteTool(
            session=call.session.id,
            tab_id=offer.frame.tab_id,
            frame_id=offer.frame.frame_id,
            document_id=offer.frame.document_id,
            tool_name=offer.tool.name,
            args=msgspec.Raw(call.arguments.raw),
            wants_progress=call.caller.on_progress is not None,
        )
        tab = TabAddress(offer.browser.host, offer.tab.tab_id)
        caller = Caller(call.caller.on_progress, _marked(call.caller.on_question, entry.origin))
        _log.debug("%s goes to tab %d of host %s", call.name, offer.tab.tab_id, tab.host)
        answer = await self._transport.request(tab, "browser/executeTool", params, self._terms.call_s, caller)
        return _executed(answer)

    async def _find_live(self, call: _Call) -> Entry:
        """The tool behind the name; when its host has vanished, as soon as its page is back."""
        try:
            entry = self._find(call)
        except UnknownToolError:
            await self.settle()
            entry = self._find(call)
        lost_at = _lost_at(entry)
        if lost_at is None:
            return entry
        is_back = await self.news.wait_until(lambda: self._is_live(call), until=lost_at + GRACE_S)
        if is_back:
            return self._find(call)
        if self.registry.live_browser(entry.site.profile) is None:
            raise CallError(Code.GONE, "its browser has not come back", handed=False)
        self._forget_the_lost()
        try:
            entry = self._find(call)  # what is kept, if it is
        except UnknownToolError:
            raise CallError(Code.NO_LONGER_OFFERED, call.name, handed=False) from None
        if _lost_at(entry) is not None:
            raise CallError(Code.NO_LONGER_OFFERED, call.name, handed=False)
        return entry

    def _find(self, call: _Call) -> Entry:
        return self.catalog.find(call.session, call.name, call.missed, call.profile)

    def _is_live(self, call: _Call) -> bool:
        try:
            return _lost_at(self._find(call)) is None
        except (CallError, UnknownToolError):
            return False  # a restarted browser may be back before its page is

    # ── News ────────────────────────────────────────────────────────────────────────────────────────────────

    def _hear(self, event: Event) -> None:
        if self._registrations.hear(event, trio.current_time()):
            self.catalog.store_changed()
        self.news.tell()

    def _forget_the_lost(self) -> None:
        self.registry.expire(trio.current_time())
        self.news.tell()

    def _look_into_store(self) -> None:
        if self._store.refresh():
            self.catalog.store_changed()
            self.news.tell()


def _lost_at(entry: Entry) -> float | None:
    return entry.offer.lost_at if isinstance(entry, LiveEntry) else None


def _may_go_elsewhere(error: CallError, entry: LiveEntry) -> bool:
    """Whether a call may be made once more: not if it may have run, unless running it twice is harmless."""
    if error.code not in (Code.NO_SUCH_TAB, Code.GONE, Code.NAVIGATED, Code.NO_LONGER_OFFERED):
        return False
    return not error.handed or entry.tool.is_repeatable


def _marked(on_question: OnQuestion | None, origin: str) -> OnQuestion | None:
    """A page's question, under the page's name: a person must see who asks."""
    if on_question is None:
        return None
    ask = on_question

    async def ask_marked(question: wire.ElicitConfirmation) -> bytes:
        message = f"{origin} asks: {cleaned(question.message, _MAX_QUESTION)}"
        return await ask(msgspec.structs.replace(question, message=message))

    return ask_marked


def _executed(answer: bytes) -> bytes:
    try:
        executed = msgspec.json.decode(answer, type=wire.Executed)
    except msgspec.DecodeError:
        raise CallError(Code.INTERNAL_ERROR, "the extension's answer cannot be read", handed=True) from None
    if executed.success:
        return bytes(executed.payload)
    try:
        text = msgspec.json.decode(executed.payload, type=str)
    except msgspec.DecodeError:
        text = bytes(executed.payload).decode()
    return failed(text[:_MAX_PAGE_TEXT] or "The page's tool failed and did not say why.")
