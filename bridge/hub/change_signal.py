"""Broadcast event: waiters wake on every change and re-check their condition."""

from __future__ import annotations

from collections.abc import Callable

import trio


class ChangeSignal:
    """Event that any number of tasks wait for, any number of times."""

    def __init__(self) -> None:
        self._changed = trio.Event()

    def notify(self) -> None:
        """Wake all waiters."""
        self._changed.set()
        self._changed = trio.Event()

    async def wait(self) -> None:
        """Wait for the next change."""
        await self._changed.wait()

    async def wait_until(self, is_so: Callable[[], bool], *, until: float) -> bool:
        """Wait until a condition holds; return whether it does at `until` (trio's clock)."""
        with trio.move_on_at(until):
            while not is_so():
                await self._changed.wait()
        return is_so()
