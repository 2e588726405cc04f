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
"""Of each load in one round."""
PIPELINED = 1_000
DEPTH = 64
SESSIONS = 5
"""Of each subject, every one with processes of its own."""

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
_FIRST: Limits = {(SMALL, Role.PEER): limits.PATH_TO_BEST_PEER}
_BESIDE = {
    Role.OURS: (Role.FLOOR, Role.PYTHON_COPIER, Role.PEER),
    Role.FLOOR: (),
    Role.PYTHON_COPIER: (Role.FLOOR,),
    Role.PEER: (Role.FLOOR,),
    Role.BESIDE: (Role.FLOOR,),
}
"""Whose medians stand beside whose."""


def missing(bench: Bench) -> list[str]:
    """Who could be measured, and is not there; with what to run."""
    subjects = [*_through_host(bench), *routes.bridge_subjects(bench), *_through_both(bench)]
    return sorted({f"{subject.name}: {subject.missing}" for subject in subjects if subject.missing})


def through_host(bench: Bench) -> Iterator[Table]:
    """The host alone."""
    route = "socket → native host → extension's end → back"
    yield one_at_a_time(bench, "The host alone", route, _through_host(bench), _HOST)


def through_bridge(bench: Bench) -> Iterator[Table]:
    """The bridge alone."""
    route = "client's stdio → bridge → host's end of the socket → back"
    yield one_at_a_time(bench, "The bridge alone", route, routes.bridge_subjects(bench), {})


def through_both(bench: Bench) -> Iterator[Table]:
    """The full path."""
    route = "client's stdio → bridge → native host → extension's end → back"
    subjects = _through_both(bench)
    yield one_at_a_time(bench, "The full path", route, subjects, _PATH, limits.PATH_P99_MS)
    yield _pipelined(bench, f"The full path, {DEPTH} calls on the way at once", route, subjects)
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
    p99_limit: Limit = limits.NONE,
) -> Table:
    """Each load that somebody is able to, by all who are."""
    rows: list[Row] = []
    for load in CALLS:
        able = [subject for subject in subjects if load in subject.loads]
        found = _measured(bench, able, partial(one_after_the_other, bench, load))
        rows += [_row(subject, load, found, limits_of, p99_limit) for subject in able]
    return Table(title, rows, f"{route}; {bench.programs.name}; {bench.rounds} rounds")


def one_after_the_other(bench: Bench, load: Load, caller: Caller) -> list[float]:
    """What each call of a round took, in ms.

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
    found = _measured(bench, afresh, partial(one_after_the_other, bench, SMALL), sessions)
    rows = [_row(subject, SMALL, found, _FIRST, limits.NONE) for subject in subjects]
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


def _pipelined(bench: Bench, title: str, route: str, subjects: Sequence[Subject]) -> Table:
    able = [subject for subject in subjects if subject.pipelines]
    found = _measured(bench, able, partial(_all_at_once, bench))
    rows = [_rate_row(subject, found) for subject in able]
    return Table(title, rows, f"{route}; {bench.programs.name}; {bench.rounds} rounds")


def _rate_row(subject: Subject, found: Found) -> Row:
    if subject.name not in found.samples:
        return Row(subject.name, SMALL.name, unit="calls/s", note=found.failures[subject.name])
    rate = found.samples[subject.name].p50
    if subject.role is not Role.OURS:
        return Row(subject.name, SMALL.name, rate, unit="calls/s")
    judged = Compared(rate, "calls/s", limits.PATH_CALLS_PER_SECOND)
    return Row(subject.name, SMALL.name, rate, unit="calls/s", compared=[judged])


def _all_at_once(bench: Bench, caller: Caller) -> list[float]:
    count = bench.count(PIPELINED)
    return [count / caller.call(SMALL, count, DEPTH).elapsed_s]


@dataclass(frozen=True)
class Found:
    """What the subjects of one load did."""

    samples: dict[str, Samples]
    failures: dict[str, str]
    """Why others have none."""
    roles: dict[str, Role]

    def best(self, role: Role) -> str | None:
        """The quickest one of a role, where there is one."""
        known = [name for name in self.samples if self.roles[name] is role]
        return min(known, key=lambda name: self.samples[name].p50, default=None)


def _measured(
    bench: Bench,
    subjects: Sequence[Subject],
    measure: Callable[[Caller], list[float]],
    rounds: int | None = None,
) -> Found:
    """All of them in the same rounds.

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


def _row(subject: Subject, load: Load, found: Found, limits_of: Limits, p99_limit: Limit) -> Row:
    samples = found.samples.get(subject.name)
    if samples is None:
        return Row(subject.name, load.name, note=found.failures[subject.name])
    compared = []
    for role in _BESIDE[subject.role]:
        best = found.best(role)
        if best is None:
            continue
        limit = limits_of.get((load, role), limits.NONE) if subject.role is Role.OURS else limits.NONE
        unit = f"times {role.value}" + (f" ({best.split()[0]})" if role is Role.PEER else "")
        compared.append(Compared(samples.ratio_to(found.samples[best]), unit, limit))
    if load is SMALL and subject.role is Role.OURS and p99_limit != limits.NONE:
        compared.append(Compared(samples.p99, "ms p99", p99_limit))
    return Row(subject.name, load.name, samples.p50, samples.p99, compared=compared)
