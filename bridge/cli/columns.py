"""Text in columns, for terminals. Pure."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence

_GAP = "  "
_MIN_LAST = 16
"""Least width of the last column, however narrow the terminal is."""


class Columns:
    """Each as wide as its widest cell so far, within its limit; the last has the room that is left.

    `line_width` is the terminal's, 0 where lines may be as long as they like.
    """

    def __init__(self, limits: Sequence[int], line_width: int = 0, indent: str = "") -> None:
        self._limits = limits
        self._line_width = line_width
        self._indent = indent
        self._widths = [0] * len(limits)

    def format_lines(self, rows: Iterable[Sequence[str]]) -> list[str]:
        """Format each row as one line; a row has a cell for each limit, and one for the last column."""
        cells = [[*map(cut_text, row, self._limits), row[-1]] for row in rows]
        for row in cells:
            widest = zip(self._widths, row, strict=False)
            self._widths = [max(width, display_width(cell)) for width, cell in widest]
        return [self._format_line(row) for row in cells]

    def _format_line(self, row: Sequence[str]) -> str:
        *cells, last = row
        padded = (_pad_text(cell, width) for cell, width in zip(cells, self._widths, strict=True) if width)
        line = self._indent + "".join(f"{cell}{_GAP}" for cell in padded)
        if self._line_width:
            last = cut_text(last, max(_MIN_LAST, self._line_width - display_width(line)))
        return (line + last).rstrip()


def display_width(text: str) -> int:
    """Return the number of terminal cells that a text takes: some characters take two, some none."""
    return sum(map(_char_width, text))


def cut_text(text: str, max_width: int) -> str:
    """At most so wide, with an ellipsis where something is missing."""
    if display_width(text) <= max_width:
        return text
    width, kept = 1, ""
    for char in text:
        width += _char_width(char)
        if width > max_width:
            break
        kept += char
    return kept + "…"


def _char_width(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def _pad_text(text: str, width: int) -> str:
    return text + " " * (width - display_width(text))
