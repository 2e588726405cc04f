"""Token budget of sampling: tokens that a site's requests may cost in an hour. Pure; `now` is a parameter.

The budget counts what a request may cost at most: its text, its media, and the tokens of the response that it
allows. What a model really used is not known.
"""

from __future__ import annotations

from collections import deque

HOUR_S = 3600.0
BYTES_PER_TOKEN = 4
"""Bytes of a request that count as one token."""
MEDIA_TOKENS = 1500
"""Tokens that an image or an audio clip counts as, for each MEDIA_CHARS of it."""
MEDIA_CHARS = 1024 * 1024


def count_media_tokens(size: int) -> int:
    """Return the tokens that an image or audio clip of this size (characters of base64) counts as."""
    return MEDIA_TOKENS * (1 + size // MEDIA_CHARS)


class SamplingBudget:
    """Tokens spent by each origin in the last hour."""

    def __init__(self) -> None:
        self._spent: dict[str, deque[tuple[float, int]]] = {}

    def left(self, origin: str, tokens_per_hour: int, now: float) -> int:
        """Return the tokens that an origin may still spend.

        Args:
            origin: whose budget it is.
            tokens_per_hour: the user's limit.
            now: seconds, on any clock that only goes forward.
        """
        self._forget_old(now)
        return tokens_per_hour - sum(tokens for _, tokens in self._spent.get(origin, ()))

    def spend(self, origin: str, tokens: int, now: float) -> None:
        """Count tokens of a request that is about to be sent."""
        self._spent.setdefault(origin, deque()).append((now, tokens))

    def _forget_old(self, now: float) -> None:
        for origin, spent in list(self._spent.items()):
            while spent and spent[0][0] <= now - HOUR_S:
                spent.popleft()
            if not spent:
                del self._spent[origin]
