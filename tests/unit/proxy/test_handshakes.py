"""Openings: the proxy asks an extension, a client sends `mcp_handshake`, and tokens are renewed or expire."""

from __future__ import annotations

import json
import math
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from native_host.protocol.jsonrpc import UndecodableError
from random_input import check_inputs
from websocket_proxy.dialects import decode_client, decode_extension
from websocket_proxy.handshakes import (
    AdmitClient,
    AdmitExtension,
    ClientHandshake,
    Close,
    ExtensionHandshake,
    Rejection,
    Renew,
    Send,
    Step,
    VerifiedToken,
    Verify,
)
from websocket_proxy.limits import Limits
from websocket_proxy.protocol import RejectionReason

LIMITS = Limits()
HOME = VerifiedToken("home", math.inf)
EXPIRED = Rejection(RejectionReason.EXPIRED, "The token expired at 10:00: sign in again.")


def body(**message: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode()


def sent(steps: list[Step]) -> list[Any]:
    return [json.loads(step.body) for step in steps if isinstance(step, Send)]


def closed(steps: list[Step]) -> tuple[int, str] | None:
    return next(((step.code.value, step.reason) for step in steps if isinstance(step, Close)), None)


CREDENTIALS = body(id="proxy:1", result={"name": "Chrome 141", "accessToken": "eyJ", "client_id": "0c5d"})


def opened_extension(expires_at_s: float = 3600) -> ExtensionHandshake:
    """An extension that was admitted at second 1."""
    handshake = ExtensionHandshake(LIMITS, 0)
    handshake.begin()
    handshake.on_message(CREDENTIALS)
    handshake.on_verified(VerifiedToken("alice", expires_at_s), 1)
    return handshake


# ── An extension ────────────────────────────────────────────────────────────────────────────────────────────


def test_the_proxy_asks_an_extension_first() -> None:
    handshake = ExtensionHandshake(LIMITS, 0)
    assert sent(handshake.begin()) == [
        {"jsonrpc": "2.0", "id": "proxy:1", "method": "authenticate", "params": {}}
    ]
    assert handshake.next_timer_s == 10


def test_its_credentials_are_verified_before_it_is_admitted() -> None:
    handshake = ExtensionHandshake(LIMITS, 0)
    handshake.begin()
    assert handshake.on_message(CREDENTIALS) == [Verify("eyJ")]
    assert handshake.next_timer_s == math.inf
    token = VerifiedToken("alice", 3600)
    (admit,) = handshake.on_verified(token, 1)
    assert isinstance(admit, AdmitExtension)
    assert (admit.token, admit.credentials.name, admit.credentials.client_id) == (
        token, "Chrome 141", "0c5d",
    )  # fmt: skip


@pytest.mark.parametrize(
    "answer",
    [
        {"id": "proxy:1", "result": {"name": "Chrome 150", "access_token": "eyJ", "currentTab": None}},
        {"jsonrpc": "2.0", "id": "proxy:1", "result": {"accessToken": "eyJ"}},
    ],
)
def test_existing_extensions_name_the_token_differently_or_omit_jsonrpc(answer: Any) -> None:
    handshake = ExtensionHandshake(LIMITS, 0)
    handshake.begin()
    assert handshake.on_message(json.dumps(answer).encode()) == [Verify("eyJ")]


def test_a_notification_before_the_credentials_is_ignored() -> None:
    handshake = ExtensionHandshake(LIMITS, 0)
    handshake.begin()
    assert handshake.on_message(b'{"method":"notifications/build_info","params":{}}') == []
    assert handshake.on_message(CREDENTIALS) == [Verify("eyJ")]


def test_invalid_json_before_the_credentials_is_answered_and_the_socket_stays_open() -> None:
    handshake = ExtensionHandshake(LIMITS, 0)
    handshake.begin()
    (error,) = sent(handshake.on_message(b"{"))
    assert (error["id"], error["error"]["code"]) == (None, -32700)
    assert handshake.on_message(CREDENTIALS) == [Verify("eyJ")]


@pytest.mark.parametrize(
    "message",
    [
        {"id": 1, "method": "handshake", "params": {}},
        {"id": "proxy:2", "result": {"accessToken": "eyJ"}},
        {"id": "conn-1:1", "result": {}},
    ],
)
def test_anything_else_before_the_credentials_closes_the_socket(message: Any) -> None:
    handshake = ExtensionHandshake(LIMITS, 0)
    handshake.begin()
    assert closed(handshake.on_message(body(**message))) == (1008, "Not authenticated")
    assert handshake.on_message(CREDENTIALS) == []


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ({"result": {"name": "Chrome 141"}}, "missing"),
        ({"result": {"name": "Chrome 141", "accessToken": ""}}, "missing"),
        ({"result": {"accessToken": 7}}, "malformed"),
        ({"result": 7}, "malformed"),
        ({"error": {"code": -32000, "message": "not signed in"}}, "missing"),
        ({}, "missing"),
    ],
)
def test_an_extension_without_a_token_is_closed_with_the_reason(answer: Any, reason: str) -> None:
    handshake = ExtensionHandshake(LIMITS, 0)
    handshake.begin()
    assert closed(handshake.on_message(body(id="proxy:1", **answer))) == (1008, f"Invalid token: {reason}")


def test_a_rejected_token_closes_the_extension_with_the_reason() -> None:
    handshake = ExtensionHandshake(LIMITS, 0)
    handshake.begin()
    handshake.on_message(CREDENTIALS)
    assert closed(handshake.on_rejected(EXPIRED)) == (1008, "Invalid token: expired")
    assert handshake.next_timer_s == math.inf


def test_an_extension_has_10_s_to_answer() -> None:
    handshake = ExtensionHandshake(LIMITS, 0)
    handshake.begin()
    assert handshake.on_timer(9.9) == []
    assert closed(handshake.on_timer(10)) == (1008, "Not authenticated within 10 s")
    assert handshake.on_timer(11) == []


def test_a_slow_verification_is_not_the_extension_s_fault() -> None:
    handshake = ExtensionHandshake(LIMITS, 0)
    handshake.begin()
    handshake.on_message(CREDENTIALS)
    assert handshake.on_timer(100) == []
    assert len(handshake.on_verified(VerifiedToken("alice", 3600), 100)) == 1


# ── Renewal and expiry ──────────────────────────────────────────────────────────────────────────────────────


def test_120_s_before_its_token_expires_an_extension_is_asked_again() -> None:
    handshake = opened_extension(3600)
    assert handshake.next_timer_s == 3480
    assert handshake.on_timer(3479) == []
    assert [message["id"] for message in sent(handshake.on_timer(3480))] == ["proxy:2"]
    answer = decode_extension(b'{"id":"proxy:2","result":{"accessToken":"new"}}')
    assert handshake.on_response(answer, 3481) == [Verify("new")]
    assert handshake.on_verified(VerifiedToken("alice", 7200), 3482) == []
    assert handshake.next_timer_s == 7080
    assert [message["id"] for message in sent(handshake.on_timer(7080))] == ["proxy:3"]


def test_without_a_new_token_it_is_asked_every_30_s_until_the_socket_closes() -> None:
    handshake = opened_extension(3600)
    assert sent(handshake.on_timer(3480))[0]["id"] == "proxy:2"
    assert sent(handshake.on_timer(3510))[0]["id"] == "proxy:3"
    old = decode_extension(b'{"id":"proxy:3","result":{"accessToken":"old"}}')
    handshake.on_response(old, 3511)
    assert handshake.on_verified(VerifiedToken("alice", 3600), 3511) == []
    assert sent(handshake.on_timer(3541))[0]["id"] == "proxy:4"
    without = decode_extension(b'{"id":"proxy:4","error":{"message":"signed out"}}')
    assert handshake.on_response(without, 3542) == []
    assert closed(handshake.on_timer(3600)) == (1008, "Token expired")


def test_a_late_response_to_an_earlier_question_is_ignored() -> None:
    handshake = opened_extension(3600)
    handshake.on_timer(3480)
    handshake.on_timer(3510)
    late = decode_extension(b'{"id":"proxy:2","result":{"accessToken":"new"}}')
    assert handshake.on_response(late, 3511) == []


def test_a_token_of_another_user_closes_the_extension() -> None:
    handshake = opened_extension(3600)
    handshake.on_timer(3480)
    handshake.on_response(decode_extension(b'{"id":"proxy:2","result":{"accessToken":"eyJ"}}'), 3481)
    steps = handshake.on_verified(VerifiedToken("bob", 7200), 3482)
    assert closed(steps) == (1008, "Invalid token: another-user")


def test_the_same_user_id_of_another_issuer_is_another_user() -> None:
    handshake = opened_extension(3600)
    handshake.on_timer(3480)
    handshake.on_response(decode_extension(b'{"id":"proxy:2","result":{"accessToken":"eyJ"}}'), 3481)
    steps = handshake.on_verified(VerifiedToken("alice", 7200, "https://idp.example"), 3482)
    assert closed(steps) == (1008, "Invalid token: another-user")


def test_an_invalid_new_token_closes_the_extension() -> None:
    handshake = opened_extension(3600)
    handshake.on_timer(3480)
    handshake.on_response(decode_extension(b'{"id":"proxy:2","result":{"accessToken":"eyJ"}}'), 3481)
    assert closed(handshake.on_rejected(EXPIRED)) == (1008, "Invalid token: expired")


def test_a_token_of_less_than_120_s_is_renewed_at_once_but_not_in_a_loop() -> None:
    handshake = opened_extension(61)
    assert sent(handshake.on_timer(1))[0]["id"] == "proxy:2"
    assert handshake.next_timer_s == 31


def test_a_new_token_is_requested_120_s_before_the_end_that_the_token_states() -> None:
    handshake = ExtensionHandshake(LIMITS, 0)
    handshake.begin()
    handshake.on_message(CREDENTIALS)
    handshake.on_verified(VerifiedToken("alice", 3630, tolerance_s=30), 1)
    assert handshake.next_timer_s == 3480
    assert handshake.on_timer(3479) == []
    assert len(sent(handshake.on_timer(3480))) == 1
    assert closed(handshake.on_timer(3630)) == (1008, "Token expired")


# ── blueprint's free mode ───────────────────────────────────────────────────────────────────────────────────


def test_on_the_direct_port_an_extension_introduces_itself_without_a_token() -> None:
    handshake = ExtensionHandshake(LIMITS, 0, direct_user=HOME)
    assert handshake.begin() == []
    (admit,) = handshake.on_message(b'{"type":"handshake","browser":"Chrome","version":"1.9.20"}')
    assert isinstance(admit, AdmitExtension)
    assert (admit.token, admit.credentials.name) == (HOME, "Chrome")
    assert handshake.next_timer_s == math.inf


def test_any_other_first_message_closes_the_direct_port() -> None:
    handshake = ExtensionHandshake(LIMITS, 0, direct_user=HOME)
    handshake.begin()
    assert closed(handshake.on_message(CREDENTIALS)) == (1008, "Not authenticated")


def test_elsewhere_that_message_is_no_credential() -> None:
    handshake = ExtensionHandshake(LIMITS, 0)
    handshake.begin()
    (error,) = sent(handshake.on_message(b'{"type":"handshake","browser":"Chrome"}'))
    assert error["error"]["code"] == -32600


# ── A client ────────────────────────────────────────────────────────────────────────────────────────────────


def handshake_of(**params: Any) -> bytes:
    return body(id=1, method="mcp_handshake", params=params)


@pytest.mark.parametrize("name", ["accessToken", "access_token"])
def test_a_client_is_admitted_after_its_token_is_verified(name: str) -> None:
    handshake = ClientHandshake(LIMITS, 0)
    assert handshake.on_message(handshake_of(**{name: "eyJ"}, client={"name": "inspector"})) == [
        Verify("eyJ")
    ]
    token = VerifiedToken("alice", 3600)
    (admit,) = handshake.on_verified(token)
    assert isinstance(admit, AdmitClient)
    assert (admit.token, admit.raw_id) == (token, b"1")
    assert admit.handshake.client is not None
    assert handshake.next_timer_s == 3600


def test_a_rejected_token_is_answered_with_its_reason_before_the_socket_closes() -> None:
    handshake = ClientHandshake(LIMITS, 0)
    handshake.on_message(handshake_of(accessToken="eyJ"))
    steps = handshake.on_rejected(EXPIRED)
    assert sent(steps) == [
        {
            "jsonrpc": "2.0",
            "id": 1,
            "error": {
                "code": -32000,
                "message": "Authentication failed: Invalid token",
                "data": {
                    "handed": False,
                    "reason": "expired",
                    "detail": "The token expired at 10:00: sign in again.",
                },
            },
        }
    ]
    assert closed(steps) == (1008, "Invalid token: expired")


def test_a_handshake_without_a_token_is_rejected_as_missing() -> None:
    steps = ClientHandshake(LIMITS, 0).on_message(handshake_of())
    assert sent(steps)[0]["error"]["data"]["reason"] == "missing"
    assert closed(steps) == (1008, "Invalid token: missing")


def test_any_other_request_first_is_answered_and_the_client_may_still_authenticate() -> None:
    handshake = ClientHandshake(LIMITS, 0)
    (error,) = sent(handshake.on_message(body(id="a", method="list_extensions")))
    assert (error["id"], error["error"]["code"]) == ("a", -32000)
    assert error["error"]["data"] == {"handed": False}
    assert handshake.on_message(handshake_of(accessToken="eyJ")) == [Verify("eyJ")]


@pytest.mark.parametrize("message", [{"method": "hello"}, {"id": 1, "result": {}}])
def test_notifications_and_responses_before_authentication_are_not_answered(message: Any) -> None:
    assert ClientHandshake(LIMITS, 0).on_message(body(**message)) == []


@pytest.mark.parametrize(
    ("first", "code"),
    [
        (b"{", -32700),
        (b"[]", -32600),
        (b'{"id":1,"method":"mcp_handshake","params":{"accessToken":"eyJ"}}', -32600),
        (b'{"jsonrpc":"2.0","id":null,"method":"mcp_handshake"}', -32600),
        (b'{"jsonrpc":"2.0","id":"proxy:1","method":"mcp_handshake"}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"mcp_handshake","params":{"accessToken":7}}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"mcp_handshake","params":[]}', -32602),
    ],
)
def test_a_malformed_first_message_gets_its_code_and_another_attempt(first: bytes, code: int) -> None:
    handshake = ClientHandshake(LIMITS, 0)
    assert [error["error"]["code"] for error in sent(handshake.on_message(first))] == [code]
    assert handshake.on_message(handshake_of(accessToken="eyJ")) == [Verify("eyJ")]


def test_wrong_params_name_the_field() -> None:
    (error,) = sent(ClientHandshake(LIMITS, 0).on_message(handshake_of(accessToken=7)))
    assert "accessToken" in error["error"]["message"]


def test_a_client_of_another_wire_version_is_rejected_after_its_token_was_verified() -> None:
    handshake = ClientHandshake(LIMITS, 0)
    assert handshake.on_message(handshake_of(accessToken="eyJ", wire=2)) == [Verify("eyJ")]
    steps = handshake.on_verified(VerifiedToken("alice", 3600))
    response, notice = sent(steps)
    assert response["error"]["code"] == notice["params"]["code"] == -32017
    assert notice["method"] == "host/error"
    assert closed(steps) == (1008, "Another wire version")


def test_a_client_has_10_s_for_its_first_message() -> None:
    handshake = ClientHandshake(LIMITS, 0)
    assert handshake.next_timer_s == 10
    assert closed(handshake.on_timer(10)) == (1008, "Not authenticated within 10 s")


def test_a_client_renews_its_token_on_the_same_socket() -> None:
    handshake = ClientHandshake(LIMITS, 0)
    handshake.on_message(handshake_of(accessToken="eyJ"))
    handshake.on_verified(VerifiedToken("alice", 3600))
    again = decode_client(body(id=9, method="mcp_handshake", params={"accessToken": "new"}))
    assert handshake.on_request(again) == [Verify("new")]
    assert handshake.on_verified(VerifiedToken("alice", 7200)) == [Renew(b"9")]
    assert handshake.on_timer(3600) == []
    assert closed(handshake.on_timer(7200)) == (1008, "Token expired")


def test_a_client_cannot_continue_as_another_user() -> None:
    handshake = ClientHandshake(LIMITS, 0)
    handshake.on_message(handshake_of(accessToken="eyJ"))
    handshake.on_verified(VerifiedToken("alice", 3600))
    handshake.on_request(decode_client(handshake_of(accessToken="bob's")))
    steps = handshake.on_verified(VerifiedToken("bob", 7200))
    assert sent(steps)[0]["error"]["data"]["reason"] == "another-user"
    assert closed(steps) == (1008, "Invalid token: another-user")


# ── Limits before authentication ────────────────────────────────────────────────────────────────────────────

Handshakes = type[ExtensionHandshake] | type[ClientHandshake]


@pytest.mark.parametrize("kind", [ExtensionHandshake, ClientHandshake])
def test_the_fourth_message_before_authentication_closes_the_socket(kind: Handshakes) -> None:
    handshake = kind(LIMITS, 0)
    for _ in range(3):
        assert handshake.on_message(body(method="noise")) == []
    text = "More than 3 messages before authentication"
    assert closed(handshake.on_message(body(method="noise"))) == (1008, text)


@pytest.mark.parametrize("kind", [ExtensionHandshake, ClientHandshake])
def test_a_message_over_64_kib_before_authentication_closes_the_socket(kind: Handshakes) -> None:
    assert kind(LIMITS, 0).on_message(b'{"method":"' + b"x" * 65_523 + b'"}') == []
    steps = kind(LIMITS, 0).on_message(b'{"method":"' + b"x" * 65_524 + b'"}')
    assert closed(steps) == (1009, "Message over 64 KiB before authentication")


# ── Random messages and times ───────────────────────────────────────────────────────────────────────────────

MEMBERS = st.sampled_from(["name", "accessToken", "access_token", "client_id", "client", "wire", "version"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(["eyJ", "proxy:1"]),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(MEMBERS, children, max_size=3),
    max_leaves=5,
)
MESSAGES = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | VALUES,
        "id": st.sampled_from(["proxy:1", "proxy:2", 1, "a", None]) | VALUES,
        "method": st.sampled_from(["mcp_handshake", "authenticate", "x"]) | VALUES,
        "params": VALUES | st.just({"accessToken": "eyJ"}),
        "result": VALUES | st.just({"accessToken": "eyJ"}),
        "error": VALUES,
        "type": st.just("handshake") | VALUES,
    },
).map(lambda message: json.dumps(message).encode())
TOKENS = st.builds(VerifiedToken, st.sampled_from(["alice", "bob"]), st.floats(0, 1e5))
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("message"), MESSAGES | st.binary(max_size=20)),
        st.tuples(st.just("verified"), TOKENS),
        st.tuples(st.just("rejected"), st.just(EXPIRED)),
        st.tuples(st.just("timer"), st.floats(0, 5000)),
    ),
    max_size=12,
)


def play(handshake: ExtensionHandshake | ClientHandshake, events: list[tuple[str, Any]]) -> list[Step]:
    """Report events as a node could, and as it could not; return all steps."""
    steps: list[Step] = handshake.begin() if isinstance(handshake, ExtensionHandshake) else []
    now_s = 0.0
    for kind, value in events:
        match kind, handshake:
            case "timer", _:
                now_s += value
                steps += handshake.on_timer(now_s)
            case "rejected", _:
                steps += handshake.on_rejected(value)
            case "verified", ExtensionHandshake():
                steps += handshake.on_verified(value, now_s)
            case "verified", ClientHandshake():
                steps += handshake.on_verified(value)
            case "message", ExtensionHandshake() if is_admitted(steps):
                steps += respond_later(handshake, value, now_s)
            case "message", ClientHandshake() if is_admitted(steps):
                steps += request_later(handshake, value)
            case _:
                steps += handshake.on_message(value)
    return steps


def is_admitted(steps: list[Step]) -> bool:
    return any(isinstance(step, AdmitExtension | AdmitClient) for step in steps)


def respond_later(handshake: ExtensionHandshake, message: bytes, now_s: float) -> list[Step]:
    try:
        return handshake.on_response(decode_extension(message), now_s)
    except UndecodableError:
        return []


def request_later(handshake: ClientHandshake, message: bytes) -> list[Step]:
    try:
        return handshake.on_request(decode_client(message))
    except UndecodableError:
        return []


KINDS = ["extension", "direct extension", "client"]


@pytest.mark.parametrize("kind", KINDS)
@given(events=EVENTS)
def test_random_messages_and_times_raise_nothing_and_close_at_most_once(
    kind: str, events: list[tuple[str, Any]]
) -> None:
    check_opening(kind, events)


def check_opening(kind: str, events: list[tuple[str, Any]]) -> None:
    if kind == "client":
        steps = play(ClientHandshake(LIMITS, 0), events)
    else:
        user = HOME if kind.startswith("direct") else None
        steps = play(ExtensionHandshake(LIMITS, 0, direct_user=user), events)
    kinds = [type(step) for step in steps]
    assert Close not in kinds[:-1]
    assert kinds.count(AdmitExtension) + kinds.count(AdmitClient) <= 1
    if kind != "direct extension" and is_admitted(steps):
        admission = next(n for n, step in enumerate(kinds) if step in {AdmitExtension, AdmitClient})
        assert Verify in kinds[:admission]
    for body_sent in sent(steps):
        assert body_sent["jsonrpc"] == "2.0"


NAMES = ("name", "accessToken", "access_token", "client_id", "client", "wire", "version")
LEAVES = (None, True, 0, 1, -7, 1 << 70, 0.5, "", "eyJ", "proxy:1", "proxy:2", "\ud800", "é\0", "2.0")
RAW = (
    b"",
    b"{",
    b"[]",
    b"null",
    b"\xff",
    b"[" * 2000,
    b'{"id":1e999}',
    b'{"id":"proxy:1","result":' + b"[" * 2000,
)


VALID = (
    CREDENTIALS,
    body(id="proxy:2", result={"accessToken": "new"}),
    handshake_of(accessToken="eyJ"),
    b'{"type":"handshake","browser":"Chrome"}',
)


def test_many_random_openings_raise_nothing_and_close_at_most_once() -> None:
    check_inputs(500, lambda random: check_opening(random.choice(KINDS), random_events(random)))


def random_events(random: Random) -> list[tuple[str, Any]]:
    return [random_event(random) for _ in range(random.randrange(13))]


def random_event(random: Random) -> tuple[str, Any]:
    match random.randrange(10):
        case 0 | 1:
            return "verified", VerifiedToken(
                random.choice(["alice", "alice", "bob"]), random.uniform(0, 5000)
            )
        case 2:
            return ("rejected", EXPIRED) if random.random() < 0.3 else ("timer", 5000.0)
        case 3 | 4:
            return "timer", random.choice([0.5, 5.0, 30.0, 1000.0])
        case 5:
            return "message", random.choice(RAW) if random.random() < 0.5 else random.randbytes(20)
        case 6 | 7:
            return "message", random_message(random)
    return "message", random.choice(VALID)


def random_message(random: Random) -> bytes:
    """A message whose members are usual ones, random ones or missing."""
    usual: dict[str, tuple[object, ...]] = {
        "jsonrpc": ("2.0",),
        "id": ("proxy:1", "proxy:2", 1, "a"),
        "method": ("mcp_handshake", "authenticate", "x"),
        "params": ({"accessToken": "eyJ"},),
        "result": ({"accessToken": "eyJ", "name": "Chrome"},),
        "error": ({"code": -32000, "message": "no"},),
        "type": ("handshake",),
    }
    message = {}
    for name, values in usual.items():
        drawn = random.random()
        if drawn < 0.45:
            message[name] = random.choice(values)
        elif drawn < 0.6:
            message[name] = random_value(random)
    return json.dumps(message).encode()


def random_value(random: Random, depth: int = 0) -> object:
    match random.randrange(8):
        case 0 if depth < 3:
            return [random_value(random, depth + 1) for _ in range(random.randrange(4))]
        case 1 | 2 | 3 if depth < 3:
            return {random.choice(NAMES): random_value(random, depth + 1) for _ in range(random.randrange(4))}
    return random.choice(LEAVES)
