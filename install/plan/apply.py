"""Application of a plan to the disk. No other module of this package writes.

Files appear whole or not at all, links in the last two parts of a path are not followed, and files that have
changed since the plan was made are not touched.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from install.extension_copies import remove_copy
from install.plan.ownership import FileState
from install.plan.steps import (
    Discard,
    EndSession,
    MakeDirectory,
    Move,
    Plan,
    Remove,
    RemoveCopy,
    RemoveEmptyDirectory,
    Step,
    Write,
)
from native_host.ipc import named_sessions
from native_host.system.private_files import open_directory, open_regular
from native_host.system.program_name import format_command

LARGEST_FILE_BYTES = 256 * 1024
"""Bytes of the largest file that can be mcpb's; longer files are not read completely."""

_NOT_TO_BE_REMOVED = {errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT, errno.ENOTDIR, errno.EBUSY}
"""Errors of a directory that is not empty, is gone, has become a link, or is a mount point."""


class ApplyError(Exception):
    """A step could not be done; those before it were. The text names it and says what to do."""


def read_place(path: Path) -> FileState:
    """Read a place without following links; of a long file only the first bytes."""
    try:
        found = path.lstat()
    except PermissionError:
        return FileState(is_hidden=True)
    except (OSError, ValueError):  # ValueError: no path at all, as a file of others may name one
        return FileState()
    content = None
    if stat.S_ISREG(found.st_mode):
        with suppress(OSError):  # another user's, most likely
            content = _read_content(path)
    return FileState(
        mode=found.st_mode,
        is_users=found.st_uid == os.getuid(),
        is_roots=found.st_uid == 0,
        content=content,
        mtime_ns=found.st_mtime_ns,
        is_writable=os.access(path, os.W_OK | os.X_OK),
    )


def apply_plan(plan: Plan) -> None:
    """Do the steps of a plan, in order.

    Raises:
        ApplyError: a step failed, the disk is not as it was when the plan was made, or another command is
            changing this installation.
    """
    if plan.refusals:
        raise ApplyError(plan.refusals[0])
    with ExitStack() as held:
        umask = os.umask(0)  # modes are as the plan says
        held.callback(os.umask, umask)
        is_alone = False
        for step in plan.steps:
            is_alone = is_alone or _hold_lock(plan.home, held)
            try:
                _apply_step(step)
            except OSError as error:
                raise ApplyError(_describe_failure(step, error)) from error
            except named_sessions.SessionError as error:
                raise ApplyError(str(error)) from error


def _hold_lock(home: Path, held: ExitStack) -> bool:
    """Keep other commands from this installation; False where its folder is still to be made."""
    try:
        descriptor = os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return False
    held.callback(os.close, descriptor)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ApplyError(
            "another mcpb command is changing this installation: run the command again"
        ) from None
    except OSError:
        pass  # a network's file system without locks
    return True


def _describe_failure(step: Step, error: OSError) -> str:
    if error.errno == errno.EXDEV and isinstance(step, Move):
        return (
            f"{step.path} cannot be moved to another disk. Move it away yourself, then run the command again"
        )
    return (
        f"{step.path}: {error.strerror}. The steps before it were done: remove the cause, then run the "
        f"command again to do the rest, or {format_command('uninstall-native-host')} to undo them"
    )


def _apply_step(step: Step) -> None:
    match step:
        case MakeDirectory(path, mode):
            path.mkdir(mode=mode, exist_ok=True)
        case Write():
            _replace_file(step)
        case Move(path, to):
            with _open_directory(path.parent) as source, _open_directory(to.parent) as target:
                _check_unchanged(target, to, None)
                os.rename(path.name, to.name, src_dir_fd=source, dst_dir_fd=target)
        case Remove():
            with _open_directory(step.path.parent) as directory:
                _check_unchanged(directory, step.path, step.before)
                os.unlink(step.path.name, dir_fd=directory)
        case Discard(path):
            _discard_path(path)
        case RemoveEmptyDirectory(path):
            _remove_if_empty(path)
        case RemoveCopy(path, files):
            if not remove_copy(path, files):
                raise ApplyError(f"{path} has changed since the plan was made: run the command again")
        case EndSession(path):
            named_sessions.end_session(path)


def _remove_if_empty(path: Path) -> None:
    try:
        path.rmdir()
    except OSError as error:
        if error.errno not in _NOT_TO_BE_REMOVED:
            raise


def _discard_path(path: Path) -> None:
    if not path.is_dir() or path.is_symlink():
        path.unlink(missing_ok=True)
        return
    # Half removed, a folder might not be known any more: first it gets a name that is known by itself.
    aside = path if path.name.startswith(".") else path.with_name(f".{path.name}-removed")
    path.rename(aside)
    shutil.rmtree(aside)


def _replace_file(step: Write) -> None:
    draft = step.draft.name
    with _open_directory(step.path.parent) as directory:
        _check_unchanged(directory, step.path, step.before)
        try:
            _write_new(directory, draft, step)
            os.rename(draft, step.path.name, src_dir_fd=directory, dst_dir_fd=directory)
            os.fsync(directory)
        except OSError:
            with suppress(FileNotFoundError):
                os.unlink(draft, dir_fd=directory)
            raise


def _write_new(directory: int, name: str, step: Write) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    with os.fdopen(open_regular(name, flags, step.mode, directory=directory), "wb") as file:
        file.write(step.content)
        file.flush()
        if step.mtime_ns is not None:
            os.utime(file.fileno(), ns=(step.mtime_ns, step.mtime_ns))
        os.fsync(file.fileno())


@contextmanager
def _open_directory(path: Path) -> Iterator[int]:
    """Open a directory of mcpb's, so that no process can replace it meanwhile."""
    directory = open_directory(path)
    try:
        if os.fstat(directory).st_uid != os.getuid():
            raise ApplyError(f"{path} belongs to another user")
        yield directory
    finally:
        os.close(directory)


def _check_unchanged(directory: int, path: Path, before: bytes | None) -> None:
    if _read_content(path.name, directory) != before:
        raise ApplyError(f"{path} has changed since the plan was made: run the command again")


def _read_content(name: Path | str, directory: int | None = None) -> bytes | None:
    """Return the first bytes of a file, or None."""
    try:
        descriptor = open_regular(name, os.O_RDONLY, directory=directory)
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        return file.read(LARGEST_FILE_BYTES)
