"""What a browser finds that looks for our host: the user's manifest, that for all users, and the program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from install import wrapper
from install.browsers import Kind, Target
from install.checks.ledger_and_wrapper import Installed, look_at_program
from install.findings import Finding, Level, registering, shell_line
from install.host_manifest import manifest_faults, origin, program_named_in
from install.plan.apply import LARGEST_FILE_BYTES
from install.program_check import program_fault
from native_host.protocol.wire import EXTENSION_ID, FIREFOX_ID
from native_host.system.untrusted_files import closed_folder, head, link, resolved, status, whole

OUR_CALLER: dict[Kind, str] = {"chromium": origin(EXTENSION_ID), "firefox": FIREFOX_ID}

LARGEST_MANIFEST_BYTES = 8 * 1024 * 1024
"""Browsers know no bound."""

FOREIGN_PROGRAM = "manifest-foreign-program"
ANOTHER_MCPB = "manifest-of-another-mcpb"


class TargetReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One folder of manifests: what a browser that looks there finds."""

    title: str
    """Of the browsers, for people; no other target has it. The `where` of its findings."""
    browser: str
    """The row of the table; empty for a folder that was named by hand."""
    kind: Kind
    manifest: str
    """Where the user's manifest is, or would be."""
    reads: str = ""
    """The manifest that the browser takes: the user's, or that for all users. Empty when there is none."""
    program: str = ""
    """What it makes the browser start; empty when it cannot be used."""
    is_ours: bool = False
    """That is a wrapper of ours."""
    is_removed: bool = False
    """The person took this browser out: that it has no manifest is no fault."""
    is_startable: bool = False
    """As far as files tell, this browser can start our host."""
    command: str = ""
    """Registers it, whatever is wrong."""
    findings: tuple[Finding, ...] = ()
    """Of this folder, what the browser stumbles over first comes first."""


@dataclass(frozen=True)
class _Manifest:
    """One that is there."""

    file: Path
    content: bytes
    reading: Sequence[Finding] = ()
    """What is wrong with the file itself. Firefox then looks for another one; Chromium does not."""
    starting: Sequence[Finding] = ()
    """What is wrong with the program that it names."""
    program: Path | None = None
    is_ours: bool = False

    @property
    def findings(self) -> list[Finding]:
        """All, in the browser's order."""
        return [*self.reading, *self.starting]


def examine_target(
    target: Target,
    system: Target | None,
    here: Installed,
    for_all: Installed,
    missing: Finding | None = None,
) -> TargetReport:
    """As a browser looks there; `system` is where it looks for hosts of all users. Codes: those of
    `manifest_faults` and `program_fault`, manifest-missing (or `missing` in its place), manifest-unreadable,
    manifest-shadows, FOREIGN_PROGRAM, ANOTHER_MCPB; browser-removed is a note.
    """
    own = _read(target, (here, for_all))
    all_users = _read(system, (here, for_all)) if system else None
    taken = _taken(target.kind, own, all_users)
    is_replacing = here.is_strangers(target.manifest)
    command = _command(target if taken is None or taken is own else system or target, replace=is_replacing)
    is_removed = taken is None and _is_removed(target, here)
    if taken is None:
        findings = [missing or (_removed(target) if is_removed else _missing(target))]
    else:
        findings = list(_judged(target, own, all_users, taken))
    is_known = here.ledger is not None and here.ledger.entry(target.manifest) is not None
    is_safe = own is not None and taken is own and is_known and not is_replacing
    return TargetReport(
        title=target.title,
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
                where=target.title,
                command=finding.command or command,
                is_safe=is_safe and not finding.command,
            )
            for finding in findings
        ),
    )


def _taken(kind: Kind, own: _Manifest | None, all_users: _Manifest | None) -> _Manifest | None:
    """Chromium takes the user's manifest if there is one, Firefox the first that it can use."""
    if own is None or (kind == "firefox" and own.reading and all_users and not all_users.reading):
        return all_users
    return own


def _judged(
    target: Target, own: _Manifest | None, all_users: _Manifest | None, taken: _Manifest
) -> Iterator[Finding]:
    if taken is own and own.findings and all_users and not all_users.findings:
        instead = f"{target.title} takes it instead of {all_users.file}, which is all right"
        text = f"{own.file} is broken, and {instead}: {own.findings[0].text}"
        yield _finding("manifest-shadows", text)
    if taken is not own and own is not None:
        for finding in own.findings:
            text = f"{finding.text}. {target.title} takes {taken.file} instead"
            yield msgspec.structs.replace(
                finding, text=text, level="warning", command=_command(target, replace=True)
            )
    yield from taken.findings


# ── One manifest ────────────────────────────────────────────────────────────────────────────────────────────


def _read(target: Target, installations: Sequence[Installed]) -> _Manifest | None:
    """None where a browser sees none, also for a link that leads nowhere."""
    file = target.manifest
    if folder := closed_folder(file):
        text = f"{file} cannot be read: you may not enter {folder}"
        open_it = shell_line("chmod u+rwx", str(folder))
        return _Manifest(file, b"", reading=[_finding("manifest-unreadable", text, command=open_it)])
    if status(file) is None:
        return None
    content = whole(file, LARGEST_MANIFEST_BYTES)
    if content is None:
        return _Manifest(file, b"", reading=[_finding("manifest-unreadable", f"{file} cannot be read")])
    program = program_named_in(content, target.kind)
    is_ours = program is not None and any(_is_same(program, each.home.wrapper) for each in installations)
    return _Manifest(
        file=file,
        content=content,
        reading=manifest_faults(content, file, target.kind, OUR_CALLER[target.kind]),
        starting=[_foreign(file, program)] if program and not is_ours else [],
        program=program,
        is_ours=is_ours,
    )


def _is_same(program: Path, wrapper_file: Path) -> bool:
    return resolved(program) == resolved(wrapper_file)


def _foreign(file: Path, program: Path) -> Finding:
    """What is wrong with a program that is not our wrapper (whose faults are said once, for all browsers)."""
    if fault := program_fault(program, look_at_program):
        return msgspec.structs.replace(fault, hop="manifest", text=f"{file}: {fault.text}")
    content = head(program, LARGEST_FILE_BYTES)
    starts = f"{file} makes the browser start {program}"
    if content is not None and wrapper.is_ours(content.decode(errors="replace")):
        return _finding(ANOTHER_MCPB, f"{starts}, which another installation of mcpb wrote")
    return _finding(FOREIGN_PROGRAM, f"{starts}, which is not mcpb's")


# ── No manifest ─────────────────────────────────────────────────────────────────────────────────────────────


def _missing(target: Target) -> Finding:
    """Also for a link that leads nowhere."""
    file = target.manifest
    if leads_to := link(file):
        text = f"{file} is a link to {leads_to}, which does not exist"
    else:
        text = f"{target.title} has no host manifest: there is no {file}"
    return _finding("manifest-missing", text)


def _is_removed(target: Target, here: Installed) -> bool:
    removed = here.ledger.removed if here.ledger else ()
    return (target.browser or str(target.directory)) in removed or str(target.directory) in removed


def _removed(target: Target) -> Finding:
    text = (
        f"{target.title} was taken out with mcpb uninstall-native-host. To bring it back, register it again"
    )
    return _finding("browser-removed", text, "note")


def _command(target: Target, *, replace: bool) -> str:
    return registering(target, replace=replace, for_all=target.level == "system")


def _finding(code: str, text: str, level: Level = "fault", command: str = "") -> Finding:
    return Finding(code=code, hop="manifest", text=text, level=level, command=command)
