"""Verification of access tokens (JWT): signature, issuer, audience, time, user, scope, address. Sans-IO.

It finds no key: `token_verifier.py` does, between `read_token` and `verify_token`. Every failure is a
TokenRejected with one of the reasons of the protocol. No text quotes the token. Rules: RFC 7519, RFC 8725.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple, NoReturn

import msgspec
from jwt import PyJWS, PyJWTError
from jwt.algorithms import get_default_algorithms

from http_serving.server_address import AddressError, parse_server_address
from native_host.protocol.untrusted_text import is_single_line
from websocket_proxy.key_set import (
    UNDECODABLE,
    KeyLookupError,
    LookupFault,
    VerificationKey,
    normalize_algorithm,
)
from websocket_proxy.protocol import RejectionReason, Role

MAX_TOKEN_BYTES = 8 * 1024
SKEW_S = 30.0
"""Seconds that the clock of an issuer may differ from ours."""
MAX_ID_CHARS = 256
_MAX_TIME = 2**53


class TokenRejected(Exception):  # noqa: N818  (an outcome of the check, not a fault of the program)
    """A token is not accepted."""

    def __init__(self, reason: RejectionReason, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail
        """One sentence for the bearer: what was expected, and what to do."""


class IssuerRules(NamedTuple):
    """Rules for the claims of one issuer."""

    issuer: str
    """Value of `iss`."""
    audience: str
    """Value that `aud` has to contain."""
    user_claim: str = ""
    """Claim with the user's id. Empty: `user_id` or `sub`; if a token has both, they have to be equal."""
    has_scopes: bool = True
    """False: its tokens are accepted in both roles."""


class Identity(NamedTuple):
    """Bearer of a verified token."""

    user_id: str
    """Unique for the issuer."""
    issuer: str
    role: Role
    scope: str
    """Scope of the token; empty if it has none."""
    expires_at: float
    """Value of `exp`, in seconds since the epoch. The token is rejected SKEW_S later."""
    token_id: str = ""
    """Value of `jti`."""
    family: str = ""
    """Value of `sid`: for a token of the home issuer the family of tokens, which is revoked as a whole."""
    connection_url: str = ""

    @property
    def owner(self) -> tuple[str, str]:
        """Return issuer and user: the same user id of two issuers stands for two users."""
        return self.issuer, self.user_id


class UnverifiedToken:
    """A token whose signature is not checked. Nothing of it may be used but to find its key."""

    def __init__(self, text: str, algorithm: str, key_id: str | None, issuer: str) -> None:
        self.text = text
        self.algorithm = algorithm
        self.key_id = key_id
        self.issuer = issuer

    def __repr__(self) -> str:
        """Return a text without the token."""
        return f"UnverifiedToken({self.algorithm})"


def read_token(token: object) -> UnverifiedToken:
    """Return what the token says of its key.

    Args:
        token: value of `accessToken`, of any type; None if it is missing.

    Raises:
        TokenRejected: it cannot be a token that any key verifies.
    """
    if token is None or token == "":
        raise TokenRejected(
            RejectionReason.MISSING, "An access token is required in accessToken: sign in first."
        )
    if not isinstance(token, str):
        _reject_malformed("accessToken has to be a string")
    if len(token) > MAX_TOKEN_BYTES:
        _reject_malformed(f"it is longer than {MAX_TOKEN_BYTES} bytes")
    if not token.isascii() or token.count(".") != 2:
        _reject_malformed("it is not a signed JWT of three parts")
    header, payload = _decode_parts(token)
    if "crit" in header:
        _reject_malformed("it has critical extensions (crit), which are not supported")
    algorithm = normalize_algorithm(header.get("alg"))
    if not algorithm:
        text = "The algorithm of the token is not accepted: use RS256, PS256, ES256, EdDSA, or HS256."
        raise TokenRejected(RejectionReason.ALGORITHM, text)
    return UnverifiedToken(token, algorithm, header.get("kid"), _read_issuer(payload))


def reject_lookup(error: KeyLookupError) -> TokenRejected:
    """Return the rejection of a token for which there is no single key."""
    match error.fault:
        case LookupFault.ID_MISSING:
            text = "The token names no key (kid), and its issuer has more than one: configure the issuer."
        case LookupFault.REPEATED:
            text = "The issuer has several keys with the id (kid) of the token: correct its key set."
        case LookupFault.UNAVAILABLE:
            text = "The proxy has no keys of the issuer now: try again later, or ask its operator."
        case _:
            text = "The issuer has no key with the id (kid) of the token: get a new token."
    return TokenRejected(RejectionReason.UNKNOWN_KEY, text)


def verify_token(
    token: UnverifiedToken,
    key: VerificationKey,
    rules: IssuerRules,
    role: Role,
    addresses: Collection[str],
    now: float,
) -> Identity:
    """Return the bearer of a token.

    Args:
        token: the token.
        key: the key that its issuer has for it.
        rules: of that issuer.
        role: of the socket on which it arrived.
        addresses: WebSocket URLs of the endpoint for this role.
        now: seconds since the epoch.

    Raises:
        TokenRejected: one of the checks failed.
    """
    claims = _Claims(_verify_signature(token, key))
    _check_issuer(claims, rules)
    expires_at = _check_times(claims, now)
    user_id = _find_user(claims, rules)
    scope = _check_scope(claims, rules, role)
    connection_url = claims.get_text("connection_url")
    _check_address(connection_url, addresses)
    return Identity(
        user_id,
        rules.issuer,
        role,
        scope,
        expires_at,
        claims.get_text("jti"),
        claims.get_text("sid"),
        connection_url,
    )


# ── Signature ───────────────────────────────────────────────────────────────────────────────────────────────


def _create_jws() -> PyJWS:
    jws = PyJWS()
    jws.register_algorithm("Ed25519", get_default_algorithms()["EdDSA"])
    return jws


_JWS = _create_jws()


class _IssuerClaim(msgspec.Struct):
    iss: str | None = None


def _decode_parts(token: str) -> tuple[Mapping[str, Any], bytes]:
    try:
        parts = _JWS.decode_complete(token, options={"verify_signature": False})
    except (PyJWTError, ValueError, RecursionError):
        _reject_malformed("its header or its encoding is invalid")
    return parts["header"], parts["payload"]


def _read_issuer(payload: bytes) -> str:
    try:
        issuer = msgspec.json.decode(payload, type=_IssuerClaim).iss
    except UNDECODABLE:
        _reject_malformed("its claims are not a valid JSON object, or iss is not a string")
    return issuer or ""


def _verify_signature(token: UnverifiedToken, key: VerificationKey) -> bytes:
    """Return the payload of the token."""
    if token.algorithm != key.algorithm:
        text = f"The key of the token is for {key.algorithm} alone: the issuer has to sign with that."
        raise TokenRejected(RejectionReason.ALGORITHM, text)
    names = [token.algorithm, "Ed25519"] if token.algorithm == "EdDSA" else [token.algorithm]
    try:
        parts = _JWS.decode_complete(token.text, key.material, names)
    except (PyJWTError, ValueError):
        text = "The signature is not valid for the key of the issuer: get a new token."
        raise TokenRejected(RejectionReason.SIGNATURE, text) from None
    payload: bytes = parts["payload"]
    return payload


# ── Claims ──────────────────────────────────────────────────────────────────────────────────────────────────


class _Claims:
    """Claims of a token, read by their type."""

    def __init__(self, payload: bytes) -> None:
        try:
            self._claims = msgspec.json.decode(payload, type=dict[str, Any])
        except UNDECODABLE:
            _reject_malformed("its claims are not a valid JSON object")

    def has(self, name: str) -> bool:
        return name in self._claims

    def get_text(self, name: str, max_chars: int = 2048) -> str:
        """Return a string; empty if it is missing."""
        value = self._claims.get(name, "")
        if not isinstance(value, str) or len(value) > max_chars:
            _reject_malformed(f"its claim {name} is not a string of at most {max_chars} characters")
        return value

    def get_time(self, name: str) -> float | None:
        """Return a time in seconds since the epoch; None if it is missing."""
        if name not in self._claims:
            return None
        value = self._claims[name]
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not 0 <= value <= _MAX_TIME:
            _reject_malformed(f"its claim {name} is not a number of seconds")
        return float(value)

    def get_audiences(self) -> Collection[str]:
        """Return the audiences of the token."""
        value = self._claims.get("aud", [])
        values = [value] if isinstance(value, str) else value
        if not isinstance(values, list) or not all(isinstance(each, str) for each in values):
            _reject_malformed("its claim aud is not a string or a list of strings")
        return values


def _check_issuer(claims: _Claims, rules: IssuerRules) -> None:
    # The issuer that was read before selected the key. It is compared again with the verified payload.
    if claims.get_text("iss") != rules.issuer:
        raise reject_issuer()
    if rules.audience not in claims.get_audiences():
        text = f"The token is for another audience: aud has to contain {rules.audience}."
        raise TokenRejected(RejectionReason.AUDIENCE, text)


def reject_issuer() -> TokenRejected:
    """Return the rejection of a token whose issuer is not configured."""
    text = "The issuer (iss) of the token is not configured at this proxy: sign in at this proxy."
    return TokenRejected(RejectionReason.ISSUER, text)


def _check_times(claims: _Claims, now: float) -> float:
    """Return when the token expires."""
    expires_at = claims.get_time("exp")
    if expires_at is None:
        raise TokenRejected(
            RejectionReason.EXPIRED, "The token has no time of expiry (exp): get one that has."
        )
    if now >= expires_at + SKEW_S:
        text = "The token has expired: renew it, and check the clocks of both machines."
        raise TokenRejected(RejectionReason.EXPIRED, text)
    for name in ("nbf", "iat"):
        begins_at = claims.get_time(name)
        if begins_at is not None and now < begins_at - SKEW_S:
            text = f"The token is valid only from a later time ({name}): check the clocks of both machines."
            raise TokenRejected(RejectionReason.NOT_YET_VALID, text)
    return expires_at


def _find_user(claims: _Claims, rules: IssuerRules) -> str:
    names = [rules.user_claim] if rules.user_claim else ["user_id", "sub"]
    found = {claims.get_text(name) for name in names if claims.has(name)}
    if len(found) > 1:
        text = "The claims sub and user_id of the token differ: name one of them as the user claim."
        raise TokenRejected(RejectionReason.USER, text)
    user_id = found.pop() if found else ""
    if not user_id or len(user_id) > MAX_ID_CHARS or not is_single_line(user_id):
        expected = " or ".join(names)
        text = f"The token names no user: {expected} has to be a text of at most {MAX_ID_CHARS} characters."
        raise TokenRejected(RejectionReason.USER, text)
    return user_id


def _check_scope(claims: _Claims, rules: IssuerRules, role: Role) -> str:
    """Return the scope of the token."""
    scope = claims.get_text("scope")
    if rules.has_scopes and role not in scope.split(" "):
        text = f"The token is not for this endpoint: its scope has to contain {role}."
        raise TokenRejected(RejectionReason.SCOPE, text)
    return scope


def _check_address(connection_url: str, addresses: Collection[str]) -> None:
    # Tokens of identity providers have no such claim: their audience ties them to this proxy.
    if not connection_url:
        return
    wanted = normalize_address(connection_url)
    if wanted is None or wanted not in {normalize_address(address) for address in addresses}:
        text = "The token is for another address (connection_url): connect to that, or sign in here."
        raise TokenRejected(RejectionReason.CONNECTION_URL, text)


def normalize_address(url: str) -> str | None:
    """Return a WebSocket URL without the port of its scheme and a slash at its end; None if it is not one."""
    try:
        address = parse_server_address(url)
    except AddressError:
        return None
    is_endpoint = address.scheme in {"ws", "wss"} and not address.query
    return str(address).rstrip("/") if is_endpoint else None


def _reject_malformed(problem: str) -> NoReturn:
    raise TokenRejected(RejectionReason.MALFORMED, f"The access token cannot be read: {problem}.") from None
