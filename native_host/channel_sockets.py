"""Another product's sockets: found by looking, never by computing a name; only ever looked at.

Its hosts name them by a user name that the browser's environment may lack, so all folders of that form are
looked through, and what is not private and ours is passed over with the reason.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Container
from dataclasses import dataclass
from pathlib import Path

from native_host.channel_wire import ABOVE, DIRECTORIES, OLD_SOCKETS


@dataclass(frozen=True)
class FoundChannel:
    """A socket that a host of that product has, or had."""

    path: Path
    pid: int | None
    """Of the host; None: its name does not say."""
    fault: str = ""
    """Why it is not used; empty: it is."""


def find_channels(directory: Path | None = None, ours: Container[Path] = ()) -> list[FoundChannel]:
    """All of this machine that could be meant for us, in the order of their names; the newer form first.

    Args:
        directory: the only one to look into; None: all that have the product's form.
        ours: sockets that we have put there ourselves.
    """
    directories = [directory] if directory else sorted(Path(ABOVE).glob(DIRECTORIES))
    found = [channel for each in directories for channel in _in_directory(each)]
    if directory is None:
        found += [_judged(path, None) for path in sorted(Path(ABOVE).glob(OLD_SOCKETS))]
    return [channel for channel in found if channel.path not in ours]


def _in_directory(directory: Path) -> list[FoundChannel]:
    fault = _fault(directory, stat.S_ISDIR, "directory")
    if fault.startswith("it belongs"):
        return []  # another user's business
    try:
        names = sorted(path.name for path in directory.iterdir() if path.suffix == ".sock")
    except OSError:
        return []
    found = []
    for name in names:
        stem = name.removesuffix(".sock")
        pid = int(stem) if stem.isascii() and stem.isdigit() else None
        channel = _judged(directory / name, pid)
        found.append(FoundChannel(channel.path, pid, f"in {directory}: {fault}") if fault else channel)
    return found


def _judged(path: Path, pid: int | None) -> FoundChannel:
    fault = _fault(path, stat.S_ISSOCK, "socket")
    if not fault and pid is not None and not _lives(pid):
        fault = f"its host (pid {pid}) has ended without removing it"
    return FoundChannel(path, pid, fault)


def _fault(path: Path, is_kind: Callable[[int], bool], kind: str) -> str:
    try:
        found = path.lstat()
    except OSError as error:
        return f"it cannot be looked at: {error.strerror}"
    if stat.S_ISLNK(found.st_mode):
        return "it is a link"
    if not is_kind(found.st_mode):
        return f"it is no {kind}"
    if found.st_uid != os.getuid():
        return f"it belongs to user {found.st_uid}"
    if found.st_mode & 0o077:
        return "it is open to other users"
    return ""


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # it is another user's
        return True
    return True
