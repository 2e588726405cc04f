"""Whose a file is. Ours is what the ledger knows by its content's hash, a manifest that points at our
wrapper, and a wrapper that says so in its second line. Where we are registered, a damaged manifest is ours as
well: one that starts nothing. Whatever else stands in our places is refused, with what to do about it. Pure:
what was found is passed in.
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
class Found:
    """What is in a place: `mode` 0 when nothing is, `content` None where there is no readable file."""

    mode: int = 0
    is_users: bool = True
    """Owned by the running user."""
    is_roots: bool = False
    is_hidden: bool = False
    """Perhaps something is there: a folder above is closed to the running user."""
    content: bytes | None = None
    mtime_ns: int = 0
    is_writable: bool = True
    """A directory in which the running user may make and remove files."""


Look = Callable[[Path], Found]

_EXPOSED = "can be written by others, who could change what the browser starts"
_ELSEWHERE = "Choose another folder with MCPB_HOME"


def installed_wrapper(home: Path, look: Look) -> Wrapper | None:
    """What the wrapper in place was made from; None when there is none of ours, or it does not say it."""
    content = look(HomeLayout(home).wrapper).content
    return wrapper.read(content.decode(errors="replace")) if content is not None else None


def is_our_wrapper(content: bytes, entry: Entry | None) -> bool:
    """Whether the program in the wrapper's place is one that we wrote."""
    return wrapper.is_ours(content.decode(errors="replace")) or (entry is not None and entry.holds(content))


def wrapper_stranger(file: Path, entry: Entry | None, look: Look) -> str:
    """Why what is in the wrapper's place is not ours; empty where nothing is, or ours."""
    found = look(file)
    if fault := refused_file(file, found):
        return fault
    is_ours = found.content is None or is_our_wrapper(found.content, entry)
    return "" if is_ours else f"{file} is not ours: mcpb did not write it"


def manifest_stranger(file: Path, entry: Entry | None, wrapper_file: Path, look: Look) -> str:
    """Why what is in a manifest's place is not ours; empty where nothing is, or ours."""
    found = look(file)
    if fault := refused_file(file, found):
        return fault
    if found.content is None or is_our_manifest(found.content, entry, wrapper_file, look):
        return ""
    return f"{file} is not ours: it {_manifest_fault(found.content, wrapper_file)}"


def is_our_manifest(content: bytes, entry: Entry | None, wrapper_file: Path, look: Look) -> bool:
    """Whether we wrote it, or it starts our wrapper, or we are registered there and it starts nothing."""
    if entry is None:
        return not _manifest_fault(content, wrapper_file)
    return entry.holds(content) or _starts_nothing(content, wrapper_file, look)


def _manifest_fault(content: bytes, wrapper_file: Path) -> str:
    """Why a manifest is not one that points at our wrapper; empty when it is."""
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
    """The extensions that a manifest of ours admits; what a browser would not accept is left out."""
    return [item for item in callers_in(content, kind) if is_caller(item, kind)]


# ── Refusals: empty when there is none ──────────────────────────────────────────────────────────────────────


def refused_home(home: Path, look: Look) -> str:
    """Why mcpb's home cannot be where it is to be."""
    above = look(home.parent)
    if not above.mode:
        # Made by us, it would be nobody's if we were interrupted before the ledger is there.
        return f"there is no folder {home.parent} for mcpb's own. Run: mkdir -p {_quoted(home.parent)}"
    if not (above.is_users or above.is_roots):
        return f"{home.parent} is another user's, who could change what the browser starts. {_ELSEWHERE}"
    if above.mode & stat.S_IWOTH and not above.mode & stat.S_ISVTX and stat.S_ISDIR(above.mode):
        return f"{home.parent} {_EXPOSED}. Run: chmod o-w {_quoted(home.parent)}"
    inside = [home, HomeLayout(home).state.path]
    refusals = [_refused_private(path, look(path)) or _refused_making(path, look) for path in inside]
    return next(filter(None, refusals), "")


def refused_view(path: Path, look: Look) -> str:
    """Why it cannot be told what is in a place: what is not seen is not gone."""
    if not look(path).is_hidden:
        return ""
    closed = next(above for above in path.parents if look(above).mode)
    return f"{path} cannot be looked at: {closed} is closed to you. Run: chmod u+rwx {_quoted(closed)}"


def refused_wrapper_folder(path: Path, look: Look) -> str:
    """Why no program may be started from this folder, which is there or will be made."""
    return _refused_private(path, look(path))


def refused_manifest_folder(path: Path, look: Look) -> str:
    """Why no manifest may be written or removed in this folder, which is there or will be made."""
    above = look(path.parent)
    if above.mode and not above.is_users:
        return f"{path.parent} is another user's. Run the command as that user"
    return _refused_folder(path, look(path)) or _refused_making(path, look)


def _refused_making(path: Path, look: Look) -> str:
    if look(path).mode:
        return ""
    nearest = next((above for above in path.parents if look(above).mode), path)
    return "" if look(nearest).is_writable else f"{path} cannot be made: {nearest} is read-only for you"


def refused_file(path: Path, found: Found) -> str:
    """Why what is in a file's place cannot be read and replaced: it is no plain file of the person's."""
    if not found.mode or (stat.S_ISREG(found.mode) and found.is_users and found.content is not None):
        return ""
    return f"{path} is {_described(found)}, not a file of yours"


def _refused_private(path: Path, found: Found) -> str:
    if refusal := _refused_folder(path, found):
        return refusal
    if found.mode & 0o022:
        return f"{path} {_EXPOSED}. Run: chmod go-w {_quoted(path)}"
    return ""


def _refused_folder(path: Path, found: Found) -> str:
    if not found.mode:
        return ""
    if not (stat.S_ISDIR(found.mode) and found.is_users):
        return (
            f"{path} is {_described(found)}, not a directory of yours. If you do not need it: "
            f"mv {_quoted(path)} {_quoted(path)}.old"
        )
    return "" if found.is_writable else f"{path} is read-only. Run: chmod u+w {_quoted(path)}"


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
