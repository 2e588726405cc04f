"""Who is connected to a Unix socket of another process. Linux says it in /proc/net/unix."""

from __future__ import annotations

import os
from pathlib import Path

_CONNECTED = "03"
"""The state of a connected socket (SS_CONNECTED), here of the accepted end, which bears the socket's path."""


def connections(path: Path, table: Path = Path("/proc/net/unix")) -> int | None:
    """How many there are now, ours included; None: this system does not tell."""
    try:
        lines = table.read_bytes().splitlines()
    except OSError:
        return None
    wanted = os.fsencode(path)
    # Num RefCount Protocol Flags Type St Inode Path
    fields = (line.split(maxsplit=7) for line in lines)
    return sum(len(each) == 8 and each[7] == wanted and each[5] == _CONNECTED.encode() for each in fields)
