"""The one reader of a descriptor, with real pipes and sockets."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import trio
import trio.testing

from native_host.ipc.streams import FrameReader, MessageWriter
from native_host.protocol.framing import FrameError, frame

CAP = 8 * 1024 * 1024


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """The reader of a descriptor, and the other end to write to."""
    theirs, ours = os.pipe()
    yield theirs, ours
    os.close(theirs)
    with suppress(OSError):  # the test has closed it
        os.close(ours)


async def test_frames_that_have_arrived_together_are_returned_together(pipe: tuple[int, int]) -> None:
    reader = FrameReader(pipe[0], CAP, "little")
    os.write(pipe[1], frame(b"one", "little") + frame(b"two", "little") + frame(b"three", "little")[:5])
    with trio.fail_after(30):
        assert await reader.receive() == [b"one", b"two"]
        os.write(pipe[1], frame(b"three", "little")[5:])
        assert await reader.receive() == [b"three"]


async def test_a_large_frame_comes_whole(pipe: tuple[int, int], nursery: trio.Nursery) -> None:
    reader, writer = FrameReader(pipe[0], CAP, "little"), MessageWriter(pipe[1])
    nursery.start_soon(writer.run)
    sent = [os.urandom(5 * 1024 * 1024), b"next"]
    for body in sent:
        writer.write(frame(body, "little"))
    received: list[bytes] = []
    with trio.fail_after(30):
        while len(received) < len(sent):
            received += await reader.receive()
    assert received == sent
    nursery.cancel_scope.cancel()


async def test_a_file_is_read_to_its_end(short_tmp: Path) -> None:
    (short_tmp / "frames").write_bytes(frame(b"one", "little"))
    fd = os.open(short_tmp / "frames", os.O_RDONLY)
    reader = FrameReader(fd, CAP, "little")
    with trio.fail_after(30):
        assert await reader.receive() == [b"one"]
        assert await reader.receive() == []
    os.close(fd)


@pytest.mark.parametrize("rest", [b"", frame(b"cut off", "little")[:6]], ids=["between frames", "inside"])
async def test_an_end_is_no_frames_after_those_that_came_before(pipe: tuple[int, int], rest: bytes) -> None:
    reader = FrameReader(pipe[0], CAP, "little")
    os.write(pipe[1], frame(b"last", "little") + rest)
    os.close(pipe[1])
    with trio.fail_after(30):
        assert [await reader.receive(), await reader.receive()] == [[b"last"], []]


async def test_what_came_before_a_frame_over_the_cap_is_still_heard(pipe: tuple[int, int]) -> None:
    reader = FrameReader(pipe[0], CAP, "little")
    os.write(pipe[1], frame(b"sound", "little") + struct.pack("<I", CAP + 1))
    with trio.fail_after(30):
        assert await reader.receive() == [b"sound"]
        with pytest.raises(FrameError):
            await reader.receive()


async def test_a_connection_that_was_reset_is_broken() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        reader = FrameReader(ours.fileno(), CAP, "little")
        ours.send(b"unread")
        theirs.close()
        with trio.fail_after(30), pytest.raises(trio.BrokenResourceError):
            await reader.receive()


async def test_whoever_waits_can_be_cancelled(pipe: tuple[int, int], nursery: trio.Nursery) -> None:
    nursery.start_soon(FrameReader(pipe[0], CAP, "little").receive)
    await trio.testing.wait_all_tasks_blocked()
    nursery.cancel_scope.cancel()
