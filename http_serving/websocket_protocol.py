"""WebSocket frames of one connection, after its handshake. Sans-IO.

It decodes text messages itself, which costs a small part of what a general decoder does. Control frames are
wsproto's. There is no extension, no subprotocol and no binary message. Rules: RFC 6455, sections 5 to 8.
"""

from __future__ import annotations

import os
import struct
from codecs import utf_8_decode
from typing import NamedTuple

from wsproto.connection import Connection, ConnectionState, ConnectionType
from wsproto.events import CloseConnection, Ping, Pong
from wsproto.frame_protocol import CloseReason

from native_host.protocol.framing import Part
from native_host.protocol.wire import MIB

NO_CLOSE_FRAME = 1006
"""Close code of a connection that was lost."""

_NOT_UTF_8 = 1007
_BINARY, _CLOSE, _PONG = 2, 8, 10
_FINAL_TEXT = 0x81
_SHORT_BYTES = 125
"""Longest content of a frame whose head has no longer length."""
_COPIED_BYTES = 16 * 1024
"""A message that is not longer is written as one part, which the kernel takes quicker."""
_MASKED_BYTES = 256 * 1024
"""Bytes that are masked at once: few enough for a processor's cache."""
_LANES_BYTES = 640
"""Length from which bytes are masked in four lanes, not as one integer (measured)."""
_STORED_BYTES = 4096
"""A part of a message that is shorter is joined to the next one, because each costs an object."""
_FRAMES_AT_ONCE = 256
"""Fragments and control frames that are handled before other tasks run."""
_TRANSLATIONS = [bytes(byte ^ key for byte in range(256)) for key in range(256)]
_MEDIUM_HEAD = struct.Struct("!BBH")
_LONG_HEAD = struct.Struct("!BBQ")


class WebSocketLimits(NamedTuple):
    """Limits of what the other end sends."""

    message_bytes: int = 64 * MIB
    fragments: int = 128 * 1024
    """Frames of one message. Chromium sends a long message in frames of some 128 KiB."""
    head_bytes: int = 16 * 1024
    """Response to the opening handshake of a client. `http_connection.py` has the limit of a server."""


DEFAULT_LIMITS = WebSocketLimits()


class CloseFrame(NamedTuple):
    """Content of a close frame."""

    code: int
    reason: str


class _ViolationError(Exception):
    """The other end broke a rule: the connection ends with this close frame."""

    def __init__(self, code: CloseReason, reason: str) -> None:
        super().__init__(reason)
        self.frame = CloseFrame(int(code), reason)


class WebSocketProtocol:
    """One end of a connection: decodes what is fed, encodes what is to be sent."""

    __slots__ = (
        "_at",
        "_data",
        "_fragments",
        "_is_client",
        "_is_final",
        "_is_in_frame",
        "_is_in_message",
        "_limits",
        "_mask",
        "_mask_bit",
        "_mask_bytes",
        "_message_bytes",
        "_own_mask_bit",
        "_parts",
        "_text_rest",
        "_wsproto",
        "has_event",
        "has_more",
        "has_pong",
        "max_message_bytes",
        "missing",
        "pings",
        "received_close",
        "violation",
    )

    def __init__(self, *, is_client: bool, limits: WebSocketLimits) -> None:
        self._is_client = is_client
        self._limits = limits
        self._wsproto = Connection(ConnectionType.CLIENT if is_client else ConnectionType.SERVER)
        self._mask_bit = 0 if is_client else 0x80
        self._own_mask_bit = 0x80 if is_client else 0
        self._mask_bytes = 0 if is_client else 4
        self._data = b""
        """Received bytes: complete frames and the beginning of the next, decoded from `_at` on."""
        self._at = 0
        self._is_in_message = False
        """The first fragment of a message has been decoded, the last one not completely."""
        self._is_in_frame = False
        self._is_final = False
        self._mask = b""
        self._parts: list[bytes | bytearray] = []
        self._message_bytes = 0
        self._fragments = 0
        self._text_rest = b""
        """First bytes of a character whose last ones have not come yet."""
        self.max_message_bytes = limits.message_bytes
        """Limit of messages; it may change at any time."""
        self.has_more = False
        """`next_messages` may have stopped before the end of what was fed: call it again soon."""
        self.missing = 0
        """Bytes that the current frame lacks."""
        self.pings: list[bytes] = []
        """Contents of pings. Its owner takes them after each call of `next_messages`."""
        self.has_event = False
        """`pings`, `has_pong` or `has_ended` may have changed. Its owner resets it."""
        self.has_pong = False
        """A pong has come. Its owner resets it."""
        self.received_close: CloseFrame | None = None
        self.violation: CloseFrame | None = None
        """Close frame to send, because the other end broke a rule."""

    @property
    def is_empty(self) -> bool:
        """True if all bytes that were fed have been decoded."""
        return not self._data

    @property
    def partial_bytes(self) -> int:
        """Bytes of the message that has not come completely."""
        return self._message_bytes

    @property
    def has_ended(self) -> bool:
        """True if no further message will come."""
        return self.received_close is not None or self.violation is not None

    # ── Receiving ───────────────────────────────────────────────────────────────────────────────────────────

    def feed(self, data: bytes) -> None:
        """Store received bytes. Those after the end are dropped."""
        if self.has_ended:
            return
        self._data = self._data[self._at :] + data
        self._at = 0

    def next_messages(self) -> list[bytes]:
        """Return the text messages that are complete, in order. Then look at the other attributes.

        It stops after some fragments or control frames (`has_more`), so that other tasks can run.
        """
        messages: list[bytes] = []
        try:
            self.has_more = self._decode_frames(messages)
        except _ViolationError as error:
            self.violation = error.frame
        except UnicodeDecodeError:
            self.violation = CloseFrame(_NOT_UTF_8, "a message is not UTF-8")
        if self.violation or self.received_close:
            self.has_event, self.has_more = True, False
            self.discard()
        return messages

    def discard(self) -> None:
        """Drop all that has been received and not returned: no further message will come."""
        self._data, self._at, self._parts, self._message_bytes = b"", 0, [], 0

    def _decode_frames(self, messages: list[bytes]) -> bool:
        """Decode a number of frames; return whether there may be more."""
        for _ in range(_FRAMES_AT_ONCE):
            if not self._is_in_message:
                self._decode_short(messages)
            if self._at == len(self._data):
                self._data, self._at = b"", 0  # an idle connection keeps no buffer
                return False
            if not (self._decode_content(messages) if self._is_in_frame else self._decode_head(messages)):
                return False
        return True

    def _decode_short(self, messages: list[bytes]) -> None:
        """Decode messages of one short frame each, as most are, up to the first frame of another kind."""
        data, at, mask_bit, mask_bytes = self._data, self._at, self._mask_bit, self._mask_bytes
        size, longest = len(data), self.max_message_bytes
        while (head_end := at + 2) <= size and data[at] == _FINAL_TEXT:
            length = data[at + 1] ^ mask_bit
            if length == _SHORT_BYTES + 1:
                length = int.from_bytes(data[head_end : head_end + 2])
                head_end += 2
                if length <= _SHORT_BYTES:
                    break
            elif length > _SHORT_BYTES:
                break
            body = head_end + mask_bytes
            end = body + length
            if end > size or length > longest:
                break
            text = apply_mask(data[body:end], data[head_end:body]) if mask_bytes else data[body:end]
            if not text.isascii():
                text.decode()
            messages.append(bytes(text))
            at = end
        self._at = at

    def _decode_head(self, messages: list[bytes]) -> bool:
        data, at = self._data, self._at
        if len(data) < at + 2:
            return False
        first, second = data[at], data[at + 1]
        self._check_head(first, second)
        length, head_end = second & 0x7F, at + 2
        if length > _SHORT_BYTES:
            size = 2 if length == _SHORT_BYTES + 1 else 8
            if len(data) < head_end + size:
                return False
            length = int.from_bytes(data[head_end : head_end + size])
            if length <= (_SHORT_BYTES if size == 2 else 0xFFFF):
                raise _ViolationError(CloseReason.PROTOCOL_ERROR, "the length of a frame is not the shortest")
            head_end += size
        body = head_end + self._mask_bytes
        if first & 0x0F >= _CLOSE:
            return self._decode_control(body + length)
        self._check_limits(length)
        if len(data) < body:
            return False
        self._mask = data[head_end:body]
        self._at = body
        self._is_in_frame = self._is_in_message = True
        self._is_final = first >= 0x80
        self.missing = length
        return self._decode_content(messages)

    def _check_head(self, first: int, second: int) -> None:
        opcode = first & 0x0F
        error = CloseReason.PROTOCOL_ERROR
        if first & 0x70:
            raise _ViolationError(error, "a reserved bit is set, and no extension was agreed on")
        if second & 0x80 != self._mask_bit:
            raise _ViolationError(error, "a frame is masked" if self._is_client else "a frame is not masked")
        if opcode > _PONG or _BINARY < opcode < _CLOSE:
            raise _ViolationError(error, f"the opcode {opcode} is unknown")
        if opcode >= _CLOSE and (first < 0x80 or second & 0x7F > _SHORT_BYTES):
            raise _ViolationError(error, "a control frame is fragmented or longer than 125 bytes")
        if opcode < _CLOSE and (opcode == 0) != self._is_in_message:
            raise _ViolationError(error, "a fragment is out of order")
        if opcode == _BINARY:
            raise _ViolationError(CloseReason.UNSUPPORTED_DATA, "a message is binary: send text")

    def _check_limits(self, length: int) -> None:
        if self._message_bytes + length > self.max_message_bytes:
            text = f"a message is longer than {self.max_message_bytes} bytes"
            raise _ViolationError(CloseReason.MESSAGE_TOO_BIG, text)
        if self._fragments >= self._limits.fragments:
            text = f"a message has more than {self._limits.fragments} fragments"
            raise _ViolationError(CloseReason.MESSAGE_TOO_BIG, text)

    def _decode_content(self, messages: list[bytes]) -> bool:
        """Decode what has come of a frame's content."""
        at = self._at
        part: bytes | bytearray = self._data[at : at + self.missing]
        if self.missing and not part:
            return False
        self._at = at + len(part)
        self.missing -= len(part)
        if self._mask:
            turn = len(part) % 4
            part = apply_mask(part, self._mask)
            self._mask = self._mask[turn:] + self._mask[:turn]
        self._check_text(part, is_last=self._is_final and not self.missing)
        self._store(part)
        if self.missing:
            return False
        self._is_in_frame = False
        self._fragments += 1
        if self._is_final:
            messages.append(self._take_message())
        return True

    def _check_text(self, part: bytes | bytearray, *, is_last: bool) -> None:
        if self._text_rest:
            part = self._text_rest + part
        elif part.isascii():
            return
        _, used = utf_8_decode(part, "strict", is_last)
        self._text_rest = bytes(part[used:])

    def _store(self, part: bytes | bytearray) -> None:
        self._message_bytes += len(part)
        if self._parts and len(self._parts[-1]) < _STORED_BYTES:
            self._parts[-1] += part
        elif part:
            self._parts.append(part)

    def _take_message(self) -> bytes:
        message = b"".join(self._parts)
        self._parts = []
        self._message_bytes = self._fragments = 0
        self._is_in_message = False
        return message

    def _decode_control(self, end: int) -> bool:
        if len(self._data) < end:
            return False
        self._wsproto.receive_data(self._data[self._at : end])
        self._at = end
        self.has_event = True
        for event in self._wsproto.events():
            match event:
                case Ping():
                    self.pings.append(bytes(event.payload))
                case Pong():
                    self.has_pong = True
                case CloseConnection():
                    self._handle_close(event)
        return not self.has_ended

    def _handle_close(self, event: CloseConnection) -> None:
        frame = CloseFrame(int(event.code), event.reason or "")
        if self._wsproto.state in {ConnectionState.REMOTE_CLOSING, ConnectionState.CLOSED}:
            self.received_close = frame
        else:  # wsproto rejects the frame
            self.violation = frame

    # ── Sending ─────────────────────────────────────────────────────────────────────────────────────────────

    def encode_message(self, parts: tuple[Part, ...]) -> tuple[Part, ...]:
        """Return one text message as a frame, in parts."""
        size = sum(map(len, parts))
        if size <= _SHORT_BYTES:
            head = bytes((_FINAL_TEXT, size | self._own_mask_bit))
        elif size <= 0xFFFF:
            head = _MEDIUM_HEAD.pack(_FINAL_TEXT, (_SHORT_BYTES + 1) | self._own_mask_bit, size)
        else:
            head = _LONG_HEAD.pack(_FINAL_TEXT, (_SHORT_BYTES + 2) | self._own_mask_bit, size)
        if self._is_client:
            key = os.urandom(4)
            head, parts = head + key, _mask_parts(parts, key)
        return (b"".join((head, *parts)),) if size <= _COPIED_BYTES else (head, *parts)

    def encode_ping(self, content: bytes) -> bytes:
        """Return a ping."""
        return bytes(self._wsproto.send(Ping(content)))

    def encode_pong(self, content: bytes) -> bytes:
        """Return the response to a ping."""
        return bytes(self._wsproto.send(Pong(content)))

    def encode_close(self, frame: CloseFrame) -> bytes:
        """Return a close frame, which must be the last one. The reason is cut to 123 bytes.

        A code that cannot be sent becomes 1000, or none in response to a frame without a code.
        """
        code = CloseReason.NO_STATUS_RCVD if frame.code == CloseReason.NO_STATUS_RCVD else frame.code
        reason = None if code is CloseReason.NO_STATUS_RCVD else frame.reason
        return bytes(self._wsproto.send(CloseConnection(code, reason)))


def apply_mask(content: Part, key: bytes) -> bytes | bytearray:
    """Return content masked with a key of 4 bytes; the same again unmasks it."""
    size = len(content)
    if size < _LANES_BYTES:
        keys = key * (size // 4) + key[: size % 4]
        number = int.from_bytes(content, "little") ^ int.from_bytes(keys, "little")
        return number.to_bytes(size, "little")
    masked = bytearray(content)
    for lane in range(4):
        masked[lane::4] = masked[lane::4].translate(_TRANSLATIONS[key[lane]])
    return masked


def _mask_parts(parts: tuple[Part, ...], key: bytes) -> tuple[Part, ...]:
    if sum(map(len, parts)) <= _COPIED_BYTES:
        return (apply_mask(b"".join(parts), key),)
    masked: list[Part] = []
    for part in parts:
        for at in range(0, len(part), _MASKED_BYTES):
            piece = memoryview(part)[at : at + _MASKED_BYTES]
            masked.append(apply_mask(piece, key))
            turn = len(piece) % 4
            key = key[turn:] + key[:turn]
    return tuple(masked)
