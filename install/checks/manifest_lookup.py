"""Lookup of the host by a browser: the user's manifest, that for all users, and the program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from install import wrapper
from install.browsers import Kind, Target
from install.checks.ledger_and_wrapper import InstallationFiles, look_at_program
from install.findings import (
    Command,
    Finding,
    FindingCode,
    Level,
    Part,
    make_register_command,
    name_target,
    path_value,
)
from install.host_manifest import extension_origin, manifest_faults, program_named_in
from install.plan.apply import LARGEST_FILE_BYTES
from install.program_check import program_fault
from native_host.protocol.wire import EXTENSION_ID, FIREFOX_ID
from native_host.system.untrusted_files import closed_folder, head, link, resolved, status, whole

OUR_CALLER: dict[Kind, str] = {"chromium": extension_origin(EXTENSION_ID), "firefox": FIREFOX_ID}

LARGEST_MANIFEST_BYTES = 8 * 1024 * 1024

FOREIGN_PROGRAM = FindingCode.MANIFEST_FOREIGN_PROGRAM
ANOTHER_MCPB = FindingCode.MANIFEST_OF_ANOTHER_MCPB


class TargetReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One folder of manifests: what a browser that looks there finds."""

    name: Part
    """Title of the browsers, with its directory as a value; unique. `where` of its findings."""
    browser: str
    """The row of the table; empty for a folder that was named by hand."""
    kind: Kind
    manifest: str
    reads: str = ""
    """Manifest that the browser uses: the user's, or that for all users; empty without one."""
    program: str = ""
    """Program that it names; empty if it is invalid."""
    is_ours: bool = False
    """True if the program is a wrapper of mcpb."""
    is_removed: bool = False
    """True if the user removed this browser: a missing manifest is no fault then."""
    is_startable: bool = False
    """As far as files tell, this browser can start our host."""
    command: Command | None = None
    findings: tuple[Finding, ...] = ()
    """Findings of this directory, in the order in which the browser meets them."""

    @property
    def title(self) -> str:
        """Name for users."""
        return self.name.text


@dataclass(frozen=True)
class _Manifest:
    """One that is there."""

    file: Path
    content: bytes
    reading: Sequence[Finding] = ()
    """Faults of the file itself. Firefox then reads the next one; Chromium does not."""
    starting: Sequence[Finding] = ()
    program: Path | None = None
    is_ours: bool = False

    @property
    def findings(self) -> list[Finding]:
        """All, in the browser's order."""
        return [*self.reading, *self.starting]


def examine_target(
    target: Target,
    system: Target | None,
    here: InstallationFiles,
    for_all: InstallationFiles,
    missing: Finding | None = None,
) -> TargetReport:
    """Check a directory as a browser reads it; `system` is the one for all users.

    Codes: those of `manifest_faults` and `program_fault`, manifest-missing (or `missing` in its place),
    manifest-unreadable, manifest-shadows, FOREIGN_PROGRAM, ANOTHER_MCPB; browser-removed is a note.
    """
    own = _read_manifest(target, (here, for_all))
    all_users = _read_manifest(system, (here, for_all)) if system else None
    taken = _used_manifest(target.kind, own, all_users)
    is_replacing = here.is_strangers(target.manifest)
    command = _make_command(
        target if taken is None or taken is own else system or target, replace=is_replacing
    )
    is_removed = taken is None and _is_removed(target, here)
    if taken is None:
        findings = [missing or (_removed_finding(target) if is_removed else _missing_finding(target))]
    else:
        findings = list(_judge_manifests(target, own, all_users, taken))
    is_known = here.ledger is not None and here.ledger.find_entry(target.manifest) is not None
    is_safe = own is not None and taken is own and is_known and not is_replacing
    return TargetReport(
        name=name_target(target),
        browser=target.browser,
        kind=target.kind,
        manifest=str(target.manifest),
        reads=str(taken.file) if taken else "",
        program=str(taken.program) if taken and taken.program and not taken.reading else "",
        is_ours=taken is not None and taken.is_ours,
        is_removed=is_removed,
        is_startable=taken is not None and not taken.findings,
        command=command,
        findings=tuple(
            msgspec.structs.replace(
                finding,
                where=name_target(target),
                command=finding.command or command,
                is_safe=is_safe and not finding.command,
            )
            for finding in findings
        ),
    )


def _used_manifest(kind: Kind, own: _Manifest | None, all_users: _Manifest | None) -> _Manifest | None:
    """Return the manifest in use: in Chromium the user's if present, in Firefox the first valid one."""
    if own is None or (kind == "firefox" and own.reading and all_users and not all_users.reading):
        return all_users
    return own


def _judge_manifests(
    target: Target, own: _Manifest | None, all_users: _Manifest | None, taken: _Manifest
) -> Iterator[Finding]:
    if taken is own and own.findings and all_users and not all_users.findings:
        template = "{file} is broken, and {browser} takes it instead of {usable}, which is usable: {fault}"
        yield _make_finding(
            FindingCode.MANIFEST_SHADOWS,
            template,
            file=path_value(own.file),
            browser=name_target(target),
            usable=path_value(all_users.file),
            fault=own.findings[0],
        )
    if taken is not own and own is not None:
        for finding in own.findings:
            yield msgspec.structs.replace(
                finding,
                template=f"{finding.template}. {{browser}} takes {{taken}} instead",
                values={**finding.values, "browser": name_target(target), "taken": path_value(taken.file)},
                level="warning",
                command=_make_command(target, replace=True),
            )
    yield from taken.findings


# ── One manifest ────────────────────────────────────────────────────────────────────────────────────────────


def _read_manifest(target: Target, installations: Sequence[InstallationFiles]) -> _Manifest | None:
    """None where a browser sees none, also for a link that leads nowhere."""
    file = target.manifest
    if folder := closed_folder(file):
        template = "{file} cannot be read: you may not enter {directory}"
        command = Command(("chmod", "u+rwx", path_value(folder)))
        fault = _make_finding(
            FindingCode.MANIFEST_UNREADABLE,
            template,
            command=command,
            file=path_value(file),
            directory=path_value(folder),
        )
        return _Manifest(file, b"", reading=[fault])
    if status(file) is None:
        return None
    content = whole(file, LARGEST_MANIFEST_BYTES)
    if content is None:
        fault = _make_finding(FindingCode.MANIFEST_UNREADABLE, "{file} cannot be read", file=path_value(file))
        return _Manifest(file, b"", reading=[fault])
    program = program_named_in(content, target.kind)
    is_ours = program is not None and any(_is_same(program, each.home.wrapper) for each in installations)
    return _Manifest(
        file=file,
        content=content,
        reading=manifest_faults(content, file, target.kind, OUR_CALLER[target.kind]),
        starting=[_foreign_finding(file, program)] if program and not is_ours else [],
        program=program,
        is_ours=is_ours,
    )


def _is_same(program: Path, wrapper_file: Path) -> bool:
    return resolved(program) == resolved(wrapper_file)


def _foreign_finding(file: Path, program: Path) -> Finding:
    """Return the finding for a program that is not the wrapper, whose faults are reported once."""
    if fault := program_fault(program, look_at_program):
        return msgspec.structs.replace(
            fault,
            hop="manifest",
            template=f"{{file}}: {fault.template}",
            values={**fault.values, "file": path_value(file)},
        )
    content = head(program, LARGEST_FILE_BYTES)
    code, owner = FindingCode.MANIFEST_FOREIGN_PROGRAM, "which does not belong to mcpb"
    if content is not None and wrapper.is_ours(content.decode(errors="replace")):
        code, owner = ANOTHER_MCPB, "which another installation of mcpb wrote"
    template = f"{{file}} makes the browser start {{program}}, {owner}"
    return _make_finding(code, template, file=path_value(file), program=path_value(program))


# ── No manifest ─────────────────────────────────────────────────────────────────────────────────────────────


def _missing_finding(target: Target) -> Finding:
    """Also for a link that leads nowhere."""
    file = path_value(target.manifest)
    if leads_to := link(target.manifest):
        template = "{file} is a link to {destination}, which does not exist"
        return _make_finding(
            FindingCode.MANIFEST_MISSING, template, file=file, destination=path_value(leads_to)
        )
    template = "the native host of mcpb is not registered with {browser}: {file} does not exist"
    return _make_finding(FindingCode.MANIFEST_MISSING, template, browser=name_target(target), file=file)


def _is_removed(target: Target, here: InstallationFiles) -> bool:
    removed = here.ledger.removed if here.ledger else ()
    return (target.browser or str(target.directory)) in removed or str(target.directory) in removed


def _removed_finding(target: Target) -> Finding:
    template = "{browser} was removed with mcpb uninstall-native-host. To restore it, register it again"
    return _make_finding(FindingCode.BROWSER_REMOVED, template, "note", browser=name_target(target))


def _make_command(target: Target, *, replace: bool) -> Command:
    return make_register_command(target, replace=replace, for_all=target.level == "system")


def _make_finding(
    code: FindingCode,
    template: str,
    level: Level = "fault",
    *,
    command: Command | None = None,
    **values: Part,
) -> Finding:
    return Finding(code=code, hop="manifest", template=template, values=values, level=level, command=command)
