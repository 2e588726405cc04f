"""Extension files: a copy below mcpb's home, which an upgrade does not touch, or a zip.

Firefox gets the same files with a manifest made from Chromium's.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, BadZipFile, ZipFile, ZipInfo

import extension
from install.browsers import Kind
from native_host.protocol.wire import FIREFOX_ID
from native_host.system.home_layout import HomeLayout

_COMMANDS: dict[Kind, str] = {"chromium": "mcpb extension", "firefox": "mcpb extension --firefox"}
_MANIFEST = "manifest.json"
_DRAFT = HomeLayout.extension_drafts.pattern.rstrip("*")


class UnpackedError(Exception):
    """There is no place for the copy; the text says what to do."""


def unpack_extension(home: Path, kind: Kind = "chromium") -> Path:
    """Copy the extension into `home`, whole or not at all, in place of an earlier copy.

    Raises:
        UnpackedError: the directory is not an earlier copy of mcpb's, or cannot be written.
    """
    layout = HomeLayout(home)
    target = layout.extension if kind == "chromium" else layout.firefox_extension
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=_DRAFT, dir=home) as beside:
            new = _copy_into(Path(beside), kind)
            if not (_is_free(target) or _is_earlier_copy(target, new)):
                raise UnpackedError(
                    f"{target} is not a copy of the extension that mcpb made (a link, a file, or a directory "
                    f"with something else in it). Move it away, then run again: {_COMMANDS[kind]}"
                )
            _swap_directories(new, target, Path(beside) / "earlier")
    except OSError as error:
        raise UnpackedError(f"The extension cannot be copied to {target}: {_reason_of(error)}") from error
    return target


def _reason_of(error: OSError) -> str:
    """Return the reason of a failed copy: shutil reports a list of all files, of which the first will do."""
    match error.args:
        case ([(_, _, str(first)), *_],):
            return first
    return error.strerror or str(error)


def pack_extension(file: Path, kind: Kind = "chromium") -> None:
    """Write the extension as a zip, whole or not at all, in place of an earlier zip of mcpb's.

    Raises:
        UnpackedError: the directory is missing, or the file is not a zip of mcpb or cannot be written.
    """
    try:
        with tempfile.TemporaryDirectory(prefix=".mcpb-", dir=file.parent) as beside:
            new = _copy_into(Path(beside), kind)
            if not (_is_free(file) or _is_earlier_zip(file, new)):
                raise UnpackedError(
                    f"{file} is there, and is no zip of the extension that mcpb made. Name another file."
                )
            _write_zip(new, Path(beside) / "zip")
            (Path(beside) / "zip").replace(file)
    except OSError as error:
        raise UnpackedError(f"{file} cannot be written: {error.strerror or error}") from error


# ── What is there already ───────────────────────────────────────────────────────────────────────────────────


def _is_free(target: Path) -> bool:
    if target.is_symlink():
        return False
    return not target.exists() or (target.is_dir() and not any(target.iterdir()))


def _is_earlier_copy(target: Path, new: Path) -> bool:
    found = target.lstat()
    is_real = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
    return is_real and _identity_of(target) == _identity_of(new)


def _identity_of(directory: Path) -> str:
    try:
        return _extension_identity((directory / _MANIFEST).read_bytes())
    except OSError:
        return ""


def _is_earlier_zip(file: Path, new: Path) -> bool:
    if file.is_symlink() or not file.is_file():
        return False
    try:
        with ZipFile(file) as archive:
            return _extension_identity(archive.read(_MANIFEST)) == _identity_of(new)
    except (BadZipFile, KeyError):
        return False


def _extension_identity(manifest_text: bytes) -> str:
    """Return the member that fixes the extension's id: the key, in Firefox the id; empty without one."""
    try:
        manifest = json.loads(manifest_text)
        gecko = manifest.get("browser_specific_settings", {}).get("gecko", {})
        return str(manifest.get("key") or gecko.get("id", ""))
    except (ValueError, AttributeError):  # no JSON, or not of that shape
        return ""


# ── Making it ───────────────────────────────────────────────────────────────────────────────────────────────


def _source_directory() -> Path:
    return Path(next(iter(extension.__path__)))


def _copy_into(beside: Path, kind: Kind) -> Path:
    copy = Path(shutil.copytree(_source_directory(), beside / "new", ignore=_no_caches))
    if kind == "firefox":
        manifest = copy / _MANIFEST
        for_firefox = firefox_manifest(json.loads(manifest.read_bytes()))
        manifest.write_text(json.dumps(for_firefox, indent=2) + "\n")
    return copy


def _no_caches(_folder: str, names: list[str]) -> list[str]:
    return [name for name in names if name.startswith(("__", "."))]


def _swap_directories(new: Path, target: Path, earlier: Path) -> None:
    """Move the earlier copy away first: a directory cannot be renamed over a full one."""
    if target.exists():
        target.rename(earlier)
    try:
        new.rename(target)
    except OSError:
        if earlier.exists():
            earlier.rename(target)
        raise


def _write_zip(directory: Path, file: Path) -> None:
    """Write a reproducible zip: sorted, and without times."""
    with ZipFile(file, "x", ZIP_DEFLATED) as archive:
        for path in sorted(path for path in directory.rglob("*") if path.is_file()):
            entry = ZipInfo(str(path.relative_to(directory)))
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, path.read_bytes(), ZIP_DEFLATED)


OLDEST = "140.0"
"""The oldest version that Mozilla still supports; tab groups came with 139."""
_UNKNOWN = ("key", "minimum_chrome_version", "storage")
"""Firefox takes the id from its own member, and a schema of an administrator's settings from nowhere."""
_NOT_FOR_ADD_ONS = "debugger"
"""Firefox has no such permission: there the extension does not name its commands among its capabilities."""


def firefox_manifest(chromium: Mapping[str, Any]) -> dict[str, Any]:
    """Return a manifest that Firefox reads without a warning (tried in Firefox 140)."""
    manifest = {name: member for name, member in chromium.items() if name not in _UNKNOWN}
    manifest["permissions"] = [name for name in chromium["permissions"] if name != _NOT_FOR_ADD_ONS]
    worker = chromium["background"]["service_worker"]
    manifest["background"] = {"scripts": [worker], "type": "module"}
    manifest["browser_specific_settings"] = {"gecko": _gecko_settings()}
    return manifest


def _gecko_settings() -> dict[str, Any]:
    # Mozilla counts what goes to a program of the same machine as transmitted.
    told = ["browsingActivity", "websiteContent"]
    return {"id": FIREFOX_ID, "strict_min_version": OLDEST, "data_collection_permissions": {"required": told}}
