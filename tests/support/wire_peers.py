"""Peers for tests: they speak the real wire to real processes."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

import msgspec
import trio

from native_host.ipc import endpoint
from native_host.protocol import wire
from native_host.protocol.framing import FrameDecoder, frame

HOST_COMMAND = [sys.executable, "-I", "-m", "native_host"]
ORIGIN = f"chrome-extension://{wire.EXTENSION_ID}/"


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that tells nobody when it happens (files, other processes). Bound it."""
    while not condition():  # noqa: ASYNC110 - there is no event to wait for
        await trio.sleep(0.005)


class SocketClient:
    """A bridge's end of the socket, by hand: one message at a time, as JSON."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self._decoder = FrameDecoder(wire.SOCKET_BYTES, "little")
        self.bytes_read = 0

    @classmethod
    @asynccontextmanager
    async def connected(
        cls, directory: Path, instance: str, *, introduce: bool = True
    ) -> AsyncIterator[Self]:
        """Connect, and unless told otherwise say hello and hear the replay to its end."""
        async with await endpoint.connect(directory, instance) as stream:
            client = cls(stream)
            if introduce:
                await client.introduce()
                await client.heard("host/replayed")
            yield client

    async def introduce(self) -> None:
        await self.notify("bridge/hello", wire=wire.WIRE_VERSION, version="test", pid=os.getpid())

    async def say(self, **message: Any) -> None:
        await self.say_raw(msgspec.json.encode({"jsonrpc": "2.0", **message}))

    async def say_raw(self, body: bytes) -> None:
        await self.stream.send_all(frame(body, "little"))

    async def notify(self, method: str, **params: Any) -> None:
        await self.say(method=method, params=params)

    async def next_message(self) -> dict[str, Any]:
        """The next message, whatever it is.

        Raises:
            EOFError: the host closed the connection.
        """
        while (body := self._decoder.next_frame()) is None:
            try:
                data = await self.stream.receive_some(1 << 20)
            except trio.BrokenResourceError:
                data = b""
            if not data:
                raise EOFError("the host closed the connection")
            self.bytes_read += len(data)
            self._decoder.feed(data)
        message: dict[str, Any] = msgspec.json.decode(body)
        return message

    async def until_closed(self) -> AsyncIterator[dict[str, Any]]:
        """Every message until the host closes the connection."""
        while True:
            try:
                yield await self.next_message()
            except EOFError:
                return

    async def heard(self, method: str) -> Any:
        """Until a message of this method comes; its params."""
        while (message := await self.next_message()).get("method") != method:
            pass
        return message["params"]

    async def answer_to(self, request_id: Any) -> dict[str, Any]:
        """Until the answer to this request comes."""
        while (message := await self.next_message()).get("id") != request_id or "method" in message:
            pass
        return message

    async def ask(self, request_id: Any, method: str, **params: Any) -> dict[str, Any]:
        await self.say(id=request_id, method=method, params=params)
        return await self.answer_to(request_id)
