"""Random input by number: the same number is the same input in every run, so a failure can be repeated."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random

IS_SOAK = os.environ.get("MCPB_SOAK") == "yes"
"""True in `make soak`, for the long variants of tests."""
SOAK_INPUTS = 1_000_000


def count_inputs(usual: int) -> int:
    """The number of random inputs of a test."""
    return SOAK_INPUTS if IS_SOAK else usual


def check_inputs(usual: int, check: Callable[[Random], None]) -> None:
    """Check random inputs, a million of them in `make soak`; a failure names the number of its input."""
    for number in range(count_inputs(usual)):
        with named(number):
            check(Random(number))


@contextmanager
def named(number: int) -> Iterator[None]:
    """Note the number of an input at what it raises."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"random input {number}")
        raise


def random_parts(random: Random, data: bytes) -> Iterator[bytes]:
    """Cut data into parts of at most 40 bytes."""
    at = 0
    while at < len(data):
        size = random.randint(1, 40)
        yield data[at : at + size]
        at += size
