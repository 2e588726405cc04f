"""Memory of large messages: kept while they come one after the other, given back when it is quiet.

The C library of most Linux systems (glibc) hands freed memory back to the kernel at once, and then each page
of the next message costs a fault: an answer of 5 MB took three times as long (measured). Elsewhere nothing is
done.
"""

from __future__ import annotations

import ctypes
import sys

_KEPT_BYTES = 16 * 1024 * 1024
"""Freed memory that is kept. What takes more in one piece is handed back at once all the same."""
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h

_libc = ctypes.CDLL(None)
_is_glibc = sys.platform == "linux" and hasattr(_libc, "malloc_trim")


def keep_freed() -> None:
    """From now on keep what is freed, until `give_back`, which is to be called now and then."""
    if _is_glibc:
        _libc.mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
        _libc.mallopt(_M_MMAP_THRESHOLD, _KEPT_BYTES)


def give_back() -> None:
    """Hand all that is free back to the kernel: some microseconds where that is nothing."""
    if _is_glibc:
        _libc.malloc_trim(0)
