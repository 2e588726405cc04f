"""Everything about an installation that files and processes tell, in the order in which a browser meets it.

`examine` reads files and starts nothing; `examine_and_try` also starts what the manifests name, as a browser
would. `first_fault` is the cheap question: can any browser start our host?
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from install.findings import Finding, Level
from install.machine import Machine


class TargetReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One folder of manifests: what a browser that reads it finds."""

    title: str
    """Of the browsers, for people. `Finding.where` has it, too."""
    browser: str
    """The row of the table; empty for a folder that was named by hand."""
    kind: str
    """chromium or firefox."""
    manifest: str
    """The file that the browser reads: its own user's, or where that is missing (for a Firefox: unusable) the
    one for all users; of the user's if there is neither."""
    level: str = "user"
    """user or system: whose manifest that is."""
    program: str = ""
    """What the manifest makes the browser start; empty without a usable manifest."""
    is_ours: bool = False
    """It starts our wrapper."""
    is_removed: bool = False
    """The person took this browser out: that it has no manifest is no fault."""
    is_startable: bool = False
    """As far as files tell, this browser can start our host."""
    findings: tuple[Finding, ...] = ()
    """Of this folder alone, what the browser stumbles over first comes first."""


class Report(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What an examination found."""

    findings: tuple[Finding, ...] = ()
    """All, in order: wrapper, manifests (browser by browser), trials, running browsers, policies, extension,
    neighbours. `where` is a target's title, or a file or profile."""
    targets: tuple[TargetReport, ...] = ()

    def of_level(self, level: Level) -> list[Finding]:
        """The findings of one level, in order."""
        return [finding for finding in self.findings if finding.level == level]


def examine(machine: Machine, home: Path, names: Sequence[str] = ()) -> Report:
    """Look at wrapper, manifests, running browsers, policies, profiles and neighbours. Starts no process.

    `home` is mcpb's, `names` are rows of the table: only these browsers (empty: all that are there, and every
    folder that we are registered in).

    Raises:
        TableError: the person's own table of browsers cannot be used.
    """
    raise NotImplementedError


async def examine_and_try(machine: Machine, home: Path, names: Sequence[str] = ()) -> Report:
    """As `examine`, and start each program that a manifest names once (install/trial.py), where no fault says
    already that it cannot start. Takes up to 8 s for a program that is silent, usually 0.3 s.
    """
    raise NotImplementedError


def first_fault(machine: Machine, home: Path) -> Finding | None:
    """Why no browser can start our host; None when one can, or when no browser that we know is there.

    Reads wrapper and manifests only: for `mcpb status`.
    """
    raise NotImplementedError
