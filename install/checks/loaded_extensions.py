"""Browsers of this user that have the extension, and the directory that each loaded it from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from install.browsers import Kind, TableError, Target, known_browsers
from install.checks.ledger_and_wrapper import read_installation
from install.checks.manifest_directories import usual_targets
from install.checks.profiles import (
    InstalledExtension,
    chromium_extensions,
    firefox_extensions,
    firefox_profiles,
    is_used_in,
)
from install.installation import InstallationPaths
from install.machine import Machine


@dataclass(frozen=True)
class LoadedExtension:
    """The extension in a browser."""

    browser: str
    """Display name of the browser."""
    kind: Kind
    directory: Path | None
    """Directory that it was loaded from; None for an installed one, or if it was loaded seconds ago."""


def find_loaded(machine: Machine, home: Path) -> list[LoadedExtension]:
    """Return each browser and directory once, of present and registered browsers; `home` is mcpb's."""
    try:
        rows = known_browsers(home)
    except TableError:
        rows = known_browsers()
    here = read_installation(InstallationPaths(home, machine.user_home))
    targets = usual_targets(machine, rows, here, ())
    return list(dict.fromkeys(each for target in targets for each in _find_in(target)))


def _find_in(target: Target) -> Iterator[LoadedExtension]:
    data = target.data or target.directory.parent
    found = list(_extensions_in(target, data))
    yield from (LoadedExtension(target.title, target.kind, each.directory) for each in found)
    if not found and target.kind == "chromium" and is_used_in(data):
        yield LoadedExtension(target.title, target.kind, None)


def _extensions_in(target: Target, data: Path) -> list[InstalledExtension]:
    if target.kind == "chromium":
        return chromium_extensions(data) or []
    return firefox_extensions(firefox_profiles(data))
