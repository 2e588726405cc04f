"""Waiting for what is told to a callback, for those who have a task to wait in."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import trio

if TYPE_CHECKING:
    from bridge.hub.transport import Pending

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
