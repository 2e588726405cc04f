"""Waiting for something to change. Who waits asks again whenever anything was heard."""

from __future__ import annotations

from collections.abc import Callable

import trio


class News:
    """Told by whoever hears, waited for by any number."""

    def __init__(self) -> None:
        self._heard = trio.Event()

    def tell(self) -> None:
        """Something has changed."""
        self._heard.set()
        self._heard = trio.Event()

    async def wait(self) -> None:
        """Until the next change."""
        await self._heard.wait()

    async def wait_until(self, is_so: Callable[[], bool], *, until: float) -> bool:
        """Wait for changes that make it so; whether they came before `until` (trio's clock)."""
        with trio.move_on_at(until):
            while not is_so():
                await self._heard.wait()
        return is_so()
