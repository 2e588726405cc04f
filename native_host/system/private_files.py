"""Private files: directories and regular files that belong to this user.

No function follows a link in the last step of a path, or waits for the other end of a FIFO. What the files
are for, and where they lie: `home_layout.py`. Files of other programs: `untrusted_files.py`.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shlex
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, Self

import msgspec

from native_host.system.problem import Problem

MAX_BYTES = 1024 * 1024
"""Limit of a file that `read` accepts."""

_LOCK_POLL_S = 0.05
_FLAGS = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK


class UnusableFileError(Exception):
    """A file or directory cannot be used. Catch a subclass, which says what the file is for."""

    separator = ": "
    """Text between path and reason: a space if the path is the subject of the reason."""

    def __init__(self, path: Path | None, reason: str, command: str = "") -> None:
        """Name the path, why it cannot be used, and the command that remedies it."""
        super().__init__(path, reason, command)
        self.path = path
        """None: the reason names what cannot be used."""
        self.reason = reason
        self.command = command
        """Empty: no single command remedies it."""

    def __str__(self) -> str:
        """Return all of it as one line."""
        text = f"{self.path}{self.separator}{self.reason}" if self.path else self.reason
        return f"{text}. Run: {self.command}" if self.command else text

    @property
    def problem(self) -> Problem:
        """Return the text with its command."""
        return Problem(str(self), self.command)

    @classmethod
    def wrap(cls, error: UnusableFileError) -> Self:
        """Return an error of this class with the attributes and the text of another one."""
        wrapped = cls(error.path, error.reason, error.command)
        wrapped.separator = error.separator
        return wrapped


class PrivateFileError(UnusableFileError):
    """A file or directory cannot be used, or cannot be trusted."""

    separator = " "


# ── Directories ─────────────────────────────────────────────────────────────────────────────────────────────


def prepare_directory(directory: Path) -> None:
    """Create a directory with mode 0700 if it is missing, and check it.

    Raises:
        PrivateFileError: it cannot be created, or is not private.
    """
    try:
        directory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        directory.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise PrivateFileError(directory, f"cannot be created: {error.strerror}") from error
    check_directory(directory)


def check_directory(directory: Path) -> None:
    """Check that a directory is private.

    Raises:
        PrivateFileError: it is missing, a link or another kind of file, or other users have access.
    """
    try:
        found = directory.lstat()
    except OSError as error:
        raise PrivateFileError(directory, f"cannot be used: {error.strerror}") from error
    if not stat.S_ISDIR(found.st_mode):
        kind = "a link" if stat.S_ISLNK(found.st_mode) else "not a directory"
        raise PrivateFileError(directory, f"is {kind}: remove it")
    if found.st_uid != os.getuid():
        raise PrivateFileError(directory, "belongs to another user: remove it, or use another directory")
    if found.st_mode & 0o077:
        command = f"chmod 700 {shlex.quote(str(directory))}"
        raise PrivateFileError(directory, "is open to other users", command)


def is_private(directory: Path) -> bool:
    """Return whether a directory exists, belongs to this user and is closed to other users."""
    with suppress(PrivateFileError):
        check_directory(directory)
        return True
    return False


def open_directory(path: Path) -> int:
    """Open a directory.

    Raises:
        OSError: the system refuses, or another kind of file is there.
    """
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


@contextmanager
def lock_directory(directory: Path, timeout_s: float | None = None) -> Iterator[int]:
    """Let one process at a time change the files of a directory; wait for the others.

    Yields the descriptor that holds the lock: a child process that inherits it holds the lock as well.

    Raises:
        TimeoutError: another process held the lock for `timeout_s` seconds.
    """
    descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if timeout_s is None:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        else:
            _wait_lock(descriptor, time.monotonic() + timeout_s)
        yield descriptor
    finally:
        os.close(descriptor)


def _wait_lock(descriptor: int, deadline: float) -> None:
    """Poll, because the system has no lock with a timeout. Raises TimeoutError."""
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise TimeoutError from None
            time.sleep(_LOCK_POLL_S)
        else:
            return


# ── Files ───────────────────────────────────────────────────────────────────────────────────────────────────


def open_regular(
    path: str | os.PathLike[str], flags: int, mode: int = 0o600, *, directory: int | None = None
) -> int:
    """Open a regular file, and create it with `mode` where `flags` have O_CREAT; usable as `opener`.

    A FIFO would block until another process opens its other end, and a device may do anything.

    Args:
        path: an absolute path, or one that is relative to `directory`.
        flags: as `os.open` takes them.
        mode: permissions of a new file, before the umask.
        directory: descriptor of an open directory.

    Raises:
        OSError: the system refuses, or another kind of file is there.
    """
    descriptor = os.open(path, flags | _FLAGS, mode, dir_fd=directory)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a regular file", os.fspath(path))
    return descriptor


def open_own(path: Path, flags: int) -> int | None:
    """Open a regular file that belongs to this user; None if it does not exist."""
    try:
        descriptor = open_regular(path, flags)
    except OSError:
        return None
    if os.fstat(descriptor).st_uid == os.getuid():
        return descriptor
    os.close(descriptor)
    return None


def replace(path: Path, content: bytes, *, is_durable: bool = True) -> None:
    """Replace a file atomically, readable by this user alone. Callers exclude other writers.

    Args:
        path: the file, which need not exist.
        content: all of it.
        is_durable: whether it has to survive a power failure.

    Raises:
        PrivateFileError: it cannot be written; the earlier file stays.
    """
    write_draft(path, content, is_durable=is_durable)
    publish_draft(path)


def write_draft(path: Path, content: bytes, *, is_durable: bool = True) -> None:
    """Write the draft of a file, which `publish_draft` puts in its place; arguments as for `replace`.

    Raises:
        PrivateFileError: it cannot be written; no draft stays.
    """
    draft = draft_of(path)
    try:
        draft.unlink(missing_ok=True)  # a process that was killed may have left one
        with open(draft, "xb", opener=open_regular) as file:
            file.write(content)
            file.flush()
            if is_durable:
                os.fsync(file.fileno())
    except OSError as error:
        with suppress(OSError):
            draft.unlink()
        raise PrivateFileError(path, f"cannot be written: {error.strerror}") from error


def publish_draft(path: Path) -> None:
    """Replace a file by its draft.

    Raises:
        PrivateFileError: it cannot be replaced; no draft stays.
    """
    draft = draft_of(path)
    try:
        draft.rename(path)
    except OSError as error:
        with suppress(OSError):
            draft.unlink()
        raise PrivateFileError(path, f"cannot be written: {error.strerror}") from error


def draft_of(path: Path) -> Path:
    """Return the name of a file's draft."""
    return path.with_name(f"{path.name}.new")


def read_secret(path: Path, max_bytes: int) -> bytes:
    """Read at most `max_bytes` of a file that other users cannot read.

    Raises:
        PrivateFileError: they can, or the file cannot be read.
    """
    try:
        with open(path, "rb", opener=open_regular) as file:
            found = os.fstat(file.fileno())
            is_own = found.st_uid == os.getuid()
            if is_own and not found.st_mode & 0o077:
                return file.read(max_bytes)
    except OSError as error:
        raise PrivateFileError(path, f"cannot be read: {error.strerror}") from error
    command = f"chmod 600 {shlex.quote(str(path))}" if is_own else ""
    raise PrivateFileError(path, "is not a file that only you can read", command)


# ── Files that a process holds while it lives ───────────────────────────────────────────────────────────────


class HeldFile(NamedTuple):
    """A file that `hold_file` of some process has written."""

    content: bytes
    is_held: bool
    """Its process lives. The lock decides, never the process id."""


@contextmanager
def hold_file(path: Path, content: bytes) -> Iterator[int]:
    """Keep a locked file while the block runs, and yield its descriptor. It appears locked and complete.

    Raises:
        PrivateFileError: it cannot be written.
    """
    draft = path.with_name(f".{path.stem}")
    try:
        descriptor = open_regular(draft, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    except OSError as error:
        raise PrivateFileError(path, f"cannot be written: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        rewrite(path, descriptor, content)
        _rename_draft(draft, path)
        yield descriptor
    finally:
        draft.unlink(missing_ok=True)
        path.unlink(missing_ok=True)
        os.close(descriptor)


def _rename_draft(draft: Path, path: Path) -> None:
    try:
        draft.rename(path)
    except OSError as error:
        raise PrivateFileError(path, f"cannot be written: {error.strerror}") from error


def rewrite(path: Path, descriptor: int, content: bytes) -> None:
    """Write a held file again, in place.

    Raises:
        PrivateFileError: the system refuses.
    """
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, content, 0)
    except OSError as error:
        raise PrivateFileError(path, f"cannot be written: {error.strerror}") from error


def read_held(path: Path, max_bytes: int) -> HeldFile | None:
    """Read a file that a process holds, or held; None if the user has none."""
    descriptor = open_own(path, os.O_RDONLY)
    if descriptor is None:
        return None
    try:
        return HeldFile(os.read(descriptor, max_bytes), is_locked(descriptor))
    finally:
        os.close(descriptor)


def is_locked(descriptor: int) -> bool:
    """Return whether another process holds the lock of an open file."""
    try:
        # A shared lock: two processes that ask at the same moment do not see each other.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


# ── Files in which the user says what is allowed ────────────────────────────────────────────────────────────


class TrustedFile(msgspec.Struct, frozen=True):
    """Content of a file that other users could not have written."""

    content: bytes
    is_open: bool


def read(path: Path) -> TrustedFile | None:
    """Read a file if only this user could have written or removed it; None if it is missing.

    Unlike the other functions this follows links: users keep such files where they like.

    Raises:
        PrivateFileError: it cannot be read, or is not to be trusted.
    """
    try:
        _check_writers(path.parent, path.name)
        return _read(path)
    except FileNotFoundError:
        if path.is_symlink():
            raise PrivateFileError(path, "is a link that leads nowhere: remove or correct it") from None
        return None
    except OSError as error:
        raise PrivateFileError(path, f"cannot be read: {error.strerror}") from error


def _check_writers(directory: Path, name: str) -> None:
    """Check who could remove the file: without it everything may be allowed."""
    status = directory.stat()
    if status.st_uid != os.getuid():
        reason = f"belongs to another user, who could remove your {name}: use your own"
        raise PrivateFileError(directory, reason)
    if status.st_mode & 0o022:
        command = f"chmod go-w {shlex.quote(str(directory))}"
        raise PrivateFileError(directory, f"can be written by others, who could remove your {name}", command)


def _read(path: Path) -> TrustedFile:
    with open(path, "rb", opener=_open_at_once) as file:
        # Links lead elsewhere: the directory of the file that was opened counts too.
        _check_writers(path.resolve().parent, path.name)
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise PrivateFileError(path, "is not a file")
        if status.st_uid != os.getuid():
            reason = "belongs to another user, who could allow what you have denied: replace it"
            raise PrivateFileError(path, reason)
        if status.st_mode & 0o022:
            command = f"chmod go-w {shlex.quote(str(path))}"
            raise PrivateFileError(path, "can be written by others: check its content first", command)
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise PrivateFileError(path, f"is longer than {MAX_BYTES} bytes")
    return TrustedFile(content, bool(status.st_mode & 0o044))


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)  # a FIFO would block until another process opens it
