"""Whose a file is. Ours are the wrapper (it says so in its second line) and the manifests that point at it;
whatever else stands in their places is refused, with what to do about it. Pure: what was found is passed in.
"""

from __future__ import annotations

import shlex
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from install import wrapper
from install.callers import is_caller
from install.wrapper import Wrapper
from native_host.wire import HOST_NAME


@dataclass(frozen=True)
class Found:
    """What is in a place: `mode` 0 when nothing is, `content` None where there is no readable file."""

    mode: int = 0
    is_users: bool = True
    """Owned by the running user."""
    content: bytes | None = None


Look = Callable[[Path], Found]


def wrapper_path(home: Path) -> Path:
    """What manifests point at, below mcpb's home directory."""
    return home / "bin" / wrapper.NAME


def installed_wrapper(home: Path, look: Look) -> Wrapper | None:
    """What the wrapper in place was made from; None when there is none of ours."""
    content = look(wrapper_path(home)).content
    return wrapper.read(content.decode(errors="replace")) if content is not None else None


def manifest_fault(content: bytes, wrapper_file: Path) -> str:
    """Why a manifest is not one that points at our wrapper; empty when it is."""
    try:
        manifest: Any = msgspec.json.decode(content)
    except msgspec.DecodeError:
        return "is not JSON"
    if not isinstance(manifest, dict) or manifest.get("name") != HOST_NAME:
        return "is a manifest of another product"
    if manifest.get("path") != str(wrapper_file):
        return f"points at {manifest.get('path')}, not at {wrapper_file}"
    return ""


def registered_origins(content: bytes) -> list[str]:
    """The extensions that a manifest of ours admits; what a browser would not accept is left out."""
    listed: Any = msgspec.json.decode(content).get("allowed_origins")
    return [item for item in listed if is_caller(item, "chromium")] if isinstance(listed, list) else []


# ── Refusals: empty when there is none ──────────────────────────────────────────────────────────────────────


def refused_manifest(path: Path, look: Look, wrapper_file: Path) -> str:
    """Why a manifest must not be written or removed here."""
    user_data_dir, found = path.parent.parent, look(path)
    if not look(user_data_dir).is_users:
        return f"{user_data_dir} is another user's. Run the command as that user"
    if refusal := _refused_directory(path.parent, look(path.parent)) or _refused_place(path, found):
        return refusal
    fault = manifest_fault(found.content, wrapper_file) if found.content is not None else ""
    return f"{path} is not ours: it {fault}. If you do not need it: rm {_quoted(path)}" if fault else ""


def refused_wrapper(path: Path, look: Look) -> str:
    """Why a wrapper must not be written or removed here."""
    directory, found = look(path.parent), look(path)
    if refusal := _refused_directory(path.parent, directory) or _refused_place(path, found):
        return refusal
    if directory.mode & 0o022:
        return (
            f"{path.parent} can be written by others, who could change what the browser starts. Run: "
            f"chmod go-w {_quoted(path.parent)}"
        )
    if found.content is None or wrapper.read(found.content.decode(errors="replace")):
        return ""
    return f"{path} is not ours: mcpb did not write it. If you do not need it: rm {_quoted(path)}"


def _refused_directory(path: Path, found: Found) -> str:
    if not found.mode or (stat.S_ISDIR(found.mode) and found.is_users):
        return ""
    return f"{path} is {_described(found)}, not a directory of yours. If you do not need it: {_away(path)}"


def _refused_place(path: Path, found: Found) -> str:
    if not found.mode or (stat.S_ISREG(found.mode) and found.is_users and found.content is not None):
        return ""
    return f"{path} is {_described(found)}, not a file of yours. If you do not need it: {_away(path)}"


def _away(path: Path) -> str:
    return f"mv {_quoted(path)} {_quoted(path)}.old"


def _quoted(path: Path) -> str:
    """For a command that is to be copied into a shell."""
    return shlex.quote(str(path))


def _described(found: Found) -> str:
    if stat.S_ISLNK(found.mode):
        return "a symbolic link"
    if not found.is_users:
        return "another user's"
    if stat.S_ISREG(found.mode):
        return "a file" if found.content is not None else "a file that cannot be read"
    return "a directory" if stat.S_ISDIR(found.mode) else "neither file nor directory"
