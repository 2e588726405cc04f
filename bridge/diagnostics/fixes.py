"""Fixes of `mcpb doctor --fix`: only mcpb's own files, and no new registration."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from install.findings import Command, Message, Part, path_value, public_value
from install.installation import RegisteredHost
from install.plan import apply
from install.plan import install_plan as planning
from install.plan.steps import Step, Write
from native_host.ipc import endpoint
from native_host.system.home_layout import HomeLayout
from native_host.system.private_files import PrivateFileError, check_directory

OPEN = 0o077
"""Others may enter, or more: too much for sockets."""
WRITABLE = 0o022


def apply_fixes(host: RegisteredHost, run_directories: Sequence[Path]) -> Iterator[Part]:
    """Do it, and say what was done, thing by thing.

    `run_directories` are those of `endpoint.candidates`.

    Raises:
        LedgerError: what was installed cannot be read.
        ApplyError: the disk refuses.
    """
    ours = {host.home.path: WRITABLE, host.home.wrapper.parent: WRITABLE}
    ours |= dict.fromkeys(run_directories, OPEN)
    for directory, bits in ours.items():
        if is_open_to_others(directory, bits):
            directory.chmod(0o700)
            yield Command(("chmod", "700", path_value(directory)))
    for directory in run_directories:
        yield from _sweep_directory(directory)
    plan = planning.plan_repair(host, apply.read_place)
    if plan.steps:
        apply.apply_plan(plan)
        for step in plan.steps:
            if _is_news(step):
                yield Message(template="wrote {file}", values={"file": path_value(step.path)})


def is_open_to_others(directory: Path, bits: int = OPEN) -> bool:
    """Return whether it is a directory of mcpb, not a link, with one of these bits."""
    try:
        found = directory.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and bool(found.st_mode & bits)


def _is_news(step: Step) -> bool:
    """Return whether a step is worth reporting: the ledger is written with each change."""
    return isinstance(step, Write) and not step.path.match(HomeLayout.ledger.name)


def _sweep_directory(directory: Path) -> Iterator[Part]:
    with suppress(PrivateFileError, OSError):  # the report says it
        check_directory(directory)
        if left := endpoint.find_leftovers(directory):
            endpoint.sweep(directory)
            values = {
                "directory": path_value(directory),
                "files": public_value(", ".join(path.name for path in left)),
            }
            yield Message(
                template="removed files of dead native hosts in {directory}: {files}", values=values
            )
