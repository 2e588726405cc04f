"""State machine of one call of a page tool: find, admit, send, receive, retry in another tab. Sans-IO.

It uses callbacks instead of a task per call. With one task per call, 64 concurrent calls had 1.34 to 1.45
times fewer results per second, and the first 100 calls took 1.33 times as long (`python -m benchmarks --only
path --compare`, two cores, 2026-11-23). `ToolAccess` waits on behalf of a call.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import msgspec

from bridge.errors import CallError, UnknownToolError, make_failure_result, session_ended
from bridge.hub import tool_result
from bridge.hub.admission import Admission
from bridge.hub.argument_validation import Arguments
from bridge.hub.audit_records import AuditSink, CallRecord
from bridge.hub.catalog import Catalog
from bridge.hub.catalog_entries import Entry, LiveEntry
from bridge.hub.client_session import Session, ToolIdentity
from bridge.hub.consent.page_tool_consent import Doubt, PageToolConsent
from bridge.hub.consent.user_prompts import UserPrompts
from bridge.hub.operation import FINISHED, OnFinished, Operation, RunningCall
from bridge.hub.primitives.page_log import PageLog
from bridge.hub.primitives.page_requests import AskingDocument, PageRequests
from bridge.hub.registry import Registry
from bridge.hub.server_request import ServerRequest
from bridge.hub.tool_result import Answer, ResultCheck
from bridge.hub.transport import NO_OBSERVER, CallObserver, TabAddress, TabTransport
from native_host.protocol import wire
from native_host.protocol.wire import Code

ATTEMPTS = 3
"""Attempts of a call without a tab in its name that did not run: pages vanish while they are called."""

_log = logging.getLogger(__name__)


class PageResult(msgspec.Struct, frozen=True):
    """A CallToolResult that a web page has written."""

    result: bytes
    origin: str
    is_mismatch: bool = False
    """True if its `structuredContent` does not fit the tool's `outputSchema`."""


Outcome = bytes | PageResult | Exception
"""A CallToolResult as JSON, failures included; or an UnknownToolError: no page offers that name, and this
session was never shown it. Any other exception is a bug and is logged.
"""


class CallServices(msgspec.Struct, frozen=True):
    """Parts of the hub that every call uses."""

    registry: Registry
    catalog: Catalog
    admission: Admission
    transport: TabTransport
    prompts: UserPrompts
    call_s: float
    now: Callable[[], float]
    consent: PageToolConsent
    results: ResultCheck
    page_log: PageLog
    keep: AuditSink
    page_requests: PageRequests
    told: Callable[[CallError], str]
    wait: Callable[[PageCall], Operation]
    """Waits until the call's tool can be called, and then lets it `go` or `fail`."""
    running: dict[RunningCall, CallRecord] = msgspec.field(default_factory=dict)
    """The calls that have begun and are not over, the oldest first."""


class PageCall:
    """A call of a page's tool, as an operation; while it waits, it holds the operation that it waits for."""

    __slots__ = (
        "_allowed",
        "_arguments",
        "_doubts",
        "_entry",
        "_is_over",
        "_left",
        "_log",
        "_missed",
        "_names_a_tab",
        "_observer",
        "_on_finished",
        "_operation",
        "_profile",
        "_record",
        "_refused",
        "_services",
        "_was_sent",
        "name",
        "session",
    )

    def __init__(
        self,
        services: CallServices,
        session: Session,
        name: str,
        arguments: Arguments,
        on_finished: OnFinished[Outcome],
        observer: CallObserver = NO_OBSERVER,
        called_as: str = "",
    ) -> None:
        """`called_as` is the tool that the client called to reach this one by name, for the audit log."""
        self.session = session
        self.name = name
        self._services = services
        self._arguments = arguments
        self._on_finished = on_finished
        self._observer = observer
        self._record = CallRecord(session, called_as or name, arguments, services.now())
        self._operation: Operation = FINISHED
        self._log: Operation = FINISHED
        """Messages of the page to the client."""
        self._entry: LiveEntry
        self._was_sent = False
        self._names_a_tab = False
        self._left = ATTEMPTS
        self._missed: set[ToolIdentity] = set()
        """The tools that were not there when they were called."""
        self._profile: str | None = None
        """Profile of the first attempt: other profiles are other accounts."""
        self._refused: CallError | None = None
        self._doubts: tuple[Doubt, ...] = ()
        self._allowed: set[tuple[str, ...]] = set()
        """Subjects of the doubts that the user has resolved for this call."""
        self._is_over = False

    @property
    def observer(self) -> CallObserver:
        """The observer of this call."""
        return self._observer

    def begin(self) -> None:
        """Count it and take it as far as it gets."""
        self._services.running[self] = self._record
        try:
            self._services.admission.count(self.session, self._record.began)
        except CallError as error:
            self.fail(error)
        else:
            self._start_attempt()

    def recheck_policy(self) -> None:
        """Cancel the call if changed rules forbid its tool; a page that received it is notified."""
        try:
            entry = self.find_entry()
        except (CallError, UnknownToolError):
            return  # it is gone, and says so itself
        if self._is_over or not entry.refusal:
            return
        self._fail_running(CallError(Code.NOT_ALLOWED, entry.refusal, handed=self._was_sent))

    def end_with_session(self) -> None:
        """See `RunningCall`."""
        self._fail_running(session_ended(handed=self._was_sent))

    def _fail_running(self, error: CallError) -> None:
        operation = self._operation
        self.fail(error)
        operation.cancel()

    def cancel(self) -> None:
        """See `Operation`."""
        if not self._is_over:
            self._is_over = True
            operation, self._operation = self._operation, FINISHED
            operation.cancel()
            self._record_end(None)

    # ── To a tab ────────────────────────────────────────────────────────────────────────────────────────────

    def _start_attempt(self) -> None:
        self._left -= 1
        try:
            if (entry := self._find_ready()) is None:
                self._operation = self._services.wait(self)
            else:
                self.send_to(entry)
        except Exception as error:
            if self._is_over:
                raise
            self.fail(error)

    def _find_ready(self) -> LiveEntry | None:
        """Return the tool in the tab that runs it; None if the call has to wait first."""
        try:
            entry = self.find_entry()
        except UnknownToolError:
            return None
        except CallError:
            if self.reloading_until() is None:
                raise
            return None
        if not isinstance(entry, LiveEntry) or entry.offer.lost_at is not None:
            return None
        self.admit(entry)
        return None if self.doubt else entry

    def find_entry(self) -> Entry:
        """Return the entry that its name stands for now. Raises like `Catalog.find_entry`."""
        return self._services.catalog.find_entry(self.session, self.name, self._missed, self._profile)

    def reloading_until(self) -> float | None:
        """Return how long to wait for its page, which is reloading; None: it is not."""
        return self._services.catalog.reloading_until(self.session, self.name)

    def admit(self, entry: Entry) -> None:
        """Admit the call to this tool.

        Raises:
            CallError: the call is rejected.
        """
        site = entry.site
        self._record.site, self._record.own_name = site, entry.own_name
        self._profile = site.profile
        self._doubts = self._services.consent.find_doubts(self.session, entry)
        self._services.admission.admit(self.session, entry, self._arguments, self._services.registry.pauses)

    @property
    def doubt(self) -> Doubt | None:
        """The first doubt that the user has to resolve before the call may be sent."""
        for doubt in self._doubts:
            if doubt.subject not in self._allowed:
                return doubt
        return None

    def resolve_doubt(self, doubt: Doubt) -> None:
        """Record that the user has approved it."""
        self._allowed.add(doubt.subject)

    def send_to(self, entry: LiveEntry) -> None:
        """Send the call to this tool, which has admitted it."""
        if self._is_over:
            return
        self._entry, attempt, self._was_sent = entry, self._left, True
        self._names_a_tab = self._services.catalog.names_a_tab(self.session, self.name)
        offer = entry.offer
        params = wire.ExecuteTool(
            session=self.session.id,
            tab_id=offer.tab_id,
            frame_id=offer.frame.frame_id,
            document_id=offer.frame.document_id,
            tool_name=entry.own_name,
            args=msgspec.Raw(self._arguments.raw),
            wants_progress=self._observer.on_progress is not None,
        )
        self._log = self._services.page_log.follow(
            self.session, offer.browser, offer.source, self._observer.log
        )
        tab = TabAddress(offer.browser.host, offer.tab_id)
        observer = CallObserver(self._observer.on_progress, self._send_page_request, self._observer.support)
        send = self._services.transport.send
        operation = send(
            tab, "browser/executeTool", params, self._services.call_s, self._handle_result, observer
        )
        if attempt == self._left and not self._is_over:  # else the answer came meanwhile
            self._operation = operation

    async def _send_page_request(self, request: ServerRequest) -> bytes:
        """Send a request of the page to the client of this call."""
        document = _asking_document(self._entry)
        return await self._services.page_requests.send(self._observer, self.session, document, request)

    def _handle_result(self, answer: bytes | CallError) -> None:
        read = answer if isinstance(answer, CallError) else tool_result.read_result(answer)
        if isinstance(read, Answer):
            self._services.consent.record_call(self._entry)
            self._finish_with(read)
        elif self._may_go_elsewhere(read):
            self._refused = read
            self._missed.add(self._entry.binding.identity)
            self._log.cancel()
            self._start_attempt()
        else:
            self.fail(read)

    def _finish_with(self, read: Answer) -> None:
        origin, tool = self._entry.origin, self._entry.tool
        try:
            mismatch = tool.has_output_schema and self._services.results.find_mismatch(origin, tool, read)
        except CallError as error:
            self.fail(error)
            return
        if read.links:
            self.session.linked.add(read.links, origin)
        self._finish_call(PageResult(read.result, origin, bool(mismatch)), read)

    def _may_go_elsewhere(self, error: CallError) -> bool:
        """Not if it may have run, unless running it twice is harmless."""
        if error.code not in (Code.NO_SUCH_TAB, Code.GONE, Code.NAVIGATED, Code.NO_LONGER_OFFERED):
            return False
        if self._left == 0 or self._names_a_tab:
            return False
        return not error.handed or self._entry.tool.is_repeatable

    # ── Its end ─────────────────────────────────────────────────────────────────────────────────────────────

    def fail(self, error: Exception) -> None:
        """There is no answer."""
        if self._is_over:
            return
        if isinstance(error, UnknownToolError):
            error = self._refused or error
        if isinstance(error, CallError):
            self._finish_call(make_failure_result(self._services.told(error)), error)
            return
        if not isinstance(error, UnknownToolError):
            _log.error("calling %.128r failed", self.name, exc_info=error)
        self._finish_call(error, error)

    def _finish_call(self, outcome: Outcome, how: Answer | Exception) -> None:
        self._is_over = True
        self._operation = FINISHED  # it knows this call: neither is to keep the other
        self._on_finished(outcome)  # First, so that the caller does not wait for the record.
        self._record_end(how)

    def _record_end(self, how: Answer | Exception | None) -> None:
        if self._log is not FINISHED:
            self._log.cancel()
        self._services.running.pop(self, None)
        self._services.keep(self._record.finish(how, self._services.now()))


def _asking_document(entry: LiveEntry) -> AskingDocument:
    offer = entry.offer
    at = offer.browser.host, offer.tab_id, offer.frame.frame_id, offer.frame.document_id
    return AskingDocument(*at, entry.origin, offer.tab.origin, entry.site)
