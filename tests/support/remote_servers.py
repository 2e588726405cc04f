"""MCP servers as processes on loopback: the npm package `server-everything`, and the instructable server."""

from __future__ import annotations

import atexit
import functools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

import msgspec
import trio

ROOT = Path(__file__).parents[2]
SOON_S = 60
"""For a start or an end, on a busy machine."""
_POLL_S = 0.02
_EVERYTHING = ROOT / "node_modules/@modelcontextprotocol/server-everything/dist/index.js"
EVERYTHING_STDIO = [shutil.which("node") or "node", str(_EVERYTHING), "stdio"]
INSTRUCTABLE_STDIO = [sys.executable, str(Path(__file__).with_name("instructable_server.py")), "stdio"]
"""The environment variable INSTRUCTIONS has what holds from the start, as JSON."""


def free_port() -> int:
    """Return a port of loopback that nothing listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


@contextmanager
def everything_server(
    transport: Literal["streamableHttp", "sse"] = "streamableHttp", port: int = 0
) -> Iterator[str]:
    """Serve the package's server; yield its URL."""
    port = port or free_port()
    command = [*EVERYTHING_STDIO[:2], transport]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, "PORT": str(port)}
        )
        try:
            _wait_listening(process, port, log)
            yield f"http://127.0.0.1:{port}/{'sse' if transport == 'sse' else 'mcp'}"
        finally:
            process.kill()
            process.wait()


def _wait_listening(process: subprocess.Popen[bytes], port: int, log: Any) -> None:
    deadline = time.monotonic() + SOON_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except ConnectionRefusedError:
            if process.poll() is not None or time.monotonic() > deadline:
                log.seek(0)
                raise RuntimeError(f"The server does not listen: {log.read().decode()}") from None
            time.sleep(_POLL_S)
        else:
            return


class RecordedRequest(msgspec.Struct):
    """A request to the instructable server; over stdio, a message."""

    method: str
    path: str
    headers: dict[str, str]
    """Names in lower case."""
    body: Any
    """Decoded JSON, or a text."""
    query: str = ""
    status: int = 0
    end: Literal["", "answered", "disconnected", "ended by the server"] = ""
    """How its response ended; empty: it has not."""

    @property
    def rpc_method(self) -> str:
        """JSON-RPC method, empty for a response and a request without a body."""
        return str(self.body.get("method", "")) if isinstance(self.body, dict) else ""


class ServerLog(msgspec.Struct, frozen=True):
    """All that the instructable server recorded."""

    version: int
    requests: list[RecordedRequest]
    counts: dict[str, int]
    """By JSON-RPC method."""
    cancelled: list[str]
    """Tools, or other methods, that were cancelled while they ran."""

    def find(self, rpc_method: str) -> list[RecordedRequest]:
        """Return the requests of a JSON-RPC method."""
        return [request for request in self.requests if request.rpc_method == rpc_method]


class _ServerStarter:
    """Process that starts instructable servers."""

    def __init__(self) -> None:
        command = [*INSTRUCTABLE_STDIO[:2], "http"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )

    def start(self, instructions: Mapping[str, Any], port: int) -> tuple[int, int]:
        """Start a server; return its process id and port."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps({"instructions": instructions, "port": port}).encode() + b"\n")
        self._process.stdin.flush()
        pid, port = map(int, self._process.stdout.readline().split())
        return pid, port

    def stop(self) -> None:
        """End it and its servers."""
        self._process.communicate(timeout=SOON_S)


@functools.cache
def _server_starter() -> _ServerStarter:
    starter = _ServerStarter()
    atexit.register(starter.stop)
    return starter


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


class Instructable:
    """A running instructable server; it can be killed and started again on its port."""

    def __init__(self, instructions: Mapping[str, Any]) -> None:
        self._instructions = dict(instructions)
        self._pid = 0
        self.port = 0
        self.start()

    @property
    def url(self) -> str:
        """Of Streamable HTTP."""
        return f"http://127.0.0.1:{self.port}/mcp"

    @property
    def sse_url(self) -> str:
        """Of the legacy transport."""
        return f"http://127.0.0.1:{self.port}/sse"

    def start(self) -> None:
        """Start the process, with the instructions of its first start."""
        self._pid, self.port = _server_starter().start(self._instructions, self.port)

    def kill(self, by: signal.Signals = signal.SIGKILL) -> None:
        """End the process, and wait for its end."""
        if pid := self._pid:
            self._pid = 0
            with suppress(ProcessLookupError):  # it may have died
                os.kill(pid, by)
            deadline = time.monotonic() + SOON_S
            while _is_running(pid):
                assert time.monotonic() < deadline, "the server does not end"
                time.sleep(_POLL_S)

    def control(self, **changes: Any) -> None:
        """Change instructions or start actions (`Instructions`, `Actions` of instructable_server.py)."""
        self._request("/control", json.dumps(changes).encode())

    def log(self, after: int = -1) -> ServerLog:
        """Return all that was recorded; wait up to a second for more than at a version."""
        return msgspec.json.decode(self._request(f"/log?after={after}"), type=ServerLog)

    def counts(self) -> dict[str, int]:
        """Return the number of requests by JSON-RPC method."""
        return self.log().counts

    async def wait(self, is_reached: Callable[[ServerLog], bool]) -> ServerLog:
        """Wait until the log fulfills a condition."""
        version = -1
        with trio.fail_after(SOON_S):
            while True:
                log = await trio.to_thread.run_sync(self.log, version)
                if is_reached(log):
                    return log
                version = log.version

    def _request(self, path: str, body: bytes | None = None) -> bytes:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", body, timeout=SOON_S) as answer:
            text: bytes = answer.read()
            return text


@contextmanager
def instructable_server(
    era: Literal["both", "handshake", "stateless"] = "both", **instructions: Any
) -> Iterator[Instructable]:
    """Serve with these instructions."""
    server = Instructable({"era": era, **instructions})
    try:
        yield server
    finally:
        server.kill()
