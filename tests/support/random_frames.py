"""Random WebSocket frames, mostly those that an end may send, with mistakes of every kind in between."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import pairwise
from random import Random

from http_serving.websocket_protocol import WebSocketLimits, apply_mask

LIMITS = WebSocketLimits(message_bytes=500, fragments=4)
CODES = {1002, 1003, 1007, 1009}
"""Close codes for an end that broke a rule."""
_TEXTS = (b"", b"a", b'{"x":1}', "€𝄞é".encode(), b"x" * 126, b"y" * 300)
_BROKEN = (b"\xff", b"\xe2\x82", b"\xac", b"\xf0\x9d", b"\x84\x9e")
"""Bytes that are no UTF-8, and parts of characters."""
_CLOSES = (b"", b"\x03\xe8", b"\x03\xe9bye", b"\x0f\xa1", b"\x03\xed", b"\x00", b"\x03\xe8\xff")
"""Contents of close frames; the last three are not allowed."""
_LENGTHS = (0, 125, 126, 127, 1000, 1001, 65_535, 65_536, 1 << 63, (1 << 64) - 1)
_MISTAKES = 0.03
"""Share of frames with one mistake, of each of four kinds."""


def random_frames(random: Random, *, are_masked: bool) -> bytes:
    """Frames in order with some mistakes; now and then bytes that are none."""
    if random.random() < 0.05:
        return random.randbytes(random.randrange(300))
    frames = bytearray()
    for _ in range(random.randint(1, 6)):
        for first, content in _random_message(random):
            frames += _encode_frame(random, first, content, is_masked=are_masked)
            if random.random() < 0.1:
                control = _random_control(random)
                frames += _encode_frame(random, *control, is_masked=are_masked)
    return bytes(frames)


def _random_message(random: Random) -> Iterator[tuple[int, bytes]]:
    """First byte and content of the frames of a text message, which may be cut within a character."""
    text = b"".join(random.choices(_TEXTS, k=random.randint(1, 3)))
    if random.random() < _MISTAKES:
        text += random.choice(_BROKEN)
    cuts = [0, *sorted(random.choices(range(len(text) + 1), k=random.choice((0, 0, 1, 3)))), len(text)]
    for at, (begin, end) in enumerate(pairwise(cuts)):
        is_last = at == len(cuts) - 2
        yield (0x80 if is_last else 0) | (0 if at else 1), text[begin:end]


def _random_control(random: Random) -> tuple[int, bytes]:
    if random.random() < 0.2:
        return 0x88, random.choice(_CLOSES)
    return random.choice((0x89, 0x8A)), random.choice(_TEXTS[:4])


def _encode_frame(random: Random, first: int, content: bytes, *, is_masked: bool) -> bytes:
    if random.random() < _MISTAKES:
        first = random.randrange(256)
    length = len(content) if random.random() > _MISTAKES else random.choice(_LENGTHS)
    is_masked ^= random.random() < _MISTAKES
    mask_bit = 0x80 if is_masked else 0
    is_shortest = random.random() > _MISTAKES
    if length < 126 and is_shortest:
        head = bytes((first, length | mask_bit))
    elif length < 65_536 and is_shortest:
        head = struct.pack("!BBH", first, 126 | mask_bit, length)
    else:
        head = struct.pack("!BBQ", first, 127 | mask_bit, length)
    if not is_masked:
        return head + content
    key = random.randbytes(4)
    return head + key + apply_mask(content, key)
