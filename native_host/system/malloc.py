"""Returns freed memory to the kernel (glibc) when no large messages come, and keeps it until then.

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


def disable_malloc_trim(kept_bytes: int = _KEPT_BYTES) -> None:
    """Keep freed memory in the process. The caller calls `trim_malloc` from time to time.

    glibc rejects more than 32 MiB.
    """
    if _is_glibc:
        _libc.mallopt(_M_TRIM_THRESHOLD, kept_bytes)
        _libc.mallopt(_M_MMAP_THRESHOLD, kept_bytes)


def trim_malloc() -> None:
    """Return all free memory to the kernel; takes some microseconds without any."""
    if _is_glibc:
        _libc.malloc_trim(0)
