"""Bounded queue of outgoing messages of one descriptor, with withdrawal. Sans-IO.

A message is handed over in parts (a header, a head, a body), which are never joined: the kernel gathers them.
Of the messages with a key, at most one waits for each key.
"""

from __future__ import annotations

from collections import OrderedDict

from native_host.protocol.announcements import AnnouncementKey, Kind
from native_host.protocol.framing import Part

_GATHERED_PARTS = 128
"""Buffers in one system call. POSIX guarantees 16; Linux and macOS take 1024."""
_GATHERED_BYTES = 1024 * 1024
"""Bytes after which more messages would not make a system call cheaper."""

_Group = tuple[str, int]
"""All keys of one kind, or of one tab."""


class Outgoing:
    """Queued message."""

    __slots__ = ("has_begun", "is_first", "key", "parts", "size")

    def __init__(
        self, parts: tuple[Part, ...], key: AnnouncementKey | None = None, *, is_first: bool = False
    ) -> None:
        self.parts = parts
        self.size = sum(map(len, parts))
        """Bytes that are not written yet."""
        self.has_begun = False
        """A part has been written, so the other end may have received it."""
        self.key = key
        self.is_first = is_first
        """True if no earlier message had this key."""


class SendQueue:
    """Queue of messages in the order of writing."""

    def __init__(self) -> None:
        self.size = 0
        """Bytes of all queued messages."""
        self._queue: OrderedDict[Outgoing, None] = OrderedDict()
        self._by_key: dict[AnnouncementKey, Outgoing] = {}
        """Messages of which no byte has been written, by key."""
        self._groups: dict[_Group, dict[AnnouncementKey, None]] = {}
        """Keys of `_by_key`. Thousands may wait, so no announcement looks through all of them."""

    def __len__(self) -> int:
        return len(self._queue)

    def put(self, outgoing: Outgoing) -> None:
        """Queue a message; an empty one counts as written."""
        if outgoing.size:
            self._queue[outgoing] = None
            self._count(outgoing)

    def about(self, key: AnnouncementKey) -> Outgoing | None:
        """Return the message with this key that can still be withdrawn."""
        return self._by_key.get(key)

    def keys_of_kind(self, kind: Kind) -> list[AnnouncementKey]:
        """Return the keys of this kind whose messages can still be withdrawn."""
        return list(self._groups.get(("kind", kind), ()))

    def keys_of_tab(self, tab_id: int) -> list[AnnouncementKey]:
        """Return the keys with this tab whose messages can still be withdrawn."""
        return list(self._groups.get(("tab", tab_id), ()))

    def replace(self, waiting: Outgoing, newer: Outgoing) -> None:
        """Replace a message of which no byte has been written."""
        self._discount(waiting)
        waiting.parts, waiting.size = newer.parts, newer.size
        waiting.key, waiting.is_first = newer.key, newer.is_first
        self._count(waiting)

    def withdraw(self, outgoing: Outgoing) -> bool:
        """Withdraw a message; return whether the other end receives no byte of it."""
        if outgoing.has_begun or outgoing not in self._queue:
            return False
        del self._queue[outgoing]
        self._discount(outgoing)
        return True

    def withdraw_all(self) -> None:
        """Withdraw all messages of which no byte has been written."""
        for outgoing in list(self._queue):
            self.withdraw(outgoing)

    def clear(self) -> None:
        """Remove all messages, also the rest of a message that has been begun."""
        self._queue.clear()
        self._by_key.clear()
        self._groups.clear()
        self.size = 0

    def next_parts(self) -> list[Part]:
        """Return the parts to write next: at least the oldest message, if one is queued."""
        gathered: list[Part] = []
        size = 0
        for outgoing in self._queue:
            gathered += outgoing.parts
            size += outgoing.size
            if size >= _GATHERED_BYTES or len(gathered) >= _GATHERED_PARTS:
                break
        return gathered

    def on_written(self, count: int) -> None:
        """Remove the first `count` bytes, which have been written."""
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
            self._remove_key(outgoing.key)

    def _count(self, outgoing: Outgoing) -> None:
        self.size += outgoing.size
        if (key := outgoing.key) is not None:
            self._by_key[key] = outgoing
            for group in _groups_of(key):
                self._groups.setdefault(group, {})[key] = None

    def _discount(self, outgoing: Outgoing) -> None:
        self.size -= outgoing.size
        if outgoing.key is not None:
            self._remove_key(outgoing.key)

    def _remove_key(self, key: AnnouncementKey) -> None:
        del self._by_key[key]
        for group in _groups_of(key):
            del self._groups[group][key]
            if not self._groups[group]:
                del self._groups[group]


def _groups_of(key: AnnouncementKey) -> tuple[_Group, _Group]:
    return ("kind", key.kind), ("tab", key.tab_id)


def _without(parts: tuple[Part, ...], count: int) -> tuple[Part, ...]:
    """Return `parts` without their first `count` bytes."""
    for index, part in enumerate(parts):
        if count < len(part):
            return (memoryview(part)[count:], *parts[index + 1 :])
        count -= len(part)
    return ()
