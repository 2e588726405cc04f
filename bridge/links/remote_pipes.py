"""Transports of a remote server with one stream each way: stdio, and HTTP+SSE of MCP 2024-11-05.

Both carry one JSON-RPC message per line or event. A child process has its own process group, ends with the
connection, and its stderr goes to our log; nothing of it reaches our stdout.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Protocol
from urllib.parse import urljoin

import httpx2
import trio

from bridge.links.message_meter import MessageMeter
from bridge.links.remote_http import Exchange, current_exchange, status_problem
from bridge.links.remote_log import SecretMask
from bridge.links.remote_problem import Cause, RemoteProblem, describe_exit
from native_host.protocol.untrusted_text import single_line

INHERITED_ENVIRONMENT = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")
"""As the mcp package does: other variables may hold secrets of other programs."""
_CHUNK_BYTES = 1 << 16
_MAX_LOGGED_CHARS = 300
ENDPOINT_S = 10.0
"""Seconds until the first event of HTTP+SSE."""
WRITE_S = 10.0
"""Seconds in which a process has to read a message."""
STATUS_S = 1.0
"""Seconds until a process that has closed its stdout has ended."""
_EXIT_S = 1.0
"""Seconds to end after stdin was closed, and again after SIGTERM."""

_log = logging.getLogger(__name__)


class MessagePipe(Protocol):
    """Both directions of a connection."""

    async def receive(self) -> bytes | None:
        """Return the next message; None: the connection has ended."""
        ...

    async def send(self, message: bytes) -> None:
        """Send a message.

        Raises:
            RemoteProblem: it cannot be sent.
        """
        ...


class StdioPipe:
    """stdin and stdout of a child process."""

    def __init__(self, process: trio.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._stdin = process.stdin
        self._stdout = process.stdout
        self._lines = _Lines()
        self._writing = trio.Lock()

    async def receive(self) -> bytes:
        """Return the next line of stdout.

        Raises:
            RemoteProblem: the line is too large, or stdout has ended.
        """
        while True:
            line = self._lines.pop()
            if line is not None:
                return line
            try:
                chunk = await self._stdout.receive_some(_CHUNK_BYTES)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                chunk = b""
            if not chunk:
                raise await self._find_end("has closed its output")
            self._lines.add(chunk)

    async def send(self, message: bytes) -> None:
        """Write a line to stdin."""
        exchange = current_exchange.get()
        async with self._writing:
            if exchange is not None:
                exchange.was_sent = True
            try:
                # A line that is cut by a cancellation would break the next one.
                with trio.CancelScope(shield=True), trio.fail_after(WRITE_S):
                    await self._stdin.send_all(message + b"\n")
            except (trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError):
                await self._stdin.aclose()
                raise await self._find_end("reads no more") from None

    async def _find_end(self, otherwise: str) -> RemoteProblem:
        """Return the problem with the process's exit status; `otherwise` is what it does if it still runs."""
        end = otherwise
        with trio.move_on_after(STATUS_S):
            end = describe_exit(await self._process.wait())
        return RemoteProblem(Cause.COMMAND, f"its process {end}", handed=True)


class _Lines:
    """Splits bytes into lines, in linear time."""

    def __init__(self) -> None:
        self._lines: list[bytes] = []
        self._begun = bytearray()
        self._meter = MessageMeter()

    def add(self, chunk: bytes | bytearray) -> None:
        first, *others = chunk.split(b"\n")
        self._meter.add(first)
        self._begun += first
        if others:
            self._meter.begin()
            self._meter.add(others[-1])
            self._lines += [bytes(self._begun), *map(bytes, others[:-1])]
            self._lines.reverse()
            self._begun = bytearray(others[-1])

    def pop(self) -> bytes | None:
        return self._lines.pop() if self._lines else None


@asynccontextmanager
async def open_stdio(
    name: str, command: Sequence[str], environment: Mapping[str, str]
) -> AsyncGenerator[StdioPipe, None]:
    """Start a child process.

    Raises:
        RemoteProblem: it cannot be started.
    """
    inherited = {key: os.environ[key] for key in INHERITED_ENVIRONMENT if key in os.environ}
    try:
        process = await trio.lowlevel.open_process(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**inherited, **environment},
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", "") or "its command line is not valid"
        raise RemoteProblem(Cause.COMMAND, f"its command cannot be started: {reason}") from None
    try:
        async with trio.open_nursery() as nursery:
            secrets = SecretMask("")
            secrets.add(environment)
            nursery.start_soon(_log_stderr, name, process, secrets)
            yield StdioPipe(process)
            nursery.cancel_scope.cancel()
    finally:
        with trio.CancelScope(shield=True):
            await _end_process(process)


async def _log_stderr(name: str, process: trio.Process, secrets: SecretMask) -> None:
    assert process.stderr is not None
    begun = b""
    with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
        async for chunk in process.stderr:
            *lines, begun = (begun + chunk).split(b"\n")
            begun = begun[:_CHUNK_BYTES]
            for line in lines:
                text = single_line(secrets.mask(line.decode(errors="replace")), _MAX_LOGGED_CHARS)
                _log.info("Remote server %s wrote to stderr: %s", name, text)


async def _end_process(process: trio.Process) -> None:
    """Close stdin, wait, then end the process group."""
    assert process.stdin is not None
    await process.stdin.aclose()
    for number in (None, signal.SIGTERM, signal.SIGKILL):
        if number is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, number)
        with trio.move_on_after(_EXIT_S):
            await process.wait()
            break
    # What it has started stays in its process group, also after its own end.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            await stream.aclose()


class SsePipe:
    """An event stream, and POST requests to the endpoint that it names."""

    def __init__(
        self,
        post: Callable[[str, bytes], Awaitable[httpx2.Response]],
        endpoint: str,
        events: AsyncIterator[httpx2.ServerSentEvent],
        exchange: Exchange,
    ) -> None:
        self._exchange = exchange
        self._post = post
        self._endpoint = endpoint
        self._events = events

    async def receive(self) -> bytes | None:
        """Return the data of the next message event.

        Raises:
            RemoteProblem: the stream has ended too early.
        """
        async for event in self._events:
            if event.event == "message" and event.data:
                return event.data.encode()
        if self._exchange.problem is not None:
            raise self._exchange.problem
        return None

    async def send(self, message: bytes) -> None:
        """Send a message to the endpoint."""
        exchange = current_exchange.get() or Exchange()
        response = await self._post(self._endpoint, message)
        if exchange.problem is not None:
            raise exchange.problem
        if not response.is_success:
            raise status_problem(response.status_code, handed=response.status_code >= 500)


async def read_endpoint(url: str, events: AsyncIterator[httpx2.ServerSentEvent]) -> str:
    """Return the address for messages, which the first event of HTTP+SSE names.

    Raises:
        RemoteProblem: the server names no address, or one of another origin.
    """
    event = None
    with trio.move_on_after(ENDPOINT_S):
        event = await anext(events, None)
    if event is not None and event.event == "endpoint":
        endpoint = urljoin(url, event.data)
        if _origin(endpoint) != _origin(url):
            raise RemoteProblem(Cause.REDIRECT, "its endpoint for messages has another origin")
        return endpoint
    raise RemoteProblem(Cause.NOT_MCP, "its event stream does not begin with an endpoint")


def _origin(url: str) -> tuple[str, str, int | None]:
    try:
        address = httpx2.URL(url)
    except httpx2.InvalidURL:
        return "", "", None
    return address.scheme, address.host, address.port
