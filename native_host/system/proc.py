"""Processes in /proc: the one that has a socket open, its program, its start (Linux).

It reads processes of this user alone. Source: proc(5).

What the system tells of processes. Linux says most of it in /proc.

Processes as Linux shows them in /proc, one question at a time.

A question about one raises OSError when it has ended, or hides the answer from this user.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from native_host.system.untrusted_files import entries, head

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


def is_running(pid: int) -> bool:
    """Whether it has not ended; one that is only still to be waited for has."""
    if sys.platform != "linux":
        return _is_known(pid)
    fields = _fields(pid)
    return bool(fields) and fields[0] not in "ZX"


def parent_of(pid: int) -> int:
    """Who started it, or took it over; 0 where the system does not say."""
    fields = _fields(pid)
    return int(fields[1]) if fields else 0


def _fields(pid: int) -> list[str]:
    """Its state, its parent and more: what follows the program's name, which may have anything in it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return []


def _is_known(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return True


LARGEST_COMMAND_LINE = 256 * 1024
MOST_ANCESTORS = 8
"""Between a browser and the host that it started: a shell, a wrapper."""


def processes(proc: Path, uid: int) -> Iterator[Path]:
    """The folders of this user's, by pid."""
    for path in sorted((path for path in entries(proc) if path.name.isdecimal()), key=pid_of):
        with suppress(OSError):
            if path.stat().st_uid == uid:
                yield path


def pid_of(process: Path) -> int:
    """By the folder's name."""
    return int(process.name)


def command_line(process: Path) -> Sequence[str]:
    """Its words, the program first; one that is empty where it cannot be read."""
    line = head(process / "cmdline", LARGEST_COMMAND_LINE) or b""
    return line.decode(errors="replace").rstrip("\0").split("\0")


def executable(process: Path) -> str:
    """Its program's path, which an upgrade may have replaced since."""
    return str((process / "exe").readlink()).removesuffix(" (deleted)")


def parent(process: Path) -> int:
    """The pid of whoever started it, or of who looks after it since that one ended."""
    return int(_status_fields(process)[1])


def ancestors(process: Path) -> Iterator[int]:
    """The pids above it, the nearest first, as far as they can be told."""
    with suppress(OSError, ValueError, IndexError):
        for _ in range(MOST_ANCESTORS):
            above = parent(process)
            yield above
            process = process.parent / str(above)


def age_s(process: Path) -> float:
    """Seconds since its start."""
    up_s = float((process.parent / "uptime").read_text().split()[0])
    return up_s - int(_status_fields(process)[19]) / os.sysconf("SC_CLK_TCK")


def sockets(process: Path) -> Iterator[int]:
    """The inodes of the sockets that it has open."""
    for descriptor in entries(process / "fd"):
        with suppress(OSError):
            name = str(descriptor.readlink())
            if name.startswith("socket:["):
                yield int(name.removeprefix("socket:[").removesuffix("]"))


def _status_fields(process: Path) -> Sequence[str]:
    """From the third of proc(5) on: those after the name, which is in brackets and may have any in it."""
    return (process / "stat").read_text(errors="replace").rpartition(")")[2].split()
