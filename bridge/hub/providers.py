"""Providers of tools, resources and prompts that no page offers, and the operation of one such call.

The hub lists them beside those of pages and does not know their effects. Several providers count as one: the
tools of the browser, and those of remote servers.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from bridge.errors import CallError, NotOfferedError, UnknownToolError, make_failure_result, session_ended
from bridge.hub.argument_validation import Arguments
from bridge.hub.audit_records import CallKind, CallRecord
from bridge.hub.client_session import ListForm, Session
from bridge.hub.consent.page_tool_settings import Primitive
from bridge.hub.operation import FINISHED, OnFinished, Operation
from bridge.hub.page_call import CallServices, Outcome, PageResult
from bridge.hub.primitives.own_resource import OwnResource, OwnWatch
from bridge.hub.tool_result import Answer
from bridge.hub.tool_schema import Era
from bridge.hub.transport import NO_OBSERVER, CallObserver

_log = logging.getLogger(__name__)

Run = Callable[[CallRecord, CallObserver], Awaitable[Answer]]
"""See `Provider.run`."""
ReadResource = Callable[[str], Awaitable[bytes]]
"""Returns an MCP ReadResourceResult (JSON) for any URI that the session may read."""
ToolDefinition = Mapping[str, Any] | msgspec.Raw
"""An MCP Tool."""


class Provider(Protocol):
    """Tools, resources and prompts."""

    @property
    def version(self) -> object:
        """Changes with `names` and `definitions`."""
        ...

    @property
    def names(self) -> Container[str]:
        """Names of the tools that `run` takes."""
        ...

    def form_of(self, session: Session) -> ListForm:
        """Return the form of the session's tool list."""
        ...

    async def wait_listed(self, name: str = "") -> None:
        """Wait, for a short time, until the lists are known; with a name, those that may have it."""
        ...

    def definitions(self, era: Era, form: ListForm) -> Sequence[ToolDefinition]:
        """Return the MCP Tools that a list of this era and form has."""
        ...

    async def run(self, record: CallRecord, observer: CallObserver) -> Answer:
        """Run the tool that the recording names, and record where it did.

        Raises:
            UnknownToolError: there is no such tool any more.
            CallError: it could not be run; what is raised otherwise is a bug.
        """
        ...

    async def prepare_tab(self, session: Session, caller: CallObserver) -> None:
        """Prepare a session for a tab that is opened for one of its calls of a page's tool."""
        ...

    def resources(self, session: Session) -> Iterable[OwnResource]:
        """Return the resources of a session."""
        ...

    def templates(self) -> Iterable[OwnResource]:
        """Return the resource templates, which are those of every session."""
        ...

    def defines(self, session: Session, uri: str) -> bool:
        """Return whether a URI of a session is for `read`."""
        ...

    async def read(self, record: CallRecord, uri: str, observer: CallObserver) -> bytes:
        """Return an MCP ReadResourceResult without its `_meta` (JSON).

        Raises:
            NotOfferedError: the resource is not there.
            CallError: it could not be read; what is raised otherwise is a bug.
        """
        ...

    async def admit_watch(self, record: CallRecord, uri: str, observer: CallObserver) -> None:
        """Check that a session may watch a resource. Raises as `read`."""
        ...

    def watch(self, session: Session, uri: str, tell: Callable[[], None]) -> OwnWatch:
        """Call `tell` whenever a resource has changed that the session may use."""
        ...

    def prompts(self) -> Mapping[str, bytes]:
        """Return the MCP Prompts (JSON) by name, which are those of every session."""
        ...

    async def get_prompt(
        self, record: CallRecord, arguments: Mapping[str, str], observer: CallObserver, read: ReadResource
    ) -> bytes:
        """Return an MCP GetPromptResult (JSON) without `_meta` for the prompt that the record names.

        Raises:
            CallError: an argument is missing, or it cannot be made.
        """
        ...

    async def complete(
        self, record: CallRecord, what: Primitive, asked: msgspec.Raw, observer: CallObserver
    ) -> bytes:
        """Return an MCP CompleteResult (JSON) for the prompt or URI template that the record names."""
        ...

    def fingerprint(self, session: Session) -> object:
        """Return what a session is notified of when it changes: its resources and the prompts."""
        ...

    def release(self, session: Session) -> None:
        """Discard the state of a session that has ended."""
        ...


class NoProvider:
    """A `Provider` without tools."""

    version: object = None
    names: Container[str] = ()

    def form_of(self, session: Session) -> ListForm:
        """See `Provider`."""
        return ListForm(is_structured=session.is_structured)

    async def wait_listed(self, name: str = "") -> None:
        """See `Provider`."""

    def definitions(self, era: Era, form: ListForm) -> Sequence[ToolDefinition]:  # noqa: ARG002
        """See `Provider`."""
        return []

    async def run(self, record: CallRecord, observer: CallObserver) -> Answer:  # noqa: ARG002
        """See `Provider`."""
        raise AssertionError(f"no provider has the tool {record.name}")

    async def prepare_tab(self, session: Session, caller: CallObserver) -> None:
        """See `Provider`."""

    def resources(self, session: Session) -> Iterable[OwnResource]:  # noqa: ARG002
        """See `Provider`."""
        return ()

    def templates(self) -> Iterable[OwnResource]:
        """See `Provider`."""
        return ()

    def defines(self, session: Session, uri: str) -> bool:  # noqa: ARG002
        """See `Provider`."""
        return False

    async def read(self, record: CallRecord, uri: str, observer: CallObserver) -> bytes:  # noqa: ARG002
        """See `Provider`."""
        raise NotOfferedError(uri)

    async def admit_watch(self, record: CallRecord, uri: str, observer: CallObserver) -> None:  # noqa: ARG002
        """See `Provider`."""
        raise NotOfferedError(uri)

    def watch(self, session: Session, uri: str, tell: Callable[[], None]) -> OwnWatch:  # noqa: ARG002
        """See `Provider`."""
        raise AssertionError(f"no provider has the resource {uri}")

    def prompts(self) -> Mapping[str, bytes]:
        """See `Provider`."""
        return {}

    async def get_prompt(
        self,
        record: CallRecord,
        arguments: Mapping[str, str],  # noqa: ARG002
        observer: CallObserver,  # noqa: ARG002
        read: ReadResource,  # noqa: ARG002
    ) -> bytes:
        """See `Provider`."""
        raise NotOfferedError(record.name)

    async def complete(
        self,
        record: CallRecord,
        what: Primitive,  # noqa: ARG002
        asked: msgspec.Raw,  # noqa: ARG002
        observer: CallObserver,  # noqa: ARG002
    ) -> bytes:
        """See `Provider`."""
        raise NotOfferedError(record.name)

    def fingerprint(self, session: Session) -> object:  # noqa: ARG002
        """See `Provider`."""
        return None

    def release(self, session: Session) -> None:
        """See `Provider`."""


class Providers:
    """Several providers as one. Of two with the same name, the first has it."""

    def __init__(self, main: Provider | None = None) -> None:
        """Begin with the provider that decides about the form of lists."""
        self._main: Provider = main or NoProvider()
        self._all: tuple[Provider, ...] = (self._main,)

    def set_main(self, main: Provider) -> None:
        """Replace the provider that decides about the form of lists."""
        self._all = (main, *self._all[1:])
        self._main = main

    def add(self, provider: Provider) -> None:
        """Offer what another provider has, too."""
        self._all = (*self._all, provider)

    @property
    def version(self) -> object:
        """See `Provider`."""
        if len(self._all) == 1:  # read for each list, and most bridges have one
            return self._main.version
        return [provider.version for provider in self._all]

    def form_of(self, session: Session) -> ListForm:
        """See `Provider`."""
        return self._main.form_of(session)

    def definitions(self, era: Era, form: ListForm) -> list[ToolDefinition]:
        """See `Provider`."""
        return [tool for provider in self._all for tool in provider.definitions(era, form)]

    async def wait_listed(self, name: str = "") -> None:
        """See `Provider`."""
        for provider in self._all:
            await provider.wait_listed(name)

    def find_tool(self, name: str) -> Provider | None:
        """Return the provider of a tool; None: it may be a page's."""
        for provider in self._all:  # each call passes here, and a generator would take longer
            if name in provider.names:
                return provider
        return None

    async def prepare_tab(self, session: Session, caller: CallObserver) -> None:
        """See `Provider`."""
        for provider in self._all:
            await provider.prepare_tab(session, caller)

    def resources(self, session: Session) -> Iterator[OwnResource]:
        """See `Provider`."""
        for provider in self._all:
            yield from provider.resources(session)

    def templates(self) -> Iterator[OwnResource]:
        """See `Provider`."""
        for provider in self._all:
            yield from provider.templates()

    def find_resource(self, session: Session, uri: str) -> Provider | None:
        """Return the provider of a resource, which may be gone; None: a page may have it."""
        return next((provider for provider in self._all if provider.defines(session, uri)), None)

    def prompts(self) -> Mapping[str, bytes]:
        """See `Provider`."""
        found: dict[str, bytes] = {}
        for provider in self._all:
            for name, prompt in provider.prompts().items():
                found.setdefault(name, prompt)
        return found

    def find_prompt(self, name: str) -> Provider | None:
        """Return the provider of a prompt; None: it may be a page's."""
        return next((provider for provider in self._all if name in provider.prompts()), None)

    def find_completed(self, what: Primitive, name: str) -> Provider | None:
        """Return the provider of a prompt, or of a URI template; None: it may be a page's."""
        if what == "prompts":
            return self.find_prompt(name)
        having = (it for it in self._all if any(template.uri == name for template in it.templates()))
        return next(having, None)

    def fingerprint(self, session: Session) -> object:
        """See `Provider`."""
        return [provider.fingerprint(session) for provider in self._all]

    def release(self, session: Session) -> None:
        """See `Provider`."""
        for provider in self._all:
            provider.release(session)


class ProviderCall:
    """A call of a provider's tool, or a request for a resource or prompt, as an operation."""

    def __init__(
        self,
        services: CallServices,
        run: Run,
        session: Session,
        name: str,
        arguments: Arguments,
        on_finished: OnFinished[Outcome],
        observer: CallObserver = NO_OBSERVER,
        *,
        kind: CallKind = "tool",
    ) -> None:
        """Run `run`. A failed tool call ends with a result that says so, another request with the error."""
        self._services = services
        self._run_tool = run
        self._record = CallRecord(
            session, name, arguments, services.now(), kind=kind, keep_step=services.keep
        )
        self._on_finished = on_finished
        self._observer = observer
        self._operation: Operation = FINISHED
        self._is_over = False

    def begin(self, in_background: Callable[[Callable[[], Awaitable[None]]], Operation]) -> None:
        """Count it and let it run."""
        self._services.running[self] = self._record
        try:
            self._services.admission.count(self._record.session, self._record.began)
        except CallError as error:
            self._finish_failed(error)
        else:
            self._operation = in_background(self._run_call)
            if self._operation is FINISHED:
                self.cancel()

    def cancel(self) -> None:
        """See `Operation`."""
        if not self._is_over:
            self._is_over = True
            self._operation.cancel()
            self._record_end(None)

    def end_with_session(self) -> None:
        """See `RunningCall`. A tool may have done a part of its work."""
        operation = self._operation
        self._finish_failed(session_ended(handed=True))
        operation.cancel()

    async def _run_call(self) -> None:
        try:
            answer = await self._run_tool(self._record, self._observer)
        except CallError as error:
            self._finish_failed(error)
        except (NotOfferedError, UnknownToolError) as error:
            self._finish_call(error, error)
        except Exception as error:  # noqa: BLE001  (other calls go on)
            _log.exception("calling %s failed", self._record.name)
            self._finish_call(error, error)
        else:
            self._finish_call(_format_outcome(answer), answer)

    def _finish_failed(self, error: CallError) -> None:
        is_tool = self._record.kind == "tool"
        self._finish_call(make_failure_result(self._services.told(error)) if is_tool else error, error)

    def _finish_call(self, outcome: Outcome, how: Answer | Exception) -> None:
        if self._is_over:
            return
        self._is_over = True
        self._on_finished(outcome)
        self._record_end(how)

    def _record_end(self, how: Answer | Exception | None) -> None:
        self._services.running.pop(self, None)
        self._services.keep(self._record.finish(how, self._services.now()))


def _format_outcome(answer: Answer) -> Outcome:
    if not answer.origin:
        return answer.result
    return PageResult(answer.result, answer.origin, answer.is_mismatch)
