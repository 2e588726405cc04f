"""The native hosts of one directory, which is read again only when something in it has changed.

Each bridge looks every second or more often, as long as it lives, and nearly always everything is as it was.
"""

from __future__ import annotations

import time
from collections.abc import Container
from pathlib import Path

from native_host.ipc import endpoint
from native_host.ipc.endpoint import Record

SETTLED_S = 1.0
"""After a change that is younger there may have been another: file systems tell time in steps."""


class HostDirectory:
    """Where hosts say that they are there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._found: list[Record] = []
        self._changed_ns: int | None = None
        """When it had changed last before it was read; None: nothing may be taken for known."""

    def live_hosts(self, linked: Container[str]) -> list[Record]:
        """The hosts that live now; of those that are `linked` that is known.

        Raises:
            EndpointError: the directory is there but not private.
            OSError: it cannot be read.
        """
        changed_ns = _changed_ns(self.path)
        is_known = changed_ns is not None and changed_ns == self._changed_ns
        if not is_known or any(record.instance not in linked for record in self._found):
            self._changed_ns = None
            self._found = endpoint.live_hosts(self.path)
            self._changed_ns = changed_ns
        return self._found


def _changed_ns(directory: Path) -> int | None:
    """When an entry came or went, or its owner or rights changed; None: cannot be relied on."""
    try:
        changed_ns = directory.lstat().st_ctime_ns
    except OSError:
        return None
    return changed_ns if time.time_ns() - changed_ns >= SETTLED_S * 1e9 else None
