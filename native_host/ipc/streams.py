"""The one reader of a descriptor: frames, all that have arrived at once."""

from __future__ import annotations

import os

import trio

from native_host.descriptor import make_ready
from native_host.protocol.framing import ByteOrder, FrameDecoder, FrameError

_READ_BYTES = 64 * 1024
"""As many small frames as are handled before others have their turn."""
_LARGE_READ_BYTES = 1024 * 1024
"""While a large frame is under way; more does not fit into a pipe."""


class Inlet:
    """Reads frames from a pipe or a socket, which stays its owner's to close."""

    def __init__(self, fd: int, cap: int, byte_order: ByteOrder, *, takes_empty: bool = True) -> None:
        make_ready(fd)
        self._fd = fd
        self._decoder = FrameDecoder(cap, byte_order, takes_empty=takes_empty)

    async def receive(self) -> list[bytes]:
        """The bodies of all whole frames that have arrived, at least one; none when the other end has closed.

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
        """Whether there may be more to read."""
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
