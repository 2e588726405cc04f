"""An installation as it is on disk: its ledger, its wrapper, and what is wrong with them."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec

from install import wrapper
from install.findings import Finding, Level, registering, shell_line
from install.installation import Home
from install.ledger import Entry, Ledger, LedgerError
from install.plan.apply import LARGEST_FILE_BYTES, look
from install.plan.install_plan import ledger_of, registered_targets
from install.plan.ownership import is_our_wrapper, manifest_stranger, wrapper_stranger
from install.program_check import HEAD_BYTES, Program, program_fault
from native_host import __version__
from native_host.system.home_layout import mcpb_home
from native_host.system.untrusted_files import closed_folder, head, link, status


@dataclass(frozen=True)
class Installed:
    """What is there of one installation, for this user or for all."""

    home: Home
    ledger: Ledger | None = None
    """None: there is none, or it cannot be read, which `ledger_fault` says."""
    ledger_fault: Finding | None = None

    @property
    def is_registered(self) -> bool:
        """The wrapper was written, as far as the ledger knows."""
        return self.wrapper_entry is not None

    @property
    def wrapper_entry(self) -> Entry | None:
        """What the ledger knows of the wrapper."""
        return self.ledger.entry(self.home.wrapper) if self.ledger else None

    def is_strangers(self, file: Path) -> bool:
        """Whether the installer replaces a manifest only when it is told to."""
        entry = self.ledger.entry(file) if self.ledger else None
        return bool(manifest_stranger(file, entry, self.home.wrapper, look))


def installed(home: Home) -> Installed:
    """Read what is there."""
    if look(home.ledger).mode and look(home.ledger).content is None:
        return Installed(home, ledger_fault=_no_ledger(home.ledger))
    try:
        return Installed(home, ledger_of(home, look))
    except LedgerError as error:
        return Installed(home, ledger_fault=_ledger_fault(str(error)))


def _no_ledger(path: Path) -> Finding:
    """The installer would take it for none."""
    aside = shell_line("mv", str(path), f"{path}.damaged")
    why = "is not a file that can be read"
    return _ledger_fault(f"{path} {why}. Move it away and run the command again: {aside}")


def _ledger_fault(text: str) -> Finding:
    return Finding(code="ledger-unreadable", hop="wrapper", text=text, level="warning")


def look_at_program(path: Path) -> Program:
    """What a browser would find there, and this user could execute."""
    leads_to, found = link(path), status(path)
    if found is None:
        closed = closed_folder(path)
        return Program(leads_to=leads_to, closed_by=str(closed or ""))
    first = head(path, HEAD_BYTES) or b""
    return Program(found.st_mode, os.access(path, os.X_OK), first, leads_to)


def wrapper_findings(here: Installed) -> list[Finding]:
    """What is wrong with the wrapper, worst first.

    Codes: those of `program_fault`, wrapper-foreign, interpreter-gone, wrapper-home; wrapper-link,
    wrapper-exposed, wrapper-changed, wrapper-version and ledger-unreadable are warnings.
    """
    found = [*_faults(here), *_warnings(here)]
    return [*found, here.ledger_fault] if here.ledger_fault else found


def _faults(here: Installed) -> Iterator[Finding]:
    path, finding = here.home.wrapper, partial(_finding, here)
    # Lines 1 and 2 are the shebang and our mark: a script whose first line is broken is still ours.
    is_ours = not wrapper_stranger(path, here.wrapper_entry, look)
    if fault := program_fault(path, look_at_program):
        yield msgspec.structs.replace(fault, command=_command(here, replace=not is_ours), is_safe=is_ours)
        return
    content = head(path, LARGEST_FILE_BYTES) or b""
    if not is_our_wrapper(content, here.wrapper_entry):
        text = f"{path} was not written by mcpb, and the browser starts it"
        yield finding("wrapper-foreign", text, command=_command(here, replace=True), is_safe=False)
        return
    made = wrapper.read(content.decode(errors="replace"))
    if made is None:
        return  # the trial tells whether it works
    if not os.access(made.interpreter, os.X_OK):
        yield finding("interpreter-gone", f"{path} starts {made.interpreter}, which is gone")
    if here.home.level == "user" and _home_of(made) != here.home.path:
        text = f"{path} keeps its sockets in {_home_of(made)}, this mcpb looks in {here.home.path}"
        yield finding("wrapper-home", text)


def _warnings(here: Installed) -> Iterator[Finding]:
    path, finding = here.home.wrapper, partial(_finding, here, level="warning")
    found = look(path)
    if not found.mode:
        return
    if stat.S_ISLNK(found.mode):
        text = f"{path} is a link, and mcpb wrote a file. It is started, but cannot be mended"
        yield finding("wrapper-link", text, command=_command(here, replace=True), is_safe=False)
        return
    yield from _exposed(here)
    made = wrapper.read(found.content.decode(errors="replace")) if found.content is not None else None
    entry = here.wrapper_entry
    if made and entry and not entry.holds(found.content):
        yield finding("wrapper-changed", f"{path} is not as mcpb wrote it")
    if made and made.version != __version__:
        of = made.version or "an earlier version"
        yield finding("wrapper-version", f"{path} was written by mcpb {of}, this is mcpb {__version__}")


def _exposed(here: Installed) -> Iterator[Finding]:
    """Others could change what the browser starts, with this user's rights."""
    for path in (here.home.wrapper, here.home.wrapper.parent, here.home.path):
        found = look(path)
        if found.mode and found.mode & 0o022:
            text = f"{path} can be written by others, who could change what the browser starts"
            command = shell_line("chmod go-w", str(path))
            yield _finding(here, "wrapper-exposed", text, level="warning", command=command)
        elif found.mode and not found.is_users and here.home.level == "user":
            text = f"{path} belongs to another user, who could change what the browser starts"
            command = shell_line("sudo chown -h", str(os.getuid()), str(path))
            yield _finding(here, "wrapper-exposed", text, level="warning", command=command, is_safe=False)


def _finding(
    here: Installed, code: str, text: str, *, level: Level = "fault", command: str = "", is_safe: bool = True
) -> Finding:
    command = command or _command(here)
    return Finding(code=code, hop="wrapper", text=text, level=level, command=command, is_safe=is_safe)


def _command(here: Installed, *, replace: bool = False) -> str:
    """Registering one browser again writes the wrapper as well, and brings none back that was removed."""
    targets = registered_targets(here.ledger, look)
    first = targets[0] if targets else None
    return registering(first, replace=replace, for_all=here.home.level == "system")


def _home_of(made: wrapper.Wrapper) -> Path:
    return mcpb_home(made.environ)
