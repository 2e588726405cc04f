"""Prompts that the user writes: `prompts/*.md` in mcpb's home, each with a TOML head between `+++` lines.

The text below the head is one message of the user, unless lines `@user` or `@assistant` begin further ones. A
line `@embed URI` stands for a resource. `{name}` stands for the value of an argument.
"""

from __future__ import annotations

import hashlib
import heapq
import logging
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, field

from bridge.hub.primitives.own_prompt import PromptPart, Role
from native_host.protocol.validation_errors import describe_problem
from native_host.system import private_files, toml_text
from native_host.system.home_layout import HomeLayout
from native_host.system.private_files import PrivateFileError, UnusableFileError

MAX_FILES = 256
"""Prompt files that are read, by name."""
SUFFIX = ".md"
_FENCE = "+++"
_EMBED = "@embed "
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_PLACE = re.compile(r"\{([A-Za-z0-9_-]{1,64})\}")

_ROLES: dict[str, Role] = {"@user": "user", "@assistant": "assistant"}

_log = logging.getLogger(__name__)


class PromptFileError(UnusableFileError):
    """A prompt file cannot be used."""


class Argument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Argument of a prompt: its value replaces `{name}` in the text."""

    name: Annotated[str, Meta(pattern="^[A-Za-z0-9_-]{1,64}$")]
    description: str = ""
    default: str | None = None
    """None: it has to be given."""


class _Head(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    title: str = ""
    description: str = ""
    arguments: tuple[Argument, ...] = field(name="argument", default=())

    def __post_init__(self) -> None:
        names = [argument.name for argument in self.arguments]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"there are two arguments {twice}")


class PromptFile(msgspec.Struct, frozen=True):
    """A prompt of the user."""

    name: str
    title: str
    description: str
    arguments: tuple[Argument, ...]
    parts: tuple[PromptPart, ...]
    version: str
    """Hash of the file's content."""

    def fill(self, given: Mapping[str, str]) -> Iterator[PromptPart]:
        """Yield the parts with the values of the arguments. Braces that name no argument stay."""
        defaults = {each.name: each.default for each in self.arguments if each.default is not None}
        values = defaults | {name: value for name, value in given.items() if value or name not in defaults}

        def replace(place: re.Match[str]) -> str:
            return values.get(place[1], place[0])

        for part in self.parts:
            yield msgspec.structs.replace(part, body=_PLACE.sub(replace, part.body))


class PromptFiles:
    """The user's prompts, read again when a file has changed."""

    def __init__(self, home: Path) -> None:
        """Read from the directory of all files of mcpb."""
        self._directory = HomeLayout(home).prompts
        self._seen: Mapping[Path, object] = {}
        self._prompts: dict[str, PromptFile] = {}
        self.problems: Sequence[PromptFileError] = ()
        """Why files are left out."""
        self._logged: set[str] = set()

    def read(self) -> Mapping[str, PromptFile]:
        """Return the prompts by name. A file that cannot be used is left out, and named in the log once."""
        seen = _look(self._directory)
        if seen == self._seen:
            return self._prompts
        self._seen, found, problems = seen, {}, []
        for path in seen:
            try:
                found[path.stem] = read_prompt(path)
            except PromptFileError as error:
                problems.append(error)
        for text in sorted({str(problem) for problem in problems} - self._logged):
            _log.warning("a prompt file is left out: %s", text)
        self.problems, self._logged = problems, {str(problem) for problem in problems}
        self._prompts = found
        return found


def read_prompt(path: Path) -> PromptFile:
    """Read a prompt file.

    Raises:
        PromptFileError: it is invalid, or others could have written it.
    """
    if not _NAME.fullmatch(path.stem):
        raise PromptFileError(path, "its name has other characters than letters, digits, _ and -, or over 64")
    try:
        file = private_files.read(path)
    except PrivateFileError as error:
        raise PromptFileError.wrap(error) from error
    if file is None:
        raise PromptFileError(path, "it has gone")
    content = file.content
    try:
        text = content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise PromptFileError(path, "it is not UTF-8") from None
    head, body = _split(path, text)
    try:
        about = msgspec.convert(toml_text.parse_toml(path, b"\n" + head.encode()), _Head)  # below the fence
    except msgspec.ValidationError as error:
        raise PromptFileError(path, describe_problem(error, is_toml=True)) from None
    except UnusableFileError as error:
        raise PromptFileError.wrap(error) from error
    parts = tuple(_parse_parts(body))
    if not parts:
        raise PromptFileError(path, "it has no text below its head")
    version = hashlib.sha256(content).hexdigest()[:16]
    return PromptFile(path.stem, about.title, about.description, about.arguments, parts, version)


def _look(directory: Path) -> dict[Path, Any]:
    """Return what shows a change of a prompt file, or of who could write it, by path."""
    try:
        with os.scandir(directory) as entries:
            names = heapq.nsmallest(MAX_FILES, (each.name for each in entries if each.name.endswith(SUFFIX)))
        whole = _signature(directory.stat())
    except OSError:
        return {}
    seen: dict[Path, Any] = {}
    for name in names:
        path = directory / name
        try:
            seen[path] = (whole, _signature(path.stat()))
        except OSError as error:
            seen[path] = (whole, error.errno)
    return seen


def _signature(found: os.stat_result) -> tuple[int, ...]:
    return found.st_mtime_ns, found.st_ino, found.st_size, found.st_mode, found.st_uid


def _split(path: Path, text: str) -> tuple[str, str]:
    """Return the TOML head, which may be missing, and the text below it."""
    first, *lines = text.split("\n")
    if first.strip() != _FENCE:
        return "", text
    for number, line in enumerate(lines):
        if line.strip() == _FENCE:
            return "\n".join(lines[:number]), "\n".join(lines[number + 1 :])
    raise PromptFileError(path, f"its head has no end: add a line {_FENCE}")


def _parse_parts(body: str) -> Iterator[PromptPart]:
    role: Role = "user"
    lines: list[str] = []
    for line in body.split("\n"):
        command = line.strip()
        if command not in _ROLES and not command.startswith(_EMBED):
            lines.append(line)
            continue
        if text := "\n".join(lines).strip():
            yield PromptPart(role, text)
        lines = []
        if command in _ROLES:
            role = _ROLES[command]
        else:
            yield PromptPart(role, command.removeprefix(_EMBED).strip(), is_resource=True)
    if text := "\n".join(lines).strip():
        yield PromptPart(role, text)
