"""The time of a request that waits: what moves its end."""

import math
from typing import NoReturn

import msgspec
import pytest
import trio
import trio.testing

from bridge.errors import CallError
from bridge.hub.server_request import FORMS, SERVER_REQUEST_S, ServerRequest
from bridge.hub.transport import NO_OBSERVER, CallObserver, OfferObserver, OnOfferedCall
from bridge.links.browsers.pending_requests import MAX_OFFERED_CALLS, Deadlines, PendingRequest
from native_host.protocol import wire
from native_host.protocol.wire import Code

TIMEOUT_S = 10
BUY = wire.ElicitConfirmation(message="Buy?")


async def think(_asked: ServerRequest) -> bytes:
    await trio.sleep(100)
    return b'{"action":"accept","content":{}}'


async def forget(_asked: ServerRequest) -> NoReturn:
    await trio.sleep_forever()


async def forget_call(_call: wire.OfferedCall) -> NoReturn:
    await trio.sleep_forever()


class Asked(PendingRequest):
    """A request that never gets an answer by itself."""

    def __init__(
        self, deadlines: Deadlines, caller: CallObserver = NO_OBSERVER, timeout_s: float = TIMEOUT_S
    ) -> None:
        super().__init__(timeout_s, self._done, caller, deadlines)
        self.answers: list[bytes | CallError] = []
        self.over = trio.Event()
        self.times_given_up = 0

    def _done(self, answer: bytes | CallError) -> None:
        self.answers.append(answer)
        self.over.set()

    def withdraw(self) -> bool:
        self.times_given_up += 1
        return True

    async def wait_over(self) -> None:
        with trio.fail_after(1000):
            await self.over.wait()


@pytest.fixture
async def deadlines(nursery: trio.Nursery) -> Deadlines:
    deadlines = Deadlines()
    nursery.start_soon(deadlines.run)
    return deadlines


async def put(waiter: PendingRequest) -> None:
    await waiter.answer_server_request(b"1", waiter.open_server_request(b"1", BUY))


async def test_what_is_not_answered_in_time_is_given_up_and_may_have_run(
    deadlines: Deadlines, autojump_clock: trio.testing.MockClock
) -> None:
    began = trio.current_time()
    asked = Asked(deadlines)
    await asked.wait_over()
    assert trio.current_time() - began == pytest.approx(TIMEOUT_S)
    (error,) = asked.answers
    assert isinstance(error, CallError)
    assert (error.code, error.detail, error.handed) == (Code.TIMED_OUT, "10 s have passed", True)
    assert asked.times_given_up == 1


async def test_each_ends_in_its_own_time_whichever_was_asked_first(
    deadlines: Deadlines, autojump_clock: trio.testing.MockClock
) -> None:
    began = trio.current_time()
    slow, quick = Asked(deadlines, timeout_s=9), Asked(deadlines, timeout_s=2)
    await trio.sleep(1)
    quickest = Asked(deadlines, timeout_s=0.5)
    for asked, after_s in ((quickest, 1.5), (quick, 2), (slow, 9)):
        await asked.wait_over()
        assert trio.current_time() - began == pytest.approx(after_s)


async def test_it_ends_once(deadlines: Deadlines, autojump_clock: trio.testing.MockClock) -> None:
    answered, cancelled = Asked(deadlines), Asked(deadlines)
    answered.complete(b"1")
    answered.cancel()
    cancelled.cancel()
    cancelled.cancel()
    await trio.sleep(2 * TIMEOUT_S)
    assert (answered.answers, answered.times_given_up) == ([b"1"], 0)
    assert (cancelled.answers, cancelled.times_given_up) == ([], 1)


async def test_while_a_question_is_open_the_time_stands_still_and_then_goes_on(
    deadlines: Deadlines, autojump_clock: trio.testing.MockClock
) -> None:
    began = trio.current_time()
    asked = Asked(deadlines, CallObserver(on_request=think, support=FORMS))
    await trio.sleep(4)
    await put(asked)
    await trio.sleep(3)
    await put(asked)
    await asked.wait_over()
    assert trio.current_time() - began == pytest.approx(TIMEOUT_S + 2 * 100)


async def test_progress_during_a_question_gives_the_whole_time_afterwards(
    deadlines: Deadlines, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    began = trio.current_time()
    asked = Asked(deadlines, CallObserver(on_request=think, support=FORMS))
    await trio.sleep(9)
    nursery.start_soon(put, asked)
    await trio.sleep(1)
    asked.report_progress(wire.Progress(progress=1))
    assert asked.deadline == math.inf
    await asked.wait_over()
    assert trio.current_time() - began == pytest.approx(9 + 100 + TIMEOUT_S)


async def test_a_question_that_nobody_answers_ends_in_time_and_its_call_goes_on(
    deadlines: Deadlines, autojump_clock: trio.testing.MockClock
) -> None:
    asked = Asked(deadlines, CallObserver(on_request=forget, support=FORMS))
    began = trio.current_time()
    with pytest.raises(CallError) as caught:
        await put(asked)
    assert trio.current_time() - began == pytest.approx(SERVER_REQUEST_S)
    assert asked.deadline == pytest.approx(trio.current_time() + TIMEOUT_S)
    assert (caught.value.code, caught.value.handed) == (Code.TIMED_OUT, True)
    assert caught.value.detail == "the client did not answer within 120 s"


# ── Calls of offered tools ──────────────────────────────────────────────────────────────────────────────────


CALL = wire.OfferedCall(name="orders.search", args=msgspec.Raw(b"{}"))


async def call_tool(offer: PendingRequest, raw_id: bytes) -> bytes:
    return await offer.answer_server_request(raw_id, offer.open_server_request(raw_id, CALL))


def offer_with(on_call: OnOfferedCall, deadlines: Deadlines) -> Asked:
    observer = CallObserver(offer=OfferObserver(lambda _: None, on_call))
    return Asked(deadlines, observer, timeout_s=math.inf)


async def test_a_call_of_an_offered_tool_has_no_time_limit_of_its_own(
    deadlines: Deadlines, autojump_clock: trio.testing.MockClock
) -> None:
    async def work(call: wire.OfferedCall) -> bytes:
        await trio.sleep(10 * SERVER_REQUEST_S)
        return call.name.encode()

    assert await call_tool(offer_with(work, deadlines), b"1") == b"orders.search"


async def test_a_request_that_offers_no_tools_gets_no_calls(deadlines: Deadlines) -> None:
    with pytest.raises(CallError) as rejected:
        await call_tool(Asked(deadlines), b"1")
    assert rejected.value.code == Code.METHOD_NOT_FOUND


async def test_an_offer_answers_no_questions_of_pages(deadlines: Deadlines) -> None:
    async def work(_call: wire.OfferedCall) -> bytes:
        raise AssertionError

    with pytest.raises(CallError) as rejected:
        await put(offer_with(work, deadlines))
    assert rejected.value.code == Code.METHOD_NOT_FOUND


async def test_calls_of_an_offer_end_with_it_or_when_the_page_cancels_them(
    deadlines: Deadlines, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    ended: list[tuple[bytes, int]] = []
    offer = offer_with(forget_call, deadlines)

    async def call(raw_id: bytes) -> None:
        try:
            await call_tool(offer, raw_id)
        except CallError as error:
            ended.append((raw_id, error.code))

    for number in range(MAX_OFFERED_CALLS + 1):
        nursery.start_soon(call, b'"%d"' % number)
    await trio.testing.wait_all_tasks_blocked()
    ((too_many, code),) = ended
    assert code == Code.RATE_LIMITED
    cancelled = "1" if too_many == b'"0"' else "0"
    offer.handle_notification(wire.CancelledRequest(id=cancelled))
    await trio.testing.wait_all_tasks_blocked()
    assert ended[1:] == [(msgspec.json.encode(cancelled), Code.GONE)]
    offer.cancel()
    await trio.testing.wait_all_tasks_blocked()
    assert len(ended) == MAX_OFFERED_CALLS + 1


async def test_the_state_of_an_offer_is_passed_on(deadlines: Deadlines) -> None:
    states: list[wire.OfferState] = []
    offer = Asked(deadlines, CallObserver(offer=OfferObserver(states.append, forget_call)))
    state = wire.OfferState(active=True, names=["orders.search"])
    offer.handle_notification(state)
    Asked(deadlines).handle_notification(state)
    assert states == [state]
