"""Calls on a conversation, made and timed by the client's end."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from benchmarks.conversation import Conversation, EndError
from benchmarks.loads import Load
from benchmarks.processes import Corner, started
from benchmarks.subject import Bench, Calls

Request = Callable[[Load], bytes]
"""A whole message, with a zero byte where its id belongs; without one, answers come in turn."""
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
        assert self._process.stdin
        assert self._process.stdout
        request = self._request(load)
        try:
            self._process.stdin.write(_ORDER.pack(count, depth, len(request)) + request)
            self._process.stdin.flush()
            data = self._process.stdout.read(count * _CALL.size)
        except BrokenPipeError:
            data = b""
        if len(data) < count * _CALL.size:
            raise EndError(f"{load.name}: not all calls were answered. {self._corner.last_words()}")
        calls = list(_CALL.iter_unpack(data))
        return Calls(
            seconds=[(answered - written) / 1e9 for written, answered, _ in calls],
            elapsed_s=(max(answered for _, answered, _ in calls) - calls[0][0]) / 1e9,
            answer_bytes=min(size for _, _, size in calls),
        )


@contextmanager
def driven(
    bench: Bench, corner: Corner, conversation: Conversation, request: Request
) -> Iterator[DrivenCaller]:
    """The client's end on a conversation, whose descriptors are its own from now on."""
    descriptors = (conversation.from_fd, conversation.to_fd)
    command = [*bench.programs.client, conversation.framing, *map(str, descriptors)]
    with started(corner, command, subprocess.PIPE, subprocess.PIPE, *descriptors) as process:
        assert process.stdin
        process.stdin.write(struct.pack("=I", len(conversation.rest())) + conversation.rest())
        yield DrivenCaller(process, request, corner)
