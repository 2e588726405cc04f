"""The copy of the extension that the browser loads: below the home, where an upgrade cannot pull it away."""

from __future__ import annotations

import json
import os
import shutil
import stat
import tempfile
from pathlib import Path

import extension


class UnpackedError(Exception):
    """There is no place for the copy; the text says what to do."""


def unpack(home: Path) -> Path:
    """Put the extension into `home`, whole or not at all, in place of an earlier copy.

    Raises:
        UnpackedError: what is there is not an earlier copy of ours, or the disk refuses.
    """
    target = home / "extension"
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        _check_replaceable(target)
        with tempfile.TemporaryDirectory(prefix=".extension-", dir=home) as beside:
            _swap(_copy_into(Path(beside)), target, Path(beside) / "earlier")
    except OSError as error:
        raise UnpackedError(
            f"The extension cannot be copied to {target}: {error.strerror or error}"
        ) from error
    return target


def _check_replaceable(target: Path) -> None:
    try:
        found = target.lstat()
    except FileNotFoundError:
        return
    is_real = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
    if not is_real or not (_is_empty(target) or _key(target) == _key(_source())):
        raise UnpackedError(
            f"{target} is not a copy of the extension that mcpb made (a link, a file, or a directory with "
            "something else in it). Move it away, then run again: mcpb extension"
        )


def _is_empty(directory: Path) -> bool:
    return not any(directory.iterdir())


def _key(directory: Path) -> str:
    """The key that fixes the extension's id, or empty."""
    try:
        manifest = json.loads((directory / "manifest.json").read_bytes())
    except (OSError, ValueError):
        return ""
    return str(manifest.get("key", "")) if isinstance(manifest, dict) else ""


def _source() -> Path:
    return Path(next(iter(extension.__path__)))


def _copy_into(beside: Path) -> Path:
    return Path(shutil.copytree(_source(), beside / "new", ignore=_no_caches))


def _no_caches(_folder: str, names: list[str]) -> list[str]:
    return [name for name in names if name.startswith(("__", "."))]


def _swap(new: Path, target: Path, earlier: Path) -> None:
    """A directory cannot be renamed over a full one: the earlier copy steps aside first."""
    if target.exists():
        target.rename(earlier)
    try:
        new.rename(target)
    except OSError:
        if earlier.exists():
            earlier.rename(target)
        raise
