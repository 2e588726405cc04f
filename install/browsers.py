"""Table of browsers and their directories of host manifests: manifests/browsers.toml.

Rows of the user's `browsers.toml`, in mcpb's home, are added or replace rows with the same name.
"""

from __future__ import annotations

import difflib
import os
import re
import shutil
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from pathlib import Path, PurePosixPath
from typing import Any, Literal, get_args

import msgspec

from install.machine import Machine, System
from native_host.protocol.untrusted_text import is_single_line
from native_host.protocol.validation_errors import ProblemKind, describe_problem, explain
from native_host.protocol.wire import HOST_NAME
from native_host.system.home_layout import HomeLayout
from native_host.system.private_files import UnusableFileError

Kind = Literal["chromium", "firefox"]
Level = Literal["user", "system"]
Exists = Callable[[Path], bool]

_CHROMIUMS = "NativeMessagingHosts"
"""Name of Chromium's directory for a user's manifests."""

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


class Place(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A folder that a browser makes when it is first used, and what follows for its manifests."""

    data: str
    """Below the folder for settings ($CHROME_CONFIG_HOME, $XDG_CONFIG_HOME or ~/.config; on macOS
    ~/Library/Application Support), from the home directory with `~/`, or absolute: a portable browser's."""
    borrows: str = ""
    """The browser, by name, in whose first place this one looks as well, or instead of its own."""
    hedge: bool = False
    """Perhaps not read, or by some versions only: used where that folder is there already."""


class Browser(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A row of the table."""

    name: str
    """Value of `--browser`: lower-case letters, digits, hyphens."""
    title: str
    kind: Kind
    evidence: str = ""
    linux: tuple[Place, ...] = ()
    macos: tuple[Place, ...] = ()
    system: dict[System, str] = {}
    windows: tuple[str, ...] = ()
    """Keys below HKEY_CURRENT_USER and HKEY_LOCAL_MACHINE, the surest first; for browsers beside WSL."""
    programs: tuple[str, ...] = ()
    installed: tuple[str, ...] = ()
    """Parts of its executable's path (`/chrome-beta/`), any of them, where others' have the same name."""
    flatpak: tuple[str, ...] = ()
    snap: tuple[str, ...] = ()
    named_only: bool = False
    """True if it is registered only when the user names it."""


@dataclass(frozen=True)
class Target:
    """A folder in which the host is to be registered, or is."""

    browsers: str
    """Titles of the browsers that share it, with commas; empty for a directory that a user named."""
    kind: Kind
    directory: Path
    browser: str = ""
    """The row, the first one that looks here; empty for a folder that was named by hand."""
    data: Path | None = None
    """The browser's own folder, there when it has been used. None: not known, or of all users."""
    level: Level = "user"
    location: Path | None = None
    """Directory that distinguishes it from other targets of the browser; None for the usual one."""

    @property
    def title(self) -> str:
        """Name for users."""
        if self.location is None:
            return self.browsers
        return f"{self.browsers} in {self.location}" if self.browsers else str(self.location)

    @property
    def manifest(self) -> Path:
        """The browser reads exactly this file."""
        return self.directory / f"{HOST_NAME}.json"


class TableError(UnusableFileError):
    """browsers.toml of the user cannot be used; the reason names row, field and correction."""


def known_browsers(mcpb_home: Path | None = None) -> tuple[Browser, ...]:
    """Return all rows: built-in ones, and the user's from `mcpb_home`.

    Raises:
        TableError: the user's file is invalid.
    """
    ours = _shipped_rows()
    if mcpb_home is None:
        return tuple(ours.values())
    path = HomeLayout(mcpb_home).browsers
    try:
        known = tuple((ours | _decode_rows(_read_content(path))).values())
        _check_borrowing(known)
    except TableError as error:
        raise TableError(path, error.reason) from error
    return known


def find_browser(name: str, browsers: Sequence[Browser]) -> Browser | None:
    """Return the row with this name."""
    return next((browser for browser in browsers if browser.name == name), None)


def find_nearest(name: str, browsers: Sequence[Browser]) -> str:
    """Return the row closest to an unknown name, title or program; empty without one."""
    spellings = {
        spelling.lower(): browser.name
        for browser in reversed(browsers)  # of a program that several share, the first row's
        for spelling in (*browser.programs, browser.title, browser.name)
    }
    near = difflib.get_close_matches(name.lower(), spellings, n=1)
    return spellings[near[0]] if near else ""


def browser_of_program(program: str, browsers: Sequence[Browser]) -> Browser | None:
    """Return the first browser that may have this executable, by its whole path."""
    name = PurePosixPath(program).name
    named = [browser for browser in browsers if name in browser.programs]
    placed = [browser for browser in named if any(part in program for part in browser.installed)]
    return next(iter(placed or named), None)


# ── Targets ─────────────────────────────────────────────────────────────────────────────────────────────────


def user_targets(browser: Browser, machine: Machine, browsers: Sequence[Browser]) -> list[Target]:
    """Wherever this browser may look for this user's hosts, on this machine; each folder once."""
    return _each_folder_once(
        _make_target(browser, place, machine, browsers) for place in _places_of(browser, machine.system)
    )


def present_targets(browsers: Sequence[Browser], machine: Machine, exists: Exists) -> list[Target]:
    """Return the directories of browsers that were used here, unless they must be named; each once."""
    return _each_folder_once(
        _make_target(browser, place, machine, browsers)
        for browser in browsers
        if not browser.named_only
        for place in _used_places(browser, machine, browsers, exists)
    )


def installed_browsers(browsers: Sequence[Browser], machine: Machine, exists: Exists) -> list[Browser]:
    """Return the browsers whose programs are on `PATH`, on macOS in /Applications; used here or not."""
    names = [program for browser in browsers for program in browser.programs]
    if machine.system == "macos":
        apps = [machine.root / "Applications" / f"{name}.app" for name in names]
        programs = [app / app.stem for app in apps if exists(app)]
    else:
        path = machine.environ.get("PATH", os.defpath)
        found = [shutil.which(name, path=path) for name in dict.fromkeys(names)]
        programs = [Path(each) for each in found if each and not _is_snap(each)]
    rows = [_row_of(program, browsers) for program in programs]
    return list({row.name: row for row in rows if row and not row.named_only}.values())


def _row_of(program: Path, browsers: Sequence[Browser]) -> Browser | None:
    """Return the row of a program, by the file that its link names if a row has that."""
    return browser_of_program(os.path.realpath(program), browsers) or browser_of_program(
        str(program), browsers
    )


def _is_snap(program: str) -> bool:
    return Path(program).is_relative_to("/snap") or os.path.realpath(program) == "/usr/bin/snap"


def named_targets(
    browser: Browser, machine: Machine, browsers: Sequence[Browser], exists: Exists
) -> list[Target]:
    """Return the directories of a named browser; if it was not used here, those that it will certainly use.

    An empty list: the table has no directory of it for this system.
    """
    places = list(_used_places(browser, machine, browsers, exists))
    places = places or [place for place in _places_of(browser, machine.system) if not place.hedge]
    return _each_folder_once(_make_target(browser, place, machine, browsers) for place in places)


def system_target(browser: Browser, machine: Machine) -> Target | None:
    """Return the browser's directory of hosts for all users, or None if unknown."""
    folder = browser.system.get(machine.system)
    if folder is None:
        return None
    directory = machine.root / folder.lstrip("/")
    return Target(browser.title, browser.kind, directory, browser.name, level="system")


def user_data_dir_target(user_data_dir: Path) -> Target:
    """Return the directory that a Chromium with `--user-data-dir` reads instead of the user's."""
    directory = user_data_dir / _CHROMIUMS
    return Target("Chromium", "chromium", directory, data=user_data_dir, location=user_data_dir)


def directory_target(directory: Path, kind: Kind) -> Target:
    """Return a directory of manifests that the user names."""
    return Target("", kind, directory, location=directory)


def folder_target(directory: Path, kind: Kind, browser: str = "") -> Target:
    """Return a known directory of manifests, as if the user had named it."""
    if not browser and kind == "chromium" and directory.name == _CHROMIUMS:
        return user_data_dir_target(directory.parent)
    return replace(directory_target(directory, kind), browser=browser)


def kind_of_directory(directory: Path, machine: Machine, browsers: Sequence[Browser]) -> Kind:
    """Return the kind of manifests in a directory, by the table or by its name (see `_manifests_folder`)."""
    for browser in browsers:
        targets = [*user_targets(browser, machine, browsers), system_target(browser, machine)]
        if any(target and target.directory == directory for target in targets):
            return browser.kind
    is_chromiums = directory.is_relative_to(machine.root / "etc")  # where it writes the name as Firefox does
    return "firefox" if directory.name == "native-messaging-hosts" and not is_chromiums else "chromium"


def _make_target(browser: Browser, place: Place, machine: Machine, browsers: Sequence[Browser]) -> Target:
    data = _settings_path(place.data, browser.kind, machine)
    directory = _lending_directory(browser, place, machine, browsers) / _manifests_folder(
        browser.kind, machine
    )
    return Target(browser.title, browser.kind, directory, browser.name, data)


def _used_places(
    browser: Browser, machine: Machine, browsers: Sequence[Browser], exists: Exists
) -> Iterator[Place]:
    for place in _places_of(browser, machine.system):
        is_there = exists(_settings_path(place.data, browser.kind, machine))
        if is_there and (not place.hedge or exists(_lending_directory(browser, place, machine, browsers))):
            yield place


def _lending_directory(browser: Browser, place: Place, machine: Machine, browsers: Sequence[Browser]) -> Path:
    """Return the browser's directory of manifests: its own, or that of the browser it borrows from."""
    if not place.borrows:
        return _settings_path(place.data, browser.kind, machine)
    lender = find_browser(place.borrows, browsers)
    assert lender, f"{browser.name} borrows from {place.borrows}, which is no row"
    return _settings_path(_places_of(lender, machine.system)[0].data, lender.kind, machine)


def _each_folder_once(targets: Iterable[Target]) -> list[Target]:
    found: dict[Path, Target] = {}
    for target in targets:
        known = found.setdefault(target.directory, target)
        if target.browsers not in known.browsers.split(", "):
            found[target.directory] = replace(known, browsers=f"{known.browsers}, {target.browsers}")
    return list(found.values())


def _places_of(browser: Browser, system: System) -> tuple[Place, ...]:
    return browser.linux if system == "linux" else browser.macos


def _settings_path(data: str, kind: Kind, machine: Machine) -> Path:
    if data.startswith("~/"):
        return machine.user_home / data.removeprefix("~/")
    if machine.system == "macos":
        return machine.user_home / "Library/Application Support" / data
    names = ("CHROME_CONFIG_HOME", "XDG_CONFIG_HOME") if kind == "chromium" else ("XDG_CONFIG_HOME",)
    chosen = [Path(machine.environ.get(name, "")) for name in names]
    usual = machine.user_home / ".config"
    return next((path for path in chosen if path.is_absolute()), usual) / data


def _manifests_folder(kind: Kind, machine: Machine) -> str:
    """Never inside one profile: a manifest serves all profiles of a user data directory."""
    return (
        "native-messaging-hosts" if (kind, machine.system) == ("firefox", "linux") else "NativeMessagingHosts"
    )


# ── Reading the table ───────────────────────────────────────────────────────────────────────────────────────


def _read_content(path: Path) -> bytes:
    """Nothing, where there is no file."""
    try:
        if path.is_file():  # a pipe would wait for its writer
            return path.read_bytes()
        if not (path.exists() or path.is_symlink()):
            return b""
        raise TableError(None, "it is not a file: remove it, or put the table there")
    except OSError as error:
        raise TableError(None, f"it cannot be read: {error.strerror}") from error


@cache
def _shipped_rows() -> dict[str, Browser]:
    """Read the package's own table, which does not change while a process runs."""
    return _decode_rows((resources.files("manifests") / "browsers.toml").read_bytes())


def _decode_rows(content: bytes) -> dict[str, Browser]:
    """By name, in their order."""
    found = _parse_toml(content)
    for key in found:
        if key != "browser":
            raise TableError(None, f"there is no {key} outside of a row; begin each row with [[browser]]")
    listed = found.get("browser", [])
    if not isinstance(listed, list):
        raise TableError(
            None, "there can be several browsers: begin each row with [[browser]], not [browser]"
        )
    rows: dict[str, Browser] = {}
    for number, fields in enumerate(listed, start=1):
        browser = _decode_row(fields, number)
        if browser.name in rows:
            raise TableError(
                None, f'row {number} ("{browser.name}"): name: another row has it; write one of them'
            )
        rows[browser.name] = browser
    return rows


def _parse_toml(content: bytes) -> dict[str, Any]:
    try:
        return tomllib.loads(content.decode())
    except tomllib.TOMLDecodeError as error:
        raise TableError(None, f"it is not valid TOML: {error}") from error
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise TableError(None, f"it is not valid TOML: line {line} is not UTF-8") from error
    except RecursionError:
        raise TableError(None, "it is not valid TOML: it is nested too deeply") from None


def _decode_row(fields: Any, number: int) -> Browser:
    name = fields.get("name") if isinstance(fields, dict) else None
    where = f'row {number} ("{name}")' if isinstance(name, str) else f"row {number}"
    try:
        browser = msgspec.convert(fields, Browser)
    except msgspec.ValidationError as error:
        raise TableError(None, f"{where}: {_explain_row(error)}") from None
    if fault := next(_find_faults(browser), ""):
        raise TableError(None, f"{where}: {fault}")
    return browser


def _explain_row(error: msgspec.ValidationError) -> str:
    """Return for instance `linux[0].dta: there is no such field; did you mean data?`."""
    problem = explain(error)
    match problem.kind:
        case ProblemKind.UNKNOWN:
            shape = Place if problem.path else Browser
            near = _suggest_choice(problem.actual, shape.__struct_fields__)
            return f"{problem.field}: there is no such field{near}"
        case ProblemKind.MISSING:
            return f"{problem.field}: it is missing"
        case ProblemKind.CHOICE:
            choices = get_args(Kind if problem.path == "kind" else System)
            return f"{problem.path}: there is no {problem.actual}{_suggest_choice(problem.actual, choices)}"
    return describe_problem(error, is_toml=True)


def _suggest_choice(given: str, choices: Sequence[str]) -> str:
    near = difflib.get_close_matches(given, choices, n=1, cutoff=0.5)
    return f"; did you mean {near[0]}?" if near else f"; there are {', '.join(choices)}"


def _find_faults(browser: Browser) -> Iterator[str]:
    """Yield faults of a row that its type does not exclude, with their remedies."""
    if not _NAME.fullmatch(browser.name):
        yield "name: use lower-case letters and digits, with hyphens between them"
    if not (browser.linux or browser.macos or browser.windows):
        yield "it says nowhere where the browser looks: give linux, macos or windows"
    for where, place, _ in _all_places(browser):
        if fault := _path_fault(place.data):
            yield f"{where}.data: {fault}"
    for system, folder in browser.system.items():
        if fault := _path_fault(folder):
            yield f"system.{system}: {fault}"
        if not folder.startswith("/"):
            yield f"system.{system}: {folder} is not absolute; begin with /"


def _all_places(browser: Browser) -> Iterator[tuple[str, Place, System]]:
    """Each with what the file calls it, for instance `linux[0]`."""
    for system in get_args(System):
        for index, place in enumerate(_places_of(browser, system)):
            yield f"{system}[{index}]", place, system


def _path_fault(path: str) -> str:
    parts = PurePosixPath(path.removeprefix("~/")).parts
    if not is_single_line(path):
        return "it has a control character; write the name as the folder has it"
    if path.startswith("~") and not path.startswith("~/"):
        return f"{path} would be a folder of that name; begin with ~/ for your home directory"
    if ".." in parts:
        return f"{path} climbs; write where it leads, without .."
    if parts in {(), ("/",)}:
        return f'"{path}" is not the folder of a browser alone; name that'
    return ""


def _check_borrowing(browsers: Sequence[Browser]) -> None:
    """Check all rows: one that replaces a built-in row may have lent its directory to others."""
    for browser in browsers:
        for where, place, system in _all_places(browser):
            if place.borrows and (fault := _borrowing_fault(browser, place, system, browsers)):
                raise TableError(None, f'row "{browser.name}": {where}.borrows: {fault}')


def _borrowing_fault(browser: Browser, place: Place, system: System, browsers: Sequence[Browser]) -> str:
    lender = find_browser(place.borrows, browsers)
    if lender is None:
        near = find_nearest(place.borrows, browsers)
        return f"there is no row {place.borrows}" + (f"; did you mean {near}?" if near else "")
    if lender.kind != browser.kind:
        return f"{lender.name} is of the kind {lender.kind}, whose manifests {browser.name} cannot read"
    theirs = _places_of(lender, system)
    if not theirs:
        return f"{lender.name} has no place on {system}; give it one"
    if theirs[0].borrows:
        return f"{lender.name} itself borrows from {theirs[0].borrows}; name that"
    return ""
