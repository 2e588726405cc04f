"""Exhausted resources of the system: no space on the disk, no free file descriptor.

They are no fault of the program: users get one line, and no log gets a traceback of them.
"""

from __future__ import annotations

import errno
import logging
import resource

_ERRNOS = (errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def find_exhaustion(error: BaseException | None) -> OSError | None:
    """Return the error of an exhausted resource that is, or has caused, this one; None: another cause."""
    match error:
        case OSError() if error.errno in _ERRNOS:
            return error
        case BaseExceptionGroup():
            return next(filter(None, map(find_exhaustion, error.exceptions)), None)
        case None:
            return None
    return find_exhaustion(error.__cause__)


def describe_exhaustion(error: OSError) -> str:
    """Return the cause and the remedy in one line."""
    if error.errno == errno.EMFILE:
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        return f"{error.strerror} (the limit is {limit}). To raise the limit, run: ulimit -n 1024"
    if error.errno == errno.ENFILE:
        return f"{error.strerror}. End other programs, then try again"
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{error.strerror}. Free some space, then try again"


class LogFormatter(logging.Formatter):
    """Format of a log line, with a traceback unless a resource was exhausted."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the text of a record."""
        exhausted = find_exhaustion(record.exc_info[1]) if record.exc_info else None
        if exhausted is None:
            return super().format(record)
        record = logging.makeLogRecord({**record.__dict__, "exc_info": None, "exc_text": None})
        return f"{super().format(record)}: {describe_exhaustion(exhausted)}"
