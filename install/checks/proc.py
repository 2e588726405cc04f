"""Processes as Linux shows them in /proc, one question at a time.

A question about one raises OSError when it has ended, or hides the answer from this user.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from native_host.system.untrusted_files import entries, head

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
