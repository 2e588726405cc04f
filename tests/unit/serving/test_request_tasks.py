"""What comes of a request gets to the task that answers it: in order, bounded, and nobody waits in vain."""

from __future__ import annotations

import pytest
import trio
import trio.testing
from hypercorn.typing import ASGIReceiveEvent

from http_serving.request_tasks import MAX_QUEUED_PARTS, BodyQueue


def part(number: int) -> ASGIReceiveEvent:
    return {"type": "http.request", "body": b"%d" % number, "more_body": True}


async def test_what_comes_is_taken_in_its_order() -> None:
    parts = BodyQueue()
    for number in range(MAX_QUEUED_PARTS):
        await parts.put(part(number))
    assert [await parts.pop() for _ in range(MAX_QUEUED_PARTS)] == [
        part(number) for number in range(MAX_QUEUED_PARTS)
    ]


async def test_a_task_waits_for_what_has_not_come_yet(nursery: trio.Nursery) -> None:
    parts = BodyQueue()
    nursery.start_soon(parts.put, part(1))
    with trio.fail_after(30):
        assert await parts.pop() == part(1)


async def test_who_brings_too_much_waits_until_something_is_taken(autojump_clock: trio.abc.Clock) -> None:
    parts = BodyQueue()
    for number in range(MAX_QUEUED_PARTS):
        await parts.put(part(number))
    with pytest.raises(trio.TooSlowError), trio.fail_after(1):
        await parts.put(part(MAX_QUEUED_PARTS))
    await parts.pop()
    with trio.fail_after(1):
        await parts.put(part(MAX_QUEUED_PARTS))


async def test_what_comes_after_the_answer_is_dropped_and_nobody_waits_for_it(nursery: trio.Nursery) -> None:
    parts = BodyQueue()
    for number in range(MAX_QUEUED_PARTS):
        await parts.put(part(number))
    nursery.start_soon(parts.put, part(MAX_QUEUED_PARTS))
    await trio.testing.wait_all_tasks_blocked()
    parts.close()
    with trio.fail_after(30):
        for number in range(2 * MAX_QUEUED_PARTS):
            await parts.put(part(number))
