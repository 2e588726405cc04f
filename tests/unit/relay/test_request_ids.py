"""Ids: every answer finds its asker, once, and nobody else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from native_host.relay.request_ids import (
    Asker,
    IdInUseError,
    OpenElicitations,
    RequestIds,
    TooManyRequestsError,
)


def test_the_shared_id_names_the_connection_and_a_number_that_is_never_used_again() -> None:
    correlation = RequestIds()
    assert correlation.register("ab-1", b"7") == "ab-1:1"
    assert correlation.complete("ab-1:1") == Asker("ab-1", b"7")
    assert correlation.register("ab-1", b"7") == "ab-1:2"


def test_the_number_7_and_the_string_7_are_two_ids() -> None:
    correlation = RequestIds()
    number, text = correlation.register("ab-1", b"7"), correlation.register("ab-1", b'"7"')
    assert correlation.complete(text) == Asker("ab-1", b'"7"')
    assert correlation.complete(number) == Asker("ab-1", b"7")


def test_an_id_in_flight_cannot_be_used_again_on_its_connection_but_can_on_another() -> None:
    correlation = RequestIds()
    correlation.register("ab-1", b"1")
    correlation.register("ab-2", b"1")
    with pytest.raises(IdInUseError, match="id 1 is in flight"):
        correlation.register("ab-1", b"1")


def test_a_second_answer_finds_nobody() -> None:
    correlation = RequestIds()
    shared = correlation.register("ab-1", b"1")
    assert correlation.complete(shared)
    assert correlation.complete(shared) is None


def test_a_cancelled_request_is_no_longer_answered_and_its_id_is_free() -> None:
    correlation = RequestIds()
    shared = correlation.register("ab-1", b"1")
    assert correlation.cancel("ab-1", b"1") == shared
    assert correlation.cancel("ab-1", b"1") is None
    assert correlation.complete(shared) is None
    correlation.register("ab-1", b"1")


def test_nobody_can_cancel_for_another_connection() -> None:
    correlation = RequestIds()
    correlation.register("ab-1", b"1")
    assert correlation.cancel("ab-2", b"1") is None


def test_one_request_more_than_the_limit_is_refused() -> None:
    correlation = RequestIds()
    for number in range(256):
        correlation.register("ab-1", b"%d" % number)
    with pytest.raises(TooManyRequestsError):
        correlation.register("ab-1", b"last")
    correlation.register("ab-2", b"last")


@given(st.lists(st.tuples(st.sampled_from(["ab-1", "ab-2", "ab-3"]), st.integers(0, 9)), max_size=200))
def test_whatever_is_in_flight_every_answer_goes_to_the_one_who_asked(asked: list[tuple[str, int]]) -> None:
    correlation, waiting = RequestIds(), {}
    for connection, number in asked:
        raw_id = b"%d" % number
        try:
            waiting[correlation.register(connection, raw_id)] = Asker(connection, raw_id)
        except IdInUseError:
            continue
    gone = set(correlation.abandon("ab-2"))
    assert gone == {shared for shared, asker in waiting.items() if asker.connection == "ab-2"}
    for shared, asker in waiting.items():
        assert correlation.complete(shared) == (None if shared in gone else asker)


def test_a_question_is_answered_once_and_only_by_the_connection_that_was_asked() -> None:
    questions = OpenElicitations()
    questions.ask(b'"ext:1"', "ab-1", "ab-1:1")
    assert not questions.answer(b'"ext:1"', "ab-2")
    assert questions.answer(b'"ext:1"', "ab-1")
    assert not questions.answer(b'"ext:1"', "ab-1")


def test_a_connection_that_ends_leaves_its_questions_to_be_answered_for_it() -> None:
    questions = OpenElicitations()
    questions.ask(b'"ext:1"', "ab-1", "ab-1:1")
    questions.ask(b'"ext:2"', "ab-2", "ab-2:1")
    assert questions.abandon("ab-1") == [b'"ext:1"']
    assert questions.answer(b'"ext:2"', "ab-2")


def test_a_call_that_is_over_takes_its_questions_along() -> None:
    questions = OpenElicitations()
    questions.ask(b'"ext:1"', "ab-1", "ab-1:1")
    questions.ask(b'"ext:2"', "ab-1", "ab-1:2")
    questions.close("ab-1:1")
    assert not questions.answer(b'"ext:1"', "ab-1")
    assert questions.answer(b'"ext:2"', "ab-1")
