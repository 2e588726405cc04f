"""What waits for a descriptor: parts that leave in order, however few bytes are taken at a time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from native_host.ipc.send_queue import Backlog, Outgoing
from native_host.protocol.announcements import Kind, Topic


def queued(backlog: Backlog, *parts: bytes) -> Outgoing:
    outgoing = Outgoing(parts)
    backlog.put(outgoing)
    return outgoing


def taken(backlog: Backlog, count: int) -> bytes:
    """As a descriptor does that takes at most `count` bytes."""
    took = b"".join(backlog.next_parts())[:count]
    backlog.written(len(took))
    return took


MESSAGES = st.lists(st.lists(st.binary(max_size=5), max_size=4), max_size=8)


@given(messages=MESSAGES, counts=st.lists(st.integers(1, 7), min_size=1))
def test_messages_leave_in_order_however_few_bytes_are_taken_at_a_time(
    messages: list[list[bytes]], counts: list[int]
) -> None:
    backlog = Backlog()
    for parts in messages:
        queued(backlog, *parts)
    whole = b"".join(part for parts in messages for part in parts)
    written = b""
    while backlog:
        assert backlog.size == len(whole) - len(written)
        written += taken(backlog, counts[len(written) % len(counts)])
    assert written == whole


def test_a_message_has_begun_once_a_byte_of_it_is_written() -> None:
    backlog = Backlog()
    first, second = queued(backlog, b"ab"), queued(backlog, b"cd")
    taken(backlog, 2)
    assert (first.has_begun, second.has_begun) == (True, False)
    taken(backlog, 1)
    assert second.has_begun


def test_what_is_withdrawn_in_time_is_never_written() -> None:
    backlog = Backlog()
    queued(backlog, b"ab")
    withdrawn = queued(backlog, b"cd")
    queued(backlog, b"ef")
    taken(backlog, 1)
    assert backlog.withdraw(withdrawn)
    assert backlog.size == 3
    assert taken(backlog, 9) == b"bef"


def test_what_has_begun_cannot_be_withdrawn_nor_what_is_written_or_withdrawn_already() -> None:
    backlog = Backlog()
    first, second = queued(backlog, b"ab"), queued(backlog, b"cd")
    taken(backlog, 1)
    assert not backlog.withdraw(first)
    assert backlog.withdraw(second)
    assert not backlog.withdraw(second)
    assert taken(backlog, 9) == b"b"
    assert not backlog.withdraw(first)


def test_a_system_call_gets_several_messages_but_not_all_of_very_many() -> None:
    backlog = Backlog()
    for _ in range(1000):
        queued(backlog, b"head", b"body")
    assert 8 <= len(backlog.next_parts()) < 1000


TAB = Topic(Kind.TAB, 1)


def about(backlog: Backlog, *parts: bytes) -> Outgoing:
    outgoing = Outgoing(parts, TAB)
    backlog.put(outgoing)
    return outgoing


def test_a_message_takes_the_place_and_the_topic_of_one_that_waits() -> None:
    backlog = Backlog()
    waiting = about(backlog, b"old")
    queued(backlog, b"next")
    gone = Topic(Kind.TAB_GONE, 1)
    backlog.replace(waiting, Outgoing((b"n", b"ew"), gone))
    assert (backlog.about(TAB), backlog.about(gone)) == (None, waiting)
    assert (backlog.size, taken(backlog, 9)) == (7, b"newnext")


def test_what_has_begun_or_is_withdrawn_is_about_nothing_any_more() -> None:
    backlog = Backlog()
    about(backlog, b"ab")
    taken(backlog, 1)
    assert backlog.about(TAB) is None
    backlog.withdraw(about(backlog, b"cd"))
    assert backlog.about(TAB) is None
    kept = about(backlog, b"ef")
    taken(backlog, 1)
    assert backlog.about(TAB) is kept


def test_all_but_what_has_begun_is_taken_back_at_once() -> None:
    backlog = Backlog()
    queued(backlog, b"ab")
    queued(backlog, b"cd")
    taken(backlog, 1)
    backlog.withdraw_all()
    assert (taken(backlog, 9), backlog.size) == (b"b", 0)
