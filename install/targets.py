"""Selection of targets: browsers by name, directories by path, or all browsers that are present."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from install.browsers import (
    Browser,
    Kind,
    Level,
    Target,
    directory_target,
    find_browser,
    find_nearest,
    installed_browsers,
    kind_of_directory,
    named_targets,
    system_target,
    user_data_dir_target,
    user_targets,
)
from install.browsers import present_targets as users_present_targets
from install.machine import Machine
from native_host.system.program_name import command_name


def install_command() -> str:
    """Return what to type to register the native host."""
    return f"{command_name()} install-native-host"


class UnknownBrowserError(Exception):
    """No browser of that name, or none of this system; the text says which was meant."""


@dataclass(frozen=True)
class Names:
    """Names and paths on the command line."""

    browsers: Sequence[str] = ()
    user_data_dirs: Sequence[Path] = ()
    directories: Sequence[Path] = ()
    kind: Kind | None = None
    """Kind of the directories; None: as their names suggest."""

    def __bool__(self) -> bool:
        return bool(self.browsers or self.user_data_dirs or self.directories)


@dataclass(frozen=True)
class TargetSelection:
    """The browsers of a machine, for one user or for all."""

    machine: Machine
    browsers: Sequence[Browser]
    exists: Callable[[Path], bool]
    level: Level = "user"

    def find_named(self, names: Names) -> list[Target]:
        """Return the directories of the names, each once.

        Raises:
            UnknownBrowserError: a name is unknown.
        """
        found = [target for name in names.browsers for target in self._targets_of(name)]
        found += map(user_data_dir_target, names.user_data_dirs)
        for directory in names.directories:
            kind = names.kind or kind_of_directory(directory, self.machine, self.browsers)
            found.append(directory_target(directory, kind))
        return each_once(found)

    def find_present(self) -> list[Target]:
        """Return the directories of all browsers that are installed, or were used here."""
        if self.level == "user":
            used = users_present_targets(self.browsers, self.machine, self.exists)
            installed = installed_browsers(self.browsers, self.machine, self.exists)
            return each_once([*used, *(target for row in installed for target in self._targets_in_use(row))])
        return [
            target
            for target in self.find_usual()
            if self.exists(target.directory) or self.exists(target.directory.parent)
        ]

    def find_usual(self) -> list[Target]:
        """Return the directories of all known browsers."""
        if self.level == "user":
            rows = self.browsers
            return each_once([target for row in rows for target in user_targets(row, self.machine, rows)])
        targets = (system_target(browser, self.machine) for browser in self.browsers)
        return each_once([target for target in targets if target])

    def with_title(self, target: Target) -> Target:
        """Return a registered directory with its display name."""
        browser = find_browser(target.browser, self.browsers)
        if browser is None:
            return target
        usual = next((known for known in self.find_usual() if known.directory == target.directory), None)
        if usual is not None:
            return replace(target, browsers=usual.browsers, location=usual.location)
        return replace(target, browsers=browser.title, location=target.directory.parent)

    def find_sharing(self, targets: Sequence[Target]) -> list[str]:
        """Return the other present browsers that read one of these directories."""
        directories = {target.directory for target in targets}
        named = {target.browser for target in targets}
        return [
            browser.title
            for browser in self.browsers
            if browser.name not in named
            and not browser.named_only
            and any(
                target.directory in directories and target.data and self.exists(target.data)
                for target in user_targets(browser, self.machine, self.browsers)
            )
        ]

    def confinement_notes(self) -> list[str]:
        """Return notes on present Flatpak and Snap builds."""
        said = []
        for browser in self.browsers:
            if any(self.exists(self.machine.user_home / ".var/app" / name) for name in browser.flatpak):
                said.append(
                    f"{browser.title} from Flatpak cannot start a program outside of its sandbox: "
                    "a build that is not from Flatpak can"
                )
            if any(self.exists(self.machine.user_home / "snap" / name) for name in browser.snap):
                said.append(_snap_note(browser))
        return said

    def not_there(self, targets: Sequence[Target]) -> list[str]:
        """Return notes on named directories that would be created, most likely misspelled ones."""
        said = []
        for target in targets:
            folder = target.data or target.directory
            if not self.exists(folder):
                unused = f"{target.title} has not been used here: " if target.browser else ""
                said.append(f"{unused}{folder} is not there yet. Is it spelt right?")
        return said

    def suggest_option(self, word: str) -> str:
        """Return a suggestion for a browser's name without its option; empty for another word."""
        near = find_nearest(word, self.browsers)
        return f"Did you mean --browser {near}?" if near else ""

    def _targets_in_use(self, browser: Browser) -> list[Target]:
        return named_targets(browser, self.machine, self.browsers, self.exists)

    def _targets_of(self, name: str) -> list[Target]:
        browser = find_browser(name.lower(), self.browsers)
        if browser is None:
            raise UnknownBrowserError(f"{name!r} is no browser that mcpb knows. {self._suggest_name(name)}")
        if self.level == "user":
            targets = self._targets_in_use(browser)
        else:
            target = system_target(browser, self.machine)
            targets = [target] if target else []
        if targets:
            return targets
        raise UnknownBrowserError(
            f"where {browser.title} looks {'' if self.level == 'user' else 'for hosts of all users '}on this "
            "system is not known. If you know it, name the folder: --dir DIR"
        )

    def _suggest_name(self, name: str) -> str:
        if near := find_nearest(name, self.browsers):
            return f"Did you mean {near}?"
        return "It knows " + ", ".join(browser.name for browser in self.browsers)


def option_for(target: Target) -> str:
    """Return the options that name a target."""
    system = ["--system"] if target.browser and target.level == "system" else []
    return shlex.join([*map(str, target_options(target)), *system])


def target_options(target: Target) -> list[str | Path]:
    """Return the options that name a target, without `--system`."""
    if target.browser:
        return ["--browser", target.browser]
    if target.kind == "chromium" and target.directory.name == "NativeMessagingHosts":
        return ["--user-data-dir", target.directory.parent]
    return ["--dir", target.directory, "--kind", target.kind]


def _snap_note(browser: Browser) -> str:
    if browser.kind == "firefox":
        return f"{browser.title} from Snap starts hosts through the desktop's portal, which asks you once"
    return (
        f"{browser.title} from Snap cannot start a program outside of its sandbox: a .deb or .rpm build can"
    )


def each_once(targets: Iterable[Target]) -> list[Target]:
    """Return the first target of each directory, links followed."""
    found: dict[str, Target] = {}
    for target in targets:
        found.setdefault(os.path.realpath(target.directory), target)
    return list(found.values())


def as_registered(targets: Iterable[Target], registered: Iterable[Target]) -> list[Target]:
    """Return the same directories, with the paths of their registrations."""
    known = {os.path.realpath(target.directory): target.directory for target in registered}
    return [
        replace(target, directory=known.get(os.path.realpath(target.directory), target.directory))
        for target in each_once(targets)
    ]
