"""Native hosts of other products in the folders where ours is: for information. They are only ever read."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from install.browsers import Kind, Target
from install.examination.findings import Finding
from install.examination.reading import entries, head, is_file, printable
from install.manifest import callers_in, program_named_in
from native_host.wire import HOST_NAME

MOST = 100
"""In a folder. Nobody has so many."""
LARGEST_BYTES = 64 * 1024
# Anthropic's extension asks these two, in this order, and stays with the first one that answers.
CLAUDE_DESKTOP = "com.anthropic.claude_browser_extension"
CLAUDE_CODE = "com.anthropic.claude_code_browser_extension"


class Neighbour(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Another product's host."""

    name: str
    """Of the host: that of its file."""
    manifest: str
    title: str
    """Of the browsers that read it."""
    program: str = ""
    """What it starts; empty when its manifest cannot be read or names nothing."""
    is_there: bool = False
    """The program exists and may be executed."""
    callers: tuple[str, ...] = ()
    """The extensions that may start it."""


def neighbours(targets: Sequence[Target]) -> list[Neighbour]:
    """Of all these folders, in their order; a folder that cannot be listed has none."""
    return [
        _read(path, target.kind, target.title) for target in targets for path in _listed(target.directory)
    ]


def _listed(directory: Path) -> list[Path]:
    found = [path for path in entries(directory) if path.suffix == ".json" and path.stem != HOST_NAME]
    return found[:MOST]


def _read(path: Path, kind: Kind, title: str) -> Neighbour:
    content = head(path, LARGEST_BYTES) or b""
    program = program_named_in(content, kind)
    return Neighbour(
        name=printable(path.stem),
        manifest=printable(str(path)),
        title=title,
        program=printable(str(program or "")),
        is_there=program is not None and is_file(program) and os.access(program, os.X_OK),
        callers=tuple(printable(caller) for caller in callers_in(content, kind)),
    )


def neighbour_findings(found: Sequence[Neighbour]) -> list[Finding]:
    """Notes on what a person may take for our fault: whose host Anthropic's extension would use."""
    titles = dict.fromkeys(neighbour.title for neighbour in found)
    return [
        _claude_order(title, found)
        for title in titles
        if {CLAUDE_DESKTOP, CLAUDE_CODE}
        <= {neighbour.name for neighbour in found if neighbour.title == title}
    ]


def _claude_order(title: str, found: Sequence[Neighbour]) -> Finding:
    desktop = next(item for item in found if (item.title, item.name) == (title, CLAUDE_DESKTOP))
    first = "Claude Desktop's" if desktop.is_there else "Claude Code's, as Claude Desktop's program is gone"
    return Finding(
        code="neighbour-order",
        hop="browser",
        text=(
            f"In {title} Claude Desktop and Claude Code are both registered for Anthropic's extension, which "
            "asks Desktop first and talks to one host alone: it would take "
            f"{first}. mcpb has nothing to do with it"
        ),
        level="note",
        where=title,
    )
