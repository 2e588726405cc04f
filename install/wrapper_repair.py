"""Repair of the wrapper when mcpb starts: after an upgrade in place, or if its Python is gone.

Usually there is nothing to do, so the check is one small read without imports. It repairs this installation's
wrapper only: one that starts another existing Python, is of a newer mcpb, or was edited stays.
"""
# ruff: noqa: PLC0415  (imports wait until a repair is necessary)

from __future__ import annotations

import os
import re
import sys
from contextlib import suppress
from pathlib import Path

from native_host import __version__
from native_host.system.home_layout import HomeLayout, mcpb_home, user_home

_ENOUGH_BYTES = 64 * 1024
"""Bytes for the first three lines of a wrapper."""


def repair_wrapper() -> str:
    """Repair the wrapper if necessary and possible.

    Returns:
        A message for the user; empty without a repair, also after a failure: `mcpb doctor` shows that.
    """
    stamp = _read_stamp()
    if not stamp or stamp == f"# mcpb {__version__} {sys.executable}":
        return ""
    return _repair()


def registered_interpreter() -> str:
    """Return the interpreter that the wrapper names; empty without a wrapper of mcpb."""
    return " ".join(_read_stamp().split(" ")[3:])


def _read_stamp() -> str:
    """Return the wrapper's third line, `# mcpb <version> <interpreter>`; empty without one."""
    try:
        descriptor = os.open(HomeLayout(mcpb_home()).wrapper, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            lines = os.fsdecode(file.read(_ENOUGH_BYTES)).split("\n", 3)
    except OSError:
        return ""
    return lines[2] if len(lines) > 3 and lines[2].startswith("# mcpb ") else ""


def _repair() -> str:
    from subprocess import SubprocessError

    from install.installation import InstallationPaths, RegisteredHost
    from install.interpreter import InterpreterError, current_interpreter, is_temporary
    from install.ledger import LedgerError
    from install.plan import apply
    from install.plan import install_plan as planning
    from install.plan.ownership import installed_wrapper

    if is_temporary(Path(sys.prefix)):  # A trial: its repair would not last.
        return ""
    home = InstallationPaths(mcpb_home(), user_home())
    with suppress(OSError, SubprocessError, LedgerError, InterpreterError, apply.ApplyError):
        ledger, known = (
            planning.ledger_of(home, apply.read_place),
            installed_wrapper(home.path, apply.read_place),
        )
        entry = ledger.find_entry(home.wrapper) if ledger else None
        if known is None or entry is None or not entry.holds(apply.read_place(home.wrapper).content):
            return ""
        if _release_numbers(known.version) > _release_numbers(
            __version__
        ):  # going back is for who asks for it
            return ""
        is_gone = not os.access(known.interpreter, os.X_OK)
        if not is_gone and known.interpreter != sys.executable:
            return ""
        host = RegisteredHost(home, current_interpreter(), bakes_home=known.home is not None)
        plan = planning.plan_repair(host, apply.read_place)
        if not plan.steps:
            return ""
        apply.apply_plan(plan)
        if is_gone:
            return f"Repaired the wrapper: it starts {sys.executable}, because {known.interpreter} is gone."
        return f"Repaired the wrapper: it starts mcpb {__version__} instead of {known.version}."
    return ""


def _release_numbers(version: str) -> list[int]:
    """Return the numbers of a version, without suffixes; empty if it has none."""
    return [int(number) for number in re.findall(r"\d+", re.split(r"[^\d.]", version)[0])]
