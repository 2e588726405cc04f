"""Exhausted resources of the system: no space on the disk, no free file descriptor.

Each is reported in one line with its remedy. A traceback would name only the statement that met the limit.
"""

from __future__ import annotations

import errno
import logging
import resource

_ERRNOS = (errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_USUAL_DESCRIPTORS = 1024


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
    where = f"{error.filename}: " if error.filename else ""
    match error.errno:
        case errno.EMFILE:
            return f"{error.strerror} {_describe_descriptor_limit()}"
        case errno.ENFILE:
            return f"{error.strerror}. End other programs, then try again"
        case errno.EFBIG:
            return f"{where}{error.strerror}. To remove the limit of file sizes, run: ulimit -f unlimited"
    return f"{where}{error.strerror}. Free some space, then try again"


def _describe_descriptor_limit() -> str:
    limit, highest = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = max(_USUAL_DESCRIPTORS, 2 * limit)
    raised = wanted if highest == resource.RLIM_INFINITY else min(wanted, highest)
    if raised > limit:
        return f"(the limit is {limit}). To raise the limit, run: ulimit -n {raised}"
    return f"(the limit is {limit}, the highest one for this user). End some MCP clients, then try again"


class LogFormatter(logging.Formatter):
    """Format of a log line, with a traceback unless a resource was exhausted."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the text of a record."""
        exhausted = find_exhaustion(record.exc_info[1]) if record.exc_info else None
        if exhausted is None:
            return super().format(record)
        record = logging.makeLogRecord({**record.__dict__, "exc_info": None, "exc_text": None})
        return f"{super().format(record)}: {describe_exhaustion(exhausted)}"
