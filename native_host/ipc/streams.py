"""Frame reader and message writer of one descriptor.

The reader returns all frames that have arrived. The writer writes at once while the kernel takes data, and
queues the rest.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from contextlib import suppress

import trio

from native_host.ipc.send_queue import Outgoing, SendQueue
from native_host.protocol.framing import ByteOrder, FrameDecoder, FrameError, Part

_READ_BYTES = 64 * 1024
"""Small frames that are handled before other tasks run."""
_LARGE_READ_BYTES = 1024 * 1024
"""Bytes per read during a large frame; a pipe holds no more."""


class FrameReader:
    """Reads frames from a pipe or a socket; its owner closes the descriptor."""

    def __init__(self, fd: int, cap: int, byte_order: ByteOrder, *, takes_empty: bool = True) -> None:
        make_ready(fd)
        self._fd = fd
        self._decoder = FrameDecoder(cap, byte_order, takes_empty=takes_empty)

    async def receive(self) -> list[bytes]:
        """Return the bodies of all complete frames, at least one; none when the other end has closed.

        Raises:
            FrameError: a frame is longer than the cap, or empty where that is not taken. What came before it
                was returned earlier.
            trio.BrokenResourceError: the other end is gone.
        """
        while not (bodies := self._whole_frames()):
            try:
                await trio.lowlevel.wait_readable(self._fd)
            except PermissionError:  # a file, as /dev/null is one: there is always something to be read
                await trio.lowlevel.checkpoint()
            if not self._read():
                break
        return bodies

    def _read(self) -> bool:
        """Read once; return whether more data may be there."""
        size = min(max(self._decoder.missing, _READ_BYTES), _LARGE_READ_BYTES)
        try:
            data = os.read(self._fd, size)
        except BlockingIOError:
            return True
        except OSError as error:
            raise trio.BrokenResourceError("the other end is gone") from error
        self._decoder.feed(data)
        return bool(data)

    def _whole_frames(self) -> list[bytes]:
        bodies: list[bytes] = []
        try:
            while (body := self._decoder.next_frame()) is not None:
                bodies.append(body)
        except FrameError:
            if not bodies:
                raise
        return bodies


_MESSAGE_BYTES = 512
"""Memory of a queued message beside its bytes."""
_PIPE_BYTES = 1024 * 1024
"""Largest pipe that Linux grants to every user. The default of 64 KiB costs a large frame many turns."""


def make_ready(fd: int) -> None:
    """Make a descriptor non-blocking, and enlarge a pipe for large frames."""
    os.set_blocking(fd, False)
    set_size = getattr(fcntl, "F_SETPIPE_SZ", None)
    if set_size is not None:
        with suppress(OSError):  # no pipe, or its user has too many large ones
            fcntl.fcntl(fd, set_size, _PIPE_BYTES)


class MessageWriter:
    """Writes to a pipe or a socket, whole messages in order. `run` is its task.

    The descriptor is made non-blocking, and stays its owner's to close (after `trio.lowlevel.notify_closing`
    where `run` may still wait for it). `refill` is asked for more whenever all is written, and may `put` it.
    """

    def __init__(self, fd: int, refill: Callable[[], None] = lambda: None) -> None:
        make_ready(fd)
        self._fd = fd
        self._refill = refill
        self.queue = SendQueue()
        """Queued messages. Use it directly only if `put` lacks an argument."""
        self._is_full = False
        """The kernel takes no more data; `run` waits until it does."""
        self._is_finished = False
        self._is_broken = False
        self._runner = trio.lowlevel.ParkingLot()
        self._room = trio.lowlevel.ParkingLot()

    @property
    def waiting_bytes(self) -> int:
        """Bytes that the kernel has not taken yet."""
        return self.queue.size

    @property
    def held_bytes(self) -> int:
        """Memory of all that the kernel has not taken yet: many short messages need more than their bytes."""
        return self.waiting_bytes + len(self.queue) * _MESSAGE_BYTES

    def write(self, *parts: Part) -> Outgoing:
        """Write or queue a message. It neither waits nor raises: `run` reports the end of the connection."""
        outgoing = self.put(*parts)
        self.flush()
        return outgoing

    def put(self, *parts: Part) -> Outgoing:
        """Queue a message for the next `flush`, so that several messages cost one system call."""
        outgoing = Outgoing(parts)
        if not self._is_broken:
            self.queue.put(outgoing)
        return outgoing

    def withdraw(self, outgoing: Outgoing) -> bool:
        """Withdraw a message; return whether the other end receives no byte of it."""
        is_withdrawn = self.queue.withdraw(outgoing)
        self._room.unpark_all()
        return is_withdrawn

    def withdraw_all(self) -> None:
        """Withdraw all messages of which no byte has been written."""
        self.queue.withdraw_all()
        self._room.unpark_all()

    def flush(self) -> None:
        """Write queued messages as far as the kernel takes them."""
        if self._is_broken:
            self.queue.clear()
        while not self._is_full and (self.queue.size or self._is_refilled()):
            try:
                self._write_next()
            except BlockingIOError:
                self._is_full = True
                self._runner.unpark_all()
            except OSError:
                self._break()
        if self._room:
            self._room.unpark_all()

    def finish(self) -> None:
        """Let `run` return when all messages are written."""
        self._is_finished = True
        self._runner.unpark_all()

    async def run(self) -> None:
        """Write queued messages whenever the kernel takes data.

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
            if self.queue or not self._is_finished:
                self._break()
        raise trio.BrokenResourceError("the other end is gone")

    async def wait_room(self, limit: int = 0, *, counts_memory: bool = False) -> None:
        """Wait until at most `limit` bytes wait to be written, or until their messages need at most so much.

        Raises:
            trio.BrokenResourceError: the other end is gone, or `run` has ended: it is of no use to wait.
        """
        while (self.held_bytes if counts_memory else self.waiting_bytes) > limit:
            await self._room.park()
        if self._is_broken:
            raise trio.BrokenResourceError("the other end is gone")

    def _write_next(self) -> None:
        """Write queued parts once; raise OSError if the kernel takes none."""
        parts = self.queue.next_parts()
        self.queue.on_written(os.write(self._fd, parts[0]) if len(parts) == 1 else os.writev(self._fd, parts))

    def _is_refilled(self) -> bool:
        if not self._is_broken:
            self._refill()
        return bool(self.queue)

    def _break(self) -> None:
        self._is_broken = True
        self.queue.clear()
        self._runner.unpark_all()
        self._room.unpark_all()
