"""Processes in /proc: the one that has a socket open, its program, its start (Linux).

It reads processes of this user alone. Source: proc(5).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_PROC = Path("/proc")
_RECENT = 8
"""Processes that are looked at first."""


class Process(NamedTuple):
    """A process; its start tells it from a later one with the same id."""

    pid: int
    started_at: int
    """Clock ticks since the machine's start."""
    program: str
    """Path of its executable; empty when the system does not report it."""


def read_process(pid: int) -> Process | None:
    """Return what /proc says of a process; None when it has ended, or there is no /proc."""
    try:
        # The program's name stands in parentheses and may contain any character.
        fields = (_PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
        started_at = int(fields[19])
    except (OSError, ValueError, IndexError):
        return None
    program = ""
    with suppress(OSError):
        program = str((_PROC / str(pid) / "exe").readlink()).removesuffix(" (deleted)")
    return Process(pid, started_at, program)


class SocketProcesses:
    """Finds the process that has a socket open; looks first at the processes that it has found last."""

    def __init__(self) -> None:
        self._recent: list[int] = []

    def find(self, inode: int) -> Process | None:
        """Return a process of this user that has the socket open.

        None: it has closed the socket, it hides its descriptors, or its process namespace is not ours.
        """
        for pid in self._candidates():
            if _has_socket(pid, inode):
                self._recent = [pid, *(each for each in self._recent if each != pid)][:_RECENT]
                return read_process(pid)
        return None

    def _candidates(self) -> Iterator[int]:
        recent = list(self._recent)
        yield from recent
        yield from (pid for pid in _own_processes() if pid not in recent)


def _own_processes() -> Iterator[int]:
    """Yield the ids of this user's processes, the highest first: a client is younger than a desktop."""
    try:
        pids = sorted((int(path.name) for path in _PROC.iterdir() if path.name.isdecimal()), reverse=True)
    except OSError:
        return
    for pid in pids:
        with suppress(OSError):
            if (_PROC / str(pid)).stat().st_uid == os.getuid():
                yield pid


def _has_socket(pid: int, inode: int) -> bool:
    # Strings, since this runs for each connection and a client may have a thousand descriptors.
    wanted, folder = f"socket:[{inode}]", f"/proc/{pid}/fd"
    try:
        descriptors = os.listdir(folder)  # noqa: PTH208
    except OSError:
        return False
    for descriptor in reversed(descriptors):  # the latest connection usually has the highest number
        with suppress(OSError):
            if os.readlink(f"{folder}/{descriptor}") == wanted:  # noqa: PTH115
                return True
    return False
