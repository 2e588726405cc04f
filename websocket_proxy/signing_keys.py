"""Private keys that sign access tokens, and `create_token` for users without an issuer.

Rules: RFC 7515, RFC 7638 (a key's id is its thumbprint), RFC 9068 (the type `at+jwt`).
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import time
from pathlib import Path
from typing import Any

import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from native_host.protocol.untrusted_text import is_single_line
from native_host.system.private_files import PrivateFileError, read_secret
from websocket_proxy.claims import MAX_ID_CHARS
from websocket_proxy.key_set import SECRET_ALGORITHM, KeySet, KeySetError, VerificationKey, parse_secret
from websocket_proxy.keys import resolve_links
from websocket_proxy.protocol import Role

MAX_TTL_S = 366 * 24 * 3600.0
_MAX_KEY_BYTES = 64 * 1024
_MIN_RSA_BITS = 2048
_THUMBPRINT_MEMBERS = ("crv", "e", "kty", "n", "x", "y")


class SigningKeyError(Exception):
    """A key file or a parameter of a token cannot be used; tell the user."""


class SigningKey:
    """A private key or a secret, and its algorithm."""

    def __init__(self, algorithm: str, material: Any, jwk: dict[str, Any] | None) -> None:
        """Store a key; `jwk` is its public part, None for a secret."""
        self.algorithm = algorithm
        self._material = material
        self.key_id = _thumbprint(jwk) if jwk else ""
        self.jwk = {**jwk, "kid": self.key_id, "alg": algorithm, "use": "sig"} if jwk else None
        """Public part for a JWK set; None for a secret."""

    def __repr__(self) -> str:
        """Return a text without the key."""
        return f"SigningKey({self.algorithm})"

    def sign(self, claims: dict[str, Any]) -> str:
        """Return a token with these claims."""
        headers = {"typ": "at+jwt"} | ({"kid": self.key_id} if self.key_id else {})
        return jwt.encode(claims, self._material, self.algorithm, headers)

    def public_keys(self) -> KeySet:
        """Return the key that verifies its tokens."""
        material = self._material if self.jwk is None else self._material.public_key()
        return KeySet([VerificationKey(self.algorithm, material, self.key_id)])

    def to_pem(self) -> str:
        """Return the private key in PEM format."""
        pem: bytes = self._material.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return pem.decode()


def generate_key() -> SigningKey:
    """Return a new Ed25519 key."""
    return _wrap(Ed25519PrivateKey.generate())


def parse_private_key(content: bytes) -> SigningKey:
    """Return the key of a PEM file. RSA signs with RS256, P-256 with ES256, Ed25519 with EdDSA.

    Raises:
        SigningKeyError: it is not a private key without a passphrase, or one of another kind.
    """
    try:
        material = load_pem_private_key(content, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise SigningKeyError("is not a private key in PEM format without a passphrase") from None
    return _wrap(material)


def read_signing_key(path: Path) -> SigningKey:
    """Return the key of a file: a private key in PEM format, or a secret for HS256.

    Raises:
        SigningKeyError: other users can read the file, or it has no such key.
    """
    try:
        content = read_secret(resolve_links(path), _MAX_KEY_BYTES)
    except PrivateFileError as error:
        raise SigningKeyError(str(error)) from None
    try:
        if b"-----BEGIN" in content:
            return parse_private_key(content)
        return SigningKey(SECRET_ALGORITHM, parse_secret(content).find(None).material, None)
    except (SigningKeyError, KeySetError) as error:
        raise SigningKeyError(f"{path} {error}") from None


def create_token(
    key: SigningKey,
    *,
    user: str,
    role: Role,
    issuer: str,
    audience: str,
    ttl_s: float,
    connection_url: str = "",
    now: float | None = None,
) -> str:
    """Return an access token. It cannot be revoked, so `ttl_s` should be short.

    Args:
        key: of the issuer.
        user: id of the user.
        role: the only one in which the token is accepted.
        issuer: value of `iss`.
        audience: value of `aud`.
        ttl_s: seconds until it expires.
        connection_url: WebSocket URL for which alone it is valid; empty: its audience limits it.
        now: seconds since the epoch; None: the current time.

    Raises:
        SigningKeyError: the user or the time is not valid.
    """
    if not user or len(user) > MAX_ID_CHARS or not is_single_line(user):
        raise SigningKeyError(f"The user has to be a text of 1 to {MAX_ID_CHARS} printable characters.")
    if not 1 <= ttl_s <= MAX_TTL_S:
        raise SigningKeyError(f"The time to live has to be between 1 and {MAX_TTL_S:.0f} seconds.")
    issued_at = int(time.time() if now is None else now)
    claims: dict[str, Any] = {
        "iss": issuer,
        "aud": audience,
        "sub": user,
        "user_id": user,
        "scope": str(role),
        "iat": issued_at,
        "exp": issued_at + int(ttl_s),
        "jti": secrets.token_hex(16),
    }
    return key.sign(claims | ({"connection_url": connection_url} if connection_url else {}))


def _wrap(material: Any) -> SigningKey:
    match material:
        case Ed25519PrivateKey():
            return SigningKey(
                "EdDSA", material, dict(OKPAlgorithm.to_jwk(material.public_key(), as_dict=True))
            )
        case EllipticCurvePrivateKey() if isinstance(material.curve, SECP256R1):
            return SigningKey(
                "ES256", material, dict(ECAlgorithm.to_jwk(material.public_key(), as_dict=True))
            )
        case RSAPrivateKey() if material.key_size >= _MIN_RSA_BITS:
            return SigningKey(
                "RS256", material, dict(RSAAlgorithm.to_jwk(material.public_key(), as_dict=True))
            )
    raise SigningKeyError("has a key of another kind: use RSA of 2048 bits or more, P-256 or Ed25519")


def _thumbprint(jwk: dict[str, Any]) -> str:
    members = {name: jwk[name] for name in _THUMBPRINT_MEMBERS if name in jwk}
    digest = hashlib.sha256(json.dumps(members, sort_keys=True, separators=(",", ":")).encode()).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
