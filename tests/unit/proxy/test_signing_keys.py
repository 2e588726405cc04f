"""Signing keys of files, and `create_token`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat

from proxy_tokens import AUDIENCE, CLIENT_URL, ISSUER, NOW, RULES, SECRET
from websocket_proxy.claims import read_token, verify_token
from websocket_proxy.protocol import Role
from websocket_proxy.signing_keys import (
    SigningKey,
    SigningKeyError,
    create_token,
    generate_key,
    read_signing_key,
)

OPTIONS: dict[str, Any] = {
    "user": "user-1",
    "role": Role.CLIENT,
    "issuer": ISSUER,
    "audience": AUDIENCE,
    "ttl_s": 60,
    "now": NOW,
}


def write(path: Path, content: str | bytes, mode: int = 0o600) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    path.chmod(mode)
    return path


def pem(private: Any) -> str:
    return SigningKey("", private, None).to_pem()


@pytest.mark.parametrize(
    ("content", "algorithm"),
    [
        (generate_key().to_pem(), "EdDSA"),
        (pem(rsa.generate_private_key(65537, 2048)), "RS256"),
        (pem(ec.generate_private_key(ec.SECP256R1())), "ES256"),
        (SECRET + b"\n", "HS256"),
    ],
)
def test_a_token_of_a_key_file_is_valid_for_its_user_and_role(
    tmp_path: Path, content: str | bytes, algorithm: str
) -> None:
    key = read_signing_key(write(tmp_path / "key", content))
    assert key.algorithm == algorithm
    text = create_token(key, connection_url=CLIENT_URL, **OPTIONS)
    token = read_token(text)
    found = verify_token(
        token, key.public_keys().find(token.key_id), RULES, Role.CLIENT, [CLIENT_URL], NOW + 1
    )
    assert (found.user_id, found.expires_at, found.scope) == ("user-1", NOW + 60, "mcpb:client")
    assert found.token_id
    assert found.family == ""
    assert repr(key) == f"SigningKey({algorithm})"


def test_the_key_id_is_the_thumbprint_of_rfc_8037() -> None:
    private = "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A"
    public = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"
    jwk = {"kty": "OKP", "crv": "Ed25519", "x": public}
    key = SigningKey("EdDSA", private, jwk)
    assert key.key_id == "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"


@pytest.mark.parametrize(
    ("content", "mode"),
    [
        (generate_key().to_pem(), 0o644),
        (SECRET, 0o640),
        (b"x" * 31, 0o600),
        (b"", 0o600),
        ("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", 0o600),
        (pem(rsa.generate_private_key(65537, 1024)), 0o600),
        (pem(ec.generate_private_key(ec.SECP384R1())), 0o600),
        (
            ec.generate_private_key(ec.SECP256R1()).private_bytes(
                Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"passphrase")
            ),
            0o600,
        ),
    ],
)
def test_a_file_that_others_can_read_or_without_a_key_is_rejected(
    tmp_path: Path, content: str | bytes, mode: int
) -> None:
    path = write(tmp_path / "key", content, mode)
    with pytest.raises(SigningKeyError) as caught:
        read_signing_key(path)
    assert str(path) in str(caught.value)


def test_a_missing_file_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(SigningKeyError):
        read_signing_key(tmp_path / "missing")


@pytest.mark.parametrize(
    "changed", [{"user": ""}, {"user": "x" * 257}, {"user": "a\nb"}, {"ttl_s": 0}, {"ttl_s": 1e9}]
)
def test_a_token_needs_a_user_and_a_time_to_live(changed: dict[str, Any]) -> None:
    with pytest.raises(SigningKeyError):
        create_token(generate_key(), **{**OPTIONS, **changed})
