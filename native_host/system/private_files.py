"""Private regular files, opened without following a link and without waiting.

It does not check who may read the directory: `native_host.endpoint.prepare` does.
"""

from __future__ import annotations

import errno
import os
import stat

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
