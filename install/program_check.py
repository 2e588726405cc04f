"""Whether a browser could start a program: what it finds in its place, before anything is run. Pure."""

from __future__ import annotations

import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from install.findings import Finding

HEAD_BYTES = 256
"""Of a `#!` line the kernel reads no more (BINPRM_BUF_SIZE)."""


@dataclass(frozen=True)
class Program:
    """What is in a program's place, links followed. `mode` is 0 when nothing is."""

    mode: int = 0
    is_executable: bool = False
    """By this user."""
    head: bytes = b""
    """The first HEAD_BYTES of a regular file."""
    leads_to: str = ""
    """Where a link leads, if the place itself is one."""
    closed_by: str = ""
    """The folder on the way that this user may not enter: what is behind it cannot be said."""


LookAtProgram = Callable[[Path], Program]


def program_fault(path: Path, look: LookAtProgram) -> Finding | None:
    """Why a browser cannot start `path`; None when nothing speaks against it.

    Codes: program-missing, program-not-a-file, program-not-executable, program-shebang. Browsers tell the
    first from the others at best: those end in "has exited".
    """
    found = look(path)
    if found.closed_by:
        text = f"{path}, which the browser is to start, is behind {found.closed_by}, which you may not enter"
        return _finding("program-not-executable", text)
    if not found.mode:
        dangling = f": it is a link to {found.leads_to}" if found.leads_to else ""
        return _finding("program-missing", f"{path}, which the browser is to start, does not exist{dangling}")
    if not stat.S_ISREG(found.mode):
        return _finding("program-not-a-file", f"{path}, which the browser is to start, is not a file")
    if not found.is_executable:
        return _finding(
            "program-not-executable", f"{path} may not be executed (mode {found.mode & 0o777:04o})"
        )
    if reason := _shebang_fault(found.head, path, look):
        return _finding("program-shebang", f"the first line of {path} names {reason}")
    return None


def _finding(code: str, text: str) -> Finding:
    return Finding(code=code, hop="wrapper", text=text)


def _shebang_fault(head: bytes, path: Path, look: LookAtProgram) -> str:
    if not head.startswith(b"#!"):
        return ""
    line = head.removeprefix(b"#!").partition(b"\n")[0].strip(b" \t")
    words = line.replace(b"\t", b" ").split(b" ", 1)
    name = words[0].decode(errors="replace")
    if not name:
        return "no interpreter"
    if name.endswith("\r"):
        return f"the interpreter {name!r}: the file has the line ends of Windows"
    found = look(path.parent / name)
    if not found.mode:
        return f"the interpreter {name}, which does not exist"
    if not (stat.S_ISREG(found.mode) and found.is_executable):
        return f"the interpreter {name}, which may not be executed"
    return ""
