"""Copies of the extension in directories that browsers load: where they are, their update and removal.

`state/extensions.json` of mcpb's home has the digest of each written file. It is written before the files, so
that the next run knows the remains of an interrupted one. Files of others in a copy stay, and a file that the
user has edited gets another name.
"""

from __future__ import annotations

import itertools
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

import extension
from install.browsers import Kind
from install.extension_files import (
    MANIFEST,
    UnpackedError,
    extension_identity,
    name_version,
    read_files,
    read_manifest,
)
from install.ledger import digest_of
from native_host import __version__
from native_host.system import private_files, untrusted_files
from native_host.system.home_layout import HomeLayout, is_home_chosen, user_home
from native_host.system.private_files import PrivateFileError
from native_host.system.program_name import command_name

NAMES: Mapping[Kind, str] = {"chromium": "mcpb-extension", "firefox": "mcpb-extension-firefox"}
"""Names of the usual directories in the user's home: file choosers do not hide them."""
_MAX_RECORD_BYTES = 1024 * 1024
_LARGEST_FILE_BYTES = 8 * 1024 * 1024
_EDITED_SUFFIX = ".orig"

Files = Mapping[str, tuple[str, ...]]
"""Digests that each written file of a copy may have, by its path in the directory; two during an update."""
Outcome = Literal["new", "unchanged", "reloads", "needs reload"]
"""Outcome of an update. reloads: a browser that has the earlier copy loaded reloads it by itself."""


class _CopyRecord(msgspec.Struct, frozen=True):
    """Record of a copy."""

    kind: Kind
    files: Files


class _ExtensionManifest(msgspec.Struct):
    version: str = ""


@dataclass(frozen=True)
class ExtensionCopy:
    """A copy that mcpb keeps up to date."""

    directory: Path
    kind: Kind
    outcome: Outcome = "unchanged"
    edited_files: tuple[Path, ...] = ()
    """Files that the user had edited, under the names that this update gave them."""


def usual_directory(home: Path, kind: Kind) -> Path:
    """Return the directory of a copy whose user has named none: with `MCPB_HOME` below that."""
    if is_home_chosen():
        layout = HomeLayout(home)
        return layout.extension if kind == "chromium" else layout.firefox_extension
    return user_home() / NAMES[kind]


def find_copies(home: Path) -> list[ExtensionCopy]:
    """Return the copies that exist: recorded ones, and those in mcpb's home, where all of them once were."""
    recorded = [(Path(path), written.kind) for path, written in _read_record(home).items()]
    layout = HomeLayout(home)
    earlier: list[tuple[Path, Kind]] = [(layout.extension, "chromium"), (layout.firefox_extension, "firefox")]
    known = dict.fromkeys([*recorded, *earlier])
    return [ExtensionCopy(path, kind) for path, kind in known if _is_copy(path, kind)]


def find_current_kinds(home: Path) -> frozenset[Kind]:
    """Return the kinds of browsers that have copies, all of this version."""
    versions: dict[Kind, set[str]] = {}
    for copy in find_copies(home):
        versions.setdefault(copy.kind, set()).add(_read_version(copy.directory))
    return frozenset(kind for kind, found in versions.items() if found == {__version__})


def _read_version(directory: Path) -> str:
    with suppress(msgspec.DecodeError):
        return msgspec.json.decode(_read_manifest(directory) or b"{}", type=_ExtensionManifest).version
    return ""


def update_copy(home: Path, directory: Path, kind: Kind) -> ExtensionCopy:
    """Write the extension into a directory, the manifest last: a browser reloads the copy when it changes.

    No file is replaced before the drafts of all are written, and none whose content is the same.

    Raises:
        UnpackedError: the directory belongs to another program or user, its path is not UTF-8, or it cannot
            be written.
    """
    _check_encoding(directory)
    files = read_files(kind)
    if kind == "chromium":
        files = name_version(files)
    try:
        private_files.prepare_directory(home)
        with private_files.lock_directory(home):
            return _update(home, directory, kind, files)
    except PrivateFileError as error:
        raise UnpackedError(f"The extension cannot be copied to {directory}: {error}") from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise UnpackedError(f"The extension cannot be copied to {directory}: {reason}") from error


def _update(home: Path, directory: Path, kind: Kind, files: Mapping[str, bytes]) -> ExtensionCopy:
    record = _read_record(home)
    written = record.get(str(directory))
    before = written.files if written else {}
    _check_owner(directory, files, before)
    earlier = _read_manifest(directory)
    now = {name: (digest_of(content),) for name, content in files.items()}
    during = {name: (*before.get(name, ()), *now.get(name, ())) for name in {**before, **now}}
    if written != _CopyRecord(kind, now):
        _write_record(home, {**record, str(directory): _CopyRecord(kind, during)})
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    edited = _write_files(directory, files, written.files if written else None)
    # An earlier mcpb, which wrote no record, owned whole directories in its home.
    _remove_earlier_files(directory, files, before, owns_all=not written and directory.parent == home)
    if written != _CopyRecord(kind, now):
        _write_record(home, {**record, str(directory): _CopyRecord(kind, now)})
    return ExtensionCopy(directory, kind, _outcome_of(earlier, files[MANIFEST]), tuple(edited))


def _check_encoding(directory: Path) -> None:
    try:
        str(directory).encode()
    except UnicodeEncodeError:
        shown = os.fsencode(directory).decode(errors="backslashreplace")
        raise UnpackedError(
            f"{shown} is not UTF-8, and the list of copies can hold nothing else. Name another directory "
            "with --directory DIR."
        ) from None


def _outcome_of(earlier: bytes, manifest: bytes) -> Outcome:
    """Compare the manifests: an extension with a version name reloads itself."""
    if earlier == manifest:
        return "unchanged"
    if not earlier:
        return "new"
    return "reloads" if "version_name" in msgspec.json.decode(earlier) else "needs reload"


def _check_owner(directory: Path, files: Mapping[str, bytes], before: Files) -> None:
    """Reject a directory that is not free, not an earlier copy, and not the beginning of one."""
    ours = extension_identity(files[MANIFEST])
    if _is_source(directory):
        raise UnpackedError(f"{directory} is the source of the extension: name another directory")
    links = [directory / parent for name in files for parent in Path(name).parents]
    if any(link.is_symlink() or (link.exists() and not link.is_dir()) for link in links):
        raise _foreign_directory(directory, ours)
    if not directory.exists():
        return
    is_users = directory.stat().st_uid == os.getuid()
    identity = extension_identity(_read_manifest(directory))
    if is_users and (identity == ours or (not identity and _has_only(directory, before))):
        return
    raise _foreign_directory(directory, ours)


def _is_source(directory: Path) -> bool:
    """Return whether a directory is a checkout's, or the one that copies are made from, or below it."""
    sources = [Path(path).resolve() for path in extension.__path__]
    here = directory.resolve()
    is_checkout = here.name == "extension" and (here.parent / "pyproject.toml").exists()
    return is_checkout or any(here.is_relative_to(source) for source in sources)


def _foreign_directory(directory: Path, identity: str) -> UnpackedError:
    option = " --firefox" if "@" in identity else ""
    return UnpackedError(
        f"{directory} is not a copy of the extension that mcpb made (a link, a file, or a directory "
        f"with something else in it). Move it away, then run again: {command_name()} extension{option}. "
        "Or name another directory with --directory DIR."
    )


def _is_copy(directory: Path, kind: Kind) -> bool:
    if untrusted_files.link(directory) or not untrusted_files.is_folder(directory):
        return False
    return extension_identity(_read_manifest(directory)) == extension_identity(read_manifest(kind))


def _read_manifest(directory: Path) -> bytes:
    return untrusted_files.whole(directory / MANIFEST, _LARGEST_FILE_BYTES) or b""


def _write_files(directory: Path, files: Mapping[str, bytes], before: Files | None) -> list[Path]:
    """Replace the files whose content differs, and return edited ones under their new names.

    Without a record (`before` is None) edited files look like those of another version, and are replaced.
    """
    changed = {name: directory / name for name in files if not _has_content(directory / name, files[name])}
    edited = []
    with ExitStack() as drafts:
        for name, path in changed.items():
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            private_files.write_draft(path, files[name], is_durable=name == MANIFEST)
            drafts.callback(private_files.draft_of(path).unlink, missing_ok=True)
        for name, path in sorted(changed.items(), key=lambda item: item[0] == MANIFEST):
            if before is not None and os.path.lexists(path) and not _holds(path, before.get(name, ())):
                edited.append(path.rename(_free_name(path)))
            private_files.publish_draft(path)
    return edited


def _has_content(path: Path, content: bytes) -> bool:
    return untrusted_files.whole(path, len(content)) == content and not path.is_symlink()


def _free_name(path: Path) -> Path:
    """Return a name beside a file for the version that the user has edited."""
    suffixes = itertools.chain([""], map(str, itertools.count(2)))
    names = (path.with_name(f"{path.name}{_EDITED_SUFFIX}{suffix}") for suffix in suffixes)
    return next(name for name in names if not os.path.lexists(name))


def _remove_earlier_files(
    directory: Path, files: Mapping[str, bytes], before: Files, *, owns_all: bool
) -> None:
    """Remove files that only an earlier version had; in mcpb's own home everything else."""
    for path in list(_walk(directory)):
        name = str(path.relative_to(directory))
        if name not in files and (owns_all or _holds(path, before.get(name, ()))):
            path.unlink()
            _remove_empty_directories(directory, [name])


# ── Removal ─────────────────────────────────────────────────────────────────────────────────────────────────


def removable_copies(home: Path) -> tuple[dict[Path, Files], list[Path]]:
    """Return recorded copies: those with exactly the written files, and the directories of the others."""
    unchanged, changed = {}, []
    for path, written in _read_record(home).items():
        directory = Path(path)
        if untrusted_files.link(directory) or not untrusted_files.is_folder(directory):
            continue
        if _has_only(directory, written.files):
            unchanged[directory] = written.files
        else:
            changed.append(directory)
    return unchanged, changed


def remove_copy(directory: Path, files: Files) -> bool:
    """Remove a copy that has only these files; return whether it has. The manifest goes last."""
    if not _has_only(directory, files):
        return False
    for path in sorted(_walk(directory), key=lambda path: path.name == MANIFEST):
        path.unlink()
    _remove_empty_directories(directory, files)
    return True


def _remove_empty_directories(directory: Path, names: Iterable[str]) -> None:
    """Remove the directories of files that were in a copy, as far as nothing else is in them."""
    parents = {directory / parent for name in names for parent in Path(name).parents}
    for path in sorted(parents, reverse=True):
        if path.is_dir() and not any(path.iterdir()):
            path.rmdir()


def _has_only(directory: Path, files: Files) -> bool:
    """Return whether a directory contains no other files than these, with these digests, and their drafts."""
    drafts = {str(private_files.draft_of(Path(name))) for name in files}
    return all(
        (name := str(path.relative_to(directory))) in drafts or _holds(path, files.get(name, ()))
        for path in _walk(directory)
    )


def _holds(path: Path, digests: tuple[str, ...]) -> bool:
    if not digests or not stat.S_ISREG(path.lstat().st_mode):
        return False
    content = untrusted_files.whole(path, _LARGEST_FILE_BYTES)
    return content is not None and digest_of(content) in digests


def _walk(directory: Path) -> Iterator[Path]:
    """Yield everything below a directory but directories; links are not followed."""
    for path in directory.rglob("*"):
        if path.is_symlink() or not path.is_dir():
            yield path


# ── Record ──────────────────────────────────────────────────────────────────────────────────────────────────


def _read_record(home: Path) -> dict[str, _CopyRecord]:
    content = untrusted_files.whole(HomeLayout(home).state.extensions, _MAX_RECORD_BYTES) or b""
    with suppress(msgspec.DecodeError, RecursionError):  # then mcpb has not written it
        found = msgspec.json.decode(content, type=dict[str, _CopyRecord])
        return {path: written for path, written in found.items() if path.startswith("/")}
    return {}


def _write_record(home: Path, record: Mapping[str, _CopyRecord]) -> None:
    path = HomeLayout(home).state.extensions
    private_files.prepare_directory(path.parent)
    private_files.replace(path, msgspec.json.encode(record))
