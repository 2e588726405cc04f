"""A request that waits for its answer: how long still, and what its page reports and asks before it."""

from __future__ import annotations

import logging
import math

import trio

from bridge.errors import CallError
from bridge.hub.transport import QUESTION_S, Caller, OnQuestion
from bridge.links.outbox import Outgoing
from native_host import wire
from native_host.envelope import Envelope
from native_host.wire import Code

_log = logging.getLogger(__name__)


class Waiter:
    """Waits in a scope that ends after `timeout_s`, and moves that end."""

    def __init__(self, scope: trio.CancelScope, timeout_s: float, caller: Caller) -> None:
        self.outgoing: Outgoing | None = None
        self.answer: Envelope | None = None
        self.done = trio.Event()
        self._scope = scope
        self._timeout_s = timeout_s
        self._caller = caller
        self._question: Question | None = None

    @property
    def may_have_been_handed(self) -> bool:
        """Whether the page may have got the request."""
        return self.outgoing is not None and self.outgoing.is_sent

    def settle(self, answer: Envelope | None) -> None:
        """With the answer, or without one when the link has ended."""
        self.answer = answer
        self.done.set()

    def end(self) -> None:
        """Nobody waits any more: nor for the answer to a question."""
        if self._question:
            self._question.scope.cancel()

    def progress(self, progress: wire.Progress) -> None:
        """A call that reports is alive: its time starts anew."""
        if self._question:
            self._question.left_s = self._timeout_s
        else:
            self._scope.deadline = trio.current_time() + self._timeout_s
        if self._caller.on_progress:
            self._caller.on_progress(progress)

    def open_question(self) -> Question:
        """A question of the page; until it has been put, the time stands still.

        Raises:
            CallError: nobody can be asked now.
        """
        if self._caller.on_question is None:
            text = "this MCP client cannot ask the person: the page has to do without an answer"
            raise CallError(Code.METHOD_NOT_FOUND, text, handed=False)
        if self._question:
            text = "another question of this call is open: ask again when it is answered"
            raise CallError(Code.RATE_LIMITED, text, handed=False)
        self._question = Question(self._caller.on_question, self._scope.deadline - trio.current_time())
        self._scope.deadline = math.inf
        return self._question

    async def put(self, question: Question, asked: wire.ElicitConfirmation) -> bytes:
        """Put the question that was opened; the person's answer as an MCP ElicitResult (JSON).

        Raises:
            CallError: there is no answer. `handed` says whether the person may have been asked.
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
            self._scope.deadline = trio.current_time() + question.left_s
            self._question = None
        if question.scope.cancelled_caught:
            raise CallError(Code.GONE, "the call that asked has ended", handed=True)
        raise CallError(Code.TIMED_OUT, f"nobody answered within {QUESTION_S:g} s", handed=True)


class Question:
    """A page's question that is open."""

    def __init__(self, on_question: OnQuestion, left_s: float) -> None:
        self.on_question = on_question
        self.left_s = left_s
        """For the call, once it is answered."""
        self.scope = trio.CancelScope()
