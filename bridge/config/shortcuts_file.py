"""Reads and validates shortcuts.toml, the shortcuts that the user defines."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, field

from native_host.protocol.validation_errors import describe_problem
from native_host.system import private_files, toml_text
from native_host.system.home_layout import HomeLayout
from native_host.system.private_files import PrivateFileError, UnusableFileError


class ShortcutsError(UnusableFileError):
    """shortcuts.toml cannot be used."""


class Parameter(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameter of a shortcut: its value replaces `{name}` in the steps."""

    name: Name
    description: str = ""
    default: str | None = None
    """None: it has to be given."""


class ShortcutStep(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One call of a tool, with places for parameters in the texts of its input."""

    tool: str
    input: dict[str, Any] = {}


class Shortcut(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One `[[shortcut]]`."""

    name: Name
    steps: Annotated[tuple[ShortcutStep, ...], Meta(min_length=1)] = field(name="step")
    title: str = ""
    description: str = ""
    parameters: tuple[Parameter, ...] = field(name="parameter", default=())

    @property
    def usage(self) -> str:
        """Return the syntax of the command, for instance `/report <query> [pages=1]`."""
        shown = (
            f"<{each.name}>" if each.default is None else f"[{each.name}={shlex.quote(each.default)}]"
            for each in self.parameters
        )
        return " ".join([f"/{self.name}", *shown])

    def __post_init__(self) -> None:
        names = [parameter.name for parameter in self.parameters]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"{self.name} has two parameters {twice}")


def read_shortcuts(home: Path) -> Sequence[Shortcut]:
    """Read the user's shortcuts, in the order of the file; `home` is the directory of all files of mcpb.

    Raises:
        ShortcutsError: the file cannot be used, or others could have written it.
    """
    path = HomeLayout(home).shortcuts
    try:
        file = private_files.read(path)
        found = toml_text.parse_toml(path, file.content) if file else {}
        shortcuts = msgspec.convert(found, _File).shortcuts
    except PrivateFileError as error:
        raise ShortcutsError.wrap(error) from error
    except msgspec.ValidationError as error:
        raise ShortcutsError(path, describe_problem(error, is_toml=True)) from None
    names = [shortcut.name for shortcut in shortcuts]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ShortcutsError(path, f"there are two shortcuts {twice}")
    return shortcuts


Name = Annotated[str, Meta(pattern="^[A-Za-z0-9_-]{1,64}$")]


class _File(msgspec.Struct, forbid_unknown_fields=True):
    shortcuts: tuple[Shortcut, ...] = field(name="shortcut", default=())
