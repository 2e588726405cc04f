"""Plan of an installation: the files to write. Sans-IO; uninstall_plan.py plans the removal.

A function reads the disk. Every plan that changes a file begins and ends with the ledger: first it has the
planned files beside the old ones, at the end the new ones.
"""

from __future__ import annotations

import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, takewhile
from pathlib import Path

import msgspec

from install import wrapper
from install.browsers import Target, folder_target
from install.host_manifest import OUR_CALLERS, manifest_text
from install.installation import InstallationPaths, RegisteredHost
from install.ledger import (
    Entry,
    Ledger,
    LedgerError,
    backup_path,
    digest_of,
    draft_path,
    ledger_draft_path,
    new_ledger,
    relocate_ledger,
)
from install.ledger import decode_ledger as read_ledger
from install.plan.ownership import (
    Look,
    installed_wrapper,
    is_our_manifest,
    is_our_wrapper,
    manifest_stranger,
    refused_file,
    refused_home,
    refused_manifest_folder,
    refused_view,
    refused_wrapper_folder,
    registered_callers,
    wrapper_stranger,
)
from install.plan.steps import MakeDirectory, Move, Plan, Remove, Step, Write
from install.targets import install_command, option_for
from install.wrapper import Wrapper


@dataclass(frozen=True)
class _File:
    """One that shall be there."""

    path: Path
    content: bytes
    mode: int
    entry: Entry
    """As it will be in the ledger, without what was there before."""
    command: str


def plan_install(
    host: RegisteredHost,
    targets: Sequence[Target],
    callers: Sequence[str],
    look: Look,
    *,
    replace: bool = False,
) -> Plan:
    """Register with each target. What was registered before, extensions and browsers, stays so.

    With `replace`, a file of others in these places is first moved to `state/backup`.

    Raises:
        LedgerError: it cannot be read.
    """
    home, plan = host.home, Plan(host.home.path)
    ledger = ledger_of(home, look) or new_ledger(home.path, home.user_home, host.version)
    files = [
        _wrapper_file(host, callers, look),
        *(_manifest_file(home, target, callers, ledger, look) for target in targets),
    ]
    plan.refusals += refused_homes(home, look)
    plan.refusals += _find_refusals(home, files, ledger, look, replace=replace)
    if plan.refusals:
        return plan
    _note_other_interpreter(plan, host, look)
    changes: list[Step] = []
    begun = [_write_step(plan, changes, file, home, ledger, look) for file in files]
    ended = [msgspec.structs.replace(entry, before="", is_begun=False) for entry in begun]
    made = [step.path for step in changes if isinstance(step, MakeDirectory)]
    known = msgspec.structs.replace(
        ledger,
        version=host.version,
        directories=unite_items(
            [path for path in ledger.directories if ledger.is_under_way or look(Path(path)).mode],
            [str(path) for path in made if path not in home.directories],
        ),
        removed=_still_removed(ledger, targets),
    )
    drafts = remove_drafts(ledger, look)
    write_around(
        plan,
        home,
        begins=msgspec.structs.replace(known, entries=merge_entries(ledger.entries, begun)),
        steps=[*drafts, *changes],
        ends=msgspec.structs.replace(
            known, entries=merge_entries(settle_entries(ledger.entries, look), ended)
        ),
        look=look,
    )
    return plan


def plan_repair(host: RegisteredHost, look: Look) -> Plan:
    """Put right what is registered and ours: the wrapper, and the ledger's manifests that are still there.

    Nothing is refused: what is not ours is passed over. Without a registration there are no steps.

    Raises:
        LedgerError: it cannot be read.
    """
    home = host.home
    ledger = ledger_of(home, look)
    if not _is_repairable(home, ledger, look):
        return Plan(home.path)
    registered = registered_targets(ledger, look)
    ours = [target for target in registered if is_ours(home, ledger, target, look)]
    plan = plan_install(host, ours, [], look)
    return Plan(home.path) if plan.refusals else plan


def _is_repairable(home: InstallationPaths, ledger: Ledger | None, look: Look) -> bool:
    entry, found = _find_entry(ledger, home.wrapper), look(home.wrapper)
    if not found.mode:
        return entry is not None
    return found.content is not None and is_our_wrapper(found.content, entry)


# ── What is known ───────────────────────────────────────────────────────────────────────────────────────────


def ledger_of(home: InstallationPaths, look: Look) -> Ledger | None:
    """Return the ledger with its current paths; None without an installation.

    Raises:
        LedgerError: it is unreadable.
    """
    content = look(home.ledger).content
    if hidden := refused_view(home.ledger, look):
        raise LedgerError(None, hidden)
    if stranger := refused_file(home.ledger, look(home.ledger)):
        reason = f"{stranger}. Move it away; mcpb then recognizes its files by their content"
        raise LedgerError(None, reason)
    if content is None:
        return None
    ledger = read_ledger(content, home.ledger)
    return relocate_ledger(ledger, home.path, home.user_home, lambda path: look(path).mode != 0)


def registered_targets(ledger: Ledger | None, look: Look) -> list[Target]:
    """Return the directories of the ledger that still have a manifest."""
    there = [target for target in known_targets(ledger) if look(target.manifest).mode]
    return [target for target in there if not is_removed(target, ledger)]


def deleted_targets(ledger: Ledger | None, look: Look) -> list[Target]:
    """Return the directories of the ledger whose manifest the user deleted, but not the browser's directory.

    They stay in the ledger until a command removes or restores them, which needs their name.
    """
    there = [target for target in known_targets(ledger) if look(target.directory.parent).mode]
    return [target for target in there if is_deleted(target, ledger, look) and not is_removed(target, ledger)]


def is_removed(target: Target, ledger: Ledger | None) -> bool:
    """Return whether the user removed this target by command. It is registered again only when named."""
    removed = ledger.removed if ledger else ()
    return target.browser in removed or str(target.directory) in removed


def is_deleted(target: Target, ledger: Ledger | None, look: Look) -> bool:
    """Return whether a manifest of mcpb is missing that no command removed.

    If the wrapper is missing as well, a removal of all files was interrupted.
    """
    entry = _find_entry(ledger, target.manifest)
    wrappers = [one.path for one in (ledger.entries if ledger else ()) if one.what == "wrapper"]
    is_gone = entry is not None and not entry.is_begun and not look(target.manifest).mode
    return is_gone and all(look(Path(path)).mode for path in wrappers)


def known_targets(ledger: Ledger | None) -> list[Target]:
    """All places of the ledger, whether or not a manifest still is there."""
    return [
        folder_target(Path(entry.path).parent, entry.kind, entry.browser)
        for entry in (ledger.manifests() if ledger else ())
    ]


def is_ours(home: InstallationPaths, ledger: Ledger | None, target: Target, look: Look) -> bool:
    """Return whether the manifest there was written by mcpb."""
    content, entry = look(target.manifest).content, _find_entry(ledger, target.manifest)
    return content is not None and is_our_manifest(content, entry, home.wrapper, look)


def _find_entry(ledger: Ledger | None, path: Path) -> Entry | None:
    return ledger.find_entry(path) if ledger else None


# ── What shall be there ─────────────────────────────────────────────────────────────────────────────────────


def _wrapper_file(host: RegisteredHost, callers: Sequence[str], look: Look) -> _File:
    home, known = host.home, installed_wrapper(host.home.path, look)
    made = Wrapper(
        version=host.version,
        interpreter=str(host.interpreter),
        home=str(home.path) if host.bakes_home else None,
        user_home=str(home.user_home) if home.level == "user" else None,
        callers=unite_items(OUR_CALLERS, known.callers if known else [], callers),
    )
    content = wrapper.make_script(made).encode()
    entry = Entry(path=str(home.wrapper), what="wrapper", sha256=digest_of(content))
    command = install_command() + (" --system" if home.level == "system" else "")
    return _File(home.wrapper, content, home.program_mode, entry, command)


def _manifest_file(
    home: InstallationPaths, target: Target, callers: Sequence[str], ledger: Ledger, look: Look
) -> _File:
    before = look(target.manifest).content
    admitted: Sequence[str] = ()
    if before is not None and is_ours(home, ledger, target, look):
        known = installed_wrapper(home.path, look)  # it has them all, where a damaged manifest tells none
        admitted = registered_callers(before, target.kind) or (known.callers if known else ())
    content = manifest_text(target.kind, home.wrapper, unite_items(OUR_CALLERS, admitted, callers)).encode()
    entry = Entry(
        path=str(target.manifest),
        what="manifest",
        sha256=digest_of(content),
        browser=target.browser,
        kind=target.kind,
    )
    return _File(target.manifest, content, home.file_mode, entry, f"{install_command()} {option_for(target)}")


# ── What stands in the way ──────────────────────────────────────────────────────────────────────────────────


def refused_homes(home: InstallationPaths, look: Look) -> list[str]:
    """Return the reasons why mcpb's home is unusable."""
    found = [refused_home(home.path, look), refused_wrapper_folder(home.wrapper.parent, look)]
    return [refusal for refusal in found if refusal]


def _find_refusals(
    home: InstallationPaths, files: Sequence[_File], ledger: Ledger, look: Look, *, replace: bool
) -> list[str]:
    found = []
    for file in files:
        folder = refused_manifest_folder(file.path.parent, look) if file.entry.what == "manifest" else ""
        stranger = "" if replace else _find_stranger(home, file, ledger, look)
        found.append(folder or stranger)
    return [refusal for refusal in dict.fromkeys(found) if refusal]


def _find_stranger(home: InstallationPaths, file: _File, ledger: Ledger, look: Look) -> str:
    """Return the reason why a file belongs to others; empty for mcpb's own, or none."""
    entry = ledger.find_entry(file.path)
    if file.entry.what == "wrapper":
        stranger = wrapper_stranger(file.path, entry, look)
    else:
        stranger = manifest_stranger(file.path, entry, home.wrapper, look)
    replaced_by = f"To move it away (uninstalling puts it back): {file.command} --replace"
    return stranger and f"{stranger}. {replaced_by}"


def _note_other_interpreter(plan: Plan, host: RegisteredHost, look: Look) -> None:
    known = installed_wrapper(host.home.path, look)
    if known and known.interpreter != str(host.interpreter):
        plan.notes.append(
            f"Browsers start the host with {host.interpreter} from now on; until now with {known.interpreter}"
        )


# ── Steps ───────────────────────────────────────────────────────────────────────────────────────────────────


def write_around(
    plan: Plan, home: InstallationPaths, *, begins: Ledger, steps: list[Step], ends: Ledger, look: Look
) -> None:
    """Add the steps between the two versions of the ledger."""
    if steps:
        _write_ledger(plan, home, begins, look(home.ledger).content, look)
    plan.steps += [step for step in steps if step not in plan.steps]
    _write_ledger(plan, home, ends, begins.encode() if steps else look(home.ledger).content, look)


def _write_ledger(
    plan: Plan, home: InstallationPaths, ledger: Ledger, before: bytes | None, look: Look
) -> None:
    if ledger.encode() == before:
        return
    make_directories(plan.steps, home.ledger.parent, home.directory_mode, look)
    draft = ledger_draft_path(home.ledger)
    if (left := look(draft).content) is not None and not any(step.path == draft for step in plan.steps):
        plan.steps.append(Remove(draft, left))
    plan.steps.append(Write(home.ledger, ledger.encode(), home.file_mode, before, draft))


def remove_ledger(plan: Plan, home: InstallationPaths, content: bytes | None, look: Look) -> None:
    """Add the removal of the ledger, the last step except for directories."""
    draft = ledger_draft_path(home.ledger)
    half = look(draft).content
    if half is not None and Remove(draft, half) not in plan.steps:
        plan.steps.append(Remove(draft, half))
    if content is not None:
        plan.steps.append(Remove(home.ledger, content))


def _write_step(
    plan: Plan, steps: list[Step], file: _File, home: InstallationPaths, ledger: Ledger, look: Look
) -> Entry:
    """Add what makes this file be there; its entry, as long as that has not been done."""
    found, entry = look(file.path), ledger.find_entry(file.path)
    backup = entry.backup if entry else ""
    if found.content == file.content and stat.S_IMODE(found.mode) == file.mode:
        plan.kept.append(file.path)
        return msgspec.structs.replace(file.entry, backup=backup)
    make_directories(steps, file.path.parent, home.directory_mode, look)
    before = found.content
    if found.mode and _find_stranger(home, file, ledger, look):
        aside = free_backup(home.backup, file.path, look)
        if not (backup and look(Path(backup)).mode):  # what stood there first comes back
            backup = str(aside)
        make_directories(steps, home.backup, home.directory_mode, look)
        steps.append(Move(file.path, aside))
        before = None
    steps.append(Write(file.path, file.content, file.mode, before, draft_path(file.path, ledger.install_id)))
    return msgspec.structs.replace(
        file.entry, before=digest_of(before) if before else "", is_begun=True, backup=backup
    )


def find_backups(directory: Path, path: Path, look: Look) -> list[Path]:
    """Return the backups of the place `path`."""
    return list(takewhile(lambda kept: look(kept).mode, _backup_names(directory, path)))


def free_backup(directory: Path, path: Path, look: Look) -> Path:
    """Return a free backup path."""
    return next(name for name in _backup_names(directory, path) if not look(name).mode)


def _backup_names(directory: Path, path: Path) -> Iterator[Path]:
    first = backup_path(directory, path)
    yield first
    yield from (first.with_name(f"{first.name}.{number}") for number in count(1))


def remove_drafts(ledger: Ledger, look: Look) -> list[Step]:
    """Return the steps that remove temporary files of an interrupted run."""
    places = [place for entry in ledger.entries for place in (entry.path, entry.backup) if place]
    drafts = [draft_path(Path(place), ledger.install_id) for place in places]
    found = [(draft, look(draft).content) for draft in drafts]
    return [Remove(draft, content) for draft, content in found if content is not None]


def make_directories(steps: list[Step], path: Path, mode: int, look: Look) -> None:
    """Add what makes this folder be there, and those above it."""
    step = MakeDirectory(path, mode)
    if look(path).mode or step in steps:
        return
    make_directories(steps, path.parent, mode, look)
    steps.append(step)


# ── The ledger, afterwards ──────────────────────────────────────────────────────────────────────────────────


def settle_entries(entries: Iterable[Entry], look: Look) -> list[Entry]:
    """Return the entries after a run, without those that an earlier run began and never wrote."""
    there = [entry for entry in entries if not entry.is_begun or look(Path(entry.path)).mode or entry.backup]
    return [msgspec.structs.replace(entry, is_begun=False) for entry in there]


def _still_removed(ledger: Ledger, targets: Sequence[Target]) -> tuple[str, ...]:
    """Return the removed browsers and directories, without those that are named now."""
    back = {name for target in targets for name in (target.browser, str(target.directory))}
    return tuple(name for name in ledger.removed if name not in back)


def merge_entries(known: Iterable[Entry], new: Iterable[Entry]) -> tuple[Entry, ...]:
    """Return one entry for each path, the new one of two, in a stable order."""
    merge_entries = {entry.path: entry for part in (known, new) for entry in part}
    return tuple(merge_entries[path] for path in sorted(merge_entries))


def unite_items(*parts: Sequence[str]) -> tuple[str, ...]:
    """Return all items, each once."""
    return tuple(dict.fromkeys(item for part in parts for item in part))
