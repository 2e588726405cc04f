"""MCP over stdin and stdout: one line, one message. The process's only session.

stdout belongs to the protocol: it is moved to a descriptor of our own, and what anything else prints goes to
stderr. No threads: lines are read when they are there, and written at once while the client takes them.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import trio

from bridge.mcp_session import client_writer
from bridge.mcp_session.mcp_server import McpServer
from bridge.mcp_session.session import Lane, open_lane
from native_host.ipc.streams import Outlet, make_ready
from native_host.protocol import jsonrpc, wire
from native_host.protocol.framing import Part
from native_host.protocol.wire import Code

MAX_LINE_BYTES = wire.CHUNKED_BYTES + 16 * wire.MIB
"""Above what a call may carry, so that one that is a little too large is refused by name. A line is held
several times over while it is read."""
MAX_OPEN_REQUESTS = 1024
"""Requests of the client without an answer; further ones are refused, unless there is room soon."""
ROOM_S = 0.5
"""For room, before the first of them is refused: a burst of quick calls passes, one after the other."""
MAX_UNREAD_BYTES = 64 * 1024 * 1024
"""Answers that the client has not read; with more, nothing is read until it has."""
STALLED_S = 30.0
"""A client with so much unread that reads nothing at all for so long is given up."""
GOODBYE_S = 1.0
"""After the last answer, for the client to read what waits."""
_READ_BYTES = 64 * 1024
_LONG_READ_BYTES = 1024 * 1024
"""After a read that was full: a long line is coming."""

_log = logging.getLogger(__name__)


async def serve(server: McpServer) -> None:
    """Speak MCP on this process's stdin and stdout until either ends."""
    with _claimed() as (stdin, stdout):
        await serve_descriptors(server, stdin, stdout)


async def serve_descriptors(server: McpServer, stdin: int, stdout: int) -> None:
    """Speak MCP on a pair of descriptors until either ends. They stay their owner's to close."""
    make_ready(stdin)
    outlet = _Stdout(stdout)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_write, outlet, nursery.cancel_scope)
        async with open_lane(server, outlet) as lane:
            await _Reader(stdin, outlet, lane, nursery.cancel_scope).run()
            await lane.close()
            with trio.move_on_after(GOODBYE_S), suppress(trio.BrokenResourceError):
                # Nobody may be reading any more: what does not get out now never will.
                await outlet.wait_room()
        nursery.cancel_scope.cancel()


class _Stdout(Outlet):
    """All of it is one stream of lines."""

    def answer(self, *parts: Part, error: int = 0) -> None:  # noqa: ARG002  (the client reads it)
        self.write(*parts)

    def forgo(self) -> None:
        """A client that cancels waits for nothing."""


async def _write(outlet: Outlet, everything: trio.CancelScope) -> None:
    try:
        await outlet.run()
    except trio.BrokenResourceError:
        everything.cancel()  # nobody reads any more


@contextmanager
def _claimed() -> Iterator[tuple[int, int]]:
    stdin, stdout = _private(0, os.O_RDONLY), _private(1, os.O_WRONLY)
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
            os.set_blocking(fd, True)  # whoever else has it does not expect otherwise
            os.close(fd)


def _private(fd: int, flags: int) -> int:
    # A terminal's three descriptors are one open file, and ours becomes non-blocking: stderr must not.
    if os.isatty(fd):
        return os.open(os.ttyname(fd), flags | os.O_NOCTTY | os.O_CLOEXEC)
    return os.dup(fd)


class _Reader:
    """Reads as long as the client also takes its answers."""

    def __init__(self, stdin: int, outlet: Outlet, lane: Lane, everything: trio.CancelScope) -> None:
        self._stdin = stdin
        self._outlet = outlet
        self._lane = lane
        self._everything = everything
        self._lines = _Lines()
        self._read_bytes = _READ_BYTES
        self._is_full = False
        """As the last request found it."""

    async def run(self) -> None:
        """Until the client says nothing more."""
        while data := await self._read():
            for line in self._lines.feed(data):
                await self._take(line)
        await self._take(self._lines.rest())

    async def _read(self) -> bytes:
        while True:
            try:
                await trio.lowlevel.wait_readable(self._stdin)
            except PermissionError:  # a file: there is always something to be read
                await trio.lowlevel.checkpoint()
            try:
                data = os.read(self._stdin, self._read_bytes)
            except BlockingIOError:  # somebody else has read it
                continue
            except OSError as error:
                _log.info("stdin is gone: %s", error)
                return b""
            self._read_bytes = _LONG_READ_BYTES if len(data) == self._read_bytes else _READ_BYTES
            return data

    async def _take(self, line: bytes | None) -> None:
        if line is None:
            text = f"the line is too long: the limit is {MAX_LINE_BYTES} bytes"
            self._outlet.write(client_writer.failure(b"", Code.INVALID_REQUEST, text))
        elif line and not line.isspace() and not await self._refuses(line):
            await self._lane.take(line)
        if self._outlet.waiting_bytes > MAX_UNREAD_BYTES:
            await self._wait_until_it_reads()

    async def _refuses(self, line: bytes) -> bool:
        """Whether it is one request too many. All else is taken: cancellations and answers make room."""
        if len(self._lane.requests) < MAX_OPEN_REQUESTS or not (raw_id := _request_id(line)):
            return False
        if not self._is_full:
            with trio.move_on_after(ROOM_S):
                await self._lane.requests.wait_at_most(MAX_OPEN_REQUESTS - 1)
        count = len(self._lane.requests)
        self._is_full = count >= MAX_OPEN_REQUESTS
        if self._is_full:
            text = f"{count} requests are open: wait for an answer, or cancel one, then ask again"
            self._outlet.write(client_writer.failure(raw_id, Code.RATE_LIMITED, text))
        return self._is_full

    async def _wait_until_it_reads(self) -> None:
        """Nothing is read meanwhile, and so the end of stdin not seen: it does not wait for ever."""
        while (unread := self._outlet.waiting_bytes) > MAX_UNREAD_BYTES:
            with trio.move_on_after(STALLED_S), suppress(trio.BrokenResourceError):
                await self._outlet.wait_room(MAX_UNREAD_BYTES)
            if self._outlet.waiting_bytes >= unread:
                _log.warning("the client takes no answers, and is given up")
                self._everything.cancel()
            await trio.lowlevel.checkpoint()


def _request_id(line: bytes) -> bytes:
    """JSON text; empty when it is no request, or one that is refused for that."""
    try:
        found = jsonrpc.decode(line)
    except jsonrpc.UndecodableError:
        return b""
    raw_id = bytes(found.id)
    return raw_id if found.is_request and jsonrpc.is_id(raw_id) else b""


class _Lines:
    """Lines out of whatever comes. In the place of one that is too long is None."""

    def __init__(self) -> None:
        self._begun: list[bytes] = []
        """Of a line whose end is not here yet."""
        self._begun_bytes = 0
        self._is_skipping = False

    def feed(self, data: bytes) -> list[bytes | None]:
        """The lines that have their end now, and None as soon as one is too long."""
        *ends, begun = data.split(b"\n")
        lines = [self._end(end) for end in ends]
        if begun and not self._is_skipping:
            self._begun.append(begun)
            self._begun_bytes += len(begun)
        if self._begun_bytes > MAX_LINE_BYTES:
            lines.append(self._end(b""))
            self._is_skipping = True
        return lines

    def rest(self) -> bytes | None:
        """What stood before the end without a newline."""
        return self._end(b"")

    def _end(self, end: bytes) -> bytes | None:
        begun, self._begun = self._begun, []
        size, self._begun_bytes = self._begun_bytes + len(end), 0
        was_skipping, self._is_skipping = self._is_skipping, False
        if was_skipping:
            return b""
        if size > MAX_LINE_BYTES:
            return None
        return b"".join([*begun, end]) if begun else end
