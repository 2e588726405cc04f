"""Waiting for what is told to a callback, for those who have a task to wait in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

import trio

T = TypeVar("T")


async def outcome_of(begin: Callable[[Callable[[T], None]], Pending]) -> T:
    """Begin something with a callback, and wait for what that is told. Giving up cancels it."""
    await trio.lowlevel.checkpoint_if_cancelled()
    task = trio.lowlevel.current_task()
    told: list[T] = []
    is_asleep = False

    def tell(outcome: T) -> None:
        told.append(outcome)
        if is_asleep:
            trio.lowlevel.reschedule(task)

    pending = begin(tell)

    def give_up(_raise_cancel: object) -> trio.lowlevel.Abort:
        pending.cancel()
        return trio.lowlevel.Abort.SUCCEEDED

    if told:
        await trio.lowlevel.cancel_shielded_checkpoint()
    else:
        is_asleep = True
        await trio.lowlevel.wait_task_rescheduled(give_up)
    return told[0]


class Pending(Protocol):
    """What was begun, and whose end is told to a callback: exactly once, possibly before it was begun."""

    def cancel(self) -> None:
        """Nobody waits any more: nothing is called back from now on. Once it has ended, this does nothing."""
        ...


class Ended:
    """A `Pending` whose end was told before it was begun."""

    def cancel(self) -> None:
        """See `Pending`."""


ENDED = Ended()
