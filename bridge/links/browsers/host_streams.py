"""Stream of messages between a bridge and one browser: its interface, and the one over a Unix socket.

`proxy_sockets.py` has the one over the WebSocket of a proxy.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Protocol

import trio

from native_host.ipc import endpoint
from native_host.ipc.send_queue import Outgoing
from native_host.ipc.streams import FrameReader, MessageWriter
from native_host.protocol import wire
from native_host.protocol.framing import split_frame


class HostStream(Protocol):
    """Whole messages in both directions. `put` and `flush` neither wait nor raise."""

    async def run(self) -> None:
        """Write queued messages until cancelled, or until the other end is gone."""
        ...

    async def receive(self) -> list[bytes]:
        """Return all messages that have arrived, at least one; none at the end.

        Raises:
            FrameError: the other end does not keep to the framing.
            trio.BrokenResourceError: it is gone.
        """
        ...

    def put(self, *parts: bytes) -> Outgoing:
        """Queue a message, in parts, for the next `flush`."""
        ...

    def flush(self) -> None:
        """Write queued messages as far as the kernel takes them."""
        ...

    def withdraw(self, outgoing: Outgoing) -> bool:
        """Withdraw a message; return whether the other end receives no byte of it."""
        ...

    async def finish(self) -> None:
        """End it in order while `run` runs, within a second or so. `close` follows."""
        ...

    async def close(self) -> None:
        """Close it at once."""
        ...


class UnixHostStream(HostStream):
    """Frames on the Unix socket of a native host."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._reader = FrameReader(stream.socket.fileno(), wire.SOCKET_BYTES, "little")
        self._writer = MessageWriter(stream.socket.fileno())

    async def run(self) -> None:
        """See `HostStream`."""
        endpoint.tune(self._stream)
        with suppress(trio.BrokenResourceError):  # the reader sees the end as well, and says it
            await self._writer.run()

    async def receive(self) -> list[bytes]:
        """See `HostStream`."""
        return await self._reader.receive()

    def put(self, *parts: bytes) -> Outgoing:
        """See `HostStream`."""
        return self._writer.put(*split_frame(parts, "little"))

    def flush(self) -> None:
        """See `HostStream`."""
        self._writer.flush()

    def withdraw(self, outgoing: Outgoing) -> bool:
        """See `HostStream`."""
        return self._writer.withdraw(outgoing)

    async def finish(self) -> None:
        """See `HostStream`: a host needs no farewell."""

    async def close(self) -> None:
        """See `HostStream`."""
        await trio.aclose_forcefully(self._stream)
