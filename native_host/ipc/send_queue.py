"""Bounded queue of outgoing messages of one descriptor, with withdrawal. Sans-IO.

A message is handed over in parts (a header, a head, a body), which are never joined: the kernel gathers them.
Of the messages with a key, at most one waits for each key.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from native_host.protocol.announcements import AnnouncementKey
from native_host.protocol.framing import Part

_GATHERED_PARTS = 128
"""At most, in one system call. POSIX promises 16, Linux and macOS take 1024."""
_GATHERED_BYTES = 1024 * 1024
"""Once a system call has as much to write, more messages would not make it cheaper."""


class Outgoing:
    """A message on its way to the other end."""

    __slots__ = ("has_begun", "is_first", "key", "parts", "size")

    def __init__(
        self, parts: tuple[Part, ...], key: AnnouncementKey | None = None, *, is_first: bool = False
    ) -> None:
        self.parts = parts
        self.size = sum(map(len, parts))
        """Of what is not written yet."""
        self.has_begun = False
        """Some of it has been written: the other end may have got it."""
        self.key = key
        self.is_first = is_first
        """True if no earlier message had this key."""


class SendQueue:
    """Queue of messages in the order of writing."""

    def __init__(self) -> None:
        self.size = 0
        """Of all that waits, in bytes."""
        self._queue: OrderedDict[Outgoing, None] = OrderedDict()
        self._by_key: dict[AnnouncementKey, Outgoing] = {}
        """Of messages that have not begun."""

    def __len__(self) -> int:
        return len(self._queue)

    def put(self, outgoing: Outgoing) -> None:
        """Queue a message; one without a byte is as good as written."""
        if outgoing.size:
            self._queue[outgoing] = None
            self._count(outgoing)

    def about(self, key: AnnouncementKey) -> Outgoing | None:
        """The message about this that can still be taken back."""
        return self._by_key.get(key)

    def waiting_keys(self) -> Iterable[AnnouncementKey]:
        """Those that `about` has something for."""
        return self._by_key.keys()

    def replace(self, waiting: Outgoing, newer: Outgoing) -> None:
        """Put a message into the place of one that has not begun: that becomes the newer one."""
        self._discount(waiting)
        waiting.parts, waiting.size = newer.parts, newer.size
        waiting.key, waiting.is_first = newer.key, newer.is_first
        self._count(waiting)

    def withdraw(self, outgoing: Outgoing) -> bool:
        """Take a message back: whether the other end will never see any of it."""
        if outgoing.has_begun or outgoing not in self._queue:
            return False
        del self._queue[outgoing]
        self._discount(outgoing)
        return True

    def withdraw_all(self) -> None:
        """Take back all that has not begun."""
        for outgoing in list(self._queue):
            self.withdraw(outgoing)

    def clear(self) -> None:
        """Forget all of it, also the rest of what has begun."""
        self._queue.clear()
        self._by_key.clear()
        self.size = 0

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
            if not outgoing.has_begun:
                self._begin(outgoing)
            if count < outgoing.size:
                outgoing.parts = _without(outgoing.parts, count)
                outgoing.size -= count
                return
            count -= outgoing.size
            del self._queue[outgoing]

    def _begin(self, outgoing: Outgoing) -> None:
        outgoing.has_begun = True
        if outgoing.key is not None:
            del self._by_key[outgoing.key]

    def _count(self, outgoing: Outgoing) -> None:
        self.size += outgoing.size
        if outgoing.key is not None:
            self._by_key[outgoing.key] = outgoing

    def _discount(self, outgoing: Outgoing) -> None:
        self.size -= outgoing.size
        if outgoing.key is not None:
            del self._by_key[outgoing.key]


def _without(parts: tuple[Part, ...], count: int) -> tuple[Part, ...]:
    """What is left of `parts` after their first `count` bytes."""
    for index, part in enumerate(parts):
        if count < len(part):
            return (memoryview(part)[count:], *parts[index + 1 :])
        count -= len(part)
    return ()
