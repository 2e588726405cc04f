"""Restores host manifests of Claude in Chrome that an earlier mcpb shimmed.

`install-native-host --shim`, removed since, pointed them at a script of mcpb. This module plans the way back.
A manifest without a backup stays, with its script. Without a ledger, all scripts stay.
"""

from __future__ import annotations

import stat
from collections.abc import Collection, Sequence
from pathlib import Path

from install.browsers import Target
from install.host_manifest import program_named_in
from install.installation import InstallationPaths
from install.ledger import Ledger, draft_path, new_ledger
from install.plan.install_plan import find_backups
from install.plan.ownership import Look, refused_file, refused_manifest_folder, refused_view
from install.plan.steps import Plan, Remove, Step, Write
from native_host.existing_channel.channel_messages import CLAUDES
from native_host.system.home_layout import HomeLayout

_SCRIPT_MARK = b"#!/bin/sh\n# Written by `mcpb install-native-host --shim` from "


def restore_shimmed(
    plan: Plan,
    home: InstallationPaths,
    known: Ledger | None,
    look: Look,
    usual: Sequence[Target],
    directories: Collection[Path] | None = None,
) -> tuple[list[Step], set[str]]:
    """Return the steps for these directories (None: all), and the paths of the ledger entries they settle."""
    steps, settled = list[Step](), set[str]()
    ledger = known or new_ledger(home.path, home.user_home, "")
    manifests = [Path(entry.path) for entry in ledger.entries if entry.what == "shimmed"]
    manifests += [target.directory / f"{name}.json" for target in usual for name in CLAUDES]
    for path in dict.fromkeys(manifests):
        is_meant = directories is None or path.parent in directories
        if is_meant and _restore_manifest(plan, steps, path, home, ledger, look):
            settled.add(str(path))
    left = {
        path.stem for path in manifests if str(path) not in settled and _read_names(path, home, ledger, look)
    }
    for script in (_script_path(home, name) for name in CLAUDES if known and name not in left):
        content, entry = look(script).content or b"", ledger.find_entry(script)
        if content.startswith(_SCRIPT_MARK) or (entry and entry.holds(content)):
            steps.append(Remove(script, content))
        settled.add(str(script))
    return steps, settled


def _restore_manifest(
    plan: Plan, steps: list[Step], path: Path, home: InstallationPaths, ledger: Ledger, look: Look
) -> bool:
    """Return whether the ledger's entry is settled."""
    found, entry, is_shimmed = look(path), ledger.find_entry(path), _read_names(path, home, ledger, look)
    if not (is_shimmed or entry):
        return False
    if refusal := refused_view(path, look) or (found.mode and refused_manifest_folder(path.parent, look)):
        plan.refusals.append(refusal)
    backup = next(reversed(find_backups(home.backup, path, look)), home.backup)
    original = look(backup := Path(entry.backup) if entry and entry.backup else backup)
    if is_shimmed and (found.content is None or original.content is None):
        reason = refused_file(path, found) or f"its backup in {home.backup} is missing"
        plan.notes.append(f"{path} is not restored, and {_script_path(home, path.stem)} stays: {reason}")
        return False
    if original.content is not None:
        mode, draft = stat.S_IMODE(original.mode), draft_path(path, ledger.install_id)
        if is_shimmed:
            steps.append(Write(path, original.content, mode, found.content, draft, original.mtime_ns))
        steps.append(Remove(backup, original.content))
    return True


def _script_path(home: InstallationPaths, name: str) -> Path:
    return HomeLayout(home.path).bin / f"shim-{name}"


def _read_names(path: Path, home: InstallationPaths, ledger: Ledger, look: Look) -> bool:
    """Return whether the manifest names our script, or may name it: a link or a closed file."""
    found, entry = look(path), ledger.find_entry(path)
    is_shimmed = program_named_in(found.content or b"", "chromium") == _script_path(home, path.stem)
    return is_shimmed or bool(refused_file(path, found) or (entry and entry.holds(found.content)))
