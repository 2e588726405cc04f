"""MessageWriter of a connection with TLS: encrypts messages at the moment of writing.

Queued messages stay plain text, so that they can be withdrawn. What TLS itself has to send passes here, too.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from http_serving.tls import TlsChannel, TlsEndedError
from native_host.ipc.streams import MessageWriter
from native_host.protocol.framing import Part

_ENCRYPTED_BYTES = 64 * 1024
"""Bytes that are encrypted at once: of these messages no byte can be withdrawn."""
_NOTHING = memoryview(b"")


def _add_nothing() -> None:
    pass


def open_writer(fd: int, tls: TlsChannel | None, refill: Callable[[], None] = _add_nothing) -> MessageWriter:
    """Return the writer of a connection with or without TLS. See `MessageWriter` for `refill`."""
    return MessageWriter(fd, refill) if tls is None else TlsWriter(fd, tls, refill)


class TlsWriter(MessageWriter):
    """Writes messages, and what its channel has to send. See `MessageWriter`.

    A message whose encryption has begun counts as begun. One that is flushed before the end of the handshake
    breaks the connection. `flush` also sends what `TlsChannel.decrypt` and `close` leave to be sent.
    """

    def __init__(self, fd: int, channel: TlsChannel, refill: Callable[[], None] = lambda: None) -> None:
        super().__init__(fd, refill)
        self._channel = channel
        self._records = _NOTHING
        """Encrypted bytes that the kernel has not taken yet."""

    @property
    def waiting_bytes(self) -> int:
        """Bytes that the kernel has not taken yet."""
        return self.queue.size + len(self._records)

    def _is_refilled(self) -> bool:
        if not (self._records or self._is_broken):
            self._records = memoryview(self._channel.take_outgoing())
        return bool(self._records) or super()._is_refilled()

    def _write_next(self) -> None:
        if self._channel.is_cleartext:
            super()._write_next()
            return
        if not self._records:
            self._records = memoryview(self._encrypt_next())
        written = os.write(self._fd, self._records)
        # An empty view would keep the memory of what it is a view of.
        self._records = self._records[written:] if written < len(self._records) else _NOTHING

    def _encrypt_next(self) -> bytes:
        plain = _join_first(self.queue.next_parts(), _ENCRYPTED_BYTES)
        try:
            records = self._channel.encrypt(plain)
        except TlsEndedError as error:
            raise BrokenPipeError from error
        self.queue.on_written(len(plain))
        return records

    def _break(self) -> None:
        self._records = _NOTHING
        super()._break()


def _join_first(parts: list[Part], size: int) -> Part:
    """Return the first `size` bytes of parts; a long part is not copied."""
    if len(first := parts[0]) >= size or len(parts) == 1:
        return memoryview(first)[:size]
    taken: list[Part] = []
    for part in parts:
        if len(part) >= size:
            taken.append(memoryview(part)[:size])
            break
        taken.append(part)
        size -= len(part)
    return b"".join(taken)
