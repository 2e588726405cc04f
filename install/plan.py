"""What an installation writes and an uninstallation removes: made here, shown by commands, done by disk.

Pure: the disk is looked at through a function that is passed in.
"""

from __future__ import annotations

import stat
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from install import wrapper
from install.browsers import Target
from install.callers import OUR_CALLERS
from install.manifest import manifest_text
from install.ownership import (
    Look,
    installed_wrapper,
    manifest_fault,
    refused_manifest,
    refused_wrapper,
    registered_origins,
    wrapper_path,
)
from install.wrapper import Wrapper

MANIFEST_MODE = 0o600
"""The browser runs as the same user; nobody else needs to know where the host is. Chromium accepts it."""


@dataclass(frozen=True)
class MakeDirectory:
    """For this user alone; its parents are there, or made by the steps before."""

    path: Path


@dataclass(frozen=True)
class Write:
    """A whole file at once, in place of exactly `before` (None: nothing was there)."""

    path: Path
    content: bytes
    mode: int
    before: bytes | None


@dataclass(frozen=True)
class Remove:
    """A file, if it still is `before`."""

    path: Path
    before: bytes


@dataclass(frozen=True)
class RemoveEmptyDirectory:
    """Only if nothing else is in it."""

    path: Path


Step = MakeDirectory | Write | Remove | RemoveEmptyDirectory


@dataclass
class Plan:
    """Steps in their order. With refusals nothing at all is done."""

    steps: list[Step] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    """What stands in the way, and what to do about it."""
    kept: list[Path] = field(default_factory=list)
    """Files that are as they should be."""


@dataclass(frozen=True)
class Host:
    """The installation that is registered."""

    home: Path
    """As `native_host.endpoint.home()` says it."""
    baked_home: Path | None
    """The same if MCPB_HOME is set, else None."""
    interpreter: Path


# ── Install ─────────────────────────────────────────────────────────────────────────────────────────────────


def install(host: Host, targets: Sequence[Target], extension_origins: Sequence[str], look: Look) -> Plan:
    """Register with each target. What was registered before, extensions and browsers, stays so."""
    plan = Plan()
    path = wrapper_path(host.home)
    known = installed_wrapper(host.home, look)
    made = Wrapper(
        interpreter=str(host.interpreter),
        home=str(host.baked_home) if host.baked_home else None,
        origins=_united(OUR_CALLERS, known.origins if known else [], extension_origins),
        manifests=_united(
            [str(manifest) for manifest in registered_manifests(host.home, look)],
            [str(target.manifest) for target in targets],
        ),
    )
    _write(plan, path, wrapper.script(made), wrapper.MODE, look, refused_wrapper(path, look))
    for target in targets:
        manifest = target.manifest
        refusal = refused_manifest(manifest, look, path)
        before = look(manifest).content
        origins = _united(
            OUR_CALLERS, registered_origins(before) if before and not refusal else [], extension_origins
        )
        _write(plan, manifest, manifest_text(target.kind, path, origins), MANIFEST_MODE, look, refusal)
    return plan


def _write(plan: Plan, path: Path, text: str, mode: int, look: Look, refusal: str) -> None:
    found = look(path)
    if refusal:
        plan.refusals.append(refusal)
    elif found.content == text.encode() and stat.S_IMODE(found.mode) == mode:
        plan.kept.append(path)
    else:
        _make_directories(plan, path.parent, look)
        plan.steps.append(Write(path, text.encode(), mode, found.content))


def _make_directories(plan: Plan, path: Path, look: Look) -> None:
    step = MakeDirectory(path)
    if look(path).mode or step in plan.steps:
        return
    _make_directories(plan, path.parent, look)
    plan.steps.append(step)


# ── Uninstall ───────────────────────────────────────────────────────────────────────────────────────────────


def registered_manifests(home: Path, look: Look) -> list[Path]:
    """The manifests that were registered and still point at our wrapper."""
    known = installed_wrapper(home, look)
    return [path for path in map(Path, known.manifests if known else ()) if _is_ours(path, home, look)]


def our_manifests(home: Path, targets: Sequence[Target], look: Look) -> list[Path]:
    """Of these targets, and wherever else we are registered: the manifests that are ours to remove."""
    usual = [target.manifest for target in targets if _is_ours(target.manifest, home, look)]
    return list(dict.fromkeys([*usual, *registered_manifests(home, look)]))


def uninstall(home: Path, manifests: Sequence[Path], look: Look) -> Plan:
    """Remove these manifests, and with the last one that is registered the wrapper."""
    plan = Plan()
    path = wrapper_path(home)
    for manifest in manifests:
        _remove(plan, manifest, look, refused_manifest(manifest, look, path))
    known = installed_wrapper(home, look)
    if known is None or plan.refusals:
        return plan
    if left := [str(manifest) for manifest in registered_manifests(home, look) if manifest not in manifests]:
        shorter = msgspec.structs.replace(known, manifests=tuple(left))
        _write(plan, path, wrapper.script(shorter), wrapper.MODE, look, refused_wrapper(path, look))
        return plan
    _remove(plan, path, look, refused_wrapper(path, look))
    plan.steps.append(RemoveEmptyDirectory(home))
    return plan


def _remove(plan: Plan, path: Path, look: Look, refusal: str) -> None:
    before = look(path).content
    if refusal:
        plan.refusals.append(refusal)
    elif before is not None:
        plan.steps += [Remove(path, before), RemoveEmptyDirectory(path.parent)]


def _is_ours(manifest: Path, home: Path, look: Look) -> bool:
    content = look(manifest).content
    return content is not None and not manifest_fault(content, wrapper_path(home))


def _united(*parts: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(item for part in parts for item in part))
