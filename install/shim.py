"""Our program before another product's native host: what is written for it, and how it is taken back.

It is the one case in which a file of another product changes, and only at the person's typed word: its
manifest gets another `path` and nothing else. A copy waits in `state/backup`, with its mode and its time, and
after each step there is a manifest that works, so that a browser never finds none. Pure, as plan.py.
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from install import shim_script
from install.browsers import Target
from install.disk import LARGEST_FILE_BYTES
from install.examination.neighbours import CLAUDE_CODE, CLAUDES
from install.host import Home, Host
from install.ledger import FILE, SHIMMED, Entry, Ledger, digest, draft_path, new_ledger
from install.manifest import program_named_in, read_manifest
from install.ownership import (
    Found,
    Look,
    refused_file,
    refused_manifest_folder,
    refused_view,
    refused_wrapper_folder,
)
from install.plan import (
    backups,
    free_backup,
    ledger_of,
    make_directories,
    merged,
    refused_homes,
    remove_drafts,
    remove_ledger,
    settled,
    write_around,
)
from install.shim_script import MODULE, Shim
from install.steps import Plan, Remove, RemoveEmptyDirectory, Step, Write
from native_host import __version__
from native_host.channel_sockets import RECONNECT

UNSHIM = "mcpb install-native-host --unshim"
_REWRITES = (
    "Claude Code writes its manifest anew when it starts and finds another: then mcpb does not stand before "
    "it any more, and the same command puts it there again"
)
_UNTIL_RECONNECTED = (
    f"Until that product's extension connects anew (open {RECONNECT} in its browser, or restart it) mcpb is "
    "still between it and its host"
)

Starts = Callable[[Path], bool]
"""Whether a browser could start a program."""


@dataclass(frozen=True)
class Shimmed:
    """Another product's manifest that is to name our program."""

    name: str
    """Of the host."""
    target: Target
    path: Path
    found: Found
    program: Path | None
    """That product's own; None: the manifest does not tell, which `fault` says."""
    fault: str = ""
    """Why nothing can be done with it."""
    is_done: bool = False
    """It names our program already."""

    @property
    def before(self) -> bytes:
        """What is in it."""
        return self.found.content or b""

    def after(self, home: Home) -> bytes:
        """What will be."""
        if self.is_done:
            return self.before
        manifest = {**(read_manifest(self.before) or {}), "path": str(home.shim(self.name))}
        return msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n"


# ── To stand before it ──────────────────────────────────────────────────────────────────────────────────────


def shim(
    host: Host, targets: Sequence[Target], name: str, look: Look, starts: Starts, *, is_named: bool
) -> tuple[Plan, list[Shimmed]]:
    """Put our program before the host that each browser would start for the other product's extension.

    Args:
        name: of the host; empty: the first that could be started.
        starts: whether a program could be.
        is_named: the person named these browsers; of others, those without that product are passed over.

    Raises:
        LedgerError: it cannot be read.
    """
    home, plan = host.home, Plan(host.home.path)
    ledger = ledger_of(home, look) or new_ledger(home.path, home.user_home, host.version)
    chosen = []
    for target in targets:
        candidates = list(_candidates(home, target, [name] if name else SHIMMED, look))
        winner = next((each for each in candidates if each.program is None or starts(each.program)), None)
        if winner:
            chosen.append(winner)
        elif candidates:
            plan.refusals += [
                f"{each.path} names {each.program}, which cannot be started. {CLAUDES[each.name]} writes it "
                "anew when it is started"
                for each in candidates
            ]
        elif is_named:
            plan.refusals.append(_nothing_there(home, target, name, look))
    if not (chosen or plan.refusals):
        plan.refusals.append(_nowhere(home, targets, name, look))
    scripts = {each.name: _script(host, each) for each in chosen if each.program}
    plan.refusals += _refusals(home, chosen, scripts, ledger, look)
    if plan.refusals:
        return plan, chosen
    _plan(plan, home, chosen, scripts, ledger, look)
    if any(each.name == CLAUDE_CODE and not each.is_done for each in chosen):
        plan.notes.append(_REWRITES)
    return plan, chosen


def _candidates(home: Home, target: Target, names: Sequence[str], look: Look) -> Iterator[Shimmed]:
    if target.kind != "chromium":
        return
    for name in names:
        path = target.directory / f"{name}.json"
        found = look(path)
        if found.mode or found.is_hidden:
            yield _judged(home, name, target, path, found, look)


def _judged(home: Home, name: str, target: Target, path: Path, found: Found, look: Look) -> Shimmed:
    fault = refused_view(path, look) or refused_file(path, found)
    content = found.content or b""
    program = program_named_in(content, "chromium")
    if not fault and len(content) >= LARGEST_FILE_BYTES:
        fault = f"{path} is too long for a host manifest"
    if not fault and (program is None or (read_manifest(content) or {}).get("name") != name):
        fault = f"{path} is no host manifest of {name}"
    if fault:
        return Shimmed(name, target, path, found, None, fault)
    if program == home.shim(name):
        known = _script_in(home.shim(name), look)
        if known is None:
            fault = f"{program}, which {path} names, does not say what it stands before. First: {UNSHIM}"
            return Shimmed(name, target, path, found, None, fault)
        return Shimmed(name, target, path, found, Path(known.program), is_done=True)
    if program is not None and _script_in(program, look):
        fault = f"another mcpb stands before {name} already: {path} starts {program}"
        return Shimmed(name, target, path, found, None, fault)
    return Shimmed(name, target, path, found, program)


def _nowhere(home: Home, targets: Sequence[Target], name: str, look: Look) -> str:
    if name and (other := _other(home, targets, name, look)):
        return f"{CLAUDES[name]}'s host is registered with no browser here; {other}"
    return (
        f"no browser here has a native host of {_wanted(name)}: there is nothing to stand before. Start that "
        "product once, or name the browser's folder: --user-data-dir DIR"
    )


def _other(home: Home, targets: Sequence[Target], name: str, look: Look) -> str:
    """Which of that product's hosts is there in place of the one that was named; empty where none is."""
    found = (each for target in targets for each in _candidates(home, target, SHIMMED, look))
    other = next((each.name for each in found if each.name != name), None)
    return f"{CLAUDES[other]}'s is: --shim {other}" if other else ""


def _wanted(name: str) -> str:
    return CLAUDES[name] if name else " or ".join(CLAUDES.values())


def _nothing_there(home: Home, target: Target, name: str, look: Look) -> str:
    if target.kind == "firefox":
        return (
            f"{target.title}: that product has no extension for Firefox, so there is nothing to stand before"
        )
    if name and (other := _other(home, [target], name, look)):
        return f"{target.title}: {CLAUDES[name]}'s host is not in {target.directory}; {other}"
    return f"{target.title}: no host of {_wanted(name)} is in {target.directory}. Start that product once"


def _script_in(path: Path, look: Look) -> Shim | None:
    content = look(path).content
    return shim_script.read(content.decode(errors="replace")) if content is not None else None


def _script(host: Host, manifest: Shimmed) -> bytes:
    made = Shim(
        version=host.version,
        interpreter=str(host.interpreter),
        module=str(MODULE),
        home=str(host.home.path) if host.bakes_home else None,
        program=str(manifest.program),
    )
    return shim_script.script(made).encode()


def _refusals(
    home: Home, chosen: Sequence[Shimmed], scripts: dict[str, bytes], ledger: Ledger, look: Look
) -> list[str]:
    found = [*refused_homes(home, look), *(each.fault for each in chosen)]
    found += [refused_manifest_folder(each.path.parent, look) for each in chosen]
    for name in scripts:
        script = home.shim(name)
        found.append(refused_file(script, look(script)))
        if not _is_our_script(script, ledger.entry(script), look):
            found.append(f"{script} is not ours: mcpb did not write it. Move it away")
        programs = {str(each.program) for each in chosen if each.name == name}
        programs |= _programs_of_others(home, name, [each.path for each in chosen], ledger, look)
        if len(programs) > 1:
            found.append(
                f"the manifests of {name} start different programs ({', '.join(sorted(programs))}), and mcpb "
                "stands before one. Name the browser: --browser NAME"
            )
    return [refusal for refusal in dict.fromkeys(found) if refusal]


def _programs_of_others(
    home: Home, name: str, chosen: Collection[Path], ledger: Ledger, look: Look
) -> set[str]:
    """What our script starts for browsers that are not meant now."""
    places = [Path(entry.path) for entry in ledger.shimmed()]
    others = [path for path in places if path.stem == name and path not in chosen]
    known = _script_in(home.shim(name), look)
    return {known.program} if known and any(_names_us(home, path, ledger, look) for path in others) else set()


def _plan(
    plan: Plan,
    home: Home,
    chosen: Sequence[Shimmed],
    scripts: dict[str, bytes],
    ledger: Ledger,
    look: Look,
) -> None:
    steps: list[Step] = []
    entries = [_write_script(plan, steps, home, name, scripts[name], ledger, look) for name in scripts]
    entries += [_write_manifest(plan, steps, home, each, ledger, look) for each in chosen]
    ended = [msgspec.structs.replace(entry, before="", is_begun=False) for entry in entries]
    write_around(
        plan,
        home,
        begins=msgspec.structs.replace(ledger, entries=merged(ledger.entries, entries)),
        steps=[*remove_drafts(ledger, look), *steps],
        ends=msgspec.structs.replace(ledger, entries=merged(settled(ledger.entries, look), ended)),
        look=look,
    )


def _write_script(
    plan: Plan, steps: list[Step], home: Home, name: str, content: bytes, ledger: Ledger, look: Look
) -> Entry:
    path = home.shim(name)
    found, entry = look(path), Entry(path=str(path), what="shim", sha256=digest(content))
    if found.content == content and stat.S_IMODE(found.mode) == home.program_mode:
        plan.kept.append(path)
        return entry
    make_directories(steps, path.parent, home.directory_mode, look)
    draft = draft_path(path, ledger.install_id)
    steps.append(Write(path, content, home.program_mode, found.content, draft))
    before = digest(found.content) if found.content is not None else ""
    return msgspec.structs.replace(entry, before=before, is_begun=True)


def _write_manifest(
    plan: Plan, steps: list[Step], home: Home, manifest: Shimmed, ledger: Ledger, look: Look
) -> Entry:
    path, content = manifest.path, manifest.after(home)
    known = ledger.entry(path)
    if manifest.is_done:
        plan.kept.append(path)
        kept = _newest_backup(home, path, look) or ""
        return known or _entry(manifest, content, str(kept))
    if known and not known.is_begun:
        plan.notes.append(f"{path} was written anew by its product: mcpb did not stand before it any more")
    backup = Path(known.backup) if known and known.backup else free_backup(home.backup, path, look)
    mode, mtime_ns = stat.S_IMODE(manifest.found.mode), manifest.found.mtime_ns
    make_directories(steps, backup.parent, home.directory_mode, look)
    steps += [
        Write(
            backup,
            manifest.before,
            mode,
            look(backup).content,
            draft_path(backup, ledger.install_id),
            mtime_ns,
        ),
        Write(path, content, mode, manifest.before, draft_path(path, ledger.install_id)),
    ]
    return msgspec.structs.replace(_entry(manifest, content, str(backup)), is_begun=True)


def _entry(manifest: Shimmed, content: bytes, backup: str) -> Entry:
    return Entry(
        path=str(manifest.path),
        what="shimmed",
        sha256=digest(content),
        browser=manifest.target.browser,
        backup=backup,
    )


# ── To step back ────────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class TakenBack:
    """What puts other products' manifests back."""

    steps: list[Step] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    gone: set[str] = field(default_factory=set)
    """Places that are none of ours afterwards."""


def unshim(home: Home, look: Look, usual: Sequence[Target], directories: Collection[Path] | None) -> Plan:
    """Put back what stood there before, in all folders of manifests or in these.

    Raises:
        LedgerError: it cannot be read.
    """
    plan, ledger = Plan(home.path), ledger_of(home, look)
    taken = take_back(home, ledger, look, usual, directories)
    plan.refusals, plan.notes = taken.refusals, taken.notes
    if plan.refusals or not taken.gone:
        return plan
    ledger = ledger or new_ledger(home.path, home.user_home, __version__)
    steps = [*remove_drafts(ledger, look), *taken.steps]
    left = tuple(entry for entry in settled(ledger.entries, look) if entry.path not in taken.gone)
    if not (left or ledger.removed):
        plan.steps += steps
        remove_ledger(plan, home, look(home.ledger).content, look)
        plan.steps += [RemoveEmptyDirectory(path) for path in home.directories if look(path).mode]
        return plan
    emptied = [RemoveEmptyDirectory(path) for path in (home.wrapper.parent, home.backup) if look(path).mode]
    write_around(
        plan,
        home,
        begins=ledger.begun({path for path in taken.gone if look(Path(path)).mode}),
        steps=[*steps, *emptied],
        ends=msgspec.structs.replace(ledger, entries=left),
        look=look,
    )
    return plan


def take_back(
    home: Home,
    ledger: Ledger | None,
    look: Look,
    usual: Sequence[Target],
    directories: Collection[Path] | None = None,
) -> TakenBack:
    """The steps of it, for a plan that may do more. `usual`: where we may be without a ledger."""
    taken = TakenBack()
    entries = {Path(entry.path): entry for entry in (ledger.shimmed() if ledger else ())}
    paths = [target.directory / f"{name}.json" for target in usual for name in SHIMMED]
    found = dict.fromkeys([*entries, *(path for path in paths if _names_us(home, path, ledger, look))])
    meant = [path for path in found if directories is None or path.parent in directories]
    taken.refusals += [refusal for path in meant if (refusal := _refused(path, look))]
    if taken.refusals:
        return taken
    for path in meant:
        _put_back(taken, home, ledger, path, entries.get(path), look)
    if taken.steps:
        taken.notes.append(_UNTIL_RECONNECTED)
    for name in SHIMMED:
        left = [path for path in found if path.stem == name and str(path) not in taken.gone]
        if not any(_may_name_us(home, path, ledger, look) for path in left):
            _remove_script(taken, home.shim(name), ledger, look)
    return taken


def _refused(path: Path, look: Look) -> str:
    return refused_view(path, look) or (refused_manifest_folder(path.parent, look) if look(path).mode else "")


def _put_back(
    taken: TakenBack, home: Home, ledger: Ledger | None, path: Path, entry: Entry | None, look: Look
) -> None:
    kept = Path(entry.backup) if entry and entry.backup else _newest_backup(home, path, look)
    original = look(kept) if kept else Found()
    found = look(path)
    if stranger := refused_file(path, found):
        taken.notes.append(
            f"{stranger}: whether it names {home.shim(path.stem)} is not told, so that this and {kept} stay. "
            f"Put a file in its place, then: {UNSHIM}"
        )
        return
    if _names_us(home, path, ledger, look):
        if original.content is None or kept is None:
            taken.notes.append(
                f"{path} names {home.shim(path.stem)}, which stays: what was there before is not in "
                f"{home.backup} any more. That product writes its manifest anew when it is started"
            )
            return
        install_id = (ledger or new_ledger(home.path, home.user_home, __version__)).install_id
        mode, draft = stat.S_IMODE(original.mode), draft_path(path, install_id)
        taken.steps.append(Write(path, original.content, mode, found.content, draft, original.mtime_ns))
        taken.notes.append(f"{path} will be what it was before --shim")
    elif found.content != original.content:
        became = "was written anew by its product" if found.mode else "is gone"
        taken.notes.append(f"{path} {became}: mcpb does not stand before that host any more, and leaves it")
    if original.content is not None and kept is not None:
        taken.steps.append(Remove(kept, original.content))
    taken.gone.add(str(path))


def _newest_backup(home: Home, path: Path, look: Look) -> Path | None:
    return next(reversed(backups(home.backup, path, look)), None)


def _remove_script(taken: TakenBack, script: Path, ledger: Ledger | None, look: Look) -> None:
    found, entry = look(script), ledger.entry(script) if ledger else None
    if found.mode and not (found.content is not None and _is_our_script(script, entry, look)):
        taken.notes.append(f"{script} is not ours and stays")
    elif found.mode and not entry:
        taken.notes.append(
            f"{script} stays: without {FILE} nobody knows which manifests start it. Without mcpb it starts "
            "what it stands before. When none does any more, remove it"
        )
        return
    elif found.mode:
        if refusal := refused_wrapper_folder(script.parent, look):
            taken.refusals.append(refusal)
        taken.steps.append(Remove(script, found.content or b""))
    if found.mode or entry:
        taken.gone.add(str(script))


def _names_us(home: Home, path: Path, ledger: Ledger | None, look: Look) -> bool:
    """Also by another path of ours, where mcpb's home has been moved since."""
    content, entry = look(path).content, ledger.entry(path) if ledger else None
    if content is None:
        return False
    names_script = program_named_in(content, "chromium") == home.shim(path.stem)
    return names_script or (entry is not None and entry.holds(content))


def _may_name_us(home: Home, path: Path, ledger: Ledger | None, look: Look) -> bool:
    """What is a link by now, or closed to us, is read by the browser all the same."""
    return bool(refused_file(path, look(path))) or _names_us(home, path, ledger, look)


def _is_our_script(path: Path, entry: Entry | None, look: Look) -> bool:
    """Also where there is none."""
    content = look(path).content
    if content is None:
        return True
    return shim_script.is_ours(content.decode(errors="replace")) or (
        entry is not None and entry.holds(content)
    )
