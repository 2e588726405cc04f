"""Home issuer: authorization server of one user. Sans-IO; `token_store.py` stores its key and its families.

A family is all tokens of one sign-in. Of refresh tokens only digests are stored. Each is derived from a
secret, its family and its number, so the response to a refresh can be computed again after it was lost, and
every earlier token of a family is recognized. Rules: RFC 6749 (6), RFC 8628, RFC 9700 (4.14.2).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from websocket_proxy.claims import Identity, IssuerRules
from websocket_proxy.device_grant import RandomBytes, SignIn, SignIns
from websocket_proxy.oauth_messages import OAuthCode, OAuthError, TokenResponse
from websocket_proxy.protocol import Role
from websocket_proxy.signing_keys import SigningKey

ACCESS_S = 3600
REFRESH_S = 90 * 24 * 3600.0
"""Seconds that a refresh token is valid. Its successor is valid as long again."""
REPEAT_S = 30.0
"""Seconds in which the same refresh token gets the same response, because responses get lost."""
_MAX_RETIRED = 8
"""Refresh tokens of one family that may get their response again."""
_PREFIX = "mcpbr-"

PATHS = {Role.EXTENSION: "/extension", Role.CLIENT: "/mcp"}
"""WebSocket endpoints."""


class HomeKey(NamedTuple):
    """Secrets of a home issuer, generated together with its user."""

    user_id: str
    signing: SigningKey
    refresh_secret: bytes

    def __repr__(self) -> str:
        """Return a text without the secrets."""
        return f"HomeKey({self.user_id})"


class RetiredToken(msgspec.Struct, frozen=True):
    """A refresh token that was used a moment ago."""

    sha256: str
    number: int
    used_at: float
    """Seconds since the epoch."""


class TokenFamily(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens of one sign-in."""

    id: str
    role: Role
    client_id: str
    client_name: str
    """Name for display, which the client claims."""
    address: str
    """IP address from which the client signed in."""
    created_at: float
    """Seconds since the epoch."""
    refreshed_at: float
    """Seconds since the epoch at which the current tokens were issued."""
    number: int = 0
    """Number of the current refresh token."""
    sha256: str = ""
    """Digest of the current refresh token."""
    retired: tuple[RetiredToken, ...] = ()
    """Tokens that may get their response again, the oldest first."""

    @property
    def expires_at(self) -> float:
        """Return when the current refresh token expires, in seconds since the epoch."""
        return self.refreshed_at + REFRESH_S


class TokenReusedError(OAuthError):
    """An earlier refresh token was used again: the family was revoked, because one of its users stole it."""

    def __init__(self, family: str) -> None:
        text = "The refresh token was used before, so the sign-in was revoked: sign in again."
        super().__init__(OAuthCode.INVALID_GRANT, text)
        self.family = family


class HomeIssuer:
    """State of the authorization server. Its caller stores `families` before it sends a response."""

    def __init__(
        self, key: HomeKey, url: str, families: Iterable[TokenFamily], random_bytes: RandomBytes
    ) -> None:
        """Issue tokens.

        Args:
            key: its secrets.
            url: URL of the proxy (https, or http on loopback): issuer and audience of its tokens.
            families: those that were stored.
            random_bytes: source of codes and ids.
        """
        self.user_id = key.user_id
        self.url = url.rstrip("/")
        self.sign_ins = SignIns(random_bytes)
        self.families = {family.id: family for family in families}
        self._key = key
        self._random_bytes = random_bytes

    @property
    def rules(self) -> IssuerRules:
        """Return the rules that its tokens obey."""
        return IssuerRules(self.url, self.url, "user_id")

    def connection_url(self, role: Role) -> str:
        """Return the WebSocket URL of an endpoint."""
        return self.url.replace("http", "ws", 1) + PATHS[role]

    def is_revoked(self, identity: Identity) -> bool:
        """Return whether the family of a verified token has ended. Tokens of `create_token` have none."""
        return bool(identity.family) and identity.family not in self.families

    def issue(self, sign_in: SignIn, now: float) -> TokenResponse:
        """Return the first tokens of an approved sign-in; the same ones if it asks again soon.

        Raises:
            OAuthError: the sign-in has its tokens already.
        """
        if not sign_in.family:
            sign_in.family = self._open_family(sign_in, now)
        family = self.families.get(sign_in.family)
        if family is None or family.number or now - family.refreshed_at > REPEAT_S:
            raise OAuthError(OAuthCode.INVALID_GRANT, "The device code was used before: sign in again.")
        return self._respond(family, family.number, family.refreshed_at)

    def refresh(self, token: str, client_id: str, now: float) -> TokenResponse:
        """Return the tokens that follow a refresh token.

        Args:
            token: the refresh token.
            client_id: as the client states it; empty: it does not.
            now: seconds since the epoch.

        Raises:
            TokenReusedError: it was used before; close the sockets of the family.
            OAuthError: it is not valid.
        """
        self.forget_expired(now)
        family, number = self._identify(token)
        if client_id and client_id != family.client_id:
            raise _invalid_token()
        digest = _digest(token)
        if digest == family.sha256:
            successor = self._rotate(family, now)
            return self._respond(successor, successor.number, now)
        for each in family.retired:
            if each.sha256 == digest and now - each.used_at <= REPEAT_S:
                return self._respond(family, each.number + 1, each.used_at)
        if number < family.number:
            self.revoke(family.id)
            raise TokenReusedError(family.id)
        raise _invalid_token()

    def revoke(self, family: str) -> bool:
        """End a family; return whether there was one."""
        return self.families.pop(family, None) is not None

    def forget_expired(self, now: float) -> None:
        """Remove the families whose refresh token has expired."""
        for each in list(self.families.values()):
            if now >= each.expires_at:
                del self.families[each.id]

    def jwks(self) -> dict[str, object]:
        """Return the JWK set with the public key."""
        return {"keys": [self._key.signing.jwk]}

    # ── Families ────────────────────────────────────────────────────────────────────────────────────────────

    def _open_family(self, sign_in: SignIn, now: float) -> str:
        name = self._random_bytes(16).hex()
        self.families[name] = TokenFamily(
            id=name,
            role=sign_in.role,
            client_id=sign_in.client_id,
            client_name=sign_in.client_name,
            address=sign_in.address,
            created_at=now,
            refreshed_at=now,
            sha256=_digest(self._derive(name, 0)),
        )
        return name

    def _rotate(self, family: TokenFamily, now: float) -> TokenFamily:
        recent = [each for each in family.retired if now - each.used_at <= REPEAT_S]
        recent.append(RetiredToken(family.sha256, family.number, now))
        successor = msgspec.structs.replace(
            family,
            number=family.number + 1,
            refreshed_at=now,
            sha256=_digest(self._derive(family.id, family.number + 1)),
            retired=tuple(recent[-_MAX_RETIRED:]),
        )
        self.families[family.id] = successor
        return successor

    def _identify(self, token: str) -> tuple[TokenFamily, int]:
        """Return the family of a refresh token that this issuer has issued, and its number."""
        name, _, rest = token.removeprefix(_PREFIX).partition(".")
        number, _, _ = rest.partition(".")
        family = self.families.get(name)
        if family is None or not number.isdecimal() or not number.isascii() or len(number) > 12:
            raise _invalid_token()
        if not hmac.compare_digest(token.encode(errors="replace"), self._derive(name, int(number)).encode()):
            raise _invalid_token()
        return family, int(number)

    def _derive(self, family: str, number: int) -> str:
        """Return a refresh token."""
        digest = hmac.digest(self._key.refresh_secret, f"{family}.{number}".encode(), hashlib.sha256)
        return f"{_PREFIX}{family}.{number}.{base64.urlsafe_b64encode(digest).rstrip(b'=').decode()}"

    def _respond(self, family: TokenFamily, number: int, issued_at: float) -> TokenResponse:
        """Return the tokens with this number. Ed25519 signatures and derived tokens are always the same."""
        claims = {
            "iss": self.url,
            "aud": self.url,
            "sub": self.user_id,
            "user_id": self.user_id,
            "scope": str(family.role),
            "connection_url": self.connection_url(family.role),
            "iat": int(issued_at),
            "exp": int(issued_at) + ACCESS_S,
            "jti": f"{family.id}.{number}",
            "sid": family.id,
        }
        return TokenResponse(
            access_token=self._key.signing.sign(claims),
            expires_in=ACCESS_S,
            refresh_token=self._derive(family.id, number),
            scope=str(family.role),
        )


def _invalid_token() -> OAuthError:
    return OAuthError(OAuthCode.INVALID_GRANT, "The refresh token is not valid: sign in again.")


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode(errors="replace")).hexdigest()
