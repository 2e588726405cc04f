"""Token verifier: finds the issuer and the key of an access token, then checks its claims.

Verifications do not wait for each other; only a token whose key is unknown waits for its key set.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec
import trio

from websocket_proxy.claims import (
    Identity,
    IssuerRules,
    TokenRejected,
    read_token,
    reject_issuer,
    reject_lookup,
    verify_token,
)
from websocket_proxy.key_set import (
    SECRET_ALGORITHM,
    KeyLookupError,
    KeySetError,
    normalize_algorithm,
    parse_jwks,
    parse_pem,
    parse_secret,
)
from websocket_proxy.keys import FileKeys, KeySource, KeyState, UrlKeys
from websocket_proxy.protocol import RejectionReason, Role

_KEY_MEMBERS = ("key_file", "jwks_file", "jwks_url", "secret_file")


class IssuerError(Exception):
    """Settings of an issuer cannot be used; tell the user."""


class IssuerSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Table of `[[proxy.issuers]]`. Exactly one of the four kinds of keys is required."""

    issuer: str
    """Value of the claim `iss`."""
    audience: str
    """Value that the claim `aud` has to contain."""
    user_claim: str = ""
    """Claim with the user's id. Empty: `user_id` or `sub`, equal if a token has both."""
    scopes: bool = True
    """False: the issuer states no scopes, so a browser's token is accepted as a client's."""
    key_file: str = ""
    """Public key in PEM format."""
    algorithm: str = ""
    """Algorithm of `key_file`; empty: RS256, ES256 or EdDSA, by the kind of key."""
    jwks_file: str = ""
    jwks_url: str = ""
    secret_file: str = ""
    """Secret for HS256, of at least 32 bytes; only the user who runs the proxy may be able to read it."""


def _is_never_revoked(_: Identity) -> bool:
    return False


class TrustedIssuer(NamedTuple):
    """An issuer: rules for its claims and its keys belong together."""

    rules: IssuerRules
    keys: KeySource
    is_revoked: Callable[[Identity], bool] = _is_never_revoked


class TokenVerifier:
    """Verifies the access tokens of all sockets of a node."""

    def __init__(
        self,
        issuers: Iterable[TrustedIssuer],
        addresses: Mapping[Role, Collection[str]],
        now: Callable[[], float] = time.time,
    ) -> None:
        """Accept tokens of these issuers.

        Args:
            issuers: each with another value of `iss`.
            addresses: WebSocket URLs of the endpoint of each role.
            now: seconds since the epoch.

        Raises:
            IssuerError: two issuers have the same value of `iss`.
        """
        self._issuers: dict[str, TrustedIssuer] = {}
        self._addresses = addresses
        self._now = now
        for each in issuers:
            name = each.rules.issuer
            if name in self._issuers:
                raise IssuerError(f"Two issuers have the name {name}: keep one of them in [[proxy.issuers]].")
            self._issuers[name] = each

    async def verify(self, token: object, role: Role) -> Identity:
        """Return the bearer of an access token, whatever its type is.

        Raises:
            TokenRejected: it is not accepted.
        """
        unverified = read_token(token)
        issuer = self._issuers.get(unverified.issuer)
        if issuer is None:
            raise reject_issuer()
        try:
            key = await issuer.keys.find(unverified.key_id)
        except KeyLookupError as error:
            raise reject_lookup(error) from None
        identity = verify_token(unverified, key, issuer.rules, role, self._addresses[role], self._now())
        if issuer.is_revoked(identity):
            raise TokenRejected(RejectionReason.REVOKED, "The token was revoked: sign in again.")
        return identity

    async def run(self) -> None:
        """Keep all key sets up to date until it is cancelled."""
        async with trio.open_nursery() as nursery:
            for issuer in self._issuers.values():
                nursery.start_soon(issuer.keys.run)

    def key_states(self) -> list[tuple[str, KeyState]]:
        """Return the state of each issuer's keys, with the value of `iss`."""
        return [(name, issuer.keys.state()) for name, issuer in self._issuers.items()]


def open_issuer(settings: IssuerSettings, trusted: ssl.SSLContext | None = None) -> TrustedIssuer:
    """Return the issuer that settings describe. `trusted` is the TLS context for its JWKS URL.

    Raises:
        IssuerError: they are incomplete or contradictory, or a key file cannot be used.
    """
    if not settings.issuer or not settings.audience:
        raise IssuerError("An issuer in [[proxy.issuers]] needs issuer and audience.")
    named = [name for name in _KEY_MEMBERS if getattr(settings, name)]
    if len(named) != 1:
        expected = ", ".join(_KEY_MEMBERS)
        raise IssuerError(f"The issuer {settings.issuer} needs exactly one of {expected}.")
    _check_algorithm(settings)
    try:
        keys = _open_keys(settings, trusted)
    except KeySetError as error:
        raise IssuerError(f"The keys of the issuer {settings.issuer} cannot be used: {error}") from None
    # A server may be down at the start. A file that cannot be used is a mistake in the configuration.
    if isinstance(keys, FileKeys) and (problem := keys.state().problem):
        raise IssuerError(f"The keys of the issuer {settings.issuer} cannot be used: {problem}")
    rules = IssuerRules(settings.issuer, settings.audience, settings.user_claim, settings.scopes)
    return TrustedIssuer(rules, keys)


def _check_algorithm(settings: IssuerSettings) -> None:
    if not settings.algorithm:
        return
    if not settings.key_file:
        raise IssuerError(f"algorithm of the issuer {settings.issuer} is for key_file alone: remove it.")
    if normalize_algorithm(settings.algorithm) in {"", SECRET_ALGORITHM}:
        text = f"algorithm of the issuer {settings.issuer} is not accepted: use RS256, PS256, ES256 or EdDSA."
        raise IssuerError(text)


def _open_keys(settings: IssuerSettings, trusted: ssl.SSLContext | None) -> KeySource:
    if settings.jwks_url:
        return UrlKeys(settings.jwks_url, trusted)
    if settings.jwks_file:
        return FileKeys(_path(settings.jwks_file), parse_jwks)
    if settings.secret_file:
        return FileKeys(_path(settings.secret_file), parse_secret, is_secret=True)
    return FileKeys(_path(settings.key_file), partial(parse_pem, algorithm=settings.algorithm))


def _path(name: str) -> Path:
    return Path(name).expanduser().absolute()
