"""Pauses of the user in pauses.json, with the time of each change, for all bridges and browsers.

Every writer merges under a file lock: the later of two changes wins. `bridge/hub/rules/pauses.py` decides on
calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from bridge.hub.rules.pauses import Pauses
from bridge.hub.rules.site_patterns import read_pattern
from bridge.origins import OriginError
from native_host.protocol.validation_errors import describe_problem
from native_host.protocol.wire import PauseChange
from native_host.system import private_files
from native_host.system.home_layout import StateLayout
from native_host.system.private_files import PrivateFileError, lock_directory, prepare_directory

KEPT_CHANGES = 256
"""Limit of session pauses, and of removals: the oldest are forgotten."""
KEPT_MS = 30 * 24 * 3600 * 1000
"""Age at which a removal is forgotten. A browser that was away for longer may bring its pause back."""


class PausesFileError(Exception):
    """The file cannot be read or written. The text has its path, the reason and the remedy."""


class _Content(msgspec.Struct):
    changes: list[PauseChange] = []


class PausesFile:
    """The file in a state directory, read again when it has changed."""

    def __init__(self, state: Path) -> None:
        self.path = StateLayout(state).pauses
        self.changes: Sequence[PauseChange] = ()
        self._identity: tuple[int, ...] | None = None

    def refresh(self) -> bool:
        """Read the file if it has changed; return whether it has.

        Raises:
            PausesFileError: the file is unusable; its previous content stays in force.
        """
        identity = _identity(self.path)
        if identity == self._identity:
            return False
        self._identity = identity
        self.changes = self._read_changes()
        return True

    def merge_changes(self, changes: Iterable[PauseChange], now_ms: int) -> None:
        """Add changes to the file, unless it has later ones. This waits for other writers.

        Raises:
            PausesFileError: the file cannot be read or written; it stays as it was.
        """
        try:
            prepare_directory(self.path.parent)
            with lock_directory(self.path.parent):
                before = Pauses(self._read_changes())
                merged = Pauses([*before.changes, *changes])
                if merged.changes != before.changes:
                    self._write_changes(_limit_changes(merged.changes, now_ms))
        except PrivateFileError as error:
            raise PausesFileError(str(error)) from error
        except OSError as error:
            raise PausesFileError(f"{self.path} cannot be written: {error.strerror}") from error
        self.refresh()

    def _read_changes(self) -> list[PauseChange]:
        try:
            file = private_files.read(self.path)
            found = msgspec.json.decode(file.content, type=_Content).changes if file else []
            for change in found:
                _check_change(change)
        except PrivateFileError as error:
            raise PausesFileError(str(error)) from error
        except (ValueError, msgspec.DecodeError) as error:
            why = describe_problem(error)
            text = f"{self.path} cannot be read ({why}): remove it, and pause again what shall be paused"
            raise PausesFileError(text) from None
        return found

    def _write_changes(self, changes: Sequence[PauseChange]) -> None:
        content = msgspec.json.format(msgspec.json.encode(_Content(list(changes)))) + b"\n"
        private_files.replace(self.path, content)


def _check_change(change: PauseChange) -> None:
    """Reject a change that mcpb never writes.

    Raises:
        ValueError: the change names no canonical pattern and no session, or both.
    """
    if bool(change.site) == bool(change.session):
        raise ValueError("each change has either a site or a session")
    try:
        is_canonical = not change.site or read_pattern(change.site) == change.site
    except OriginError as error:
        raise ValueError(f"{change.site!r} is no site: {error}") from None
    if not is_canonical:
        raise ValueError(f"{change.site!r} is no site in its canonical form")


def _limit_changes(changes: Sequence[PauseChange], now_ms: int) -> list[PauseChange]:
    latest = sorted(changes, key=lambda change: change.at, reverse=True)
    sessions = [change for change in latest if change.paused and change.session]
    removals = [change for change in latest if not change.paused and change.at > now_ms - KEPT_MS]
    sites = [change for change in latest if change.paused and change.site]
    return [*sites, *sessions[:KEPT_CHANGES], *removals[:KEPT_CHANGES]]


def _identity(path: Path) -> tuple[int, ...] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size
