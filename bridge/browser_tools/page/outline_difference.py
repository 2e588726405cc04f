"""Difference of two outlines of a page: new, gone and changed lines, each below the line before it. Sans-IO.

Shown lines begin with `+` (new), `-` (gone), `~` (changed: the same element with another line) or a space (a
line that stayed, and shows the place).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import groupby
from typing import Literal, NamedTuple

MAX_COMPARED = 4_000
"""Lines of the part that differs. Of a larger one only the size is said."""
MAX_GONE = 3
"""Consecutive gone lines that are all shown."""


class OutlineLine(NamedTuple):
    """A line of an outline."""

    text: str
    """With its indentation."""
    ref: str = ""
    """Reference of its element; empty: it has none."""

    @property
    def key(self) -> tuple[str, str]:
        """What stays the same while it is the same line: its element, else its text."""
        return ("ref", self.ref) if self.ref else ("text", self.text)


class Change(NamedTuple):
    """One line of a difference."""

    mark: Literal["+", "-", "~", " "]
    line: OutlineLine


def compare_outlines(before: Sequence[OutlineLine], after: Sequence[OutlineLine]) -> list[Change] | None:
    """Return the changed lines in order, each run of them below the line that precedes it.

    None: more than MAX_COMPARED lines differ.
    """
    start = 0
    while start < min(len(before), len(after)) and before[start] == after[start]:
        start += 1
    end = 0
    while end < min(len(before), len(after)) - start and before[-1 - end] == after[-1 - end]:
        end += 1
    old, new = before[start : len(before) - end], after[start : len(after) - end]
    if max(len(old), len(new)) > MAX_COMPARED:
        return None
    above = before[start - 1] if start else None
    return list(_find_changes(old, new, above))


def _find_changes(
    old: Sequence[OutlineLine], new: Sequence[OutlineLine], above: OutlineLine | None
) -> Iterator[Change]:
    matcher = SequenceMatcher(None, [line.key for line in old], [line.key for line in new], autojunk=False)
    is_placed = False
    """The place of the next change is clear: the line above it has been given."""
    for kind, old_from, old_to, new_from, new_to in matcher.get_opcodes():
        if kind == "equal":
            for was, now in zip(old[old_from:old_to], new[new_from:new_to], strict=True):
                if was != now:
                    yield from _place(above, is_placed)
                    yield Change("~", now)
                is_placed, above = was != now, now
            continue
        yield from _place(above, is_placed)
        yield from (Change("-", line) for line in old[old_from:old_to])
        yield from (Change("+", line) for line in new[new_from:new_to])
        is_placed = True


def _place(above: OutlineLine | None, is_placed: bool) -> Iterator[Change]:
    if not is_placed and above is not None:
        yield Change(" ", above)


def format_changes(changes: Sequence[Change], max_lines: int) -> str:
    """Return the changes as text of at most so many lines.

    Of a long run of gone lines it has the first and the last.
    """
    lines = [line for is_gone, run in groupby(changes, _is_gone) for line in _format_run(list(run), is_gone)]
    if len(lines) <= max_lines:
        return "\n".join(line.text for line in lines)
    shown = lines[: max_lines - 1]
    left = len(changes) - sum(line.changes for line in shown)
    return "\n".join([*(line.text for line in shown), f"… {left} more lines"])


def _is_gone(change: Change) -> bool:
    return change.mark == "-"


class _ShownLine(NamedTuple):
    text: str
    changes: int = 1
    """Number of changes that it stands for."""


def _format_run(run: Sequence[Change], is_gone: bool) -> list[_ShownLine]:
    lines = [_ShownLine(f"{change.mark} {change.line.text}") for change in run]
    if not is_gone or len(lines) <= MAX_GONE:
        return lines
    between = len(lines) - 2
    return [lines[0], _ShownLine(f"- … {between} more lines", between), lines[-1]]
