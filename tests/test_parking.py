"""Parked calls: how long they are kept, and what becomes of them."""

from collections.abc import Awaitable, Callable
from typing import NoReturn

import pytest
import trio
import trio.testing

from bridge.errors import CallError
from bridge.hub.transport import QUESTION_S, Caller
from bridge.parking import LAST_WORDS_S, MAX_PARKED, Parked, Parking, Request, RetryError, open_parking
from native_host import wire

CART = Request("getCart", {})
BUY = wire.ElicitConfirmation(message="Buy?")
YES = b'{"action":"accept","content":{}}'


async def asking(caller: Caller) -> bytes:
    """A call that returns what the person says."""
    assert caller.on_question
    return await caller.on_question(BUY)


async def taken_back(caller: Caller) -> bytes:
    """A call whose page goes while the person thinks."""
    with trio.move_on_after(1):
        await asking(caller)
    return b"gone"


async def parked(turn: Awaitable[bytes | Parked]) -> str:
    found = await turn
    assert isinstance(found, Parked)
    return found.state


@pytest.mark.parametrize(("run", "result"), [(asking, YES), (taken_back, b"gone")])
async def test_a_call_is_kept_as_long_as_its_question_may_be_answered(
    run: Callable[[Caller], Awaitable[bytes]], result: bytes, autojump_clock: trio.testing.MockClock
) -> None:
    with trio.fail_after(2 * QUESTION_S):
        async with open_parking() as parking:
            in_time = await parked(parking.run(CART, run))
            too_late = await parked(parking.run(CART, run))
            await trio.sleep(QUESTION_S - 1)
            assert await parking.resume(in_time, CART, YES) == result
            await trio.sleep(1)
            with pytest.raises(RetryError, match="may have run"):
                await parking.resume(too_late, CART, YES)


async def going_on(caller: Caller) -> NoReturn:
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
    async def park(parking: Parking) -> str:
        return await parked(parking.run(CART, going_on, on_progress=lambda _: None))

    with trio.fail_after(10 * QUESTION_S):
        async with open_parking() as parking:
            for _ in range(3):
                states = [await park(parking) for _ in range(MAX_PARKED)]
                with pytest.raises(CallError, match="ask again later"):
                    await park(parking)
                await trio.sleep(QUESTION_S + LAST_WORDS_S)
                await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(RetryError, match=r"nobody answered it within 120 s .* may have run"):
                await parking.resume(states[0], CART, YES)


async def test_an_answered_call_takes_as_long_as_it_needs(autojump_clock: trio.testing.MockClock) -> None:
    async def run(caller: Caller) -> bytes:
        answer = await asking(caller)
        await trio.sleep(2 * QUESTION_S)
        return answer

    with trio.fail_after(5 * QUESTION_S):
        async with open_parking() as parking:
            state = await parked(parking.run(CART, run))
            assert await parking.resume(state, CART, YES) == YES


async def test_the_end_of_the_session_cancels_what_is_parked() -> None:
    is_cancelled = False

    async def run(caller: Caller) -> bytes:
        nonlocal is_cancelled
        try:
            return await asking(caller)
        except trio.Cancelled:
            is_cancelled = True
            raise

    with trio.fail_after(5):
        async with open_parking() as parking:
            await parked(parking.run(CART, run))
    assert is_cancelled


async def test_what_goes_wrong_in_a_call_is_raised_where_it_is_awaited() -> None:
    async def run(caller: Caller) -> NoReturn:
        await asking(caller)
        raise LookupError("in the call")

    with trio.fail_after(5):
        async with open_parking() as parking:
            state = await parked(parking.run(CART, run))
            with pytest.raises(LookupError, match="in the call"):
                await parking.resume(state, CART, YES)
