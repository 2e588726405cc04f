"""Calls one at a time and pipelined, on three routes: all subjects of a load run in the same rounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial

from benchmarks import limits, routes
from benchmarks.conversation import EndError
from benchmarks.limits import Limit
from benchmarks.loads import ARGUMENTS_1MB, KB, RESULT_1MB, RESULT_5MB, RESULT_10KB, SMALL, Load
from benchmarks.measuring import Samples, take_turns
from benchmarks.subject import Bench, Caller, Calls, Role, Subject
from benchmarks.table import Compared, Row, Table

CALLS = {SMALL: 100, RESULT_10KB: 50, RESULT_1MB: 5, RESULT_5MB: 2, ARGUMENTS_1MB: 5}
"""Of each load in one round."""
PIPELINED = 1_000
DEPTH = 64

Limits = Mapping[tuple[Load, Role], Limit]
"""How many times somebody else's median ours may be."""
_HOST: Limits = {
    (SMALL, Role.FLOOR): limits.HOST_TO_FLOOR,
    (SMALL, Role.PEER): limits.HOST_TO_OTHER_HOST,
}
_PATH: Limits = {
    (SMALL, Role.FLOOR): limits.PATH_TO_FLOOR,
    (SMALL, Role.PEER): limits.PATH_TO_BEST_PEER,
    (RESULT_1MB, Role.PYTHON_COPIER): limits.PATH_1MB_TO_PYTHON_COPIER,
}


def through_host(bench: Bench) -> Iterator[Table]:
    """The host alone."""
    route = "socket → native host → extension's end → back"
    yield _one_at_a_time("The host alone", bench, route, routes.host_subjects(bench), _HOST)


def through_bridge(bench: Bench) -> Iterator[Table]:
    """The bridge alone."""
    route = "client's stdio → bridge → host's end of the socket → back"
    yield _one_at_a_time("The bridge alone", bench, route, routes.bridge_subjects(bench), {})


def through_both(bench: Bench) -> Iterator[Table]:
    """The full path."""
    route = "client's stdio → bridge → native host → extension's end → back"
    subjects = routes.path_subjects(bench)
    yield _one_at_a_time("The full path", bench, route, subjects, _PATH, limits.PATH_P99_MS)
    yield _pipelined(f"The full path, {DEPTH} calls on the way at once", bench, route, subjects)


def _one_at_a_time(
    title: str,
    bench: Bench,
    route: str,
    subjects: Sequence[Subject],
    limits_of: Limits,
    p99_limit: Limit = limits.NONE,
) -> Table:
    rows: list[Row] = []
    for load in CALLS:
        able = [subject for subject in subjects if load in subject.loads]
        found = _measured(bench, able, partial(_one_after_the_other, bench, load))
        rows += [_row(subject, load, found, able, limits_of, p99_limit) for subject in able]
    return Table(title, rows, f"{route}; {bench.programs.name}; {bench.rounds} rounds")


def _one_after_the_other(bench: Bench, load: Load, caller: Caller) -> list[float]:
    calls = caller.call(load, bench.count(CALLS[load]))
    return [seconds * 1e3 for seconds in _whole(calls, load).seconds]


def _pipelined(title: str, bench: Bench, route: str, subjects: Sequence[Subject]) -> Table:
    able = [subject for subject in subjects if subject.pipelines]
    found = _measured(bench, able, partial(_all_at_once, bench))
    rows = []
    for subject in able:
        if subject.missing:
            rows.append(Row(subject.name, SMALL.name, note=subject.missing))
            continue
        rate = found[subject.name].p50
        limit = limits.PATH_CALLS_PER_SECOND if subject.role is Role.OURS else limits.NONE
        rows.append(
            Row(subject.name, SMALL.name, rate, unit="calls/s", compared=[Compared(rate, "calls/s", limit)])
        )
    return Table(title, rows, f"{route}; {bench.programs.name}; {bench.rounds} rounds")


def _all_at_once(bench: Bench, caller: Caller) -> list[float]:
    count = bench.count(PIPELINED)
    return [count / caller.call(SMALL, count, DEPTH).elapsed_s]


def _measured(
    bench: Bench, subjects: Sequence[Subject], measure: Callable[[Caller], list[float]]
) -> dict[str, Samples]:
    with ExitStack() as stack:
        callers = {
            subject.name: stack.enter_context(subject.open(bench))
            for subject in subjects
            if not subject.missing
        }
        for caller in callers.values():
            measure(caller)  # what happens once, happens before
        return take_turns({name: partial(measure, caller) for name, caller in callers.items()}, bench.rounds)


def _row(
    subject: Subject,
    load: Load,
    found: Mapping[str, Samples],
    others: Sequence[Subject],
    limits_of: Limits,
    p99_limit: Limit,
) -> Row:
    if subject.missing:
        return Row(subject.name, load.name, note=subject.missing)
    samples = found[subject.name]
    compared = []
    for role in (Role.FLOOR, Role.PYTHON_COPIER, Role.PEER):
        known = [other.name for other in others if other.role is role and other.name in found]
        if not known or subject.role is role:
            continue
        best = min(known, key=lambda name: found[name].p50)
        limit = limits_of.get((load, role), limits.NONE) if subject.role is Role.OURS else limits.NONE
        compared.append(Compared(samples.ratio_to(found[best]), f"times {role.value}", limit))
    if load is SMALL and subject.role is Role.OURS and p99_limit is not limits.NONE:
        compared.append(Compared(samples.p99, "ms p99", p99_limit))
    return Row(subject.name, load.name, samples.p50, samples.p99, compared=compared)


def _whole(calls: Calls, load: Load) -> Calls:
    if len(load.result) > KB and calls.answer_bytes < len(load.result):
        raise EndError(f"{load.name}: {calls.answer_bytes} bytes came of {len(load.result)}")
    return calls
