"""Progress of a step that takes longer than two seconds: what runs, and on a terminal for how long so far."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import trio

QUIET_S = 2
"""Seconds after which a step is named."""


@contextmanager
def show_progress(nursery: trio.Nursery, what: str) -> Iterator[None]:
    """Show a step while the block runs, which prints nothing itself; the nursery outlives the block."""
    ticker = trio.CancelScope()
    is_terminal, began = sys.stdout.isatty(), trio.current_time()
    nursery.start_soon(_count_seconds, ticker, what, is_terminal)
    try:
        yield
    finally:
        ticker.cancel()
        if is_terminal and trio.current_time() - began >= QUIET_S:
            print("\r\x1b[K", end="", flush=True)


async def _count_seconds(ticker: trio.CancelScope, what: str, is_terminal: bool) -> None:
    with ticker:
        began = trio.current_time()
        await trio.sleep(QUIET_S)
        if not is_terminal:
            print(f"{what} ...", flush=True)
            return
        while True:
            print(f"\r{what} ... {trio.current_time() - began:.0f} s", end="", flush=True)
            await trio.sleep(1)
