"""A client of another product's socket, by hand: it keeps the rules of that product's own clients.

One call is in flight; a newer one takes its place, and the older is told so. An answer without an id is that
of the call which waits, whosever it was; one with another's id is passed over. What it reads is counted.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

import msgspec
import trio

from native_host.existing_channel.channel_messages import FRAME_BYTES
from native_host.protocol.framing import HEADER_BYTES, FrameDecoder, frame

_NAMES = (f"raw{n}" for n in itertools.count(1))


class SupersededError(Exception):
    """A newer call has taken the place of this one."""


class RawChannelClient:
    """One connection. Calls are ended by their answer, by a newer call, or by the host's end."""

    def __init__(self, stream: trio.SocketStream, name: str) -> None:
        self.name = name
        """What its ids begin with."""
        self.bytes_read = 0
        self.frames_read = 0
        self.foreign: list[dict[str, Any]] = []
        """Answers to others: the host tells everybody."""
        self.unexpected: list[dict[str, Any]] = []
        """Answers without an id that came when no call waited."""
        self.notifications: list[dict[str, Any]] = []
        self._stream = stream
        self._ids = itertools.count(1)
        self._pending: _Pending | None = None
        self._heard, self._hearing = trio.open_memory_channel[dict[str, Any]](10_000)

    @classmethod
    @asynccontextmanager
    async def connected(cls, path: Path, name: str = "") -> AsyncIterator[Self]:
        """Connect, and read until the block ends."""
        async with await trio.open_unix_socket(path) as stream, trio.open_nursery() as nursery:
            client = cls(stream, name or next(_NAMES))
            nursery.start_soon(client._read)
            yield client
            nursery.cancel_scope.cancel()

    async def call(self, tool: str, **args: Any) -> Any:
        """Run a tool; its answer, as it came.

        Raises:
            SupersededError: a newer call was made before the answer came.
            EOFError: the host has ended the connection.
        """
        use_id = f"{self.name}-{next(self._ids)}"
        if self._pending:
            self._pending.fail(SupersededError(self._pending.use_id))
        self._pending = pending = _Pending(use_id)
        params = {"client_id": "claude-code", "tool": tool, "args": args, "tool_use_id": use_id}
        await self.say(method="execute_tool", params=params)
        return await pending.answer()

    async def say(self, **message: Any) -> None:
        await self.say_frame(msgspec.json.encode(message))

    async def say_frame(self, body: bytes) -> None:
        await self.say_raw(frame(body, "little"))

    async def say_raw(self, data: bytes) -> None:
        await self._stream.send_all(data)

    async def hear(self) -> dict[str, Any]:
        """The next message, whosever it is.

        Raises:
            EOFError: the host has ended the connection.
        """
        try:
            return await self._hearing.receive()
        except trio.EndOfChannel:
            raise EOFError("the host has ended the connection") from None

    async def until_closed(self) -> None:
        """Until the host ends the connection."""
        async for _ in self._hearing:
            pass

    async def _read(self) -> None:
        decoder = FrameDecoder(FRAME_BYTES, "little")
        with self._heard:
            while data := await self._receive():
                self.bytes_read += len(data)
                decoder.feed(data)
                while (body := decoder.next_frame()) is not None:
                    self.frames_read += 1
                    self._take(msgspec.json.decode(body))
        if self._pending:
            self._pending.fail(EOFError("the host has ended the connection"))

    async def _receive(self) -> bytes:
        try:
            return bytes(await self._stream.receive_some(1 << 20))
        except trio.BrokenResourceError:
            return b""

    def _take(self, message: dict[str, Any]) -> None:
        self._heard.send_nowait(message)
        if "method" in message:
            self.notifications.append(message)
        elif self._pending and message.get("tool_use_id", self._pending.use_id) == self._pending.use_id:
            self._pending.settle(message)
            self._pending = None
        elif "tool_use_id" in message:
            self.foreign.append(message)
        else:
            self.unexpected.append(message)


class _Pending:
    """A call that waits."""

    def __init__(self, use_id: str) -> None:
        self.use_id = use_id
        self._ended = trio.Event()
        self._answer: dict[str, Any] = {}
        self._error: Exception | None = None

    def settle(self, answer: dict[str, Any]) -> None:
        self._answer = answer
        self._ended.set()

    def fail(self, error: Exception) -> None:
        self._error = error
        self._ended.set()

    async def answer(self) -> dict[str, Any]:
        await self._ended.wait()
        if self._error:
            raise self._error
        return self._answer


def bytes_of(message: dict[str, Any]) -> int:
    """What one client reads for it: its frame on the socket."""
    return HEADER_BYTES + len(msgspec.json.encode(message))
