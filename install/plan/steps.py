"""Steps of a plan: single changes of the disk, each done completely or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class MakeDirectory:
    """Its parents are there, or made by the steps before."""

    path: Path
    mode: int = 0o700


@dataclass(frozen=True)
class Write:
    """A whole file at once, in place of exactly `before` (None: nothing was there)."""

    path: Path
    content: bytes
    mode: int
    before: bytes | None
    draft: Path
    """Written first and then renamed: in the same directory, and nothing is there."""
    mtime_ns: int | None = None
    """Time of a copied file, which is restored; None: now."""


@dataclass(frozen=True)
class Move:
    """Whatever is there, as it is, to a place where nothing is."""

    path: Path
    to: Path


@dataclass(frozen=True)
class Remove:
    """A file, if it still is `before`."""

    path: Path
    before: bytes


@dataclass(frozen=True)
class Discard:
    """A file or a whole folder that mcpb keeps for itself, whatever is in it by now."""

    path: Path
    is_folder: bool = False


@dataclass(frozen=True)
class RemoveEmptyDirectory:
    """Only if nothing else is in it."""

    path: Path


@dataclass(frozen=True)
class RemoveCopy:
    """A copy of the extension, if it has exactly these files (`extension_copies.Files`)."""

    path: Path
    files: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class EndSession:
    """End the named session at a socket of `native_host.ipc.named_sessions`, and remove the socket."""

    path: Path


Step = MakeDirectory | Write | Move | Remove | Discard | RemoveEmptyDirectory | RemoveCopy | EndSession


@dataclass
class Plan:
    """Steps in their order. With refusals nothing at all is done."""

    home: Path
    """Held while the plan is carried out, so that two commands do not change one installation at once."""
    steps: list[Step] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    kept: list[Path] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """Facts that the user should know before confirming."""
