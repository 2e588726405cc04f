"""What the system tells of processes. Linux says most of it in /proc."""

from __future__ import annotations

import os
import sys
from pathlib import Path


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
