"""The browsers we know, and in which folders each looks for host manifests: the table manifests/browsers.toml.

Rows of the person's own `browsers.toml`, in mcpb's home, are added to it or take the place of those they name.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Literal

import msgspec

from install.machine import Machine
from native_host.wire import HOST_NAME

Kind = Literal["chromium", "firefox"]
Level = Literal["user", "system"]

FILE = "browsers.toml"


class Place(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A folder that a browser makes when it is first used, and what follows for its manifests."""

    data: str
    """Below the folder for settings ($CHROME_CONFIG_HOME, $XDG_CONFIG_HOME or ~/.config; on macOS
    ~/Library/Application Support), or from the home directory with `~/`."""
    borrows: str = ""
    """The browser, by name, in whose first place this one looks as well, or instead of its own."""
    hedge: bool = False
    """Perhaps not read, or by some versions only: used where that folder is there already."""


class Browser(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A row of the table."""

    name: str
    """What `--browser` takes."""
    title: str
    """What people call it."""
    kind: Kind
    evidence: str
    """Why we believe the row."""
    linux: tuple[Place, ...] = ()
    macos: tuple[Place, ...] = ()
    system: dict[Literal["linux", "macos"], str] = {}
    """The folder of manifests for all users."""
    windows: tuple[str, ...] = ()
    """Registry keys below HKEY_CURRENT_USER and HKEY_LOCAL_MACHINE; for browsers beside WSL."""
    programs: tuple[str, ...] = ()
    """How its processes' executables are called."""
    flatpak: tuple[str, ...] = ()
    snap: tuple[str, ...] = ()
    named_only: bool = False
    """Registered only when the person names it."""


@dataclass(frozen=True)
class Target:
    """A folder in which the host is to be registered, or is."""

    title: str
    kind: Kind
    directory: Path
    """Of manifests."""
    browser: str = ""
    """The row; empty for a folder that was named by hand."""
    data: Path | None = None
    """The browser's own folder: it is there when the browser has been used. None: not known, or of all users."""
    level: Level = "user"

    @property
    def manifest(self) -> Path:
        """The browser reads exactly this file."""
        return self.directory / f"{HOST_NAME}.json"


class TableError(Exception):
    """The person's own table cannot be used; the text names file, row and remedy."""


def known_browsers(mcpb_home: Path | None = None) -> tuple[Browser, ...]:
    """All rows: ours, and the person's own from `mcpb_home`.

    Raises:
        TableError: the person's file is not such a table.
    """
    ours = {browser.name: browser for browser in _rows((resources.files("manifests") / FILE).read_text())}
    return tuple(ours.values())


def _rows(text: str) -> tuple[Browser, ...]:
    return msgspec.convert(tomllib.loads(text)["browser"], tuple[Browser, ...])


def find_browser(name: str, browsers: Sequence[Browser]) -> Browser | None:
    """The row of that name."""
    return next((browser for browser in browsers if browser.name == name), None)


# ── Targets ─────────────────────────────────────────────────────────────────────────────────────────────────


def user_targets(browser: Browser, machine: Machine, browsers: Sequence[Browser]) -> list[Target]:
    """Where this browser looks for this user's hosts, on this machine; each folder once."""
    found: dict[Path, Target] = {}
    for place in _places(browser, machine):
        data = _settings_path(place.data, browser.kind, machine)
        directory = data / _manifests_folder(browser.kind, machine)
        if place.borrows:
            lender = find_browser(place.borrows, browsers)
            assert lender is not None, f"{browser.name} borrows from {place.borrows}, which is no row"
            theirs = _settings_path(_places(lender, machine)[0].data, lender.kind, machine)
            directory = theirs / _manifests_folder(lender.kind, machine)
        found.setdefault(directory, Target(browser.title, browser.kind, directory, browser.name, data))
    return list(found.values())


def system_target(browser: Browser, machine: Machine) -> Target | None:
    """Where it looks for hosts of all users; None where nobody knows."""
    folder = browser.system.get(machine.system)
    if folder is None:
        return None
    directory = machine.root / folder.lstrip("/")
    return Target(browser.title, browser.kind, directory, browser.name, level="system")


def user_data_dir_target(user_data_dir: Path) -> Target:
    """A Chromium that is started with `--user-data-dir` looks there, and at no other user's place."""
    directory = user_data_dir / "NativeMessagingHosts"
    return Target("--user-data-dir", "chromium", directory, data=user_data_dir)


def directory_target(directory: Path, kind: Kind) -> Target:
    """A folder of manifests that the person names."""
    return Target("--dir", kind, directory)


def _places(browser: Browser, machine: Machine) -> tuple[Place, ...]:
    return browser.linux if machine.system == "linux" else browser.macos


def _settings_path(data: str, kind: Kind, machine: Machine) -> Path:
    if data.startswith("~/"):
        return machine.user_home / data.removeprefix("~/")
    if machine.system == "macos":
        return machine.user_home / "Library/Application Support" / data
    chosen = machine.environ.get("CHROME_CONFIG_HOME") if kind == "chromium" else None
    chosen = chosen or machine.environ.get("XDG_CONFIG_HOME")
    return (Path(chosen) if chosen else machine.user_home / ".config") / data


def _manifests_folder(kind: Kind, machine: Machine) -> str:
    """Never inside one profile: a manifest serves all profiles of a user data directory."""
    return (
        "native-messaging-hosts" if (kind, machine.system) == ("firefox", "linux") else "NativeMessagingHosts"
    )
