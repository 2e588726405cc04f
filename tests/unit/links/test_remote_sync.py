"""Shared runs of a remote server's sync."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio
import trio.lowlevel
import trio.testing

from bridge.links.remote_problem import RemoteProblem
from bridge.links.remote_sync import SharedSync


class Runs:
    """A sync that counts its runs."""

    def __init__(self) -> None:
        self.started_at: list[float] = []
        self.changes_each = False
        self.shared = SharedSync(self._sync, self._fail)

    async def _sync(self) -> None:
        self.started_at.append(trio.current_time())
        if self.changes_each:
            self.shared.report_change()
        await trio.lowlevel.checkpoint()

    def _fail(self, problem: RemoteProblem) -> None:
        raise problem


@asynccontextmanager
async def serving() -> AsyncIterator[Runs]:
    runs = Runs()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(runs.shared.serve)
        yield runs
        nursery.cancel_scope.cancel()


async def test_a_change_causes_a_run_at_once(autojump_clock: trio.testing.MockClock) -> None:
    async with serving() as runs:
        for _ in range(3):
            runs.shared.report_change()
            reported_at = trio.current_time()
            await runs.shared.wait_idle()
            assert runs.started_at[-1] == reported_at
            await trio.sleep(10)


async def test_changes_with_each_run_are_paced(autojump_clock: trio.testing.MockClock) -> None:
    async with serving() as runs:
        runs.changes_each = True
        runs.shared.report_change()
        await trio.sleep(60)
        assert 20 < len(runs.started_at) < 50


async def test_a_refresh_does_not_wait_for_the_pace(autojump_clock: trio.testing.MockClock) -> None:
    async with serving() as runs:
        runs.changes_each = True
        runs.shared.report_change()
        await trio.sleep(60)
        asked_at = trio.current_time()
        await runs.shared.refresh()
        assert runs.started_at[-1] == asked_at
