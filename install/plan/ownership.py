"""Ownership of files: mcpb's are those with a digest in the ledger, and manifests of its wrapper.

A wrapper names mcpb in its second line. In a registered directory, a damaged manifest that starts nothing
belongs to mcpb as well. All other files in these places are rejected, with the remedy. Sans-IO.
"""

from __future__ import annotations

import shlex
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from install import wrapper
from install.browsers import Kind
from install.host_manifest import callers_in, is_caller, program_named_in, read_manifest
from install.ledger import Entry
from install.wrapper import Wrapper
from native_host.protocol.untrusted_text import escape
from native_host.protocol.wire import HOST_NAME
from native_host.system.home_layout import HomeLayout


@dataclass(frozen=True)
class FileState:
    """State of a place: `mode` 0 if nothing exists, `content` None without a readable file."""

    mode: int = 0
    is_users: bool = True
    is_roots: bool = False
    is_hidden: bool = False
    """Perhaps something is there: a folder above is closed to the running user."""
    content: bytes | None = None
    mtime_ns: int = 0
    is_writable: bool = True
    """A directory in which the running user may make and remove files."""


Look = Callable[[Path], FileState]

_EXPOSED = "can be written by others, who could change what the browser starts"
_ELSEWHERE = "Choose another folder with MCPB_HOME"


def installed_wrapper(home: Path, look: Look) -> Wrapper | None:
    """Return the data of the installed wrapper; None without one, or if it lacks them."""
    content = look(HomeLayout(home).wrapper).content
    return wrapper.read_wrapper(content.decode(errors="replace")) if content is not None else None


def is_our_wrapper(content: bytes, entry: Entry | None) -> bool:
    """Return whether mcpb wrote the program at the wrapper's place."""
    return wrapper.is_ours(content.decode(errors="replace")) or (entry is not None and entry.holds(content))


def wrapper_stranger(file: Path, entry: Entry | None, look: Look) -> str:
    """Return the reason why the wrapper's place is taken; empty if it is not."""
    found = look(file)
    if fault := refused_file(file, found):
        return fault
    is_ours = found.content is None or is_our_wrapper(found.content, entry)
    return "" if is_ours else f"{file} is not ours: mcpb did not write it"


def manifest_stranger(file: Path, entry: Entry | None, wrapper_file: Path, look: Look) -> str:
    """Return the reason why a manifest's place is taken; empty if it is not."""
    found = look(file)
    if fault := refused_file(file, found):
        return fault
    if found.content is None or is_our_manifest(found.content, entry, wrapper_file, look):
        return ""
    return f"{file} is not ours: it {_manifest_fault(found.content, wrapper_file)}"


def is_our_manifest(content: bytes, entry: Entry | None, wrapper_file: Path, look: Look) -> bool:
    """Return whether mcpb wrote it, it starts the wrapper, or it is registered and starts nothing."""
    if entry is None:
        return not _manifest_fault(content, wrapper_file)
    return entry.holds(content) or _starts_nothing(content, wrapper_file, look)


def _manifest_fault(content: bytes, wrapper_file: Path) -> str:
    """Return the reason why a manifest does not start the wrapper; empty if it does."""
    manifest = read_manifest(content)
    if manifest is None:
        return "is not JSON"
    if manifest.get("name") != HOST_NAME:
        return "is no manifest of mcpb's"
    if manifest.get("path") != str(wrapper_file):
        return f"points at {escape(str(manifest.get('path')))}, not at {wrapper_file}"
    return ""


def _starts_nothing(content: bytes, wrapper_file: Path, look: Look) -> bool:
    """Nothing of others, that is: it names no program, ours, or one that is gone."""
    program = program_named_in(content)
    if program is None or program == wrapper_file:
        return True
    found = look(program)
    return not (found.mode or found.is_hidden)


def registered_callers(content: bytes, kind: Kind) -> list[str]:
    """Return the extensions that a manifest of mcpb admits; invalid ones are omitted."""
    return [item for item in callers_in(content, kind) if is_caller(item, kind)]


# ── Refusals: empty without a reason ──────────────────────────────────────────────────────────────────────


def refused_home(home: Path, look: Look) -> str:
    """Return the reason why mcpb's home is unusable."""
    above = look(home.parent)
    if not above.mode:
        # After an interruption before the ledger exists, the new directory would be unowned.
        return f"there is no folder {home.parent} for mcpb's own. Run: mkdir -p {_quote_path(home.parent)}"
    if not (above.is_users or above.is_roots):
        return f"{home.parent} belongs to another user, who could replace the program. {_ELSEWHERE}"
    if above.mode & stat.S_IWOTH and not above.mode & stat.S_ISVTX and stat.S_ISDIR(above.mode):
        return f"{home.parent} {_EXPOSED}. Run: chmod o-w {_quote_path(home.parent)}"
    inside = [home, HomeLayout(home).state.path]
    refusals = [_refused_private(path, look(path)) or _refused_making(path, look) for path in inside]
    return next(filter(None, refusals), "")


def refused_view(path: Path, look: Look) -> str:
    """Return the reason why a place is unreadable: an unreadable file is not a missing one."""
    if not look(path).is_hidden:
        return ""
    closed = next(above for above in path.parents if look(above).mode)
    return f"{path} cannot be looked at: {closed} is closed to you. Run: chmod u+rwx {_quote_path(closed)}"


def refused_wrapper_folder(path: Path, look: Look) -> str:
    """Return the reason why no program may be started from this directory, existing or not."""
    return _refused_private(path, look(path))


def refused_manifest_folder(path: Path, look: Look) -> str:
    """Return the reason why no manifest may be changed in this directory, existing or not."""
    above = look(path.parent)
    if above.mode and not above.is_users:
        return f"{path.parent} belongs to another user. Run the command as that user"
    return _refused_folder(path, look(path)) or _refused_making(path, look)


def _refused_making(path: Path, look: Look) -> str:
    if look(path).mode:
        return ""
    nearest = next((above for above in path.parents if look(above).mode), path)
    return "" if look(nearest).is_writable else f"{path} cannot be made: {nearest} is read-only for you"


def refused_file(path: Path, found: FileState) -> str:
    """Return the reason why a file cannot be read and replaced: it is not a regular file of the user."""
    if not found.mode or (stat.S_ISREG(found.mode) and found.is_users and found.content is not None):
        return ""
    return f"{path} is {_describe_state(found)}, not a file of yours"


def _refused_private(path: Path, found: FileState) -> str:
    if refusal := _refused_folder(path, found):
        return refusal
    if found.mode & 0o022:
        return f"{path} {_EXPOSED}. Run: chmod go-w {_quote_path(path)}"
    return ""


def _refused_folder(path: Path, found: FileState) -> str:
    if not found.mode:
        return ""
    if not (stat.S_ISDIR(found.mode) and found.is_users):
        return (
            f"{path} is {_describe_state(found)}, not a directory of yours. If you do not need it: "
            f"mv {_quote_path(path)} {_quote_path(path)}.old"
        )
    return "" if found.is_writable else f"{path} is read-only. Run: chmod u+w {_quote_path(path)}"


def _quote_path(path: Path) -> str:
    """Quote a path for a shell command."""
    return shlex.quote(str(path))


def _describe_state(found: FileState) -> str:
    if stat.S_ISLNK(found.mode):
        return "a symbolic link"
    if not found.is_users:
        return "another user's"
    if stat.S_ISREG(found.mode):
        return "a file" if found.content is not None else "a file that cannot be read"
    return "a directory" if stat.S_ISDIR(found.mode) else "neither file nor directory"
