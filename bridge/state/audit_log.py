"""Audit log: one JSON line for each call, and for each list of tools that a page offers.

All bridges of a user append to one file. A full file is renamed; its predecessor is removed.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache
from itertools import islice
from pathlib import Path

import msgspec

from bridge.errors import CallError
from bridge.hub.argument_validation import Arguments
from bridge.hub.audit_records import FinishedCall, Record, Site, ToolRedefinition, ToolRegistration
from bridge.hub.client_session import Session
from native_host.protocol import wire
from native_host.protocol.untrusted_text import single_line
from native_host.system.home_layout import StateLayout
from native_host.system.private_files import PrivateFileError, open_regular, prepare_directory

MAX_BYTES = 10 * 1024 * 1024
"""Limit of the log file; the previous file is kept as well."""
LINE_BYTES = 4096
"""Limit of a line. A line is one `write` to a file opened with O_APPEND: on a local disk, lines of several
processes never mix, and a reader sees a short line whole."""
ARGUMENTS_BYTES = 2048
ORIGINS_BYTES = 1024
"""For the further origins of a call, in a line that has room for arguments as well."""
MAX_TOOLS = 20
REGISTRATIONS_A_MINUTE = 60
"""Lines: pages that register in a loop are not to push calls out of the log, whatever their origins."""
REGISTRATIONS_OF_ORIGIN = 10
"""Lines per minute for one origin: one site's flood leaves quota for others."""
LOOK_EVERY_S = 0.1
"""Seconds between two checks that the file still has its name. Until the next check, lines go to the open
file, even if another bridge renamed it or the user removed it."""
_MINUTE_S = 60.0
_MAX_ORIGIN_CHARS = 200
_MAX_NAME, _MAX_DETAIL, _MAX_LABEL, _MAX_ID, _MAX_HASH = 128, 160, 60, 40, 64
_LONGEST = 4 * _MAX_NAME
"""Characters of a name without a limit that `cleaned` looks at."""

_log = logging.getLogger(__name__)


# ── Lines ───────────────────────────────────────────────────────────────────────────────────────────────────


class _Client(msgspec.Struct, omit_defaults=True):
    name: str = ""
    version: str = ""


class _Line(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """A line, its empty members left out. Its texts are bounded, the last ones by what room is left."""

    at: str
    event: str
    bridge: int
    client: _Client | None = None
    session: str = ""
    browser: str = ""
    profile: str = ""
    origin: str = ""
    tab: int = 0
    tab_id: int | None = None
    kind: str = "tool"
    name: str = ""
    tool: str = ""
    action: str = ""
    batch: str = ""
    step: int = 0
    outcome: str = ""
    detail: str = ""
    handed: bool | None = None
    ms: float | None = None
    count: int | None = None
    left_out: int = 0
    tools: list[str] = []
    before: str = ""
    after: str = ""
    origins: list[str] = []
    more_origins: int = 0
    arguments: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    arguments_cut: str = ""


@lru_cache(16)
def _format_client(name: str, version: str) -> _Client:
    return _Client(single_line(name, _MAX_LABEL), single_line(version, 20))


def _make_line(now: float, event: str, site: Site, session: Session | None = None) -> _Line:
    client = session.client if session else None
    return _Line(
        at=format_time(now),
        event=event,
        bridge=os.getpid(),
        client=_format_client(client.name[:_LONGEST], client.version[:_LONGEST]) if client else None,
        session=_shorten_text(session.id, _MAX_ID) if session else "",
        browser=_shorten_text(site.browser, _MAX_LABEL),
        profile=_shorten_text(site.profile, _MAX_ID),
        origin=_shorten_text(site.origin, _MAX_ORIGIN_CHARS),
        tab=site.ordinal,
        tab_id=site.tab_id,
    )


def _call_line(now: float, call: FinishedCall, *, with_arguments: bool) -> _Line:
    line = _make_line(now, "call", call.site, call.session)
    line.kind = call.kind
    line.name = _shorten_text(call.name[:_LONGEST], _MAX_NAME)
    line.tool = _shorten_text(call.own_name[:_LONGEST], _MAX_NAME)
    line.action = _shorten_text(call.action, _MAX_ID)
    line.batch, line.step = call.batch, call.step
    line.outcome = _shorten_text(call.outcome, _MAX_ID)
    line.detail = single_line(call.detail, _MAX_DETAIL) if call.detail else ""
    line.handed = call.handed
    line.ms = round(call.duration_s * 1000, 1)
    if call.origins:
        _add_origins(line, call.origins, ORIGINS_BYTES if with_arguments else LINE_BYTES)
    if with_arguments:
        room = min(ARGUMENTS_BYTES, LINE_BYTES - len(_encode_line(line)) - len(',"argumentsCut":""'))
        _add_arguments(line, call.arguments, room)
    return line


def _add_origins(line: _Line, origins: tuple[str, ...], most_bytes: int) -> None:
    """Add the origins that fit, and count the rest."""
    room = min(most_bytes, LINE_BYTES - len(_encode_line(line)) - len(',"origins":[],"moreOrigins":10000000'))
    line.origins, line.more_origins = [], len(origins)
    for origin in origins:
        shown = _shorten_text(origin, _MAX_ORIGIN_CHARS)
        room -= len(msgspec.json.encode(shown)) + 1
        if room < 0:
            return
        line.origins.append(shown)
        line.more_origins -= 1


def _add_arguments(line: _Line, arguments: Arguments, room: int) -> None:
    """As they are where they fit and any reader can read them, else the beginning of their text."""
    text, is_whole = b"", False
    with suppress(CallError):
        text = arguments.raw.replace(b"\n", b" ")  # between members: within texts there are none
        is_shallow = text.count(b"[") + text.count(b"{") <= wire.MAX_DEPTH
        is_whole = len(text) <= room and is_shallow and arguments.value is not None
    if is_whole:
        line.arguments = msgspec.Raw(text)
    else:
        beginning = text[: max(0, room // 2 - 3)]  # quoted within JSON, each character may take two
        line.arguments_cut = single_line(beginning.decode(errors="ignore"), ARGUMENTS_BYTES) + "…"


def _registration_line(now: float, offered: ToolRegistration) -> _Line:
    line = _make_line(now, "registered", offered.site)
    line.count = len(offered.tools)
    room = LINE_BYTES - len(_encode_line(line)) - len(',"tools":[]')
    for name in islice(offered.tools, MAX_TOOLS):
        shown = _shorten_text(name, _MAX_NAME)
        room -= len(msgspec.json.encode(shown)) + 1
        if room < 0:
            break
        line.tools = [*line.tools, shown]
    return line


def _redefinition_line(now: float, changed: ToolRedefinition) -> _Line:
    line = _make_line(now, "redefined", changed.site)
    line.tool = _shorten_text(changed.tool, _MAX_NAME)
    line.before, line.after = (
        _shorten_text(changed.before, _MAX_HASH),
        _shorten_text(changed.after, _MAX_HASH),
    )
    return line


def _encode_line(line: _Line) -> bytes:
    return msgspec.json.encode(line) + b"\n"


@lru_cache(512)
def _shorten_text(text: str, max_chars: int) -> str:
    """Return a text as a line has it. Calls repeat nearly all of theirs. Cut a text without a limit first."""
    return single_line(text, max_chars)


def format_time(now: float) -> str:
    """Format a time for a line: later times sort after earlier ones."""
    second, fraction = divmod(now, 1)
    return f"{_format_second(int(second))}.{int(fraction * 1000):03d}Z"


@lru_cache(1)
def _format_second(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")


# ── Keeping ─────────────────────────────────────────────────────────────────────────────────────────────────


class AuditLog:
    """Appends to the log in `directory`, which is made when the first record comes."""

    def __init__(
        self, directory: Path, *, with_arguments: bool, clock: Callable[[], float] = time.time
    ) -> None:
        self._file = _SharedFile(directory)
        self._with_arguments = with_arguments
        self._clock = clock
        self._allowances = {"registered": _Allowance(), "redefined": _Allowance()}
        """Rate limit by event that pages cause: a flood of one event does not hide the other."""
        self._has_warned = False

    def set_with_arguments(self, *, with_arguments: bool) -> None:
        """Log the arguments of calls from now on, or no longer."""
        self._with_arguments = with_arguments

    def write_record(self, record: Record) -> None:
        """Write it down. A log that cannot be written is complained of once, and the calls go on."""
        now = self._clock()
        try:
            self._tell_left_out(now, ended_by=now)
            match record:
                case FinishedCall():
                    self._append_line(_call_line(now, record, with_arguments=self._with_arguments), now)
                case ToolRegistration() if self._allowances["registered"].allows(record.site.origin, now):
                    self._append_line(_registration_line(now, record), now)
                case ToolRedefinition() if self._allowances["redefined"].allows(record.site.origin, now):
                    self._append_line(_redefinition_line(now, record), now)
        except (OSError, PrivateFileError) as error:
            self._warn_once(error)

    def close(self) -> None:
        """Say what was left out so far, and let go of the file."""
        try:
            self._tell_left_out(self._clock(), ended_by=math.inf)
        except (OSError, PrivateFileError) as error:
            self._warn_once(error)
        self._file.close()

    def _tell_left_out(self, now: float, ended_by: float) -> None:
        for event, allowance in self._allowances.items():
            if not allowance.minutes:
                continue
            for origin, left_out in allowance.over(ended_by):
                line = _make_line(now, event, Site(origin=origin))
                line.left_out = left_out
                self._append_line(line, now)

    def _append_line(self, line: _Line, now: float) -> None:
        self._file.append(_encode_line(line), now)

    def _warn_once(self, error: Exception) -> None:
        if not self._has_warned:
            _log.warning("calls go on, but the audit log is not kept: %s", error)
            self._has_warned = True


class _Minute(msgspec.Struct):
    began_at: float
    written: int = 0
    left_out: int = 0


class _Allowance:
    """Rate limit of registration lines, per origin; counts the omitted ones."""

    def __init__(self) -> None:
        self.minutes: dict[str, _Minute] = {}
        """By origin, in the order in which they began. Those for which no line was left share the empty one,
        for each of these minutes may end in a line of its own."""
        self._written = 0

    def allows(self, origin: str, now: float) -> bool:
        """Count one; whether it is to be written."""
        has_room = self._written < REGISTRATIONS_A_MINUTE
        key = origin if has_room or origin in self.minutes else ""
        minute = self.minutes.setdefault(key, _Minute(now))
        is_allowed = has_room and minute.written < REGISTRATIONS_OF_ORIGIN
        self._written += is_allowed
        minute.written += is_allowed
        minute.left_out += not is_allowed
        return is_allowed

    def over(self, now: float) -> Iterator[tuple[str, int]]:
        """Begin anew where a minute is over (`inf`: all); yield origins of which lines were left out."""
        while self.minutes:
            origin, minute = next(iter(self.minutes.items()))
            if 0 <= now - minute.began_at < _MINUTE_S:
                return
            del self.minutes[origin]
            self._written -= minute.written
            if minute.left_out:
                yield origin, minute.left_out


class _SharedFile:
    """A file that several processes append to; the first that finds it full renames it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._path = StateLayout(directory).audit_log
        self._descriptor: int | None = None
        self._looked_at = -math.inf
        self._size = 0
        """Then, and of what was written since."""
        self._is_torn = False
        """Our last line broke off: the next one is not to be lost with it."""

    def append(self, line: bytes, now: float) -> None:
        """Write a line at the end. `now` may be of any clock.

        Raises:
            PrivateFileError: the directory is not private, or cannot be created.
            OSError: the disk refuses.
        """
        descriptor = self._current_descriptor(now)
        if self._is_torn:
            line = b"\n" + line
        written = os.write(descriptor, line)
        self._size += written
        self._is_torn = written < len(line)
        if self._is_torn:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._path))

    def close(self) -> None:
        """Let go of it; the next line opens it again."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _current_descriptor(self, now: float) -> int:
        """Return the file that has the name now; another process or the user may have moved the open one."""
        descriptor = self._descriptor
        is_recent = 0 <= now - self._looked_at < LOOK_EVERY_S and self._size < MAX_BYTES
        if descriptor is not None and is_recent:
            return descriptor
        self._looked_at = now
        if descriptor is None:
            descriptor = self._descriptor = self._open_file()
        found = self._find_status(descriptor)
        if found is not None and found.st_size >= MAX_BYTES:
            self._rename_full(descriptor)
            found = self._find_status(descriptor)
        if found is None:
            self.close()
            descriptor = self._descriptor = self._open_file()
        self._size = os.fstat(descriptor).st_size
        return descriptor

    def _open_file(self) -> int:
        prepare_directory(self._directory)
        return open_regular(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def _find_status(self, descriptor: int) -> os.stat_result | None:
        """Return the status of the file under the name, or None if it is not the open file."""
        with suppress(FileNotFoundError):
            found = os.lstat(self._path)
            if os.path.samestat(found, os.fstat(descriptor)):
                return found
        return None

    def _rename_full(self, descriptor: int) -> None:
        """Rename the full file, under the lock, unless another process has done so.

        A process that finds the lock taken, or the file renamed before its write, loses no line: it writes to
        the same file under its new name.
        """
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        try:
            if self._find_status(descriptor):
                self._path.rename(StateLayout(self._directory).earlier_audit_log)
        finally:
            fcntl.flock(descriptor, fcntl.LOCK_UN)
