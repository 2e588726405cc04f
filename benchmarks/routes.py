"""From a client to a tool and back: through the host, through the bridge, through both, and through copiers.

All with the defaults that users get: arguments are checked, policy asked, the audit log kept. The ends are
the same on every route.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Literal, NamedTuple

from benchmarks import page
from benchmarks.conversation import PATIENCE_S, Conversation, EndError, Framing
from benchmarks.driver import Request, driven
from benchmarks.loads import ALL, SMALL, Load
from benchmarks.mcp_client import Era, McpClient
from benchmarks.processes import Corner, started
from benchmarks.subject import Bench, Caller, Role, Subject
from native_host import __version__
from native_host.ipc import endpoint
from native_host.protocol import jsonrpc, wire
from native_host.protocol.framing import frame

HOST = [sys.executable, "-I", "-m", "native_host", f"chrome-extension://{wire.EXTENSION_ID}/"]
BRIDGE = [str(Path(sys.executable).with_name("mcpb")), "bridge"]
SOCKET_BYTES = 4 * 1024 * 1024
"""Host and bridge ask for as much on theirs: copiers get no less room."""
WEBMCP = "--enable-features=WebMCPTesting"
"""Switch of Chromium: pages have the browser's own WebMCP."""
NO_COMPILER = "no C compiler: sudo apt-get install gcc libc6-dev"
_PAUSE_S = 0.01

Hop = Literal["pipes", "socket"]
HOST_HOPS: tuple[Hop, ...] = ("socket", "pipes")
BRIDGE_HOPS: tuple[Hop, ...] = ("pipes", "socket")
PATH_HOPS: tuple[Hop, ...] = ("pipes", "socket", "pipes")


def host_subjects(bench: Bench) -> list[Subject]:
    """From the host's socket to the extension and back."""
    return [
        Subject("mcpb's native host", _through_host, Role.OURS, ALL),
        *_copiers(bench, "frames", HOST_HOPS),
    ]


def bridge_subjects(bench: Bench) -> list[Subject]:
    """From the client's stdio to the bridge's socket and back."""
    return [Subject("mcpb bridge", _through_bridge, Role.OURS, ALL), *_copiers(bench, "lines", BRIDGE_HOPS)]


def path_subjects(bench: Bench) -> list[Subject]:
    """From the client's stdio through bridge and host to the extension and back."""
    return [
        Subject("mcpb, handshake", partial(_through_both, era=Era.HANDSHAKE), Role.OURS, ALL),
        Subject("mcpb, 2026-07-28", partial(_through_both, era=Era.STATELESS), Role.OURS, ALL),
        *_copiers(bench, "lines", PATH_HOPS),
    ]


# ── Through what is ours ────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def running_host(
    bench: Bench, corner: Corner, *, tabs: int = 1, other_tools: int = 0, loads: Sequence[Load] = ALL
) -> Iterator[int]:
    """Start a native host with an extension that has announced its tabs (`page`); return its process id."""
    with hosting(
        bench, corner, page.announcements(tabs, other_tools, loads), page.answers(loads)
    ) as process_id:
        yield process_id


@contextmanager
def hosting(
    bench: Bench, corner: Corner, said: Sequence[bytes], rules: list[tuple[bytes, bytes]]
) -> Iterator[int]:
    """Start a native host with an extension that announces and answers this; return its process id."""
    ours, theirs = duplex("pipes")
    with (
        started(corner, HOST, theirs.from_fd, theirs.to_fd) as process,
        answering(bench, corner, "frames", ours, said, rules),
    ):
        yield process.pid


@contextmanager
def running_server(corner: Corner, command: Sequence[str]) -> Iterator[tuple[int, Conversation]]:
    """Start a program that speaks MCP on stdio; return its process id and a new conversation."""
    ours, theirs = duplex("pipes")
    with started(corner, command, theirs.from_fd, theirs.to_fd) as process:
        yield process.pid, Conversation("lines", *ours)


@contextmanager
def running_bridge(corner: Corner) -> Iterator[Conversation]:
    """`mcpb bridge`, to which nothing has been said yet."""
    with running_server(corner, BRIDGE) as (_, conversation):
        yield conversation


def connect(corner: Corner) -> Conversation:
    """Connect to the host like a bridge, after its replay. Raises as `introduce` does."""
    conversation = introduce(corner)
    conversation.hear(lambda message: message["method"] == "host/replayed")
    return conversation


def introduce(corner: Corner) -> Conversation:
    """Connect to the host like a bridge; its replay follows.

    Raises:
        EndError: there is no host within PATIENCE_S, or it does not say what it should.
    """
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    client.connect(str(_host_socket(corner)))
    give_room(client)
    descriptor = client.detach()
    conversation = Conversation("frames", descriptor, descriptor)
    conversation.hear(lambda message: message["method"] == "host/hello")
    hello = wire.BridgeHello(wire=wire.WIRE_VERSION, version=__version__, pid=os.getpid())
    conversation.say(jsonrpc.notification("bridge/hello", hello))
    return conversation


@contextmanager
def speaking(
    bench: Bench, corner: Corner, conversation: Conversation, era: Era, tab: int | None = None
) -> Iterator[Caller]:
    """Connect a client to a bridge and wait until the tools of the loads (in that tab) are listed."""
    client = McpClient(conversation, era)
    client.shake_hands()
    prefix = client.listed(SMALL, tab).removesuffix(SMALL.tool)
    with driven(bench, corner, conversation, client.request_by(lambda load: prefix + load.tool)) as caller:
        yield caller


@contextmanager
def _through_host(bench: Bench) -> Iterator[Caller]:
    corner = Corner.below(bench.directory)
    with running_host(bench, corner), driven(bench, corner, connect(corner), page.request) as caller:
        yield caller


@contextmanager
def _through_both(bench: Bench, era: Era) -> Iterator[Caller]:
    corner = Corner.below(bench.directory)
    with (
        running_host(bench, corner),
        running_bridge(corner) as conversation,
        speaking(bench, corner, conversation, era) as caller,
    ):
        yield caller


@contextmanager
def _through_bridge(bench: Bench) -> Iterator[Caller]:
    corner = Corner.below(bench.directory)
    host = endpoint.open_endpoint(corner.run)
    with ExitStack() as stack:
        stack.callback(host.close)
        host.publish(_record(host.instance))
        conversation = stack.enter_context(running_bridge(corner))
        host.listener.settimeout(PATIENCE_S)
        accepted, _ = host.listener.accept()
        accepted.setblocking(True)
        give_room(accepted)
        descriptor = accepted.detach()
        ours = End(descriptor, descriptor)
        stack.enter_context(
            answering(bench, corner, "frames", ours, _host_says(host.instance), page.answers())
        )
        yield stack.enter_context(speaking(bench, corner, conversation, Era.HANDSHAKE))


def _host_says(instance: str) -> list[bytes]:
    limits = wire.Limits(
        to_browser=wire.TO_BROWSER_BYTES, from_browser=wire.FROM_BROWSER_BYTES, socket=wire.SOCKET_BYTES
    )
    hello = wire.HostHello(
        wire=wire.WIRE_VERSION,
        instance=instance,
        version=__version__,
        pid=os.getpid(),
        browser_pid=os.getppid(),
        extension_origin=HOST[-1],
        limits=limits,
    )
    return [
        jsonrpc.notification("host/hello", hello),
        *page.announcements(),
        jsonrpc.notification("host/replayed", wire.HostReplayed()),
    ]


def _record(instance: str) -> endpoint.Record:
    return endpoint.Record(
        instance=instance,
        pid=os.getpid(),
        browser_pid=os.getppid(),
        extension_origin=HOST[-1],
        version=__version__,
        started_at=time.time(),
    )


def _host_socket(corner: Corner) -> Path:
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        for record in endpoint.live_hosts(corner.run):
            return endpoint.socket_path(corner.run, record.instance)
        time.sleep(_PAUSE_S)
    raise EndError(f"no native host within {PATIENCE_S:g} s. {corner.last_words()}")


# ── Through copiers ─────────────────────────────────────────────────────────────────────────────────────────


def _copiers(bench: Bench, framing: Framing, hops: Sequence[Hop]) -> list[Subject]:
    count = "one copier" if len(hops) == 2 else "two copiers"
    in_c = partial(_through_copiers, framing=framing, hops=hops)
    in_python = partial(in_c, is_python=True)
    missing = "" if bench.programs.are_in_c else NO_COMPILER
    return [
        Subject(f"{count} in C", in_c, Role.FLOOR, ALL, missing),
        Subject(f"{count} in Python", in_python, Role.PYTHON_COPIER, ALL),
    ]


@contextmanager
def _through_copiers(
    bench: Bench, framing: Framing, hops: Sequence[Hop], *, is_python: bool = False
) -> Iterator[Caller]:
    corner = Corner.below(bench.directory)
    copier = bench.programs.python_copier if is_python else bench.programs.copier
    ends = [duplex(hop) for hop in hops]
    rules = page.answers() if framing == "frames" else page.mcp_answers()
    with ExitStack() as stack:
        for (_, near), (far, _) in pairwise(ends):
            command = [*copier, *map(str, (*near, *far))]
            stack.enter_context(started(corner, command, subprocess.DEVNULL, subprocess.DEVNULL, *near, *far))
        stack.enter_context(answering(bench, corner, framing, ends[-1][1], [], rules))
        yield stack.enter_context(
            driven(bench, corner, Conversation(framing, *ends[0][0]), _copied_request(framing))
        )


def _copied_request(framing: Framing) -> Request:
    if framing == "frames":
        return page.request
    return mcp_request


def mcp_request(load: Load) -> bytes:
    """Make a call as a client of MCP writes it to the server that has the tool, without its id."""
    return McpClient(Conversation("lines", -1, -1)).request_by(lambda load: load.tool)(load)


# ── Both ────────────────────────────────────────────────────────────────────────────────────────────────────


class End(NamedTuple):
    """One end of a hop; of a socket both are the same."""

    from_fd: int
    to_fd: int


def duplex(hop: Hop) -> tuple[End, End]:
    """Both ends of a new one."""
    if hop == "pipes":
        (from_far, to_near), (from_near, to_far) = os.pipe(), os.pipe()
        return End(from_far, to_far), End(from_near, to_near)
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    for side in (near, far):
        give_room(side)
    fds = near.detach(), far.detach()
    return End(fds[0], fds[0]), End(fds[1], fds[1])


def give_room(side: socket.socket) -> None:
    """Ask for the buffers that host and bridge ask for."""
    for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
        side.setsockopt(socket.SOL_SOCKET, option, SOCKET_BYTES)


@contextmanager
def answering(
    bench: Bench,
    corner: Corner,
    framing: Framing | Literal["websocket"],
    end: End,
    said_first: Sequence[bytes],
    rules: list[tuple[bytes, bytes]],
    *,
    member: str = '"id":',
) -> Iterator[None]:
    """Start the answering program (see answerer.c), which takes over the descriptors."""
    opening = b"".join(frame(body, "native") for body in said_first)
    path = page.write_rules(corner.directory / "rules", opening, rules)
    command = [*bench.programs.answerer, framing, *map(str, end), str(path), member]
    with started(corner, command, subprocess.DEVNULL, subprocess.DEVNULL, *end):
        yield
