"""A started operation: cancel it, or wait for its outcome."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

import trio

T = TypeVar("T")
OnFinished = Callable[[T], None]
"""Takes the outcome of an operation. It neither waits nor raises."""


async def wait_outcome(begin: Callable[[OnFinished[T]], Operation]) -> T:
    """Start an operation with a callback, and wait for its outcome. Cancellation cancels the operation."""
    await trio.lowlevel.checkpoint_if_cancelled()
    task = trio.lowlevel.current_task()
    told: list[T] = []
    is_asleep = False

    def on_finished(outcome: T) -> None:
        told.append(outcome)
        if is_asleep:
            trio.lowlevel.reschedule(task)

    operation = begin(on_finished)

    def on_cancelled(_raise_cancel: object) -> trio.lowlevel.Abort:
        operation.cancel()
        return trio.lowlevel.Abort.SUCCEEDED

    if told:
        await trio.lowlevel.cancel_shielded_checkpoint()
    else:
        is_asleep = True
        await trio.lowlevel.wait_task_rescheduled(on_cancelled)
    return told[0]


class Operation(Protocol):
    """A started operation. Its outcome goes to a callback exactly once, possibly during the start."""

    def cancel(self) -> None:
        """Stop the operation; its callback is not called after this. Does nothing after the end."""
        ...


class RunningCall(Operation, Protocol):
    """A call that the hub runs, as an operation."""

    def end_with_session(self) -> None:
        """End the call because its session ends: its outcome says whether it may have run."""
        ...


class FinishedOperation:
    """An operation that ended during its start."""

    def cancel(self) -> None:
        """See `Operation`."""


FINISHED = FinishedOperation()
