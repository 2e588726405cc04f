"""Verification of access tokens: every rejection has its reason, and no other exception occurs."""

from __future__ import annotations

import base64
import json
import random
import traceback
from typing import Any

import pytest

from proxy_tokens import (
    AUDIENCE,
    CLIENT_URL,
    EXTENSION_URL,
    NOW,
    RULES,
    SECRET,
    encode,
    hmac_token,
    issuer_key,
    jwks,
    token,
)
from websocket_proxy.claims import (
    MAX_TOKEN_BYTES,
    Identity,
    IssuerRules,
    TokenRejected,
    normalize_address,
    read_token,
    reject_lookup,
    verify_token,
)
from websocket_proxy.key_set import KeyLookupError, KeySet, parse_jwks, parse_secret
from websocket_proxy.protocol import RejectionReason, Role

KEYS = parse_jwks(jwks(issuer_key().jwk()))
ADDRESSES = {Role.EXTENSION: [EXTENSION_URL], Role.CLIENT: [CLIENT_URL]}


def verify(
    text: object, keys: KeySet = KEYS, rules: IssuerRules = RULES, role: Role = Role.CLIENT, now: float = NOW
) -> Identity:
    unverified = read_token(text)
    try:
        key = keys.find(unverified.key_id)
    except KeyLookupError as error:
        raise reject_lookup(error) from None
    return verify_token(unverified, key, rules, role, ADDRESSES[role], now)


def reason_of(text: object, **options: Any) -> RejectionReason:
    """The reason for which a token is rejected. Nothing that is shown of it has a part of the token."""
    with pytest.raises(TokenRejected) as caught:
        verify(text, **options)
    shown = "".join(traceback.format_exception(caught.value))
    if isinstance(text, str) and len(text) > 20:
        assert all(part[-12:] not in shown for part in text.split(".") if len(part) > 20)
    assert caught.value.detail.endswith(".")
    assert str(caught.value.reason) in str(caught.value)
    return caught.value.reason


def test_a_valid_token_yields_user_expiry_and_scope() -> None:
    found = verify(token(jti="t-1", sid="f-1"))
    assert found == Identity(
        "user-1", RULES.issuer, Role.CLIENT, "mcpb:client", NOW + 3600, "t-1", "f-1", CLIENT_URL
    )
    assert found.owner == (RULES.issuer, "user-1")


@pytest.mark.parametrize("alg", ["RS256", "PS256", "ES256", "EdDSA"])
def test_each_algorithm_is_accepted_for_its_kind_of_key(alg: str) -> None:
    key = issuer_key(alg)
    assert verify(token(key), parse_jwks(jwks(key.jwk()))).user_id == "user-1"


def test_a_secret_of_32_bytes_is_accepted() -> None:
    assert verify(hmac_token(SECRET), parse_secret(SECRET + b"\n")).user_id == "user-1"


@pytest.mark.parametrize("in_set", ["EdDSA", "Ed25519"])
def test_the_name_ed25519_stands_for_eddsa_in_tokens_and_keys(in_set: str) -> None:
    keys = parse_jwks(jwks(issuer_key().jwk(alg=in_set)))
    assert verify(token(header={"alg": "Ed25519"}), keys).user_id == "user-1"
    assert verify(token(), keys).user_id == "user-1"


# ── Malformed tokens ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("text", [None, ""])
def test_an_absent_token_is_missing(text: object) -> None:
    assert reason_of(text) is RejectionReason.MISSING


@pytest.mark.parametrize("text", [7, True, ["a"], {"a": 1}, 1.5, b"bytes"])
def test_a_token_of_another_type_is_malformed(text: object) -> None:
    assert reason_of(text) is RejectionReason.MALFORMED


@pytest.mark.parametrize(
    "text", ["x", "a.b", "a.b.c", "a.b.c.d.e", "é.é.é", "\ud800.a.b", "..", "!!!!.e30.e30", "e30.e30.e30="]
)
def test_a_text_that_is_no_jwt_is_malformed(text: str) -> None:
    assert reason_of(text) in {RejectionReason.MALFORMED, RejectionReason.ALGORITHM}


def test_a_token_of_8_kib_is_accepted_and_a_longer_one_is_malformed() -> None:
    length = MAX_TOKEN_BYTES - len(token(padding=""))
    padding = "x" * (length * 3 // 4 - 4)
    assert MAX_TOKEN_BYTES - 8 <= len(token(padding=padding)) <= MAX_TOKEN_BYTES
    assert verify(token(padding=padding)).user_id == "user-1"
    assert reason_of(token(padding=padding + "x" * 12)) is RejectionReason.MALFORMED
    assert reason_of("x" * 1024 * 1024) is RejectionReason.MALFORMED


NESTED = b"[" * 3000 + b"]" * 3000


@pytest.mark.parametrize(
    "text",
    [
        token(header=b'{"alg":"EdDSA","x":' + NESTED + b"}", payload=b"{}"),
        token(payload=NESTED),
        token(payload=b'{"iss":"https://login.example","x":' + NESTED + b"}"),
        token(header=NESTED, payload=b"{}"),
    ],
)
def test_deeply_nested_json_is_malformed(text: str) -> None:
    assert len(text) <= MAX_TOKEN_BYTES
    assert reason_of(text) is RejectionReason.MALFORMED


@pytest.mark.parametrize(
    "payload",
    [b"", b"null", b"[]", b'"x"', b"{", b"\xff", b'{"iss": 5}', b'{"iss": "\\ud800"}', b'{"exp": NaN}'],
)
def test_a_payload_that_is_no_object_of_claims_is_malformed(payload: bytes) -> None:
    assert reason_of(token(payload=payload)) is RejectionReason.MALFORMED


@pytest.mark.parametrize("crit", [["exp"], ["b64"], [], "b64", None, 7])
def test_critical_extensions_are_malformed(crit: object) -> None:
    header = json.dumps({"alg": "EdDSA", "kid": "key-1", "crit": crit}).encode()
    assert reason_of(token(header=header)) is RejectionReason.MALFORMED


@pytest.mark.parametrize("kid", [7, ["key-1"], {}, True])
def test_a_key_id_that_is_no_string_is_malformed(kid: object) -> None:
    assert reason_of(token(header={"kid": kid})) is RejectionReason.MALFORMED


ODD = [7, True, 1.5, [], {}, [1], ["x", None], None, "", "\x00", "x" * 3000, 10**30, -1, [["x"]]]


@pytest.mark.parametrize(
    "name", ["iss", "aud", "user_id", "sub", "scope", "connection_url", "iat", "nbf", "exp", "jti", "sid"]
)
@pytest.mark.parametrize("value", ODD, ids=lambda value: json.dumps(value)[:12])
def test_a_claim_of_an_odd_type_is_rejected_or_harmless(name: str, value: object) -> None:
    text = token(payload=json.dumps({**json.loads(json.dumps(_valid())), name: value}).encode())
    try:
        assert verify(text).user_id == "user-1"
    except TokenRejected as rejection:
        assert rejection.detail  # noqa: PT017  (most of the combinations are rejected)


def _valid() -> dict[str, Any]:
    _, payload, _ = token().split(".")
    found: dict[str, Any] = json.loads(_decode(payload))
    return found


def _decode(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


@pytest.mark.parametrize("name", ["iat", "nbf", "exp"])
@pytest.mark.parametrize("value", ["1800000000", True, [], {}, -1, 2**60, 10**400])
def test_a_time_that_is_no_number_of_seconds_is_malformed(name: str, value: object) -> None:
    changed: dict[str, Any] = {name: value}
    assert reason_of(token(**changed)) is RejectionReason.MALFORMED


def test_an_infinite_time_is_malformed() -> None:
    for text in (b"1e999", b"Infinity", b"NaN"):
        payload = json.dumps(_valid()).encode().replace(b'"exp": 1800003600.0', b'"exp": ' + text)
        assert text in payload
        assert reason_of(token(payload=payload)) is RejectionReason.MALFORMED


# ── Algorithms and keys ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("alg", ["none", "None", "NONE", "", None, "HS512", "RS1", "ES384", 7, ["EdDSA"], {}])
def test_none_and_unknown_algorithms_are_rejected(alg: object) -> None:
    members = {"kid": "key-1"} | ({} if alg is None else {"alg": alg})
    assert reason_of(token(header=json.dumps(members).encode())) is RejectionReason.ALGORITHM


def test_an_unsigned_token_is_rejected() -> None:
    header, payload, _ = token(header={"alg": "none"}).split(".")
    assert reason_of(f"{header}.{payload}.") is RejectionReason.ALGORITHM


def test_another_algorithm_than_that_of_the_key_is_rejected() -> None:
    key = issuer_key("RS256")
    keys = parse_jwks(jwks(key.jwk()))
    assert reason_of(token(key._replace(alg="PS256")), keys=keys) is RejectionReason.ALGORITHM
    assert reason_of(token(header={"alg": "RS256"})) is RejectionReason.ALGORITHM


@pytest.mark.parametrize("alg", ["RS256", "ES256", "EdDSA"])
def test_a_public_key_as_hmac_secret_is_rejected(alg: str) -> None:
    key = issuer_key(alg)
    for secret in (key.pem, key.pem.strip(), json.dumps(key.jwk()).encode()):
        text = hmac_token(secret, kid=key.kid)
        assert reason_of(text, keys=parse_jwks(jwks(key.jwk()))) is RejectionReason.ALGORITHM


def test_an_unknown_missing_or_repeated_key_id_is_rejected() -> None:
    two = parse_jwks(jwks(issuer_key().jwk(), issuer_key(kid="key-2").jwk()))
    twice = parse_jwks(jwks(issuer_key().jwk(), issuer_key(kid="key-2").jwk(kid="key-1")))
    assert reason_of(token(header={"kid": "key-3"})) is RejectionReason.UNKNOWN_KEY
    assert reason_of(token(header={"kid": None}), keys=two) is RejectionReason.UNKNOWN_KEY
    assert reason_of(token(), keys=twice) is RejectionReason.UNKNOWN_KEY
    assert reason_of(token(), keys=KeySet()) is RejectionReason.UNKNOWN_KEY


def test_a_token_without_key_id_is_accepted_if_the_issuer_has_one_key() -> None:
    assert verify(token(header={"kid": None})).user_id == "user-1"


def test_a_changed_or_foreign_signature_is_rejected() -> None:
    header, payload, signature = token().split(".")
    other = encode(json.dumps({**_valid(), "user_id": "user-2"}).encode()).decode()
    assert reason_of(f"{header}.{other}.{signature}") is RejectionReason.SIGNATURE
    assert reason_of(f"{header}.{payload}.") is RejectionReason.SIGNATURE
    assert reason_of(f"{header}.{payload}.AAAA") is RejectionReason.SIGNATURE
    assert reason_of(token(issuer_key(kid="key-2"), header={"kid": "key-1"})) is RejectionReason.SIGNATURE
    assert reason_of(hmac_token(b"x" * 32), keys=parse_secret(SECRET)) is RejectionReason.SIGNATURE


# ── Claims ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("changed", "now", "reason"),
    [
        ({"exp": NOW}, NOW + 29.9, None),
        ({"exp": NOW}, NOW + 30, RejectionReason.EXPIRED),
        ({"exp": None}, NOW, RejectionReason.EXPIRED),
        ({"nbf": NOW + 30}, NOW, None),
        ({"nbf": NOW + 30.1}, NOW, RejectionReason.NOT_YET_VALID),
        ({"iat": NOW + 30}, NOW, None),
        ({"iat": NOW + 30.1}, NOW, RejectionReason.NOT_YET_VALID),
        ({"iat": None}, NOW, None),
    ],
)
def test_clocks_may_differ_by_30_seconds(
    changed: dict[str, Any], now: float, reason: RejectionReason | None
) -> None:
    if reason is None:
        assert verify(token(**changed), now=now).user_id == "user-1"
    else:
        assert reason_of(token(**changed), now=now) is reason


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"iss": "https://other.example"}, RejectionReason.ISSUER),
        ({"iss": None}, RejectionReason.ISSUER),
        ({"iss": f"{RULES.issuer}/"}, RejectionReason.ISSUER),
        ({"aud": "https://other.example"}, RejectionReason.AUDIENCE),
        ({"aud": None}, RejectionReason.AUDIENCE),
        ({"aud": []}, RejectionReason.AUDIENCE),
        ({"scope": None}, RejectionReason.SCOPE),
        ({"scope": "mcpb:clients openid"}, RejectionReason.SCOPE),
        ({"scope": "mcpb:extension"}, RejectionReason.SCOPE),
        ({"connection_url": EXTENSION_URL}, RejectionReason.CONNECTION_URL),
        ({"connection_url": "wss://other.example/mcp"}, RejectionReason.CONNECTION_URL),
        ({"connection_url": "ws://proxy.example/mcp"}, RejectionReason.CONNECTION_URL),
        ({"connection_url": "wss://proxy.example:444/mcp"}, RejectionReason.CONNECTION_URL),
        ({"connection_url": "wss://proxy.example/mcp?x=1"}, RejectionReason.CONNECTION_URL),
        ({"connection_url": "wss://user@proxy.example/mcp"}, RejectionReason.CONNECTION_URL),
        ({"connection_url": "https://proxy.example/mcp"}, RejectionReason.CONNECTION_URL),
        ({"connection_url": "wss://[::1/mcp"}, RejectionReason.CONNECTION_URL),
        ({"connection_url": "wss://proxy.example:99999/mcp"}, RejectionReason.CONNECTION_URL),
        ({"sub": "user-2"}, RejectionReason.USER),
        ({"user_id": None}, RejectionReason.USER),
        ({"user_id": ""}, RejectionReason.USER),
        ({"user_id": "x" * 257}, RejectionReason.USER),
        ({"user_id": "a\nb"}, RejectionReason.USER),
    ],
)
def test_a_claim_for_another_place_or_user_is_rejected(
    changed: dict[str, Any], reason: RejectionReason
) -> None:
    assert reason_of(token(**changed)) is reason


@pytest.mark.parametrize(
    "changed",
    [
        {"aud": ["https://other.example", AUDIENCE]},
        {"scope": "openid mcpb:client"},
        {"scope": "mcpb:extension mcpb:client"},
        {"connection_url": None},
        {"connection_url": "WSS://Proxy.Example:443/mcp/"},
        {"user_id": None, "sub": "user-1"},
        {"sub": "user-1"},
    ],
)
def test_equivalent_claims_are_accepted(changed: dict[str, Any]) -> None:
    assert verify(token(**changed)).user_id == "user-1"


def test_a_browsers_token_is_rejected_at_the_clients_endpoint_and_the_reverse() -> None:
    browser = token(scope="mcpb:extension", connection_url=EXTENSION_URL)
    assert verify(browser, role=Role.EXTENSION).role is Role.EXTENSION
    assert reason_of(browser) is RejectionReason.SCOPE
    assert reason_of(token(), role=Role.EXTENSION) is RejectionReason.SCOPE


def test_an_issuer_without_scopes_is_accepted_in_both_roles() -> None:
    rules = RULES._replace(has_scopes=False)
    text = token(scope=None, connection_url=None)
    assert {verify(text, rules=rules, role=role).role for role in Role} == set(Role)


def test_a_configured_user_claim_is_the_only_one_that_counts() -> None:
    rules = RULES._replace(user_claim="email")
    assert verify(token(email="a@b.example", sub="x"), rules=rules).user_id == "a@b.example"
    assert reason_of(token(sub="x", user_id="x"), rules=rules) is RejectionReason.USER


def test_addresses_are_compared_with_their_ports() -> None:
    assert normalize_address("ws://LOCALHOST:8765/mcp/") == "ws://localhost:8765/mcp"
    assert normalize_address("wss://[::1]:443/mcp") == "wss://[::1]/mcp"
    assert normalize_address("wss://h/mcp#x") is None


def test_random_changes_of_a_token_raise_nothing_but_rejections() -> None:
    drawn = random.Random(23)
    valid = token()
    for _ in range(3000):
        position = drawn.randrange(len(valid))
        changed = valid[:position] + chr(drawn.randrange(128)) + valid[position + drawn.randrange(4) :]
        if changed != valid:
            with pytest.raises(TokenRejected):
                verify(changed)


def test_no_representation_contains_a_token_or_a_key() -> None:
    text = hmac_token(SECRET)
    shown = f"{read_token(text)!r} {parse_secret(SECRET).find(None)!r} {verify(text, parse_secret(SECRET))!r}"
    assert SECRET.decode() not in shown
    assert not any(part in shown for part in text.split("."))
