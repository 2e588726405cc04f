"""`make bench` measures what it says. How fast a machine is, is no test's business."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import hub, programs
from benchmarks.limits import Limit
from benchmarks.measuring import Samples, take_turns
from benchmarks.subject import Bench
from benchmarks.table import Compared, Row, Table


@pytest.fixture
def bench(short_tmp: Path) -> Bench:
    return Bench(short_tmp, programs.build(short_tmp), is_quick=True)


def test_the_hub_is_measured_with_few_tools_and_with_many(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "SIZES", (10, 20))
    [table] = hub.tables(bench)
    assert [row.load for row in table.rows if row.what == "a call"] == ["10 tools", "20 tools"]
    assert all(row.p50 for row in table.rows)


def test_a_figure_over_its_limit_is_said_and_counts() -> None:
    ratio = Compared(7.25, "times the copier", Limit(most=7))
    assert str(ratio) == "7.25 times the copier (≤ 7: NOT MET)"
    assert not Table("Bad", [Row("a call", compared=[ratio])]).is_good
    assert Table("Good", [Row("a call", compared=[Compared(7, "times", Limit(most=7))])]).is_good


def test_a_figure_below_the_least_is_said_and_counts() -> None:
    figure = Compared(9_999, "calls/s", Limit(least=10_000))
    assert str(figure) == "9 999 calls/s (≥ 10000: NOT MET)"
    assert not figure.is_met


def test_a_table_has_its_columns_under_each_other() -> None:
    rows = [Row("a call", "small", 0.1234, 1.5), Row("another one", "1 MB", note="not installed")]
    assert Table("Calls", rows, "By hand").text() == (
        "Calls\n"
        "By hand\n"
        "  subject      load     p50  p99  unit  beside\n"
        "  a call       small  0.123  1.5  ms\n"
        "  another one  1 MB               ms    not installed"
    )


def test_a_ratio_is_taken_within_each_round() -> None:
    """The machine was ten times slower in the second round; the ratio does not notice."""
    ours = Samples([[2, 2, 2], [20, 20, 20], [2, 2, 9]])
    theirs = Samples([[1, 1, 1], [10, 10, 10], [1, 1, 1]])
    assert ours.ratio_to(theirs) == 2


def test_subjects_take_turns_and_another_one_begins_each_round() -> None:
    order: list[str] = []

    def measure(name: str) -> list[float]:
        order.append(name)
        return [1.0]

    samples = take_turns({"a": lambda: measure("a"), "b": lambda: measure("b")}, rounds=3)
    assert "".join(order) == "abbaab"
    assert samples["a"].rounds == [[1.0]] * 3


def test_the_99th_percentile_of_a_few_samples_is_the_largest() -> None:
    assert Samples([[3, 1], [2]]).p99 == 3
    assert Samples([list(range(101))]).p99 == 99
