"""Stdio transport: MCP on stdin and stdout, one message per line.

The process has one session. stdout is moved to a private descriptor, and other output of the process goes to
stderr. There are no threads: lines are read when they arrive, and written at once while the client reads.
"""

from __future__ import annotations

import logging
import os
import select
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import trio

from bridge.mcp_session import client_writer
from bridge.mcp_session.mcp_server import McpServer
from bridge.mcp_session.session import McpSession, open_session
from native_host.ipc.streams import MessageWriter, make_ready
from native_host.protocol import jsonrpc, wire
from native_host.protocol.framing import Part
from native_host.protocol.wire import Code

MAX_LINE_BYTES = wire.CHUNKED_BYTES + 16 * wire.MIB
"""Limit of a line. It is above the limit of a call, so that the error for a larger call names the tool. A
line is in memory several times while it is read."""
MAX_OPEN_REQUESTS = 1024
"""Limit of requests without a response. Further ones are rejected unless one completes soon."""
COMPLETION_WAIT_S = 0.5
"""Seconds to wait for a completion before the first rejection, so that a burst of quick calls passes."""
MAX_UNREAD_BYTES = 64 * 1024 * 1024
"""Limit of output that the client has not read. Over it, no input is read."""
STALLED_S = 30.0
"""Seconds without reading after which a client over that limit is disconnected."""
GOODBYE_S = 1.0
"""Seconds that the client has to read the last responses."""
_READ_BYTES = 64 * 1024
_LONG_READ_BYTES = 1024 * 1024
"""Bytes to read after a full read, because the line is long."""
_PEER_CLOSED: int = getattr(select, "POLLRDHUP", 0)
"""Event of a socket whose other end sends no more; macOS does not have it."""

_log = logging.getLogger(__name__)


async def serve_stdio(server: McpServer) -> None:
    """Speak MCP on this process's stdin and stdout until either ends."""
    with _detach_stdio() as (stdin, stdout):
        await serve_descriptors(server, stdin, stdout)


async def serve_descriptors(server: McpServer, stdin: int, stdout: int) -> None:
    """Speak MCP on a pair of descriptors until either ends. It does not close them."""
    make_ready(stdin)
    writer = _Stdout(stdout)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_flush_output, writer, nursery.cancel_scope)
        async with open_session(server, writer) as lane:
            reader = _Reader(stdin, writer, lane, nursery.cancel_scope)
            await reader.run()
            await lane.end_input(is_script=reader.is_script)
            with trio.move_on_after(GOODBYE_S), suppress(trio.BrokenResourceError):
                # The client may not read any more, so the wait for the rest is bounded.
                await writer.wait_room()
        nursery.cancel_scope.cancel()


class _Stdout(MessageWriter):
    """Client on stdout: one stream of lines."""

    def answer(self, *parts: Part, error: int = 0) -> None:  # noqa: ARG002  (the client reads it)
        self.write(*parts)

    def forgo(self) -> None:
        """Write nothing: a client that cancels expects no response."""


async def _flush_output(writer: MessageWriter, scope: trio.CancelScope) -> None:
    try:
        await writer.run()
    except trio.BrokenResourceError:
        scope.cancel()  # the client has closed stdout


@contextmanager
def _detach_stdio() -> Iterator[tuple[int, int]]:
    stdin, stdout = _duplicate_stdio(0, os.O_RDONLY), _duplicate_stdio(1, os.O_WRONLY)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # stderr is closed
        os.dup2(nothing, 1)
    os.close(nothing)
    try:
        yield stdin, stdout
    finally:
        for fd in (stdin, stdout):
            os.set_blocking(fd, True)  # other processes that share it expect a blocking descriptor
            os.close(fd)


def _duplicate_stdio(fd: int, flags: int) -> int:
    # The descriptors of a terminal share one open file, and a non-blocking duplicate would change stderr.
    if os.isatty(fd):
        return os.open(os.ttyname(fd), flags | os.O_NOCTTY | os.O_CLOEXEC)
    return os.dup(fd)


class _Reader:
    """Reads lines while the client also reads its responses."""

    def __init__(self, stdin: int, writer: MessageWriter, lane: McpSession, scope: trio.CancelScope) -> None:
        self._stdin = stdin
        self._outlet = writer
        self._lane = lane
        self._scope = scope
        self._lines = _LineSplitter()
        self._read_bytes = _READ_BYTES
        self._is_full = False
        """True if the last request found the limit of open requests reached."""
        self.is_script = False
        """True if the input had ended before the first response: its writer waits for none of them."""

    async def run(self) -> None:
        """Handle lines until stdin ends."""
        data = await self._read_input()
        self.is_script = _has_ended(self._stdin)
        while data:
            for line in self._lines.feed(data):
                await self._handle_line(line)
            data = await self._read_input()
        await self._handle_line(self._lines.take_rest())

    async def _read_input(self) -> bytes:
        while True:
            try:
                await trio.lowlevel.wait_readable(self._stdin)
            except PermissionError:  # a file, which is always readable
                await trio.lowlevel.checkpoint()
            try:
                data = os.read(self._stdin, self._read_bytes)
            except BlockingIOError:  # a process that shares stdin has read it
                continue
            except OSError as error:
                _log.info("Stopped reading: stdin failed: %s", error)
                return b""
            self._read_bytes = _LONG_READ_BYTES if len(data) == self._read_bytes else _READ_BYTES
            return data

    async def _handle_line(self, line: bytes | None) -> None:
        if line is None:
            text = f"the line is too long: the limit is {MAX_LINE_BYTES} bytes"
            self._outlet.write(client_writer.make_failure(b"", Code.INVALID_REQUEST, text))
        elif line and not line.isspace() and not await self._reject_over_limit(line):
            await self._lane.handle_line(line)
        if self._outlet.waiting_bytes > MAX_UNREAD_BYTES:
            await self._wait_output_read()

    async def _reject_over_limit(self, line: bytes) -> bool:
        """Reject a request over the limit; return whether it did. Other messages may complete requests."""
        if len(self._lane.requests) < MAX_OPEN_REQUESTS or not (raw_id := _request_id(line)):
            return False
        if not self._is_full:
            with trio.move_on_after(COMPLETION_WAIT_S):
                await self._lane.requests.wait_at_most(MAX_OPEN_REQUESTS - 1)
        count = len(self._lane.requests)
        self._is_full = count >= MAX_OPEN_REQUESTS
        if self._is_full:
            text = f"{count} requests are open: wait for a response or cancel one, then retry"
            self._outlet.write(client_writer.make_failure(raw_id, Code.RATE_LIMITED, text))
        return self._is_full

    async def _wait_output_read(self) -> None:
        """Wait for the client to read, and disconnect it if it does not: the end of stdin goes unnoticed."""
        while (unread := self._outlet.waiting_bytes) > MAX_UNREAD_BYTES:
            with trio.move_on_after(STALLED_S), suppress(trio.BrokenResourceError):
                await self._outlet.wait_room(MAX_UNREAD_BYTES)
            if self._outlet.waiting_bytes >= unread:
                _log.warning("Ended the session: the client read nothing for %g s.", STALLED_S)
                self._scope.cancel()
            await trio.lowlevel.checkpoint()


def _has_ended(stdin: int) -> bool:
    """Return whether nothing is written to an input any more; some of it may be unread."""
    if stat.S_ISREG(os.fstat(stdin).st_mode):
        return True
    poll = select.poll()
    poll.register(stdin, _PEER_CLOSED)
    return any(events & (_PEER_CLOSED | select.POLLHUP) for _, events in poll.poll(0))


def _request_id(line: bytes) -> bytes:
    """Return the id of a request as JSON; empty for other messages and invalid ids."""
    try:
        found = jsonrpc.decode(line)
    except jsonrpc.UndecodableError:
        return b""
    raw_id = bytes(found.id)
    return raw_id if found.is_request and jsonrpc.is_id(raw_id) else b""


class _LineSplitter:
    """Splits input into lines. None stands for a line over the limit."""

    def __init__(self) -> None:
        self._partial: list[bytes] = []
        self._partial_bytes = 0
        self._is_skipping = False

    def feed(self, data: bytes) -> list[bytes | None]:
        """Add input; return the complete lines, and None as soon as a line is too long."""
        *ends, partial = data.split(b"\n")
        lines = [self._end_line(end) for end in ends]
        if partial and not self._is_skipping:
            self._partial.append(partial)
            self._partial_bytes += len(partial)
        if self._partial_bytes > MAX_LINE_BYTES:
            lines.append(self._end_line(b""))
            self._is_skipping = True
        return lines

    def take_rest(self) -> bytes | None:
        """Return the last line, which has no newline."""
        return self._end_line(b"")

    def _end_line(self, end: bytes) -> bytes | None:
        partial, self._partial = self._partial, []
        size, self._partial_bytes = self._partial_bytes + len(end), 0
        was_skipping, self._is_skipping = self._is_skipping, False
        if was_skipping:
            return b""
        if size > MAX_LINE_BYTES:
            return None
        return b"".join([*partial, end]) if partial else end
