"""Published socket of mcpb in the directory of the existing channel: create, identify, remove.

`mcpb serve --publish-channel` has a socket in that product's directory, so that clients made for its hosts
find us. It is bound under a private name, marked and written down, and only then gets the name that clients
look for: at no moment could it be taken for the other product's, or one of theirs for it. The mark is the
fraction of the second in which the socket was last changed: it needs no file beside it in a directory that
is not ours, and tells those of other homes of mcpb as well.
"""

from __future__ import annotations

import fcntl
import os
import pwd
import shlex
import socket
import stat
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from native_host.existing_channel.channel_messages import ABOVE, BRAND, DIRECTORIES
from native_host.ipc import endpoint
from native_host.system import private_files
from native_host.system.home_layout import StateLayout
from native_host.system.private_files import PrivateFileError

MARK_NS = 109_099_112
"""`mcp` in ASCII."""

_SECOND_NS = 10**9
_MAX_BYTES = 8192


class _Record(msgspec.Struct, kw_only=True):
    """Record of a server's socket and directory."""

    path: str
    draft: str
    made_directory: bool
    pid: int = 0
    device: int = 0
    inode: int = 0
    changed_ns: int = 0
    """Change time of the socket; 0 until it is marked."""


@dataclass(frozen=True)
class Publication:
    """Listening socket in that directory."""

    path: Path
    listener: socket.socket


@dataclass(frozen=True)
class Leftover:
    """Files and directories that a killed server left."""

    files: list[Path]
    directories: list[Path]
    """Directories that it created; removed if they are empty."""


class PublishedSocket(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Socket that a server of this home has published."""

    path: str
    pid: int
    is_left: bool
    """Whether the server was killed; the next one removes the socket."""


def is_ours(path: Path) -> bool:
    """Return whether an mcpb of this user has published this socket."""
    try:
        found = path.lstat()
    except OSError:
        return False
    is_marked = found.st_mtime_ns % _SECOND_NS == MARK_NS
    return stat.S_ISSOCK(found.st_mode) and found.st_uid == os.getuid() and is_marked


def choose_directory(chosen: str = "") -> Path:
    """Return the directory that clients scan: `chosen`, the one of this user, or an existing one.

    Its hosts name the directory by a user name that a browser's environment may lack.
    """
    if chosen:
        return Path(chosen).expanduser().absolute()
    named = Path(ABOVE) / DIRECTORIES.replace("*", _user_name())
    if os.path.lexists(named):
        return named
    for found in sorted(Path(ABOVE).glob(DIRECTORIES)):
        if private_files.is_private(found):
            return found
    return named


@contextmanager
def publish_socket(state: Path, directory: Path) -> Iterator[Publication]:
    """Publish a socket in `directory` while the block runs.

    Raises:
        PrivateFileError: the directory is not private, or the system refuses.
    """
    path = directory / f"{os.getpid()}.sock"
    draft = directory / f".mcpb-{os.getpid()}"
    endpoint.check_length(path)
    if not directory.parent.is_dir():
        raise PrivateFileError(directory.parent, "is missing: only the last directory of the path is created")
    private_files.prepare_directory(state)
    is_new = not os.path.lexists(directory)
    record = _Record(path=str(path), draft=str(draft), made_directory=is_new, pid=os.getpid())
    with ExitStack() as stack:
        held = StateLayout(state).channel_records.path_of(os.getpid())
        file = stack.enter_context(private_files.hold_file(held, msgspec.json.encode(record)))
        stack.callback(lambda: _remove(_find_leftover(record)))
        _prepare(directory)
        stack.enter_context(_lock_directory(directory))
        if _is_own_socket(draft):  # a killed server's of another home, which had our pid
            draft.unlink()
        listener = stack.enter_context(closing(endpoint.bind(draft)))
        _mark_socket(draft, record)
        private_files.rewrite(held, file, msgspec.json.encode(record))
        _rename_into_place(draft, path)
        yield Publication(path, listener)


def read_published_sockets(state: Path) -> list[PublishedSocket]:
    """Return the published sockets of this home."""
    found = []
    for path in StateLayout(state).channel_records.existing():
        record, is_left = _read_record(path)
        if record and _is_recorded_socket(Path(record.path), record):
            found.append(PublishedSocket(path=record.path, pid=record.pid, is_left=is_left))
    return found


def sweep(state: Path) -> None:
    """Remove files that killed servers left."""
    _remove(find_leftovers(state))


def find_leftovers(state: Path) -> Leftover:
    """Return the files that `sweep` removes."""
    files: list[Path] = []
    directories: list[Path] = []
    for path in StateLayout(state).channel_records.existing():
        record, is_left = _read_record(path)
        if record and is_left:
            left = _find_leftover(record)
            files += [*left.files, path]
            directories += left.directories
    return Leftover(files, directories)


def _prepare(directory: Path) -> None:
    """Prepare the directory, but do not advise to remove one that has sockets of Claude in Chrome."""
    try:
        private_files.prepare_directory(directory)
    except PrivateFileError:
        if not _has_sockets(directory):
            raise
        reason = f"is open to other users, and {BRAND}'s sockets are in it too"
        command = f"chmod 700 {shlex.quote(str(directory))}"
        raise PrivateFileError(directory, reason, command) from None


def _has_sockets(directory: Path) -> bool:
    """Return whether the directory is this user's and contains sockets."""
    try:
        found = directory.lstat()
    except OSError:
        return False
    is_ours_to_close = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
    return is_ours_to_close and any(directory.glob("*.sock"))


def _user_name() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return "default"  # as that product says


@contextmanager
def _lock_directory(directory: Path) -> Iterator[None]:
    """Lock the directory: systemd-tmpfiles does not remove old files from a locked one."""
    lock = private_files.open_directory(directory)
    try:
        with suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        yield
    finally:
        os.close(lock)


# ── The socket ──────────────────────────────────────────────────────────────────────────────────────────────


def _mark_socket(draft: Path, record: _Record) -> None:
    found = draft.lstat()
    marked_ns = found.st_mtime_ns // _SECOND_NS * _SECOND_NS + MARK_NS
    os.utime(draft, ns=(marked_ns, marked_ns), follow_symlinks=False)
    found = draft.lstat()
    record.device, record.inode, record.changed_ns = found.st_dev, found.st_ino, found.st_mtime_ns


def _rename_into_place(draft: Path, path: Path) -> None:
    """Rename the socket to the name that clients look for, unless a file has it."""
    if os.path.lexists(path):
        raise PrivateFileError(path, "exists already, and is not ours to remove: restart mcpb serve")
    draft.rename(path)


def _find_leftover(record: _Record) -> Leftover:
    drafts = [path for path in [Path(record.draft)] if _is_own_socket(path)]
    sockets = [path for path in [Path(record.path)] if _is_recorded_socket(path, record)]
    return Leftover([*drafts, *sockets], [Path(record.path).parent] if record.made_directory else [])


def _is_own_socket(path: Path) -> bool:
    with suppress(OSError):
        found = path.lstat()
        return stat.S_ISSOCK(found.st_mode) and found.st_uid == os.getuid()
    return False


def _is_recorded_socket(path: Path, record: _Record) -> bool:
    with suppress(OSError):
        found = path.lstat()
        is_same = (found.st_dev, found.st_ino) == (record.device, record.inode)
        return is_same and found.st_mtime_ns == record.changed_ns and _is_own_socket(path)
    return False


def _remove(left: Leftover) -> None:
    for path in left.files:
        with suppress(OSError):
            path.unlink()
    for directory in left.directories:
        with suppress(OSError):  # others use it by now
            directory.rmdir()


# ── The record ──────────────────────────────────────────────────────────────────────────────────────────────


def _read_record(path: Path) -> tuple[_Record | None, bool]:
    """Return the record, None without one of mcpb, and whether its server is dead."""
    file = private_files.read_held(path, _MAX_BYTES)
    if file is None:
        return None, False
    try:
        return msgspec.json.decode(file.content, type=_Record), not file.is_held
    except msgspec.DecodeError:
        return None, False
