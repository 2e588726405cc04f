"""Looking at the disk, and carrying a plan out: the one file of this package that writes.

Files appear whole or not at all, no link is followed in the last two steps of a path, and what has changed
since the plan was made is not touched.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from install.ownership import Found
from install.plan import MakeDirectory, Plan, Remove, RemoveEmptyDirectory, Step, Write

DIRECTORY_MODE = 0o700
LARGEST_FILE_BYTES = 64 * 1024
"""Of what may be ours; longer files are not read whole."""


class ApplyError(Exception):
    """A step could not be done; those before it were. The text names it and says what to do."""


def look(path: Path) -> Found:
    """What is in a place, links not followed; only the first bytes of a file that is too long to be ours."""
    try:
        found = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return Found()
    content = None
    if stat.S_ISREG(found.st_mode):
        with suppress(OSError):  # another user's, most likely
            content = _content(path)
    return Found(mode=found.st_mode, is_users=found.st_uid == os.getuid(), content=content)


def apply(plan: Plan) -> None:
    """Do the steps of a plan, in order.

    Raises:
        ApplyError: a step failed, or the disk is not as it was when the plan was made.
    """
    if plan.refusals:
        raise ApplyError(plan.refusals[0])
    for step in plan.steps:
        try:
            _do(step)
        except OSError as error:
            raise ApplyError(f"{step.path}: {error.strerror}. The steps before it were done") from error


def _do(step: Step) -> None:
    match step:
        case MakeDirectory(path):
            path.mkdir(mode=DIRECTORY_MODE, exist_ok=True)
        case Write():
            _replace(step)
        case Remove():
            with _directory(step.path.parent) as directory:
                _check_unchanged(directory, step.path, step.before)
                os.unlink(step.path.name, dir_fd=directory)
        case RemoveEmptyDirectory(path):
            with suppress(OSError):  # something else is in it, or it is gone
                path.rmdir()


def _replace(step: Write) -> None:
    draft = f".{step.path.name}.{secrets.token_hex(4)}"
    with _directory(step.path.parent) as directory:
        _check_unchanged(directory, step.path, step.before)
        try:
            _write_new(directory, draft, step.content, step.mode)
            os.rename(draft, step.path.name, src_dir_fd=directory, dst_dir_fd=directory)
            os.fsync(directory)
        except OSError:
            with suppress(FileNotFoundError):
                os.unlink(draft, dir_fd=directory)
            raise


def _write_new(directory: int, name: str, content: bytes, mode: int) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(name, flags, mode, dir_fd=directory), "wb") as file:
        os.fchmod(file.fileno(), mode)  # whatever the umask
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def _directory(path: Path) -> Iterator[int]:
    """A directory of ours, held open so that nobody can put another in its place."""
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if os.fstat(directory).st_uid != os.getuid():
            raise ApplyError(f"{path} belongs to another user")
        yield directory
    finally:
        os.close(directory)


def _check_unchanged(directory: int, path: Path, before: bytes | None) -> None:
    if _content(path.name, directory) != before:
        raise ApplyError(f"{path} has changed since the plan was made: run the command again")


def _content(name: Path | str, directory: int | None = None) -> bytes | None:
    """The first bytes of a file; None when there is none."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(name, flags, dir_fd=directory)
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        return file.read(LARGEST_FILE_BYTES)
