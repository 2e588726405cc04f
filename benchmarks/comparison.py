"""Comparison of two checkouts: the same sections, in alternating rounds of one run.

Each round of a section starts `python -m benchmarks` once in either checkout, with its own code and its own
`.venv`. A ratio is taken within each round, and the median of all rounds is what counts.
"""

from __future__ import annotations

import subprocess
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import msgspec

from benchmarks.conversation import EndError
from benchmarks.limits import TO_OTHER_CHECKOUT, in_words
from benchmarks.report import Report
from benchmarks.table import Compared, Row, Table

ROUNDS = 10
QUICK_ROUNDS = 2
_ONE_ROUND = (
    "from benchmarks.subject import Bench; Bench.rounds = 1; from benchmarks.__main__ import main; main()"
)
"""One round of a section and not 20: the rounds of this run take their place."""
_RATES = ("/s",)

Key = tuple[str, str, str, str]


@dataclass(frozen=True)
class Checkout:
    """A clone of this project with an environment of its own."""

    root: Path

    @property
    def python(self) -> Path:
        """Interpreter of its environment."""
        return self.root / ".venv/bin/python"

    def missing(self) -> str:
        """Return the file without which nothing can be measured, or an empty string."""
        needed = (self.python, self.root / "benchmarks/__main__.py")
        return next((str(path) for path in needed if not path.is_file()), "")

    def measure(self, section: str, directory: Path, *, is_quick: bool) -> list[Table]:
        """Run one round of a section.

        Raises:
            EndError: the section was not measured; the text has the last line of its output.
        """
        report = directory / "round.json"
        report.unlink(missing_ok=True)
        command = [str(self.python), "-c", _ONE_ROUND, "--only", section, "--json", str(report)]
        output = _run([*command, *(["--quick"] if is_quick else [])], self.root)
        if not report.is_file():
            raise EndError(f"{self.root}: {(output.strip().splitlines() or ['no output'])[-1]}")
        tables = msgspec.json.decode(report.read_bytes(), type=Report).tables
        for table in tables:
            if table.failure:
                raise EndError(f"{self.root}: {table.title}: {table.failure}")
        return tables


def _run(command: list[str], directory: Path) -> str:
    """Return its output; its exit status says whether limits are met, which is not asked here."""
    process = subprocess.Popen(
        command, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        return process.communicate()[0]
    finally:
        process.terminate()  # after Ctrl-C it still ends what it has started
        process.wait()


@dataclass
class _Figures:
    """A row's medians, one a round, of either checkout."""

    here: list[float] = field(default_factory=list)
    there: list[float] = field(default_factory=list)

    def row(self, key: Key) -> Row:
        """Show the ratio: above 1 this checkout is slower or larger."""
        _, what, load, unit = key
        if len(self.here) != len(self.there) or not all(self.here + self.there):
            return Row(what, load, unit=unit, note="not measured in every round of both checkouts")
        pairs = zip(self.here, self.there, strict=True)
        if unit.endswith(_RATES):
            ratio = median(there / here for here, there in pairs)
        else:
            ratio = median(here / there for here, there in pairs)
        compared = [Compared(ratio, "times the other checkout", TO_OTHER_CHECKOUT)]
        there = f"{in_words(median(self.there))} there"
        return Row(what, load, median(self.here), unit=unit, compared=compared, note=there)


def tables(
    here: Checkout, there: Checkout, sections: Sequence[str], directory: Path, *, is_quick: bool
) -> Iterator[Table]:
    """Compare section by section; yield the tables of this checkout with the ratio in each row."""
    for section in sections:
        try:
            figures = _measure(here, there, section, directory, is_quick=is_quick)
        except EndError as error:
            yield Table(f"The section {section}", failure=str(error))
            continue
        rows: dict[str, list[Row]] = defaultdict(list)
        for key, found in figures.items():
            rows[key[0]].append(found.row(key))
        note = f"{_rounds(is_quick=is_quick)} rounds in turn with {there.root}; above 1 it is worse here"
        yield from (Table(title, of_table, note) for title, of_table in rows.items())


def _measure(
    here: Checkout, there: Checkout, section: str, directory: Path, *, is_quick: bool
) -> dict[Key, _Figures]:
    """Take turns; the order changes, so that neither checkout always follows the other."""
    figures: dict[Key, _Figures] = defaultdict(_Figures)
    for number in range(_rounds(is_quick=is_quick)):
        for checkout in (here, there) if number % 2 == 0 else (there, here):
            for table in checkout.measure(section, directory, is_quick=is_quick):
                for row in table.rows:
                    if row.p50 is not None:
                        found = figures[_key(table, row)]
                        (found.here if checkout is here else found.there).append(row.p50)
    return dict(figures)


def _rounds(*, is_quick: bool) -> int:
    return QUICK_ROUNDS if is_quick else ROUNDS


def _key(table: Table, row: Row) -> Key:
    return (table.title, row.what, row.load, row.unit)
