"""Pending requests and their deadlines, with the progress and the questions that precede a response.

One task sleeps until the nearest deadline, so that a request needs no task of its own.
"""

from __future__ import annotations

import logging
import math
from abc import ABC, abstractmethod
from typing import Protocol

import trio

from bridge.errors import CallError
from bridge.hub.operation import OnFinished
from bridge.hub.transport import QUESTION_S, CallObserver, OnQuestion
from native_host.protocol import wire
from native_host.protocol.wire import Code

_log = logging.getLogger(__name__)


class PendingRequest(ABC):
    """A request that awaits its response, as an operation without a task of its own."""

    def __init__(
        self,
        timeout_s: float,
        on_finished: OnFinished[bytes | CallError],
        observer: CallObserver,
        deadlines: Deadlines,
    ) -> None:
        self.deadline = trio.current_time() + timeout_s
        self._timeout_s = timeout_s
        self._observer = observer
        self._on_finished = on_finished
        self._deadlines = deadlines
        self._question: Question | None = None
        self.is_over = False
        deadlines.add(self)

    @abstractmethod
    def withdraw(self) -> bool:
        """Withdraw it or cancel it at the page; return whether the page may have received it."""

    def complete(self, answer: bytes | CallError) -> None:
        """Complete it with its response or an error."""
        self._close_question()
        self._on_finished(answer)

    def expire(self) -> None:
        """Its time is over."""
        handed = self.withdraw()
        self.complete(CallError(Code.TIMED_OUT, f"{self._timeout_s:g} s have passed", handed=handed))

    def cancel(self) -> None:
        """See `Operation`."""
        if not self.is_over:
            self.withdraw()
            self._close_question()

    def _close_question(self) -> None:
        self.is_over = True
        self._deadlines.discard(self)
        if self._question:  # Its answer is not needed either.
            self._question.scope.cancel()

    def report_progress(self, progress: wire.Progress) -> None:
        """Report progress and restart the timeout."""
        if self._question:
            self._question.left_s = self._timeout_s
        else:
            self.deadline = trio.current_time() + self._timeout_s
        if self._observer.on_progress:
            self._observer.on_progress(progress)

    def pass_event(self, event: wire.CdpEvent) -> None:
        """Pass a DevTools event of this subscription on."""
        if self._observer.on_event:
            self._observer.on_event(event)

    def pass_watch_news(self, news: wire.Watching | wire.ResourceUpdated) -> None:
        """Pass on that this watch is active, or that its resource has changed."""
        if self._observer.on_watch:
            self._observer.on_watch(news)

    def open_question(self) -> Question:
        """Open a question of the page; the timeout is suspended until it is answered.

        Raises:
            CallError: no user can be asked now.
        """
        if self._observer.on_question is None:
            text = "this MCP client cannot ask the user: the page gets no answer"
            raise CallError(Code.METHOD_NOT_FOUND, text, handed=False)
        if self._question:
            text = "another question of this call is open: ask again when it is answered"
            raise CallError(Code.RATE_LIMITED, text, handed=False)
        self._question = Question(self._observer.on_question, self.deadline - trio.current_time())
        self.deadline = math.inf
        return self._question

    async def ask_user(self, question: Question, asked: wire.ElicitConfirmation) -> bytes:
        """Ask the user; return an MCP ElicitResult (JSON).

        Raises:
            CallError: there is no answer. `handed` is true if the user may have been asked.
        """
        try:
            with question.scope, trio.move_on_after(QUESTION_S):
                return await question.on_question(asked)
        except CallError:
            raise
        except Exception:  # noqa: BLE001  (the link has other calls to serve)
            _log.exception("a question of a page could not be put")
            raise CallError(Code.INTERNAL_ERROR, "the question could not be put", handed=True) from None
        finally:
            self._question = None
            self.deadline = trio.current_time() + question.left_s
            self._deadlines.note_earlier(self)
        if question.scope.cancelled_caught:
            raise CallError(Code.GONE, "the call that asked has ended", handed=True)
        raise CallError(Code.TIMED_OUT, f"the user did not answer within {QUESTION_S:g} s", handed=True)


class Question:
    """A page's question that is open."""

    def __init__(self, on_question: OnQuestion, left_s: float) -> None:
        self.on_question = on_question
        self.left_s = left_s
        self.scope = trio.CancelScope()


class HasDeadline(Protocol):
    """Object with a deadline on trio's clock."""

    deadline: float

    def expire(self) -> None:
        """Handle the expired deadline."""
        ...


class Deadlines:
    """Enforces the deadlines of all added items while `run` runs."""

    def __init__(self) -> None:
        self._timed: dict[HasDeadline, None] = {}
        self._wakes_at = math.inf
        self._sleep = trio.CancelScope()

    def add(self, timed: HasDeadline) -> None:
        """Let it expire at its deadline, unless it is discarded before."""
        self._timed[timed] = None
        self.note_earlier(timed)

    def discard(self, timed: HasDeadline) -> None:
        """Remove an item that has ended."""
        self._timed.pop(timed, None)

    def note_earlier(self, timed: HasDeadline) -> None:
        """Note that the deadline of an item is earlier now. A later one is noticed in time."""
        if timed.deadline < self._wakes_at:
            self._wakes_at = self._sleep.deadline = timed.deadline

    async def run(self) -> None:
        """Let things expire. Runs until cancelled."""
        while True:
            with self._sleep:
                await trio.sleep_forever()
            now = trio.current_time()
            for timed in [timed for timed in self._timed if timed.deadline <= now]:
                if timed in self._timed:  # the end of one may be the end of another
                    timed.expire()
            self._wakes_at = min((timed.deadline for timed in self._timed), default=math.inf)
            self._sleep = trio.CancelScope(deadline=self._wakes_at)
