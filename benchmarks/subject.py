"""What is measured: something that answers calls, started when its turn comes."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Protocol

from benchmarks.loads import SMALL, Load
from benchmarks.programs import Programs


@dataclass(frozen=True)
class Calls:
    """What a run of calls took."""

    seconds: list[float]
    """Of each, from the first byte written to the last byte read."""
    elapsed_s: float
    """Of all together; less than their sum where they overlapped."""
    answer_bytes: int


class Caller(Protocol):
    """A client that is connected, has shaken hands and knows the names of the tools."""

    def call(self, load: Load, count: int, depth: int = 1) -> Calls:
        """Make so many calls, at most `depth` of them on the way at once.

        Raises:
            EndError: an answer did not come, or was not one.
        """
        ...


@dataclass(frozen=True)
class Bench:
    """What every measurement needs."""

    directory: Path
    """Thrown away afterwards; homes and sockets go below it. Its path is short."""
    programs: Programs
    is_quick: bool = False
    """A look at whether all works: the figures are too few to be quoted."""

    @property
    def rounds(self) -> int:
        """How often subjects take turns."""
        return 3 if self.is_quick else 20

    def count(self, usual: int) -> int:
        """How many of something to do in one round, where it would usually be `usual`."""
        return max(1, usual // 10) if self.is_quick else usual


class Role(Enum):
    """What a subject is there for."""

    OURS = "ours"
    FLOOR = "the C copier"
    """The same route, on which programs in C copy and do nothing else."""
    EXTENSION_FLOOR = "the floor"
    """The same route through a browser, with an extension that passes messages on, and programs in C."""
    PYTHON_COPIER = "the Python copier"
    BARE_SERVER = "the bare server"
    """An HTTP server and nothing else: it has every answer ready."""
    PACKAGE = "the mcp package"
    """A server that answers by itself, where it is the floor of who would use the package."""
    PEER = "the best peer"
    BESIDE = "beside"


@dataclass(frozen=True)
class Subject:
    """A subject's route from a client to a tool and back."""

    name: str
    open: Callable[[Bench], AbstractContextManager[Caller]]
    """Start all of it; nothing of it is left afterwards."""
    role: Role
    loads: Collection[Load] = (SMALL,)
    missing: str = ""
    """Why it cannot be started, and what to run; empty where it can."""
    pipelines: bool = True
    """Whether it takes a call before it has answered the last one."""
