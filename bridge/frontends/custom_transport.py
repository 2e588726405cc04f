"""Custom transport: MCP on a transport object of another package (`mcpb bridge --transport`).

The object moves messages; sessions, limits and responses are those of `stdio.py`, whose lines pass through a
socket pair. docs/TRANSPORTS.md is the guide for authors. Rules: MCP concepts, "Custom Transports".
"""

from __future__ import annotations

import logging
import socket
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import Protocol

import trio

from bridge.frontends import stdio
from bridge.mcp_session.mcp_server import McpServer
from native_host.protocol import jsonrpc
from native_host.protocol.untrusted_text import single_line
from native_host.protocol.wire import Code

START_S = 30.0
SEND_S = 30.0
CLOSE_S = 5.0
"""Seconds that each method of a transport has to return."""
_METHODS = ("start", "send", "close")
_MAX_REASON_CHARS = 500
_REMEMBERED_ERRORS = 16
"""Latest errors, which are not reported a second time."""

_log = logging.getLogger(__name__)


class TransportError(Exception):
    """Failure of a custom transport, by the one of its types that says which part has failed."""


class TransportLoadError(TransportError):
    """MODULE:NAME is not a transport."""


class TransportConnectionError(TransportError):
    """The transport cannot connect or send, or one of its tasks has failed. The session ends."""


class TransportTimeoutError(TransportError):
    """A method of the transport did not return in time. The session ends."""


class TransportCleanupError(TransportError):
    """The transport did not release what it holds."""


class MessageParseError(TransportError):
    """A received message is not JSON. The client gets an error response; the session goes on."""


class MessageProtocolError(TransportError):
    """A received message is too long, or JSON and not JSON-RPC.

    The client gets an error response; the session goes on.
    """


class Transport(Protocol):
    """A transport of another package. A message is its JSON text in UTF-8.

    The bridge sets the three callbacks before it calls `start`. Only trio's thread may call them.
    """

    on_message: Callable[[bytes], Awaitable[None]]
    """Takes a message of the client. Raises MessageParseError or MessageProtocolError."""
    on_error: Callable[[Exception], None]
    """Takes an error after which the transport goes on. Errors that its methods raise need no report."""
    on_close: Callable[[], None]
    """Ends the session, because the client has gone."""
    is_local: bool = False
    """True if all its clients are programs of our user on this machine; read before `start`."""

    async def start(self) -> None:
        """Connect, start a task that receives messages, and return."""
        ...

    async def send(self, message: bytes) -> None:
        """Send one message. The next one follows when this one has returned."""
        ...

    async def close(self) -> None:
        """Release everything. It is called once, also after a failed `start`."""
        ...


MakeTransport = Callable[[trio.Nursery], Transport]
"""Makes a transport that starts its tasks in this nursery. They end with the session."""


def load_transport(spec: str) -> MakeTransport:
    """Import what `MODULE:NAME` names.

    Raises:
        TransportLoadError: nothing of that name makes a transport; tell the user.
    """
    module, colon, name = spec.partition(":")
    if not (module and colon and name):
        raise TransportLoadError(f"{spec!r} names no transport: write it as MODULE:NAME")
    try:
        found = getattr(import_module(module), name, None)
    except Exception as error:
        raise TransportLoadError(f"{module} cannot be imported: {_describe(error)}") from error
    if not callable(found):
        raise TransportLoadError(f"{module} has no class or function {name} that makes a transport")
    make: MakeTransport = found
    return make


async def serve_transport(spec: str, make: MakeTransport, server: McpServer) -> None:
    """Speak MCP on a transport until it or the session ends. The log gets each of its errors once.

    Args:
        spec: `MODULE:NAME` of the transport, under which approvals of its client are stored.
        make: makes it.
        server: serves the session.

    Raises:
        TransportError: the transport has failed; the log has it already.
        ExceptionGroup: it has failed in several ways, each of them a TransportError in the log.
    """
    session_end, our_end = socket.socketpair()
    carrier = _Carrier(trio.SocketStream(trio.socket.from_stdlib_socket(our_end)))
    errors: list[Exception] = []
    try:
        async with trio.open_nursery() as tasks:
            transport = carrier.attach(make, tasks)
            # The session was made for the program that has started this process, which is not the client.
            server.session.folder = ""
            server.session.is_local = getattr(transport, "is_local", False) is True
            server.session.principal = spec  # its client could give any name
            try:
                await carrier.run(transport, server, session_end)
            except Exception as error:  # noqa: BLE001  (as below, so that an error of `close` does not replace it)
                errors.append(error)
            finally:
                with trio.CancelScope(shield=True):
                    await carrier.call("close", transport.close, CLOSE_S, TransportCleanupError)
            tasks.cancel_scope.cancel()
    except Exception as error:  # noqa: BLE001  (a transport may raise anything)
        errors.append(error)
    finally:
        session_end.close()
        await trio.aclose_forcefully(carrier.stream)
    leaves = [leaf for error in errors for leaf in _leaves(error)]
    failures = [_as_transport_error(leaf, "a task", TransportConnectionError) for leaf in leaves]
    for failure in failures:
        carrier.report(failure)
    if len(failures) > 1:
        raise ExceptionGroup("the transport failed in several ways", failures)
    if failures:
        raise failures[0]


class _Carrier:
    """Carries messages between a transport and a session, which is at the other end of a stream of lines."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self._sending = trio.CancelScope()
        self._receiving = trio.StrictFIFOLock()
        self._reported: deque[BaseException] = deque(maxlen=_REMEMBERED_ERRORS)

    def attach(self, make: MakeTransport, tasks: trio.Nursery) -> Transport:
        """Make the transport and set its callbacks.

        Raises:
            TransportLoadError: what was made is not a transport.
        """
        try:
            transport = make(tasks)
            missing = [name for name in _METHODS if not callable(getattr(transport, name, None))]
            transport.on_message, transport.on_error = self._on_message, self.report
            transport.on_close = self._on_close
        except Exception as error:
            raise TransportLoadError(f"the transport cannot be made: {_describe(error)}") from error
        if missing:
            raise TransportLoadError(f"{type(transport).__name__} has no method {missing[0]}")
        return transport

    async def run(self, transport: Transport, server: McpServer, session_end: socket.socket) -> None:
        """Start the transport, and carry messages until either end closes.

        Raises:
            ExceptionGroup: the transport has failed.
        """
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_run_session, server, session_end)
            await self.call("start", transport.start, START_S, TransportConnectionError)
            with suppress(trio.BrokenResourceError):  # the session has ended without reading all
                with self._sending:
                    await self._send_lines(transport)
                async for _ in self.stream:  # the client has gone: its responses go nowhere
                    pass

    async def _send_lines(self, transport: Transport) -> None:
        parts: list[bytes] = []
        async for data in self.stream:
            first, *others = bytes(data).split(b"\n")
            parts.append(first)
            for other in others:
                send = partial(transport.send, b"".join(parts))
                await self.call("send", send, SEND_S, TransportConnectionError)
                parts = [other]

    async def call(
        self,
        name: str,
        method: Callable[[], Awaitable[None]],
        timeout_s: float,
        failure: type[TransportError],
    ) -> None:
        """Call a method of the transport, and report its error.

        Raises:
            TransportError: it failed (`failure`), or did not return in time (TransportTimeoutError).
        """
        found: TransportError
        try:
            with trio.move_on_after(timeout_s) as scope:
                await method()
            if not scope.cancelled_caught:
                return
            found = TransportTimeoutError(f"{name} did not return within {timeout_s:g} s")
        except Exception as error:  # noqa: BLE001  (a transport may raise anything)
            found = _as_transport_error(error, name, failure)
        self.report(found)
        raise found

    # ── Callbacks of the transport ──────────────────────────────────────────────────────────────────────────

    async def _on_message(self, message: object) -> None:
        if not isinstance(message, bytes):  # a transport without type checks
            text = f"a message is bytes, not {type(message).__name__}"
            raise self._reported_error(MessageProtocolError(text))
        if not message or message.isspace():
            return  # as a blank line of stdio
        # In JSON, a line end is white space, and never part of a string.
        line = message.replace(b"\n", b" ") + b"\n"
        async with self._receiving:
            # A part of a line would spoil the next one. The end of the session ends this too.
            with trio.CancelScope(shield=True), suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                await self.stream.send_all(line)
        if len(message) > stdio.MAX_LINE_BYTES:
            text = f"the message is too long: the limit is {stdio.MAX_LINE_BYTES} bytes"
            raise self._reported_error(MessageProtocolError(text))
        try:
            jsonrpc.decode(message)
        except jsonrpc.UndecodableError as error:
            kind = MessageParseError if error.code is Code.PARSE_ERROR else MessageProtocolError
            raise self._reported_error(kind(str(error))) from error

    def _on_close(self) -> None:
        self._sending.cancel()
        with suppress(OSError):  # the session has ended before
            self.stream.socket.shutdown(socket.SHUT_WR)

    def _reported_error(self, error: TransportError) -> TransportError:
        self.report(error)
        return error

    def report(self, error: Exception) -> None:
        """Write an error to the log, unless it or its cause is there."""
        if not any(each in (error, error.__cause__) for each in self._reported):
            details = error if _log.isEnabledFor(logging.DEBUG) else None
            _log.error("%s: %s", type(error).__name__, _describe(error), exc_info=details)
        self._reported.append(error)


async def _run_session(server: McpServer, session_end: socket.socket) -> None:
    with session_end:
        await stdio.serve_descriptors(server, session_end.fileno(), session_end.fileno())


def _leaves(error: Exception) -> Iterator[Exception]:
    if isinstance(error, ExceptionGroup):
        for each in error.exceptions:
            yield from _leaves(each)
    else:
        yield error


def _as_transport_error(error: Exception, name: str, kind: type[TransportError]) -> TransportError:
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:  # of a method's own nursery
        error = error.exceptions[0]
    if isinstance(error, TransportError):
        return error
    failure = kind(f"{name} failed: {_describe(error)}")
    failure.__cause__ = error
    return failure


def _describe(error: BaseException) -> str:
    return single_line(str(error), _MAX_REASON_CHARS) or type(error).__name__
