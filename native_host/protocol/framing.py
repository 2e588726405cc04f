"""Length-prefixed frames: encoder and decoder. Sans-IO.

A frame is a 4-byte length and that many bytes. Browsers use their machine's byte order on the pipes of a
native host; the socket between host and bridge is little-endian, whatever the machine.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Literal

ByteOrder = Literal["native", "little"]
Part = bytes | bytearray | memoryview
"""Bytes of a message that is written in several parts, which are never joined."""

HEADER_BYTES = 4
_PIECE_BYTES = 4096
_LONG_BYTES = 16 * 1024
_HEADERS: dict[ByteOrder, struct.Struct] = {"native": struct.Struct("=I"), "little": struct.Struct("<I")}


class FrameError(ValueError):
    """The peer sent an invalid frame; close the connection."""


class FrameDecoder:
    """Decodes frames. It checks the limit when a header is complete, before it stores the body.

    Zero-length frames carry nothing and are skipped, unless they are not taken; `ignored` counts them.
    """

    def __init__(self, cap: int, byte_order: ByteOrder, *, takes_empty: bool = True) -> None:
        self._cap = cap
        self._takes_empty = takes_empty
        self._header = _HEADERS[byte_order]
        self._data = b""
        """Received bytes: complete frames and a partial header, read from `_at` on."""
        self._at = 0
        self._pieces: list[bytes] = []
        self.missing = 0
        """Bytes that it lacks."""
        self.ignored = 0

    def feed(self, data: bytes | bytearray) -> None:
        """Store received bytes."""
        data = bytes(data)
        if self.missing:
            of_body, data = data[: self.missing], data[self.missing :]
            self._store_part(of_body)
        self._data = self._data[self._at :] + data
        self._at = 0

    def next_frame(self) -> bytes | None:
        """Return the next complete body, or None if more bytes are needed.

        Raises:
            FrameError: a header announces more than the cap, or nothing where that is not taken.
        """
        if self.missing:
            return None
        if self._pieces:
            body = b"".join(self._pieces)
            self._pieces = []
            return body
        while (start := self._at + HEADER_BYTES) <= len(self._data):
            size = self._read_length()
            end = start + size
            if end > len(self._data):
                self.missing = size
                self._store_part(self._data[start:])
                self._data, self._at = b"", 0
                return None
            self._at = end
            if size:
                return self._data[start:end]
            self.ignored += 1
        return None

    def end(self) -> None:
        """Check that the peer closed between two frames.

        Raises:
            FrameError: it closed inside a frame.
        """
        of_body = HEADER_BYTES + sum(map(len, self._pieces)) if self.missing else 0
        if arrived := of_body + len(self._data) - self._at:
            raise FrameError(f"closed inside a frame, {arrived} bytes of it had arrived")

    def _read_length(self) -> int:
        size: int = self._header.unpack_from(self._data, self._at)[0]
        if size > self._cap:
            raise FrameError(f"a frame of {size} bytes is announced, the limit is {self._cap}")
        if not (size or self._takes_empty):
            raise FrameError("a frame of 0 bytes is announced, which no message has")
        return size

    def _store_part(self, piece: bytes) -> None:
        """Store a part of a body; small parts are joined at once, because each costs an object."""
        self.missing -= len(piece)
        if self._pieces and len(self._pieces[-1]) < _PIECE_BYTES:
            self._pieces[-1] += piece
        else:
            self._pieces.append(piece)


def split_frame(parts: Sequence[bytes], byte_order: ByteOrder) -> tuple[bytes, ...]:
    """Return one frame in parts. The sender checks the length (`wire` has the limits).

    A short one is a single part, which the kernel takes quicker; a long one is not copied.
    """
    size = sum(map(len, parts))
    header = _HEADERS[byte_order].pack(size)
    return (b"".join((header, *parts)),) if size < _LONG_BYTES else (header, *parts)


def frame(body: bytes, byte_order: ByteOrder) -> bytes:
    """Return one frame as a single part."""
    return _HEADERS[byte_order].pack(len(body)) + body
