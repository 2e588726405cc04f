"""Remote MCP servers: a call of a tool through `mcpb bridge`, and the start of a bridge that has three.

Servers are processes on loopback: the npm package `server-everything`, in the handshake era, and a server on
the mcp package, in that of 2026-07-28. The package's own client and a socket make the same calls.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec
import trio

from benchmarks import limits, routes, webmcp_page
from benchmarks.calls import measured
from benchmarks.conversation import PATIENCE_S, Conversation, EndError
from benchmarks.driver import DrivenCaller, driven
from benchmarks.http_client import HOST, StreamableClient
from benchmarks.http_routes import running_asgi
from benchmarks.loads import SMALL, Load
from benchmarks.mcp_client import Era, McpClient
from benchmarks.measuring import Measure, Samples, take_turns
from benchmarks.peers import free_port, missing_node, node, with_environment
from benchmarks.processes import Corner, started
from benchmarks.subject import Bench, Caller, Role, Subject
from benchmarks.table import Compared, Row, Table
from native_host.system.home_layout import HomeLayout

CALLS = 40
"""Of each subject in a round."""
_EVERYTHING = Path(__file__).parents[1] / "node_modules/@modelcontextprotocol/server-everything/dist/index.js"
_ECHO = Load("small call", "echo", b'{"message":"apple"}', b"")
ERAS = tuple(Era)
"""Of the clients of bridges that are started."""
_PAUSE_S = 0.01
_BRIDGE, _PACKAGE, _SOCKET = "mcpb bridge", "the mcp package's client", "a bare socket"


@dataclass(frozen=True)
class Server:
    """A running remote server, and the tool that is called."""

    name: str
    port: int
    load: Load
    era: Era


def tables(bench: Bench) -> Iterator[Table]:
    """Measure calls, starts of a bridge, and calls in a page."""
    with running_servers(bench) as servers:
        yield _calls(bench, servers)
        yield _starts(bench, servers)
        yield trio.run(webmcp_page.measure, bench, f"http://{HOST}:{servers[0].port}/mcp")


# ── Servers ─────────────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def running_servers(bench: Bench) -> Iterator[tuple[Server, Server]]:
    """Start a server of each era; the first is `server-everything`."""
    package = running_asgi(Corner.below(bench.directory), "benchmarks.sdk_http_server")
    with everything_server(Corner.below(bench.directory)) as port, package as package_port:
        yield (
            Server("server-everything, handshake", port, _ECHO, Era.HANDSHAKE),
            Server("mcp package's server, 2026-07-28", package_port, SMALL, Era.STATELESS),
        )


def missing_everything() -> str:
    """Return the command that installs `server-everything`; empty if it is there."""
    return missing_node() or ("" if _EVERYTHING.exists() else "not installed: install/prepare.sh test")


@contextmanager
def everything_server(corner: Corner) -> Iterator[int]:
    """Serve `server-everything` over Streamable HTTP; return its port.

    Raises:
        EndError: it is not installed, or does not listen.
    """
    if missing := missing_everything():
        raise EndError(f"server-everything: {missing}")
    port = free_port()
    command = with_environment({"PORT": str(port)}, [*node(), str(_EVERYTHING), "streamableHttp"])
    with started(corner, command, subprocess.DEVNULL, subprocess.DEVNULL) as process:
        _wait_listening(port, process, corner)
        yield port


def _wait_listening(port: int, process: subprocess.Popen[bytes], corner: Corner) -> None:
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until and process.poll() is None:
        try:
            socket.create_connection((HOST, port)).close()
        except ConnectionRefusedError:
            time.sleep(_PAUSE_S)
        else:
            return
    raise EndError(f"server-everything does not listen. {corner.last_words()}")


# ── Calls ───────────────────────────────────────────────────────────────────────────────────────────────────


def _calls(bench: Bench, servers: tuple[Server, Server]) -> Table:
    route = "client → Streamable HTTP on loopback → server → back; mcpb bridge: client's stdio before it"
    rows = [row for server in servers for row in _calls_of(bench, server)]
    note = f"{route}; {bench.programs.name}; {bench.rounds} rounds"
    return Table("Calls of a remote tool", rows, note)


def _calls_of(bench: Bench, server: Server) -> list[Row]:
    subjects = [
        Subject(_BRIDGE, partial(_through_bridge, server), Role.OURS, [server.load]),
        Subject(_PACKAGE, partial(_through_package, server), Role.PACKAGE, [server.load]),
        Subject(_SOCKET, partial(_through_socket, server), Role.FLOOR, [server.load]),
    ]
    found = measured(bench, subjects, partial(_call, bench, server.load)).samples
    return [_call_row(name, server, found) for name in (_BRIDGE, _PACKAGE, _SOCKET)]


def _call(bench: Bench, load: Load, caller: Caller) -> list[float]:
    return [seconds * 1e3 for seconds in caller.call(load, bench.count(CALLS)).seconds]


def _call_row(name: str, server: Server, found: dict[str, Samples]) -> Row:
    samples = found[name]
    compared = []
    if name == _BRIDGE:
        more = samples.difference_to(found[_PACKAGE])
        compared.append(Compared(more, "ms more than the package's client", limits.REMOTE_TO_PACKAGE_MS))
    if name != _SOCKET:
        compared.append(Compared(samples.difference_to(found[_SOCKET]), "ms more than the socket"))
    return Row(name, f"{server.load.name}, {server.name}", samples.p50, samples.p99, compared=compared)


@contextmanager
def _through_bridge(server: Server, bench: Bench) -> Iterator[Caller]:
    corner = Corner.below(bench.directory)
    configure(corner, {"remote": server.port})
    with routes.running_bridge(corner) as conversation:
        client = McpClient(conversation, server.era)
        client.shake_hands()
        name = client.listed(server.load)
        with driven(bench, corner, conversation, client.request_by(lambda _: name)) as caller:
            yield caller


@contextmanager
def _through_package(server: Server, bench: Bench) -> Iterator[Caller]:
    corner = Corner.below(bench.directory)
    command = [sys.executable, "-I", "-m", "benchmarks.sdk_client", f"http://{HOST}:{server.port}/mcp"]
    params = {"name": server.load.tool, "arguments": msgspec.Raw(server.load.arguments)}
    request = msgspec.json.encode(params)
    with started(corner, command, subprocess.PIPE, subprocess.PIPE) as process:
        yield DrivenCaller(process, lambda _: request, corner)


@contextmanager
def _through_socket(server: Server, bench: Bench) -> Iterator[Caller]:
    corner = Corner.below(bench.directory)
    http = StreamableClient(server.port, server.era)
    mcp = McpClient(http, server.era, capabilities={})
    mcp.shake_hands()
    call = mcp.request_by(lambda load: load.tool)
    with driven(
        bench, corner, http.open(), lambda load: http.request(call(load), server.load.tool)
    ) as caller:
        yield caller


def configure(corner: Corner, ports: dict[str, int]) -> None:
    """Write the config.toml of a bridge with these remote servers on loopback."""
    config = HomeLayout(corner.directory).config
    config.touch(0o600)
    text = (
        f'[[remote]]\nname = "{name}"\nurl = "http://{HOST}:{port}/mcp"\n' for name, port in ports.items()
    )
    config.write_text("".join(text))


# ── Starts ──────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class _Start:
    """A bridge's start: its third server, and the era of its client."""

    third: str
    era: Era
    corner: Corner


def _starts(bench: Bench, servers: tuple[Server, Server]) -> Table:
    first, second = servers
    with socket.socket() as closed, socket.create_server((HOST, 0), backlog=socket.SOMAXCONN) as silent:
        closed.bind((HOST, 0))  # does not listen: connections are refused
        thirds = {"one on a closed port": closed, "one that never answers": silent}
        starts = [_Start("", era, Corner.below(bench.directory)) for era in ERAS]
        for third, listener in thirds.items():
            corner = Corner.below(bench.directory)
            configure(corner, {"a": first.port, "b": second.port, "c": listener.getsockname()[1]})
            starts += [_Start(third, era, corner) for era in ERAS]
        tools = (f"_a_{first.load.tool}", f"_b_{second.load.tool}")
        measures: dict[str, Measure] = {
            str(number): partial(_took, start, tools) for number, start in enumerate(starts)
        }
        _took(starts[-1], tools)  # the files are in the page cache afterwards
        found = list(take_turns(measures, bench.rounds).values())
    rows = [row for start, samples in zip(starts, found, strict=True) for row in _start_rows(start, samples)]
    note = f"from the start of the process; {bench.rounds} rounds; the other two servers respond"
    return Table("Starts of a bridge with three remote servers", rows, note)


def _start_rows(start: _Start, samples: Samples) -> Iterator[Row]:
    first, listed, is_whole = (Samples([[taken[at]] for taken in samples.rounds]) for at in range(3))
    method = "initialize" if start.era is Era.HANDSHAKE else "server/discover"
    what = f"mcpb bridge, {start.third or 'no remote server'}"
    has_servers = bool(start.third)
    for load, taken, limit in (
        (f"response to {method}", first, limits.FIRST_ANSWER_MS),
        (f"first tools/list, {start.era.value}", listed, limits.FIRST_REMOTE_LIST_MS),
    ):
        note = ""
        if has_servers and taken is listed:
            whole = sum(each for [each] in is_whole.rounds)
            note = f"tools of both other servers in {whole:g} of {len(is_whole.rounds)} lists"
        compared = [Compared(taken.p50, "ms", limit)] if has_servers else []
        yield Row(what, load, taken.p50, taken.p99, compared=compared, note=note)


def _took(start: _Start, tools: Sequence[str]) -> list[float]:
    """Return the ms to the first response and list, and 1 if that has these tools, else 0."""
    began = time.perf_counter()
    with started(start.corner, routes.BRIDGE, subprocess.PIPE, subprocess.PIPE) as process:
        assert process.stdin
        assert process.stdout
        conversation = Conversation("lines", process.stdout.fileno(), process.stdin.fileno())
        client = McpClient(conversation, start.era)
        try:
            client.shake_hands()
            responded = time.perf_counter()
            names = client.tool_names()
        except (EndError, BrokenPipeError) as error:
            raise EndError(f"mcpb bridge: {error}. {start.corner.last_words()}") from error
        listed = time.perf_counter()
    is_whole = all(any(name.endswith(tool) for name in names) for tool in tools)
    return [(responded - began) * 1e3, (listed - began) * 1e3, float(is_whole)]
