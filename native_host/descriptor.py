"""A pipe or socket of ours, as its reader and its writer want it."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress

_PIPE_BYTES = 1024 * 1024
"""As much as Linux grants to everybody. By itself a pipe has 64 KiB: many turns for a large frame."""


def make_ready(fd: int) -> None:
    """Never wait in a system call, and where it is a pipe have room for large frames in it."""
    os.set_blocking(fd, False)
    set_size = getattr(fcntl, "F_SETPIPE_SZ", None)
    if set_size is not None:
        with suppress(OSError):  # no pipe, or its user has too many large ones
            fcntl.fcntl(fd, set_size, _PIPE_BYTES)
