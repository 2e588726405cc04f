"""Rate limit: a token bucket per key. Pure; `now` is a parameter."""

from __future__ import annotations

MINUTE_S = 60.0
_ROUNDING_S = 1e-6
"""Tolerance in seconds: a client that waited as long as announced may call despite rounding."""


class RateLimiter:
    """Allows `per_minute` calls per key at once, and as many again per minute; 0 sets no limit."""

    def __init__(self, per_minute: int = 0) -> None:
        self.per_minute = per_minute
        self._full_at: dict[str, float] = {}
        """When each session's bucket is full again; the one that called longest ago first."""

    def wait_s(self, session_id: str, now: float) -> float:
        """Count a call and return 0, or return the seconds until the next call is allowed.

        Args:
            session_id: whose bucket it is.
            now: seconds, on any clock that only goes forward.
        """
        if not self.per_minute:
            return 0.0
        self._forget_full(now)
        token_s = MINUTE_S / self.per_minute
        full_at = max(self._full_at.get(session_id, now), now) + token_s
        if (wait := full_at - now - MINUTE_S) > _ROUNDING_S:
            return wait
        self._full_at.pop(session_id, None)
        self._full_at[session_id] = full_at
        return 0.0

    def _forget_full(self, now: float) -> None:
        # The first entry is the least recent one: if it is not full yet, it ends the scan.
        while self._full_at:
            longest_silent = next(iter(self._full_at))
            if self._full_at[longest_silent] > now:
                return
            del self._full_at[longest_silent]
