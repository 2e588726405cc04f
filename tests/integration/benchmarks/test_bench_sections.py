"""The bench's sections that start many processes, each with the fewest that it can do with."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench_ends import bench_in
from benchmarks import crowd, memory, scale, starts
from benchmarks.subject import Bench


@pytest.fixture
def bench(
    short_tmp: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Bench:
    monkeypatch.setattr(Bench, "rounds", 1)
    return bench_in(short_tmp, tmp_path_factory)


def test_whatever_is_started_is_timed_until_it_shows_a_sign_of_life(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = [start for start in starts.STARTS if "package" not in start.what][:5]
    monkeypatch.setattr(starts, "STARTS", few)
    [table] = starts.tables(bench)
    assert [row.what for row in table.rows] == [
        "Python",
        "Python with trio",
        "mcpb --help",
        "mcpb's native host",
        "mcpb bridge, no browser",
    ]
    assert all(row.p50 for row in table.rows)


def test_memory_is_read_of_processes_that_live(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "LARGE_MB", (1,))
    monkeypatch.setattr(memory, "REST_S", 0.0)
    monkeypatch.setattr(memory, "MANY_TOOLS", 20)
    monkeypatch.setattr(memory, "SESSIONS", 3)
    [table] = memory.tables(bench)
    assert ("mcpb bridge", "after 1 MB result") in {(row.what, row.load) for row in table.rows}
    assert all(row.p50 and row.p50 > 1 for row in table.rows)


def test_clients_of_a_crowd_call_in_turn_and_what_waits_is_counted(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crowd, "SIZES", (1, 2))
    monkeypatch.setattr(crowd, "IDLE_S", 0.1)
    [table] = crowd.tables(bench)
    assert [row.what for row in table.rows[:2]] == ["1 of 2 clients call", "2 of 2 clients call"]
    assert table.rows[-1].what == "mcpb bridge, each"
    assert all(row.p50 for row in table.rows[:-1])


def test_calls_and_lists_are_compared_to_those_of_the_smallest_page(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scale, "SIZES", ((10, 1), (21, 2)))
    calls, lists = scale.tables(bench)
    assert [row.what for row in calls.rows] == ["10 tools in 1 tab", "21 tools in 2 tabs"]
    assert calls.rows[0].compared[0].value == lists.rows[0].compared[0].value == 1
