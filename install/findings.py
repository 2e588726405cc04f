"""What is wrong with an installation: a code for each cause, its sentence, and the command that mends it.

The table of docs/TROUBLESHOOTING.md lists the codes; a test walks it.

The commands of findings: built from words, and quoted here alone, so that they can be pasted.
"""

from __future__ import annotations

import shlex
from typing import Literal

import msgspec

from install.browsers import Target
from install.targets import SUDO_MCPB, selector

Level = Literal["fault", "warning", "note"]
"""A fault stops the chain; a warning may; a note is only to be known."""
Hop = Literal[
    "environment", "wrapper", "manifest", "browser", "host", "socket", "extension", "worker", "page"
]
"""Where in the chain, in the order in which they are looked at."""


class Finding(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One cause, in one place."""

    code: str
    """Stable, in lower case with hyphens: for instance `manifest-missing`."""
    hop: Hop
    text: str
    """For people: what is wrong, and where."""
    command: str = ""
    """What mends it; empty where no command can."""
    level: Level = "fault"
    where: str = ""
    """The browser, profile or file concerned, as it is called elsewhere in the report."""
    is_safe: bool = False
    """Whether `mcpb doctor --fix` may run the command's plan unasked: it only puts right what is ours."""


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
