"""The host manifest: what a browser wants to read in it."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from pathlib import Path

import msgspec

from install.browsers import Kind
from install.callers import is_caller

CALLERS_KEY: dict[Kind, str] = {"chromium": "allowed_origins", "firefox": "allowed_extensions"}


def manifest_text(kind: Kind, program: Path, callers: Sequence[str]) -> str:
    """The file for browsers of this kind: those of `callers` that it knows may start `program`."""
    template = msgspec.json.decode((resources.files("manifests") / f"{kind}.json").read_text())
    allowed = [caller for caller in callers if is_caller(caller, kind)]
    manifest = {**template, "path": str(program), CALLERS_KEY[kind]: allowed}
    return msgspec.json.format(msgspec.json.encode(manifest), indent=2).decode() + "\n"
