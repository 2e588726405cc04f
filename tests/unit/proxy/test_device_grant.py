"""Device authorization: codes, polls, decisions and their limits. Time and randomness are parameters."""

from __future__ import annotations

import random
from http import HTTPStatus

import pytest

from proxy_tokens import NOW
from websocket_proxy.device_grant import (
    LETTERS,
    Decision,
    SignIn,
    SignIns,
    TooManyCodesError,
    UnknownCodeError,
)
from websocket_proxy.oauth_messages import OAuthCode, OAuthError
from websocket_proxy.protocol import Role

WRONG = "BBBB-BBBB"


@pytest.fixture
def sign_ins() -> SignIns:
    return SignIns(random.Random(5).randbytes)


def begin(sign_ins: SignIns, address: str = "192.0.2.7", now: float = NOW) -> tuple[str, SignIn]:
    return sign_ins.begin("popup", "Chrome on a laptop", Role.EXTENSION, address, now)


def code_of_poll(sign_ins: SignIns, device_code: str, now: float, client_id: str = "popup") -> OAuthCode:
    with pytest.raises(OAuthError) as caught:
        sign_ins.poll(device_code, client_id, now)
    assert device_code not in str(caught.value)
    return caught.value.code


def test_a_user_code_has_8_consonants_and_a_device_code_256_bits(sign_ins: SignIns) -> None:
    device_code, sign_in = begin(sign_ins)
    assert len(device_code) == 43
    assert [len(part) for part in sign_in.user_code.split("-")] == [4, 4]
    assert set(sign_in.user_code) <= set("BCDFGHJKLMNPQRSTVWXZ-")
    assert len(LETTERS) == 20
    assert sign_in.user_code not in repr(sign_in)


def test_a_poll_is_pending_until_the_user_approves(sign_ins: SignIns) -> None:
    device_code, sign_in = begin(sign_ins)
    assert code_of_poll(sign_ins, device_code, NOW + 5) is OAuthCode.AUTHORIZATION_PENDING
    assert sign_ins.find(sign_in.user_code, NOW + 6) is sign_in
    assert (sign_in.client_name, sign_in.address, sign_in.role) == (
        "Chrome on a laptop",
        "192.0.2.7",
        Role.EXTENSION,
    )
    sign_ins.decide(sign_in.user_code, Decision.APPROVED, NOW + 7)
    assert sign_ins.poll(device_code, "popup", NOW + 10) is sign_in


def test_polling_too_often_adds_5_seconds_to_the_interval_each_time(sign_ins: SignIns) -> None:
    device_code, sign_in = begin(sign_ins)
    assert sign_in.interval_s == 5
    assert code_of_poll(sign_ins, device_code, NOW) is OAuthCode.AUTHORIZATION_PENDING
    assert code_of_poll(sign_ins, device_code, NOW + 3) is OAuthCode.SLOW_DOWN
    assert sign_in.interval_s == 10
    assert code_of_poll(sign_ins, device_code, NOW + 8) is OAuthCode.SLOW_DOWN
    assert sign_in.interval_s == 15
    assert code_of_poll(sign_ins, device_code, NOW + 23) is OAuthCode.AUTHORIZATION_PENDING


def test_a_denied_code_is_denied_and_an_old_one_has_expired(sign_ins: SignIns) -> None:
    denied, sign_in = begin(sign_ins)
    expired, _ = begin(sign_ins)
    sign_ins.decide(sign_in.user_code, Decision.DENIED, NOW)
    assert code_of_poll(sign_ins, denied, NOW + 5) is OAuthCode.ACCESS_DENIED
    assert code_of_poll(sign_ins, expired, NOW + 599) is OAuthCode.AUTHORIZATION_PENDING
    assert code_of_poll(sign_ins, expired, NOW + 600) is OAuthCode.EXPIRED_TOKEN
    begin(sign_ins, now=NOW + 1200)  # forgets it
    assert code_of_poll(sign_ins, expired, NOW + 1200) is OAuthCode.INVALID_GRANT


def test_an_approved_code_that_is_never_polled_expires_as_well(sign_ins: SignIns) -> None:
    device_code, sign_in = begin(sign_ins)
    sign_ins.decide(sign_in.user_code, Decision.APPROVED, NOW + 599)
    assert code_of_poll(sign_ins, device_code, NOW + 600) is OAuthCode.EXPIRED_TOKEN


def test_an_unknown_device_code_or_that_of_another_client_is_invalid(sign_ins: SignIns) -> None:
    device_code, _ = begin(sign_ins)
    assert code_of_poll(sign_ins, "x" * 43, NOW) is OAuthCode.INVALID_GRANT
    assert code_of_poll(sign_ins, "\ud800", NOW) is OAuthCode.INVALID_GRANT
    assert code_of_poll(sign_ins, device_code, NOW, "another") is OAuthCode.INVALID_GRANT


def test_a_user_may_type_a_code_in_lower_case_without_its_hyphen(sign_ins: SignIns) -> None:
    _, sign_in = begin(sign_ins)
    assert sign_ins.find(f" {sign_in.user_code.lower().replace('-', ' ')}\n", NOW) is sign_in


def test_a_decision_is_final(sign_ins: SignIns) -> None:
    _, sign_in = begin(sign_ins)
    sign_ins.decide(sign_in.user_code, Decision.DENIED, NOW)
    with pytest.raises(UnknownCodeError):
        sign_ins.decide(sign_in.user_code, Decision.APPROVED, NOW)
    assert sign_in.decision is Decision.DENIED


def test_after_5_wrong_codes_in_a_minute_none_is_looked_up(sign_ins: SignIns) -> None:
    _, sign_in = begin(sign_ins)
    for second in range(5):
        with pytest.raises(UnknownCodeError):
            sign_ins.find(WRONG, NOW + second)
    with pytest.raises(TooManyCodesError) as caught:
        sign_ins.find(sign_in.user_code, NOW + 10)
    assert caught.value.wait_s == 50
    assert sign_ins.find(sign_in.user_code, NOW + 60) is sign_in


def test_at_most_5_sign_ins_are_open_per_address_and_50_in_all(sign_ins: SignIns) -> None:
    for _ in range(5):
        begin(sign_ins)
    with pytest.raises(OAuthError) as caught:
        begin(sign_ins)
    assert caught.value.status is HTTPStatus.TOO_MANY_REQUESTS
    assert caught.value.retry_after_s == 60
    for number in range(45):
        begin(sign_ins, f"198.51.100.{number}")
    with pytest.raises(OAuthError):
        begin(sign_ins, "203.0.113.1")
    assert len(sign_ins.pending(NOW)) == 50
    assert len({each.user_code for each in sign_ins.pending(NOW)}) == 50


def test_addresses_of_one_ipv6_network_count_together(sign_ins: SignIns) -> None:
    for number in range(5):
        begin(sign_ins, f"2001:db8::{number}")
    with pytest.raises(OAuthError):
        begin(sign_ins, "2001:db8::5")
    begin(sign_ins, "2001:db8:0:1::5")


def test_a_decided_or_expired_sign_in_makes_room(sign_ins: SignIns) -> None:
    opened = [begin(sign_ins)[1] for _ in range(5)]
    sign_ins.decide(opened[0].user_code, Decision.DENIED, NOW)
    begin(sign_ins)
    with pytest.raises(OAuthError):
        begin(sign_ins)
    begin(sign_ins, now=NOW + 600)
