"""The one writer of a descriptor: it writes at once while the kernel takes it, and queues the rest."""

from __future__ import annotations

import os
from collections.abc import Callable

import trio

from native_host.descriptor import make_ready
from native_host.ipc.send_queue import Backlog, Outgoing, Part


class Outlet:
    """Writes to a pipe or a socket, whole messages in order. `run` is its task.

    The descriptor is made non-blocking, and stays its owner's to close (after `trio.lowlevel.notify_closing`
    where `run` may still wait for it). `refill` is asked for more whenever all is written, and may `put` it.
    """

    def __init__(self, fd: int, refill: Callable[[], None] = lambda: None) -> None:
        make_ready(fd)
        self._fd = fd
        self._refill = refill
        self.backlog = Backlog()
        """What waits; to be put into by hand only where `put` does not say enough."""
        self._is_full = False
        """The kernel takes no more; `run` waits until it does."""
        self._is_finished = False
        self._is_broken = False
        self._runner = trio.lowlevel.ParkingLot()
        self._room = trio.lowlevel.ParkingLot()

    @property
    def waiting_bytes(self) -> int:
        """Of what the kernel has not taken yet."""
        return self.backlog.size

    def write(self, *parts: Part) -> Outgoing:
        """Write a message, or queue it. Never waits, never raises: `run` says that the other end is gone."""
        outgoing = self.put(*parts)
        self.flush()
        return outgoing

    def put(self, *parts: Part) -> Outgoing:
        """Queue a message for the next `flush`: several that come together cost one system call."""
        outgoing = Outgoing(parts)
        if not self._is_broken:
            self.backlog.put(outgoing)
        return outgoing

    def withdraw(self, outgoing: Outgoing) -> bool:
        """Take a message back: whether the other end will never see any of it."""
        is_withdrawn = self.backlog.withdraw(outgoing)
        self._room.unpark_all()
        return is_withdrawn

    def withdraw_all(self) -> None:
        """Take back everything but what has begun."""
        self.backlog.withdraw_all()
        self._room.unpark_all()

    def flush(self) -> None:
        """Write what waits, as far as the kernel takes it."""
        if self._is_broken:
            self.backlog.clear()
        while not self._is_full and (self.backlog.size or self._is_refilled()):
            try:
                self.backlog.written(self._write(self.backlog.next_parts()))
            except BlockingIOError:
                self._is_full = True
                self._runner.unpark_all()
            except OSError:
                self._break()
        if self._room:
            self._room.unpark_all()

    def finish(self) -> None:
        """Nothing more will be written: `run` returns when all is."""
        self._is_finished = True
        self._runner.unpark_all()

    async def run(self) -> None:
        """Write what waits whenever the kernel has room.

        Raises:
            trio.BrokenResourceError: the other end is gone.
        """
        try:
            while not self._is_broken:
                if self._is_full:
                    await trio.lowlevel.wait_writable(self._fd)
                    self._is_full = False
                    self.flush()
                elif self._is_finished:
                    return
                else:
                    await self._runner.park()
        finally:
            if self.backlog or not self._is_finished:
                self._break()
        raise trio.BrokenResourceError("the other end is gone")

    async def wait_room(self, limit: int = 0) -> None:
        """Wait until at most `limit` bytes wait to be written.

        Raises:
            trio.BrokenResourceError: the other end is gone, or `run` has ended: it is of no use to wait.
        """
        while self.waiting_bytes > limit:
            await self._room.park()
        if self._is_broken:
            raise trio.BrokenResourceError("the other end is gone")

    def _write(self, parts: list[Part]) -> int:
        return os.write(self._fd, parts[0]) if len(parts) == 1 else os.writev(self._fd, parts)

    def _is_refilled(self) -> bool:
        if not self._is_broken:
            self._refill()
        return bool(self.backlog)

    def _break(self) -> None:
        self._is_broken = True
        self.backlog.clear()
        self._runner.unpark_all()
        self._room.unpark_all()
