"""The native hosts that browsers run now, wherever these keep their sockets. Linux says it in /proc."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from install.machine import Machine

LARGEST_COMMAND_LINE = 4096
_STARTS = ["-m", "native_host"]
"""So does every wrapper of mcpb's, whatever its home (install/wrapper.py)."""


def hosts_started_by(machine: Machine, browsers: Collection[int]) -> dict[int, int]:
    """Their pids, and those of their browsers: children of these processes that run mcpb's native host."""
    proc = machine.root / "proc"
    if machine.system != "linux" or not browsers or not proc.is_dir():
        return {}
    found = {}
    for process in proc.iterdir():
        if process.name.isdigit():
            with suppress(OSError, ValueError, IndexError):  # it has ended meanwhile
                parent = _parent(process)
                if parent in browsers and _is_host(process):
                    found[int(process.name)] = parent
    return found


def _parent(process: Path) -> int:
    """The second field after the program's name, which is in brackets and may have any in it."""
    return int((process / "stat").read_text(errors="replace").rpartition(")")[2].split()[1])


def _is_host(process: Path) -> bool:
    with (process / "cmdline").open("rb") as file:
        words = file.read(LARGEST_COMMAND_LINE).decode(errors="replace").split("\0")
    return any(words[at : at + 2] == _STARTS for at in range(len(words)))
