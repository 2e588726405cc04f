"""What waits to be written to one descriptor: in order, counted, taken back while that is possible. Sans-IO.

A message is handed over in parts (a header, a head, a body), which are never joined: the kernel gathers them.
"""

from __future__ import annotations

from collections import OrderedDict

Part = bytes | bytearray | memoryview

_GATHERED_PARTS = 128
"""At most, in one system call. POSIX promises 16, Linux and macOS take 1024."""
_GATHERED_BYTES = 1024 * 1024
"""Once a system call has as much to write, more messages would not make it cheaper."""


class Outgoing:
    """A message on its way to the other end."""

    __slots__ = ("has_begun", "parts", "size")

    def __init__(self, parts: tuple[Part, ...]) -> None:
        self.parts = parts
        self.size = sum(map(len, parts))
        """Of what is not written yet."""
        self.has_begun = False
        """Some of it has been written: the other end may have got it."""


class Backlog:
    """A queue of messages, the oldest first."""

    def __init__(self) -> None:
        self.size = 0
        """Of all that waits, in bytes."""
        self._queue: OrderedDict[Outgoing, None] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._queue)

    def put(self, outgoing: Outgoing) -> None:
        """Queue a message; one without a byte is as good as written."""
        if outgoing.size:
            self._queue[outgoing] = None
            self.size += outgoing.size

    def withdraw(self, outgoing: Outgoing) -> bool:
        """Take a message back: whether the other end will never see any of it."""
        if outgoing.has_begun or outgoing not in self._queue:
            return False
        del self._queue[outgoing]
        self.size -= outgoing.size
        return True

    def withdraw_all(self) -> None:
        """Take back all that has not begun."""
        for outgoing in list(self._queue):
            self.withdraw(outgoing)

    def next_parts(self) -> list[Part]:
        """What to write next: at least the oldest message, if there is one."""
        gathered: list[Part] = []
        size = 0
        for outgoing in self._queue:
            gathered += outgoing.parts
            size += outgoing.size
            if size >= _GATHERED_BYTES or len(gathered) >= _GATHERED_PARTS:
                break
        return gathered

    def written(self, count: int) -> None:
        """`count` bytes of what waits, from its beginning, are written."""
        self.size -= count
        while count:
            outgoing = next(iter(self._queue))
            outgoing.has_begun = True
            if count < outgoing.size:
                outgoing.parts = _without(outgoing.parts, count)
                outgoing.size -= count
                return
            count -= outgoing.size
            del self._queue[outgoing]


def _without(parts: tuple[Part, ...], count: int) -> tuple[Part, ...]:
    """What is left of `parts` after their first `count` bytes."""
    for index, part in enumerate(parts):
        if count < len(part):
            return (memoryview(part)[count:], *parts[index + 1 :])
        count -= len(part)
    return ()
