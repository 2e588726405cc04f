"""Suspended calls: how long they are kept, and how they end."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import NoReturn

import msgspec
import pytest
import trio
import trio.testing

from bridge.errors import CallError, UnknownToolError
from bridge.hub.argument_validation import Arguments
from bridge.hub.operation import FINISHED, OnFinished, Operation
from bridge.hub.page_call import Outcome
from bridge.hub.primitives.log_message import LogLevel, LogMessage, LogRecipient
from bridge.hub.server_request import FORMS, SERVER_REQUEST_S, ClientSupport, ServerRequest
from bridge.hub.transport import CallObserver, OnProgress
from bridge.mcp_session import elicitation
from bridge.mcp_session.input_required import (
    COLLECT_S,
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
ALL = ClientSupport(elicitation=True, sampling=True, roots=True)
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

    def __init__(self, suspended: SuspendedCalls, runner: Runner, support: ClientSupport = FORMS) -> None:
        self._suspended = suspended
        self._runner = runner
        self._support = support

    async def begin(
        self, run: Run, on_progress: OnProgress | None = None, log: LogRecipient | None = None
    ) -> Outcome | InputRequired:
        return await self._wait(
            lambda on_turn: self._suspended.begin(
                CART, partial(self._runner.begin, run), on_turn, on_progress, log, support=self._support
            )
        )

    async def resume(
        self, state: str, log: LogRecipient | None = None, /, **responses: bytes
    ) -> Outcome | InputRequired:
        """Retry with the responses, by the keys of their requests; a yes to the first is the default."""
        given = responses or {"question": YES}
        return await self._wait(lambda on_turn: self._suspended.resume(state, CART, given, on_turn, log=log))

    async def park(
        self, run: Run, on_progress: OnProgress | None = None, log: LogRecipient | None = None
    ) -> str:
        found = await self.begin(run, on_progress, log)
        assert isinstance(found, InputRequired)
        return found.state

    async def _wait(
        self, take: Callable[[OnFinished[Outcome | InputRequired]], Operation]
    ) -> Outcome | InputRequired:
        send, receive = trio.open_memory_channel[Outcome | InputRequired](1)
        take(send.send_nowait)
        return await receive.receive()


@asynccontextmanager
async def taking_turns(support: ClientSupport = FORMS) -> AsyncIterator[Turns]:
    async with trio.open_nursery() as nursery:
        async with open_suspended_calls() as suspended:
            yield Turns(suspended, Runner(nursery), support)
        nursery.cancel_scope.cancel()


async def asking(caller: CallObserver) -> bytes:
    """A call that returns what the person says."""
    return await caller.on_request(BUY)


async def taken_back(caller: CallObserver) -> bytes:
    """A call whose page goes while the person thinks."""
    with trio.move_on_after(1):
        await asking(caller)
    return b"gone"


@pytest.mark.parametrize(("run", "result"), [(asking, YES), (taken_back, b"gone")])
async def test_a_call_is_kept_as_long_as_its_question_may_be_answered(
    run: Run, result: bytes, autojump_clock: trio.testing.MockClock
) -> None:
    with trio.fail_after(2 * SERVER_REQUEST_S):
        async with taking_turns() as turns:
            in_time = await turns.park(run)
            too_late = await turns.park(run)
            await trio.sleep(SERVER_REQUEST_S - 1)
            assert await turns.resume(in_time) == result
            await trio.sleep(1)
            with pytest.raises(RetryError, match="may have run"):
                await turns.resume(too_late)


async def going_on(caller: CallObserver) -> NoReturn:
    """A call whose page goes on, and reports that it does, after nobody has answered it."""
    assert caller.on_progress
    with trio.move_on_after(SERVER_REQUEST_S):
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

    with trio.fail_after(10 * SERVER_REQUEST_S):
        async with taking_turns() as turns:
            for _ in range(3):
                states = [await turns.park(going_on, lambda _: None) for _ in range(MAX_SUSPENDED)]
                assert await turns.begin(refused) == b"refused"
                await trio.sleep(SERVER_REQUEST_S + LAST_WORDS_S)
                await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(RetryError, match=r"not answered within 120 s .* may have run"):
                await turns.resume(states[0])
    assert len(refusals) == 3
    assert all("ask again later" in refusal for refusal in refusals)


async def test_an_answered_call_takes_as_long_as_it_needs(autojump_clock: trio.testing.MockClock) -> None:
    async def run(caller: CallObserver) -> bytes:
        answer = await asking(caller)
        await trio.sleep(2 * SERVER_REQUEST_S)
        return answer

    with trio.fail_after(5 * SERVER_REQUEST_S):
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
        nursery.start_soon(caller.on_request, BUY)
        ends.append(on_done)
        return FINISHED

    told: list[Outcome | InputRequired] = []
    is_told = trio.Event()

    def on_turn(outcome: Outcome | InputRequired) -> None:
        told.append(outcome)
        is_told.set()

    with trio.fail_after(30):
        async with trio.open_nursery() as nursery, open_suspended_calls() as suspended:
            suspended.begin(CART, begin, on_turn, support=FORMS)
            await is_told.wait()
            ends[0](nobody)
            asked = told.pop()
            assert isinstance(asked, InputRequired)
            suspended.resume(asked.state, CART, {"question": YES}, on_turn)
    assert told == [nobody]


PARAMS = msgspec.Raw(b'{"messages":[],"maxTokens":1}')
SAMPLING = wire.PageRequest(method="sampling/createMessage", params=PARAMS)
ROOTS = wire.PageRequest(method="roots/list")
WORDS = b'{"role":"assistant","content":{"type":"text","text":"hi"},"model":"m"}'
LISTED = b'{"roots":[{"uri":"file:///srv"}]}'


async def asking_three_at_once(caller: CallObserver) -> bytes:
    """A call whose page asks the user, the model, and for the roots; it returns the three results."""
    send, results = caller.on_request, [b"", b"", b""]

    async def ask(number: int, request: ServerRequest) -> None:
        results[number] = await send(request)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, 0, BUY)
        nursery.start_soon(ask, 1, SAMPLING)
        nursery.start_soon(ask, 2, ROOTS)
    return b" ".join(results)


def keys_of(suspension: InputRequired) -> dict[str, str]:
    """Return the keys of the requests by their methods."""
    return {request.method.partition("/")[0]: key for key, request in suspension.requests.items()}


async def test_requests_at_once_share_one_suspension_each_under_its_own_key(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with taking_turns(ALL) as turns:
        suspension = await turns.begin(asking_three_at_once)
        assert isinstance(suspension, InputRequired)
        keys = keys_of(suspension)
        assert len(keys) == 3
        responses = {keys["elicitation"]: YES, keys["sampling"]: WORDS, keys["roots"]: LISTED}
        assert await turns.resume(suspension.state, **responses) == b" ".join((YES, WORDS, LISTED))


async def test_a_retry_may_answer_some_requests_and_the_others_are_sent_again(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with taking_turns(ALL) as turns:
        first = await turns.begin(asking_three_at_once)
        assert isinstance(first, InputRequired)
        keys = keys_of(first)
        second = await turns.resume(first.state, **{keys["sampling"]: WORDS, keys["roots"]: YES})
        assert isinstance(second, InputRequired)
        left = {method: key for method, key in keys.items() if method != "sampling"}
        assert (second.state != first.state, keys_of(second)) == (True, left)
        found = await turns.resume(second.state, **{left["elicitation"]: YES, left["roots"]: LISTED})
        assert found == b" ".join((YES, WORDS, LISTED))


async def test_a_request_that_the_page_cancels_is_not_sent(autojump_clock: trio.testing.MockClock) -> None:
    async def run(caller: CallObserver) -> bytes:
        with trio.move_on_after(COLLECT_S / 2):
            await asking(caller)
        return b"without an answer"

    async with taking_turns() as turns:
        assert await turns.begin(run) == b"without an answer"


async def test_a_request_during_a_suspension_is_sent_after_the_retry(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def run(caller: CallObserver) -> bytes:
        send = caller.on_request
        async with trio.open_nursery() as nursery:
            nursery.start_soon(send, BUY)
            await trio.sleep(1)
            return await send(ROOTS)

    async with taking_turns(ALL) as turns:
        state = await turns.park(run)
        await trio.sleep(2)
        suspension = await turns.resume(state)
        assert isinstance(suspension, InputRequired)
        assert [each.method for each in suspension.requests.values()] == ["roots/list"]
        assert await turns.resume(suspension.state, **{next(iter(suspension.requests)): LISTED}) == LISTED


async def test_a_result_does_not_fit_a_later_request_of_the_same_suspension(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Else a page could cancel a harmless question, and its answer would approve something else."""

    async def run(caller: CallObserver) -> bytes:
        with trio.move_on_after(1):
            await caller.on_request(BUY)
        return await caller.on_request(BUY)

    async with taking_turns() as turns:
        first = await turns.begin(run)
        assert isinstance(first, InputRequired)
        await trio.sleep(2)
        second = await turns.resume(first.state, **dict.fromkeys(first.requests, YES))
        assert isinstance(second, InputRequired)
        assert not first.requests.keys() & second.requests.keys()


class Log:
    """What one message of a client receives."""

    def __init__(self, level: LogLevel) -> None:
        self.level = level
        self.texts: list[str] = []

    def write(self, message: LogMessage) -> bool:
        self.texts.append(message.data)
        return True


async def test_log_messages_go_to_the_message_that_waits_at_its_level(
    autojump_clock: trio.testing.MockClock,
) -> None:
    levels: list[LogLevel | None] = []

    async def run(caller: CallObserver) -> bytes:
        def write(text: str) -> bool:
            assert caller.log
            levels.append(caller.log.level)
            return caller.log.write(LogMessage("error", "", text, ""))

        assert write("before")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(caller.on_request, BUY)
            await trio.sleep(1)
            assert not write("suspended")
        assert write("retried")
        await caller.on_request(BUY)
        assert not write("to a message without a level")
        return b""

    first, second = Log("debug"), Log("error")
    async with taking_turns() as turns:
        state = await turns.park(run, log=first)
        await trio.sleep(2)
        suspension = await turns.resume(state, second)
        assert isinstance(suspension, InputRequired)
        assert await turns.resume(suspension.state, **dict.fromkeys(suspension.requests, YES)) == b""
    assert levels == ["debug", None, "error", None]
    assert (first.texts, second.texts) == (["before"], ["retried"])
