"""The native hosts that browsers run now, wherever these keep their sockets. Linux says it in /proc."""

from __future__ import annotations

import os
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from install.checks.proc import command_line, parent, pid_of, processes
from install.machine import Machine

_STARTS = ["-m", "native_host"]
"""So does every wrapper of mcpb's, whatever its home (install/wrapper.py)."""


def hosts_started_by(machine: Machine, browsers: Collection[int]) -> dict[int, int]:
    """Their pids, and those of their browsers: children of these processes that run mcpb's native host."""
    if machine.system != "linux" or not browsers:
        return {}
    found = {}
    for process in processes(machine.root / "proc", os.getuid()):
        with suppress(OSError, ValueError, IndexError):  # it has ended meanwhile
            if (browser := parent(process)) in browsers and _is_host(process):
                found[pid_of(process)] = browser
    return found


def _is_host(process: Path) -> bool:
    words = command_line(process)
    return any(words[at : at + 2] == _STARTS for at in range(len(words)))
