"""`python -m benchmarks --compare DIR`, with checkouts whose benchmarks give figures that were chosen."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import benchmarks.__main__ as bench_command
from benchmarks.comparison import Checkout, tables
from benchmarks.limits import TO_OTHER_CHECKOUT
from benchmarks.table import Compared, Table

MAIN = """
import json, sys
from benchmarks.subject import Bench

def main():
    assert Bench.rounds == 1
    options = dict(zip(sys.argv[1::2], sys.argv[2::2]))
    with open("../started", "a") as started:
        started.write(NAME)
    if not FIGURES:
        sys.exit("no native host within 60 s")
    table = {"title": options["--only"], "rows": FIGURES}
    with open(options["--json"], "w") as report:
        json.dump({"circumstances": {}, "tables": [table]}, report)
    sys.exit(1)  # a limit is not met
"""


def checkout(root: Path, *rows: tuple[str, float | None, str]) -> Checkout:
    """A checkout whose benchmarks give these subjects, medians and units."""
    (root / "benchmarks").mkdir(parents=True)
    (root / ".venv/bin").mkdir(parents=True)
    (root / ".venv/bin/python").symlink_to(sys.executable)
    figures = json.dumps([{"what": what, "p50": p50, "unit": unit} for what, p50, unit in rows])
    head = f"NAME = {root.name!r}\nnull = None\nFIGURES = {figures}\n"
    (root / "benchmarks/__main__.py").write_text(head + MAIN)
    (root / "benchmarks/subject.py").write_text("class Bench: rounds = 20")
    return Checkout(root)


def compare(here: Checkout, there: Checkout, directory: Path) -> list[Table]:
    return list(tables(here, there, ["path"], directory, is_quick=False))


def test_each_row_has_its_ratio_and_of_a_rate_less_is_worse(tmp_path: Path) -> None:
    here = checkout(tmp_path / "a", ("a call", 3.0, "ms"), ("pipelined", 100.0, "calls/s"))
    there = checkout(tmp_path / "b", ("a call", 2.0, "ms"), ("pipelined", 50.0, "calls/s"))
    [table] = compare(here, there, tmp_path)
    assert [(row.what, row.p50, row.unit, row.compared) for row in table.rows] == [
        ("a call", 3.0, "ms", [Compared(1.5, "times the other checkout", TO_OTHER_CHECKOUT)]),
        ("pipelined", 100.0, "calls/s", [Compared(0.5, "times the other checkout", TO_OTHER_CHECKOUT)]),
    ]
    assert not table.is_good
    assert str(there.root) in table.note


def test_checkouts_take_turns_and_neither_always_follows_the_other(tmp_path: Path) -> None:
    row = ("a call", 1.0, "ms")
    compare(checkout(tmp_path / "a", row), checkout(tmp_path / "b", row), tmp_path)
    assert (tmp_path / "started").read_text() == "abba" * 5


def test_a_row_that_only_one_checkout_has_gets_no_ratio(tmp_path: Path) -> None:
    here = checkout(tmp_path / "a", ("new", 1.0, "ms"), ("missing", None, "ms"))
    there = checkout(tmp_path / "b", ("old", 1.0, "ms"), ("missing", 1.0, "ms"))
    [table] = compare(here, there, tmp_path)
    assert [(row.what, bool(row.compared)) for row in table.rows] == [
        ("new", False),
        ("old", False),
        ("missing", False),
    ]


def test_a_section_that_fails_in_one_checkout_names_it_and_its_last_line(tmp_path: Path) -> None:
    here, there = checkout(tmp_path / "a", ("a call", 1.0, "ms")), checkout(tmp_path / "b")
    [table] = compare(here, there, tmp_path)
    assert table.failure == f"{there.root}: no native host within 60 s"


def test_the_command_compares_the_chosen_sections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = ("a call", 1.0, "ms")
    monkeypatch.setattr(bench_command, "THIS_CHECKOUT", checkout(tmp_path / "a", row))
    there = checkout(tmp_path / "b", row)
    options = ["--only", "hub", "--only", "path", "--json", str(tmp_path / "last.json")]
    run = CliRunner().invoke(bench_command.main, [*options, "--compare", str(there.root)])
    assert run.exit_code == 0, run.output
    assert run.output.index("\npath\n") < run.output.index("\nhub\n")
    assert run.output.endswith("2 of 2 limits are met.\n")


def test_a_checkout_without_an_environment_is_rejected(tmp_path: Path) -> None:
    run = CliRunner().invoke(bench_command.main, ["--compare", str(tmp_path)])
    assert run.exit_code == 2
    assert f"{tmp_path}/.venv/bin/python is missing" in run.output
