"""Frames for the one task that writes a stream. Requests wait for room; what must not wait never does."""

from __future__ import annotations

from collections import deque

import trio

ROOM_BYTES = 64 * 1024 * 1024
"""Above it, requests wait. One frame may be as long."""


class Outgoing:
    """A frame on its way. Until it is being written it can be withdrawn."""

    def __init__(self, frame: bytes) -> None:
        self.frame = frame
        self.size = len(frame)
        self.is_sent = False
        """Its writing has begun: the peer may have got it."""

    def withdraw(self) -> None:
        """Do not write it after all."""
        self.frame = b""


class Outbox:
    """A queue with one reader, the writer of the stream."""

    def __init__(self) -> None:
        self._queue: deque[Outgoing] = deque()
        self._waiting_bytes = 0
        self._arrived = trio.Event()
        self._left = trio.Event()
        self._is_closed = False

    def close(self) -> None:
        """Nobody takes any more: whoever waits for room need not."""
        self._is_closed = True
        self._left.set()

    async def put(self, frame: bytes) -> Outgoing:
        """Queue a frame as soon as there is room."""
        while self._waiting_bytes >= ROOM_BYTES and not self._is_closed:
            await self._left.wait()
        return self.push(frame)

    def push(self, frame: bytes) -> Outgoing:
        """Queue a small frame at once."""
        outgoing = Outgoing(frame)
        self._queue.append(outgoing)
        self._waiting_bytes += len(frame)
        self._arrived.set()
        return outgoing

    async def take(self) -> bytes:
        """The next frame to write; from now on it counts as sent."""
        while True:
            while not self._queue:
                self._arrived = trio.Event()
                await self._arrived.wait()
            outgoing = self._queue.popleft()
            self._waiting_bytes -= outgoing.size
            self._left.set()
            self._left = trio.Event()
            if outgoing.frame:
                outgoing.is_sent = True
                return outgoing.frame
