"""A Unix socket before another one, which counts what passes towards its clients."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Self

import trio

from native_host.ipc.endpoint import bind
from native_host.protocol.framing import FrameDecoder
from native_host.protocol.wire import SOCKET_BYTES


class CountingProxy:
    """Each connection to it is one to the socket behind it."""

    def __init__(self, path: Path, behind: Path) -> None:
        self.path = path
        self.connections = 0
        self.bytes = 0
        """That all clients together were sent, frames and their lengths."""
        self.frames = 0
        self._behind = behind

    @classmethod
    @asynccontextmanager
    async def before(cls, behind: Path, directory: Path) -> AsyncIterator[Self]:
        """In a directory of its own; it is called by our pid, as if we were that socket's host."""
        directory.mkdir(mode=0o700)
        proxy = cls(directory / f"{os.getpid()}.sock", behind)
        listener = trio.SocketListener(trio.socket.from_stdlib_socket(bind(proxy.path)))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.serve_listeners, proxy._serve, [listener])
            yield proxy
            nursery.cancel_scope.cancel()

    async def _serve(self, client: trio.SocketStream) -> None:
        self.connections += 1
        async with await trio.open_unix_socket(self._behind) as host, trio.open_nursery() as nursery:
            nursery.start_soon(self._pass_on, client, host)
            decoder = FrameDecoder(SOCKET_BYTES, "little")
            async for data in host:
                self.bytes += len(data)
                decoder.feed(data)
                while decoder.next_frame() is not None:
                    self.frames += 1
                await client.send_all(data)
            nursery.cancel_scope.cancel()

    async def _pass_on(self, client: trio.SocketStream, host: trio.SocketStream) -> None:
        async for data in client:
            await host.send_all(data)
        await host.send_eof()
