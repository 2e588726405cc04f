"""WebSocket frames in memory, with wsproto as the other end, and with bytes that no end should send."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wsproto.connection import Connection, ConnectionType
from wsproto.events import CloseConnection, Event, Ping, Pong, TextMessage

from http_serving.websocket_protocol import (
    DEFAULT_LIMITS,
    CloseFrame,
    WebSocketLimits,
    WebSocketProtocol,
    apply_mask,
)
from random_frames import CODES, LIMITS, random_frames
from random_input import check_inputs, random_parts

KEY = b"\x01\x80\xff\x37"
SIZES = [0, 1, 125, 126, 127, 639, 640, 16_384, 16_385, 65_535, 65_536, 300_000]
"""Lengths at which the form of a frame, or its handling, changes."""


def frame(content: bytes, first: int = 0x81, *, key: bytes = KEY) -> bytes:
    """A client's frame, by hand."""
    size = len(content)
    if size < 126:
        head = bytes((first, size | 0x80))
    elif size < 65_536:
        head = struct.pack("!BBH", first, 126 | 0x80, size)
    else:
        head = struct.pack("!BBQ", first, 127 | 0x80, size)
    return head + key + bytes(byte ^ key[at % 4] for at, byte in enumerate(content))


def server(**limits: int) -> WebSocketProtocol:
    return WebSocketProtocol(is_client=False, limits=WebSocketLimits(**limits))


def decode(protocol: WebSocketProtocol, *parts: bytes) -> list[bytes]:
    """All messages in these parts, which arrive one after the other."""
    messages = []
    for part in parts:
        protocol.feed(part)
        messages += protocol.next_messages()
        while protocol.has_more:
            messages += protocol.next_messages()
    return messages


def split(data: bytes, sizes: Iterable[int]) -> list[bytes]:
    """Cut data at these sizes, again and again."""
    parts: list[bytes] = []
    at = 0
    for size in itertools.cycle(sizes):
        if at >= len(data):
            return parts
        parts.append(data[at : at + size])
        at += size
    raise AssertionError("no sizes")


def violation(*parts: bytes, protocol: WebSocketProtocol | None = None) -> int:
    """The close code with which these bytes end a connection."""
    protocol = protocol or server()
    decode(protocol, *parts)
    assert protocol.violation
    assert protocol.received_close is None
    return protocol.violation.code


# ── Messages ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("is_client", [True, False])
@pytest.mark.parametrize("size", SIZES)
def test_messages_of_each_length_pass_in_both_directions(size: int, is_client: bool) -> None:
    ours = WebSocketProtocol(is_client=is_client, limits=DEFAULT_LIMITS)
    theirs = Connection(ConnectionType.SERVER if is_client else ConnectionType.CLIENT)
    text = ("a€𝄞b" * size)[: size // 2] + "x" * (size - size // 2)
    sent = theirs.send(TextMessage(text)) + theirs.send(TextMessage("next"))
    assert decode(ours, *split(sent, [1000])) == [text.encode(), b"next"]
    assert decode(ours, sent) == [text.encode(), b"next"]
    whole = text.encode()
    parts = ours.encode_message((whole[:3], memoryview(whole)[3:]))
    theirs.receive_data(b"".join(parts))
    assert "".join(event.data for event in theirs.events() if isinstance(event, TextMessage)) == text


def test_a_short_message_is_one_part_and_a_long_one_is_not_copied() -> None:
    assert len(server().encode_message((b"{", b"}"))) == 1
    body = b"x" * 1_000_000
    assert server().encode_message((b"{", body))[-1] is body


@pytest.mark.parametrize("size", SIZES)
def test_a_mask_applied_twice_is_none(size: int) -> None:
    content = bytes(range(256)) * (size // 256 + 1)
    masked = apply_mask(content[:size], KEY)
    assert masked == bytes(byte ^ KEY[at % 4] for at, byte in enumerate(content[:size]))
    assert apply_mask(masked, KEY) == content[:size]


def test_each_frame_of_a_client_has_another_mask() -> None:
    client = WebSocketProtocol(is_client=True, limits=DEFAULT_LIMITS)
    keys = {bytes(client.encode_message((b"hello",))[0][2:6]) for _ in range(20)}
    assert len(keys) == 20


def test_control_frames_come_between_fragments() -> None:
    protocol = server()
    parts = [
        frame(b"one ", 0x01),
        frame(b"1", 0x89),
        frame(b"2", 0x89),
        frame(b"", 0x00),
        frame(b"two", 0x80),
    ]
    assert decode(protocol, b"".join(parts)) == [b"one two"]
    assert protocol.has_event
    assert list(map(protocol.encode_pong, protocol.pings)) == [b"\x8a\x011", b"\x8a\x012"]


def test_a_pong_is_reported() -> None:
    protocol = server()
    assert decode(protocol, frame(b"", 0x8A)) == []
    assert (protocol.has_event, protocol.has_pong, protocol.has_ended) == (True, True, False)


def test_a_close_frame_ends_the_messages() -> None:
    protocol = server()
    closing = frame(struct.pack("!H", 4001) + "replaced €".encode(), 0x88)
    assert decode(protocol, frame(b"one") + closing + frame(b"two"), frame(b"three")) == [b"one"]
    assert protocol.received_close == CloseFrame(4001, "replaced €")
    assert protocol.encode_close(protocol.received_close)[:4] == b"\x88\x0e" + struct.pack("!H", 4001)


def test_the_first_part_of_a_message_is_dropped_at_the_end() -> None:
    end = server()
    end.feed(frame(b"x" * 1000, 0x01))
    assert end.next_messages() == []
    assert end.partial_bytes == 1000
    end.feed(frame(b"", 0x88))
    assert end.next_messages() == []
    assert end.has_ended
    assert end.partial_bytes == 0


def test_a_close_frame_without_a_code_is_answered_without_one() -> None:
    protocol = server()
    decode(protocol, frame(b"", 0x88))
    assert protocol.received_close == CloseFrame(1005, "")
    assert protocol.encode_close(protocol.received_close) == b"\x88\x00"


def test_a_long_reason_is_cut_at_a_character() -> None:
    closing = server().encode_close(CloseFrame(1008, "€" * 100))
    assert closing[:4] == b"\x88" + bytes((2 + 41 * 3,)) + struct.pack("!H", 1008)
    assert closing[4:].decode() == "€" * 41


# ── Limits ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_message_is_as_long_as_the_limit() -> None:
    for size in (100, 1000, 70_000):
        assert decode(server(message_bytes=size), frame(b"x" * size)) == [b"x" * size]
        assert violation(frame(b"x" * (size + 1)), protocol=server(message_bytes=size)) == 1009
        fragments = frame(b"x" * size, 0x01), frame(b"x", 0x80)
        assert violation(*fragments, protocol=server(message_bytes=size)) == 1009


def test_a_long_message_is_rejected_before_its_content_comes() -> None:
    head = struct.pack("!BBQ", 0x81, 0xFF, 70 * 1024 * 1024)
    assert violation(head + KEY) == 1009
    assert violation(head) == 1009


def test_the_limit_changes_on_a_live_connection() -> None:
    protocol = server(message_bytes=10)
    assert decode(protocol, frame(b"x" * 10)) == [b"x" * 10]
    protocol.max_message_bytes = 1000
    assert decode(protocol, frame(b"x" * 1000)) == [b"x" * 1000]


def test_fragments_are_counted_in_each_message() -> None:
    four = frame(b"a", 0x01) + frame(b"", 0x00) * 2 + frame(b"b", 0x80)
    assert decode(server(fragments=4), four * 3) == [b"ab"] * 3
    assert violation(four, protocol=server(fragments=3)) == 1009


def test_tiny_fragments_cost_no_memory_and_let_other_tasks_run() -> None:
    protocol = server()
    protocol.feed(frame(b"a", 0x01) + frame(b"b", 0x00) * 10_000)
    turns = 0
    while protocol.next_messages() == [] and protocol.has_more:
        turns += 1
    assert turns >= 10_000 // 256 - 1
    assert len(protocol._parts) <= 3
    assert decode(protocol, frame(b"", 0x80)) == [b"a" + b"b" * 10_000]


# ── Violations ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (frame(b"binary", 0x82), 1003),
        (frame(b"", 0x02), 1003),
        (b"\x81\x05hello", 1002),
        (frame(b"", 0xC1), 1002),
        (frame(b"", 0xA1), 1002),
        (frame(b"", 0x91), 1002),
        (frame(b"", 0x83), 1002),
        (frame(b"", 0x87), 1002),
        (frame(b"", 0x8B), 1002),
        (frame(b"", 0x8F), 1002),
        (frame(b"", 0x80), 1002),
        (frame(b"", 0x00), 1002),
        (frame(b"one", 0x01) + frame(b"two", 0x81), 1002),
        (frame(b"one", 0x01) + frame(b"two", 0x82), 1002),
        (frame(b"", 0x09), 1002),
        (frame(b"x" * 126, 0x89), 1002),
        (struct.pack("!BBH", 0x81, 0xFE, 125) + KEY, 1002),
        (struct.pack("!BBQ", 0x81, 0xFF, 65_535) + KEY, 1002),
        (struct.pack("!BBQ", 0x81, 0xFF, 1 << 63) + KEY, 1009),
        (frame(b"x", 0x88), 1002),
        (frame(struct.pack("!H", 999), 0x88), 1002),
        (frame(struct.pack("!H", 1005), 0x88), 1002),
        (frame(struct.pack("!H", 1006), 0x88), 1002),
        (frame(struct.pack("!H", 5000), 0x88), 1002),
        (frame(struct.pack("!H", 1000) + b"\xff", 0x88), 1007),
    ],
)
def test_invalid_frames_end_the_connection_with_their_code(data: bytes, code: int) -> None:
    for parts in ([data], split(data, [1])):
        protocol = server()
        assert violation(frame(b"before"), *parts, frame(b"after"), protocol=protocol) == code
        assert protocol.violation
        assert protocol.encode_close(protocol.violation)[2:4] == struct.pack("!H", code)


def test_messages_before_a_violation_are_received() -> None:
    assert decode(server(), frame(b"one") + frame(b"x" * 1000) + b"\xff\xff") == [b"one", b"x" * 1000]


def test_a_client_rejects_masked_frames() -> None:
    assert (
        violation(frame(b"hello"), protocol=WebSocketProtocol(is_client=True, limits=DEFAULT_LIMITS)) == 1002
    )


INVALID_TEXTS = [
    b"\xff",
    b"\xc0\x80",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
    b"a" * 1000 + b"\xe2\x82",
    b"\x80",
]


@pytest.mark.parametrize("text", INVALID_TEXTS)
def test_text_that_is_not_utf_8_is_rejected_however_it_is_sent(text: bytes) -> None:
    assert violation(frame(text)) == 1007
    assert violation(*split(frame(text), [1])) == 1007
    assert violation(frame(text[:-1], 0x01) + frame(text[-1:], 0x80)) == 1007
    assert violation(frame(text, 0x01) + frame(b"", 0x80)) == 1007
    assert violation(frame(b"x" * 100_000 + text)) == 1007


def test_invalid_text_is_rejected_before_the_end_of_its_message() -> None:
    assert violation(frame(b"\xff", 0x01)) == 1007
    assert violation(frame(b"\xff" + b"x" * 1_000_000)[:5000]) == 1007


# ── Any bytes ───────────────────────────────────────────────────────────────────────────────────────────────

SPLITS = st.lists(st.integers(1, 40), min_size=1, max_size=8)


@given(st.booleans(), st.binary(max_size=300), SPLITS)
def test_random_bytes_raise_nothing(is_client: bool, data: bytes, sizes: list[int]) -> None:
    protocol = WebSocketProtocol(is_client=is_client, limits=WebSocketLimits(1000, 5))
    for message in decode(protocol, *split(data, sizes)):
        message.decode()


@given(
    st.lists(
        st.tuples(st.integers(0, 255), st.integers(0, 255), st.binary(max_size=12)).map(
            lambda made: bytes(made[:2]) + made[2]
        ),
        max_size=20,
    ),
    SPLITS,
)
def test_random_frames_end_the_same_however_they_are_split(frames: list[bytes], sizes: list[int]) -> None:
    data = b"".join(frames)
    whole, parted = server(message_bytes=1000, fragments=5), server(message_bytes=1000, fragments=5)
    messages = decode(whole, data)
    assert decode(parted, *split(data, sizes)) == messages
    assert (parted.violation, parted.received_close) == (whole.violation, whole.received_close)
    if whole.violation:
        assert whole.violation.code in {1002, 1003, 1007, 1009}


EVENTS = st.one_of(
    st.tuples(st.text(max_size=200), st.integers(1, 20)), st.binary(max_size=20).map(Ping), st.just(Pong())
)


@given(st.booleans(), st.lists(EVENTS, max_size=20), SPLITS)
def test_a_valid_stream_gives_the_same_messages_however_it_is_split(
    is_client: bool, said: list[tuple[str, int] | Ping | Pong], sizes: list[int]
) -> None:
    theirs = Connection(ConnectionType.SERVER if is_client else ConnectionType.CLIENT)
    events: list[Event] = []
    for each in said:
        if isinstance(each, tuple):
            text, size = each
            fragments = [text[at : at + size] for at in range(0, len(text), size)] or [""]
            events += [TextMessage(part, message_finished=False) for part in fragments[:-1]]
            events.append(TextMessage(fragments[-1]))
        else:
            events.append(each)
    events.append(CloseConnection(1000, "done"))
    data = b"".join(theirs.send(event) for event in events)
    texts = [each[0].encode() for each in said if isinstance(each, tuple)]
    for parts in ([data], split(data, sizes)):
        ours = WebSocketProtocol(is_client=is_client, limits=DEFAULT_LIMITS)
        assert decode(ours, *parts) == texts
        assert (ours.received_close, ours.violation) == (CloseFrame(1000, "done"), None)


def play(protocol: WebSocketProtocol, parts: Iterable[bytes]) -> tuple[list[bytes], CloseFrame | None]:
    """Decode parts, and respond as the owner of a connection does; the messages and the end."""
    messages = []
    for part in parts:
        messages += decode(protocol, part)
        if not protocol.has_ended:
            for content in protocol.pings:
                protocol.encode_pong(content)
        protocol.pings = []
    end = protocol.violation or protocol.received_close
    if end:
        protocol.encode_close(end)
    return messages, end


def test_random_frames_give_text_and_one_end_however_they_are_split() -> None:
    check_inputs(1000, check_random_frames)


def check_random_frames(random: Random) -> None:
    is_client = random.random() < 0.5
    data = random_frames(random, are_masked=not is_client)
    whole, parted = (WebSocketProtocol(is_client=is_client, limits=LIMITS) for _ in range(2))
    messages, end = play(whole, [data])
    assert play(parted, random_parts(random, data)) == (messages, end)
    for message in messages:
        assert len(message) <= LIMITS.message_bytes
        message.decode()
    if whole.violation:
        assert whole.violation.code in CODES
