"""Resident memory of processes, from /proc."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def resident_bytes(pid: int) -> int:
    """With what it shares with others."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def child_processes(argument: bytes) -> Iterator[int]:
    """Those of this process that were started with an argument, and still run."""
    for task in Path("/proc/self/task").iterdir():
        for pid in (task / "children").read_text().split():
            with suppress(FileNotFoundError):
                if argument in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
                    yield int(pid)
