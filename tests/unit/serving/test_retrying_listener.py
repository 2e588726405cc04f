"""A shortage of file descriptors has two lines in the log, however long it lasts."""

from __future__ import annotations

import errno
import logging
import os
import socket

import pytest
import trio
import trio.testing

from http_serving.retrying_listener import CALM_S, RETRY_S, RetryingListener, Shortage


class ShortOfFiles(trio.abc.Listener[trio.SocketStream]):
    """A listener whose attempts end as told: with an error, or with a connection."""

    def __init__(self, *ends: int) -> None:
        self.ends = list(ends)

    async def accept(self) -> trio.SocketStream:
        await trio.lowlevel.checkpoint()
        if number := self.ends.pop(0):
            raise OSError(number, os.strerror(number))
        ours, theirs = socket.socketpair()
        theirs.close()
        return trio.SocketStream(trio.socket.from_stdlib_socket(ours))

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


async def accept(listener: RetryingListener) -> None:
    await (await listener.accept()).aclose()


def levels(caplog: pytest.LogCaptureFixture) -> list[int]:
    return [record.levelno for record in caplog.records]


async def test_failed_attempts_of_all_listeners_are_one_line_and_the_end_is_another(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    shortage = Shortage()
    first = RetryingListener(ShortOfFiles(*[errno.EMFILE] * 50, 0, errno.ENFILE, 0, 0, 0), shortage)
    second = RetryingListener(ShortOfFiles(errno.EMFILE, 0), shortage)
    began = trio.current_time()
    await accept(first)
    assert trio.current_time() - began == pytest.approx(50 * RETRY_S)
    await accept(second)
    await accept(first)
    assert levels(caplog) == [logging.ERROR]
    await trio.sleep(CALM_S + 1)
    await accept(first)
    await accept(first)
    assert levels(caplog) == [logging.ERROR, logging.WARNING]


async def test_a_shortage_long_after_another_one_has_a_line_of_its_own(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    listener = RetryingListener(ShortOfFiles(errno.EMFILE, 0, errno.EMFILE, 0), Shortage())
    await accept(listener)
    await trio.sleep(CALM_S + 1)
    await accept(listener)
    assert levels(caplog) == [logging.ERROR, logging.ERROR]


async def test_an_error_that_is_no_shortage_is_raised() -> None:
    listener = RetryingListener(ShortOfFiles(errno.EINVAL), Shortage())
    with pytest.raises(OSError, match=os.strerror(errno.EINVAL)):
        await accept(listener)
