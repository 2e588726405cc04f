"""Calls one at a time and pipelined, on three routes: all subjects of a load run in the same rounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, replace
from functools import partial

from benchmarks import limits, peers, routes
from benchmarks.conversation import EndError
from benchmarks.limits import Limit
from benchmarks.loads import ARGUMENTS_1MB, KB, RESULT_1MB, RESULT_5MB, RESULT_10KB, SMALL, Load
from benchmarks.measuring import Measure, Samples, take_turns
from benchmarks.subject import Bench, Caller, Calls, Role, Subject
from benchmarks.table import Compared, Row, Table

CALLS = {SMALL: 100, RESULT_10KB: 50, RESULT_1MB: 5, RESULT_5MB: 2, ARGUMENTS_1MB: 5}
PIPELINED = 1_000
DEPTH = 64
SESSIONS = 5
"""Of each subject, every one with processes of its own."""

Limits = Mapping[tuple[Load, Role], Limit]
"""Limit of the ratio to another subject's median."""
_HOST: Limits = {(SMALL, Role.FLOOR): limits.HOST_TO_FLOOR, (SMALL, Role.PEER): limits.HOST_TO_OTHER_HOST}
_PATH: Limits = {
    (SMALL, Role.FLOOR): limits.PATH_TO_FLOOR,
    (SMALL, Role.PEER): limits.PATH_TO_BEST_PEER,
    (RESULT_1MB, Role.PYTHON_COPIER): limits.PATH_1MB_TO_PYTHON_COPIER,
}
_FIRST: Limits = {(SMALL, Role.PEER): limits.PATH_TO_BEST_PEER}
_NO_LIMITS = (limits.NONE, limits.NONE)
"""Of our median and of our slowest call of a hundred."""
_BESIDE = {
    Role.OURS: (
        Role.FLOOR,
        Role.EXTENSION_FLOOR,
        Role.PYTHON_COPIER,
        Role.BARE_SERVER,
        Role.PACKAGE,
        Role.PEER,
    ),
    Role.FLOOR: (),
    Role.EXTENSION_FLOOR: (),
    Role.PYTHON_COPIER: (Role.FLOOR,),
    Role.BARE_SERVER: (),
    Role.PACKAGE: (Role.BARE_SERVER,),
    Role.PEER: (Role.FLOOR,),
    Role.BESIDE: (Role.FLOOR,),
}


def missing(bench: Bench) -> list[str]:
    """Who could be measured, and is not there; with what to run."""
    subjects = [*_through_host(bench), *routes.bridge_subjects(bench), *_through_both(bench)]
    return sorted({f"{subject.name}: {subject.missing}" for subject in subjects if subject.missing})


def through_host(bench: Bench) -> Iterator[Table]:
    """Measure the host alone."""
    route = "socket → native host → extension's end → back"
    yield one_at_a_time(bench, "The host alone", route, _through_host(bench), _HOST)


def through_bridge(bench: Bench) -> Iterator[Table]:
    """Measure the bridge alone."""
    route = "client's stdio → bridge → host's end of the socket → back"
    yield one_at_a_time(bench, "The bridge alone", route, routes.bridge_subjects(bench), {})


def through_both(bench: Bench) -> Iterator[Table]:
    """Measure the full path."""
    route = "client's stdio → bridge → native host → extension's end → back"
    subjects = _through_both(bench)
    yield one_at_a_time(bench, "The full path", route, subjects, _PATH, p99_limit=limits.PATH_P99_MS)
    title = f"The full path, {DEPTH} calls on the way at once"
    yield at_once(bench, title, route, subjects, DEPTH, limits.PATH_CALLS_PER_SECOND)
    yield _first_calls(bench, route, subjects)


def _through_host(bench: Bench) -> list[Subject]:
    return [*routes.host_subjects(bench), *peers.host_subjects()]


def _through_both(bench: Bench) -> list[Subject]:
    return [*routes.path_subjects(bench), *peers.path_subjects(bench)]


def one_at_a_time(
    bench: Bench,
    title: str,
    route: str,
    subjects: Sequence[Subject],
    limits_of: Limits,
    *,
    p50_limit: Limit = limits.NONE,
    p99_limit: Limit = limits.NONE,
) -> Table:
    """Each load, for all subjects that support it. The last two are limits of mcpb, in ms of a small call."""
    rows: list[Row] = []
    for load in CALLS:
        able = [subject for subject in subjects if load in subject.loads]
        found = measured(bench, able, partial(one_after_the_other, bench, load))
        absolute = (p50_limit, p99_limit) if load is SMALL else _NO_LIMITS
        rows += [row(subject, load, found, limits_of, absolute) for subject in able]
    return Table(title, rows, f"{route}; {bench.programs.name}; {bench.rounds} rounds")


def one_after_the_other(bench: Bench, load: Load, caller: Caller) -> list[float]:
    """Return the duration of each call of a round, in ms.

    Raises:
        EndError: one of them did not come back whole.
    """
    calls = caller.call(load, bench.count(CALLS[load]))
    if len(load.result) > KB and calls.answer_bytes < len(load.result):
        raise EndError(f"{load.name}: of {len(load.result)} bytes came {calls.answer_bytes}")
    return [seconds * 1e3 for seconds in calls.seconds]


def _first_calls(bench: Bench, route: str, subjects: Sequence[Subject]) -> Table:
    """Small calls of processes that have just started: what compiles itself while it runs is slower then."""
    sessions = bench.count(SESSIONS)
    afresh = [replace(subject, open=partial(_afresh, subject)) for subject in subjects]
    found = measured(bench, afresh, partial(one_after_the_other, bench, SMALL), sessions)
    rows = [row(subject, SMALL, found, _FIRST) for subject in subjects]
    title = f"The full path, the first {bench.count(CALLS[SMALL])} calls after the start"
    return Table(title, rows, f"{route}; {bench.programs.name}; {sessions} sessions, one subject at a time")


def _afresh(subject: Subject, bench: Bench) -> AbstractContextManager[Caller]:
    return nullcontext(_Afresh(subject, bench))


@dataclass(frozen=True)
class _Afresh:
    """Starts all of a subject for each run of calls, and ends it."""

    subject: Subject
    bench: Bench

    def call(self, load: Load, count: int, depth: int = 1) -> Calls:
        """See `Caller`."""
        with self.subject.open(self.bench) as caller:
            return caller.call(load, count, depth)


def at_once(
    bench: Bench, title: str, route: str, subjects: Sequence[Subject], depth: int, limit: Limit = limits.NONE
) -> Table:
    """How many small calls a second, when each client has `depth` of them on the way."""
    able = [subject for subject in subjects if subject.pipelines or depth == 1]
    found = measured(bench, able, partial(_all_at_once, bench, depth))
    rows = [_rate_row(subject, found, limit) for subject in able]
    return Table(title, rows, f"{route}; {bench.programs.name}; {bench.rounds} rounds")


def _rate_row(subject: Subject, found: Found, limit: Limit) -> Row:
    if subject.name not in found.samples:
        return Row(subject.name, SMALL.name, unit="calls/s", note=found.failures[subject.name])
    rate = found.samples[subject.name].p50
    if subject.role is not Role.OURS or limit == limits.NONE:
        return Row(subject.name, SMALL.name, rate, unit="calls/s")
    judged = Compared(rate, "calls/s", limit)
    return Row(subject.name, SMALL.name, rate, unit="calls/s", compared=[judged])


def _all_at_once(bench: Bench, depth: int, caller: Caller) -> list[float]:
    calls = caller.call(SMALL, bench.count(PIPELINED), depth)
    return [len(calls.seconds) / calls.elapsed_s]


@dataclass(frozen=True)
class Found:
    """What the subjects of one load did."""

    samples: dict[str, Samples]
    failures: dict[str, str]
    roles: dict[str, Role]

    def best(self, role: Role) -> str | None:
        """Return the fastest one of a role, if there is one."""
        known = [name for name in self.samples if self.roles[name] is role]
        return min(known, key=lambda name: self.samples[name].p50, default=None)


def measured(
    bench: Bench,
    subjects: Sequence[Subject],
    measure: Callable[[Caller], list[float]],
    rounds: int | None = None,
) -> Found:
    """Measure all subjects in the same rounds.

    Raises:
        EndError: one that is not a peer does not do its work.
    """
    measures: dict[str, Measure] = {}
    failures: dict[str, str] = {}
    with ExitStack() as stack:
        for subject in subjects:
            if subject.missing:
                failures[subject.name] = subject.missing
                continue
            try:
                caller = stack.enter_context(subject.open(bench))
                measure(caller)  # what happens once, happens before
            except EndError as error:
                if subject.role is not Role.PEER:
                    raise
                failures[subject.name] = f"failed: {str(error).splitlines()[0]}"
                continue
            measures[subject.name] = partial(measure, caller)
        samples = take_turns(measures, rounds or bench.rounds)
    return Found(samples, failures, {subject.name: subject.role for subject in subjects})


def row(
    subject: Subject, load: Load, found: Found, limits_of: Limits, absolute: tuple[Limit, Limit] = _NO_LIMITS
) -> Row:
    """Make a subject's row, with the ratios of its median to those of others."""
    samples = found.samples.get(subject.name)
    if samples is None:
        return Row(subject.name, load.name, note=found.failures[subject.name])
    is_ours = subject.role is Role.OURS
    compared = []
    for role in _BESIDE[subject.role]:
        best = found.best(role)
        if best is None:
            continue
        limit = limits_of.get((load, role), limits.NONE) if is_ours else limits.NONE
        unit = f"times {role.value}" + (f" ({best.split()[0]})" if role is Role.PEER else "")
        compared.append(Compared(samples.ratio_to(found.samples[best]), unit, limit))
    if is_ours:
        figures = zip((samples.p50, samples.p99), ("ms", "ms p99"), absolute, strict=True)
        compared += [Compared(*figure) for figure in figures if figure[2] != limits.NONE]
    return Row(subject.name, load.name, samples.p50, samples.p99, compared=compared)
