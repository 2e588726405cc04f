"""A whole run: on what it was made, and all its tables; as JSON, and in README.md between two marks."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

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

    def heading(self) -> str:
        """What to know before the tables."""
        width = max(map(len, self.circumstances))
        return "\n".join(f"{name:<{width}}  {text}" for name, text in self.circumstances.items())

    def json(self) -> bytes:
        """All of it."""
        return msgspec.json.format(msgspec.json.encode(self)) + b"\n"

    def written_into(self, page: str) -> str:
        """A Markdown page with this run in the place of the one before.

        Raises:
            ValueError: the page does not have both marks.
        """
        before, begin, rest = page.partition(BEGIN)
        _, end, after = rest.partition(END)
        if not begin or not end:
            raise ValueError(f"the page needs both marks: {BEGIN} and {END}")
        circumstances = "\n".join(f"* {name}: {text}" for name, text in self.circumstances.items())
        tables = (table.markdown() for table in self.tables)
        return "\n\n".join([before + BEGIN, circumstances, *tables, END]) + after
