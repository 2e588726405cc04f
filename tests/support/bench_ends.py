"""The ends of `make bench`, compiled once for all tests: each takes half a second to compile."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from benchmarks import programs
from benchmarks.programs import Programs
from benchmarks.subject import Bench


def bench_in(directory: Path, factory: pytest.TempPathFactory) -> Bench:
    """A quick bench in this directory, whose programs lie elsewhere."""
    return Bench(directory, built_once(factory.getbasetemp()), is_quick=True)


@cache
def built_once(directory: Path) -> Programs:
    return programs.build(directory)
