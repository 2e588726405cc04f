"""Ids: every answer finds its asker, once, and nobody else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from native_host.relay.request_ids import (
    Asker,
    IdInUseError,
    OpenElicitations,
    OwnIdSuffixes,
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


def test_the_limit_of_all_connections_together_applies_beside_that_of_each() -> None:
    correlation = RequestIds(max_per_connection=2, max_in_all=3)
    for connection, raw_id in (("a", b"1"), ("a", b"2"), ("b", b"1")):
        correlation.register(connection, raw_id)
    with pytest.raises(TooManyRequestsError, match="3 requests of all clients"):
        correlation.register("b", b"2")
    correlation.cancel("a", b"1")
    correlation.register("b", b"2")


# ── The client's own id as the suffix ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("raw_id", "suffix"),
    [
        (b"0", "0"),
        (b"1.0", "1.0"),
        (b"1e3", "1e3"),
        (b"9007199254740993", "9007199254740993"),
        (b'"550e8400-e29b-41d4-a716-446655440000"', "550e8400-e29b-41d4-a716-446655440000"),
        (b'"a:b"', "a:b"),
        (rb'"\u0061\n"', "a\n"),
        (b'""', ""),
    ],
)
def test_at_its_first_use_an_id_is_its_own_suffix_with_the_digits_as_written(
    raw_id: bytes, suffix: str
) -> None:
    correlation = RequestIds(OwnIdSuffixes)
    assert correlation.register("conn-abc", raw_id) == f"conn-abc:{suffix}"
    assert correlation.complete(f"conn-abc:{suffix}") == Asker("conn-abc", raw_id)


def test_an_id_that_is_used_again_gets_a_number_so_that_a_late_response_finds_nobody() -> None:
    correlation = RequestIds(OwnIdSuffixes)
    first = correlation.register("conn-abc", b"1")
    correlation.cancel("conn-abc", b"1")
    assert correlation.register("conn-abc", b"1") == "conn-abc:1~2"
    assert correlation.complete(first) is None
    assert correlation.complete("conn-abc:1~2") == Asker("conn-abc", b"1")
    assert correlation.register("conn-abc", b"1") == "conn-abc:1~3"


def test_the_number_1_and_the_string_1_have_the_same_suffix() -> None:
    correlation = RequestIds(OwnIdSuffixes)
    assert correlation.register("conn-abc", b"1") == "conn-abc:1"
    assert correlation.register("conn-abc", b'"1"') == "conn-abc:1~2"
    assert correlation.complete("conn-abc:1~2") == Asker("conn-abc", b'"1"')


def test_an_id_that_looks_like_a_numbered_suffix_takes_no_other_request_s_suffix() -> None:
    correlation = RequestIds(OwnIdSuffixes)
    shared = [correlation.register("conn-abc", raw_id) for raw_id in (b'"1~2"', b"1", b'"1"')]
    assert shared == ["conn-abc:1~2", "conn-abc:1", "conn-abc:1~3"]


def test_another_connection_s_suffixes_do_not_count() -> None:
    correlation = RequestIds(OwnIdSuffixes)
    assert correlation.register("conn-a", b"1") == "conn-a:1"
    assert correlation.register("conn-b", b"1") == "conn-b:1"


def test_a_suffix_is_free_again_after_4096_others_unless_its_request_is_in_flight() -> None:
    correlation = RequestIds(OwnIdSuffixes)
    for raw_id in (b'"once"', b"7.0"):
        correlation.register("conn-abc", raw_id)
    correlation.cancel("conn-abc", b'"once"')
    for number in range(4096):
        assert correlation.register("conn-abc", b"%d" % number) == f"conn-abc:{number}"
        correlation.cancel("conn-abc", b"%d" % number)
    assert correlation.register("conn-abc", b'"once"') == "conn-abc:once"
    assert correlation.register("conn-abc", b'"7.0"') == "conn-abc:7.0~2"


@given(
    st.lists(st.tuples(st.sampled_from([b"1", b'"1"', b'"1~2"', b"2", b'"2"']), st.booleans()), max_size=99)
)
def test_whatever_ids_are_used_no_two_requests_share_an_id(used: list[tuple[bytes, bool]]) -> None:
    correlation, minted = RequestIds(OwnIdSuffixes), []
    for raw_id, is_cancelled in used:
        try:
            minted.append(correlation.register("conn-abc", raw_id))
        except IdInUseError:
            continue
        if is_cancelled:
            correlation.cancel("conn-abc", raw_id)
    assert len(minted) == len(set(minted))


# ── Server requests ─────────────────────────────────────────────────────────────────────────────────────────


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


def test_the_extension_has_a_limited_number_of_requests_without_a_response() -> None:
    asked = OpenElicitations()
    for number in range(1024):
        asked.ask(b'"ext:%d"' % number, "ab-1", "ab-1:1")
    with pytest.raises(TooManyRequestsError):
        asked.ask(b'"ext:1024"', "ab-1", "ab-1:1")
    assert asked.answer(b'"ext:7"', "ab-1")
    asked.ask(b'"ext:1024"', "ab-1", "ab-1:1")
