"""Access tokens and keys by hand: what an issuer would send, and what none would."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from functools import cache
from typing import Any, NamedTuple

from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from websocket_proxy.claims import IssuerRules
from websocket_proxy.protocol import RejectionReason

NOW = 1_800_000_000.0
ISSUER = "https://login.example"
AUDIENCE = "https://proxy.example"
RULES = IssuerRules(ISSUER, AUDIENCE)
EXTENSION_URL = "wss://proxy.example/extension"
CLIENT_URL = "wss://proxy.example/mcp"
SECRET = b"0123456789abcdef0123456789abcdef"


class IssuerKey(NamedTuple):
    """A private key of an issuer."""

    private: Any
    kid: str
    alg: str

    @property
    def public(self) -> Any:
        return self.private.public_key()

    @property
    def pem(self) -> bytes:
        """The public key."""
        pem: bytes = self.public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        return pem

    def jwk(self, **changed: Any) -> dict[str, Any]:
        """The public key for a JWK set, with other members changed or added."""
        readers: dict[str, Any] = {"RS256": RSAAlgorithm, "PS256": RSAAlgorithm, "ES256": ECAlgorithm}
        found = readers.get(self.alg, OKPAlgorithm).to_jwk(self.public, as_dict=True)
        return {**found, "kid": self.kid, "alg": self.alg, "use": "sig", **changed}

    def sign(self, data: bytes) -> bytes:
        match self.alg:
            case "RS256":
                return bytes(self.private.sign(data, padding.PKCS1v15(), SHA256()))
            case "PS256":
                pss = padding.PSS(padding.MGF1(SHA256()), 32)
                return bytes(self.private.sign(data, pss, SHA256()))
            case "ES256":
                r, s = decode_dss_signature(self.private.sign(data, ec.ECDSA(SHA256())))
                return r.to_bytes(32, "big") + s.to_bytes(32, "big")
        return bytes(self.private.sign(data))


@cache
def issuer_key(alg: str = "EdDSA", kid: str = "key-1") -> IssuerKey:
    """The key of this name: the same one at each call."""
    match alg:
        case "RS256" | "PS256":
            return IssuerKey(rsa.generate_private_key(65537, 2048), kid, alg)
        case "ES256":
            return IssuerKey(ec.generate_private_key(ec.SECP256R1()), kid, alg)
    return IssuerKey(ed25519.Ed25519PrivateKey.generate(), kid, alg)


def claims(**changed: Any) -> dict[str, Any]:
    """Claims of a valid token of a client; None removes one."""
    usual = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "user_id": "user-1",
        "scope": "mcpb:client",
        "connection_url": CLIENT_URL,
        "iat": NOW,
        "exp": NOW + 3600,
    }
    return {name: value for name, value in {**usual, **changed}.items() if value is not None}


def token(
    key: IssuerKey | None = None,
    *,
    header: dict[str, Any] | bytes | None = None,
    payload: bytes | None = None,
    **changed: Any,
) -> str:
    """A token that the key signs; `header` members change those of the key, None removes one."""
    key = key or issuer_key()
    if not isinstance(header, bytes):
        members = {"alg": key.alg, "kid": key.kid, **(header or {})}
        header = json.dumps({name: value for name, value in members.items() if value is not None}).encode()
    signed = (
        encode(header) + b"." + encode(json.dumps(claims(**changed)).encode() if payload is None else payload)
    )
    return (signed + b"." + encode(key.sign(signed))).decode()


def hmac_token(secret: bytes, *, kid: str | None = None, **changed: Any) -> str:
    """A token that is signed with a secret, whatever that is."""
    header = {"alg": "HS256"} | ({"kid": kid} if kid else {})
    signed = encode(json.dumps(header).encode()) + b"." + encode(json.dumps(claims(**changed)).encode())
    return (signed + b"." + encode(hmac.digest(secret, signed, hashlib.sha256))).decode()


def jwks(*keys: dict[str, Any]) -> bytes:
    """A JWK set."""
    return json.dumps({"keys": keys}).encode()


def encode(data: bytes) -> bytes:
    """Base64url without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def key_set() -> bytes:
    """A JWK set with two usual keys, one of RSA, and two that have the same id."""
    same = issuer_key(kid="same"), issuer_key("ES256", kid="same")
    keys = [issuer_key(), issuer_key(kid="key-2"), issuer_key("RS256", kid="rsa"), *same]
    return jwks(*[key.jwk() for key in keys])


class RejectedToken(NamedTuple):
    """A value of `accessToken` that a client's endpoint rejects, and why."""

    what: str
    value: object
    reason: RejectionReason


def rejected_tokens(now: float = NOW) -> list[RejectedToken]:
    """Each kind of token that is rejected with `key_set` and RULES."""
    rsa = issuer_key("RS256", kid="rsa")
    nested = b"[" * 2500 + b"]" * 2500
    times: dict[str, Any] = {"iat": now, "exp": now + 3600}
    unsigned, payload, _ = token(header={"alg": "none"}, **times).split(".")
    found: list[tuple[str, object, RejectionReason]] = [
        ("no token", None, RejectionReason.MISSING),
        ("none", f"{unsigned}.{payload}.", RejectionReason.ALGORITHM),
        (
            "another algorithm than the key's",
            token(rsa._replace(alg="PS256"), **times),
            RejectionReason.ALGORITHM,
        ),
        ("the public key as HMAC secret", hmac_token(rsa.pem, kid="rsa", **times), RejectionReason.ALGORITHM),
        ("an unknown kid", token(header={"kid": "unknown"}, **times), RejectionReason.UNKNOWN_KEY),
        ("no kid", token(header={"kid": None}, **times), RejectionReason.UNKNOWN_KEY),
        ("a repeated kid", token(issuer_key(kid="same"), **times), RejectionReason.UNKNOWN_KEY),
        (
            "the signature of another key",
            token(issuer_key(kid="key-3"), header={"kid": "key-1"}, **times),
            RejectionReason.SIGNATURE,
        ),
        ("exp in the past", token(iat=now, exp=now - 30), RejectionReason.EXPIRED),
        ("nbf in the future", token(**times, nbf=now + 60), RejectionReason.NOT_YET_VALID),
        ("iat in the future", token(iat=now + 60, exp=now + 3600), RejectionReason.NOT_YET_VALID),
        ("another aud", token(**times, aud="https://other.example"), RejectionReason.AUDIENCE),
        ("another iss", token(**times, iss="https://other.example"), RejectionReason.ISSUER),
        (
            "another connection_url",
            token(**times, connection_url=EXTENSION_URL),
            RejectionReason.CONNECTION_URL,
        ),
        ("a browser's scope", token(**times, scope="mcpb:extension"), RejectionReason.SCOPE),
        ("sub and user_id that differ", token(**times, sub="user-2"), RejectionReason.USER),
        ("deeply nested claims", token(payload=nested), RejectionReason.MALFORMED),
        ("a deeply nested header", token(header=nested, payload=b"{}"), RejectionReason.MALFORMED),
        ("critical extensions", token(header={"crit": ["exp"]}, **times), RejectionReason.MALFORMED),
        ("an exp of 400 digits", token(iat=now, exp=10**400), RejectionReason.MALFORMED),
        ("1 MB", "x" * 1024 * 1024, RejectionReason.MALFORMED),
        ("a number", 7, RejectionReason.MALFORMED),
    ]
    return [RejectedToken(*each) for each in found]
