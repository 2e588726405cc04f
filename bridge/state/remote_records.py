"""Records of remote servers, by the bridges that are connected to them: `remote-<pid>.json`.

`mcpb status`, the status page and `mcpb doctor` read them, and never connect themselves: a check would start
programs, run `header_command`, and wait. A bridge holds a lock on its file as long as it lives. No record
holds a header, a token or the query of a URL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from bridge.state.server_record import read_record
from native_host.system.home_layout import StateLayout
from native_host.system.private_files import hold_file, prepare_directory, rewrite

_MAX_BYTES = 256 * 1024
"""32 servers with the longest texts take half of it."""


class OfferRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """Tools of a server that pages of an origin have."""

    origin: str
    pages: int = 0
    """Documents that have them through this bridge."""
    tools: int = 0
    problem: str = ""
    """Why a document does not have them."""


class RemoteRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A remote server as one bridge has it. All texts are one sanitized line without secrets."""

    name: str
    state: str
    """`connecting`, `ready`, `unreachable` or `failed`."""
    revision: str = ""
    transport: str = ""
    server: str = ""
    """Name and version that the server reports."""
    tools: int = 0
    resources: int = 0
    templates: int = 0
    prompts: int = 0
    left_out: int = 0
    """Entries that cannot be offered; `mcpb remote test` names them."""
    synced_at: float | None = None
    """Time of the last sync, in seconds since the epoch."""
    error: str = ""
    """The last error."""
    cause: str = ""
    offers: tuple[OfferRecord, ...] = ()


class BridgeRecord(msgspec.Struct, frozen=True):
    """Remote servers of one process."""

    pid: int
    servers: tuple[RemoteRecord, ...]


Publish = Callable[[Sequence[RemoteRecord]], None]


@contextmanager
def publish_remote(state: Path, pid: int) -> Iterator[Publish]:
    """Yield a function that publishes the servers of this process, until the block ends.

    Raises:
        PrivateFileError: the directory is not private, or the file cannot be written; the function raises it
            too.
    """
    prepare_directory(state)
    read_records(state)  # removes the records of processes that were killed
    path = StateLayout(state).remote_records.path_of(pid)
    with hold_file(path, _encode(pid, ())) as descriptor:

        def publish(servers: Sequence[RemoteRecord]) -> None:
            rewrite(path, descriptor, _encode(pid, servers))

        yield publish


def read_records(state: Path) -> list[BridgeRecord]:
    """Return the records of all bridges that live, by process id."""
    paths = StateLayout(state).remote_records.existing()
    found = [record for path in paths if (record := read_record(path, _MAX_BYTES, BridgeRecord))]
    return sorted(found, key=lambda record: record.pid)


def _encode(pid: int, servers: Sequence[RemoteRecord]) -> bytes:
    return msgspec.json.encode(BridgeRecord(pid, tuple(servers)))
