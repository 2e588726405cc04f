"""Sockets of the existing channel: detection, checks, and other clients of a socket.

It writes nothing. The native hosts of Claude in Chrome name their directory by a user name that the browser's
environment may lack, so all directories of that form are scanned. A socket that is not private to this user
is skipped with the reason.
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
"""Page on which Claude in Chrome starts a native host again."""
OPEN_RECONNECT = f"Open {RECONNECT} in that browser, or restart it"


@dataclass(frozen=True)
class FoundChannel:
    """Socket that a native host of Claude in Chrome has, or had."""

    path: Path
    pid: int | None
    """Process id of the host; None if the name of the socket lacks it."""
    fault: str = ""
    """Reason why it is not used; empty if it is."""
    is_directory_open: bool = False
    """True if it is unused because other users may enter its directory."""

    @property
    def mend(self) -> str:
        """Command that makes it usable; empty without one."""
        return f"chmod 700 {shlex.quote(str(self.path.parent))}" if self.is_directory_open else ""


def find_channels(directory: Path | None = None) -> list[FoundChannel]:
    """Return the sockets of this machine by name, the newer form first, without those of mcpb.

    Args:
        directory: the only one to look into; None: all that have the product's form.
    """
    directories = [directory] if directory else sorted(Path(ABOVE).glob(DIRECTORIES))
    found = [channel for each in directories for channel in _find_in_directory(each)]
    if directory is None:
        found += [check_socket(path) for path in sorted(Path(ABOVE).glob(OLD_SOCKETS))]
    return [channel for channel in found if not is_ours(channel.path)]


def describe_directory(directory: Path) -> str:
    """Return the only scanned directory, for a message about missing sockets."""
    gone = "" if directory.is_dir() else "; there is no such folder"
    return f"in {directory} (existing_channel.directory of the configuration{gone})"


def check_socket(path: Path) -> FoundChannel:
    """Check the socket at a path."""
    pid = int(path.stem) if path.stem.isascii() and path.stem.isdigit() else None
    if fault := _find_directory_fault(path.parent):
        return FoundChannel(path, pid, f"its directory {fault.text}", fault.is_open)
    if reason := _find_socket_fault(path, pid):
        return FoundChannel(path, pid, reason)
    return FoundChannel(path, pid)


def describe_ended_host(path: Path, pid: int | None) -> str:
    """Return what happened to the host of a socket that no longer serves."""
    named = f"{BRAND}'s native host" + (f" (pid {pid})" if pid else "")
    if pid is None or not proc.is_running(pid):
        return f"{named} has ended: its browser was closed, or its extension connects anew"
    if path.exists():
        return f"{named} has closed this connection; it is connected to again"
    return describe_stopped_host(pid)


def describe_stopped_host(pid: int) -> str:
    """Return the text about a host that has closed its socket and still runs."""
    return (
        f"{BRAND}'s native host (pid {pid}) still runs, but has closed its socket and serves no client any "
        f"more, as it does after a message over 1 MiB. {OPEN_RECONNECT}"
    )


def _find_in_directory(directory: Path) -> list[FoundChannel]:
    if _is_of_another_user(directory):
        return []
    try:
        return [check_socket(path) for path in sorted(directory.iterdir()) if path.suffix == ".sock"]
    except OSError:
        return []


def _is_of_another_user(directory: Path) -> bool:
    """Return whether another user owns the directory."""
    try:
        return directory.lstat().st_uid != os.getuid()
    except OSError:
        return True


@dataclass(frozen=True)
class _Fault:
    """Reason not to use a path."""

    text: str
    is_open: bool = False
    """True if only its mode is wrong."""


def _find_directory_fault(directory: Path) -> _Fault | None:
    if directory == Path(ABOVE):
        return None  # Every user may write there; the old form has its socket there.
    return _find_fault(directory, stat.S_ISDIR, "directory")


def _find_socket_fault(path: Path, pid: int | None) -> str:
    if fault := _find_fault(path, stat.S_ISSOCK, "socket"):
        return f"it {fault.text}"
    if is_ours(path):
        return "mcpb has put it there itself"
    if pid is not None and not proc.is_running(pid):
        return (
            f"its host (pid {pid}) has ended without removing it. {OPEN_RECONNECT}: its next host removes it"
        )
    return ""


def _find_fault(path: Path, is_kind: Callable[[int], bool], kind: str) -> _Fault | None:
    try:
        found = path.lstat()
    except OSError as error:
        return _Fault(f"cannot be looked at: {error.strerror}")
    if stat.S_ISLNK(found.st_mode):
        return _Fault("is a link")
    if not is_kind(found.st_mode):
        return _Fault(f"is not a {kind}")
    if found.st_uid != os.getuid():
        return _Fault(f"belongs to user {found.st_uid}")
    if found.st_mode & 0o077:
        return _Fault("is open to other users", is_open=True)
    return None


QUIET_S = 150.0
"""Seconds after the end of another client in which a response to its last call may still come."""


class SocketUsers:
    """Other users of a socket, as of the last scan."""

    def __init__(self, path: Path, now: Callable[[], float]) -> None:
        """`now` is in seconds."""
        self._path = path
        self._now = now
        self._seen_at = -QUIET_S

    def look(self) -> OtherClients:
        """Scan now. A system that does not report connections has no other clients."""
        # No response: their host is gone, and the remaining messages were for mcpb.
        if (count_unix_connections(self._path) or 0) > 1:
            self._seen_at = self._now()
            return OtherClients.NOW
        return OtherClients.LATELY if self._now() - self._seen_at < QUIET_S else OtherClients.NONE
