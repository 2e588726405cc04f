"""Another product's sockets: found by looking, never by computing a name; only ever looked at.

Its hosts name them by a user name that the browser's environment may lack, so all folders of that form are
looked through, and what is not private and ours is passed over with the reason.

Who else uses a Unix socket of another process. Linux says it in /proc/net/unix.
"""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from native_host.existing_channel.channel_messages import ABOVE, BRAND, DIRECTORIES, OLD_SOCKETS
from native_host.existing_channel.pending_calls import OtherClients
from native_host.existing_channel.published_socket import is_ours
from native_host.system import proc
from native_host.system.proc import count_unix_connections

RECONNECT = "https://clau.de/chrome/reconnect"
"""Where that product's extension starts a host again."""
OPEN_RECONNECT = f"Open {RECONNECT} in that browser, or restart it"
_OPEN = "is open to other users"


@dataclass(frozen=True)
class FoundChannel:
    """A socket that a host of that product has, or had."""

    path: Path
    pid: int | None
    """Of the host; None: its name does not say."""
    fault: str = ""
    """Why it is not used; empty: it is."""
    mend: str = ""
    """The command that makes it usable; empty where none does."""


def find_channels(directory: Path | None = None) -> list[FoundChannel]:
    """All of this machine that could be meant for us, in the order of their names; the newer form first.

    Those that an mcpb has put there itself are none: it would speak with itself.

    Args:
        directory: the only one to look into; None: all that have the product's form.
    """
    directories = [directory] if directory else sorted(Path(ABOVE).glob(DIRECTORIES))
    found = [channel for each in directories for channel in _in_directory(each)]
    if directory is None:
        found += [judged(path) for path in sorted(Path(ABOVE).glob(OLD_SOCKETS))]
    return [channel for channel in found if not is_ours(channel.path)]


def only_place(directory: Path) -> str:
    """The one place that was looked into, for who finds nothing there."""
    gone = "" if directory.is_dir() else "; there is no such folder"
    return f"in {directory} (existing_channel.directory of the configuration{gone})"


def judged(path: Path) -> FoundChannel:
    """What stands at this path."""
    pid = int(path.stem) if path.stem.isascii() and path.stem.isdigit() else None
    if fault := _fault_around(path.parent):
        closing = f"chmod 700 {shlex.quote(str(path.parent))}"
        return FoundChannel(path, pid, fault, closing if fault.endswith(_OPEN) else "")
    if fault := _fault_of(path, pid):
        return FoundChannel(path, pid, fault)
    return FoundChannel(path, pid)


def what_became_of(path: Path, pid: int | None) -> str:
    """Of the host at a socket that does not serve any more, for who wants to use it."""
    named = f"{BRAND}'s native host" + (f" (pid {pid})" if pid else "")
    if pid is None or not proc.is_running(pid):
        return f"{named} has ended: its browser was closed, or its extension connects anew"
    if path.exists():
        return f"{named} has closed this connection; it is connected to again"
    return still_runs(pid)


def still_runs(pid: int) -> str:
    """Of a host that has closed its socket and lives on."""
    return (
        f"{BRAND}'s native host (pid {pid}) still runs, but has closed its socket and serves nobody any "
        f"more, as it does after a message over 1 MiB. {OPEN_RECONNECT}"
    )


def _in_directory(directory: Path) -> list[FoundChannel]:
    if _is_anothers(directory):
        return []
    try:
        return [judged(path) for path in sorted(directory.iterdir()) if path.suffix == ".sock"]
    except OSError:
        return []


def _is_anothers(directory: Path) -> bool:
    """Another user's business."""
    try:
        return directory.lstat().st_uid != os.getuid()
    except OSError:
        return True


def _fault_around(directory: Path) -> str:
    if directory == Path(ABOVE):
        return ""  # the old form stands among everybody's
    fault = _fault(directory, stat.S_ISDIR, "directory")
    return f"its folder {directory} {fault}" if fault else ""


def _fault_of(path: Path, pid: int | None) -> str:
    if fault := _fault(path, stat.S_ISSOCK, "socket"):
        return f"it {fault}"
    if is_ours(path):
        return "mcpb has put it there itself"
    if pid is not None and not proc.is_running(pid):
        return (
            f"its host (pid {pid}) has ended without removing it. {OPEN_RECONNECT}: its next host removes it"
        )
    return ""


def _fault(path: Path, is_kind: Callable[[int], bool], kind: str) -> str:
    try:
        found = path.lstat()
    except OSError as error:
        return f"cannot be looked at: {error.strerror}"
    if stat.S_ISLNK(found.st_mode):
        return "is a link"
    if not is_kind(found.st_mode):
        return f"is no {kind}"
    if found.st_uid != os.getuid():
        return f"belongs to user {found.st_uid}"
    if found.st_mode & 0o077:
        return _OPEN
    return ""


QUIET_S = 150.0
"""So long after another program has gone its last call may still be answered: its longest takes that."""


class SocketUsers:
    """Other users of a socket, as of the last scan."""

    def __init__(self, path: Path, now: Callable[[], float]) -> None:
        """`now` is in seconds."""
        self._path = path
        self._now = now
        self._seen_at = -QUIET_S

    def look(self) -> OtherClients:
        """Now. A system that does not tell has nobody."""
        # None at all: their host is gone, and what is still heard was said to us.
        if (count_unix_connections(self._path) or 0) > 1:
            self._seen_at = self._now()
            return OtherClients.NOW
        return OtherClients.LATELY if self._now() - self._seen_at < QUIET_S else OtherClients.NONE
