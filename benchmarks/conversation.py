"""A conversation by hand, before its descriptors go to the client's end: hello, handshake, what is offered.

What has been read beyond it is handed on with them.
"""

from __future__ import annotations

import os
import select
import struct
import sys
import time
from collections.abc import Callable, Iterator
from math import inf
from typing import Any, Literal

import msgspec

from benchmarks.responses import RefusedError, take_events, take_response

Framing = Literal["lines", "frames", "http", "events"]
PATIENCE_S = 60.0
_READ_BYTES = 1 << 20


class EndError(Exception):
    """The other side did not do what was waited for; the text says what it was."""


class Conversation:
    """Messages as lines, or as frames with a length in the machine's byte order; or HTTP.

    Of `http`, bodies of responses are received, of `events` those of an open stream; messages to
    send are written unchanged. `read_before` are bytes that the caller has already read.
    """

    def __init__(self, framing: Framing, from_fd: int, to_fd: int, read_before: bytes = b"") -> None:
        self.framing = framing
        self.from_fd = from_fd
        self.to_fd = to_fd
        self._buffer = bytearray(read_before)
        self._ids = iter(range(1, 1_000_000))

    def say(self, message: bytes | dict[str, Any]) -> None:
        """Write one message."""
        body = message if isinstance(message, bytes) else msgspec.json.encode(message)
        data = self._framed(body)
        while data:
            data = data[os.write(self.to_fd, data) :]

    def ask(self, method: str, params: dict[str, Any]) -> Any:
        """Send a request and return its result; other messages are skipped.

        Raises:
            EndError: it is an error, or the stream has ended.
        """
        number = next(self._ids)
        self.say({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        answer = self.hear(lambda message: message.get("id") == number and "method" not in message)
        if "result" not in answer:
            raise EndError(f"{method} was refused: {answer}")
        return answer["result"]

    def hear(self, is_wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Return the next message that matches; earlier ones are skipped.

        Raises:
            EndError: none came within PATIENCE_S.
        """
        until = time.monotonic() + PATIENCE_S
        while True:
            message: dict[str, Any] = msgspec.json.decode(self.next_body(until) or b"{}")
            if is_wanted(message):
                return message

    def rest(self) -> bytes:
        """Bytes that were read and not decoded yet; they precede all further ones."""
        return bytes(self._buffer)

    def next_body(self, until: float = inf) -> bytes:
        """Return the next message, undecoded.

        Raises:
            EndError: none came until then (`time.monotonic`), or the other side closed.
        """
        while (body := self._take_body()) is None:
            wait_s = None if until == inf else max(0.0, until - time.monotonic())
            readable, _, _ = select.select([self.from_fd], [], [], wait_s)
            if not readable:
                raise EndError(f"no answer within {PATIENCE_S:g} s")
            self._read()
        return body

    def arrived(self) -> Iterator[bytes]:
        """Read once, and return the messages that are complete; the caller knows that data is there.

        Raises:
            EndError: the other side closed.
        """
        self._read()
        while (body := self._take_body()) is not None:
            yield body

    def _framed(self, body: bytes) -> bytes:
        match self.framing:
            case "lines":
                return body + b"\n"
            case "frames":
                return struct.pack("=I", len(body)) + body
            case _:
                return body

    def _read(self) -> None:
        data = os.read(self.from_fd, _READ_BYTES)
        if not data:
            raise EndError("the other side closed the conversation")
        self._buffer += data

    def _take_body(self) -> bytes | None:
        if self.framing in ("http", "events"):
            return self._take_http()
        if self.framing == "lines":
            start, end = 0, self._buffer.find(b"\n")
            following = end + 1
        else:
            start = 4
            end = following = 4 + int.from_bytes(self._buffer[:4], sys.byteorder)
        if end < start or len(self._buffer) < following:
            return None
        body = bytes(self._buffer[start:end])
        del self._buffer[:following]
        return body

    def _take_http(self) -> bytes | None:
        try:
            return (take_response if self.framing == "http" else take_events)(self._buffer)
        except RefusedError as error:
            raise EndError(f"refused: {error}") from None
