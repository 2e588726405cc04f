"""Summary of `make test`: failed tests of all groups, the commands that repeat them, counts.

It reads a directory that the Makefile fills: `<group>.xml`, JUnit XML as pytest writes it; `failed`, names of
the groups that ended with an error, one a line; `started`, a time in seconds since 1970.
"""

from __future__ import annotations

import shlex
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

OUTCOMES = {"failure": "failed", "error": "error", "skipped": "skipped"}
"""Elements in a `testcase`, and pytest's word for each; without one the test passed."""


@dataclass(frozen=True)
class TestCase:
    """A test's outcome."""

    __test__ = False  # pytest collects classes with this prefix

    node_id: str
    outcome: str
    """`passed`, or a value of OUTCOMES."""
    reason: str = ""
    """First line of the error."""

    @property
    def is_failed(self) -> bool:
        """Whether the test has to be repeated."""
        return self.outcome in {"failed", "error"}


def read_cases(report: Path) -> list[TestCase]:
    """Read a group's report; empty if pytest was killed before it wrote one."""
    if not report.is_file():
        return []
    return [_read_case(element) for element in ElementTree.parse(report).iter("testcase")]


def _read_case(element: ElementTree.Element) -> TestCase:
    node_id = _node_id(element.get("classname", ""), element.get("name", ""))
    for child in element:
        if child.tag in OUTCOMES:
            reason = child.get("message", "").partition("\n")[0]
            return TestCase(node_id, OUTCOMES[child.tag], reason)
    return TestCase(node_id, "passed")


def _node_id(classname: str, name: str) -> str:
    """Rebuild a node id from `tests.test_a.TestB` and `test_c`; a whole file has no class name."""
    names = classname.split(".") if classname else name.split(".")
    for count in range(len(names), 0, -1):
        path = Path(*names[:count]).with_suffix(".py")
        if path.is_file():
            return "::".join([str(path), *names[count:], *([name] if classname else [])])
    return "::".join([*names, name])


def summarize(directory: Path) -> Iterator[str]:
    """Compose the lines; those before the last one only if something failed."""
    cases = {path.stem: read_cases(path) for path in sorted(directory.glob("*.xml"))}
    every = [case for group in cases.values() for case in group]
    failed = [case for case in every if case.is_failed]
    groups = [name for name in failed_groups(directory) if not any(map(_has_failed, cases.get(name, [])))]
    if failed or groups:
        yield from ["", "Failed in this run:"]
    for case in failed:
        yield f"{'ERROR' if case.outcome == 'error' else 'FAILED'} {case.node_id} - {case.reason}"
    for name in groups:
        yield f"ERROR make {name} - no test failed: see its output above"
    if failed or groups:
        yield from ["", "Repeat it with:", *_commands(groups, failed), ""]
    counts = Counter(case.outcome for case in every)
    counts["error"] += len(groups)
    yield f"{_closing_words(counts)} in {time.time() - float((directory / 'started').read_text()):.2f}s"


def failed_groups(directory: Path) -> list[str]:
    """Read the names of the groups that ended with an error."""
    path = directory / "failed"
    return path.read_text().split() if path.is_file() else []


def _has_failed(case: TestCase) -> bool:
    return case.is_failed


def _commands(groups: list[str], failed: list[TestCase]) -> Iterator[str]:
    if groups:
        yield f"  make {' '.join(groups)}"
    if failed:
        ids = dict.fromkeys(shlex.quote(case.node_id) for case in failed)
        yield " \\\n    ".join(["  .venv/bin/pytest -q", *ids])


def _closing_words(counts: Counter[str]) -> str:
    """Counts in pytest's own words and order, for programs that read its closing line."""
    if counts["error"] > 1:
        counts["errors"] = counts.pop("error")
    words = [
        f"{counts[word]} {word}"
        for word in ("failed", "passed", "skipped", "error", "errors")
        if counts[word]
    ]
    return ", ".join(words) or "no tests ran"


def main() -> None:
    """Print the summary; exit with 1 if a group failed."""
    directory = Path(sys.argv[1])
    sys.stdout.writelines(f"{line}\n" for line in summarize(directory))
    sys.exit(1 if failed_groups(directory) else 0)


if __name__ == "__main__":
    main()
