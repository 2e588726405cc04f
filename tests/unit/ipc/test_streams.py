"""FrameReader and MessageWriter with real pipes and sockets: full, read again, closed."""

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


async def test_many_short_messages_count_for_more_than_their_bytes(pipe: tuple[int, int]) -> None:
    writer = MessageWriter(pipe[1])
    for _ in range(100):
        writer.put(b"x")
    assert writer.waiting_bytes == 100
    assert writer.held_bytes > 100 * 400
    writer.flush()
    assert writer.held_bytes == 0


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


# ── The one writer of a descriptor, with real pipes and sockets that are f ──────────────────────────────────


MORE_THAN_A_PIPE_TAKES = 4 * 1024 * 1024


@pytest.fixture
def pipe_message() -> Iterator[tuple[int, int]]:
    """A descriptor to read from, and the writer at its other end."""
    ours, theirs = os.pipe()
    os.set_blocking(ours, False)
    yield ours, theirs
    for fd in (ours, theirs):
        with suppress(OSError):  # the test has closed it
            os.close(fd)


async def read(fd: int, count: int) -> bytes:
    data = b""
    with trio.fail_after(30):
        while len(data) < count:
            await trio.lowlevel.wait_readable(fd)
            data += os.read(fd, count - len(data))
    return data


async def test_what_the_kernel_takes_is_written_at_once_without_a_task(pipe_message: tuple[int, int]) -> None:
    outgoing = MessageWriter(pipe_message[1]).write(b"head ", memoryview(b"body"))
    assert outgoing.has_begun
    assert os.read(pipe_message[0], 100) == b"head body"


async def test_what_was_put_leaves_with_the_next_flush(pipe_message: tuple[int, int]) -> None:
    writer = MessageWriter(pipe_message[1])
    writer.put(b"one ")
    outgoing = writer.put(b"two ")
    assert (outgoing.has_begun, writer.waiting_bytes) == (False, 8)
    writer.write(b"three")
    assert os.read(pipe_message[0], 100) == b"one two three"


async def test_what_the_kernel_does_not_take_is_written_in_order_when_it_does(
    pipe_message: tuple[int, int], nursery: trio.Nursery
) -> None:
    writer = MessageWriter(pipe_message[1])
    nursery.start_soon(writer.run)
    large = os.urandom(MORE_THAN_A_PIPE_TAKES)
    writer.write(b"head", large)
    writer.write(b"end")
    assert await read(pipe_message[0], 4 + len(large) + 3) == b"head" + large + b"end"
    nursery.cancel_scope.cancel()


async def test_a_queued_message_is_withdrawn_and_its_neighbours_arrive(
    pipe_message: tuple[int, int], nursery: trio.Nursery
) -> None:
    writer = MessageWriter(pipe_message[1])
    nursery.start_soon(writer.run)
    large = b"x" * MORE_THAN_A_PIPE_TAKES
    begun, withdrawn = writer.write(large), writer.write(b"withdrawn")
    writer.write(b"end")
    assert writer.withdraw(withdrawn)
    assert not writer.withdraw(begun)
    assert await read(pipe_message[0], len(large) + 3) == large + b"end"
    nursery.cancel_scope.cancel()


async def test_whoever_waits_for_room_goes_on_when_the_other_end_has_read(
    pipe_message: tuple[int, int], nursery: trio.Nursery
) -> None:
    writer = MessageWriter(pipe_message[1])
    nursery.start_soon(writer.run)
    writer.write(b"x" * MORE_THAN_A_PIPE_TAKES)
    async with trio.open_nursery() as waiting:
        waiting.start_soon(writer.wait_room)
        await trio.testing.wait_all_tasks_blocked()
        assert writer.waiting_bytes > 0
        await read(pipe_message[0], MORE_THAN_A_PIPE_TAKES)
    assert writer.waiting_bytes == 0
    nursery.cancel_scope.cancel()


async def test_whoever_waits_for_room_goes_on_when_what_waits_is_withdrawn(
    pipe_message: tuple[int, int], nursery: trio.Nursery
) -> None:
    writer = MessageWriter(pipe_message[1])
    left = writer.write(b"x" * MORE_THAN_A_PIPE_TAKES).size
    withdrawn = writer.write(b"more")
    with trio.fail_after(30):
        async with trio.open_nursery() as waiting:
            waiting.start_soon(writer.wait_room, left)
            await trio.testing.wait_all_tasks_blocked()
            writer.withdraw(withdrawn)


@pytest.mark.parametrize("waits", [b"", b"x" * MORE_THAN_A_PIPE_TAKES], ids=["idle", "full"])
async def test_the_task_says_that_the_other_end_is_gone_and_what_is_written_then_is_dropped(
    pipe_message: tuple[int, int], waits: bytes
) -> None:
    writer = MessageWriter(pipe_message[1])
    writer.write(waits)
    os.close(pipe_message[0])
    writer.write(b"into the void")
    with trio.fail_after(30):
        with pytest.raises(trio.BrokenResourceError):
            await writer.run()
        with pytest.raises(trio.BrokenResourceError):
            await writer.wait_room()
    assert not writer.write(b"dropped").has_begun
    assert writer.waiting_bytes == 0


async def test_whoever_waits_for_room_is_told_when_nobody_writes_any_more(
    pipe_message: tuple[int, int], nursery: trio.Nursery
) -> None:
    writer = MessageWriter(pipe_message[1])
    writing = trio.CancelScope()

    async def run() -> None:
        with writing:
            await writer.run()

    nursery.start_soon(run)
    writer.write(b"x" * MORE_THAN_A_PIPE_TAKES)
    await trio.testing.wait_all_tasks_blocked()
    writing.cancel()
    with trio.fail_after(30), pytest.raises(trio.BrokenResourceError):
        await writer.wait_room()


async def test_whoever_fills_it_is_asked_for_more_when_all_is_written(
    pipe_message: tuple[int, int], nursery: trio.Nursery
) -> None:
    supply = [b"x" * MORE_THAN_A_PIPE_TAKES, b"two", b"three"]

    def refill() -> None:
        if supply:
            writer.put(supply.pop(0))

    writer = MessageWriter(pipe_message[1], refill=refill)
    nursery.start_soon(writer.run)
    writer.flush()
    assert supply == [b"two", b"three"]  # the first does not fit: the others can still be taken back
    data = await read(pipe_message[0], MORE_THAN_A_PIPE_TAKES + len("twothree"))
    assert data.endswith(b"xtwothree")
    nursery.cancel_scope.cancel()


async def test_when_it_is_finished_the_task_ends_once_all_is_written(pipe_message: tuple[int, int]) -> None:
    writer = MessageWriter(pipe_message[1])
    writer.write(b"x" * MORE_THAN_A_PIPE_TAKES)
    withdrawn = writer.write(b"withdrawn")
    writer.withdraw_all()
    assert not writer.withdraw(withdrawn)
    writer.write(b"end")
    writer.finish()
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(writer.run)
            assert (await read(pipe_message[0], MORE_THAN_A_PIPE_TAKES + 3)).endswith(b"xend")


async def test_sockets_are_written_like_pipes(nursery: trio.Nursery) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        writer = MessageWriter(theirs.fileno())
        nursery.start_soon(writer.run)
        ours.setblocking(False)
        large = os.urandom(MORE_THAN_A_PIPE_TAKES)
        writer.write(large)
        assert await read(ours.fileno(), len(large)) == large
        nursery.cancel_scope.cancel()
