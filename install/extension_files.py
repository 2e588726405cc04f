"""Extension files for a browser: those of a copy in a directory, or a zip.

Firefox gets the same files with a manifest made from Chromium's. Copies: extension_copies.py.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, BadZipFile, ZipFile, ZipInfo

import extension
from install.browsers import Kind
from native_host.protocol.wire import FIREFOX_ID

MANIFEST = "manifest.json"
_DIGEST_CHARS = 12
"""Hexadecimal characters of the digest in `version_name`."""


class UnpackedError(Exception):
    """There is no place for the copy; the text says what to do."""


def read_files(kind: Kind) -> dict[str, bytes]:
    """Return the content of each file of the extension by its path below the extension's directory."""
    source = _source_directory()
    paths = sorted(path for path in source.rglob("*") if path.is_file())
    names = {path.relative_to(source): path for path in paths}
    files = {str(name): path.read_bytes() for name, path in names.items() if not _is_cache(name)}
    return {**files, MANIFEST: read_manifest(kind)}


def read_manifest(kind: Kind) -> bytes:
    """Return the manifest of the extension for a kind of browser."""
    content = (_source_directory() / MANIFEST).read_bytes()
    return content if kind == "chromium" else _encode_manifest(firefox_manifest(json.loads(content)))


def _source_directory() -> Path:
    return Path(next(iter(extension.__path__)))


def _is_cache(name: Path) -> bool:
    return any(part.startswith(("__", ".")) for part in name.parts)


def name_version(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the files of a copy for Chromium: `version_name` in the manifest is different after any change.

    A running extension compares it with the manifest in its directory, and reloads itself if they differ.
    Firefox does not know `version_name`.
    """
    manifest = json.loads(files[MANIFEST])
    digest = hashlib.sha256()
    for name, content in sorted(files.items()):
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    version_name = f"{manifest['version']} ({digest.hexdigest()[:_DIGEST_CHARS]})"
    return {**files, MANIFEST: _encode_manifest({**manifest, "version_name": version_name})}


def _encode_manifest(manifest: Mapping[str, Any]) -> bytes:
    return (json.dumps(manifest, indent=2) + "\n").encode()


def extension_identity(manifest_text: bytes) -> str:
    """Return the member that fixes the extension's id: the key, in Firefox the id; empty without one."""
    try:
        manifest = json.loads(manifest_text)
        gecko = manifest.get("browser_specific_settings", {}).get("gecko", {})
        return str(manifest.get("key") or gecko.get("id", ""))
    except (ValueError, AttributeError):  # no JSON, or not of that shape
        return ""


# ── Zip ─────────────────────────────────────────────────────────────────────────────────────────────────────


def pack_extension(file: Path, kind: Kind = "chromium") -> None:
    """Write the extension as a zip, whole or not at all, in place of an earlier zip of mcpb's.

    Raises:
        UnpackedError: the directory is missing, or the file is not a zip of mcpb or cannot be written.
    """
    files = read_files(kind)
    try:
        with tempfile.TemporaryDirectory(prefix=".mcpb-", dir=file.parent) as beside:
            if not (_is_free(file) or _is_earlier_zip(file, files)):
                raise UnpackedError(
                    f"{file} is there, and is no zip of the extension that mcpb made. Name another file."
                )
            _write_zip(files, Path(beside) / "zip")
            (Path(beside) / "zip").replace(file)
    except OSError as error:
        raise UnpackedError(f"{file} cannot be written: {error.strerror or error}") from error


def _is_free(file: Path) -> bool:
    return not (file.exists() or file.is_symlink())


def _is_earlier_zip(file: Path, files: Mapping[str, bytes]) -> bool:
    if file.is_symlink() or not file.is_file():
        return False
    try:
        with ZipFile(file) as archive:
            return extension_identity(archive.read(MANIFEST)) == extension_identity(files[MANIFEST])
    except (BadZipFile, KeyError):
        return False


def _write_zip(files: Mapping[str, bytes], file: Path) -> None:
    """Write a reproducible zip: sorted, and without times."""
    with ZipFile(file, "x", ZIP_DEFLATED) as archive:
        for name, content in sorted(files.items()):
            entry = ZipInfo(name)
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, content, ZIP_DEFLATED)


# ── Firefox ─────────────────────────────────────────────────────────────────────────────────────────────────


OLDEST = "140.0"
"""The oldest version that Mozilla still supports; tab groups came with 139."""
_UNKNOWN = ("key", "minimum_chrome_version", "storage")
"""Firefox takes the id from its own member, and a schema of an administrator's settings from nowhere."""
_NOT_FOR_ADD_ONS = ("debugger", "downloads")
"""Firefox has no debugger for extensions: the capabilities there do not name its commands."""
_CONTENT_SECURITY_POLICY = {"extension_pages": "script-src 'self'"}
"""Firefox's default turns each `ws:` into `wss:`, so that no WebSocket proxy on this machine is reached."""


def firefox_manifest(chromium: Mapping[str, Any]) -> dict[str, Any]:
    """Return a manifest that Firefox reads without a warning (tried in Firefox 140)."""
    manifest = {name: member for name, member in chromium.items() if name not in _UNKNOWN}
    manifest["permissions"] = [name for name in chromium["permissions"] if name not in _NOT_FOR_ADD_ONS]
    worker = chromium["background"]["service_worker"]
    manifest["background"] = {"scripts": [worker], "type": "module"}
    manifest["content_security_policy"] = _CONTENT_SECURITY_POLICY
    manifest["browser_specific_settings"] = {"gecko": _gecko_settings()}
    return manifest


def _gecko_settings() -> dict[str, Any]:
    # Mozilla counts what goes to a program of the same machine as transmitted.
    told = ["browsingActivity", "websiteContent"]
    return {"id": FIREFOX_ID, "strict_min_version": OLDEST, "data_collection_permissions": {"required": told}}
