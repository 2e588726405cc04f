"""Figures as a table: in a terminal, in Markdown and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.limits import NONE, Limit, in_words


@dataclass(frozen=True)
class Compared:
    """A figure beside a row: a ratio to something else, or one that has a limit."""

    value: float
    unit: str
    """What stands behind the number: `times the C copier`, `ms p99`, `calls/s`."""
    limit: Limit = NONE

    @property
    def is_met(self) -> bool:
        """Whether it is within its limit."""
        return self.limit.is_met(self.value)

    def __str__(self) -> str:
        text = f"{in_words(self.value)} {self.unit}"
        if self.limit == NONE:
            return text
        return f"{text} ({self.limit}: {'met' if self.is_met else 'NOT MET'})"


@dataclass(frozen=True)
class Row:
    """One subject under one load."""

    what: str
    load: str = ""
    p50: float | None = None
    """None: it could not be measured, and `note` says why."""
    p99: float | None = None
    unit: str = "ms"
    compared: Sequence[Compared] = ()
    note: str = ""

    def cells(self) -> list[str]:
        """As text, one for each of COLUMNS."""
        beside = "; ".join([*map(str, self.compared), *([self.note] if self.note else [])])
        return [self.what, self.load, _cell(self.p50), _cell(self.p99), self.unit, beside]


COLUMNS = ("subject", "load", "p50", "p99", "unit", "beside")
_RIGHT = {"p50", "p99"}


@dataclass(frozen=True)
class Table:
    """What one section has found."""

    title: str
    rows: list[Row] = field(default_factory=list)
    note: str = ""
    """What these figures are, and between which ends they were taken."""
    failure: str = ""
    """Why there are none, where what should be measured did not do its work."""

    @property
    def is_good(self) -> bool:
        """Whether it was measured, and all stays within its limits."""
        return not self.failure and all(one.is_met for row in self.rows for one in row.compared)

    def text(self) -> str:
        """For a terminal."""
        if self.failure:
            return f"{self.title}\nFAILED: {self.failure}"
        cells = [list(COLUMNS), *(row.cells() for row in self.rows)]
        widths = [max(len(line[column]) for line in cells) for column in range(len(COLUMNS))]
        lines = ["  ".join(map(_aligned, line, widths, COLUMNS)).rstrip() for line in cells]
        return "\n".join([self.title, *([self.note] if self.note else []), *(f"  {line}" for line in lines)])

    def markdown(self) -> str:
        """For README.md."""
        if self.failure:
            return f"### {self.title}\n\nFAILED: {self.failure}"
        rule = ["--:" if column in _RIGHT else "---" for column in COLUMNS]
        lines = [COLUMNS, rule, *(row.cells() for row in self.rows)]
        parts = [f"### {self.title}", self.note, "\n".join(f"| {' | '.join(line)} |" for line in lines)]
        return "\n\n".join(part for part in parts if part)


def _aligned(cell: str, width: int, column: str) -> str:
    return cell.rjust(width) if column in _RIGHT else cell.ljust(width)


def _cell(value: float | None) -> str:
    return "" if value is None else in_words(value)
