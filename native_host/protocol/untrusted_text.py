"""What a terminal may get of text that pages wrote: it is not to obey them."""

from __future__ import annotations

import re
import sys
from typing import TextIO

_NOT_FOR_TERMINALS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters other than tab and newline, what turns the direction of text, halves of characters."""


def shown(text: str, on: TextIO | None = None) -> str:
    """What came from a page, for stdout (or `on`): cleaned for a terminal. Scripts get it as it is."""
    stream = on or sys.stdout
    return _NOT_FOR_TERMINALS.sub("\N{REPLACEMENT CHARACTER}", text) if stream.isatty() else text
