"""Providers of tools that no page offers, and the operation of one such call.

The hub lists these tools beside page tools and does not know their effects.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Container, Iterable, Mapping, Sequence
from typing import Any, Protocol

from bridge.errors import CallError, NotOfferedError, make_failure_result, session_ended
from bridge.hub.argument_validation import Arguments
from bridge.hub.audit_records import CallKind, CallRecord
from bridge.hub.client_session import ListForm, Session
from bridge.hub.operation import FINISHED, OnFinished, Operation
from bridge.hub.page_call import CallServices, Outcome
from bridge.hub.primitives.own_prompt import OwnPrompt
from bridge.hub.primitives.own_resource import OwnResource, OwnWatch
from bridge.hub.tool_result import Answer
from bridge.hub.transport import NO_OBSERVER, CallObserver

_log = logging.getLogger(__name__)

Run = Callable[[CallRecord, CallObserver], Awaitable[Answer]]
"""See `Provider.run`."""


class Provider(Protocol):
    """Tools whose names stay the same, and what they have made for a session."""

    @property
    def names(self) -> Container[str]:
        """Names of the tools."""
        ...

    def form_of(self, session: Session) -> ListForm:
        """Return the form of the session's tool list."""
        ...

    def definitions(self, form: ListForm) -> list[dict[str, Any]]:
        """Return the MCP Tools that a list of this form has."""
        ...

    async def run(self, record: CallRecord, observer: CallObserver) -> Answer:
        """Run the tool that the recording names, and record where it did.

        Raises:
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

    def defines(self, uri: str) -> bool:
        """Return whether a URI is for `read`."""
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

    def prompts(self) -> Mapping[str, OwnPrompt]:
        """Return the prompts by name, which are those of every session."""
        ...

    def complete(self, session: Session, name: str) -> Sequence[str] | None:
        """Return the values that an argument or variable of this name may have; None: nothing is known."""
        ...

    def fingerprint(self, session: Session) -> object:
        """Return what a session is notified of when it changes: its resources and the prompts."""
        ...

    def release(self, session: Session) -> None:
        """Discard the state of a session that has ended."""
        ...


class NoProvider:
    """A `Provider` without tools."""

    names: Container[str] = ()

    def form_of(self, session: Session) -> ListForm:
        """See `Provider`."""
        return ListForm(is_structured=session.is_structured)

    def definitions(self, form: ListForm) -> list[dict[str, Any]]:  # noqa: ARG002
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

    def defines(self, uri: str) -> bool:  # noqa: ARG002
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

    def prompts(self) -> Mapping[str, OwnPrompt]:
        """See `Provider`."""
        return {}

    def complete(self, session: Session, name: str) -> Sequence[str] | None:  # noqa: ARG002
        """See `Provider`."""
        return None

    def fingerprint(self, session: Session) -> object:  # noqa: ARG002
        """See `Provider`."""
        return None

    def release(self, session: Session) -> None:
        """See `Provider`."""


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
        except NotOfferedError as error:
            self._finish_call(error, error)
        except Exception as error:  # noqa: BLE001  (other calls go on)
            _log.exception("calling %s failed", self._record.name)
            self._finish_call(error, error)
        else:
            self._finish_call(answer.result, answer)

    def _finish_failed(self, error: CallError) -> None:
        is_tool = self._record.kind == "tool"
        self._finish_call(make_failure_result(self._services.told(error)) if is_tool else error, error)

    def _finish_call(self, outcome: bytes | Exception, how: Answer | Exception) -> None:
        if self._is_over:
            return
        self._is_over = True
        self._on_finished(outcome)
        self._record_end(how)

    def _record_end(self, how: Answer | Exception | None) -> None:
        self._services.running.pop(self, None)
        self._services.keep(self._record.finish(how, self._services.now()))
