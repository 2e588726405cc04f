"""Plan of an uninstallation: removes the files of the ledger, and those with mcpb's content. Sans-IO.

Files that were moved away return, and so do manifests that a shim of an earlier mcpb changed
(restore_shimmed.py). Files of others stay.
"""

from __future__ import annotations

import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from install.browsers import Target
from install.extension_copies import Files
from install.installation import InstallationPaths
from install.ledger import Entry, Ledger, new_ledger
from install.plan.install_plan import (
    find_backups,
    is_ours,
    ledger_of,
    remove_drafts,
    remove_ledger,
    settle_entries,
    write_around,
)
from install.plan.ownership import (
    Look,
    is_our_manifest,
    is_our_wrapper,
    refused_manifest_folder,
    refused_view,
    refused_wrapper_folder,
)
from install.plan.restore_shimmed import restore_shimmed
from install.plan.steps import Discard, EndSession, Move, Plan, Remove, RemoveCopy, RemoveEmptyDirectory, Step
from native_host import __version__


@dataclass(frozen=True)
class _Place:
    """A file that may be ours."""

    path: Path
    is_wrapper: bool
    entry: Entry | None


def plan_uninstall(
    home: InstallationPaths,
    usual: Sequence[Target],
    look: Look,
    *,
    kept: Sequence[Path] = (),
    folders: Sequence[Path] = (),
    sessions: Sequence[Path] = (),
    copies: Mapping[Path, Files] | None = None,
) -> Plan:
    """Remove everything.

    `usual` are the directories that may have a manifest without a ledger; `kept` are mcpb's other files to
    remove, and `folders` are removed if they are empty then. `sessions` are the sockets of named sessions,
    and `copies` the unchanged copies of the extension.

    Raises:
        LedgerError: it is unreadable.
    """
    plan = Plan(home.path)
    ledger = ledger_of(home, look)
    places = [_wrapper_place(home, ledger), *_registered_places(home, ledger, usual, look)]
    restoring, _settled = restore_shimmed(plan, home, ledger, look, usual)
    plan.refusals += _find_refusals(home, ledger, places, look)
    if plan.refusals:
        return plan
    steps: list[Step] = [*map(EndSession, sessions)]
    steps += [*(remove_drafts(ledger, look) if ledger else []), *restoring]
    for place in places:
        _remove_step(plan, steps, place, home, look)
    made = [Path(path) for path in ledger.directories] if ledger else []
    steps += [RemoveEmptyDirectory(path) for path in _inner_first(made) if look(path).mode]
    # The ledger is not written: it knows all of this, and a full disk may be why mcpb is to go.
    steps += [RemoveCopy(path, files) for path, files in (copies or {}).items()]
    plan.steps += [*steps, *(Discard(path, stat.S_ISDIR(look(path).mode)) for path in kept)]
    remove_ledger(plan, home, look(home.ledger).content, look)
    plan.steps += [RemoveEmptyDirectory(path) for path in [*folders, *home.directories] if look(path).mode]
    return plan


def plan_removal(
    home: InstallationPaths, targets: Sequence[Target], look: Look, *, usual: Sequence[Target] = ()
) -> Plan:
    """Remove the manifests of these targets, and with the last one the wrapper.

    `usual` are the directories that may have a manifest without a ledger.

    Raises:
        LedgerError: it is unreadable.
    """
    plan = Plan(home.path)
    ledger = ledger_of(home, look)
    chosen = {target.manifest for target in targets} | _of_browsers(targets, ledger)
    registered = _registered_places(home, ledger, [*targets, *usual], look)
    places = [place for place in registered if place.path in chosen]
    if not any(look(place.path).mode for place in registered if place not in places):
        places.append(_wrapper_place(home, ledger))
    directories = {target.directory for target in targets}
    restoring, restored = restore_shimmed(plan, home, ledger, look, [*targets, *usual], directories)
    plan.refusals += _find_refusals(home, ledger, places, look)
    if plan.refusals:
        return plan
    steps = [*(remove_drafts(ledger, look) if ledger else []), *restoring]
    for place in places:
        _remove_step(plan, steps, place, home, look)
    if ledger is None:
        if not steps:
            return plan
        ledger = new_ledger(home.path, home.user_home, __version__)
    gone = {str(place.path) for place in places} | restored
    entries = tuple(entry for entry in settle_entries(ledger.entries, look) if entry.path not in gone)
    emptied = _find_emptied(ledger, entries, gone)
    if str(home.wrapper) in gone:
        emptied.append(home.wrapper.parent)
    steps += [RemoveEmptyDirectory(path) for path in emptied if look(path).mode]
    out = [name for target in targets for name in (target.browser, str(target.directory)) if name]
    ends = msgspec.structs.replace(
        ledger,
        entries=entries,
        directories=tuple(path for path in ledger.directories if Path(path) not in emptied),
        removed=tuple(dict.fromkeys([*ledger.removed, *out])),
    )
    begins = msgspec.structs.replace(ledger.begin_changes(_existing_paths(gone, look)), removed=ends.removed)
    write_around(plan, home, begins=begins, steps=steps, ends=ends, look=look)
    return plan


# ── Whose, and what stands in the way ───────────────────────────────────────────────────────────────────────


def _registered_places(
    home: InstallationPaths, ledger: Ledger | None, usual: Sequence[Target], look: Look
) -> list[_Place]:
    """Return the places of the ledger, and the usual places that have a manifest of mcpb."""
    entries = {Path(entry.path): entry for entry in (ledger.manifests() if ledger else ())}
    found = [target.manifest for target in usual if is_ours(home, ledger, target, look)]
    return [_Place(path, False, entries.get(path)) for path in dict.fromkeys([*entries, *found])]


def _of_browsers(targets: Sequence[Target], ledger: Ledger | None) -> set[Path]:
    """Wherever else the ledger has these browsers; a folder may have been there then and not now."""
    names = {target.browser for target in targets} - {""}
    entries = ledger.manifests() if ledger else ()
    return {Path(entry.path) for entry in entries if entry.browser in names}


def _wrapper_place(home: InstallationPaths, ledger: Ledger | None) -> _Place:
    return _Place(home.wrapper, True, ledger.find_entry(home.wrapper) if ledger else None)


def _find_refusals(
    home: InstallationPaths, ledger: Ledger | None, places: Sequence[_Place], look: Look
) -> list[str]:
    found = [refused_view(place.path, look) for place in places]
    found += [
        refused_wrapper_folder(place.path.parent, look)
        if place.is_wrapper
        else refused_manifest_folder(place.path.parent, look)
        for place in places
        if look(place.path).mode
    ]
    if ledger:
        found.append(refused_wrapper_folder(home.ledger.parent, look))
    return [refusal for refusal in dict.fromkeys(found) if refusal]


def _is_ours(place: _Place, home: InstallationPaths, content: bytes, look: Look) -> bool:
    if place.is_wrapper:
        return is_our_wrapper(content, place.entry)
    return is_our_manifest(content, place.entry, home.wrapper, look)


def _existing_paths(paths: Iterable[str], look: Look) -> set[str]:
    return {path for path in paths if look(Path(path)).mode}


# ── Steps ───────────────────────────────────────────────────────────────────────────────────────────────────


def _remove_step(plan: Plan, steps: list[Step], place: _Place, home: InstallationPaths, look: Look) -> None:
    """Remove what is ours, and put back what was there before us."""
    found = look(place.path)
    is_in_the_way = found.mode != 0
    if found.content is not None and _is_ours(place, home, found.content, look):
        steps.append(Remove(place.path, found.content))
        is_in_the_way = False
    elif is_in_the_way:
        plan.notes.append(f"{place.path} is not ours and stays")
    backup = Path(place.entry.backup) if place.entry and place.entry.backup else None
    for kept in find_backups(home.backup, place.path, look):
        if kept != backup:
            plan.notes.append(f"{kept} was in the place {place.path} as well; it stays where it is now")
    if backup is None or not look(backup).mode:
        return
    if is_in_the_way or not look(place.path.parent).mode:
        plan.notes.append(f"{backup} was in the place {place.path}; it stays where it is now")
        return
    steps.append(Move(backup, place.path))


def _find_emptied(ledger: Ledger, left: Sequence[Entry], gone: set[str]) -> list[Path]:
    """Return the directories made for removed files only."""
    return [
        folder
        for folder in _inner_first(list(map(Path, ledger.directories)))
        if any(Path(path).is_relative_to(folder) for path in gone)
        and not any(Path(entry.path).is_relative_to(folder) for entry in left)
    ]


def _inner_first(folders: Sequence[Path]) -> list[Path]:
    return sorted(folders, key=lambda folder: len(folder.parts), reverse=True)
