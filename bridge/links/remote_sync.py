"""Shared runs of a remote server's sync, and its reconnection delays. Sans-IO but for waiting.

Everything that arrives during a run shares it; a change that is reported meanwhile causes one more run. Runs
that only changes cause have growing pauses between them: a server may report a change with every list.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable

import trio

from bridge.links.remote_problem import Cause, RemoteProblem

FIRST_DELAY_S = 1.0
MAX_DELAY_S = 60.0
_FIRST_PAUSE_S = 0.05
_MAX_PAUSE_S = 2.0
_QUIET_S = 10.0
"""Without a change for so long, the next one causes a run at once."""


class Backoff:
    """Delays between attempts: doubled until the limit."""

    def __init__(self, first_s: float = FIRST_DELAY_S, most_s: float = MAX_DELAY_S) -> None:
        self._first_s = first_s
        self._most_s = most_s
        self._next_s = first_s

    def next_delay_s(self) -> float:
        """Return the seconds until the next attempt."""
        delay_s = self._next_s
        self._next_s = min(self._next_s * 2, self._most_s)
        return delay_s

    def reset(self) -> None:
        """Begin with the first delay again, after a success."""
        self._next_s = self._first_s


class _SyncRun:
    """One run, and its outcome for all who wait for it."""

    def __init__(self) -> None:
        self.is_over = trio.Event()
        self.is_awaited = trio.Event()
        self.problem: RemoteProblem | None = None
        self.waiters = 0


class SharedSync:
    """Runs a sync in its own task: one at a time, for all who ask."""

    def __init__(
        self, sync: Callable[[], Awaitable[None]], on_unseen_problem: Callable[[RemoteProblem], None]
    ) -> None:
        """Make the runner.

        Args:
            sync: the work; it raises RemoteProblem.
            on_unseen_problem: is called with a problem that no `refresh` raises.
        """
        self._sync = sync
        self._on_unseen_problem = on_unseen_problem
        self._run: _SyncRun | None = None
        self._is_running = False
        self._is_changed = False
        self._wake = trio.Event()
        self._pauses = Backoff(_FIRST_PAUSE_S, _MAX_PAUSE_S)
        self._last_run_at = -math.inf
        """Start of the last run that only changes caused."""

    def report_change(self) -> None:
        """Ask for a run that begins after this moment."""
        if self._is_running:
            self._is_changed = True
        else:
            self._start()

    async def refresh(self) -> None:
        """Wait for the current run, or for one that begins now.

        Raises:
            RemoteProblem: the run has failed; the previous lists are still valid.
        """
        run = self._run or self._start()
        run.waiters += 1
        run.is_awaited.set()
        await run.is_over.wait()
        if run.problem is not None:
            raise run.problem

    async def serve(self) -> None:
        """Execute the runs, until cancelled."""
        try:
            while True:
                await self._wake.wait()
                self._wake = trio.Event()
                run = self._run or self._start()
                await self._wait_turn(run)
                await self._execute(run)
        finally:
            self._is_running = self._is_changed = False
            self._end(RemoteProblem(Cause.CLOSED, "the connection was closed during the sync"))

    async def wait_idle(self) -> None:
        """Wait until no run is under way."""
        while self._run is not None:
            await self._run.is_over.wait()

    def _start(self) -> _SyncRun:
        if self._run is None:
            self._run = _SyncRun()
            self._wake.set()
        return self._run

    async def _wait_turn(self, run: _SyncRun) -> None:
        if run.waiters:
            return
        if trio.current_time() - self._last_run_at < _QUIET_S:
            with trio.move_on_after(self._pauses.next_delay_s()):
                await run.is_awaited.wait()
        else:
            self._pauses.reset()
        self._last_run_at = trio.current_time()

    async def _execute(self, run: _SyncRun) -> None:
        self._is_running = True
        problem = None
        try:
            await self._sync()
        except RemoteProblem as raised:
            problem = raised
            if not run.waiters:
                self._on_unseen_problem(problem)
        self._is_running = False
        self._end(problem)
        if self._is_changed:
            self._is_changed = False
            self._start()

    def _end(self, problem: RemoteProblem | None) -> None:
        run, self._run = self._run, None
        if run is not None:
            run.problem = problem
            run.is_over.set()
