"""Ledger: record of the files that an installation has written, `state/ledger.json` in mcpb's home.

It is written first, so that the next run knows and removes the remains of an interrupted one.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Callable, Container, Iterator
from pathlib import Path
from typing import Literal

import msgspec

from native_host.existing_channel.channel_messages import CLAUDES
from native_host.protocol.validation_errors import describe_problem
from native_host.protocol.wire import HOST_NAME
from native_host.system.home_layout import HomeLayout
from native_host.system.private_files import UnusableFileError

FORMAT = 1


_OURS = {
    "wrapper": [HomeLayout.wrapper.name],
    "manifest": [f"{HOST_NAME}.json"],
    # Of an earlier mcpb with `--shim`; `uninstall-native-host` restores them.
    "shim": [f"bin/shim-{name}" for name in CLAUDES],
    "shimmed": [f"{name}.json" for name in CLAUDES],
}


class LedgerError(UnusableFileError):
    """The ledger cannot be read. Nothing may be written without it."""

    separator = " "


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A written file."""

    path: str
    what: Literal["wrapper", "manifest", "shim", "shimmed"]
    """The last two: a shim script of an earlier mcpb, and the manifest of Claude in Chrome that names it."""
    sha256: str
    """Digest of the written content; a file with another content belongs to others."""
    before: str = ""
    """While a run is under way: the hash of our earlier content, which may still be there."""
    is_begun: bool = False
    """True while a run writes or removes it; if it is missing then, the user did not delete it."""
    browser: str = ""
    """The row of the table; empty where the folder was named by hand."""
    kind: Literal["chromium", "firefox"] = "chromium"
    backup: str = ""
    """Place of the file that it replaced at the user's request; it is restored from there."""

    def holds(self, content: bytes | None) -> bool:
        """Return whether this content was written to this place."""
        return content is not None and digest_of(content) in {self.sha256, self.before}


class Ledger(msgspec.Struct, frozen=True, kw_only=True):
    """The whole file."""

    format: int = FORMAT
    install_id: str
    """16 hex digits, the same for good: whose drafts and backups are whose."""
    version: str
    home: str = ""
    """Mcpb's home when it was written; that and `user_home` tell what has moved since."""
    user_home: str = ""
    entries: tuple[Entry, ...] = ()
    directories: tuple[str, ...] = ()
    """That we made; removed when they are empty. Those in mcpb's home are ours anyway."""
    removed: tuple[str, ...] = ()
    """Browsers (rows of the table) and directories that the user removed, until they are named.
    """

    def find_entry(self, path: Path) -> Entry | None:
        """Return the entry of a path."""
        return next((entry for entry in self.entries if entry.path == str(path)), None)

    def manifests(self) -> Iterator[Entry]:
        """Yield the entries of manifests."""
        return (entry for entry in self.entries if entry.what == "manifest")

    @property
    def is_under_way(self) -> bool:
        """A run began and has not ended."""
        return any(entry.is_begun for entry in self.entries)

    def begin_changes(self, paths: Container[str]) -> Ledger:
        """Return the ledger while these files change."""
        entries = (
            msgspec.structs.replace(entry, is_begun=entry.is_begun or entry.path in paths)
            for entry in self.entries
        )
        return msgspec.structs.replace(self, entries=tuple(entries))

    def encode(self) -> bytes:
        """Return the content of the file."""
        return msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n"


def new_ledger(home: Path, user_home: Path, version: str) -> Ledger:
    """Return the first ledger. Its id follows from the place, so that a dry run shows the exact bytes."""
    install_id = digest_of(str(home).encode())[:16]
    return Ledger(install_id=install_id, version=version, home=str(home), user_home=str(user_home))


def decode_ledger(content: bytes, path: Path) -> Ledger:
    """Decode a ledger.

    Raises:
        LedgerError: it is damaged, or of a later format.
    """
    try:
        written = msgspec.json.decode(content, type=_Header)
        if written.format > FORMAT:
            raise LedgerError(
                path,
                f"was written by a newer mcpb ({written.version}), which knows more about what is "
                f"installed than this one. Run the command with that version, or upgrade this one first",
            )
        ledger = msgspec.json.decode(content, type=Ledger)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _damage_error(path, describe_problem(error)) from error
    if astray := next(_find_astray(ledger), ""):
        raise _damage_error(path, f"mcpb puts nothing into {astray}")
    return ledger


def _damage_error(path: Path, fault: str) -> LedgerError:
    reason = (
        f"is damaged ({fault}). Move it away and run the command again, "
        "which recognizes the files of mcpb by their content"
    )
    return LedgerError(path, reason, f"mv {shlex.quote(str(path))} {shlex.quote(str(path))}.damaged")


def _find_astray(ledger: Ledger) -> Iterator[str]:
    """Yield paths outside of the places that mcpb writes: no such file is moved or removed."""
    for entry in ledger.entries:
        ours = _OURS[entry.what]
        if not (entry.path.startswith("/") and any(map(Path(entry.path).match, ours))):
            yield entry.path
        if entry.backup and not (
            entry.backup.startswith("/") and Path(entry.backup).match(f"{HomeLayout.backup.name}/*")
        ):
            yield entry.backup


class _Header(msgspec.Struct):
    """Members of every format."""

    format: int
    version: str = "of unknown version"


def digest_of(content: bytes) -> str:
    """Return the digest of a content."""
    return hashlib.sha256(content).hexdigest()


def draft_path(path: Path, install_id: str) -> Path:
    """Return the temporary path of a file; the next run finds those of an interrupted one."""
    return path.with_name(f".{path.name}.{install_id}")


def ledger_draft_path(ledger: Path) -> Path:
    """Return the temporary path of the ledger, which is known without a ledger."""
    return ledger.with_name(f".{ledger.name}.draft")


def backup_path(directory: Path, path: Path) -> Path:
    """Return the backup path of a file of others."""
    return directory / f"{digest_of(str(path).encode())[:8]}-{path.name}"


# ── Moved homes ─────────────────────────────────────────────────────────────────────────────────────────────


def relocate_ledger(ledger: Ledger, home: Path, user_home: Path, exists: Callable[[Path], bool]) -> Ledger:
    """Return the ledger after mcpb's home, or the user's, was moved or copied to another place.

    The original of a copy is a separate installation, which owns the files outside of the copied directory.
    """
    if (ledger.home, ledger.user_home) == (str(home), str(user_home)) or not ledger.home:
        return ledger
    is_copy = ledger.home != str(home) and exists(HomeLayout(Path(ledger.home)).ledger)
    moves = [(Path(ledger.home), home), (Path(ledger.user_home), user_home)]

    def relocate_path(text: str) -> str:
        path = Path(text)
        for source, target in moves:
            if source == target or not path.is_relative_to(source):
                continue
            there = target / path.relative_to(source)
            has_left = not exists(path) and (exists(there) or not exists(source))
            if is_copy or has_left:
                return str(there)
        return text

    return msgspec.structs.replace(
        ledger,
        home=str(home),
        user_home=str(user_home),
        entries=tuple(
            msgspec.structs.replace(
                entry, path=relocate_path(entry.path), backup=entry.backup and relocate_path(entry.backup)
            )
            for entry in ledger.entries
            if not is_copy or relocate_path(entry.path) != entry.path
        ),
        directories=tuple(
            relocate_path(path) for path in ledger.directories if not is_copy or relocate_path(path) != path
        ),
        removed=tuple(dict.fromkeys(name for old in ledger.removed for name in (old, relocate_path(old)))),
    )
