"""Requests of a remote server that do not say which call they belong to."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from bridge.errors import CallError
from bridge.links.remote_calls import Params, RemoteObserver, RunningCalls
from bridge.links.remote_problem import RemoteReportedError

TIMEOUT_S = 60.0
ELICIT = "elicitation/create"
ACCEPTED = {"action": "accept"}


async def accept(_method: str, _params: Params) -> Params:
    return ACCEPTED


ONE = RemoteObserver(on_request=accept, caller="one")
OTHER = RemoteObserver(on_request=accept, caller="other")


@pytest.fixture
def calls() -> RunningCalls:
    return RunningCalls(())


async def cancel_call(calls: RunningCalls, observer: RemoteObserver) -> None:
    """Begin a call, and cancel it while the server works."""
    with trio.CancelScope() as scope, calls.start("tools/call", observer, TIMEOUT_S):
        scope.cancel()
        await trio.sleep_forever()


async def test_what_a_cancelled_call_asks_reaches_no_other_caller_until_its_timeout(
    calls: RunningCalls, autojump_clock: trio.testing.MockClock
) -> None:
    await cancel_call(calls, ONE)
    with calls.start("tools/call", OTHER, TIMEOUT_S):
        with pytest.raises(CallError, match="another client's call"):
            await calls.answer(ELICIT, {})
        await trio.sleep(TIMEOUT_S)
        assert await calls.answer(ELICIT, {}) == ACCEPTED


async def test_the_caller_of_a_cancelled_call_answers_in_its_next_one(calls: RunningCalls) -> None:
    await cancel_call(calls, ONE)
    with calls.start("tools/call", ONE, TIMEOUT_S):
        assert await calls.answer(ELICIT, {}) == ACCEPTED


async def test_a_new_connection_has_no_cancelled_calls(calls: RunningCalls) -> None:
    await cancel_call(calls, ONE)
    calls.forget_abandoned()
    with calls.start("tools/call", OTHER, TIMEOUT_S):
        assert await calls.answer(ELICIT, {}) == ACCEPTED


@pytest.mark.parametrize("error", [RemoteReportedError(-32602, "q is missing"), CallError(-1, handed=False)])
async def test_a_call_that_the_server_has_ended_asks_no_more(calls: RunningCalls, error: CallError) -> None:
    with calls.start("tools/call", ONE, TIMEOUT_S):
        pass
    with pytest.raises(CallError), calls.start("tools/call", ONE, TIMEOUT_S):
        raise error
    with calls.start("tools/call", OTHER, TIMEOUT_S):
        assert await calls.answer(ELICIT, {}) == ACCEPTED
