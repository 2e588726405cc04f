"""Who else uses a Unix socket of another process. Linux says it in /proc/net/unix."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from native_host.existing_channel.pending_calls import Company

QUIET_S = 150.0
"""So long after another program has gone its last call may still be answered: its longest takes that."""
_THERE = (b"02", b"03")
"""States of the host's end of a connection, which bears the socket's path: SS_CONNECTING, when it is not
accepted yet and its client may have called already, and SS_CONNECTED."""


def connections(path: Path, table: Path = Path("/proc/net/unix")) -> int | None:
    """How many there are now, ours included; None: this system does not tell."""
    try:
        lines = table.read_bytes().splitlines()
    except OSError:
        return None
    wanted = os.fsencode(path)
    # Num RefCount Protocol Flags Type St Inode Path
    fields = (line.split(maxsplit=7) for line in lines)
    return sum(len(each) == 8 and each[7] == wanted and each[5] in _THERE for each in fields)


class Users:
    """Who uses a socket besides us, as far as it was looked."""

    def __init__(self, path: Path, now: Callable[[], float]) -> None:
        """`now` is in seconds."""
        self._path = path
        self._now = now
        self._seen_at = -QUIET_S

    def look(self) -> Company:
        """Now. A system that does not tell has nobody."""
        # None at all: their host is gone, and what is still heard was said to us.
        if (connections(self._path) or 0) > 1:
            self._seen_at = self._now()
            return Company.NOW
        return Company.LATELY if self._now() - self._seen_at < QUIET_S else Company.NONE
