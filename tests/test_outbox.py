"""The outbox of a link: bounded for requests, never in the way of a cancel."""

import pytest
import trio
import trio.testing

from bridge.links import outbox
from bridge.links.outbox import Outbox


@pytest.fixture(autouse=True)
def _little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "ROOM_BYTES", 10)


async def test_frames_leave_in_the_order_they_came() -> None:
    box = Outbox()
    await box.put(b"first")
    box.push(b"second")
    with trio.fail_after(1):
        assert [await box.take(), await box.take()] == [b"first", b"second"]


async def test_a_request_waits_for_room_and_a_cancel_does_not(nursery: trio.Nursery) -> None:
    box = Outbox()
    await box.put(b"0123456789")
    nursery.start_soon(box.put, b"waits")
    await trio.testing.wait_all_tasks_blocked()
    box.push(b"cancel")
    with trio.fail_after(1):
        assert [await box.take() for _ in range(3)] == [b"0123456789", b"cancel", b"waits"]


async def test_what_is_withdrawn_in_time_is_never_written() -> None:
    box = Outbox()
    withdrawn = await box.put(b"no")
    written = await box.put(b"yes")
    withdrawn.withdraw()
    with trio.fail_after(1):
        assert await box.take() == b"yes"
    assert (withdrawn.is_sent, written.is_sent) == (False, True)


async def test_whoever_waits_for_room_need_not_when_the_link_has_ended(nursery: trio.Nursery) -> None:
    box = Outbox()
    await box.put(b"0123456789")
    with trio.fail_after(1):
        async with trio.open_nursery() as waiting:
            waiting.start_soon(box.put, b"waits")
            await trio.testing.wait_all_tasks_blocked()
            box.close()
