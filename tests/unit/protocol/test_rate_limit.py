"""How often a client may call: a burst, then evenly, each client for itself."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from native_host.protocol.rate_limit import MINUTE_S, RateLimiter


def test_no_limit_is_the_default() -> None:
    rate_limiter = RateLimiter()
    assert {rate_limiter.wait_s("s", 0.0) for _ in range(10_000)} == {0.0}


def test_a_whole_minutes_calls_may_come_at_once_and_the_next_is_told_how_long_to_wait() -> None:
    rate_limiter = RateLimiter(per_minute=3)
    assert [rate_limiter.wait_s("s", 100.0) for _ in range(4)] == [0.0, 0.0, 0.0, pytest.approx(20.0)]


def test_calls_come_back_evenly() -> None:
    rate_limiter = RateLimiter(per_minute=3)
    for _ in range(3):
        rate_limiter.wait_s("s", 0.0)
    assert rate_limiter.wait_s("s", 19.0) == pytest.approx(1.0)
    assert rate_limiter.wait_s("s", 20.0) == 0.0
    assert rate_limiter.wait_s("s", 20.0) == pytest.approx(20.0)


def test_a_refused_call_does_not_count() -> None:
    rate_limiter = RateLimiter(per_minute=1)
    rate_limiter.wait_s("s", 0.0)
    assert [rate_limiter.wait_s("s", 30.0) for _ in range(5)] == [pytest.approx(30.0)] * 5
    assert rate_limiter.wait_s("s", 60.0) == 0.0


def test_each_client_has_its_own() -> None:
    rate_limiter = RateLimiter(per_minute=1)
    assert rate_limiter.wait_s("ours", 0.0) == 0.0
    assert rate_limiter.wait_s("theirs", 0.0) == 0.0
    assert rate_limiter.wait_s("ours", 0.0) > 0.0


def test_clients_that_have_been_silent_for_a_minute_are_forgotten() -> None:
    rate_limiter = RateLimiter(per_minute=10)
    for number in range(1_000):
        rate_limiter.wait_s(f"s{number}", number * 0.01)
    rate_limiter.wait_s("the last", 10.0 + MINUTE_S)
    assert list(rate_limiter._full_at) == ["the last"]


@given(st.integers(1, 1_000), st.lists(st.tuples(st.sampled_from("ab"), st.floats(0, 30)), max_size=60))
def test_who_waits_as_long_as_it_is_told_may_call_and_nobody_exceeds_the_burst_and_the_rate(
    per_minute: int, calls: list[tuple[str, float]]
) -> None:
    rate_limiter, now = RateLimiter(per_minute), 0.0
    counted: dict[str, list[float]] = {"a": [], "b": []}
    for session, later in calls:
        now += later
        if wait := rate_limiter.wait_s(session, now):
            assert 0 < wait <= MINUTE_S / per_minute + 1e-6
            now += wait
            assert rate_limiter.wait_s(session, now) == 0.0
        counted[session].append(now)
    for times in counted.values():
        for first, begin in enumerate(times):
            for count, end in enumerate(times[first:], start=1):
                assert count <= per_minute * (1 + (end - begin) / MINUTE_S) + 1e-3
