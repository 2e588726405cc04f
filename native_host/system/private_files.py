"""Private regular files, opened without following a link and without waiting; a lock for their directory.

It does not check who may read the directory: `native_host.ipc.endpoint.prepare` does.

Files in which the person says what may be done. One that others could have written, or taken away, is not
read.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shlex
import stat
import tomllib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

_FLAGS = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK


def open_regular(path: str | os.PathLike[str], flags: int) -> int:
    """Open a regular file, and create it for this user alone where `flags` have O_CREAT; usable as `opener`.

    A FIFO would block until another process opens its other end, and a device may do anything.

    Raises:
        OSError: the system refuses, or another kind of file is there.
    """
    descriptor = os.open(path, flags | _FLAGS, 0o600)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a regular file", os.fspath(path))
    return descriptor


def create_private(path: str, _flags: int) -> int:
    """Create or empty a file for this user alone; usable as `opener`.

    Raises:
        OSError: the system refuses, or a link is there.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    os.fchmod(descriptor, 0o600)
    return descriptor


@contextmanager
def lock_directory(directory: Path) -> Iterator[None]:
    """Let one process at a time change the files of a directory; wait for the others."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


MAX_BYTES = 1024 * 1024
_STATEMENT = re.compile(rb"[ \t]*(?:(?P<head>\[\[?)[ \t]*(?P<table>[\w.-]+)[ \t]*\]|(?P<key>[\w.-]+)[ \t]*=)")
"""How a table or a key begins in TOML, as most people write it."""


class OwnFileError(Exception):
    """A file cannot be relied on, or read; the text has its path, what is wrong, what to do."""


class OwnFile(NamedTuple):
    """What is in one."""

    content: bytes
    is_open: bool
    """Others can read it."""


def read(path: Path) -> OwnFile | None:
    """The file; None where there is none.

    Raises:
        OwnFileError: it cannot be read, or others could have written it.
    """
    try:
        _check_directory(path.parent, path.name)
        return _read(path)
    except FileNotFoundError:
        if path.is_symlink():
            raise OwnFileError(f"{path} is a link that leads nowhere: remove it, or mend it") from None
        return None
    except OSError as error:
        raise OwnFileError(f"{path} cannot be read: {error.strerror}") from error


def toml(path: Path, content: bytes) -> dict[str, Any]:
    """What a file says in TOML.

    Raises:
        OwnFileError: it is none; the text has the line where the parser knows it.
    """
    try:
        return tomllib.loads(content.decode())
    except tomllib.TOMLDecodeError as error:
        # The parser names no line where the document ends too early.
        lines = content.count(b"\n", 0, len(content.rstrip())) + 1
        raise OwnFileError(f"{path} is not valid TOML: {error}, of {lines} lines") from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise OwnFileError(f"{path} is not valid TOML: line {line} is not UTF-8") from error
    except RecursionError:
        raise OwnFileError(f"{path} is not valid TOML: it is nested too deeply") from None


def line_of(content: bytes, key: str) -> int | None:
    """Return the line of a key such as `policy.tools[1].allow` in valid TOML, or of the array that has it.

    None: it is spelled otherwise (quoted, for instance), or a string of several lines could be taken for it.
    """
    if b'"""' in content or b"'''" in content:
        return None
    table, heads = "", Counter[str]()
    for number, line in enumerate(content.split(b"\n"), 1):
        if not (found := _STATEMENT.match(line)):
            continue
        if found["table"]:
            table = found["table"].decode()
            if found["head"] == b"[[":
                heads[table] += 1
                table = f"{table}[{heads[table] - 1}]"
            if key == table:
                return number
        else:
            here = f"{table}.{found['key'].decode()}".lstrip(".")
            if key == here or key.startswith((f"{here}[", f"{here}.")):
                return number
    return None


def _check_directory(directory: Path, name: str) -> None:
    """Who may write to it can take the file away, and without one everything is allowed."""
    status = directory.stat()
    if status.st_uid != os.getuid():
        raise OwnFileError(f"{directory} belongs to another user, who could remove your {name}: use your own")
    if status.st_mode & 0o022:
        mend = f"chmod go-w {shlex.quote(str(directory))}"
        raise OwnFileError(f"{directory} can be written by others, who could remove your {name}: {mend}")


def _read(path: Path) -> OwnFile:
    with open(path, "rb", opener=_without_waiting) as file:
        # What is checked is what is read, wherever links lead.
        _check_directory(path.resolve().parent, path.name)
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OwnFileError(f"{path} is not a file")
        if status.st_uid != os.getuid():
            raise OwnFileError(
                f"{path} belongs to another user, who could allow what you have denied: replace it"
            )
        if status.st_mode & 0o022:
            mend = f"chmod go-w {shlex.quote(str(path))}"
            raise OwnFileError(f"{path} can be written by others. Look at what it says, then: {mend}")
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise OwnFileError(f"{path} is longer than {MAX_BYTES} bytes")
    return OwnFile(content, bool(status.st_mode & 0o044))


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)  # a pipe would wait for its writer
