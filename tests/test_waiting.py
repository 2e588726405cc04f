"""The time of a request that waits: what moves its end."""

import math
from typing import NoReturn

import pytest
import trio
import trio.testing

from bridge.errors import CallError
from bridge.hub.transport import QUESTION_S, Caller
from bridge.links.waiting import Waiter
from native_host import wire
from native_host.wire import Code

TIMEOUT_S = 10
BUY = wire.ElicitConfirmation(message="Buy?")


async def think(_asked: wire.ElicitConfirmation) -> bytes:
    await trio.sleep(100)
    return b'{"action":"accept","content":{}}'


async def forget(_asked: wire.ElicitConfirmation) -> NoReturn:
    await trio.sleep_forever()


async def put(waiter: Waiter) -> None:
    await waiter.put(waiter.open_question(), BUY)


async def test_while_a_question_is_open_the_time_stands_still_and_then_goes_on(
    autojump_clock: trio.testing.MockClock,
) -> None:
    began = trio.current_time()
    with trio.move_on_after(TIMEOUT_S) as scope:
        waiter = Waiter(scope, TIMEOUT_S, Caller(on_question=think))
        await trio.sleep(4)
        await put(waiter)
        await trio.sleep(3)
        await put(waiter)
        await waiter.done.wait()
    assert trio.current_time() - began == pytest.approx(TIMEOUT_S + 2 * 100)


async def test_progress_during_a_question_gives_the_whole_time_afterwards(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    began = trio.current_time()
    with trio.move_on_after(TIMEOUT_S) as scope:
        waiter = Waiter(scope, TIMEOUT_S, Caller(on_question=think))
        await trio.sleep(9)
        nursery.start_soon(put, waiter)
        await trio.sleep(1)
        waiter.progress(wire.Progress(progress=1))
        assert scope.deadline == math.inf
        await waiter.done.wait()
    assert trio.current_time() - began == pytest.approx(9 + 100 + TIMEOUT_S)


async def test_a_question_that_nobody_answers_ends_in_time_and_its_call_goes_on(
    autojump_clock: trio.testing.MockClock,
) -> None:
    with trio.move_on_after(TIMEOUT_S) as scope:
        waiter = Waiter(scope, TIMEOUT_S, Caller(on_question=forget))
        began = trio.current_time()
        with pytest.raises(CallError) as caught:
            await put(waiter)
        assert trio.current_time() - began == pytest.approx(QUESTION_S)
        assert scope.deadline == pytest.approx(trio.current_time() + TIMEOUT_S)
    assert (caught.value.code, caught.value.handed) == (Code.TIMED_OUT, True)
    assert caught.value.detail == "nobody answered within 120 s"
