"""Length-prefixed frames ⇄ bytes. Sans-IO: bytes are fed in, bodies come out, nothing is waited for.

A frame is a 4-byte length and that many bytes. Browsers use their machine's byte order on the pipes of a
native host; the socket between host and bridge is little-endian, whatever the machine.
"""

from __future__ import annotations

import struct
from typing import Literal

ByteOrder = Literal["native", "little"]

HEADER_BYTES = 4
_HEADERS: dict[ByteOrder, struct.Struct] = {"native": struct.Struct("=I"), "little": struct.Struct("<I")}


class FrameError(ValueError):
    """The peer broke the framing: what follows cannot be trusted, close the connection."""


class FrameDecoder:
    """Bytes in, bodies out. A cap is checked as soon as a header is whole, before its body is gathered.

    Zero-length frames carry nothing and are skipped; `ignored` counts them.
    """

    def __init__(self, cap: int, byte_order: ByteOrder) -> None:
        self._cap = cap
        self._header = _HEADERS[byte_order]
        self._buffer = bytearray()
        self.ignored = 0

    def feed(self, data: bytes | bytearray) -> None:
        """Store what has arrived."""
        self._buffer += data

    def next_frame(self) -> bytes | None:
        """The next whole body, or None until more has been fed.

        Raises:
            FrameError: a header announces more than the cap.
        """
        while (size := self._announced()) is not None:
            if size == 0:
                self.ignored += 1
                del self._buffer[:HEADER_BYTES]
                continue
            end = HEADER_BYTES + size
            if len(self._buffer) < end:
                return None
            with memoryview(self._buffer) as view:
                body = bytes(view[HEADER_BYTES:end])
            del self._buffer[:end]
            return body
        return None

    def end(self) -> None:
        """The peer closed: clean only between frames.

        Raises:
            FrameError: it closed inside a frame.
        """
        if self._buffer:
            raise FrameError(f"closed inside a frame, {len(self._buffer)} bytes of it had arrived")

    def _announced(self) -> int | None:
        if len(self._buffer) < HEADER_BYTES:
            return None
        size: int = self._header.unpack_from(self._buffer)[0]
        if size > self._cap:
            raise FrameError(f"a frame of {size} bytes is announced, the limit is {self._cap}")
        return size


def frame(body: bytes, byte_order: ByteOrder) -> bytes:
    """One frame. Its length is the sender's to check (`wire` has the caps)."""
    return _HEADERS[byte_order].pack(len(body)) + body
