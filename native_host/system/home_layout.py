"""Layout of mcpb's home directory (`~/.mcpb`): where it lies, and every path below it.

It neither reads nor writes files, and imports little: every start of mcpb imports it.
"""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal, NamedTuple, overload

NAME = ".mcpb"
Removal = Literal["file", "directory", "extension", "managed"]
"""How `uninstall-native-host --purge` removes what is in a place.

file: a file or link, with its draft and the files that SQLite or the log put beside it. directory: with
everything in it. extension: a directory, if a copy of the extension is in it. managed: not by --purge, but
by what wrote it: installation and native hosts know which of these files are theirs.
"""


class Place:
    """A name below a directory: on a layout its path, on the class the place itself."""

    def __init__(self, name: str, removal: Removal = "file", *, beside: tuple[str, ...] = ()) -> None:
        """Declare a place; `beside` has the suffixes of files that belong to it."""
        self.name = name
        self.removal: Removal = removal
        self.beside = beside

    @overload
    def __get__(self, layout: None, owner: type[object]) -> Place: ...

    @overload
    def __get__(self, layout: Layout, owner: type[object]) -> Path: ...

    def __get__(self, layout: Layout | None, owner: type[object]) -> Place | Path:
        """Return the path, or on the class this place."""
        return self if layout is None else self.of(layout)

    def of(self, layout: Layout) -> Path:
        """Return the path on a layout."""
        return layout.path / self.name


class NumberedFiles(NamedTuple):
    """One file for each process, with the process id in its name."""

    directory: Path
    pattern: str

    def path_of(self, pid: int) -> Path:
        """Return the file of a process."""
        return self.directory / self.pattern.replace("*", str(pid))

    def existing(self) -> list[Path]:
        """Return the files of all processes, sorted by name."""
        return sorted(self.directory.glob(self.pattern))


class Numbered:
    """A pattern of names below a directory: on a layout the files, on the class the pattern itself."""

    def __init__(self, pattern: str, removal: Removal = "file") -> None:
        """Declare a pattern with one `*`."""
        self.pattern = pattern
        self.removal: Removal = removal

    @overload
    def __get__(self, layout: None, owner: type[object]) -> Numbered: ...

    @overload
    def __get__(self, layout: Layout, owner: type[object]) -> NumberedFiles: ...

    def __get__(self, layout: Layout | None, owner: type[object]) -> Numbered | NumberedFiles:
        """Return the files, or on the class this pattern."""
        return self if layout is None else self.of(layout)

    def of(self, layout: Layout) -> NumberedFiles:
        """Return the files on a layout."""
        return NumberedFiles(layout.path, self.pattern)


class Layout:
    """Names below one directory, declared as attributes of a subclass."""

    def __init__(self, path: Path) -> None:
        """Lay out this directory, whether it exists or not."""
        self.path = path

    @classmethod
    def places(cls) -> Iterator[Place | Numbered]:
        """Return all that is declared, in order."""
        return (each for each in vars(cls).values() if isinstance(each, Place | Numbered))


class StateLayout(Layout):
    """What mcpb stores for itself, in `state`."""

    log = Place("mcpb.log", beside=(".1",))
    audit_log = Place("audit.jsonl")
    earlier_audit_log = Place("audit.1.jsonl")
    tool_cache = Place("tools.sqlite", beside=("-wal", "-shm", "-journal", ".broken"))
    approvals = Place("approvals.json")
    pauses = Place("pauses.json")
    profiles = Place("profiles.json")
    bearer_token = Place("http-token")
    access_tokens = Place("http-tokens.json")
    logins = Place("logins", "directory")
    """Tokens of remote MCP servers that the user has signed in to."""
    proxy_logins = Place("proxy-logins", "directory")
    """Tokens for WebSocket proxies that the user has signed in to."""
    proxy = Place("proxy", "directory")
    """Key and sign-ins of the WebSocket proxy's home issuer."""
    device_id = Place("device-id")
    skills = Place("skills.json", "managed")
    """Paths that `mcpb skill --install` has written."""
    extensions = Place("extensions.json", "managed")
    """Copies of the extension, with the digests of their files."""
    server_records = Numbered("serve-*.json")
    remote_records = Numbered("remote-*.json")
    """Of bridges that are connected to remote MCP servers."""
    channel_records = Numbered("channel-*.json", "managed")
    """Of servers that publish a socket beside those of Claude in Chrome."""
    damaged_ledger = Place("ledger.json.damaged")
    """Where `ledger` is moved when it cannot be read."""


class HomeLayout(Layout):
    """Everything below mcpb's home. Of an installation for all users only bin, state and run are used."""

    config = Place("config.toml")
    browsers = Place("browsers.toml")
    shortcuts = Place("shortcuts.toml")
    prompts = Place("prompts", "directory")
    """The user's prompts."""
    pictures = Place("pictures", "directory")
    """Screenshots, where the user has no directory for downloads."""
    results = Place("results", "directory")
    """Long results and images of `mcpb call`."""
    extension_drafts = Numbered(".extension-*")
    extension = Place("extension", "extension")
    firefox_extension = Place("extension-firefox", "extension")
    bin = Place("bin", "managed")
    wrapper = Place("bin/mcpb-native-host", "managed")
    run = Place("run", "managed")
    """Sockets of native hosts, unless the system has a better directory."""
    ledger = Place("state/ledger.json", "managed")
    backup = Place("state/backup", "managed")
    """Files of other programs that were moved away by --replace."""

    @property
    def state(self) -> StateLayout:
        """Return the layout of `state`."""
        return StateLayout(self.path / "state")


# ── The home rule ───────────────────────────────────────────────────────────────────────────────────────────


def mcpb_home(environ: Mapping[str, str] = os.environ) -> Path:
    """Return `MCPB_HOME`, else `.mcpb` in the user's home."""
    if chosen := environ.get("MCPB_HOME"):
        return Path(chosen).absolute()
    return user_home(environ) / NAME


def relative_home(environ: Mapping[str, str] = os.environ) -> str:
    """Return `MCPB_HOME` if it is a relative path: its meaning depends on the current directory."""
    chosen = environ.get("MCPB_HOME", "")
    return "" if os.path.isabs(chosen) else chosen  # noqa: PTH117


def is_home_chosen(environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether `MCPB_HOME` is set: then no other home counts."""
    return bool(environ.get("MCPB_HOME"))


def user_home(environ: Mapping[str, str] = os.environ) -> Path:
    """Return `$HOME` if it is a directory of this user, else the home that the password database names.

    A relative path is ignored: each process could have another current directory.
    """
    named = environ.get("HOME", "")
    return Path(named) if _owner_of(named) == os.getuid() else password_home()


def foreign_home(environ: Mapping[str, str] = os.environ) -> Path | None:
    """Return `$HOME` if it is a directory of another user, as `sudo` may leave it; `user_home` ignores it."""
    named = environ.get("HOME", "")
    return Path(named) if _owner_of(named) not in (None, os.getuid()) else None


def password_home() -> Path:
    """Return the home that the password database names; the root for a user that it does not know."""
    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:
        return Path("/")


def _owner_of(directory: str) -> int | None:
    if not os.path.isabs(directory):  # noqa: PTH117  (as a Path, an empty name is the current directory)
        return None
    try:
        found = Path(directory).stat()
    except (OSError, ValueError):  # ValueError: it has a NUL
        return None
    return found.st_uid if stat.S_ISDIR(found.st_mode) else None
