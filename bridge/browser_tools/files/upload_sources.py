"""Files of this machine that a client may give to pages: those below a few directories only.

The opened file decides: links are followed first, and the path is read from the open descriptor, so that no
program can replace the file in between.
"""

from __future__ import annotations

import fcntl
import mimetypes
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote_to_bytes, urlsplit

from bridge.browser_tools.files.secret_files import secret_content, secret_name
from bridge.browser_tools.tool_output import ToolError
from native_host.protocol.untrusted_text import single_line
from native_host.system.home_layout import user_home
from native_host.system.proc import find_descriptor_path

MAX_BYTES = 10 * 1024 * 1024
"""Bytes of all files of a call."""
MAX_FILES = 50
_NOTHING = "Nothing was given to the page."
_MAX_PATH = 300
"""Characters of a path that are shown."""

TOO_LARGE = (
    f"The files have more than {MAX_BYTES >> 20} MB together, which is the most for one call. Nothing was "
    "given to the page. Give fewer of them; the user has to add what is larger."
)


class LocalFile(NamedTuple):
    """A file for a page."""

    name: str
    data: bytes
    guess_mime_type: str
    path: str = ""
    """Path on this machine; empty: the content came with the call."""
    is_configured: bool = False
    """The user named it, or a directory above it, in `browser.upload_dirs`."""


@dataclass(frozen=True)
class Folders:
    """Below which files may be taken."""

    working: str = ""
    """Working directory of the client, base of relative paths; empty if unknown."""
    configured: tuple[str, ...] = ()
    roots: tuple[str, ...] = ()

    def allowed_directories(self) -> list[Path]:
        """Return the allowed directories, absolute and without links.

        A working directory at the user's home, or above it, is not a project and would allow everything.
        """
        return list(dict.fromkeys((*self._of_client(), *map(_real_path, self.configured))))

    def contains(self, file: Path) -> bool:
        """Return whether a path without links is below one of them."""
        return any(file.is_relative_to(folder) for folder in self.allowed_directories())

    def are_configured_for(self, file: Path) -> bool:
        """Return whether the user named a path without links, or a directory above it."""
        return any(file.is_relative_to(_real_path(folder)) for folder in self.configured)

    def find_secret(self, file: Path) -> str:
        """Return why a path without links counts as secret in a folder of the client; empty: it does not."""
        holders = [folder for folder in self._of_client() if file.is_relative_to(folder)]
        return next(filter(None, (secret_name(file, folder) for folder in holders)), "")

    def _of_client(self) -> list[Path]:
        folders = [folder for folder in (self.working, *self.roots) if folder and not _holds_home(folder)]
        return [_real_path(folder) for folder in folders]


class OutsideError(ToolError):
    """A file is not below the folders."""


def path_of(uri: str) -> str:
    """Return the path of a file URI of this machine (RFC 8089); empty for another URI."""
    try:
        parts = urlsplit(uri)
        path = os.fsdecode(unquote_to_bytes(parts.path))
    except ValueError:
        return ""
    is_here = parts.scheme == "file" and parts.netloc.lower() in ("", "localhost")
    is_whole = path.startswith("/") and not (parts.query or parts.fragment or "\0" in path)
    return path if is_here and is_whole else ""


def read_files(paths: Sequence[str], folders: Folders) -> list[LocalFile]:
    """Read files. It blocks.

    Raises:
        OutsideError: a file is forbidden; the text names the allowed directories.
        ToolError: a file cannot be read.
    """
    if len(paths) > MAX_FILES:
        raise ToolError(f"{len(paths)} files are too many for one call: give at most {MAX_FILES}.")
    files: list[LocalFile] = []
    left = MAX_BYTES
    for path in paths:
        with _open_file(path, folders) as (descriptor, real):
            data = _read_content(descriptor, left)
        left -= len(data)
        is_configured = folders.are_configured_for(real)
        if not is_configured and (why := secret_content(data)):
            raise _secret_error(real, why)
        files.append(LocalFile(Path(path).name, data, guess_mime_type(path), str(real), is_configured))
    return files


def guess_mime_type(name: str) -> str:
    """Return the MIME type by name; as in browsers empty if unknown."""
    return mimetypes.guess_type(name, strict=False)[0] or ""


@contextmanager
def _open_file(path: str, folders: Folders) -> Iterator[tuple[int, Path]]:
    if "\0" in path or not path:
        raise ToolError(f"“{_shorten_path(path)}” is no path of a file. {_NOTHING}")
    if not folders.working and not Path(path).is_absolute():
        raise ToolError(
            f"{_shorten_path(path)} is relative to a folder that is not known: give an absolute path."
        )
    wanted = Path(folders.working, path)
    _check_path(_real_path(wanted), wanted, folders)
    try:
        descriptor = os.open(wanted, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise ToolError(f"There is no file {_shorten_path(path)}. {_NOTHING}") from None
    except OSError as error:
        raise ToolError(f"{_shorten_path(path)} cannot be read: {error.strerror}. {_NOTHING}") from None
    try:
        _check_kind(descriptor, path)
        real = _path_of_descriptor(descriptor)
        _check_path(real, wanted, folders)
        yield descriptor, real
    finally:
        os.close(descriptor)


def _check_path(real: Path, wanted: Path, folders: Folders) -> None:
    if folders.are_configured_for(real):
        return
    if folders.contains(real):
        if why := folders.find_secret(real):
            raise _secret_error(real, why)
        return
    allowed = ", ".join(_shorten_path(folder) for folder in folders.allowed_directories())
    if not allowed:
        raise OutsideError(
            f"{_shorten_path(wanted)} may not be given to pages: no folder is known from which files may be "
            "taken. Give their content as files; or the user allows a folder: [browser] upload_dirs in "
            "config.toml."
        )
    leads = f", it leads to {_shorten_path(real)}" if folders.contains(Path(os.path.normpath(wanted))) else ""
    raise OutsideError(
        f"{_shorten_path(wanted)} may not be given to pages{leads}. Files may be taken from below "
        f"{allowed}. Put "
        "it there; or the user allows its folder: [browser] upload_dirs in config.toml."
    )


def _secret_error(file: Path, why: str) -> ToolError:
    return ToolError(
        f"{_shorten_path(file)} {why}, so it is not given to pages. {_NOTHING} The user can allow it: add "
        "the file or a directory above it to [browser] upload_dirs in config.toml."
    )


def _check_kind(descriptor: int, path: str) -> None:
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISDIR(mode):
        raise ToolError(f"{_shorten_path(path)} is a folder: name the files in it. {_NOTHING}")
    if not stat.S_ISREG(mode):
        raise ToolError(f"{_shorten_path(path)} is no regular file. {_NOTHING}")


def _path_of_descriptor(descriptor: int) -> Path:
    if sys.platform == "darwin":
        found = fcntl.fcntl(descriptor, fcntl.F_GETPATH, bytes(1024))
        return Path(os.fsdecode(found.rstrip(b"\0")))
    return find_descriptor_path(descriptor)


def _read_content(descriptor: int, most: int) -> bytes:
    """All of a file, and not a byte more than there is room for, however it grows."""
    if os.fstat(descriptor).st_size > most:
        raise ToolError(TOO_LARGE)
    with os.fdopen(os.dup(descriptor), "rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise ToolError(TOO_LARGE)
    return data


def _holds_home(folder: str) -> bool:
    return _real_path(user_home()).is_relative_to(_real_path(folder))


def _real_path(path: str | Path) -> Path:
    return Path(os.path.realpath(path))


def _shorten_path(path: str | Path) -> str:
    return single_line(str(path), _MAX_PATH)
