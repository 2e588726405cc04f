"""Cold starts: from the start of a process to its first output. Its files are in the page cache."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

from benchmarks import limits
from benchmarks.conversation import PATIENCE_S, Conversation, EndError
from benchmarks.http_routes import SERVE
from benchmarks.limits import Limit
from benchmarks.mcp_client import Era, McpClient
from benchmarks.measuring import Samples, take_turns
from benchmarks.processes import Corner, started
from benchmarks.routes import BRIDGE, HOST, running_host
from benchmarks.subject import Bench
from benchmarks.table import Compared, Row, Table

Process = subprocess.Popen[bytes]


@dataclass(frozen=True)
class Start:
    """Something that is started, and what is waited for then."""

    what: str
    command: list[str]
    awaited: str
    wait: Callable[[Process], None]
    has_browser: bool = False
    """Whether a native host with an extension runs beside it."""
    limit: Limit = limits.NONE


def tables(bench: Bench) -> Iterator[Table]:
    """Programs of mcpb, beside the interpreter and libraries."""
    with ExitStack() as stack:
        alone, beside_browser = Corner.below(bench.directory), Corner.below(bench.directory)
        stack.enter_context(running_host(bench, beside_browser))
        measures = {
            str(number): partial(_took_ms, start, beside_browser if start.has_browser else alone)
            for number, start in enumerate(STARTS)
        }
        for measure in measures.values():
            measure()  # what is compiled or read once, is so before
        found = list(take_turns(measures, bench.rounds).values())
    rows = [_row(start, samples, found[_TRIO]) for start, samples in zip(STARTS, found, strict=True)]
    yield Table("Cold starts", rows, f"from the start of the process; {bench.rounds} rounds")


def _row(start: Start, samples: Samples, trio: Samples) -> Row:
    compared = [Compared(samples.ratio_to(trio), "times Python with trio")]
    if start.limit is not limits.NONE:
        compared.insert(0, Compared(samples.p50, "ms", start.limit))
    return Row(start.what, start.awaited, samples.p50, samples.p99, compared=compared)


def _took_ms(start: Start, corner: Corner) -> list[float]:
    began = time.perf_counter()
    with started(corner, start.command, subprocess.PIPE, subprocess.PIPE) as process:
        try:
            start.wait(process)
        except (EndError, BrokenPipeError) as error:
            raise EndError(f"{start.what}: {error}. {corner.last_words()}") from error
        return [(time.perf_counter() - began) * 1e3]


# ── What is waited for ──────────────────────────────────────────────────────────────────────────────────────


def _first_output(process: Process) -> None:
    assert process.stdout
    readable, _, _ = select.select([process.stdout], [], [], PATIENCE_S)
    if not readable or not os.read(process.stdout.fileno(), 1):
        raise EndError("it said nothing")


def _first_answer(process: Process, era: Era) -> None:
    assert process.stdin
    assert process.stdout
    conversation = Conversation("lines", process.stdout.fileno(), process.stdin.fileno())
    McpClient(conversation, era).shake_hands()


def _prints(what: str, imports: str = "") -> Start:
    program = f"{imports}\nprint('here', flush=True)"
    return Start(what, [sys.executable, "-I", "-c", program], "output", _first_output)


def _bridges() -> Iterator[Start]:
    for has_browser in (False, True):
        what = f"mcpb bridge, {'one browser' if has_browser else 'no browser'}"
        for era, method in ((Era.HANDSHAKE, "initialize"), (Era.STATELESS, "server/discover")):
            wait = partial(_first_answer, era=era)
            yield Start(what, BRIDGE, f"answer to {method}", wait, has_browser, limits.FIRST_ANSWER_MS)


STARTS = (
    _prints("Python"),
    _prints("Python with trio", "import trio"),
    _prints("Python with the mcp package", "import mcp"),
    Start("mcpb --help", [BRIDGE[0], "--help"], "output", _first_output, limit=limits.HELP_MS),
    Start("mcpb's native host", HOST, "hello; its socket accepts", _first_output, limit=limits.HOST_READY_MS),
    *_bridges(),
    Start("mcpb serve", SERVE, "says where; its port accepts", _first_output),
    Start(
        "mcp package's server",
        [sys.executable, "-I", "-m", "benchmarks.sdk_server"],
        "answer to initialize",
        partial(_first_answer, era=Era.HANDSHAKE),
    ),
)
_TRIO = 1
