"""Many deadlines and one task that sleeps until the nearest, so that what waits needs no task of its own."""

from __future__ import annotations

import math
from typing import Protocol

import trio


class Timed(Protocol):
    """Something that may take its time until `deadline` (trio's clock)."""

    deadline: float

    def expire(self) -> None:
        """The deadline has passed."""
        ...


class Deadlines:
    """Of everything that was added, while `run` does."""

    def __init__(self) -> None:
        self._timed: dict[Timed, None] = {}
        self._wakes_at = math.inf
        self._sleep = trio.CancelScope()

    def add(self, timed: Timed) -> None:
        """Let it expire at its deadline, unless it is discarded before."""
        self._timed[timed] = None
        self.brought_forward(timed)

    def discard(self, timed: Timed) -> None:
        """It has ended by itself."""
        self._timed.pop(timed, None)

    def brought_forward(self, timed: Timed) -> None:
        """Its deadline is an earlier one now. A later one need not be told: it is looked at in time."""
        if timed.deadline < self._wakes_at:
            self._wakes_at = self._sleep.deadline = timed.deadline

    async def run(self) -> None:
        """Let things expire. Runs until cancelled."""
        while True:
            with self._sleep:
                await trio.sleep_forever()
            now = trio.current_time()
            for timed in [timed for timed in self._timed if timed.deadline <= now]:
                if timed in self._timed:  # the end of one may be the end of another
                    timed.expire()
            self._wakes_at = min((timed.deadline for timed in self._timed), default=math.inf)
            self._sleep = trio.CancelScope(deadline=self._wakes_at)
