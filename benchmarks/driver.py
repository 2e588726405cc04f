"""Calls on a conversation, made and timed by the client's end."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

from benchmarks.conversation import Conversation, EndError
from benchmarks.loads import Load
from benchmarks.processes import Corner, started
from benchmarks.subject import Bench, Calls

Request = Callable[[Load], bytes]
"""A whole message, with a zero byte where its id belongs; without one, answers come in turn."""


class Call(NamedTuple):
    """What the client's end tells of one."""

    written: int
    answered: int
    answer_bytes: int


_ORDER = struct.Struct("=III")
_CALL = struct.Struct("=qqq")


class DrivenCaller:
    """See `Caller`."""

    def __init__(self, process: subprocess.Popen[bytes], request: Request, corner: Corner) -> None:
        self._process = process
        self._request = request
        self._corner = corner

    def call(self, load: Load, count: int, depth: int = 1) -> Calls:
        """See `Caller`."""
        self.order(load, count, depth)
        return _calls(self.wait(load, count))

    def order(self, load: Load, count: int, depth: int = 1) -> None:
        """Have calls made, without waiting for their answers."""
        assert self._process.stdin
        request = self._request(load)
        with suppress(BrokenPipeError):  # Its stderr is reported.
            self._process.stdin.write(_ORDER.pack(count, depth, len(request)) + request)
            self._process.stdin.flush()

    def wait(self, load: Load, count: int) -> list[Call]:
        """Return the calls that were ordered.

        Raises:
            EndError: an answer did not come, or was not one.
        """
        assert self._process.stdout
        data = self._process.stdout.read(count * _CALL.size)
        if len(data) < count * _CALL.size:
            raise EndError(f"{load.name}: not all calls were answered. {self._corner.last_words()}")
        return [Call(*fields) for fields in _CALL.iter_unpack(data)]


class Together:
    """Several clients that call at the same time, each as often as the others. See `Caller`."""

    def __init__(self, callers: Sequence[DrivenCaller]) -> None:
        self._callers = callers

    def call(self, load: Load, count: int, depth: int = 1) -> Calls:
        """See `Caller`; the depth is that of each."""
        each = max(1, count // len(self._callers))
        for caller in self._callers:
            caller.order(load, each, depth)
        return _calls([call for caller in self._callers for call in caller.wait(load, each)])


def _calls(calls: Sequence[Call]) -> Calls:
    return Calls(
        seconds=[(call.answered - call.written) / 1e9 for call in calls],
        elapsed_s=(max(call.answered for call in calls) - min(call.written for call in calls)) / 1e9,
        answer_bytes=min(call.answer_bytes for call in calls),
    )


@contextmanager
def driven(
    bench: Bench, corner: Corner, conversation: Conversation, request: Request
) -> Iterator[DrivenCaller]:
    """Start the client program on a conversation, whose descriptors it takes over."""
    descriptors = (conversation.from_fd, conversation.to_fd)
    command = [*bench.programs.client, conversation.framing, *map(str, descriptors)]
    with started(corner, command, subprocess.PIPE, subprocess.PIPE, *descriptors) as process:
        assert process.stdin
        process.stdin.write(struct.pack("=I", len(conversation.rest())) + conversation.rest())
        yield DrivenCaller(process, request, corner)
