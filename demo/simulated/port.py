"""Browser's end of a native port: a host process on two pipes, with frames on them.

It starts and ends a host as Chromium 156 does: the extension's origin is the only argument, and at the end
both pipes are closed, with SIGKILL two seconds later.
"""

from __future__ import annotations

import math
import os
import subprocess
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

import trio

from native_host.protocol import wire
from native_host.protocol.framing import FrameDecoder, frame

KILL_SECONDS = 2.0
"""Seconds that Chromium waits for a host after it has closed the pipes (measured)."""
READ_BYTES = 64 * 1024


class NativePort:
    """One host process. `write_forever` is the only writer, `read_until_end` the only reader."""

    def __init__(self, process: trio.Process) -> None:
        if process.stdin is None or process.stdout is None:
            raise ValueError("a native port needs both pipes of its process")
        self.process = process
        self._to_host = process.stdin
        self._from_host = process.stdout
        # A browser queues for a slow host without a bound, and so does its stand-in.
        self._queue, self._queued = trio.open_memory_channel[bytes](math.inf)

    def post(self, body: bytes) -> None:
        """Queue a message for the host."""
        self.post_bytes(frame(body, "native"))

    def post_bytes(self, data: bytes) -> None:
        """Queue bytes as they are: for frames that a real browser would never write."""
        self._queue.send_nowait(data)

    async def write_forever(self) -> None:
        """Write what is queued, until the host closes its end."""
        try:
            async for data in self._queued:
                await self._to_host.send_all(data)
        except trio.BrokenResourceError:
            return  # the host is gone; the reader sees that as well, and ends the port

    async def read_until_end(self, on_body: Callable[[bytes], None]) -> None:
        """Hand over each message of the host, until it ends.

        Raises:
            FrameError: the host broke the framing or the browser's cap. Chromium closes the port then.
        """
        decoder = FrameDecoder(wire.TO_BROWSER_BYTES, "native")
        while data := await self._from_host.receive_some(READ_BYTES):
            decoder.feed(data)
            while (body := decoder.next_frame()) is not None:
                on_body(body)

    async def _end(self) -> None:
        await self._to_host.aclose()
        await self._from_host.aclose()
        with trio.move_on_after(KILL_SECONDS):
            await self.process.wait()
            return
        self.process.kill()
        await self.process.wait()


@asynccontextmanager
async def open_port(
    command: Sequence[str], origin: str, env: Mapping[str, str], stderr: int | None
) -> AsyncIterator[NativePort]:
    """Start a host and end it: with EOF, and after two seconds with SIGKILL. `env` is added to our own.

    Raises:
        OSError: the command cannot be started.
    """
    process = await trio.lowlevel.open_process(
        [*command, origin],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        env={**os.environ, **env},
    )
    port = NativePort(process)
    try:
        yield port
    finally:
        with trio.CancelScope(shield=True):  # bounded by KILL_SECONDS
            await port._end()  # noqa: SLF001 - the other half of this function
