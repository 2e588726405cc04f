"""Calls that wait for a person, in the era in which a server cannot ask a client.

There a question is the answer to a call: the client asks the person and sends the call once more, with what
they said. Meanwhile the call itself goes on here, apart from whoever waits for it: the second message resumes
it, and runs nothing again. When it does not come in time the call is cancelled: nobody can hear its result
any more, whatever its page still reports. A state, which nobody can guess, tells which call is meant. The
call is held with its own document, so it does not matter what its name means by then.
"""

from __future__ import annotations

import json
import logging
import math
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, NamedTuple

import trio

from bridge import questions
from bridge.errors import CallError
from bridge.hub.transport import QUESTION_S, Caller, OnProgress
from bridge.questions import Question
from native_host import wire
from native_host.wire import Code

MAX_PARKED = 16
"""Of one session."""
LAST_WORDS_S = 1.0
"""So long a call goes on when nobody has answered: its page hears that first, and then of the cancelling."""
_STATE_BYTES = 16

_log = logging.getLogger(__name__)


class Parked(NamedTuple):
    """The call goes on when `Parking.resume` gets this state and the answer to the question."""

    state: str
    question: Question


class Request(NamedTuple):
    """What a client asks to be run; the same in both of its messages."""

    name: str
    arguments: dict[str, Any]


class RetryError(Exception):
    """There is no call to resume; the text says it to the client."""


class Parking:
    """The calls of one session that may be parked."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self._parked: dict[str, _Call] = {}
        """By state."""

    async def run(
        self,
        request: Request,
        run: Callable[[Caller], Awaitable[bytes]],
        on_progress: OnProgress | None = None,
    ) -> bytes | Parked:
        """Run a call until it has its result or a question. Cancelling this cancels the call.

        Only a call that began with `on_progress` reports progress, then and when it is resumed.

        Raises:
            Exception: whatever `run` raises.
        """
        call = _Call(request)
        on_question = questions.bounded(partial(self._park, call))
        caller = Caller(call.report if on_progress else None, on_question)
        self._nursery.start_soon(self._see_through, call, partial(run, caller))
        return await call.next_turn(on_progress)

    async def resume(
        self,
        state: str,
        request: Request,
        answer: bytes | None,
        on_progress: OnProgress | None = None,
    ) -> bytes | Parked:
        """Answer the question of a parked call and wait as `run` does; without an answer, ask again.

        Raises:
            RetryError: no call is parked under this state, or another one is.
            Exception: whatever the call raises.
        """
        call = self._parked.get(state)
        if call is None or trio.current_time() >= call.expires_at:
            # It holds for every state that is not parked, so none has to be remembered.
            raise RetryError(
                "The question is closed: it was answered already, or nobody answered it within "
                f"{QUESTION_S:g} s and its call was cancelled. Its call may have run, and was not started "
                "again: look at the page before you repeat it, without requestState."
            )
        if not _are_equal(call.request, request):
            raise RetryError(
                "requestState belongs to another call, and nothing was run. Repeat that call with the same "
                "name and arguments, or make this one without requestState."
            )
        if answer is None:
            return Parked(state, call.question)
        del self._parked[state]
        call.answer(answer)
        return await call.next_turn(on_progress)

    async def _see_through(self, call: _Call, run: Callable[[], Awaitable[bytes]]) -> None:
        await call.run(run)
        # It may end while the person still thinks, when its page goes: the client learns of it as it resumes.
        with trio.move_on_at(call.expires_at):
            await call.answered.wait()
        if self._parked.pop(call.state, None):
            _log.info("%s ended, and the client did not come back for it", call.request.name)

    async def _park(self, call: _Call, asked: wire.ElicitConfirmation) -> bytes:
        question = questions.read(asked)
        if not call.is_awaited:
            raise CallError(Code.GONE, "the client does not wait for this call any more", handed=False)
        if len(self._parked) >= MAX_PARKED:
            text = f"{MAX_PARKED} questions of this client wait for a person: ask again later"
            raise CallError(Code.RATE_LIMITED, text, handed=False)
        state = secrets.token_urlsafe(_STATE_BYTES)
        self._parked[state] = call
        return await call.ask(state, question)


class _Call:
    """A call, and what passes between it and the messages of the client about it."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.is_awaited = False
        """A message of the client waits for what comes next."""
        self.state = ""
        self.question = Question("", {})
        self.expires_at = -math.inf
        self.answered = trio.Event()
        self._answer = b""
        self._on_progress: OnProgress | None = None
        self._scope = trio.CancelScope()
        # Two turns at most: a question that is not taken yet, and the end of its call.
        self._send, self._receive = trio.open_memory_channel[bytes | Parked | Exception](2)

    async def run(self, run: Callable[[], Awaitable[bytes]]) -> None:
        """To its end, whoever waits for it by then, unless nobody answers its question."""
        with self._scope:
            turn: bytes | Exception
            try:
                turn = await run()
            except Exception as error:  # noqa: BLE001  (it belongs to whoever waits)
                turn = error
            self._send.send_nowait(turn)

    async def next_turn(self, on_progress: OnProgress | None) -> bytes | Parked:
        """Its result or its question. Whoever gives this up gives the call up."""
        self.is_awaited, self._on_progress = True, on_progress
        try:
            turn = await self._receive.receive()
        except trio.Cancelled:
            self._scope.cancel()
            raise
        finally:
            self._on_progress = None
        if isinstance(turn, Exception):
            raise turn
        return turn

    def report(self, progress: wire.Progress) -> None:
        """To the message that waits now."""
        if self._on_progress:
            self._on_progress(progress)

    async def ask(self, state: str, question: Question) -> bytes:
        """End the turn with a question, and wait for the answer."""
        self.is_awaited = False
        self.state, self.question = state, question
        self.expires_at = trio.current_time() + QUESTION_S
        self._scope.deadline = self.expires_at + LAST_WORDS_S
        self.answered = trio.Event()
        self._send.send_nowait(Parked(state, question))
        await self.answered.wait()
        return self._answer

    def answer(self, answer: bytes) -> None:
        """Let `ask` return, and the call take its time again."""
        self._answer, self._scope.deadline = answer, math.inf
        self.answered.set()


def _are_equal(one: Request, other: Request) -> bool:
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)  # 1 is not True here


@asynccontextmanager
async def open_parking() -> AsyncIterator[Parking]:
    """For as long as a session lasts: at its end, its calls are cancelled."""
    async with trio.open_nursery() as nursery:
        yield Parking(nursery)
        nursery.cancel_scope.cancel()
