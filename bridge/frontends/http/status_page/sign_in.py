"""Sign-in of the status page: one-time links, and the session cookies that they give.

Times are seconds of a monotonic clock. Sans-IO.
"""

from __future__ import annotations

import hashlib
import secrets

LINK_S = 120.0
"""Seconds that a link is valid."""
COOKIE_S = 12 * 3600.0
"""Seconds that a cookie is valid."""
_LINK_BYTES = 16
_COOKIE_BYTES = 32
_MAX_LINKS = 32
_MAX_COOKIES = 256


class SignIn:
    """Codes and cookies that were issued. They are valid until the process ends."""

    def __init__(self) -> None:
        self._codes = _Secrets(LINK_S, _MAX_LINKS)
        self._cookies = _Secrets(COOKIE_S, _MAX_COOKIES)

    def create_code(self, now: float) -> str:
        """Create the code of a link, which is valid once within LINK_S."""
        return self._codes.create(_LINK_BYTES, now)

    def exchange_code(self, code: str, now: float) -> str | None:
        """Return a cookie for a link's code; None if the code is unknown, expired or used."""
        return self._cookies.create(_COOKIE_BYTES, now) if self._codes.use_once(code, now) else None

    def is_valid(self, cookie: str, now: float) -> bool:
        """Return whether a cookie was issued and has not expired."""
        return self._cookies.is_valid(cookie, now)


class _Secrets:
    """The latest secrets, by digest: neither the time of a lookup nor memory reveals a secret."""

    def __init__(self, valid_s: float, limit: int) -> None:
        self._valid_s = valid_s
        self._limit = limit
        self._created_at: dict[bytes, float] = {}

    def create(self, size: int, now: float) -> str:
        secret = secrets.token_urlsafe(size)
        self._created_at[_digest(secret)] = now
        for oldest in list(self._created_at)[: -self._limit]:
            del self._created_at[oldest]
        return secret

    def is_valid(self, secret: str, now: float) -> bool:
        created_at = self._created_at.get(_digest(secret))
        return created_at is not None and now - created_at < self._valid_s

    def use_once(self, secret: str, now: float) -> bool:
        is_valid = self.is_valid(secret, now)
        self._created_at.pop(_digest(secret), None)
        return is_valid


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode(errors="replace")).digest()
