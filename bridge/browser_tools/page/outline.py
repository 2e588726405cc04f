"""Outline of a page: the lines of its documents, each frame below its element. Sans-IO."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import msgspec

from bridge.browser_tools.page.element_refs import Ref
from bridge.browser_tools.page.outline_difference import OutlineLine

Cut = Literal["depth", "size"]


class Line(NamedTuple):
    """An element, or a piece of text, as our code in a document describes it (`scripts`)."""

    indent: int
    head: str
    ref: int
    """Its number; 0: it has none."""
    tail: str
    is_frame: bool


class Viewport(msgspec.Struct, rename="camel"):
    """Visible part of a page, in CSS pixels."""

    width: float
    height: float
    scroll_x: float
    scroll_y: float
    page_width: float
    page_height: float

    def describe_scroll(self) -> str:
        """Return where the page is scrolled to; empty at its beginning."""
        if not self.scroll_x and not self.scroll_y:
            return ""
        page = f"{self.page_width:g} x {self.page_height:g}"
        return f"scrolled to {self.scroll_x:g}, {self.scroll_y:g} of {page} CSS pixels"


class DocumentLines(msgspec.Struct, rename="camel"):
    """Result of `mcpb.read`."""

    lines: list[Line]
    truncated: Literal[False] | Cut
    title: str
    url: str
    viewport: Viewport
    pdf: bool


class Outline:
    """The lines of a page, which have at most `max_chars` characters together."""

    def __init__(self, max_chars: int) -> None:
        self.left = max_chars
        self.cuts: set[Cut] = set()
        self.lines: list[OutlineLine] = []

    def __str__(self) -> str:
        return "\n".join(line.text for line in self.lines)

    def __len__(self) -> int:
        return len(self.lines)

    @property
    def is_full(self) -> bool:
        """Nothing more has room."""
        return "size" in self.cuts

    def reserve_lines(self, lines: Sequence[Line], frame: int, indent: int) -> list[tuple[OutlineLine, Line]]:
        """Return the lines of a document, as far as they fit.

        The lines of its frames get the rest.
        """
        reserved = []
        for line in lines:
            shown = _format_line(line, frame, indent)
            if not self._reserve_text(shown.text):
                break
            reserved.append((shown, line))
        return reserved

    def write_line(self, line: OutlineLine) -> None:
        """Write a line that was reserved."""
        self.lines.append(line)

    def write_remark(self, indent: int, text: str) -> None:
        """Write a remark of the bridge if it fits."""
        line = f"{'  ' * indent}({text})"
        if self._reserve_text(line):
            self.write_line(OutlineLine(line))

    def _reserve_text(self, text: str) -> bool:
        if len(text) + 1 > self.left:
            self.cuts.add("size")
            return False
        self.left -= len(text) + 1
        return True


def _format_line(line: Line, frame: int, indent: int) -> OutlineLine:
    ref = str(Ref(line.ref, frame)) if line.ref else ""
    shown = f" [{ref}]" if ref else ""
    return OutlineLine(f"{'  ' * (indent + line.indent)}{line.head}{shown}{line.tail}", ref)
