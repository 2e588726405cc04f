"""The frame decoder: whatever arrives, in whatever pieces, bodies come out whole or not at all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from native_host.protocol import wire
from native_host.protocol.framing import FrameDecoder, FrameError, frame, split_frame

CAP = 1000


def decoder() -> FrameDecoder:
    return FrameDecoder(CAP, "little")


def frames_of(decoder: FrameDecoder) -> list[bytes]:
    return list(iter(decoder.next_frame, None))


def test_a_frame_is_a_length_and_a_body() -> None:
    assert frame(b"{}", "little") == b"\x02\x00\x00\x00{}"


def test_a_frame_in_parts_is_the_same_frame_short_in_one_long_uncopied() -> None:
    assert split_frame((b"{", b"}"), "little") == (frame(b"{}", "little"),)
    long = b"x" * 100_000
    head, body, tail = split_frame((long, b"}"), "little")
    assert head + body + tail == frame(long + b"}", "little")
    assert body is long


@given(bodies=st.lists(st.binary(min_size=1, max_size=CAP)), cuts=st.lists(st.integers(0, 50)))
def test_bodies_come_out_as_they_went_in_however_the_bytes_are_split_and_merged(
    bodies: list[bytes], cuts: list[int]
) -> None:
    stream = b"".join(frame(body, "little") for body in bodies)
    subject, out = decoder(), []
    for cut in cuts:
        subject.feed(stream[:cut])
        stream = stream[cut:]
        out += frames_of(subject)
    subject.feed(stream)
    out += frames_of(subject)
    subject.end()
    assert out == bodies


@pytest.mark.parametrize("step", [1, 4095, 5000, 100_000])
def test_a_body_of_many_reads_comes_out_once_and_whole(step: int) -> None:
    body = bytes(range(256)) * 100
    stream = frame(body, "little") + frame(b"next", "little")
    subject, out = FrameDecoder(100_000, "little"), []
    for start in range(0, len(stream), step):
        subject.feed(stream[start : start + step])
        out += frames_of(subject)
    assert out == [body, b"next"]


@given(st.lists(st.binary(max_size=200), max_size=30))
def test_any_bytes_at_all_give_bodies_within_the_cap_or_a_frame_error(pieces: list[bytes]) -> None:
    subject = decoder()
    try:
        for piece in pieces:
            subject.feed(piece)
            assert all(0 < len(body) <= CAP for body in frames_of(subject))
        subject.end()
    except FrameError:
        return


@given(st.binary(max_size=CAP), st.binary(min_size=1, max_size=CAP))
def test_a_zero_length_frame_is_skipped_and_counted(before: bytes, after: bytes) -> None:
    subject = decoder()
    subject.feed(frame(before, "little") + frame(b"", "little") + frame(after, "little"))
    assert frames_of(subject) == [body for body in (before, after) if body]
    assert subject.ignored == (1 if before else 2)


@given(st.integers(CAP + 1, 0xFFFFFFFF))
def test_a_length_over_the_cap_is_refused_before_a_byte_of_the_body_is_there(size: int) -> None:
    subject = decoder()
    subject.feed(size.to_bytes(4, "little"))
    with pytest.raises(FrameError, match=f"{size} bytes is announced, the limit is {CAP}"):
        subject.next_frame()


@pytest.mark.parametrize(
    ("limit", "size"),
    [
        (wire.TO_BROWSER_BYTES, 1_048_576),
        (wire.FROM_BROWSER_BYTES, 67_108_864),
        (wire.SOCKET_BYTES, 67_174_400),
    ],
)
def test_a_frame_of_exactly_the_limit_passes_and_one_byte_more_does_not(limit: int, size: int) -> None:
    longest, longer = FrameDecoder(limit, "little"), FrameDecoder(limit, "little")
    longest.feed(frame(bytes(size), "little"))
    assert longest.next_frame() == bytes(size)
    longer.feed((size + 1).to_bytes(4, "little"))
    with pytest.raises(FrameError):
        longer.next_frame()


def test_text_where_a_length_should_be_is_refused_as_a_huge_frame() -> None:
    """A stray print() of a host reads as a length of some 1.8 GB."""
    subject = FrameDecoder(64 * 1024 * 1024, "little")
    subject.feed(b"Traceback (most recent call last):")
    with pytest.raises(FrameError, match="is announced"):
        subject.next_frame()


@given(st.binary(min_size=1, max_size=CAP), st.data())
def test_an_end_inside_a_frame_is_an_error_and_between_frames_is_clean(
    body: bytes, data: st.DataObject
) -> None:
    whole = frame(body, "little")
    cut = data.draw(st.integers(1, len(whole) - 1))
    subject = decoder()
    subject.feed(whole[:cut])
    assert subject.next_frame() is None
    with pytest.raises(FrameError, match="inside a frame"):
        subject.end()
    subject.feed(whole[cut:])
    assert subject.next_frame() == body
    subject.end()


@given(st.binary(min_size=1, max_size=CAP))
def test_bodies_are_bytes_to_the_decoder_whatever_their_encoding(body: bytes) -> None:
    """Whether a body is UTF-8 is for the envelope to say: the frame after it must still be found."""
    subject = decoder()
    subject.feed(frame(b"\xff\xfe" + body[: CAP - 2], "little") + frame(b"{}", "little"))
    assert frames_of(subject)[-1] == b"{}"
