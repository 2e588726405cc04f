"""What this user's installation has written: one file, `state/ledger.json` in mcpb's home.

It is written before anything else, so that whatever an interrupted installation left is known and removed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

FILE = "state/ledger.json"


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A file of ours."""

    path: str
    what: Literal["wrapper", "manifest"]
    sha256: str
    """Of what we wrote, or were about to write: another content is not ours."""
    browser: str = ""
    """The row of the table; empty where the folder was named by hand."""
    kind: Literal["chromium", "firefox"] = "chromium"
    backup: str = ""
    """Where the file is that stood in this place before, at the person's word; it goes back there."""


class Ledger(msgspec.Struct, frozen=True, kw_only=True):
    """The whole file."""

    format: int = 1
    install_id: str
    """16 hex digits, drawn once: whose drafts and backups are whose."""
    version: str
    """Of the mcpb that wrote it."""
    entries: tuple[Entry, ...] = ()
    directories: tuple[str, ...] = ()
    """That we made; removed when they are empty."""
    removed: tuple[str, ...] = ()
    """Browsers (rows of the table) and folders that the person took out: back only when named."""


def ledger_path(mcpb_home: Path) -> Path:
    """Where it is."""
    return mcpb_home / FILE
