"""The full path with a client that comes over HTTP: through `mcpb serve`, and through what stands beside it.

As on stdio, arguments are checked, policy asked, the audit log kept. Only the limit of calls a minute is off:
nothing could be measured with it.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from urllib.parse import urlsplit

from benchmarks.conversation import PATIENCE_S, EndError
from benchmarks.driver import DrivenCaller, Together, driven
from benchmarks.http_client import HOST, TOKEN, HttpClient, SseClient, StreamableClient
from benchmarks.loads import ALL, SMALL, Load
from benchmarks.mcp_client import Era, McpClient
from benchmarks.processes import Corner, started
from benchmarks.routes import BRIDGE, running_host
from benchmarks.subject import Bench, Caller, Role, Subject
from bridge.state import server_record
from native_host.system.home_layout import HomeLayout

WITHOUT_PACE = f'[http]\ncalls_per_minute = 0\nauth_token = "{TOKEN}"\n'
"""The config.toml of `mcpb serve`."""
SERVE = [BRIDGE[0], "serve", "--port", "0"]
_BARE_SERVER = "benchmarks.bare_server"
_SDK_SERVER = "benchmarks.sdk_http_server"
_PAUSE_S = 0.01


@dataclass(frozen=True)
class Way:
    """One of the ways in which MCP goes over HTTP."""

    name: str
    connect: Callable[[int], HttpClient]
    era: Era = Era.HANDSHAKE


HANDSHAKE = Way("handshake", StreamableClient)
STATELESS = Way("2026-07-28", partial(StreamableClient, era=Era.STATELESS), Era.STATELESS)
SSE = Way("SSE", SseClient)


def subjects(ways: Sequence[Way], clients: int = 1) -> list[Subject]:
    """From a client's connection to the extension and back; so many clients call at the same time.

    The bare server does not tell eras apart, and stands there once for all ways with the same clients.
    """
    ours = [_subject("mcpb", way, Role.OURS, partial(_through_mcpb, way, clients)) for way in ways]
    package = [
        _subject("mcp package, no browser", way, Role.PACKAGE, partial(_through, _SDK_SERVER, way, clients))
        for way in ways
    ]
    bare = [
        _subject("bare hypercorn", way, Role.BARE_SERVER, partial(_through, _BARE_SERVER, way, clients))
        for way in ways
        if way.era is Era.HANDSHAKE
    ]
    return [*ours, *package, *bare]


def _subject(
    name: str, way: Way, role: Role, opener: Callable[[Bench], AbstractContextManager[Caller]]
) -> Subject:
    return Subject(f"{name}, {way.name}", opener, role, ALL)


# ── Servers, each as its process id and its port ────────────────────────────────────────────────────────────


@contextmanager
def running_serve(corner: Corner) -> Iterator[tuple[int, int]]:
    """`mcpb serve`, as soon as it takes connections."""
    config = HomeLayout(corner.directory).config
    config.touch(0o600)
    config.write_text(WITHOUT_PACE)
    with started(corner, SERVE, subprocess.DEVNULL, subprocess.DEVNULL) as process:
        yield process.pid, _port(process, corner)


@contextmanager
def running_asgi(corner: Corner, module: str) -> Iterator[int]:
    """Start a server on a socket that listens already, so that early clients wait in its queue."""
    listening = socket.create_server((HOST, 0))
    port: int = listening.getsockname()[1]
    descriptor = listening.detach()
    command = [sys.executable, "-I", "-m", module, f"fd://{descriptor}"]
    with started(corner, command, subprocess.DEVNULL, subprocess.DEVNULL, descriptor):
        yield port


def _port(process: subprocess.Popen[bytes], corner: Corner) -> int:
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until and process.poll() is None:
        if record := server_record.find_running(HomeLayout(corner.directory).state.path):
            return urlsplit(record.url).port or 0
        time.sleep(_PAUSE_S)
    raise EndError(f"mcpb serve does not serve. {corner.last_words()}")


# ── Clients ─────────────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def _through_mcpb(way: Way, clients: int, bench: Bench) -> Iterator[Caller]:
    corner = Corner.below(bench.directory)
    with (
        running_host(bench, corner),
        running_serve(corner) as (_, port),
        speaking(bench, corner, way, port, clients) as caller,
    ):
        yield caller


@contextmanager
def _through(module: str, way: Way, clients: int, bench: Bench) -> Iterator[Caller]:
    corner = Corner.below(bench.directory)
    knows_tools = module != _BARE_SERVER
    with (
        running_asgi(corner, module) as port,
        speaking(bench, corner, way, port, clients, knows_tools=knows_tools) as caller,
    ):
        yield caller


@contextmanager
def speaking(
    bench: Bench, corner: Corner, way: Way, port: int, clients: int, *, knows_tools: bool = True
) -> Iterator[Caller]:
    """So many clients with a session and a connection each, as soon as the loads' tools are listed."""
    with ExitStack() as stack:
        yield Together(
            [stack.enter_context(_client(bench, corner, way, port, knows_tools)) for _ in range(clients)]
        )


@contextmanager
def _client(bench: Bench, corner: Corner, way: Way, port: int, knows_tools: bool) -> Iterator[DrivenCaller]:
    http = way.connect(port)
    mcp = McpClient(http, way.era)
    prefix = ""
    if knows_tools:
        mcp.shake_hands()
        prefix = mcp.listed(SMALL).removesuffix(SMALL.tool)
    call = mcp.request_by(lambda load: prefix + load.tool)

    def request(load: Load) -> bytes:
        return http.request(call(load), prefix + load.tool)

    with driven(bench, corner, http.open(), request) as caller:
        yield caller
