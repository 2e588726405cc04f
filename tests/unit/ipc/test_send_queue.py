"""What waits for a descriptor: parts that leave in order, however few bytes are taken at a time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from native_host.ipc.send_queue import Outgoing, SendQueue
from native_host.protocol.announcements import AnnouncementKey, Kind


def queued(queue: SendQueue, *parts: bytes) -> Outgoing:
    outgoing = Outgoing(parts)
    queue.put(outgoing)
    return outgoing


def taken(queue: SendQueue, count: int) -> bytes:
    """As a descriptor does that takes at most `count` bytes."""
    took = b"".join(queue.next_parts())[:count]
    queue.on_written(len(took))
    return took


MESSAGES = st.lists(st.lists(st.binary(max_size=5), max_size=4), max_size=8)


@given(messages=MESSAGES, counts=st.lists(st.integers(1, 7), min_size=1))
def test_messages_leave_in_order_however_few_bytes_are_taken_at_a_time(
    messages: list[list[bytes]], counts: list[int]
) -> None:
    queue = SendQueue()
    for parts in messages:
        queued(queue, *parts)
    whole = b"".join(part for parts in messages for part in parts)
    written = b""
    while queue:
        assert queue.size == len(whole) - len(written)
        written += taken(queue, counts[len(written) % len(counts)])
    assert written == whole


def test_a_message_has_begun_once_a_byte_of_it_is_written() -> None:
    queue = SendQueue()
    first, second = queued(queue, b"ab"), queued(queue, b"cd")
    taken(queue, 2)
    assert (first.has_begun, second.has_begun) == (True, False)
    taken(queue, 1)
    assert second.has_begun


def test_what_is_withdrawn_in_time_is_never_written() -> None:
    queue = SendQueue()
    queued(queue, b"ab")
    withdrawn = queued(queue, b"cd")
    queued(queue, b"ef")
    taken(queue, 1)
    assert queue.withdraw(withdrawn)
    assert queue.size == 3
    assert taken(queue, 9) == b"bef"


def test_what_has_begun_cannot_be_withdrawn_nor_what_is_written_or_withdrawn_already() -> None:
    queue = SendQueue()
    first, second = queued(queue, b"ab"), queued(queue, b"cd")
    taken(queue, 1)
    assert not queue.withdraw(first)
    assert queue.withdraw(second)
    assert not queue.withdraw(second)
    assert taken(queue, 9) == b"b"
    assert not queue.withdraw(first)


def test_a_system_call_gets_several_messages_but_not_all_of_very_many() -> None:
    queue = SendQueue()
    for _ in range(1000):
        queued(queue, b"head", b"body")
    assert 8 <= len(queue.next_parts()) < 1000


TAB = AnnouncementKey(Kind.TAB, 1)


def about(queue: SendQueue, *parts: bytes) -> Outgoing:
    outgoing = Outgoing(parts, TAB)
    queue.put(outgoing)
    return outgoing


def test_a_message_takes_the_place_and_the_topic_of_one_that_waits() -> None:
    queue = SendQueue()
    waiting = about(queue, b"old")
    queued(queue, b"next")
    gone = AnnouncementKey(Kind.TAB_GONE, 1)
    queue.replace(waiting, Outgoing((b"n", b"ew"), gone))
    assert (queue.about(TAB), queue.about(gone)) == (None, waiting)
    assert (queue.size, taken(queue, 9)) == (7, b"newnext")


def test_what_has_begun_or_is_withdrawn_is_about_nothing_any_more() -> None:
    queue = SendQueue()
    about(queue, b"ab")
    taken(queue, 1)
    assert queue.about(TAB) is None
    queue.withdraw(about(queue, b"cd"))
    assert queue.about(TAB) is None
    kept = about(queue, b"ef")
    taken(queue, 1)
    assert queue.about(TAB) is kept


def test_all_but_what_has_begun_is_taken_back_at_once() -> None:
    queue = SendQueue()
    queued(queue, b"ab")
    queued(queue, b"cd")
    taken(queue, 1)
    queue.withdraw_all()
    assert (taken(queue, 9), queue.size) == (b"b", 0)
