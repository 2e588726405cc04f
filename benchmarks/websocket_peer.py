"""Blocking WebSocket client of the bench (RFC 6455), with and without TLS.

It encodes and compares whole bursts of messages, so that its own time is small beside that of a relay.
"""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from math import inf
from typing import Any

import msgspec

from benchmarks.conversation import PATIENCE_S, EndError

HOST = "127.0.0.1"
KEY = b"\x12\x9a\x56\xe7"
"""Mask of all frames. Zeros would let a server skip the unmasking."""
_READ_BYTES = 256 * 1024
_AT_ONCE_BYTES = 64 * 1024
"""Bytes that fit into the buffers of a socket, so that one thread can write before it reads."""
_HANDSHAKE = (
    b"GET %b HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)

Bytes = bytes | memoryview


class RelayEnd:
    """Connection to a port of this machine, on which bursts of encoded messages are exchanged."""

    def __init__(self, port: int, tls: ssl.SSLContext | None = None) -> None:
        connection = socket.create_connection((HOST, port), timeout=PATIENCE_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = tls.wrap_socket(connection, server_hostname=HOST) if tls else connection
        self._received = bytearray()
        """Bytes that were read and not decoded yet."""

    def close(self) -> None:
        """Close the connection without a close frame."""
        self._socket.close()

    def send(self, parts: Sequence[Bytes]) -> None:
        """Send encoded messages."""
        for part in parts:
            self._socket.sendall(part)

    def expect(self, parts: Sequence[Bytes], buffer: bytearray) -> None:
        """Read exactly these bytes.

        Raises:
            EndError: other bytes came, or the connection has ended.
        """
        if self._received:
            raise EndError(f"unexpected bytes came: {bytes(self._received[:200])!r}")
        for part in parts:
            with memoryview(buffer)[: len(part)] as view:
                self._read_into(view)
                if view != part:
                    raise EndError(f"other bytes came: {bytes(view[:300])!r}")

    def _read_into(self, view: memoryview) -> None:
        at = 0
        while at < len(view):
            count = self._socket.recv_into(view[at:])
            if not count:
                raise EndError("the connection has ended")
            at += count


class WebSocketPeer(RelayEnd):
    """Client of a WebSocket server, after the opening handshake."""

    def __init__(self, port: int, path: str, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(port, tls)
        self._ids = iter(range(1, 1_000_000))
        self._socket.sendall(_HANDSHAKE % (path.encode(), port))
        head = self._read_head()
        if b" 101 " not in head:
            raise EndError(f"{path} was rejected: {head.decode(errors='replace')}")

    def _read_head(self) -> bytes:
        while (end := self._received.find(b"\r\n\r\n")) < 0:
            self._read()
        return self._take(end + 4)

    def say(self, message: dict[str, Any]) -> None:
        """Send one message."""
        self._socket.sendall(masked_frame(msgspec.json.encode(message)))

    def ask(self, method: str, params: dict[str, Any]) -> Any:
        """Send a request and return its result; notifications are skipped.

        Raises:
            EndError: it is an error, or the connection has ended.
        """
        number = next(self._ids)
        self.say({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        response = self.hear(lambda message: message.get("id") == number and "method" not in message)
        if "result" not in response:
            raise EndError(f"{method} was rejected: {response}")
        return response["result"]

    def hear(self, is_wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Return the next message that matches; earlier ones are skipped.

        Raises:
            EndError: none came within PATIENCE_S, or the connection has ended.
        """
        until = time.monotonic() + PATIENCE_S
        while True:
            message: dict[str, Any] = msgspec.json.decode(self.next_body(until))
            if is_wanted(message):
                return message

    def next_body(self, until: float = inf) -> bytes:
        """Return the next text message, which the server sends as one frame. Raises as `hear` does."""
        while True:
            head, length = self._frame_length()
            if length < 0 or len(self._received) < head + length:
                if time.monotonic() > until:
                    raise EndError("no message came")
                self._read()
                continue
            opcode = self._received[0] & 0x0F
            body = self._take(head + length)[head:]
            if opcode == 1:
                return body
            if opcode == 8:
                raise EndError(f"the server closed the connection: {body!r}")

    def _frame_length(self) -> tuple[int, int]:
        """Return the lengths of the next frame's head and content; -1 if the head is incomplete."""
        data = self._received
        if len(data) < 2:
            return 0, -1
        short = data[1]
        head = {126: 4, 127: 10}.get(short, 2)
        if len(data) < head:
            return head, -1
        return head, int.from_bytes(data[2:head]) if head > 2 else short

    def _read(self) -> None:
        data = self._socket.recv(_READ_BYTES)
        if not data:
            raise EndError("the connection has ended")
        self._received += data

    def _take(self, count: int) -> bytes:
        taken = bytes(self._received[:count])
        del self._received[:count]
        return taken


def transfer(
    sender: RelayEnd, sent: Sequence[Bytes], receiver: RelayEnd, expected: Sequence[Bytes], buffer: bytearray
) -> None:
    """Send a burst at one end, and receive what the relay makes of it at the other. Raises EndError."""
    if sum(map(len, sent)) <= _AT_ONCE_BYTES:
        sender.send(sent)
        receiver.expect(expected, buffer)
        return
    writing = threading.Thread(target=sender.send, args=(sent,), daemon=True)
    writing.start()
    receiver.expect(expected, buffer)
    writing.join()


# ── Frames ──────────────────────────────────────────────────────────────────────────────────────────────────


def frame(body: bytes) -> bytes:
    """Return a message as a server sends it."""
    return frame_head(len(body)) + body


def masked_frame(body: bytes) -> bytes:
    """Return a message as a client sends it."""
    return masked_head(len(body)) + mask(body)


def masked_head(length: int) -> bytes:
    """Return the head of a client's message."""
    return frame_head(length, 0x80) + KEY


def mask(content: bytes) -> bytes:
    """Mask content that begins at a multiple of 4 bytes of its message."""
    size = len(content)
    keys = (KEY * (size // 4 + 1))[:size]
    return (int.from_bytes(content) ^ int.from_bytes(keys)).to_bytes(size)


def frame_head(length: int, mask_bit: int = 0) -> bytes:
    """Return the head of a frame, without a key."""
    if length < 126:
        return bytes((0x81, length | mask_bit))
    if length < 1 << 16:
        return bytes((0x81, 126 | mask_bit)) + length.to_bytes(2)
    return bytes((0x81, 127 | mask_bit)) + length.to_bytes(8)
