"""Calls suspended with `input_required`: each waits for a retry with the client's answer (MCP 2026-07-28).

The result of a call can be a question: the client asks its user and repeats the call with the answer. The
suspended call continues meanwhile, and the retry resumes it without running anything again. Without a retry
in time the call is cancelled. A random state identifies the call, which stays bound to its document, whatever
its name stands for by then.
"""

from __future__ import annotations

import json
import logging
import math
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import NamedTuple

import msgspec
import trio

from bridge.errors import CallError
from bridge.hub.argument_validation import Arguments
from bridge.hub.operation import FINISHED, OnFinished, Operation
from bridge.hub.page_call import Outcome
from bridge.hub.transport import QUESTION_S, CallObserver, OnProgress
from bridge.mcp_session import elicitation
from bridge.mcp_session.client_messages import CanAsk
from bridge.mcp_session.elicitation import Asked, ElicitationRequest
from native_host.protocol import wire
from native_host.protocol.wire import Code

MAX_SUSPENDED = 16
LAST_WORDS_S = 1.0
"""Seconds that a page has between the missing answer and the cancellation."""
_STATE_BYTES = 16

_log = logging.getLogger(__name__)


class InputRequired(NamedTuple):
    """Suspension of a call: `SuspendedCalls.resume` continues it with this state and the client's answer."""

    state: str
    question: Asked


class Request(NamedTuple):
    """What a request is for, equal in its retry."""

    method: str
    name: str
    """Of a tool or prompt, or a URI."""
    arguments: Arguments

    def is_same_as(self, other: Request) -> bool:
        """Return whether the other request is equal, whatever its JSON looks like."""
        is_for_same = (self.method, self.name) == (other.method, other.name)
        return is_for_same and _sort_arguments(self.arguments) == _sort_arguments(other.arguments)


Begin = Callable[[Callable[[Outcome], None], CallObserver], Operation]


class RetryError(Exception):
    """There is no call to resume; the text says it to the client."""


class SuspendedCalls:
    """Calls of one session that a server request can suspend."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self._suspended: dict[str, _Call] = {}

    def begin(
        self,
        request: Request,
        begin: Begin,
        on_turn: OnFinished[Outcome | InputRequired],
        on_progress: OnProgress | None = None,
        *,
        can_ask: CanAsk,
    ) -> Operation:
        """Run a call until it has its result or a question. Cancelling cancels the call.

        Only a call that began with `on_progress` reports progress, then and when it is resumed.
        """
        call = _Call(request)
        turn = call.take_turn(on_turn, on_progress)
        on_report = call.report if on_progress else None
        call.comes_from(
            begin(call.end, elicitation.make_observer(can_ask, partial(self._suspend_call, call), on_report))
        )
        return turn

    def resume(
        self,
        state: str,
        request: Request,
        answer: bytes | None,
        on_turn: OnFinished[Outcome | InputRequired],
        on_progress: OnProgress | None = None,
    ) -> Operation:
        """Answer the question of a suspended call and go on as `begin` does; without its answer, ask again.

        `answer` is an MCP result as JSON.

        Raises:
            RetryError: no call is suspended under this state, or the request names another call.
        """
        call = self._suspended.get(state)
        if call is None or trio.current_time() >= call.expires_at:
            # The text holds for every unknown state, so that none has to be remembered.
            raise RetryError(
                "The question is closed: it was answered already, or not answered within "
                f"{QUESTION_S:g} s and its call was cancelled. Its call may have run, and was not started "
                "again: look at the page before you repeat it, without requestState."
            )
        if not call.request.is_same_as(request):
            raise RetryError(
                "requestState belongs to another call, and nothing was run. Repeat that call with the same "
                "name and arguments, or make this one without requestState."
            )
        given = _read_given(call.question, answer)
        if given is None:
            on_turn(InputRequired(state, call.question))
            return FINISHED
        del self._suspended[state]
        turn = call.take_turn(on_turn, on_progress)
        call.answer(given)
        return turn

    async def _suspend_call(self, call: _Call, question: Asked) -> bytes:
        if not call.is_awaited:
            raise CallError(Code.GONE, "the client does not wait for this call any more", handed=False)
        if len(self._suspended) >= MAX_SUSPENDED:
            text = f"{MAX_SUSPENDED} questions of this client wait for an answer: ask again later"
            raise CallError(Code.RATE_LIMITED, text, handed=False)
        state = secrets.token_urlsafe(_STATE_BYTES)
        self._suspended[state] = call
        call.ask(state, question)
        self._nursery.start_soon(self._expire_call, call, state)
        await call.answered.wait()
        return call.given

    async def _expire_call(self, call: _Call, state: str) -> None:
        """Cancel a call without a retry, or discard its result."""
        answered = call.answered
        with trio.move_on_at(call.expires_at):
            await answered.wait()
        if not answered.is_set() and not call.ended.is_set():
            with trio.move_on_after(LAST_WORDS_S):
                await call.ended.wait()
        if self._suspended.pop(state, None):
            _log.info("%.128r ended, and the client did not come back for it", call.request.name)
            call.cancel()

    def cancel_all(self) -> None:
        """Cancel all suspended calls: their session has ended."""
        for call in self._suspended.values():
            call.cancel()
        self._suspended.clear()


class _Call:
    """A call, and what passes between it and the messages of the client about it."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.question: Asked = ElicitationRequest("", {})
        self.expires_at = -math.inf
        self.answered = trio.Event()
        self.given = b""
        self.ended = trio.Event()
        self._operation: Operation = FINISHED
        self._outcome: Outcome | None = None
        self._turn: _Turn | None = None
        """Message of the client that waits for the next outcome."""

    def comes_from(self, operation: Operation) -> None:
        """Keep the operation until the call has ended: each refers to the other."""
        if not self.ended.is_set():
            self._operation = operation

    @property
    def is_awaited(self) -> bool:
        """A message of the client waits for what comes next."""
        return self._turn is not None

    def take_turn(
        self, on_turn: OnFinished[Outcome | InputRequired], on_progress: OnProgress | None
    ) -> Operation:
        """Let a message of the client wait. Cancelling the turn cancels the call."""
        self._turn = _Turn(self, on_turn, on_progress)
        return self._turn

    def is_turn(self, turn: Operation) -> bool:
        """Return whether this message waits now."""
        return self._turn is turn

    def end_turn(self, told: Outcome | InputRequired) -> None:
        turn, self._turn = self._turn, None
        if turn:
            turn.on_turn(told)

    def report(self, progress: wire.Progress) -> None:
        """To the message that waits now."""
        if self._turn and self._turn.on_progress:
            self._turn.on_progress(progress)

    def ask(self, state: str, question: Asked) -> None:
        """End the turn with a question."""
        self.question = question
        self.expires_at = trio.current_time() + QUESTION_S
        self.answered = trio.Event()
        self.end_turn(InputRequired(state, question))

    def answer(self, given: bytes) -> None:
        """Let the call go on; it may have ended meanwhile."""
        self.given = given
        self.answered.set()
        if self._outcome is not None:
            self.end_turn(self._outcome)
            self._outcome = None

    def end(self, outcome: Outcome) -> None:
        """Store the outcome, or pass it to the waiting message."""
        self._operation = FINISHED
        self.ended.set()
        if self.is_awaited:
            self.end_turn(outcome)
        else:
            self._outcome = outcome

    def cancel(self) -> None:
        self._turn = None
        self.ended.set()
        self._operation.cancel()


class _Turn:
    """A message of the client that waits for a call's next words."""

    def __init__(
        self, call: _Call, on_turn: OnFinished[Outcome | InputRequired], on_progress: OnProgress | None
    ) -> None:
        self.on_turn = on_turn
        self.on_progress = on_progress
        self._call = call

    def cancel(self) -> None:
        """Cancel the call. Does nothing once the turn has ended."""
        if self._call.is_turn(self):
            self._call.cancel()


def _read_given(question: Asked, answer: bytes | None) -> bytes | None:
    """Return the client's answer; None if it does not fit the question."""
    if answer is None:
        return None
    try:
        return question.read_result(answer)
    except msgspec.DecodeError:
        return None


def _sort_arguments(arguments: Arguments) -> str:
    return json.dumps(arguments.value, sort_keys=True)  # 1 is not True here


@asynccontextmanager
async def open_suspended_calls() -> AsyncIterator[SuspendedCalls]:
    """For as long as a session lasts: at its end, its calls are cancelled."""
    async with trio.open_nursery() as nursery:
        suspended = SuspendedCalls(nursery)
        try:
            yield suspended
        finally:
            suspended.cancel_all()
            nursery.cancel_scope.cancel()
