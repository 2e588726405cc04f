"""Check of a program before a browser starts it. It runs nothing. Sans-IO."""

from __future__ import annotations

import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from install.findings import Finding, FindingCode, Message, Part, path_value, public_value

HEAD_BYTES = 256
"""Bytes that the kernel reads of a `#!` line (BINPRM_BUF_SIZE)."""


@dataclass(frozen=True)
class Program:
    """State of a program's place, links followed. `mode` is 0 if nothing exists."""

    mode: int = 0
    is_executable: bool = False
    head: bytes = b""
    leads_to: str = ""
    """Target of the link, if the place itself is a link."""
    closed_by: str = ""
    """The folder on the way that this user may not enter: what is behind it cannot be said."""


LookAtProgram = Callable[[Path], Program]


def program_fault(path: Path, look: LookAtProgram) -> Finding | None:
    """Return the reason why a browser cannot start `path`; None without a fault.

    Codes: program-missing, program-not-a-file, program-not-executable, program-shebang. Browsers distinguish
    at best the first: the others end in "has exited".
    """
    found = look(path)
    if found.closed_by:
        code, template = FindingCode.PROGRAM_NOT_EXECUTABLE, "{program}: you may not enter {directory}"
        return _make_finding(code, template, path, directory=path_value(found.closed_by))
    if not found.mode and found.leads_to:
        template = "{program} does not exist: it is a link to {destination}"
        return _make_finding(
            FindingCode.PROGRAM_MISSING, template, path, destination=path_value(found.leads_to)
        )
    if not found.mode:
        return _make_finding(FindingCode.PROGRAM_MISSING, "{program} does not exist", path)
    if not stat.S_ISREG(found.mode):
        return _make_finding(FindingCode.PROGRAM_NOT_A_FILE, "{program} is not a file", path)
    if not found.is_executable:
        template, mode = (
            "{program} is not executable (mode {mode})",
            public_value(f"{found.mode & 0o777:04o}"),
        )
        return _make_finding(FindingCode.PROGRAM_NOT_EXECUTABLE, template, path, mode=mode)
    if reason := _shebang_fault(found.head, path, look):
        template = "the first line of {program} names {interpreter}"
        return _make_finding(FindingCode.PROGRAM_SHEBANG, template, path, interpreter=reason)
    return None


def _make_finding(code: FindingCode, template: str, program: Path, **values: Part) -> Finding:
    return Finding(
        code=code, hop="wrapper", template=template, values={"program": path_value(program), **values}
    )


def _shebang_fault(head: bytes, path: Path, look: LookAtProgram) -> Message | None:
    if not head.startswith(b"#!"):
        return None
    line = head.removeprefix(b"#!").partition(b"\n")[0].strip(b" \t")
    words = line.replace(b"\t", b" ").split(b" ", 1)
    name = words[0].decode(errors="replace")
    if not name:
        return Message(template="no interpreter")
    if name.endswith("\r"):
        return _interpreter_message(
            "the interpreter {interpreter}: the file has Windows line endings", repr(name)
        )
    found = look(path.parent / name)
    if not found.mode:
        return _interpreter_message("the interpreter {interpreter}, which does not exist", name)
    if not (stat.S_ISREG(found.mode) and found.is_executable):
        return _interpreter_message("the interpreter {interpreter}, which is not executable", name)
    return None


def _interpreter_message(template: str, name: str) -> Message:
    return Message(template=template, values={"interpreter": path_value(name)})
