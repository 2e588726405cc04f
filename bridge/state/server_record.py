"""What a running `mcpb serve` says of itself to our other commands: `serve.json` in the state directory.

The server holds a lock on its file as long as it lives: liveness is the lock, never the pid. Of several
servers the one that was started last is found.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from native_host.ipc import endpoint
from native_host.system.private_files import open_regular

FILES = "serve-*.json"
_MAX_BYTES = 4096


class ServeRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A server that runs."""

    pid: int
    url: str
    """Of the status page; every other route is below it."""
    started_at: float
    """Seconds since the epoch."""
    auth: str = "same-user"
    """Its `http.auth`; servers of older versions do not write it."""


@contextmanager
def published(state: Path, record: ServeRecord) -> Iterator[None]:
    """Let the server be found as long as the block runs.

    Raises:
        endpoint.EndpointError: the directory cannot be made, or is not private.
        OSError: the file cannot be written.
    """
    endpoint.prepare(state)
    running(state)  # which removes what killed servers have left
    path, draft = state / f"serve-{record.pid}.json", state / f".serve-{record.pid}"
    lock = open_regular(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        os.write(lock, msgspec.json.encode(record))
        draft.rename(path)
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(lock)


def running(state: Path) -> ServeRecord | None:
    """The server that was started last, of those that live."""
    return next(iter(all_running(state)), None)


def all_running(state: Path) -> list[ServeRecord]:
    """All servers that live, the latest first."""
    found = [record for path in state.glob(FILES) if (record := _record(path))]
    return sorted(found, key=lambda record: record.started_at, reverse=True)


def _record(path: Path) -> ServeRecord | None:
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return _read(path, file)
    finally:
        os.close(file)


def _read(path: Path, file: int) -> ServeRecord | None:
    status = os.fstat(file)
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.getuid():
        return None
    try:
        # Shared, so that two that look at the same moment do not take each other for the server.
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        pass  # its server lives
    else:
        path.unlink(missing_ok=True)
        return None
    try:
        return msgspec.json.decode(os.read(file, _MAX_BYTES), type=ServeRecord)
    except msgspec.DecodeError:
        return None
