"""A whole run: on what it was made, and all its tables; as JSON, and in README.md between two marks."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from benchmarks.limits import NONE
from benchmarks.table import Table

BEGIN = "<!-- The last run: `python -m benchmarks --write-readme` replaces what follows. -->"
END = "<!-- The end of the last run. -->"


@dataclass(frozen=True)
class Report:
    """What a run has found."""

    circumstances: dict[str, str]
    """Machine, versions, date, load, and who is missing."""
    tables: list[Table] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        """Whether all limits are met."""
        return all(table.is_good for table in self.tables)

    @property
    def is_whole(self) -> bool:
        """Whether everything could be measured."""
        return not any(table.failure for table in self.tables)

    def verdict(self) -> str:
        """Return the limits that are not met, one per line, after a sentence with their number."""
        judged = [(table, row, one) for table in self.tables for row in table.rows for one in row.compared]
        judged = [found for found in judged if found[2].limit != NONE]
        missed = [found for found in judged if not found[2].is_met]
        failed = [f"  {table.title}: FAILED" for table in self.tables if table.failure]
        lines = [f"  {table.title}, {row.what}, {row.load}: {one}" for table, row, one in missed]
        return "\n".join([f"{len(judged) - len(missed)} of {len(judged)} limits are met.", *failed, *lines])

    def heading(self) -> str:
        """Return the text above the tables."""
        width = max(map(len, self.circumstances))
        return "\n".join(f"{name:<{width}}  {text}" for name, text in self.circumstances.items())

    def json(self) -> bytes:
        """All of it."""
        return msgspec.json.format(msgspec.json.encode(self)) + b"\n"

    def written_into(self, page: str) -> str:
        """Return a Markdown page with this run in place of the previous one.

        Raises:
            ValueError: the page does not have both marks.
        """
        before, begin, rest = page.partition(BEGIN)
        _, end, after = rest.partition(END)
        if not begin or not end:
            raise ValueError(f"the page needs both marks: {BEGIN} and {END}")
        circumstances = "\n".join(f"* {name}: {text}" for name, text in self.circumstances.items())
        tables = (table.markdown() for table in self.tables)
        verdict, *missed = self.verdict().splitlines()
        told = "\n".join([verdict, *(f"* {line.strip()}" for line in missed)])
        return "\n\n".join([before + BEGIN, circumstances, told, *tables, END]) + after
