"""Messages on their way to a client of HTTP: nothing is lost, nothing is told twice, nothing grows."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from bridge.frontends.http import event_store
from bridge.frontends.http.event_store import MAX_STORED_EVENTS, EventStream, SessionStream

Send = Callable[[bytes], Awaitable[None]]
SOON_S = 30


def line(number: int) -> bytes:
    return b'{"n":%d}\n' % number


def data_in(text: bytes) -> list[bytes]:
    """The messages of some events."""
    return [part[6:] + b"\n" for part in text.split(b"\n") if part.startswith(b"data: {")]


class Response:
    """Takes what is sent, until it breaks."""

    def __init__(self, breaks_after: int = 10_000) -> None:
        self.text = b""
        self._left = breaks_after

    async def send(self, data: bytes) -> None:
        await trio.lowlevel.checkpoint()
        if not self._left:
            raise trio.BrokenResourceError
        self._left -= 1
        self.text += data


async def test_an_answer_that_is_all_is_taken_as_it_is() -> None:
    stream = EventStream("1")
    stream.answer(b'{"a":', b"1}\n", error=-32601)
    assert stream.pop_only_response() == b'{"a":1}\n'
    assert stream.error == -32601
    assert stream.is_delivered
    assert stream.pop_only_response() is None


async def test_what_comes_before_the_answer_makes_it_a_stream() -> None:
    stream, response = EventStream("7"), Response()
    stream.write(line(1))
    stream.answer(line(2))
    assert stream.pop_only_response() is None
    await stream.pump(response.send)
    assert response.text == (
        b'id: 7-1\nevent: message\ndata: {"n":1}\n\nid: 7-2\nevent: message\ndata: {"n":2}\n\n'
    )


async def test_a_stream_without_a_name_has_no_ids_and_keeps_nothing() -> None:
    stream, response = EventStream(), Response()
    stream.write(line(1))
    stream.answer(line(2))
    await stream.pump(response.send)
    assert b"id:" not in response.text
    assert (stream.stored_bytes, stream.waiting_bytes) == (0, 0)


async def test_who_comes_back_gets_what_it_has_not_got() -> None:
    stream, first, second = EventStream("1"), Response(), Response()
    for number in (1, 2):
        stream.write(line(number))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stream.pump, first.send)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    stream.answer(line(3))
    await stream.pump(second.send, after=1)
    assert data_in(first.text) == [line(1), line(2)]
    assert data_in(second.text) == [line(2), line(3)]
    assert stream.is_last_event(3)
    assert not stream.is_last_event(2)


async def test_a_response_ends_when_a_later_one_takes_over() -> None:
    stream, first, second = EventStream("1"), Response(), Response()
    with trio.fail_after(SOON_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stream.pump, first.send)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(stream.pump, second.send)
            await trio.testing.wait_all_tasks_blocked()
            assert len(nursery.child_tasks) == 1
            assert stream.is_read
            stream.answer(line(1))
    assert (data_in(first.text), data_in(second.text)) == ([], [line(1)])
    assert not stream.is_read


async def test_the_same_news_are_told_once_while_nobody_has_taken_them() -> None:
    stream, response = SessionStream("0"), Response()
    for _ in range(1000):
        stream.write(line(1))
    stream.write(line(2))
    stream.finish()
    await stream.pump(response.send)
    assert data_in(response.text) == [line(1), line(2)]


async def test_the_same_news_are_told_again_to_who_has_taken_them() -> None:
    stream, response = SessionStream("0"), Response()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stream.pump, response.send)
        for _ in range(2):
            stream.write(line(1))
            await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert data_in(response.text) == [line(1), line(1)]


async def test_the_first_words_name_the_place_where_the_response_begins() -> None:
    stream, response = SessionStream("0"), Response()
    stream.write(line(1))
    stream.write(line(2))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stream.pump, response.send)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert stream.priming_event().startswith(b"id: 0-2\n")


async def test_a_stream_that_has_nothing_to_say_says_that_it_is_there(
    autojump_clock: trio.testing.MockClock,
) -> None:
    stream, response = EventStream(), Response()
    with trio.move_on_after(3.5 * event_store.KEEP_ALIVE_S):
        await stream.pump(response.send)
    assert response.text.count(b": still here\n\n") == 3


async def test_a_cancelled_request_has_no_answer() -> None:
    stream = EventStream("1")
    stream.forgo()
    assert stream.is_finished
    assert stream.pop_only_response() is None
    assert await stream.wait_last() == b""


async def test_of_what_was_sent_the_last_is_kept_and_of_what_was_not_everything() -> None:
    stream, response = EventStream("1"), Response()
    sent = 3 * MAX_STORED_EVENTS
    for number in range(sent):
        stream.write(line(number))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stream.pump, response.send)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    for number in range(sent, 2 * sent):
        stream.write(line(number))
    stream.answer(line(2 * sent))
    again = Response()
    await stream.pump(again.send, after=0)
    assert data_in(again.text)[0] == line(sent - MAX_STORED_EVENTS)
    assert data_in(again.text)[-1] == line(2 * sent)
    assert len(data_in(again.text)) == sent + MAX_STORED_EVENTS + 1


async def test_a_client_that_takes_nothing_is_given_up_before_memory_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(event_store, "MAX_UNSENT_BYTES", 100)
    broken: list[bool] = []
    stream = EventStream("1", lambda: broken.append(True))
    for number in range(100):
        stream.write(line(number))
    assert broken == [True]
    assert stream.stored_bytes == 0
    with pytest.raises(trio.BrokenResourceError):
        await stream.wait_room()


async def test_who_waits_at_a_stream_that_breaks_waits_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_store, "MAX_UNSENT_BYTES", 10)
    stream = EventStream("1")
    ended: list[str] = []

    async def wait_room() -> None:
        with suppress(trio.BrokenResourceError):
            await stream.wait_room()
        ended.append("room")

    async def read() -> None:
        with suppress(trio.BrokenResourceError):
            await stream.wait_last()
        ended.append("answer")

    with trio.fail_after(SOON_S):
        async with trio.open_nursery() as nursery:
            stream.write(line(1))
            nursery.start_soon(wait_room)
            nursery.start_soon(read)
            await trio.testing.wait_all_tasks_blocked()
            stream.write(line(2))
    assert sorted(ended) == ["answer", "room"]


async def test_a_message_larger_than_the_bound_is_taken_when_it_is_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(event_store, "MAX_UNSENT_BYTES", 10)
    stream = EventStream("1")
    stream.answer(b"x" * 100 + b"\n")
    assert stream.pop_only_response() == b"x" * 100 + b"\n"


async def test_who_waits_for_room_goes_on_when_a_response_has_taken_enough() -> None:
    stream, response = SessionStream("0"), Response()
    stream.write(b"x" * 100 + b"\n")
    with trio.fail_after(SOON_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stream.pump, response.send)
            await stream.wait_room(10)
            nursery.cancel_scope.cancel()


@given(st.lists(st.integers(min_value=0, max_value=4), max_size=12))
def test_whatever_breaks_every_message_arrives_once_and_in_order(steps: list[int]) -> None:
    """Each step writes so many messages, and then a response takes so many parts before it breaks."""

    async def play() -> list[bytes]:
        stream, heard, count = EventStream("1"), list[bytes](), 0
        for step in steps:
            for _ in range(step):
                stream.write(line(count))
                count += 1
            response = Response(breaks_after=step % 3)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_pump, stream, response, len(heard))
                await trio.testing.wait_all_tasks_blocked()
                nursery.cancel_scope.cancel()
            heard += data_in(response.text)
        stream.answer(line(count))
        response = Response()
        await stream.pump(response.send, after=len(heard))
        return heard + data_in(response.text)

    heard = trio.run(play)
    assert heard == [line(number) for number in range(len(heard))]
    assert len(heard) == sum(steps) + 1


async def _pump(stream: EventStream, response: Response, after: int) -> None:
    with suppress(trio.BrokenResourceError):
        await stream.pump(response.send, after=after)
