"""Report of all checks of an installation, in the order in which a browser reads.

`examine` reads files and starts nothing, in some 20 ms; `examine_and_try` also starts the programs of
manifests as a browser would.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec
import trio

from install.browsers import Browser, Kind, Target, find_browser, known_browsers, system_target, user_targets
from install.checks.host_trial import Trial, cancel_on_signals, try_host
from install.checks.ledger_and_wrapper import read_installation, wrapper_findings
from install.checks.manifest_directories import (
    all_users_target,
    find_elsewhere,
    foreign_home_finding,
    usual_targets,
)
from install.checks.manifest_lookup import (
    ANOTHER_MCPB,
    LARGEST_MANIFEST_BYTES,
    OUR_CALLER,
    TargetReport,
    examine_target,
)
from install.checks.other_hosts import OtherHost, find_other_hosts, neighbour_findings
from install.checks.policies import managed_policies, policy_findings
from install.checks.profiles import (
    InstalledExtension,
    chromium_extensions,
    extension_findings,
    firefox_extensions,
    firefox_profiles,
    is_used_in,
)
from install.checks.running_browsers import RunningBrowser, confinement_finding, running_browsers
from install.findings import INSTALL_COMMAND, NOTHING, Finding, FindingCode, Level, Part, public_value
from install.host_manifest import callers_in
from install.installation import InstallationPaths, system_home
from install.machine import Machine
from native_host.system.untrusted_files import is_file, resolved, status, whole


@dataclass(frozen=True, kw_only=True)
class Report:
    """Findings of an examination."""

    findings: tuple[Finding, ...] = ()
    """All, in order: wrapper, manifests (browser by browser), trials, running browsers, policies, extension,
    neighbours. `where` is a target's name; empty for findings about all browsers."""
    targets: tuple[TargetReport, ...] = ()
    neighbours: tuple[OtherHost, ...] = ()
    running: tuple[RunningBrowser, ...] = ()

    def of_level(self, level: Level) -> list[Finding]:
        """Return the findings of one level, in order."""
        return [finding for finding in self.findings if finding.level == level]


def examine(machine: Machine, home: Path, names: Sequence[str] = ()) -> Report:
    """Check wrapper, manifests, running browsers, policies, profiles and other hosts.

    `home` is mcpb's. `names` restricts the checks to these rows of the table; empty: all present browsers,
    every registered directory, and the directories of running browsers.

    Raises:
        TableError: the user's table of browsers is invalid.
    """
    return _start_examination(machine, home, names).report()


async def examine_and_try(machine: Machine, home: Path, names: Sequence[str] = ()) -> Report:
    """Examine, and start each program of mcpb that a manifest names (host_trial.py).

    It starts no program without the mark of mcpb, and none that is known to fail. A silent program takes up
    to 8 s, others about 0.3 s.

    Raises:
        TableError: the user's table of browsers is invalid.
    """
    found = _start_examination(machine, home, names)
    programs: dict[tuple[str, Kind], list[TargetReport]] = defaultdict(list)
    for target in found.targets:
        if target.program and found.may_start(target):
            programs[target.program, target.kind].append(target)
    async with cancel_on_signals(), trio.open_nursery() as nursery:
        for targets in programs.values():
            nursery.start_soon(_try_hosts, targets, found.trials)
    return found.report()


# ── What is put together ────────────────────────────────────────────────────────────────────────────────────


@dataclass
class _Examination:
    """Findings by what was looked at; `report` puts them in order."""

    environment: list[Finding] = field(default_factory=list)
    targets: list[TargetReport] = field(default_factory=list)
    wrappers: dict[str, list[Finding]] = field(default_factory=dict)
    """By their paths: this user's, and that of all users."""
    trials: dict[str, Trial] = field(default_factory=dict)
    browser: list[Finding] = field(default_factory=list)
    extension: list[Finding] = field(default_factory=list)
    neighbours: list[OtherHost] = field(default_factory=list)
    running: Sequence[RunningBrowser] = ()

    def report(self) -> Report:
        """All of it."""
        tried = [self.trials[target.title] for target in self.targets if target.title in self.trials]
        trials = [trial.finding for trial in tried if trial.finding]
        return Report(
            findings=(
                *self.environment,
                *(finding for findings in self.wrappers.values() for finding in findings),
                *(finding for target in self.targets for finding in self._of_target(target)),
                *(each for number, each in enumerate(trials) if each not in trials[:number]),
                *self.browser,
                *self.extension,
                *neighbour_findings(self.neighbours, {each.title: each.name for each in self.targets}),
            ),
            targets=tuple(self._with_findings(target) for target in self.targets),
            neighbours=tuple(self.neighbours),
            running=tuple(self.running),
        )

    def _of_target(self, target: TargetReport) -> Iterator[Finding]:
        """Another mcpb's host has nothing to be blamed for but what the trial shows, if it does."""
        trial = self.trials.get(target.title)
        for finding in target.findings:
            if not (finding.code == ANOTHER_MCPB and trial and trial.finding):
                yield finding

    def _with_findings(self, target: TargetReport) -> TargetReport:
        """Return the target with the faults of the wrapper, or of its trial."""
        trial = self.trials.get(target.title)
        failed = trial is not None and trial.finding is not None and trial.finding.level == "fault"
        return msgspec.structs.replace(
            target,
            is_startable=target.is_startable and self.may_start(target) and not failed,
            findings=tuple(self._of_target(target)),
        )

    def may_start(self, target: TargetReport) -> bool:
        """Return whether it is a wrapper of mcpb without a known fault."""
        if not target.is_ours:
            return {finding.code for finding in target.findings} == {ANOTHER_MCPB}
        findings = self.wrappers.get(str(resolved(Path(target.program))), [])
        return target.is_startable and not any(finding.level == "fault" for finding in findings)


def _start_examination(machine: Machine, home: Path, names: Sequence[str]) -> _Examination:
    rows = known_browsers(home)
    running = [
        each
        for each in running_browsers(machine, rows, os.getuid())
        if not names or each.browser.name in names
    ]
    found = _check_registrations(machine, rows, home, names, running)
    if finding := foreign_home_finding(machine):
        found.environment.append(finding)
    found.running = running
    used = _used_browsers(found.targets, running, rows)
    extensions = {target.title: _check_extensions(target, running, machine, rows) for target in found.targets}
    for each in running:
        if finding := confinement_finding(each):
            name = _profile_name(each.browser, found.targets)
            found.browser.append(msgspec.structs.replace(finding, where=name))
    for browser in used:
        found.browser += _check_policies(browser, machine, found.targets)
    for target in found.targets:
        found.extension += _of_extension(target, extensions[target.title])
    found.neighbours = find_other_hosts(_listed_targets(found.targets, machine, rows))
    return found


# ── Wrapper and manifests ───────────────────────────────────────────────────────────────────────────────────


def _check_registrations(
    machine: Machine,
    rows: Sequence[Browser],
    home: Path,
    names: Sequence[str] = (),
    running: Sequence[RunningBrowser] = (),
) -> _Examination:
    here, for_all = (
        read_installation(InstallationPaths(home, machine.user_home)),
        read_installation(system_home(machine)),
    )
    found = _Examination()
    usual = usual_targets(machine, rows, here, names)
    for target in usual:
        found.targets.append(examine_target(target, all_users_target(target, machine, rows), here, for_all))
    for each in find_elsewhere(running, usual, machine, rows):
        if each.missing.level == "fault" or status(each.target.manifest):
            system = system_target(each.running.browser, machine)
            report = examine_target(each.target, system, here, for_all, each.missing)
            if ANOTHER_MCPB not in {finding.code for finding in report.findings}:  # it has that one's doctor
                found.targets.append(report)
        else:
            found.browser.append(each.missing)
    if not found.targets and not names:
        found.browser.append(_no_browser())
    started = {str(resolved(Path(target.program))) for target in found.targets if target.is_ours}
    for each_home in (here, for_all):
        path = str(resolved(each_home.home.wrapper))
        if each_home.is_registered or each_home.ledger_fault or path in started:
            found.wrappers[path] = wrapper_findings(each_home)
    return found


def _no_browser() -> Finding:
    return Finding(
        code=FindingCode.NO_BROWSER,
        hop="browser",
        template="No browser that mcpb knows has been used here. Register mcpb with installed ones, or with "
        "the directory of another one (--user-data-dir or --dir)",
        command=INSTALL_COMMAND,
    )


# ── Browsers ────────────────────────────────────────────────────────────────────────────────────────────────


def _used_browsers(
    targets: Sequence[TargetReport], running: Sequence[RunningBrowser], rows: Sequence[Browser]
) -> list[Browser]:
    names = [target.browser for target in targets] + [each.browser.name for each in running]
    return [row for name in dict.fromkeys(names) if (row := find_browser(name, rows))]


def _check_policies(browser: Browser, machine: Machine, targets: Sequence[TargetReport]) -> list[Finding]:
    system = system_target(browser, machine)
    is_for_all = system is not None and is_file(system.manifest)
    findings = policy_findings(browser, managed_policies(browser, machine), has_system_manifest=is_for_all)
    return [msgspec.structs.replace(finding, where=_profile_name(browser, targets)) for finding in findings]


def _profile_name(browser: Browser, targets: Sequence[TargetReport]) -> Part:
    """Return the name of its target, which other browsers may share."""
    found = (target.name for target in targets if target.browser == browser.name)
    return next(found, public_value(browser.title))


# ── The extension ───────────────────────────────────────────────────────────────────────────────────────────


def _check_extensions(
    target: TargetReport, running: Sequence[RunningBrowser], machine: Machine, rows: Sequence[Browser]
) -> list[InstalledExtension] | None:
    """In the profiles of the browsers that look into this folder; None where their profiles are not known."""
    directory = Path(target.manifest).parent
    sharing = [
        known.data
        for row in rows
        for known in user_targets(row, machine, rows)
        if known.directory == directory and known.data is not None
    ]
    if target.kind == "chromium":
        known = [chromium_extensions(folder) for folder in dict.fromkeys(sharing or [directory.parent])]
        found = [each for extensions in known if extensions for each in extensions]
        return None if None in known and not found else found
    profiles = [profile for folder in sharing for profile in firefox_profiles(folder)]
    profiles += [each.profile for each in running if each.profile and each.browser.name == target.browser]
    return firefox_extensions(list(dict.fromkeys(profiles))) if sharing else None


def _of_extension(target: TargetReport, found: Sequence[InstalledExtension] | None) -> list[Finding]:
    if found is None or target.is_removed:
        return []
    if not found and target.kind == "chromium" and is_used_in(Path(target.manifest).parent.parent):
        return []  # it was loaded some seconds ago
    manifest = whole(Path(target.reads), LARGEST_MANIFEST_BYTES) if target.reads else None
    return extension_findings(target.name, target.kind, found, callers_in(manifest or b"", target.kind))


# ── Trials ──────────────────────────────────────────────────────────────────────────────────────────────────


async def _try_hosts(targets: Sequence[TargetReport], trials: dict[str, Trial]) -> None:
    """Browsers of one kind start the same program in the same way: once is enough."""
    first = targets[0]
    trial = await try_host(Path(first.program), first.kind, OUR_CALLER[first.kind], Path(first.reads))
    if finding := trial.finding:
        command = first.command if finding.command == INSTALL_COMMAND else finding.command
        where = first.name if len(targets) == 1 else NOTHING
        finding = msgspec.structs.replace(finding, where=where, command=command)
        trial = replace(trial, finding=finding)
    trials.update({target.title: trial for target in targets})


# ── Neighbours ──────────────────────────────────────────────────────────────────────────────────────────────


def _listed_targets(
    targets: Sequence[TargetReport], machine: Machine, rows: Sequence[Browser]
) -> list[Target]:
    """Each folder once: the users', then those of all users."""
    own = [
        Target(target.title, target.kind, Path(target.manifest).parent, target.browser) for target in targets
    ]
    shared = [system for target in own if (system := all_users_target(target, machine, rows))]
    return list({target.directory: target for target in reversed([*own, *shared])}.values())[::-1]
