"""Router: lists and calls page tools, meta tools and provided tools for sessions."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Literal, get_args

import msgspec
import trio

from bridge.errors import (
    CallError,
    NotOfferedError,
    ReportedError,
    UnknownToolError,
    format_error,
    format_request_error,
    make_failure_result,
)
from bridge.hub import meta_tools
from bridge.hub.access.tab_opener import TabOpener
from bridge.hub.access.tool_access import ToolAccess
from bridge.hub.admission import Admission
from bridge.hub.argument_validation import NOTHING, Arguments
from bridge.hub.audit_records import AuditSink, CallKind, CallRecord
from bridge.hub.cached_tools import NoToolStore, ToolStore
from bridge.hub.catalog import Catalog
from bridge.hub.catalog_entries import Entry
from bridge.hub.change_signal import ChangeSignal
from bridge.hub.client_session import ListForm, Session
from bridge.hub.consent.approval_prompts import ApprovalPrompts, AskIn
from bridge.hub.consent.doubt_prompts import DoubtPrompts
from bridge.hub.consent.page_request_consent import PageRequestConsent
from bridge.hub.consent.page_tool_consent import (
    ApprovalWord,
    OriginApprovals,
    PageToolConsent,
    SessionApprovals,
)
from bridge.hub.consent.page_tool_settings import PageSettings, Primitive
from bridge.hub.consent.user_prompts import UserPrompts
from bridge.hub.operation import FINISHED, OnFinished, Operation, wait_outcome
from bridge.hub.page_call import CallServices, Outcome, PageCall, PageResult
from bridge.hub.policy import Policy
from bridge.hub.primitives.document_access import DocumentAccess
from bridge.hub.primitives.embedded_resource import embed_contents
from bridge.hub.primitives.offered_entries import offered_prompts, offered_resources
from bridge.hub.primitives.own_resource import OwnResource, OwnWatch, format_resource, format_template
from bridge.hub.primitives.page_contents import MAX_RESOURCE_BYTES, check_size
from bridge.hub.primitives.page_documents import PageDocument, PageDocuments
from bridge.hub.primitives.page_log import PageLog
from bridge.hub.primitives.page_read import CompletionTarget, PageReads, check_argument_size
from bridge.hub.primitives.page_requests import PageRequests
from bridge.hub.primitives.pagination import OWN_RANK, Key
from bridge.hub.primitives.prompt_catalog import PromptCatalog
from bridge.hub.primitives.recent_calls import RecentCalls
from bridge.hub.primitives.resource_catalog import ResourceCatalog
from bridge.hub.primitives.resource_subscriptions import (
    MAX_SUBSCRIPTIONS,
    ResourceSubscriptions,
    Subscription,
)
from bridge.hub.providers import Provider, ProviderCall, Providers, Run
from bridge.hub.public_names import MAX_NAME, ProfileMarks
from bridge.hub.registrations import RegistrationListener
from bridge.hub.registry import Registry
from bridge.hub.rules.root_sites import NO_ROOTS, ROOTS_S, RootSites, read_roots
from bridge.hub.tool_list import Listing
from bridge.hub.tool_result import Answer, ResultCheck
from bridge.hub.tool_schema import Era
from bridge.hub.transport import NO_OBSERVER, CallObserver, Event, HostAnnouncement, TabTransport
from native_host.protocol import wire
from native_host.protocol.rate_limit import RateLimiter
from native_host.protocol.wire import Code

CALL_S = 10.0
SETTLE_S = 1.0
"""Seconds that a client waits for browsers that were discovered and have not sent their replay."""
CHANGES_APART_S = 0.5
"""Seconds between notifications of changes: the first is sent at once, later ones are combined."""
STORE_LOOK_S = 2.0
"""Seconds between reads of the shared tool cache."""

_log = logging.getLogger(__name__)


class Terms(msgspec.Struct, frozen=True):
    """Settings of the router. See docs/CONFIGURATION.md."""

    call_s: float = CALL_S
    max_name: int = MAX_NAME
    max_resource_bytes: int = MAX_RESOURCE_BYTES
    """Bytes of a resource of a page; a larger one is rejected."""
    max_listed: int = 0
    """More tools than that are not listed one by one; 0: no limit."""
    policy: Policy = msgspec.field(default_factory=Policy)
    pages: PageSettings = msgspec.field(default_factory=PageSettings)
    asks_sites: bool = False
    """True if the user is prompted before a client first uses a site (`browser.sites`)."""
    rate_limiter: RateLimiter = msgspec.field(default_factory=RateLimiter)
    ask_in: AskIn = "extension"
    ranks_roots: bool = False
    """True if lists begin with the sites of the client's roots (`browser.roots`)."""
    closing: wire.Closing = "unused"
    """Tabs of a session that are closed at its end (`browser.close_tabs`)."""


ListKind = Literal["tools", "resources", "prompts"]
"""A list of MCP whose changes clients are notified of. Resource templates belong to the resources."""
TellChange = Callable[[ListKind], Awaitable[None]]


class _Notifier(msgspec.Struct, eq=False):
    """What a client knows of a list."""

    kind: ListKind
    session: Session | None
    notified: object
    """Fingerprint of the list that the client was last notified of."""
    is_outdated: bool = False
    """True if a client may have read another list since, which counts also if the list is as before again."""


class Router:
    """Lists and calls tools for sessions, over a transport."""

    def __init__(
        self,
        transport: TabTransport,
        whats_missing: Callable[[Registry], str] = lambda _: "",
        *,
        terms: Terms | None = None,
        store: ToolStore | None = None,
        keep: AuditSink = lambda _: None,
        prompts: UserPrompts | None = None,
        approvals: Callable[[ApprovalWord], OriginApprovals] = lambda _: SessionApprovals(),
        profiles: ProfileMarks | None = None,
    ) -> None:
        """Ask the user about page tools through `prompts`, else where `terms.ask_in` says."""
        self._terms = terms or Terms()
        self._store = store or NoToolStore()
        self.registry = Registry()
        self.profiles = profiles or ProfileMarks()
        self.catalog = Catalog(
            self.registry, self._terms.max_name, self._terms.policy, self._store, self.profiles
        )
        self.consent = PageToolConsent(
            self.registry,
            self._store,
            approvals("page-tools"),
            self._terms.pages,
            asks_sites=self._terms.asks_sites,
        )
        self._listing = Listing(self.catalog, self._terms.max_listed, consent=self.consent)
        self._providers = Providers()
        self._transport = transport
        self._whats_missing = whats_missing
        self._registrations = RegistrationListener(self.registry, self._terms.policy, self._store, keep)
        self.changes = ChangeSignal()
        self.prompts = ApprovalPrompts(self.registry, transport, self.changes, self._terms.ask_in)
        self._doubts = DoubtPrompts(prompts or self.prompts, self.consent, self.changes)
        self._nursery: trio.Nursery | None = None
        self._begun: list[Callable[[], Awaitable[None]]] = []
        """Coroutines that `run` starts."""
        self._has_ended = False
        """`run` has: nothing is waited for any more."""
        self.recent_calls = RecentCalls()
        keep_call = self.recent_calls.keep_beside(keep)
        self.request_consent = PageRequestConsent(
            {"sampling": approvals("sampling"), "roots": approvals("roots")},
            prompts or self.prompts,
            self._terms.pages,
            trio.current_time,
        )
        self.page_requests = PageRequests(
            self.request_consent, self._terms.policy, self.registry, keep_call, trio.current_time
        )
        self.page_log = PageLog(self.registry, self._terms.policy, self.consent)
        self._services = CallServices(
            self.registry,
            self.catalog,
            Admission(self._terms.rate_limiter),
            transport,
            self.prompts,
            call_s=self._terms.call_s,
            now=trio.current_time,
            consent=self.consent,
            results=ResultCheck(self._terms.policy),
            keep=keep_call,
            page_requests=self.page_requests,
            page_log=self.page_log,
            told=self._explain_failure,
            wait=self._wait_for,
        )
        self.tabs = TabOpener(self.registry, self.catalog, transport, self.changes)
        self.tabs.closing = self._terms.closing
        self._tool_access = ToolAccess(
            self.registry,
            self._doubts,
            self.changes,
            self.tabs,
            self._providers,
            self.wait_discovered,
            self._expire_lost,
        )
        self.documents = PageDocuments(self.registry, self._terms.policy, self.profiles)
        access = DocumentAccess(
            self.registry,
            self.consent,
            self._doubts,
            self.changes,
            self._terms.policy,
            self.documents,
            self.wait_discovered,
        )
        self.resource_catalog = ResourceCatalog(self.documents)
        self.prompt_catalog = PromptCatalog(self.documents, self._terms.max_name)
        self._reads = PageReads(
            self.resource_catalog,
            access,
            transport,
            self.page_requests,
            self.page_log,
            call_s=lambda: self._terms.call_s,
            max_bytes=lambda: self._terms.max_resource_bytes,
        )
        self.subscriptions = ResourceSubscriptions(
            self.resource_catalog,
            access,
            transport,
            call_s=lambda: self._terms.call_s,
            version=lambda: (self._version_of_access, self.registry.pauses),
            wake=self.changes.notify,
            watch_own=self._watch_own,
        )
        self._notifiers: list[_Notifier] = []
        self._own_prompts: tuple[tuple[str, ...], tuple[bytes, ...]] = (), ()
        """Sorted names and entries of the prompts that no page offers."""
        transport.set_listener(self._on_event)

    def set_provider(self, provider: Provider) -> None:
        """Offer these tools too, from the beginning, in the form of list that this provider chooses."""
        self._providers.set_main(provider)
        self._rebuild_list()

    def add_provider(self, provider: Provider) -> None:
        """Offer what another provider has, too; it wakes `changes` when that changes."""
        self._providers.add(provider)
        self._rebuild_list()

    def set_terms(self, terms: Terms) -> None:
        """Apply other terms to running sessions. Names keep their length, calls their timeout.

        Policy and pace are shared objects, so `terms` must have the ones that the router was made with.
        """
        self._terms = terms
        self._services = msgspec.structs.replace(self._services, call_s=terms.call_s)
        self.prompts.ask_in = terms.ask_in
        self.tabs.closing = terms.closing
        self._rebuild_list()
        for call in list(self._services.running):
            if isinstance(call, PageCall):
                call.recheck_policy()
        self.changes.notify()

    @property
    def max_resource_bytes(self) -> int:
        """Bytes of a resource that may be read."""
        return self._terms.max_resource_bytes

    def set_max_name(self, max_name: int) -> None:
        """Shorten names to what the client of this router takes, before it is shown any."""
        self.catalog.set_max_name(max_name)
        self.prompt_catalog.max_name = max_name
        self.changes.notify()

    def _rebuild_list(self) -> None:
        self._listing = Listing(self.catalog, self._terms.max_listed, self._providers, self.consent)

    async def release(self, session: Session) -> None:
        """End a session: release or close its tabs, and discard its state."""
        self.subscriptions.release(session)
        self._providers.release(session)
        self._doubts.release(session)
        try:
            await self.tabs.release(session)
        finally:
            self.recent_calls.release(session)
            self.page_log.release(session)

    def count_browser_tools(self) -> int:
        """Return the number of tools that no page offers and the policy allows."""
        return len(self._providers.definitions(Era.STATELESS, ListForm()))

    def connection_problem(self) -> str:
        """Return the missing connection with the command that repairs it, or an empty text."""
        documents = self.catalog.documents()
        if any(document.allowed_entries for document in documents):
            return ""
        if documents:
            refusal = next(self.catalog.live_entries()).refusal
            return f"Pages offer tools, but config.toml does not allow them: {refusal}."
        return self._whats_missing(self.registry)

    async def run(self) -> None:
        """Expire lost browsers, read the shared cache, and wait on behalf of calls. Runs until cancelled."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            for wait in self._begun:
                nursery.start_soon(wait)
            self._begun.clear()
            try:
                await self._watch_changes()
            finally:
                self._nursery, self._has_ended = None, True

    async def _watch_changes(self) -> None:
        look_at = trio.current_time()
        while True:
            self.subscriptions.refresh()
            with trio.move_on_at(min(look_at, self.registry.next_expiry(), self.subscriptions.next_look)):
                await self.changes.wait()
                continue
            if trio.current_time() >= look_at:
                self._refresh_store()
                self._refresh_own_prompts()
                look_at = trio.current_time() + STORE_LOOK_S
            if trio.current_time() >= self.registry.next_expiry():
                self._expire_lost()

    async def notify_changes(
        self,
        tell: TellChange,
        session: Session | None = None,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Call `tell` whenever a list of a session has changed since this started. Runs until cancelled."""
        version = self._version_of_lists(session)
        notifiers = [
            _Notifier(kind, session, self._fingerprint(kind, session)) for kind in get_args(ListKind)
        ]
        self._notifiers += notifiers
        try:
            task_status.started()
            while True:
                while self._version_of_lists(session) == version:
                    await self.changes.wait()
                version = self._version_of_lists(session)
                for notifier in notifiers:
                    listed = self._fingerprint(notifier.kind, session)
                    if listed != notifier.notified or notifier.is_outdated:
                        notifier.notified, notifier.is_outdated = listed, False
                        await tell(notifier.kind)
                await trio.sleep(CHANGES_APART_S)
        finally:
            for notifier in notifiers:
                self._notifiers.remove(notifier)

    def _version_of_lists(self, session: Session | None) -> object:
        own = self._providers.fingerprint(session) if session else None
        listing = self._listing, self._listing.version
        return listing, self.catalog.version, self.consent.version, self._own_prompts, own

    def _fingerprint(self, kind: ListKind, session: Session | None) -> object:
        if kind == "tools":
            return self._listing.fingerprint()
        if kind == "prompts":
            return self._own_prompts, self.prompt_catalog.fingerprint(self._listed_documents("prompts"))
        own = self._providers.fingerprint(session) if session else None
        return own, self.resource_catalog.fingerprint(self._listed_documents("resources"))

    def _note_read(self, kind: ListKind) -> None:
        """Note that a client has read a list, which may be another one than that of the last notification."""
        for notifier in self._notifiers:
            if notifier.kind == kind:
                notifier.is_outdated |= self._fingerprint(kind, notifier.session) != notifier.notified

    @property
    def _version_of_access(self) -> object:
        """Changes with what sessions may use of pages, apart from pauses."""
        return self.documents.version, self.registry.version_of_tabs, self.consent.version

    async def wait_discovered(self) -> None:
        """Wait, at most SETTLE_S, until every host that lives now has said everything it knows."""
        self._transport.scan_hosts()
        self._refresh_store()
        await self.changes.wait_until(lambda: self.registry.is_settled, until=trio.current_time() + SETTLE_S)

    async def _wait_lists(self, name: str = "") -> None:
        """Wait a short time until the lists of browsers and providers are known; see `Provider`."""
        await self.wait_discovered()
        await self._providers.wait_listed(name)

    # ── Lists ───────────────────────────────────────────────────────────────────────────────────────────────

    async def list_tools_decoded(self, session: Session, name: str = "") -> list[dict[str, Any]]:
        """Return the tool list of the latest era as Python values, for commands and pages."""
        tools: list[dict[str, Any]] = msgspec.json.decode(await self.list_tools(session, Era.STATELESS, name))
        return tools

    async def list_tools(self, session: Session, era: Era, name: str = "") -> bytes:
        """Return the MCP Tools that this session may call, as a JSON array in one line.

        Meta tools and provided tools come first, then page tools unless there are too many. Definitions that
        are invalid in `era` are omitted. From now on the session binds the names to these tools. With the
        name of one tool, others may not be listed yet.
        """
        await self._wait_lists(name)
        session.bind_names(self._listing.listed_bindings())
        self._note_read("tools")
        return self._listing.format_tools(era, self._providers.form_of(session))

    def input_schema(self, session: Session, name: str) -> bytes:
        """Return the schema of a tool's arguments (JSON); empty if the name is unknown."""
        try:
            return self.catalog.find_entry(session, name).input_schema
        except (CallError, UnknownToolError):
            return b""

    async def list_resources(self, session: Session) -> tuple[Sequence[Key], Sequence[bytes]]:
        """Return the sorted keys of all resources of a session, and each as an MCP Resource (JSON)."""
        await self._wait_lists()
        self._note_read("resources")
        own = _sort_own(self._providers.resources(session))
        keys, entries = self.resource_catalog.list_entries("uri", self._listed_documents("resources"))
        return [*own, *keys], [*map(format_resource, own.values()), *entries]

    async def list_templates(self) -> tuple[Sequence[Key], Sequence[bytes]]:
        """Return the keys of all resource templates, and each as an MCP ResourceTemplate (JSON)."""
        await self._wait_lists()
        self._note_read("resources")
        own = _sort_own(self._providers.templates())
        keys, entries = self.resource_catalog.list_entries("uriTemplate", self._listed_documents("resources"))
        return [*own, *keys], [*map(format_template, own.values()), *entries]

    async def list_prompts(self) -> tuple[Sequence[Key], Sequence[bytes]]:
        """Return the sorted keys of all prompts, and each as an MCP Prompt (JSON)."""
        await self._wait_lists()
        self._refresh_own_prompts()
        self._note_read("prompts")
        names, own = self._own_prompts
        keys, entries = self.prompt_catalog.list_entries(self._listed_documents("prompts"), names)
        return [*(Key(OWN_RANK, name) for name in names), *keys], [*own, *entries]

    def _own_names(self) -> tuple[str, ...]:
        """Return the names of the prompts that no page offers."""
        return tuple(sorted(self._providers.prompts()))

    def _refresh_own_prompts(self) -> None:
        """Look whether the prompts that no page offers have changed."""
        prompts = self._providers.prompts()
        names = sorted(prompts)
        found = tuple(names), tuple(prompts[name] for name in names)
        if found != self._own_prompts:
            self._own_prompts = found
            self.changes.notify()

    def find_unlisted(self, what: Primitive) -> PageDocument | None:
        """Return a document whose resources, or prompts, stand in no list; None: no such document."""
        listed = self._listed_documents(what)
        offering = (document for document in self.documents.documents() if document.offers(what))
        return next((document for document in offering if document not in listed), None)

    def is_own_resource(self, session: Session, uri: str) -> bool:
        """Return whether a URI is that of a resource that no page offers; it may be gone."""
        return self._providers.find_resource(session, uri) is not None

    def _listed_documents(self, what: Primitive) -> list[PageDocument]:
        if not self.consent.uses(what):
            return []
        return [
            document
            for document in self.documents.documents()
            if not document.refusal and self.consent.is_listed(document)
        ]

    # ── Calls ───────────────────────────────────────────────────────────────────────────────────────────────

    def begin(
        self,
        session: Session,
        name: str,
        arguments: Arguments,
        on_finished: OnFinished[Outcome],
        observer: CallObserver = NO_OBSERVER,
    ) -> Operation:
        """Run a tool without waiting for it. Cancelling tells the page.

        `on_finished` gets the outcome once, possibly before this returns. `run` waits for tabs and browsers.
        """
        match name:
            case meta_tools.LIST_PAGE_TOOLS:
                run = self._list_page_tools
                return self._begin_provided(run, session, name, arguments, on_finished, observer)
            case meta_tools.READ_RESOURCE:
                run = self._read_embedded
                return self._begin_provided(run, session, name, arguments, on_finished, observer)
            case meta_tools.CALL_PAGE_TOOL:
                return self._begin_by_name(session, arguments, on_finished, observer)
        if provider := self._providers.find_tool(name):
            return self._begin_provided(provider.run, session, name, arguments, on_finished, observer)
        call = PageCall(self._services, session, name, arguments, on_finished, observer)
        call.begin()
        return call

    def begin_read(
        self,
        session: Session,
        uri: str,
        on_finished: OnFinished[Outcome],
        observer: CallObserver = NO_OBSERVER,
    ) -> Operation:
        """Read a resource: as `begin`; the outcome is an MCP ReadResourceResult, or the error."""

        async def read(record: CallRecord, observer: CallObserver) -> Answer:
            return Answer(await self._read(record, observer, uri), is_error=False)

        return self._begin_provided(read, session, uri, NOTHING, on_finished, observer, kind="resource")

    def begin_get_prompt(
        self,
        session: Session,
        name: str,
        arguments: Arguments,
        on_finished: OnFinished[Outcome],
        observer: CallObserver = NO_OBSERVER,
    ) -> Operation:
        """Get a prompt: as `begin_read`; the outcome is an MCP GetPromptResult. `arguments` are texts."""

        async def get_prompt(record: CallRecord, observer: CallObserver) -> Answer:
            texts = msgspec.json.decode(arguments.raw, type=dict[str, str])
            check_argument_size(texts)
            return Answer(await self._get_prompt(record, texts, observer), is_error=False)

        return self._begin_provided(
            get_prompt, session, name, arguments, on_finished, observer, kind="prompt"
        )

    async def _get_prompt(self, record: CallRecord, texts: dict[str, str], observer: CallObserver) -> bytes:
        await self._providers.wait_listed(record.name)
        if provider := self._providers.find_prompt(record.name):
            return await provider.get_prompt(record, texts, observer, partial(self._read, record, observer))
        return await self._reads.get_prompt(record, self.prompt_catalog, texts, observer, self._own_names())

    def begin_complete(
        self,
        session: Session,
        what: Primitive,
        name: str,
        asked: msgspec.Raw,
        on_finished: OnFinished[Outcome],
        observer: CallObserver = NO_OBSERVER,
    ) -> Operation:
        """Complete an argument of a prompt, or a variable of a resource template: as `begin_read`.

        The outcome is an MCP CompleteResult. `asked` has the members `argument` and `context` of the request.
        """

        async def complete(record: CallRecord, observer: CallObserver) -> Answer:
            await self._providers.wait_listed(name)
            if provider := self._providers.find_completed(what, name):
                return Answer(await provider.complete(record, what, asked, observer), is_error=False)
            target = self._find_completed(what, name)
            return Answer(await self._reads.complete(record, target, asked, observer), is_error=False)

        return self._begin_provided(
            complete, session, name, NOTHING, on_finished, observer, kind="completion"
        )

    def _find_completed(self, what: Primitive, name: str) -> CompletionTarget:
        if what == "prompts":
            if prompt := self.prompt_catalog.find(name, self._own_names()):
                return CompletionTarget(prompt.document, what, prompt.prompt.name)
        elif found := self.resource_catalog.find_template(name):
            return CompletionTarget(found[0], what, found[1])
        raise NotOfferedError(name)

    def begin_subscribe(
        self,
        session: Session,
        uri: str,
        tell: Callable[[], None],
        on_finished: OnFinished[Outcome],
        observer: CallObserver = NO_OBSERVER,
    ) -> Operation:
        """Subscribe a session to a resource: as `begin_read`; the outcome is an empty result or the error."""

        async def subscribe(record: CallRecord, observer: CallObserver) -> Answer:
            if provider := self._providers.find_resource(session, uri):
                await provider.admit_watch(record, uri, observer)
                await self.subscriptions.subscribe_own(session, uri, tell)
            else:
                await self.subscriptions.subscribe(record, uri, observer, tell)
            return Answer(b"{}", is_error=False)

        return self._begin_provided(
            subscribe, session, uri, NOTHING, on_finished, observer, kind="subscription"
        )

    def _watch_own(self, session: Session, uri: str, tell: Callable[[], None]) -> OwnWatch | None:
        provider = self._providers.find_resource(session, uri)
        return provider.watch(session, uri, tell) if provider else None

    def listen(
        self, session: Session, uris: Iterable[str], tell: Callable[[str], None]
    ) -> list[Subscription]:
        """Subscribe a session to URIs until the subscriptions are ended: see `ResourceSubscriptions.listen`.

        Raises:
            CallError: the session exceeds its rate limit, or has too many subscriptions.
        """
        wanted, now = list(dict.fromkeys(uris)), trio.current_time()
        how: Answer | Exception = Answer(b"", is_error=False)
        try:
            if wanted:
                self._services.admission.count(session, now)
            return self.subscriptions.listen(session, wanted, tell)
        except CallError as error:
            how = error
            raise
        finally:
            for uri in wanted[:MAX_SUBSCRIPTIONS]:
                record = CallRecord(session, uri, NOTHING, now, kind="subscription")
                self._services.keep(record.finish(how, now))

    def record_rejected(self, session: Session, name: str, field: str) -> None:
        """Count and record a call that was rejected before it had arguments; `field` is for the audit log."""
        error = CallError(Code.INVALID_PARAMS, handed=False, logged=field)
        self._begin_provided(_make_rejection(error), session, name, NOTHING, lambda _: None, NO_OBSERVER)

    async def call(
        self, session: Session, name: str, arguments: Arguments, observer: CallObserver = NO_OBSERVER
    ) -> bytes:
        """Run a tool, wait for it, and return a CallToolResult as JSON, also for a failed call.

        Raises:
            UnknownToolError: no page offers that name, and this session was never shown it.
        """

        def begin_call(on_finished: OnFinished[Outcome]) -> Operation:
            return self.begin(session, name, arguments, on_finished, observer)

        outcome = await wait_outcome(begin_call)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome.result if isinstance(outcome, PageResult) else outcome

    async def run_for_page(self, run: Run, session: Session, name: str, arguments: Arguments) -> None:
        """Run a page's call of an offered tool: counted and recorded like a call of a client.

        Raises:
            CallError: the page has exceeded its rate limit, or `run` has raised it.
        """

        def begin_call(on_finished: OnFinished[Outcome]) -> Operation:
            return self._begin_provided(
                run, session, name, arguments, on_finished, NO_OBSERVER, kind="offered"
            )

        outcome = await wait_outcome(begin_call)
        if isinstance(outcome, Exception):
            raise outcome

    def _begin_provided(
        self,
        run: Run,
        session: Session,
        name: str,
        arguments: Arguments,
        on_finished: OnFinished[Outcome],
        observer: CallObserver,
        *,
        kind: CallKind = "tool",
    ) -> Operation:
        call = ProviderCall(self._services, run, session, name, arguments, on_finished, observer, kind=kind)
        call.begin(self._in_background)
        return call

    def _begin_by_name(
        self, session: Session, arguments: Arguments, on_finished: OnFinished[Outcome], observer: CallObserver
    ) -> Operation:
        name = meta_tools.CALL_PAGE_TOOL
        try:
            asked = meta_tools.read_call(arguments)
        except CallError as error:
            return self._begin_provided(
                _make_rejection(error), session, name, arguments, on_finished, observer
            )

        def on_outcome(outcome: Outcome) -> None:
            if isinstance(outcome, UnknownToolError):
                detail = self._explain_unknown(asked.name)
                outcome = make_failure_result(
                    self._explain_failure(CallError(Code.INVALID_PARAMS, detail, handed=False))
                )
            on_finished(outcome)

        inner = Arguments(bytes(asked.arguments))
        call = PageCall(self._services, session, asked.name, inner, on_outcome, observer, called_as=name)
        call.begin()
        return call

    def _explain_unknown(self, name: str) -> str:
        if self._providers.find_tool(name):
            return f"{name} is not a tool of a page: call it by itself"
        return f"no page offers {name!r}; list_page_tools has the names"

    async def _read(self, record: CallRecord, observer: CallObserver, uri: str) -> bytes:
        """Return an MCP ReadResourceResult without its `_meta` (JSON). Raises as `PageReads.read`."""
        provider = self._providers.find_resource(record.session, uri)
        if provider is None:
            return await self._reads.read(record, uri, observer)
        result = await provider.read(record, uri, observer)
        check_size(result, self._terms.max_resource_bytes)
        return result

    async def _read_embedded(self, record: CallRecord, observer: CallObserver) -> Answer:
        asked = meta_tools.read_arguments(meta_tools.ReadResource, record.arguments)
        try:
            result = await self._read(record, observer, asked.uri)
        except NotOfferedError:
            detail = f"no page offers {asked.uri!r}: list_page_tools has the URIs"
            raise CallError(Code.INVALID_PARAMS, detail, handed=False) from None
        except ReportedError as error:
            return Answer(make_failure_result(format_request_error(error)), is_error=True)
        return Answer(embed_contents(result, asked.offset, asked.max_chars), is_error=False)

    async def _list_page_tools(self, record: CallRecord, observer: CallObserver, /) -> Answer:
        asked = meta_tools.read_arguments(meta_tools.ListPageTools, record.arguments)
        await self.wait_discovered()
        roots = await self._list_roots(observer)
        notices = [meta_tools.format_notice(frame) for _, _, frame in self.registry.frames()]
        entries, unlisted = self._usable_entries()
        if entries:
            notices.append(self.connection_problem())  # what is kept needs a browser as well
        record.session.bind_names(self.catalog.all_bindings())
        resources = offered_resources(_rank_documents(self._usable_documents("resources"), roots))
        usable = dict(_rank_documents(self._usable_documents("prompts"), roots))
        listed = [document for document, is_listed in usable.items() if is_listed]
        prompts = offered_prompts(self.prompt_catalog.list_targets(usable.keys(), self._own_names()), listed)
        found = meta_tools.page_tools(
            entries, asked, notices, self._without_page_tools, unlisted, resources, prompts, roots.includes
        )
        if not record.session.is_structured:
            del found["structuredContent"]
        return Answer(msgspec.json.encode(found), is_error=False)

    async def _list_roots(self, observer: CallObserver) -> RootSites:
        """Return the roots whose sites come first in lists; none without an answer within ROOTS_S."""
        if self._terms.ranks_roots:
            with trio.move_on_after(ROOTS_S), suppress(CallError):
                return read_roots(await observer.list_roots())
        return NO_ROOTS

    def _usable_entries(self) -> tuple[list[Entry], set[Entry]]:
        """All page tools that are not off; those of them of which the user is asked before a first call."""
        found: list[Entry] = []
        unlisted: set[Entry] = set()
        for document in self.catalog.documents():
            if not self.consent.is_off(document):
                found += document.allowed_entries
                unlisted.update(() if self.consent.is_listed(document) else document.allowed_entries)
        cached = [entry for entry in self.catalog.cached_entries() if not self.consent.refusal(entry)]
        unlisted.update(entry for entry in cached if not self.consent.is_cached_listed(entry))
        return [*found, *cached], unlisted

    def _usable_documents(self, what: Primitive) -> list[tuple[PageDocument, bool]]:
        """Return the documents that are not off, each with whether its words may be shown unasked."""
        if not self.consent.uses(what):
            return []
        return [
            (document, self.consent.is_listed(document))
            for document in self.documents.documents()
            if not document.refusal and not self.consent.is_off(document)
        ]

    def _without_page_tools(self) -> str:
        """Return the alternative for a model: the browser's own tools work without page tools."""
        browsers = self.registry.browsers()
        is_let_in = all(browser.hello and browser.hello.sites_allowed for browser in browsers)
        if browsers and is_let_in and self._providers.find_tool("navigate"):
            own = "Use the browser's own: navigate, read_page, find and the others."
            is_only_channel = all(browser.is_channel for browser in browsers)
            return f"{self.connection_problem()}\n{own}" if is_only_channel else own
        return self.connection_problem()

    def _explain_failure(self, error: CallError) -> str:
        """Return the text of a failure, with the missing connection if a tool is gone because of it."""
        missing = self.connection_problem() if error.code == Code.NO_LONGER_OFFERED else ""
        return f"{format_error(error)} {missing}".rstrip()

    def running_calls(self) -> list[CallRecord]:
        """Return the records of the running calls, the oldest first."""
        return list(self._services.running.values())

    def end_calls(self, session: Session) -> None:
        """End the running calls of a session: the outcome of each says whether it may have run."""
        for call, record in list(self._services.running.items()):
            if record.session is session:
                call.end_with_session()

    # ── What calls wait for ─────────────────────────────────────────────────────────────────────────────────

    def _in_background(self, wait: Callable[[], Awaitable[None]]) -> Operation:
        if self._has_ended:
            return FINISHED
        scope = trio.CancelScope()

        async def run() -> None:
            with scope:
                await wait()

        if self._nursery is None:
            self._begun.append(run)
        else:
            self._nursery.start_soon(run)
        return scope

    def _wait_for(self, call: PageCall) -> Operation:
        if self._has_ended:
            call.cancel()  # that keeps a record of it
            return FINISHED
        return self._in_background(partial(self._tool_access.bring_to_tool, call))

    # ── News ────────────────────────────────────────────────────────────────────────────────────────────────

    def _on_event(self, event: Event) -> None:
        if isinstance(event, HostAnnouncement) and isinstance(event.message, wire.PageNotification):
            self.page_requests.on_announcement(event)
            self.page_log.handle_notification(event.host, event.message, trio.current_time())
            return
        if self._registrations.on_event(event, trio.current_time()):
            self.catalog.store_changed()
        if self.registry.is_settled:  # until then a later profile could come first
            self.profiles.meet(self.registry.profiles())
        self.changes.notify()

    def _expire_lost(self) -> None:
        self.registry.expire_lost(trio.current_time())
        self.changes.notify()

    def _refresh_store(self) -> None:
        if self._store.refresh():
            self.catalog.store_changed()
            self.changes.notify()


def _rank_documents(
    documents: Iterable[tuple[PageDocument, bool]], roots: RootSites
) -> list[tuple[PageDocument, bool]]:
    return sorted(documents, key=lambda each: not roots.includes(each[0].origin))


def _sort_own(resources: Iterable[OwnResource]) -> dict[Key, OwnResource]:
    keyed = {Key(OWN_RANK, f"{resource.order} {resource.uri}"): resource for resource in resources}
    return dict(sorted(keyed.items()))


def _make_rejection(error: CallError) -> Run:
    async def reject(_record: CallRecord, _observer: CallObserver) -> Answer:
        raise error

    return reject
