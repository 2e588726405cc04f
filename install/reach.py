"""Whether other users of the machine can run what we run."""

from __future__ import annotations

import stat
import sys
from pathlib import Path


def unreachable(interpreter: Path) -> Path | None:
    """The first folder or file on the way to an interpreter that is closed to other users; None: it is open.

    The way leads to the file itself, to what it is a link to, and to the packages beside it.
    """
    ends = [interpreter, interpreter.resolve(), Path(__file__)]
    ends += [Path(entry) for entry in sys.path if Path(entry).is_absolute() and Path(entry).exists()]
    for end in ends:
        for folder in reversed(end.parents):
            if not folder.stat().st_mode & stat.S_IXOTH:
                return folder
        if not end.stat().st_mode & stat.S_IROTH:
            return end
    return None
