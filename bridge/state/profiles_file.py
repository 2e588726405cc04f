"""Order of browser profiles in profiles.json, the same for all bridges.

Every writer reads, changes and replaces the file under a lock. What the order is for:
`bridge/hub/public_names.py`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

import msgspec
import trio

from bridge.hub.change_signal import ChangeSignal
from bridge.hub.public_names import ProfileMarks, ProfileRow, meet_profiles
from bridge.hub.registry import Registry
from native_host.protocol.validation_errors import describe_problem
from native_host.system import private_files
from native_host.system.home_layout import StateLayout
from native_host.system.private_files import (
    PrivateFileError,
    UnusableFileError,
    lock_directory,
    prepare_directory,
)

KEPT_PROFILES = 256
"""Limit of profiles in the file: of those that are not connected, the earliest are forgotten."""
POLL_S = 2.0
"""Seconds between two looks at what other bridges have stored."""
_LOCK_S = 5.0

_log = logging.getLogger(__name__)


class ProfilesFileError(UnusableFileError):
    """profiles.json cannot be used, so that other bridges may choose other names."""


class _Content(msgspec.Struct):
    profiles: list[ProfileRow] = []


class ProfilesFile:
    """The file in a state directory."""

    def __init__(self, state: Path) -> None:
        self.path = StateLayout(state).profiles

    def read_rows(self) -> list[ProfileRow]:
        """Return the stored profiles in their order.

        Raises:
            ProfilesFileError: the file cannot be read, or is not to be trusted.
        """
        try:
            file = private_files.read(self.path)
            return msgspec.json.decode(file.content, type=_Content).profiles if file else []
        except PrivateFileError as error:
            raise ProfilesFileError.wrap(error) from error
        except (ValueError, msgspec.DecodeError) as error:
            reason = f"it cannot be read ({describe_problem(error)}): remove it, names are chosen anew then"
            raise ProfilesFileError(self.path, reason) from None

    def meet(self, present: Sequence[str]) -> list[ProfileRow]:
        """Store that these profiles were connected at once, the earliest first; return all rows.

        Raises:
            ProfilesFileError: the file cannot be read or written; it stays as it was.
        """
        known = self.read_rows()
        if meet_profiles(known, present) == known:
            return known
        try:
            prepare_directory(self.path.parent)
            with lock_directory(self.path.parent, _LOCK_S):
                known = self.read_rows()
                rows = _limit_rows(meet_profiles(known, present), present)
                if rows != known:
                    content = msgspec.json.format(msgspec.json.encode(_Content(rows))) + b"\n"
                    private_files.replace(self.path, content)
                return rows
        except PrivateFileError as error:
            raise ProfilesFileError.wrap(error) from error
        except TimeoutError:
            raise ProfilesFileError(self.path, "it is locked by another process") from None
        except OSError as error:
            raise ProfilesFileError(self.path, f"it cannot be written: {error.strerror}") from error


class ProfileSync:
    """Exchange of the order between the file and one hub. The file counts from the first moment."""

    def __init__(self, file: ProfilesFile) -> None:
        self._file = file
        self._problem = ""
        self.marks = ProfileMarks()
        try:
            self.marks.set_rows(file.read_rows())
        except ProfilesFileError as error:
            self._report(error)

    async def run(self, registry: Registry, changes: ChangeSignal) -> None:
        """Exchange changes until cancelled."""
        while True:
            present = _find_present(registry)
            try:
                rows = await trio.to_thread.run_sync(self._file.meet, present)
            except ProfilesFileError as error:
                self._report(error)
            else:
                self._problem = ""
                self._adopt_rows(meet_profiles(rows, _find_present(registry)), changes)
            await _wait_change(registry, changes, present)

    def _adopt_rows(self, rows: Sequence[ProfileRow], changes: ChangeSignal) -> None:
        before = self.marks.version
        self.marks.set_rows(rows)
        if self.marks.version != before:
            changes.notify()

    def _report(self, error: ProfilesFileError) -> None:
        """Log a problem once."""
        if str(error) != self._problem:
            self._problem = str(error)
            _log.warning("The order of profiles is not shared with other bridges: %s", error)


def _find_present(registry: Registry) -> tuple[str, ...]:
    return registry.profiles() if registry.is_settled else ()


async def _wait_change(registry: Registry, changes: ChangeSignal, present: tuple[str, ...]) -> None:
    """Wait until other profiles are connected, at most POLL_S."""
    until = trio.current_time() + POLL_S
    await changes.wait_until(lambda: _find_present(registry) != present, until=until)


def _limit_rows(rows: Sequence[ProfileRow], present: Sequence[str]) -> list[ProfileRow]:
    surplus = len(rows) - KEPT_PROFILES
    absent = [row.id for row in rows if row.id not in present]
    dropped = set(absent[: max(0, surplus)])
    return [row for row in rows if row.id not in dropped]
