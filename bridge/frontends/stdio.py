"""MCP over stdin and stdout: one line, one message. The process's only session.

stdout belongs to the protocol: it is moved to a descriptor of our own, and what anything else prints goes to
stderr. No threads (the package's own transport needs one hop of them for each line).
"""

from __future__ import annotations

import json
import logging
import os
from types import TracebackType
from typing import Self

import msgspec
import trio
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCNotification, JSONRPCRequest, JSONRPCResponse, jsonrpc_message_adapter
from mcp_types.jsonrpc import JSONRPCError, JSONRPCMessage
from pydantic import ValidationError

from bridge.server import McpServer
from native_host import envelope
from native_host.wire import Code

MAX_LINE_BYTES = 256 * 1024 * 1024
"""Far above what a call may carry, so that a call that is too large is refused by name."""
GOODBYE_S = 1.0
"""After the end of stdin, for answers to what was asked before it; then as long for stdout to take them."""
STALLED_S = 30.0
"""A client that sends what is no message, and takes no refusal for so long, is given up."""
_READ_BYTES = 1024 * 1024
_NO_MESSAGE = "not a message of MCP, or nested more than 200 deep"
"""The package reads no deeper, and does not say which it was."""

_log = logging.getLogger(__name__)


async def serve(server: McpServer) -> None:
    """Speak MCP on this process's stdin and stdout until either ends."""
    stdin, stdout = _claim()
    async with stdin, stdout:
        await serve_streams(server, stdin, stdout)


async def serve_streams(
    server: McpServer, stdin: trio.abc.ReceiveStream, stdout: trio.abc.SendStream
) -> None:
    """Speak MCP on a pair of byte streams until either ends."""
    open_requests = _OpenRequests()
    lines, to_write = trio.open_memory_channel[bytes](0)
    writer = _MessageWriter(lines, open_requests)
    async with trio.open_nursery() as nursery:
        reader = _MessageReader(stdin, writer, open_requests, nursery.cancel_scope)
        nursery.start_soon(_write_lines, to_write, stdout, nursery.cancel_scope)
        await server.package.run(reader, writer, server.initialization_options())


def _claim() -> tuple[trio.lowlevel.FdStream, trio.lowlevel.FdStream]:
    stdin = trio.lowlevel.FdStream(_private(0, os.O_RDONLY))
    stdout = trio.lowlevel.FdStream(_private(1, os.O_WRONLY))
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # stderr is closed
        os.dup2(nothing, 1)
    os.close(nothing)
    return stdin, stdout


def _private(fd: int, flags: int) -> int:
    # A terminal's three descriptors are one open file, and ours becomes non-blocking: stderr must not.
    if os.isatty(fd):
        return os.open(os.ttyname(fd), flags | os.O_NOCTTY | os.O_CLOEXEC)
    return os.dup(fd)


class _OpenRequests:
    """Which requests of the client are neither answered nor cancelled."""

    def __init__(self) -> None:
        self._ids: set[int | str] = set()
        self._none_left = trio.Event()

    def asked(self, message: JSONRPCMessage) -> None:
        match message:
            case JSONRPCRequest(method="subscriptions/listen"):
                pass  # it lasts as long as the client does
            case JSONRPCRequest():
                self._ids.add(message.id)
            case JSONRPCNotification(method="notifications/cancelled", params=dict() as params):
                if isinstance(cancelled := params.get("requestId"), int | str):
                    self._discard(cancelled)

    def answered(self, message: JSONRPCMessage) -> None:
        if isinstance(message, JSONRPCResponse | JSONRPCError) and message.id is not None:
            self._discard(message.id)

    async def wait_none_left(self) -> None:
        while self._ids:
            await self._none_left.wait()

    def _discard(self, request_id: int | str) -> None:
        self._ids.discard(request_id)
        if not self._ids:
            self._none_left.set()
            self._none_left = trio.Event()


class _MessageWriter:
    """The package's write stream. It never raises: without a client the process is ended elsewhere."""

    def __init__(self, lines: trio.MemorySendChannel[bytes], open_requests: _OpenRequests) -> None:
        self._lines = lines
        self._open_requests = open_requests

    async def send(self, item: SessionMessage, /) -> None:
        line = item.message.model_dump_json(by_alias=True, exclude_unset=True).encode()
        await self.send_line(line)
        self._open_requests.answered(item.message)

    async def send_line(self, line: bytes) -> None:
        try:
            await self._lines.send(line + b"\n")
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            _log.debug("a message was dropped: stdout is closed")

    async def aclose(self) -> None:
        self._lines.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class _MessageReader:
    """The package's read stream. What is no message is answered here and not passed on."""

    def __init__(
        self,
        stdin: trio.abc.ReceiveStream,
        writer: _MessageWriter,
        open_requests: _OpenRequests,
        everything: trio.CancelScope,
    ) -> None:
        self._stdin = stdin
        self._writer = writer
        self._open_requests = open_requests
        self._everything = everything
        self._buffer = bytearray()
        self._is_skipping = False
        """Inside a line that is too long."""

    async def receive(self) -> SessionMessage:
        """The next message.

        Raises:
            trio.EndOfChannel: stdin has ended, and what was asked before it is answered.
        """
        while (line := await self._next_line()) is not None:
            if not line.strip():
                continue
            message = _parse(line)
            if isinstance(message, bytes):
                await self._refuse(message)
                continue
            self._open_requests.asked(message)
            return SessionMessage(message)
        with trio.move_on_after(GOODBYE_S):
            await self._open_requests.wait_none_left()
        # Nobody may be reading stdout either: what does not get out now never will.
        self._everything.deadline = trio.current_time() + GOODBYE_S
        raise trio.EndOfChannel

    async def _refuse(self, refusal: bytes) -> None:
        """While it waits nothing is read, and so the end of stdin not seen: it does not wait for ever."""
        with trio.move_on_after(STALLED_S) as scope:
            await self._writer.send_line(refusal)
        if scope.cancelled_caught:
            _log.warning("the client takes no answers, and is given up")
            self._everything.cancel()

    async def _next_line(self) -> bytes | None:
        searched = 0
        while (end := self._buffer.find(b"\n", searched)) < 0:
            searched = len(self._buffer)
            if searched > MAX_LINE_BYTES:
                await self._refuse(_refusal(b"", Code.INVALID_REQUEST, "the line is too long"))
                self._is_skipping = True
            if self._is_skipping:
                self._buffer.clear()
                searched = 0
            data = await self._stdin.receive_some(_READ_BYTES)
            if not data:
                return self._last_line()
            self._buffer += data
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        if self._is_skipping:
            self._is_skipping = False
            return b""
        return line

    def _last_line(self) -> bytes | None:
        """What stood before the end without a newline, once."""
        line = bytes(self._buffer)
        self._buffer.clear()
        return line or None

    async def aclose(self) -> None:
        await self._stdin.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage:
        try:
            return await self.receive()
        except trio.EndOfChannel:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def _parse(line: bytes) -> JSONRPCMessage | bytes:
    """The message of a line, or the line that answers what is none."""
    try:
        # Before the package's own reading: that takes NaN, and leaves what it cannot read unanswered.
        found = envelope.decode(line)
    except envelope.UndecodableError as error:
        return _refusal(_id_of(line), error.code, str(error))
    raw_id = bytes(found.id)
    known_id = raw_id if envelope.is_id(raw_id) else b""
    try:
        message = jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValidationError:
        return _refusal(known_id, Code.INVALID_REQUEST, _NO_MESSAGE)
    if raw_id and isinstance(message, JSONRPCNotification):  # the package overlooks an id that is none
        return _refusal(known_id, Code.INVALID_REQUEST, "an id is a string or an integer")
    return message


def _id_of(line: bytes) -> bytes:
    """The id in a line that is not quite JSON, as JSON; empty when that cannot be told."""
    try:
        found = json.loads(line)  # takes NaN and halves of characters
    except (ValueError, RecursionError):
        return b""
    found_id = found.get("id") if isinstance(found, dict) else None
    return b"%d" % found_id if type(found_id) is int else b""


def _refusal(raw_id: bytes, code: Code, text: str) -> bytes:
    error = msgspec.json.encode({"code": int(code), "message": text})
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (raw_id or envelope.NULL_ID, error)


async def _write_lines(
    lines: trio.MemoryReceiveChannel[bytes], stdout: trio.abc.SendStream, everything: trio.CancelScope
) -> None:
    try:
        async with lines:
            async for line in lines:
                await stdout.send_all(line)
    except trio.BrokenResourceError:
        everything.cancel()  # nobody reads any more
