"""Suspended calls: how long they are kept, and how they end."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import NoReturn

import pytest
import trio
import trio.testing

from bridge.errors import CallError, UnknownToolError
from bridge.hub.argument_validation import Arguments
from bridge.hub.operation import FINISHED, OnFinished, Operation
from bridge.hub.page_call import Outcome
from bridge.hub.transport import QUESTION_S, CallObserver, OnProgress
from bridge.mcp_session import elicitation
from bridge.mcp_session.client_messages import CanAsk
from bridge.mcp_session.input_required import (
    LAST_WORDS_S,
    MAX_SUSPENDED,
    InputRequired,
    Request,
    RetryError,
    SuspendedCalls,
    open_suspended_calls,
)
from native_host.protocol import wire

CART = Request("tools/call", "getCart", Arguments(b"{}"))
BUY = wire.ElicitConfirmation(message="Buy?")
YES = elicitation.make_elicit_result("accept", {})
Run = Callable[[CallObserver], Awaitable[bytes]]


class Runner:
    """Begins calls as a router does; each is a coroutine."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery

    def begin(self, run: Run, on_done: Callable[[Outcome], None], caller: CallObserver) -> Operation:
        scope = trio.CancelScope()

        async def see_through() -> None:
            with scope:
                on_done(await run(caller))

        self._nursery.start_soon(see_through)
        return scope


class Turns:
    """The messages of a client that wait for a call's next words."""

    def __init__(self, suspended: SuspendedCalls, runner: Runner) -> None:
        self._suspended = suspended
        self._runner = runner

    async def begin(self, run: Run, on_progress: OnProgress | None = None) -> Outcome | InputRequired:
        return await self._wait(
            lambda on_turn: self._suspended.begin(
                CART, partial(self._runner.begin, run), on_turn, on_progress, can_ask=CanAsk(person=True)
            )
        )

    async def resume(self, state: str, answer: bytes | None = YES) -> Outcome | InputRequired:
        return await self._wait(lambda on_turn: self._suspended.resume(state, CART, answer, on_turn))

    async def park(self, run: Run, on_progress: OnProgress | None = None) -> str:
        found = await self.begin(run, on_progress)
        assert isinstance(found, InputRequired)
        return found.state

    async def _wait(
        self, take: Callable[[OnFinished[Outcome | InputRequired]], Operation]
    ) -> Outcome | InputRequired:
        send, receive = trio.open_memory_channel[Outcome | InputRequired](1)
        take(send.send_nowait)
        return await receive.receive()


@asynccontextmanager
async def taking_turns() -> AsyncIterator[Turns]:
    async with trio.open_nursery() as nursery:
        async with open_suspended_calls() as suspended:
            yield Turns(suspended, Runner(nursery))
        nursery.cancel_scope.cancel()


async def asking(caller: CallObserver) -> bytes:
    """A call that returns what the person says."""
    assert caller.on_question
    return await caller.on_question(BUY)


async def taken_back(caller: CallObserver) -> bytes:
    """A call whose page goes while the person thinks."""
    with trio.move_on_after(1):
        await asking(caller)
    return b"gone"


@pytest.mark.parametrize(("run", "result"), [(asking, YES), (taken_back, b"gone")])
async def test_a_call_is_kept_as_long_as_its_question_may_be_answered(
    run: Run, result: bytes, autojump_clock: trio.testing.MockClock
) -> None:
    with trio.fail_after(2 * QUESTION_S):
        async with taking_turns() as turns:
            in_time = await turns.park(run)
            too_late = await turns.park(run)
            await trio.sleep(QUESTION_S - 1)
            assert await turns.resume(in_time) == result
            await trio.sleep(1)
            with pytest.raises(RetryError, match="may have run"):
                await turns.resume(too_late)


async def going_on(caller: CallObserver) -> NoReturn:
    """A call whose page goes on, and reports that it does, after nobody has answered it."""
    assert caller.on_progress
    with trio.move_on_after(QUESTION_S):
        await asking(caller)
    while True:
        caller.on_progress(wire.Progress(progress=1))
        await trio.sleep(1)


async def test_a_call_whose_question_nobody_answered_is_cancelled_and_its_place_is_free(
    autojump_clock: trio.testing.MockClock,
) -> None:
    refusals: list[str] = []

    async def refused(caller: CallObserver) -> bytes:
        try:
            return await asking(caller)
        except CallError as error:
            refusals.append(error.detail)
            return b"refused"

    with trio.fail_after(10 * QUESTION_S):
        async with taking_turns() as turns:
            for _ in range(3):
                states = [await turns.park(going_on, lambda _: None) for _ in range(MAX_SUSPENDED)]
                assert await turns.begin(refused) == b"refused"
                await trio.sleep(QUESTION_S + LAST_WORDS_S)
                await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(RetryError, match=r"not answered within 120 s .* may have run"):
                await turns.resume(states[0])
    assert len(refusals) == 3
    assert all("ask again later" in refusal for refusal in refusals)


async def test_an_answered_call_takes_as_long_as_it_needs(autojump_clock: trio.testing.MockClock) -> None:
    async def run(caller: CallObserver) -> bytes:
        answer = await asking(caller)
        await trio.sleep(2 * QUESTION_S)
        return answer

    with trio.fail_after(5 * QUESTION_S):
        async with taking_turns() as turns:
            state = await turns.park(run)
            assert await turns.resume(state) == YES


async def test_the_end_of_the_session_cancels_what_is_parked() -> None:
    is_cancelled = trio.Event()

    async def run(caller: CallObserver) -> bytes:
        try:
            return await asking(caller)
        except trio.Cancelled:
            is_cancelled.set()
            raise

    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            async with open_suspended_calls() as suspended:
                await Turns(suspended, Runner(nursery)).park(run)
            await is_cancelled.wait()


async def test_a_call_of_an_unknown_name_is_told_when_it_is_resumed() -> None:
    """Its page may go, and the name with it, while the person thinks."""
    nobody = UnknownToolError("getCart")
    ends: list[Callable[[Outcome], None]] = []

    def begin(on_done: Callable[[Outcome], None], caller: CallObserver) -> Operation:
        assert caller.on_question
        nursery.start_soon(caller.on_question, BUY)
        ends.append(on_done)
        return FINISHED

    told: list[Outcome | InputRequired] = []
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery, open_suspended_calls() as suspended:
            suspended.begin(CART, begin, told.append, can_ask=CanAsk(person=True))
            await trio.testing.wait_all_tasks_blocked()
            ends[0](nobody)
            asked = told.pop()
            assert isinstance(asked, InputRequired)
            suspended.resume(asked.state, CART, YES, told.append)
    assert told == [nobody]
