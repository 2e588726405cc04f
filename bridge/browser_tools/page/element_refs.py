"""Element references: `12` is an element of the main document, `f3.12` one of frame number 3.

`ref_12` and `ref_f3_12`, as references were written before, mean the same.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from bridge.browser_tools.tool_output import ToolError
from native_host.protocol.untrusted_text import single_line

_REF = re.compile(r"(?:ref_)?(?:f(?P<frame>[0-9]{1,9})[._])?(?P<number>[0-9]{1,9})", re.ASCII)
_AROUND = " \t\r\n[]()\"'`"
"""Models quote a ref as it stands in an outline, or as they would quote a name."""


class Ref(NamedTuple):
    """An element of a frame, by the numbers that the bridge and our code in the page have given them."""

    number: int
    frame: int = 0
    """0: the main frame."""

    def __str__(self) -> str:
        return f"f{self.frame}.{self.number}" if self.frame else f"{self.number}"


def is_ref(text: str) -> bool:
    """Return whether a text has the form of an element reference."""
    return _REF.fullmatch(text.strip(_AROUND)) is not None


def parse_ref(text: str) -> Ref:
    """Parse an element reference.

    Raises:
        ToolError: the text has another form.
    """
    found = _REF.fullmatch(text.strip(_AROUND))
    if found is None:
        raise ToolError(
            f"“{single_line(text, 60)}” is no ref. Refs, as 12 and f3.12, come from read_page and find."
        )
    return Ref(int(found["number"]), int(found["frame"] or 0))
