"""Bounded reads of untrusted files: regular files only, and without exceptions."""

from __future__ import annotations

import itertools
import os
import stat
from contextlib import suppress
from pathlib import Path

MOST_ENTRIES = 10_000
# ValueError: it is no path at all (a NUL, half a character), as files of others may name one.
_UNREADABLE = (OSError, ValueError)


def status(path: Path) -> os.stat_result | None:
    """Return the status of a file, links followed; None if it does not exist or is not accessible."""
    with suppress(*_UNREADABLE):
        return path.stat()
    return None


def is_folder(path: Path) -> bool:
    """Return whether the path is a directory, links followed."""
    found = status(path)
    return found is not None and stat.S_ISDIR(found.st_mode)


def is_file(path: Path) -> bool:
    """Return whether the path is a regular file, links followed."""
    found = status(path)
    return found is not None and stat.S_ISREG(found.st_mode)


def link(path: Path) -> str:
    """Return the target of a link; empty if the path is not a link."""
    with suppress(*_UNREADABLE):
        return str(path.readlink())
    return ""


def closed_folder(path: Path) -> Path | None:
    """Return the directory above `path` that this user may not enter."""
    try:
        path.lstat()
    except PermissionError:
        return next((above for above in reversed(path.parents) if not os.access(above, os.X_OK)), None)
    except _UNREADABLE:
        pass
    return None


def head(path: Path, most: int) -> bytes | None:
    """Return the first `most` bytes of a regular file, links followed; None if it cannot be read."""
    if not is_file(path):
        return None
    with suppress(*_UNREADABLE), open(path, "rb", opener=_open_at_once) as file:
        return file.read(most)
    return None


def _open_at_once(path: str, flags: int) -> int:
    """Open without waiting: a pipe may have replaced the file since it was checked."""
    return os.open(path, flags | os.O_NONBLOCK)


def whole(path: Path, most: int) -> bytes | None:
    """Return a whole file; None if `head` returns None, or the file is longer than `most` bytes."""
    content = head(path, most + 1)
    return content if content is not None and len(content) <= most else None


def entries(folder: Path) -> list[Path]:
    """Return the entries of a directory, by name; none if it cannot be listed."""
    with suppress(*_UNREADABLE):
        return sorted(itertools.islice(folder.iterdir(), MOST_ENTRIES))
    return []


def resolved(path: Path) -> Path:
    """Return a path with its links resolved, circles of links included."""
    with suppress(*_UNREADABLE):
        return Path(os.path.realpath(path))
    return path
