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


async def accept(_method: str, _params: Params) -> Params:
    return {"action": "accept"}


PAGE = RemoteObserver(on_request=accept, is_of_page=True)
CLIENT = RemoteObserver(on_request=accept)


@pytest.fixture
def calls() -> RunningCalls:
    return RunningCalls(())


async def cancel_call(calls: RunningCalls, observer: RemoteObserver) -> None:
    """Begin a call, and cancel it while the server works."""
    with trio.CancelScope() as scope, calls.start("tools/call", observer, TIMEOUT_S):
        scope.cancel()
        await trio.sleep_forever()


async def test_what_a_cancelled_call_of_a_page_asks_reaches_no_other_call_s_client(
    calls: RunningCalls, autojump_clock: trio.testing.MockClock
) -> None:
    await cancel_call(calls, PAGE)
    with calls.start("tools/call", CLIENT, TIMEOUT_S):
        with pytest.raises(CallError, match="a page"):
            await calls.answer(ELICIT, {})
        await trio.sleep(TIMEOUT_S)
        assert await calls.answer(ELICIT, {}) == {"action": "accept"}


async def test_a_call_of_a_page_still_answers_what_the_server_asks_in_it(calls: RunningCalls) -> None:
    await cancel_call(calls, PAGE)
    with calls.start("tools/call", PAGE, TIMEOUT_S):
        assert await calls.answer(ELICIT, {}) == {"action": "accept"}


@pytest.mark.parametrize("error", [RemoteReportedError(-32602, "q is missing"), CallError(-1, handed=False)])
async def test_a_call_of_a_page_that_the_server_has_ended_asks_no_more(
    calls: RunningCalls, error: CallError
) -> None:
    with calls.start("tools/call", PAGE, TIMEOUT_S):
        pass
    with pytest.raises(CallError), calls.start("tools/call", PAGE, TIMEOUT_S):
        raise error
    await cancel_call(calls, CLIENT)
    with calls.start("tools/call", CLIENT, TIMEOUT_S):
        assert await calls.answer(ELICIT, {}) == {"action": "accept"}
