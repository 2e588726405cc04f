"""Reader of the audit log: its last lines, or each new one, through a filter."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from bridge.state.audit_log import format_time
from native_host.protocol import wire
from native_host.system.home_layout import StateLayout
from native_host.system.private_files import open_regular

_EARLIER_SPELLINGS = {"tool-error": "tool_error"}
"""Outcomes in entries of earlier versions, and their present spelling, which readers get."""
PAGE_REQUESTS = frozenset({"sampling", "roots", "elicitation"})
"""Kinds of calls in which a page asked the model or the client of a call."""
_SCANNED_CALLS = 300
"""Latest calls and requests of pages among which `LatestCalls` begins."""
_BLOCK_BYTES = 64 * 1024


@dataclass(frozen=True)
class Filter:
    """Line filter. Texts are case-insensitive globs: a leading `!` negates, an empty one matches all."""

    origin: str = ""
    client: str = ""
    tool: str = ""
    """The page's name for it, or the one that the client called."""
    outcome: str = ""
    since: float = 0.0
    """Seconds since the epoch."""
    is_with_registrations: bool = False

    def passes(self, line: dict[str, Any]) -> bool:
        """Return whether the line matches every condition."""
        if line["event"] != "call" and not self.is_with_registrations:
            return False
        return (
            line["at"] >= format_time(self.since)
            and _make_matcher(self.origin, *_origin_spellings(line))
            and _make_matcher(self.client, client_name(line))
            and _make_matcher(self.tool, str(line.get("tool", "")), str(line.get("name", "")))
            and _make_matcher(self.outcome, str(line.get("outcome", "")))
        )


def read_recent(directory: Path, count: int, where: Filter) -> list[dict[str, Any]]:
    """Return the last `count` matching lines, latest last. Unreadable lines are skipped.

    Raises:
        OSError: the log is there and cannot be read.
    """
    with ExitStack() as opened:
        return _read_last([opened.enter_context(file) for file in _open_both(directory)], count, where)


def follow_log(
    directory: Path, count: int, where: Filter, wait: Callable[[], None]
) -> Generator[dict[str, Any], None, None]:
    """Yield the last `count` matching lines, then each new one; call `wait` whenever all lines are read.

    Raises:
        OSError: the log is there and cannot be read.
    """
    with closing(Follower(directory, count, where)) as follower:
        while True:
            yield from follower.read_new()
            wait()


class Follower:
    """The last `count` lines that pass, then those that come; for who asks for them in its own time.

    Raises:
        OSError: from here on, whenever the log is there and cannot be read.
    """

    def __init__(self, directory: Path, count: int, where: Filter) -> None:
        files = _open_both(directory)
        self._where = where
        self._tail = _Tail(directory, files[0] if files else None)
        self._first = _read_last(files, count, where)
        for older in files[1:]:
            older.close()

    def read_new(self) -> Iterator[dict[str, Any]]:
        """Yield the lines that were written since the last call."""
        first, self._first = self._first, []
        yield from first
        yield from (
            line for raw in self._tail.read_new() if (line := _decode_line(raw)) and self._where.passes(line)
        )

    def close(self) -> None:
        """Let go of the files."""
        self._tail.close()


class LatestCalls:
    """The latest calls of clients, and the latest requests of pages."""

    def __init__(self, directory: Path, call_limit: int, request_limit: int) -> None:
        self.calls: deque[dict[str, Any]] = deque(maxlen=call_limit)
        self.page_requests: deque[dict[str, Any]] = deque(maxlen=request_limit)
        self.read_lines = 0
        """Number of lines that were read: changes with the others."""
        self._directory = directory
        self._follower: Follower | None = None

    def read_new(self) -> None:
        """Read what was written since the last call. The first one may read the whole log.

        Raises:
            OSError: the log is there and cannot be read.
        """
        self._follower = self._follower or Follower(self._directory, _SCANNED_CALLS, Filter())
        for line in self._follower.read_new():
            (self.page_requests if _is_page_request(line) else self.calls).append(line)
            self.read_lines += 1

    def close(self) -> None:
        """Close the log."""
        if self._follower:
            self._follower.close()


def _is_page_request(line: dict[str, Any]) -> bool:
    kind = line.get("kind")
    return isinstance(kind, str) and kind in PAGE_REQUESTS


def list_outcomes() -> list[str]:
    """Return the possible values of `FinishedCall.outcome`."""
    named = ["ok", "tool_error", "cancelled", "unknown_tool", "not_offered"]
    return [*named, *(code.name.lower() for code in wire.Code)]


def client_name(line: dict[str, Any]) -> str:
    """Return the client's name; empty for registrations."""
    client = line.get("client")
    return str(client.get("name", "")) if isinstance(client, dict) else ""


def _origin_spellings(line: dict[str, Any]) -> Iterator[str]:
    """Yield all origins that a line names, each with and without its scheme."""
    further = line.get("origins")
    for origin in [line.get("origin", ""), *(further if isinstance(further, list) else [])]:
        yield str(origin)
        yield str(origin).partition("://")[2]


def _make_matcher(pattern: str, *texts: str) -> bool:
    if not pattern:
        return True
    wanted = pattern.removeprefix("!").casefold()
    return any(fnmatchcase(text.casefold(), wanted) for text in texts) != pattern.startswith("!")


def _read_last(files: Iterable[BinaryIO], count: int, where: Filter) -> list[dict[str, Any]]:
    found = (
        line
        for file in files
        for raw in _read_backwards(file)
        if (line := _decode_line(raw)) and where.passes(line)
    )
    return list(reversed(list(islice(found, count))))


def _decode_line(raw: bytes) -> dict[str, Any] | None:
    try:
        line = msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return None
    if not (isinstance(line, dict) and isinstance(line.get("at"), str) and "event" in line):
        return None
    outcome = line.get("outcome")
    if isinstance(outcome, str):
        line["outcome"] = _EARLIER_SPELLINGS.get(outcome, outcome)
    return line


def _open_both(directory: Path) -> list[BinaryIO]:
    """Open the existing log files, latest first, each at its end. A file renamed meanwhile is opened once."""
    files: list[BinaryIO] = []
    layout = StateLayout(directory)
    for path in (layout.audit_log, layout.earlier_audit_log):
        with suppress(FileNotFoundError):
            file = _open_to_read(path)
            if files and _is_same(files[0], file):
                file.close()
            else:
                file.seek(_end_of_lines(file))
                files.append(file)
    return files


def _open_to_read(path: Path) -> BinaryIO:
    return open(path, "rb", buffering=0, opener=open_regular)


def _read_backwards(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines before the file's position, last line first."""
    end, rest = file.tell(), b""
    while end > 0:
        start = max(0, end - _BLOCK_BYTES)
        block = os.pread(file.fileno(), end - start, start)
        rest, *lines = (block + rest).split(b"\n")
        yield from reversed(lines)
        end, rest = start, rest[:_BLOCK_BYTES]  # mcpb writes no line of this length.
    yield rest


class _Lines:
    """Reader of one file's new lines."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self._begun = b""

    def rest(self) -> Iterator[bytes]:
        """Yield the lines that were written since the last call."""
        while data := self.file.read(_BLOCK_BYTES):
            *lines, self._begun = (self._begun + data).split(b"\n")
            yield from lines


class _Tail:
    """The log from here on, whichever file it is in."""

    def __init__(self, directory: Path, file: BinaryIO | None) -> None:
        self._path = StateLayout(directory).audit_log
        self._files = [_Lines(file)] if file else []
        """The newest, and the one before it: bridges write on there for a moment (`audit.LOOK_EVERY_S`)."""

    def read_new(self) -> Iterator[bytes]:
        """Yield the lines that were written since the last call."""
        successor = self._open_successor()
        for lines in self._files:
            yield from lines.rest()
        if successor:
            for lines in self._files[:-1]:
                lines.file.close()
            self._files = [*self._files[-1:], _Lines(successor)]
            yield from self._files[-1].rest()

    def close(self) -> None:
        """Let go of the files."""
        for lines in self._files:
            lines.file.close()

    def _open_successor(self) -> BinaryIO | None:
        """Open the file that has the name now, if it is not the open one."""
        with suppress(FileNotFoundError):
            found = _open_to_read(self._path)
            if not self._files or not _is_same(self._files[-1].file, found):
                return found
            found.close()
        return None


def _is_same(file: BinaryIO, other: BinaryIO) -> bool:
    return os.path.sameopenfile(file.fileno(), other.fileno())


def _end_of_lines(file: BinaryIO) -> int:
    """Return the offset after the last complete line."""
    size = os.fstat(file.fileno()).st_size
    start = max(0, size - _BLOCK_BYTES)
    return start + os.pread(file.fileno(), size - start, start).rfind(b"\n") + 1
