"""Resident memory: of processes that have nothing to do, after large answers, and with many tools."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import chain
from pathlib import Path

from benchmarks import limits
from benchmarks.driver import driven
from benchmarks.http_routes import HANDSHAKE, SSE, running_serve
from benchmarks.limits import Limit
from benchmarks.loads import ALL, MB, SMALL, Load, result_of
from benchmarks.mcp_client import McpClient
from benchmarks.processes import Corner
from benchmarks.routes import BRIDGE, running_host, running_server
from benchmarks.subject import Bench
from benchmarks.table import Compared, Row, Table

LARGE_MB = (5, 60)
"""A browser may say 64 at once."""
MANY_TOOLS, MANY_TABS = 10_000, 100
SESSIONS = 100
"""Of MCP clients over HTTP, without anything to do."""
REST_S = 4.0
"""After a load: free memory is given back every 3 s."""
_OF_PACKAGE = "tools/paint"
"""A method that the mcp package alone answers."""


def tables(bench: Bench) -> Iterator[Table]:
    """Everything that stays resident for as long as a browser or a client is open."""
    rows = chain(_beside(bench), _one_page(bench), _many_tools(bench), _over_http(bench))
    yield Table("Resident memory", list(rows), f"once each; after a load means {REST_S:g} s after ten of it")


def resident_mb(pid: int) -> float:
    """Of a process, with what it shares with others."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except FileNotFoundError:  # not Linux
        ps = subprocess.run(["/bin/ps", "-o", "rss=", "-p", str(pid)], capture_output=True, check=True)
        return int(ps.stdout) / 1024
    return pages * os.sysconf("SC_PAGE_SIZE") / MB


def _row(what: str, load: str, pid: int, limit: Limit = limits.NONE) -> Row:
    found = resident_mb(pid)
    compared = [Compared(found, "MB", limit)] if limit is not limits.NONE else []
    return Row(what, load, found, unit="MB", compared=compared)


def _beside(bench: Bench) -> Iterator[Row]:
    for what, imports in (("Python", ""), ("Python with trio", "import trio")):
        program = [sys.executable, "-I", "-c", f"{imports}\nprint('here', flush=True); input()"]
        with running_server(Corner.below(bench.directory), program) as (pid, conversation):
            conversation.next_body()
            yield _row(what, "idle", pid)
    server = [sys.executable, "-I", "-m", "benchmarks.sdk_server"]
    with running_server(Corner.below(bench.directory), server) as (pid, conversation):
        McpClient(conversation).shake_hands()
        yield _row("mcp package's server", "idle, with the results that it gives", pid)


def _one_page(bench: Bench) -> Iterator[Row]:
    corner = Corner.below(bench.directory)
    large = [_of_mb(size) for size in LARGE_MB]
    with (
        running_host(bench, corner, loads=[SMALL, *large]) as host,
        running_server(corner, BRIDGE) as (bridge, conversation),
    ):
        client = McpClient(conversation)
        client.shake_hands()
        prefix = client.listed(SMALL).removesuffix(SMALL.tool)
        yield _row("mcpb's native host", "idle", host, limits.HOST_IDLE_MB)
        yield _row("mcpb bridge", "idle", bridge, limits.BRIDGE_IDLE_MB)
        yield _with_package(corner)
        request = client.request_by(lambda load: prefix + load.tool)
        with driven(bench, corner, conversation, request) as caller:
            for load in large:
                caller.call(load, bench.count(10))
                time.sleep(REST_S)
                yield _row("mcpb's native host", f"after {load.name}", host)
                yield _row("mcpb bridge", f"after {load.name}", bridge)


def _of_mb(size: int) -> Load:
    return Load(f"{size} MB result", f"list{size}MB", SMALL.arguments, result_of(size * MB))


def _many_tools(bench: Bench) -> Iterator[Row]:
    corner = Corner.below(bench.directory)
    load = f"{MANY_TOOLS:,} tools".replace(",", " ")
    with (
        running_host(bench, corner, tabs=MANY_TABS, other_tools=MANY_TOOLS - len(ALL)) as host,
        running_server(corner, BRIDGE) as (bridge, conversation),
    ):
        client = McpClient(conversation)
        client.shake_hands()
        client.tool_names()
        yield _row("mcpb's native host", load, host)
        yield _row("mcpb bridge", load, bridge)


def _over_http(bench: Bench) -> Iterator[Row]:
    for way in (HANDSHAKE, SSE):
        corner = Corner.below(bench.directory)
        with running_host(bench, corner), running_serve(corner) as (serve, port), ExitStack() as stack:
            if way is HANDSHAKE:
                yield _row("mcpb serve", "idle", serve)
            for _ in range(SESSIONS):
                client = way.connect(port)
                stack.callback(client.close)
                McpClient(client).shake_hands()
            yield _row("mcpb serve", f"{SESSIONS} idle sessions, {way.name}", serve)


def _with_package(corner: Corner) -> Row:
    with running_server(corner, BRIDGE) as (bridge, conversation):
        McpClient(conversation).shake_hands()
        conversation.say({"jsonrpc": "2.0", "id": _OF_PACKAGE, "method": _OF_PACKAGE})
        conversation.hear(lambda message: message.get("id") == _OF_PACKAGE)
        return _row("mcpb bridge", "idle, the mcp package was needed", bridge, limits.BRIDGE_WITH_PACKAGE_MB)
