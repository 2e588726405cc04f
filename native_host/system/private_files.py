"""Private regular files, opened without following a link and without waiting; a lock for their directory.

It does not check who may read the directory: `native_host.ipc.endpoint.prepare` does.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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
