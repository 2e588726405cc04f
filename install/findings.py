"""What is wrong with an installation: a code for each cause, its sentence, and the command that mends it.

The table of docs/TROUBLESHOOTING.md lists the codes; a test walks it.
"""

from __future__ import annotations

from typing import Literal

import msgspec

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
