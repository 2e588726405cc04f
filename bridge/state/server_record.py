"""Record of a running `mcpb serve` for the other commands: `serve.json`.

The server holds a lock on its file as long as it lives: liveness is the lock, never the pid. Of several
servers, the one that was started last is found.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import msgspec

from bridge.origins import OriginError, parse_address
from native_host.system.home_layout import StateLayout
from native_host.system.private_files import hold_file, prepare_directory, read_held

T = TypeVar("T")

_MAX_BYTES = 4096
_LOOPBACK = {"localhost", "127.0.0.1", "[::1]"}


class ServeRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A server that runs."""

    pid: int
    url: str
    """URL of the status page; every other route is below it."""
    started_at: float
    """Seconds since the epoch."""
    auth: str = "same-user"
    """Its `http.auth`; servers of older versions do not write it."""
    certificate: str = ""
    """Path of its certificate; empty: it does not speak TLS."""
    is_exposed: bool = False
    """True if other machines can reach it and the connection is not encrypted."""


@contextmanager
def publish_record(state: Path, record: ServeRecord) -> Iterator[None]:
    """Publish the record of the server for the time of the block.

    Raises:
        PrivateFileError: the directory is not private, or the file cannot be written.
    """
    prepare_directory(state)
    find_running(state)  # removes the records of servers that were killed
    with hold_file(StateLayout(state).server_records.path_of(record.pid), msgspec.json.encode(record)):
        yield


def find_running(state: Path) -> ServeRecord | None:
    """Return the record of the running server that was started last."""
    return next(iter(all_running(state)), None)


def all_running(state: Path) -> list[ServeRecord]:
    """All servers that live, the latest first."""
    found = [
        record
        for path in StateLayout(state).server_records.existing()
        if (record := read_record(path, _MAX_BYTES, ServeRecord))
    ]
    return sorted(found, key=lambda record: record.started_at, reverse=True)


def find_own_server(state: Path, url: str) -> ServeRecord | None:
    """Return the running server that a URL leads to; None if it leads elsewhere."""
    try:
        target = parse_address(url).origin
    except OriginError:
        return None
    for record in all_running(state):
        own = parse_address(record.url).origin
        is_same_host = own.host == target.host or target.host in _LOOPBACK
        if is_same_host and (own.scheme, own.port) == (target.scheme, target.port):
            return record
    return None


def read_record(path: Path, max_bytes: int, kind: type[T]) -> T | None:
    """Return the record of a process that lives; remove that of another one.

    Args:
        path: a file that its process holds (`hold_file`).
        max_bytes: of the file; a larger one is not read.
        kind: type of the record.
    """
    file = read_held(path, max_bytes)
    if file is None:
        return None
    if not file.is_held:
        path.unlink(missing_ok=True)
        return None
    try:
        return msgspec.json.decode(file.content, type=kind)
    except msgspec.DecodeError:  # it is being written; the next look reads it
        return None
