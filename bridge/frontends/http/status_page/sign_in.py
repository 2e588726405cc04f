"""Who may see the status page: one-time links, and the cookies that they are exchanged for. Pure.

Times are seconds of a clock that never goes back.
"""

from __future__ import annotations

import hashlib
import secrets

LINK_S = 120.0
COOKIE_S = 12 * 3600.0
_LINK_BYTES = 16
_COOKIE_BYTES = 32
_MAX_LINKS = 32
_MAX_COOKIES = 256


class SignIn:
    """What has been handed out. It is gone with the process, and then no cookie is good any more."""

    def __init__(self) -> None:
        self._codes = _Secrets(LINK_S, _MAX_LINKS)
        self._cookies = _Secrets(COOKIE_S, _MAX_COOKIES)

    def new_code(self, now: float) -> str:
        """For a link: good once, for LINK_S."""
        return self._codes.new(_LINK_BYTES, now)

    def cookie_for(self, code: str, now: float) -> str | None:
        """The cookie that a link's code is exchanged for; None: it is none of ours, too old, or was used."""
        return self._cookies.new(_COOKIE_BYTES, now) if self._codes.take(code, now) else None

    def knows(self, cookie: str, now: float) -> bool:
        """Whether this cookie is one of ours and still good."""
        return self._cookies.has(cookie, now)


class _Secrets:
    """The newest ones, by their digests: neither a look-up nor memory tells anything of the secrets."""

    def __init__(self, good_s: float, most: int) -> None:
        self._good_s = good_s
        self._most = most
        self._made: dict[bytes, float] = {}

    def new(self, size: int, now: float) -> str:
        secret = secrets.token_urlsafe(size)
        self._made[_digest(secret)] = now
        for oldest in list(self._made)[: -self._most]:
            del self._made[oldest]
        return secret

    def has(self, secret: str, now: float) -> bool:
        made = self._made.get(_digest(secret))
        return made is not None and now - made < self._good_s

    def take(self, secret: str, now: float) -> bool:
        is_good = self.has(secret, now)
        self._made.pop(_digest(secret), None)
        return is_good


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode(errors="replace")).digest()
