"""Directories of manifests to check: usual ones, registered ones, and those of running browsers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from install.browsers import (
    Browser,
    Target,
    find_browser,
    folder_target,
    named_targets,
    present_targets,
    system_target,
    user_data_dir_target,
)
from install.checks.ledger_and_wrapper import InstallationFiles
from install.checks.profiles import chromium_extensions, firefox_extensions, firefox_profiles, is_used_in
from install.checks.running_browsers import RunningBrowser, its_machine
from install.findings import (
    Finding,
    FindingCode,
    Level,
    Message,
    Part,
    make_register_command,
    path_value,
    public_value,
)
from install.ledger import Entry
from install.machine import Machine
from install.plan.apply import read_place
from native_host.protocol.untrusted_text import escape
from native_host.system.home_layout import foreign_home
from native_host.system.untrusted_files import resolved


def usual_targets(
    machine: Machine, rows: Sequence[Browser], here: InstallationFiles, names: Sequence[str]
) -> list[Target]:
    """Return the directories of present or named browsers, and without names all registered ones."""
    if names:
        named = [row for name in names if (row := find_browser(name, rows))]
        found = [target for row in named for target in named_targets(row, machine, rows, _exists)]
        return list({target.directory: target for target in found}.values())
    present = present_targets(rows, machine, _exists)
    known = {target.directory for target in present}
    registered = [_named_target(entry, rows) for entry in (here.ledger.manifests() if here.ledger else ())]
    others = [target for target in registered if target.directory not in known]
    return [*present, *(target for target in others if _exists(target.directory.parent))]


def all_users_target(target: Target, machine: Machine, rows: Sequence[Browser]) -> Target | None:
    """Return the directory for all users that belongs to this one; for a bare one that of Chromium."""
    name = target.browser or ("chromium" if target.data else "")
    row = find_browser(name, rows)
    return system_target(row, machine) if row else None


def _exists(path: Path) -> bool:
    return read_place(path).mode != 0


def _named_target(entry: Entry, rows: Sequence[Browser]) -> Target:
    """Return a registered directory with its display name."""
    directory = Path(entry.path).parent
    target = folder_target(directory, entry.kind, entry.browser)
    row = find_browser(entry.browser, rows)
    if row is None:
        return target
    return replace(target, browsers=row.title, location=directory.parent, data=directory.parent)


# ── Another home ────────────────────────────────────────────────────────────────────────────────────────────


def foreign_home_finding(machine: Machine) -> Finding | None:
    """Return the warning that `HOME` belongs to another user, as `sudo` may leave it, and is ignored.

    Code: home-of-another-user.
    """
    home = foreign_home(machine.environ)
    if home is None:
        return None
    template = (
        "HOME is {home}, which belongs to another user: mcpb ignores it and uses {own_home}. To examine that "
        "user's browsers, run the command as that user, without sudo"
    )
    return Finding(
        code=FindingCode.HOME_OF_ANOTHER_USER,
        hop="environment",
        template=template,
        values={"home": path_value(home), "own_home": path_value(machine.user_home)},
        level="warning",
    )


# ── Browsers that run ───────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class UnusualDirectory:
    """Unusual directory of a running browser."""

    running: RunningBrowser
    target: Target
    missing: Finding


def find_elsewhere(
    running: Sequence[RunningBrowser], usual: Sequence[Target], machine: Machine, rows: Sequence[Browser]
) -> list[UnusualDirectory]:
    """Return the directories of running browsers outside of the `usual` ones; each once."""
    folders = [folder for target in usual for folder in (target.data, target.directory.parent) if folder]
    known = {resolved(folder) for folder in folders}
    found: dict[Path, UnusualDirectory] = {}
    for each in running:
        for place in _places_of(each, machine, rows):
            if resolved(place.target.directory.parent) not in known:
                found.setdefault(place.target.directory, place)
    return list(found.values())


def _places_of(
    running: RunningBrowser, machine: Machine, rows: Sequence[Browser]
) -> Iterator[UnusualDirectory]:
    # Brave looks in its usual place all the same (brave-core: app/brave_main_delegate.cc).
    if running.user_data_dir is not None and not running.browser.name.startswith("brave"):
        target = user_data_dir_target(running.user_data_dir)
        directory = path_value(running.user_data_dir)
        option = Message(template="--user-data-dir {directory}", values={"directory": directory})
        yield _elsewhere_of(FindingCode.USER_DATA_DIR, running, target, option)
        return
    its = its_machine(running, machine)
    changed = [
        name
        for name in ("CHROME_CONFIG_HOME", "XDG_CONFIG_HOME")
        if its.environ.get(name) != machine.environ.get(name)
    ]
    targets = named_targets(running.browser, its, rows, _exists) if changed else []
    usual = named_targets(running.browser, machine, rows, _exists) if changed else []
    if {target.directory for target in usual} & {target.directory for target in targets}:
        return  # it goes by another variable, or by none
    for target in targets[:1]:
        yield _elsewhere_of(
            FindingCode.SETTINGS_FOLDER, running, target, _describe_variables(changed, its.environ)
        )


def _describe_variables(names: Sequence[str], environ: Mapping[str, str]) -> Message:
    values = {name: path_value(escape(environ.get(name, ""))) for name in names}
    return Message(template=" and ".join(f"{name}={{{name}}}" for name in names), values=values)


def _elsewhere_of(
    code: FindingCode, running: RunningBrowser, place: Target, started_with: Part
) -> UnusualDirectory:
    """Return a fault if the extension is there, else a note: other programs start browsers without it too."""
    title = running.browser.title
    data = place.data or place.directory.parent
    target = replace(place, browsers=title, location=data, browser="")  # selected by its directory
    level: Level = "fault" if _has_extension(target, data) else "note"
    missing = Finding(
        code=code,
        hop="browser",
        template="{browser} (process {pid}) was started with {option}, and looks for hosts only in "
        "{directory}, where mcpb is not registered",
        values={
            "browser": public_value(title),
            "pid": public_value(running.pid),
            "option": started_with,
            "directory": path_value(data),
        },
        command=make_register_command(target),
        level=level,
    )
    return UnusualDirectory(running, target, missing)


def _has_extension(target: Target, data: Path) -> bool:
    if target.kind == "firefox":
        return bool(firefox_extensions(firefox_profiles(data)))
    return bool(chromium_extensions(data)) or is_used_in(data)
