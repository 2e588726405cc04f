"""MCP servers as processes on loopback: the npm package `server-everything`, and the instructable server."""

from __future__ import annotations

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
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import msgspec
import trio

from forked_processes import ForkedProcess, fork_server

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


class Instructable:
    """A running instructable server; it can be killed and started again on its port."""

    def __init__(self, instructions: Mapping[str, Any]) -> None:
        self._instructions = dict(instructions)
        self._process: ForkedProcess | None = None
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
        argv = [INSTRUCTABLE_STDIO[1], "http", str(self.port)]
        environment = {**os.environ, "INSTRUCTIONS": json.dumps(self._instructions)}
        reading, writing = os.pipe()
        with open(reading, "rb") as printed:  # noqa: PTH123 - a descriptor
            self._process = fork_server("instructable_server:main").start(argv, environment, writing)
            os.close(writing)
            self.port = int(printed.readline())

    def kill(self, by: signal.Signals = signal.SIGKILL) -> None:
        """End the process, and wait for its end."""
        if process := self._process:
            self._process = None
            process.end(by)

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
