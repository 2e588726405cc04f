"""The commands of findings: built from words, and quoted here alone, so that they can be pasted."""

from __future__ import annotations

import shlex

from install.browsers import Target
from install.targets import SUDO_MCPB, selector


def shell_line(command: str, *words: str) -> str:
    """A plain command of ours, and what it is given: quoted, for a shell."""
    return " ".join([command, *map(shlex.quote, words)])


def installing(*options: str, as_root: bool = False) -> str:
    """`mcpb install-native-host` with these options, or with `as_root` the same through sudo."""
    return f"{SUDO_MCPB if as_root else 'mcpb'} {shell_line('install-native-host', *options)}"


def registering(target: Target | None, *, replace: bool = False, for_all: bool = False) -> str:
    """Registers a browser, or writes only what all share where there is none; `replace`s what is not ours.

    `for_all`: for all users, as root.
    """
    selected = [word for word in shlex.split(selector(target)) if word != "--system"] if target else []
    system, replacing = ["--system"] * for_all, ["--replace"] * replace
    return installing(*system, *selected, *replacing, as_root=for_all)
