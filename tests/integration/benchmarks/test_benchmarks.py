"""`make bench` measures what it says. How fast a machine is, is no test's business."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

import benchmarks.__main__ as bench_command
from bench_ends import bench_in, built_once
from benchmarks import calls, hub, machine, page, peers, processor, programs, routes
from benchmarks.conversation import Conversation, EndError
from benchmarks.driver import driven
from benchmarks.limits import Limit
from benchmarks.loads import ALL, RESULT_1MB, SMALL
from benchmarks.measuring import Samples, take_turns
from benchmarks.processes import Corner
from benchmarks.report import BEGIN, END, Report
from benchmarks.subject import Bench, Calls, Subject
from benchmarks.table import Compared, Row, Table

SLOW = Compared(7.25, "times the C copier", Limit(most=7))


@pytest.fixture
def bench(short_tmp: Path, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return bench_in(short_tmp, tmp_path_factory)


# ── Calls ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("subjects", [routes.host_subjects, routes.bridge_subjects, routes.path_subjects])
def test_every_load_comes_back_whole_on_each_route(
    bench: Bench, subjects: Callable[[Bench], list[Subject]]
) -> None:
    for subject in subjects(bench):
        if subject.missing:
            continue
        with subject.open(bench) as caller:
            for load in ALL:
                made = caller.call(load, 2)
                assert len(made.seconds) == 2
                assert made.answer_bytes >= len(load.result), (subject.name, load.name)
            assert len(caller.call(SMALL, 100, depth=64).seconds) == 100


def test_without_a_compiler_the_ends_are_in_python_and_the_floor_is_missing(
    short_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "COMPILERS", ())
    bench = Bench(short_tmp, programs.build(short_tmp), is_quick=True)
    ours, floor, copier = routes.host_subjects(bench)
    assert floor.missing.startswith("no C compiler")
    assert "in Python" in bench.programs.name
    for subject in (ours, copier):
        with subject.open(bench) as caller:
            for load in ALL:
                assert caller.call(load, 1).answer_bytes >= len(load.result)
            assert len(caller.call(SMALL, 20, depth=8).seconds) == 20


def test_a_table_says_how_many_times_the_floor_a_call_takes(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "CALLS", {SMALL: 10})
    monkeypatch.setattr(peers, "host_subjects", list)
    [table] = calls.through_host(bench)
    ours, floor, _ = table.rows
    assert ours.what == "mcpb's native host"
    assert (ours.p50 is None, floor.p50 is None) == (False, not bench.programs.are_in_c)
    units = [compared.unit for compared in ours.compared]
    assert units[-1:] == ["times the Python copier"]
    assert ("times the C copier" in units) == bench.programs.are_in_c


def between(bench: Bench, rules: list[tuple[bytes, bytes]]) -> Iterator[None]:
    """A client's end whose other side answers by these rules."""
    corner = Corner.below(bench.directory)
    near, far = routes.duplex("socket")
    with (
        routes.answering(bench, corner, "frames", far, [], rules),
        driven(bench, corner, Conversation("frames", *near), page.request) as caller,
    ):
        caller.call(SMALL, 1)
        yield


def test_an_answer_that_is_an_error_ends_the_run_and_is_shown(bench: Bench) -> None:
    refusal = b'{"jsonrpc":"2.0","id":\0,"error":{"code":-32015,"message":"too many calls"}}'
    with pytest.raises(EndError, match=r"small call: not all calls were answered.*too many calls"):
        next(between(bench, [(b"executeTool", refusal)]))


def test_an_answer_without_an_id_belongs_to_the_next_call_where_requests_have_none(bench: Bench) -> None:
    corner = Corner.below(bench.directory)
    near, far = routes.duplex("socket")
    rules = [(b"please", b'{"type":"answer"}')]
    with (
        routes.answering(bench, corner, "frames", far, [], rules),
        driven(bench, corner, Conversation("frames", *near), lambda _: b'{"type":"please"}') as caller,
    ):
        assert len(caller.call(SMALL, 5).seconds) == 5


def test_a_result_that_was_cut_is_no_result(bench: Bench) -> None:
    class Cutting:
        def call(self, load: object, count: int, depth: int = 1) -> Calls:
            del load, count, depth
            return Calls([1.0], 1.0, answer_bytes=1000)

    with pytest.raises(EndError, match=r"1 MB result: of \d+ bytes came 1000"):
        calls.one_after_the_other(bench, RESULT_1MB, Cutting())


def test_processor_time_is_told_of_each_of_our_processes(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processor, "CALLS", {SMALL: 10})
    for table in processor.tables(bench):  # none where the system is not Linux
        assert [(row.what, row.load) for row in table.rows] == [
            ("mcpb bridge", "small call"),
            ("mcpb's native host", "small call"),
            ("mcpb bridge", "small call, 64 on the way"),
            ("mcpb's native host", "small call, 64 on the way"),
        ]
        assert all(row.p50 for row in table.rows)


def test_the_hub_is_measured_with_few_tools_and_with_many(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "SIZES", (10, 20))
    [table] = hub.tables(bench)
    assert [row.load for row in table.rows if row.what == "a call"] == ["10 tools", "20 tools"]
    assert all(row.p50 for row in table.rows)


# ── Samples ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_ratio_is_taken_within_each_round() -> None:
    """The machine was ten times slower in the second round; the ratio does not notice."""
    ours = Samples([[2, 2, 2], [20, 20, 20], [2, 2, 9]])
    theirs = Samples([[1, 1, 1], [10, 10, 10], [1, 1, 1]])
    assert ours.ratio_to(theirs) == 2


def test_subjects_take_turns_and_nobody_always_follows_the_same_one() -> None:
    order: list[str] = []

    def measure(name: str) -> list[float]:
        order.append(name)
        return [1.0]

    samples = take_turns({name: partial(measure, name) for name in "abc"}, rounds=12)
    rounds = ["".join(order[at : at + 3]) for at in range(0, len(order), 3)]
    assert {"".join(sorted(names)) for names in rounds} == {"abc"}
    assert len(set(rounds)) > 3
    assert samples["a"].rounds == [[1.0]] * 12


def test_the_99th_percentile_of_a_few_samples_is_the_largest() -> None:
    assert Samples([[3, 1], [2]]).p99 == 3
    assert Samples([list(range(101))]).p99 == 99


# ── Tables ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_figure_over_its_limit_is_said_and_counts() -> None:
    assert str(SLOW) == "7.25 times the C copier (≤ 7: NOT MET)"
    assert not Table("Bad", [Row("a call", compared=[SLOW])]).is_good
    assert Table("Good", [Row("a call", compared=[Compared(7, "times", Limit(most=7))])]).is_good


def test_a_figure_below_the_least_is_said_and_counts() -> None:
    figure = Compared(9_999, "calls/s", Limit(least=10_000))
    assert str(figure) == "9 999 calls/s (≥ 10 000: NOT MET)"
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


def test_a_run_takes_the_place_of_the_one_before_in_a_page() -> None:
    report = Report({"date": "today"}, [Table("Calls", [Row("a call", "small", 0.5, 1)], "By hand")])
    once = report.written_into(f"# Title\n\n{BEGIN}\n\nOld.\n\n{END}\n\nMore.\n")
    assert once == (
        f"# Title\n\n{BEGIN}\n\n* date: today\n\n0 of 0 limits are met.\n\n### Calls\n\nBy hand\n\n"
        "| subject | load | p50 | p99 | unit | beside |\n| --- | --- | --: | --: | --- | --- |\n"
        f"| a call | small | 0.5 | 1 | ms |  |\n\n{END}\n\nMore.\n"
    )
    assert report.written_into(once) == once


def test_the_page_about_the_bench_has_a_place_for_the_last_run() -> None:
    text = bench_command.README.read_text()
    assert Report({}, []).written_into(text) != text


def test_a_page_without_that_place_is_not_written() -> None:
    with pytest.raises(ValueError, match="needs both marks"):
        Report({}, []).written_into("# Title\n")


# ── The command ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def no_compiling(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command has programs that were compiled before."""
    compiled = built_once(tmp_path_factory.getbasetemp())
    monkeypatch.setattr(programs, "build", lambda _: compiled)


@pytest.mark.usefixtures("no_compiling")
@pytest.mark.parametrize(
    ("compared", "code", "verdict"),
    [
        ([], 0, "0 of 0 limits are met."),
        ([SLOW], 1, "0 of 1 limits are met.\n  Calls, a call, small: 7.25 times the C copier (≤ 7: NOT MET)"),
    ],
)
def test_the_command_prints_and_keeps_the_tables_and_fails_when_a_limit_is_not_met(
    compared: list[Compared], code: int, verdict: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Table("Calls", [Row("a call", "small", 0.5, 1, compared=compared)])
    monkeypatch.setattr(bench_command, "SECTIONS", {"calls": lambda _: iter([table])})
    kept = tmp_path / "last.json"
    run = CliRunner().invoke(bench_command.main, ["--json", str(kept)])
    assert run.exit_code == code, run.output
    assert run.output.endswith(f"\n{table.text()}\n\n{verdict}\n")
    report = msgspec.json.decode(kept.read_bytes(), type=Report)
    assert report.tables == [table]
    assert report.circumstances["machine"]


@pytest.mark.usefixtures("no_compiling")
def test_a_quick_run_judges_no_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table("Calls", [Row("a call", "small", 0.5, 1, compared=[SLOW])])
    monkeypatch.setattr(bench_command, "SECTIONS", {"calls": lambda _: iter([table])})
    run = CliRunner().invoke(bench_command.main, ["--quick", "--json", str(tmp_path / "last.json")])
    assert run.exit_code == 0, run.output
    assert "All of it works" in run.output


def test_what_does_not_do_its_work_is_said_and_the_next_section_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: Bench) -> Iterator[Table]:
        yield Table("Half of it")
        raise EndError("no native host within 60 s")

    sections = {"path": broken, "host": lambda _: iter([Table("The host alone")])}
    monkeypatch.setattr(bench_command, "SECTIONS", sections)
    run = CliRunner().invoke(bench_command.main, ["--quick", "--json", str(tmp_path / "last.json")])
    assert run.exit_code == 1
    assert "The section path\nFAILED: no native host within 60 s" in run.output
    assert run.output.index("FAILED") < run.output.index("The host alone")


def test_a_run_on_a_busy_machine_says_so() -> None:
    assert machine.load_in_words((0.25, 3.0, 2.0)) == "0.25 3.00 2.00"
    assert "others are busy here" in machine.load_in_words((1.5, 0.0, 0.0))


def test_only_a_whole_run_gets_into_the_page() -> None:
    run = CliRunner().invoke(bench_command.main, ["--quick", "--write-readme"])
    assert run.exit_code == 2
    assert "whole runs only" in run.output
