"""The socket of another product's host, played: as that does, it tells every client what any was answered."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

import msgspec
import trio

from native_host.existing_channel.channel_messages import FRAME_BYTES
from native_host.ipc.endpoint import bind
from native_host.protocol.framing import FrameDecoder, frame


class TheirSocket:
    """Each tool is answered with its name and tab at once; those that are `silent` are not."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.calls: list[dict[str, Any]] = []
        """The params of each `execute_tool`."""
        self.silent: set[str] = set()
        self.accepted = 0
        """Connections so far."""
        self.clients: set[trio.SocketStream] = set()

    @classmethod
    @asynccontextmanager
    async def in_directory(cls, directory: Path, pid: int = 0) -> AsyncIterator[Self]:
        """Named after a process that lives, usually this one. In the end it is closed and removed."""
        theirs = cls(directory / f"{pid or os.getpid()}.sock")
        listener = trio.SocketListener(trio.socket.from_stdlib_socket(bind(theirs.path)))
        async with listener, trio.open_nursery() as nursery:
            nursery.start_soon(trio.serve_listeners, theirs._serve, [listener])
            try:
                yield theirs
            finally:
                theirs.path.unlink()
                nursery.cancel_scope.cancel()

    async def _serve(self, client: trio.SocketStream) -> None:
        self.accepted += 1
        self.clients.add(client)
        decoder = FrameDecoder(FRAME_BYTES, "little")
        try:
            async for data in client:
                decoder.feed(data)
                while (body := decoder.next_frame()) is not None:
                    await self._hear(msgspec.json.decode(body))
        except trio.BrokenResourceError:
            pass  # it was killed
        finally:
            self.clients.discard(client)

    async def _hear(self, message: dict[str, Any]) -> None:
        params: dict[str, Any] = message["params"]
        self.calls.append(params)
        tool, tab_id = params["tool"], params["args"].get("tabId")
        if tool in self.silent:
            return
        made = f"Created new tab. Tab ID: {len(self.calls)}"
        text = made if tool == "tabs_create_mcp" else f"{tool} in {tab_id}"
        await self.tell({"tool_use_id": params["tool_use_id"], "result": {"content": text}})

    async def tell(self, message: dict[str, Any]) -> None:
        for client in list(self.clients):
            await client.send_all(frame(msgspec.json.encode(message), "little"))
