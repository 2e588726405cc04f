"""Tool cache in SQLite, `state/tools.sqlite`, shared by all bridges of a user and by commands.

Faults of the file break no bridge: they are logged, known tools stay known, and failed writes are repeated
later. `bridge/hub/cached_tools.py` decides which tools are cached, and for how long.
"""

from __future__ import annotations

import fcntl
import logging
import os
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from bridge.hub.cached_tools import (
    CachedTab,
    CachedTool,
    CachedToolIndex,
    CachedToolRow,
    CalledSite,
    Change,
    TabKey,
    ToolKey,
)
from bridge.hub.page_tool import PageTool, read_tools
from bridge.origins import get_web_origin
from native_host.protocol import wire
from native_host.system.home_layout import StateLayout
from native_host.system.private_files import PrivateFileError, open_regular, prepare_directory

SCHEMA = 1
"""`PRAGMA user_version`. A file with a higher one is left alone."""
BUSY_S = 0.25
"""Seconds to wait for another process, which may be stopped; the hub is blocked meanwhile."""
_RETRY_S = 0.01
REST_S = 5.0
"""Seconds without access to the file after a failure."""
PRUNE_APART_S = 60.0
MAX_UNWRITTEN = 200
"""Tabs whose news are remembered while nothing can be written."""

_TOOLS = """
CREATE TABLE IF NOT EXISTS tools (
    profile TEXT, origin TEXT, name TEXT, url TEXT, seen_at REAL, digest BLOB,
    definition BLOB,  -- last: what stood behind it could not be read without it
    PRIMARY KEY (profile, origin, name))
"""
_TABS = """
CREATE TABLE IF NOT EXISTS tabs (
    profile TEXT, tab_id INTEGER, origin TEXT, url TEXT, seen_at REAL,
    PRIMARY KEY (profile, tab_id))
"""
_CALLED = "CREATE TABLE IF NOT EXISTS called (profile TEXT, origin TEXT, PRIMARY KEY (profile, origin))"
"""Sites that a client has called. Earlier versions do not know the table and leave it alone."""
_COMPANIONS = ("-wal", "-shm", "-journal")
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}

_log = logging.getLogger(__name__)


class StoreError(Exception):
    """The file cannot be used; the text says why and what to do."""


_FAILURES = (StoreError, PrivateFileError, sqlite3.Error, OSError)


class SqliteToolStore:
    """The `ToolStore` of a bridge or of a command."""

    def __init__(self, state: Path, clock: Callable[[], float] = time.time, cached_days: float = 0) -> None:
        """Read the file in the directory `state`. The first write creates them.

        `clock` gives seconds since the epoch. Tools that no page has offered for `cached_days` go; with 0
        they stay.
        """
        self._clock = clock
        self._cached_days = cached_days
        self._file = _File(state)
        self._index = CachedToolIndex()
        self._unwritten: dict[tuple[TabKey, str], tuple[str, Sequence[PageTool]]] = {}
        """By tab and origin: the URL, and the tools that were offered there last."""
        self._unwritten_calls: dict[CalledSite, None] = {}
        self._pruned_at = -PRUNE_APART_S
        self._failed_at: float | None = None
        self._complaint = ""
        self.refresh()

    def refresh(self) -> bool:
        """Look whether another bridge or command has changed something; whether `tools` differ now."""
        if self._failed_at is not None and abs(self._clock() - self._failed_at) < REST_S:
            return False
        before = self._index.tools()
        try:
            self._bring_up_to_date()
        except _FAILURES as error:
            self._close_failed(error)
        else:
            self._failed_at, self._complaint = None, ""
        return self._index.tools() is not before

    def tools(self) -> Sequence[CachedToolRow]:
        """Everything that is kept, by profile, origin and name; without I/O."""
        return self._index.tools()

    def record_offer(
        self, profile: str, tab_id: int, origin: str, url: str, tools: Sequence[PageTool]
    ) -> bool:
        """Cache the tools that a tab's top document offers now, and drop those that it no longer offers.

        The caller leaves incognito tabs out. Returns whether `tools()` differ now; if the file cannot be
        written, the change is made later.
        """
        self._unwritten[TabKey(profile, tab_id), origin] = url, tools
        if len(self._unwritten) > MAX_UNWRITTEN:
            del self._unwritten[next(iter(self._unwritten))]
        return self.refresh()

    @property
    def version_of_calls(self) -> int:
        """Changes when `was_called` may answer otherwise."""
        return self._index.version_of_calls

    def was_called(self, profile: str, origin: str) -> bool:
        """Return whether a client has called a page tool of this site before; without I/O."""
        return self._index.was_called(CalledSite(profile, origin))

    def record_call(self, profile: str, origin: str) -> None:
        """Record that a client has called a page tool of this site; later, while nothing can be written."""
        site = CalledSite(profile, origin)
        if self._index.record_call(site):
            self._unwritten_calls[site] = None
            self.refresh()

    def forget_site(self, origin: str) -> int:
        """Remove what is kept of an origin, in all profiles; returns how many tools that were.

        Other bridges see it at their next `refresh`. A page that is still open is kept again when it next
        announces its tools.

        Raises:
            StoreError: it is no web page's origin, or the file cannot be changed.
        """
        wanted = get_web_origin(origin.strip())
        if not wanted:
            raise StoreError(f"{origin!r} is no origin of web pages; write it like https://shop.example")
        try:
            self._bring_up_to_date()
            going = self._index.forget_origin(wanted)
            self._apply_change(going)
        except _FAILURES as error:
            self._file.close()
            again = "" if isinstance(error, StoreError | PrivateFileError) else ". Try again."
            raise StoreError(f"Nothing was forgotten: {error}{again}") from error
        return len(going.gone_tools)

    def close(self) -> None:
        """Write what is still to be written, and let go of the file."""
        if self._unwritten or self._unwritten_calls:
            self._failed_at = None
            self.refresh()
        self._file.close()

    def _bring_up_to_date(self) -> None:
        try:
            self._catch_up()
        except sqlite3.DatabaseError as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF not in _DAMAGED:
                raise
            _log.warning("%s is damaged (%s): it is moved aside, and a new one begun", self._file.path, error)
            self._file.move_aside()
            self._file.write(self._index.as_change())
            self._catch_up()

    def _catch_up(self) -> None:
        """Read other processes' changes, write our pending ones, and drop expired tools."""
        self._index.apply(self._file.read_changes(self._index))
        now = self._clock()
        while self._unwritten:
            at, (url, tools) = next(iter(self._unwritten.items()))
            self._apply_change(self._index.record_offer(*at, url, tools, now))
            del self._unwritten[at]
        while self._unwritten_calls:
            site = next(iter(self._unwritten_calls))
            self._apply_change(self._index.record_call(site))
            del self._unwritten_calls[site]
        if abs(now - self._pruned_at) >= PRUNE_APART_S:
            self._apply_change(self._index.expire_stale(now, self._cached_days))
            self._pruned_at = now

    def _apply_change(self, change: Change) -> None:
        if change:
            self._file.write(change)
            self._index.apply(change)

    def _close_failed(self, error: Exception) -> None:
        self._file.close()
        self._failed_at = self._clock()
        if str(error) != self._complaint:
            self._complaint = str(error)
            _log.warning("tools of pages cannot be kept for later: %s", error)


class _File:
    """The database: opened when it is needed, and again when another file is in its place."""

    def __init__(self, state: Path) -> None:
        self.path = StateLayout(state).tool_cache
        self._connection: sqlite3.Connection | None = None
        self._identity: tuple[int, int] | None = None
        self._version: int | None = None
        """`data_version` at the last read; writes of other connections change it, our own do not."""

    def read_changes(self, index: CachedToolIndex) -> Change:
        """Return the changes that make the cached tools equal to the file; reading does not create it."""
        if not os.path.lexists(self.path):
            self.close()
            return index.change_to([], [])
        with self._run_transaction("BEGIN") as connection:
            (version,) = connection.execute("PRAGMA data_version").fetchone()
            if version == self._version:
                return Change()
            self._version = version
            tools = list(_decode_tools(connection, index))
            tabs = [
                CachedTab(TabKey(profile, tab_id), *where)
                for profile, tab_id, *where in connection.execute(
                    "SELECT profile, tab_id, origin, url, seen_at FROM tabs"
                )
            ]
            called = [CalledSite(*row) for row in connection.execute("SELECT profile, origin FROM called")]
        return index.change_to(tools, tabs, called)

    def write(self, change: Change) -> None:
        """All of it or nothing."""
        with self._run_transaction("BEGIN IMMEDIATE") as connection:
            connection.executemany(
                "DELETE FROM tools WHERE profile = ? AND origin = ? AND name = ?", change.gone_tools
            )
            connection.executemany("DELETE FROM tabs WHERE profile = ? AND tab_id = ?", change.gone_tabs)
            connection.executemany("DELETE FROM called WHERE profile = ? AND origin = ?", change.gone_called)
            connection.executemany("INSERT OR IGNORE INTO called VALUES (?, ?)", change.called)
            connection.executemany(
                "INSERT OR REPLACE INTO tools VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    (*kept.key, kept.url, kept.seen_at, kept.tool.digest, kept.tool.raw)
                    for kept in change.tools
                ),
            )
            connection.executemany(
                "INSERT OR REPLACE INTO tabs VALUES (?, ?, ?, ?, ?)",
                ((*tab.key, tab.origin, tab.url, tab.seen_at) for tab in change.tabs),
            )

    def move_aside(self) -> None:
        """Keep the file as `….broken`, unless another bridge has done so."""
        self.close()
        with self._is_alone():
            if self._identity != _identity(self.path):
                return
            for suffix in _COMPANIONS:
                self._sibling_path(suffix).unlink(missing_ok=True)
            self.path.replace(self._sibling_path(".broken"))

    def close(self) -> None:
        """Let go of the file; the last one tidies up."""
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()
        self._connection = self._version = None

    @contextmanager
    def _run_transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        connection = self._open_connection()
        connection.execute(begin)
        with connection:  # commits, or rolls back
            yield connection

    def _open_connection(self) -> sqlite3.Connection:
        if self._connection is not None and self._identity != _identity(self.path):
            self.close()
        if self._connection is None:
            self._claim_path()
            self._connection = sqlite3.connect(self.path, timeout=BUSY_S, isolation_level=None)
            self._set_up(self._connection)
        return self._connection

    def _claim_path(self) -> None:
        """Create the file, readable by this user only. The private directory protects it."""
        prepare_directory(self.path.parent)
        for path in (self.path, *map(self._sibling_path, _COMPANIONS)):
            with suppress(FileNotFoundError):
                found = path.lstat()
                if not stat.S_ISREG(found.st_mode) or found.st_uid != os.getuid():
                    raise StoreError(f"{path} is not a file of yours. Remove it.")
        # SQLite gives its other files the same mode.
        with suppress(FileExistsError):
            os.close(open_regular(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR))
        self.path.chmod(0o600)
        self._identity = _identity(self.path)

    def _set_up(self, connection: sqlite3.Connection) -> None:
        (schema,) = connection.execute("PRAGMA user_version").fetchone()
        if schema > SCHEMA:
            raise StoreError(
                f"{self.path} was made by a newer mcpb (schema {schema}; this one knows {SCHEMA}). "
                "Update mcpb and restart the MCP client."
            )
        if schema < SCHEMA:
            with self._is_alone():
                _begin_statement(connection)
        connection.execute(_CALLED)
        # The power may take the last seconds, not the file. Addresses of an hour ago are to be gone for good.
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA secure_delete = ON")

    @contextmanager
    def _is_alone(self) -> Iterator[None]:
        """One process at a time: for what SQLite's own locks do not cover."""
        directory = os.open(self.path.parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._lock_file(directory)
            yield
        finally:
            os.close(directory)

    def _lock_file(self, directory: int) -> None:
        """Wait for it as SQLite waits for its own locks."""
        give_up_at = time.monotonic() + BUSY_S
        while True:
            try:
                fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= give_up_at:
                    raise TimeoutError(f"another process holds {self.path.parent}") from None
                time.sleep(_RETRY_S)
            else:
                return

    def _sibling_path(self, suffix: str) -> Path:
        return self.path.with_name(self.path.name + suffix)


def _begin_statement(connection: sqlite3.Connection) -> None:
    """Create the schema in an empty file, unless another process was quicker."""
    connection.execute("PRAGMA journal_mode = WAL")  # two that do this at once would not wait for each other
    connection.execute("BEGIN IMMEDIATE")
    with connection:
        for statement in (_TOOLS, _TABS, f"PRAGMA user_version = {SCHEMA}"):
            connection.execute(statement)


def _decode_tools(connection: sqlite3.Connection, index: CachedToolIndex) -> Iterator[CachedTool]:
    """All rows; definitions are read only where the index has another one."""
    digests = connection.execute("SELECT profile, origin, name, url, seen_at, digest FROM tools").fetchall()
    for profile, origin, name, url, seen_at, digest in digests:
        key = ToolKey(profile, origin, name)
        known = index.tool(key)
        if known and known.tool.digest == digest:
            yield CachedTool(key, url, seen_at, known.tool)
            continue
        (definition,) = connection.execute(
            "SELECT definition FROM tools WHERE profile = ? AND origin = ? AND name = ?", key
        ).fetchone()
        for tool in _decode_tool(origin, definition):
            yield CachedTool(key, url, seen_at, tool)


def _decode_tool(origin: str, definition: bytes) -> list[PageTool]:
    """Decode one tool; an invalid row has none."""
    raw = [msgspec.Raw(definition)]
    return read_tools(wire.FrameTools(tab_id=0, frame_id=0, document_id="", origin=origin, tools=raw))


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino
