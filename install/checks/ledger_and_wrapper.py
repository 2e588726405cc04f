"""Checks of the ledger and the wrapper of an installation."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec

from install import wrapper
from install.findings import (
    Command,
    Finding,
    FindingCode,
    Level,
    Part,
    foreign_value,
    make_register_command,
    path_value,
    public_value,
)
from install.installation import InstallationPaths
from install.ledger import Entry, Ledger, LedgerError
from install.plan.apply import LARGEST_FILE_BYTES, read_place
from install.plan.install_plan import ledger_of, registered_targets
from install.plan.ownership import is_our_wrapper, manifest_stranger, wrapper_stranger
from install.program_check import HEAD_BYTES, Program, program_fault
from native_host import __version__
from native_host.system.home_layout import mcpb_home
from native_host.system.untrusted_files import closed_folder, head, link, status


@dataclass(frozen=True)
class InstallationFiles:
    """Files of one installation, for this user or for all."""

    home: InstallationPaths
    ledger: Ledger | None = None
    """None: it does not exist, or it is unreadable, see `ledger_fault`."""
    ledger_fault: Finding | None = None

    @property
    def is_registered(self) -> bool:
        """The wrapper was written, as far as the ledger knows."""
        return self.wrapper_entry is not None

    @property
    def wrapper_entry(self) -> Entry | None:
        """Ledger entry of the wrapper."""
        return self.ledger.find_entry(self.home.wrapper) if self.ledger else None

    def is_strangers(self, file: Path) -> bool:
        """Return whether the installer replaces a manifest only with --replace."""
        entry = self.ledger.find_entry(file) if self.ledger else None
        return bool(manifest_stranger(file, entry, self.home.wrapper, read_place))


def read_installation(home: InstallationPaths) -> InstallationFiles:
    """Read the files of an installation."""
    if read_place(home.ledger).mode and read_place(home.ledger).content is None:
        return InstallationFiles(home, ledger_fault=_no_ledger(home.ledger))
    try:
        return InstallationFiles(home, ledger_of(home, read_place))
    except LedgerError as error:
        return InstallationFiles(
            home,
            ledger_fault=_ledger_fault(
                "the ledger cannot be used: {reason}", reason=foreign_value(str(error))
            ),
        )


def _no_ledger(path: Path) -> Finding:
    """Return the finding for a missing ledger."""
    template = "{file} is not a readable file. Move it away and run the command again: {command}"
    aside = Command(("mv", path_value(path), path_value(f"{path}.damaged")))
    return _ledger_fault(template, file=path_value(path), command=aside)


def _ledger_fault(template: str, **values: Part) -> Finding:
    return Finding(
        code=FindingCode.LEDGER_UNREADABLE, hop="wrapper", template=template, values=values, level="warning"
    )


def look_at_program(path: Path) -> Program:
    """Read the program at a path as a browser would, and whether this user can execute it."""
    leads_to, found = link(path), status(path)
    if found is None:
        closed = closed_folder(path)
        return Program(leads_to=leads_to, closed_by=str(closed or ""))
    first = head(path, HEAD_BYTES) or b""
    return Program(found.st_mode, os.access(path, os.X_OK), first, leads_to)


def wrapper_findings(here: InstallationFiles) -> list[Finding]:
    """Return the findings about the wrapper, worst first.

    Codes: those of `program_fault`, wrapper-foreign, interpreter-gone, wrapper-home; wrapper-link,
    wrapper-exposed, wrapper-changed, wrapper-version and ledger-unreadable are warnings.
    """
    found = [*_find_faults(here), *_find_warnings(here)]
    return [*found, here.ledger_fault] if here.ledger_fault else found


def _find_faults(here: InstallationFiles) -> Iterator[Finding]:
    path, finding = here.home.wrapper, partial(_make_finding, here)
    # Lines 1 and 2 are the shebang and our mark: a script whose first line is broken is still ours.
    is_ours = not wrapper_stranger(path, here.wrapper_entry, read_place)
    if fault := program_fault(path, look_at_program):
        yield msgspec.structs.replace(
            fault, command=_make_command(here, replace=not is_ours), is_safe=is_ours
        )
        return
    content = head(path, LARGEST_FILE_BYTES) or b""
    if not is_our_wrapper(content, here.wrapper_entry):
        template = "{wrapper} was not written by mcpb, and the browser starts it"
        yield finding(
            FindingCode.WRAPPER_FOREIGN, template, command=_make_command(here, replace=True), is_safe=False
        )
        return
    made = wrapper.read_wrapper(content.decode(errors="replace"))
    if made is None:
        return  # The trial shows whether it works.
    if not os.access(made.interpreter, os.X_OK):
        template, interpreter = "{wrapper} starts {interpreter}, which is gone", path_value(made.interpreter)
        yield finding(FindingCode.INTERPRETER_GONE, template, interpreter=interpreter)
    if here.home.level == "user" and _home_of(made) != here.home.path:
        template = "{wrapper} keeps its sockets in {home}, this mcpb looks in {own_home}"
        home, own_home = path_value(_home_of(made)), path_value(here.home.path)
        yield finding(FindingCode.WRAPPER_HOME, template, home=home, own_home=own_home)


def _find_warnings(here: InstallationFiles) -> Iterator[Finding]:
    path, finding = here.home.wrapper, partial(_make_finding, here, level="warning")
    found = read_place(path)
    if not found.mode:
        return
    if stat.S_ISLNK(found.mode):
        template = "{wrapper} is a link, and mcpb wrote a file. It works, but mcpb cannot repair it"
        yield finding(
            FindingCode.WRAPPER_LINK, template, command=_make_command(here, replace=True), is_safe=False
        )
        return
    yield from _find_exposed(here)
    made = wrapper.read_wrapper(found.content.decode(errors="replace")) if found.content is not None else None
    entry = here.wrapper_entry
    if made and entry and not entry.holds(found.content):
        yield finding(FindingCode.WRAPPER_CHANGED, "{wrapper} differs from the file that mcpb wrote")
    if made and made.version != __version__:
        template = f"{{wrapper}} was written by mcpb {{version}}, this is mcpb {__version__}"
        version = public_value(made.version or "an earlier version")
        yield finding(FindingCode.WRAPPER_VERSION, template, version=version)


def _find_exposed(here: InstallationFiles) -> Iterator[Finding]:
    """Find files and directories that let other users change the program that a browser starts."""
    finding = partial(_make_finding, here, FindingCode.WRAPPER_EXPOSED, level="warning")
    for path in (here.home.wrapper, here.home.wrapper.parent, here.home.path):
        found, at = read_place(path), path_value(path)
        if found.mode and found.mode & 0o022:
            template = (
                "{path} is writable for other users, who can change the program that the browser starts"
            )
            yield finding(template, path=at, command=Command(("chmod", "go-w", at)))
        elif found.mode and not found.is_users and here.home.level == "user":
            template = "{path} belongs to another user, who can change the program that the browser starts"
            command = Command(("sudo", "chown", "-h", str(os.getuid()), at))
            yield finding(template, path=at, command=command, is_safe=False)


def _make_finding(
    here: InstallationFiles,
    code: FindingCode,
    template: str,
    *,
    level: Level = "fault",
    command: Command | None = None,
    is_safe: bool = True,
    **values: Part,
) -> Finding:
    return Finding(
        code=code,
        hop="wrapper",
        template=template,
        values={"wrapper": path_value(here.home.wrapper), **values},
        level=level,
        command=command or _make_command(here),
        is_safe=is_safe,
    )


def _make_command(here: InstallationFiles, *, replace: bool = False) -> Command:
    """Register one browser again: this also writes the wrapper and restores no browser that was removed."""
    targets = registered_targets(here.ledger, read_place)
    first = targets[0] if targets else None
    return make_register_command(first, replace=replace, for_all=here.home.level == "system")


def _home_of(made: wrapper.Wrapper) -> Path:
    return mcpb_home(made.environ)
