"""Size of a remote server's JSON message that arrives in chunks: bytes and values.

The mcp package needs up to 6 µs and 850 bytes for each value, and reads a message in one step: one of 60 MiB
with small values stopped the bridge for 47 s and took 6.6 GB (2 cores).
"""

from __future__ import annotations

from bridge.links.remote_problem import Cause, RemoteProblem

MAX_MESSAGE_BYTES = 64 << 20
MAX_MESSAGE_VALUES = 100_000
"""Strings, numbers, objects and so on, at all depths."""
_VALUE_S = 4e-6
"""Seconds that the mcp package needs for a value, about (2 cores)."""


class MessageMeter:
    """Counts one message after another."""

    def __init__(self, *, is_event: bool = False) -> None:
        """Begin the first message.

        Args:
            is_event: the message is in the lines of an event.
        """
        self._is_event = is_event
        self.begin()

    def begin(self) -> None:
        """Begin the next message."""
        self._bytes = self._values = 0
        self._is_in_string = self._ends_in_escape = False

    @property
    def parse_s(self) -> float:
        """Seconds that the mcp package needs to read the message, about."""
        return self._values * _VALUE_S

    def add(self, chunk: bytes | bytearray) -> None:
        """Count a part of the message.

        Raises:
            RemoteProblem: the message is too large.
        """
        self._bytes += len(chunk)
        if self._bytes > MAX_MESSAGE_BYTES:
            raise _too_large(f"of more than {MAX_MESSAGE_BYTES >> 20} MiB")
        if self._is_event and (b"\n" in chunk or b"\r" in chunk):
            self._count_lines(chunk)
        else:
            self._count_values(chunk)
        if self._values > MAX_MESSAGE_VALUES:
            raise _too_large(f"with more than {MAX_MESSAGE_VALUES} values")

    def _count_lines(self, chunk: bytes | bytearray) -> None:
        line, *others = chunk.replace(b"\r", b"\n").split(b"\n")
        self._count_values(line)
        self._values += len(others)
        for line in others:
            # No string of JSON has a line break: quotation marks in other fields of the event hide nothing.
            self._is_in_string = self._ends_in_escape = False
            self._count_values(line)

    def _count_values(self, text: bytes | bytearray) -> None:
        if self._ends_in_escape and text:
            text, self._ends_in_escape = text[1:], False
        if b"\\" in text:
            text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
            self._ends_in_escape = text.endswith(b"\\")
        if b'"' in text:
            parts = text.split(b'"')
            text = b"".join(parts[self._is_in_string :: 2])
            self._is_in_string ^= len(parts) % 2 == 0
        elif self._is_in_string:
            return
        # A value is the first of an array or object, or follows a comma.
        self._values += text.count(b",") + text.count(b"[") + text.count(b"{")


def _too_large(measure: str) -> RemoteProblem:
    return RemoteProblem(Cause.TOO_LARGE, f"it sent a message {measure}", handed=True)
