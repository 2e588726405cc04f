"""Keys that verify access tokens, each for exactly one algorithm: JWK sets, PEM, secrets. Sans-IO.

Rules: RFC 7517, RFC 7518, RFC 8725 (3.1: no algorithm confusion), RFC 9864 (the name Ed25519).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from typing import Any

import msgspec
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from jwt import PyJWTError
from jwt.algorithms import ECAlgorithm, HMACAlgorithm, OKPAlgorithm, RSAAlgorithm

MIN_SECRET_BYTES = 32
MAX_KEYS = 256
_MIN_RSA_BITS, _MAX_RSA_BITS = 2048, 8192

SECRET_ALGORITHM = "HS256"  # noqa: S105  (a name)
_ALGORITHMS = {name: name for name in ("RS256", "PS256", "ES256", "EdDSA", SECRET_ALGORITHM)} | {
    "Ed25519": "EdDSA"
}
"""Accepted names and the algorithms that they stand for."""


UNDECODABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Exceptions of msgspec for JSON of any content."""


class KeySetError(Exception):
    """A key or a key set cannot be used. The text says why, and contains no part of it."""


class LookupFault(Enum):
    """Cause of a KeyLookupError."""

    UNKNOWN = auto()
    """No key has this id."""
    ID_MISSING = auto()
    """The token names no key, and the issuer has more than one."""
    REPEATED = auto()
    """Several keys have this id."""
    UNAVAILABLE = auto()
    """There are no keys: they could not be read, or are too old."""


class KeyLookupError(Exception):
    """The set has no single key for a token."""

    def __init__(self, fault: LookupFault) -> None:
        super().__init__(fault.name)
        self.fault = fault


class VerificationKey:
    """A key and its only algorithm."""

    def __init__(self, algorithm: str, material: Any, key_id: str = "") -> None:
        """Store a key; an empty `key_id` means that it has none."""
        self.algorithm = algorithm
        self.material = material
        self.key_id = key_id

    def __repr__(self) -> str:
        """Return a text without the key."""
        return f"VerificationKey({self.algorithm})"


class KeySet:
    """Keys of one issuer."""

    def __init__(self, keys: Sequence[VerificationKey] = ()) -> None:
        self._keys = tuple(keys)

    def __len__(self) -> int:
        return len(self._keys)

    def find(self, key_id: str | None) -> VerificationKey:
        """Return the key of a token. One without an id is accepted if the issuer has a single key.

        Raises:
            KeyLookupError: no key or several ones match.
        """
        if not self._keys:
            raise KeyLookupError(LookupFault.UNAVAILABLE)
        is_single = len(self._keys) == 1
        if not key_id:
            if is_single:
                return self._keys[0]
            raise KeyLookupError(LookupFault.ID_MISSING)
        found = [key for key in self._keys if key.key_id == key_id]
        if len(found) == 1:
            return found[0]
        if found:
            raise KeyLookupError(LookupFault.REPEATED)
        if is_single and not self._keys[0].key_id:
            return self._keys[0]
        raise KeyLookupError(LookupFault.UNKNOWN)


def normalize_algorithm(name: object) -> str:
    """Return the algorithm that a name in a token or a key stands for; empty if it is not accepted."""
    return _ALGORITHMS.get(name, "") if isinstance(name, str) else ""


def parse_jwks(content: bytes) -> KeySet:
    """Return the usable keys of a JWK set. Secrets, private keys and keys for encryption are ignored.

    Raises:
        KeySetError: it is not a JWK set, or has too many keys.
    """
    try:
        document = msgspec.json.decode(content, type=_JwkSet)
    except UNDECODABLE:
        raise KeySetError("is not a JWK set: expected a JSON object with a list named keys") from None
    if len(document.keys) > MAX_KEYS:
        raise KeySetError(f"has more than {MAX_KEYS} keys")
    return KeySet([key for raw in document.keys if (key := _parse_jwk(raw))])


def parse_pem(content: bytes, algorithm: str = "") -> KeySet:
    """Return the public key of a PEM file. An empty algorithm: RS256, ES256 or EdDSA, by the kind of key.

    Raises:
        KeySetError: it has no public key for an accepted algorithm, or not for this one.
    """
    try:
        material = load_pem_public_key(content)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise KeySetError("is not a public key in PEM format (-----BEGIN PUBLIC KEY-----)") from None
    supported = _supported_algorithms(material)
    if not supported:
        raise KeySetError("has a key of another kind: use RSA of 2048 bits or more, P-256 or Ed25519")
    chosen = normalize_algorithm(algorithm) if algorithm else supported[0]
    if chosen not in supported:
        raise KeySetError(f"has a key for {' or '.join(supported)}, not for the configured algorithm")
    return KeySet([VerificationKey(chosen, material)])


def parse_secret(content: bytes) -> KeySet:
    """Return the secret of a file, without newlines at its end, as the key of HS256.

    Raises:
        KeySetError: it is too short, or is a key of another kind.
    """
    secret = content.rstrip(b"\r\n")
    if len(secret) < MIN_SECRET_BYTES:
        raise KeySetError(f"has a secret of {len(secret)} bytes: HS256 needs at least {MIN_SECRET_BYTES}")
    try:
        HMACAlgorithm(HMACAlgorithm.SHA256).prepare_key(secret)
    except PyJWTError:
        raise KeySetError("has a public or private key: configure it as a key file") from None
    return KeySet([VerificationKey(SECRET_ALGORITHM, secret)])


class _JwkSet(msgspec.Struct):
    keys: list[msgspec.Raw]


class _Jwk(msgspec.Struct, omit_defaults=True):
    """Members of a public key; a set may have others."""

    kty: str
    kid: str = ""
    use: str = "sig"
    key_ops: tuple[str, ...] = ("verify",)
    alg: str = ""
    crv: str = ""
    x: str = ""
    y: str = ""
    n: str = ""
    e: str = ""


def _parse_jwk(raw: msgspec.Raw) -> VerificationKey | None:
    """Return a key; None if it is not a public key that verifies signatures in an accepted algorithm."""
    try:
        jwk = msgspec.json.decode(raw, type=_Jwk)
    except UNDECODABLE:
        return None
    if jwk.use != "sig" or "verify" not in jwk.key_ops:
        return None
    material = _read_material(jwk)
    supported = _supported_algorithms(material)
    algorithm = normalize_algorithm(jwk.alg) if jwk.alg else next(iter(supported), "")
    return VerificationKey(algorithm, material, jwk.kid) if algorithm in supported else None


def _read_material(jwk: _Jwk) -> Any:
    readers = {"RSA": RSAAlgorithm.from_jwk, "EC": ECAlgorithm.from_jwk, "OKP": OKPAlgorithm.from_jwk}
    if jwk.kty not in readers:
        return None
    try:
        return readers[jwk.kty](msgspec.to_builtins(jwk))
    except (PyJWTError, ValueError, TypeError, UnsupportedAlgorithm):
        return None


def _supported_algorithms(material: Any) -> tuple[str, ...]:
    """Return the algorithms in which a public key may verify; the first is the usual one."""
    match material:
        case RSAPublicKey() if _MIN_RSA_BITS <= material.key_size <= _MAX_RSA_BITS:
            return "RS256", "PS256"
        case EllipticCurvePublicKey() if isinstance(material.curve, SECP256R1):
            return ("ES256",)
        case Ed25519PublicKey():
            return ("EdDSA",)
    return ()
