"""Keys of issuers: JWK sets, PEM files and secrets. Each key has one algorithm."""

from __future__ import annotations

from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed448, rsa

from proxy_tokens import SECRET, IssuerKey, issuer_key, jwks
from websocket_proxy.key_set import (
    MAX_KEYS,
    KeyLookupError,
    KeySetError,
    LookupFault,
    parse_jwks,
    parse_pem,
    parse_secret,
)


def fault_of(content: bytes, key_id: str | None) -> LookupFault:
    with pytest.raises(KeyLookupError) as caught:
        parse_jwks(content).find(key_id)
    return caught.value.fault


@pytest.mark.parametrize(
    ("alg", "jwk_alg", "expected"),
    [
        ("RS256", None, "RS256"),
        ("RS256", "PS256", "PS256"),
        ("ES256", None, "ES256"),
        ("EdDSA", None, "EdDSA"),
        ("EdDSA", "Ed25519", "EdDSA"),
    ],
)
def test_a_key_has_the_algorithm_that_it_names_or_the_usual_one(
    alg: str, jwk_alg: str | None, expected: str
) -> None:
    jwk = issuer_key(alg).jwk(alg=jwk_alg)
    if jwk_alg is None:
        del jwk["alg"]
    assert parse_jwks(jwks(jwk)).find("key-1").algorithm == expected


@pytest.mark.parametrize(
    "changed",
    [
        {"use": "enc"},
        {"use": 7},
        {"key_ops": ["encrypt"]},
        {"alg": "RS384"},
        {"alg": "HS256"},
        {"alg": "ES256"},
        {"kty": "oct", "k": "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY"},
        {"kty": "XYZ"},
        {"kty": 7},
        {"n": "!!"},
        {"n": 7},
        {"n": ""},
        {"e": "AA"},
        {"kid": 7},
    ],
)
def test_a_key_that_cannot_verify_signatures_is_ignored(changed: dict[str, Any]) -> None:
    keys = parse_jwks(jwks(issuer_key("RS256").jwk(**changed), issuer_key(kid="key-2").jwk()))
    assert len(keys) == 1
    assert keys.find(None).key_id == "key-2"


def test_members_of_a_set_that_are_no_keys_are_ignored() -> None:
    nested = b"[" * 50 + b"]" * 50
    assert len(parse_jwks(b'{"keys": [7, null, "x", {}, ' + nested + b'], "other": 1}')) == 0


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b"[]", b'{"keys": 7}', b"\xff", b"<html>", b"[" * 100_000, b'{"keys": [' + b"[" * 100_000],
)
def test_other_content_is_no_key_set(content: bytes) -> None:
    with pytest.raises(KeySetError):
        parse_jwks(content)


def test_a_set_has_at_most_256_keys() -> None:
    assert MAX_KEYS == 256
    with pytest.raises(KeySetError):
        parse_jwks(jwks(*[{}] * 257))


def test_weak_and_foreign_kinds_of_keys_are_ignored() -> None:
    weak = IssuerKey(rsa.generate_private_key(65537, 1024), "weak", "RS256")
    other = IssuerKey(ec.generate_private_key(ec.SECP384R1()), "p384", "ES256")
    assert len(parse_jwks(jwks(weak.jwk(), other.jwk(), other.jwk(alg="ES384")))) == 0
    with pytest.raises(KeySetError):
        parse_pem(weak.pem)
    with pytest.raises(KeySetError):
        parse_pem(IssuerKey(ed448.Ed448PrivateKey.generate(), "ed448", "EdDSA").pem)


def test_the_fault_says_why_no_key_was_found() -> None:
    two = jwks(issuer_key().jwk(), issuer_key(kid="key-2").jwk())
    assert fault_of(two, "key-3") is LookupFault.UNKNOWN
    assert fault_of(two, None) is LookupFault.ID_MISSING
    assert fault_of(two, "") is LookupFault.ID_MISSING
    assert fault_of(jwks(issuer_key().jwk(), issuer_key().jwk()), "key-1") is LookupFault.REPEATED
    assert fault_of(jwks(), "key-1") is LookupFault.UNAVAILABLE


def test_a_repeated_id_of_an_encryption_key_does_not_count() -> None:
    keys = parse_jwks(jwks(issuer_key().jwk(), issuer_key("RS256").jwk(use="enc")))
    assert keys.find("key-1").algorithm == "EdDSA"


@pytest.mark.parametrize("alg", ["RS256", "PS256", "ES256", "EdDSA"])
def test_a_pem_file_has_one_key_for_one_algorithm(alg: str) -> None:
    assert parse_pem(issuer_key(alg).pem, alg).find("any id").algorithm == alg


@pytest.mark.parametrize("alg", ["HS256", "ES256", "none", "RS512"])
def test_a_pem_file_cannot_be_for_an_algorithm_of_another_kind(alg: str) -> None:
    with pytest.raises(KeySetError):
        parse_pem(issuer_key("RS256").pem, alg)


@pytest.mark.parametrize(
    "content", [b"", b"x", SECRET, b"-----BEGIN PUBLIC KEY-----\n\n-----END PUBLIC KEY-----\n"]
)
def test_other_content_is_no_public_key(content: bytes) -> None:
    with pytest.raises(KeySetError):
        parse_pem(content)


def test_a_secret_has_at_least_32_bytes_beside_its_newline() -> None:
    assert parse_secret(b"x" * 32 + b"\r\n").find(None).material == b"x" * 32
    with pytest.raises(KeySetError, match="31 bytes"):
        parse_secret(b"x" * 31 + b"\n")


def test_a_key_is_no_secret() -> None:
    with pytest.raises(KeySetError):
        parse_secret(issuer_key("RS256").pem)
