"""`make bench` measures what it says. How fast a machine is, is no test's business."""

import pytest

from benchmarks import hub
from benchmarks.table import Row, show


def test_the_hub_is_measured_with_few_tools_and_with_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "SIZES", (10, 20))
    rows = list(hub.rows())
    assert [row.what for row in rows if "call" in row.what] == [
        "a call among 10 tools",
        "a call among 20 tools",
    ]
    assert all(row.value > 0 for row in rows)


def test_a_figure_over_its_limit_is_said_and_counts(capsys: pytest.CaptureFixture[str]) -> None:
    assert show("Good", [Row("a call", 3, "ms", limit=5), Row("no limit", 100, "ms")])
    assert not show("Bad", [Row("a call", 7, "ms", "of 9", limit=5)])
    assert "a call                                             7.00 ms  NOT UNDER 5 ms  of 9" in (
        capsys.readouterr().out
    )
