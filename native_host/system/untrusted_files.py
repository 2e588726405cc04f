"""Reading what may be anybody's: regular files alone, only so much of them, and never with an exception."""

from __future__ import annotations

import itertools
import os
import stat
from contextlib import suppress
from pathlib import Path

MOST_ENTRIES = 10_000
"""Of a folder. Nobody has so many."""
# ValueError: it is no path at all (a NUL, half a character), as files of others may name one.
_UNREADABLE = (OSError, ValueError)


def status(path: Path) -> os.stat_result | None:
    """Of what is there, links followed; None where nothing is, or nothing that this user may see."""
    with suppress(*_UNREADABLE):
        return path.stat()
    return None


def is_folder(path: Path) -> bool:
    """Links followed."""
    found = status(path)
    return found is not None and stat.S_ISDIR(found.st_mode)


def is_file(path: Path) -> bool:
    """A regular one, links followed."""
    found = status(path)
    return found is not None and stat.S_ISREG(found.st_mode)


def link(path: Path) -> str:
    """Where a link leads; empty where there is none."""
    with suppress(*_UNREADABLE):
        return str(path.readlink())
    return ""


def closed_folder(path: Path) -> Path | None:
    """The folder on the way to `path` that this user may not enter."""
    try:
        path.lstat()
    except PermissionError:
        return next((above for above in reversed(path.parents) if not os.access(above, os.X_OK)), None)
    except _UNREADABLE:
        pass
    return None


def head(path: Path, most: int) -> bytes | None:
    """The first `most` bytes of a file, links followed; None where there is no regular file to be read."""
    if not is_file(path):
        return None
    with suppress(*_UNREADABLE), open(path, "rb", opener=_open_at_once) as file:
        return file.read(most)
    return None


def _open_at_once(path: str, flags: int) -> int:
    """A pipe may have come into the place of the file since it was looked at."""
    return os.open(path, flags | os.O_NONBLOCK)


def whole(path: Path, most: int) -> bytes | None:
    """As `head`, and None for a file that is longer than `most` bytes."""
    content = head(path, most + 1)
    return content if content is not None and len(content) <= most else None


def entries(folder: Path) -> list[Path]:
    """What is in a folder, by name; nothing where it cannot be listed."""
    with suppress(*_UNREADABLE):
        return sorted(itertools.islice(folder.iterdir(), MOST_ENTRIES))
    return []


def resolved(path: Path) -> Path:
    """Where it leads; the path itself where that cannot be said. (`Path.resolve` raises for circles.)"""
    with suppress(*_UNREADABLE):
        return Path(os.path.realpath(path))
    return path
