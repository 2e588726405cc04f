"""Long bodies for the browser: cut, interleaved, joined, given up."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from native_host.protocol import wire
from native_host.protocol.chunking import ChunkError, Joiner, Outbox
from native_host.protocol.wire import (
    CHUNK_BYTES,
    CHUNK_SECONDS,
    CHUNK_TRANSFERS,
    MIB,
    TO_BROWSER_BYTES,
    Chunk,
)

LONG = TO_BROWSER_BYTES + 1


def drain(outbox: Outbox, now_s: float = 0) -> list[Any]:
    written = []
    while outbox:
        body, _, _ = outbox.pop_next(now_s)
        assert len(body) <= TO_BROWSER_BYTES
        written.append(json.loads(body))
    return written


def chunk(transfer: int = 1, seq: int = 0, *, last: bool = False, data: str = "YQ==", **more: Any) -> Chunk:
    return Chunk(transfer=transfer, seq=seq, last=last, data=data, **more)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 5 * CHUNK_BYTES), st.integers(0, 255))
def test_what_is_cut_is_joined_to_the_same_bytes(extra: int, byte: int) -> None:
    body = bytes([byte]) * (TO_BROWSER_BYTES + extra)
    outbox, joiner = Outbox(), Joiner()
    outbox.put("k", body)
    joined = [joiner.add(msgspec.convert(m["params"], Chunk), 0) for m in drain(outbox)]
    assert joined[-1] == body
    assert set(joined[:-1]) == {None}


def test_a_body_of_exactly_the_browser_s_limit_travels_whole() -> None:
    outbox = Outbox()
    body = b'"%b"' % (b"x" * (TO_BROWSER_BYTES - 2))
    outbox.put("k", body)
    assert outbox.pop_next(0) == (body, "k", len(body))


def test_short_messages_pass_between_the_pieces_of_a_long_one() -> None:
    outbox = Outbox()
    outbox.put("long", b" " * LONG)
    for number in range(3):
        outbox.put("short", b"%d" % number)
    order = ["piece" if isinstance(m, dict) else m for m in drain(outbox)]
    assert order[:6] == ["piece", 0, "piece", 1, "piece", 2]
    assert set(order[6:]) <= {"piece"}


def test_at_most_four_transfers_are_under_way_and_the_fifth_follows() -> None:
    outbox = Outbox()
    for number in range(CHUNK_TRANSFERS + 1):
        outbox.put(str(number), b" " * LONG)
    open_transfers: set[int] = set()
    for message in drain(outbox):
        open_transfers.add(message["params"]["transfer"])
        assert len(open_transfers) <= CHUNK_TRANSFERS
        if message["params"]["last"]:
            open_transfers.remove(message["params"]["transfer"])
    assert not open_transfers


def test_a_transfer_that_is_given_up_half_way_says_so() -> None:
    outbox = Outbox()
    outbox.put("k", b" " * LONG)
    outbox.pop_next(0)
    assert outbox.abort("k", "cancelled") == LONG
    assert drain(outbox) == [
        {"jsonrpc": "2.0", "method": "host/chunkAbort", "params": {"transfer": 1, "reason": "cancelled"}}
    ]


@pytest.mark.parametrize("size", [5, LONG])
def test_what_has_not_begun_to_be_written_is_taken_back_without_a_trace(size: int) -> None:
    outbox = Outbox()
    outbox.put("k", b" " * size)
    assert outbox.abort("k", "cancelled") == size
    assert not outbox


def test_what_is_written_cannot_be_taken_back() -> None:
    outbox = Outbox()
    outbox.put("k", b"1")
    outbox.pop_next(0)
    assert outbox.abort("k", "cancelled") is None


def test_a_transfer_expires_30_seconds_after_its_first_piece() -> None:
    outbox = Outbox()
    assert outbox.next_deadline_s() == float("inf")
    outbox.put("k", b" " * LONG)
    outbox.pop_next(100)
    assert outbox.next_deadline_s() == 100 + CHUNK_SECONDS
    assert outbox.find_expired(100 + CHUNK_SECONDS - 1) == []
    assert outbox.find_expired(100 + CHUNK_SECONDS) == ["k"]


@pytest.mark.parametrize(
    ("pieces", "complaint"),
    [
        ([chunk(seq=1)], "piece 1 came where 0 was due"),
        ([chunk(), chunk(seq=2)], "piece 2 came where 1 was due"),
        ([chunk(), chunk()], "piece 0 came where 1 was due"),
        ([chunk(bytes=65 * MIB)], "68157440 bytes announced"),
        ([chunk(data="not base64!")], "not base64"),
        ([chunk(data=b64encode(bytes(524_289)).decode())], "a piece of 524289 bytes"),
        ([chunk(transfer=number) for number in range(CHUNK_TRANSFERS + 1)], "more than 4 transfers"),
    ],
)
def test_a_broken_transfer_is_refused_with_the_reason(pieces: list[Chunk], complaint: str) -> None:
    joiner = Joiner()
    for piece in pieces[:-1]:
        joiner.add(piece, 0)
    with pytest.raises(ChunkError, match=complaint):
        joiner.add(pieces[-1], 0)


def test_a_piece_of_512_kib_is_taken() -> None:
    assert Joiner().add(chunk(data=b64encode(bytes(524_288)).decode(), last=True), 0) == bytes(524_288)


def test_a_transfer_that_takes_too_long_is_refused_and_forgotten() -> None:
    joiner = Joiner()
    joiner.add(chunk(), 0)
    with pytest.raises(ChunkError, match="not complete after 30 s"):
        joiner.add(chunk(seq=1), CHUNK_SECONDS + 1)
    assert joiner.add(chunk(last=True), 40) == b"a"


def test_an_aborted_transfer_makes_room_for_another() -> None:
    joiner = Joiner()
    for number in range(CHUNK_TRANSFERS):
        joiner.add(chunk(transfer=number), 0)
    joiner.abort(0)
    assert joiner.add(chunk(transfer=9, last=True), 0) == b"a"


def test_the_announced_length_is_never_allocated() -> None:
    joiner = Joiner()
    assert joiner.add(chunk(bytes=wire.CHUNKED_BYTES, last=True), 0) == b"a"


def test_bodies_of_requests_are_withdrawn_together_and_those_of_the_host_stay() -> None:
    outbox = Outbox()
    outbox.put("a-1:1", b"{}")
    outbox.put("", b'{"method":"host/hello"}')
    outbox.put("a-1:2", b" " * (TO_BROWSER_BYTES + 1))
    outbox.put("a-1:3", b" " * (TO_BROWSER_BYTES + 1))
    outbox.pop_next(0)
    outbox.pop_next(0)
    assert outbox.withdraw_keyed() == {"a-1:2", "a-1:3"}
    assert [outbox.pop_next(0)[0] for _ in range(len(outbox))] == [b'{"method":"host/hello"}']


def test_without_a_limit_of_the_browser_nothing_is_chunked() -> None:
    outbox, body = Outbox(chunk_above_bytes=64 * MIB), b" " * (2 * MIB)
    outbox.put("conn-1:1", body)
    assert outbox.pop_next(0) == (body, "conn-1:1", 2 * MIB)


def test_the_queued_bytes_are_those_of_all_bodies_that_are_not_written() -> None:
    outbox = Outbox()
    for key, size in [("", 10), ("a:1", 20), ("a:2", TO_BROWSER_BYTES + 1), ("a:3", TO_BROWSER_BYTES + 1)]:
        outbox.put(key, b"x" * size)
    assert outbox.queued_bytes == 10 + 20 + 2 * (TO_BROWSER_BYTES + 1)
    outbox.abort("a:1", "cancelled")
    outbox.abort("a:2", "cancelled")
    assert outbox.queued_bytes == 10 + TO_BROWSER_BYTES + 1
    while outbox:
        outbox.pop_next(0)
    assert outbox.queued_bytes == 0
    outbox.put("", b"x" * 10)
    outbox.put("a:4", b"x" * (TO_BROWSER_BYTES + 1))
    outbox.withdraw_keyed()
    assert outbox.queued_bytes == 10
    outbox.clear()
    assert (len(outbox), outbox.queued_bytes) == (0, 0)
