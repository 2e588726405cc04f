"""Holder of a named session: `mcpb call --session NAME` asks it, so that tabs and state outlive a call.

It listens on a private Unix socket and speaks the messages of `native_host.ipc.named_sessions`. It ends when
it is asked to, after IDLE_S without a call, or when its socket is removed.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import msgspec
import trio

from bridge.frontends.command_calls import CommandCalls
from bridge.hub.client_session import Session
from bridge.hub.router import Router
from bridge.hub.transport import CallObserver
from native_host.ipc import endpoint, named_sessions
from native_host.ipc.endpoint import EndpointError
from native_host.ipc.named_sessions import (
    CallTool,
    EndSession,
    Greeting,
    ListTools,
    ProgressText,
    Rejection,
    encode_line,
)
from native_host.protocol.wire import Progress, Wire

IDLE_S = 30 * 60.0
"""Seconds without a call after which the session ends."""
_CHECK_INTERVAL_S = 15.0
"""Seconds between looks at the idle time and at the socket's file."""
_MAX_REQUEST_BYTES = 64 * 1024 * 1024
_MAX_QUEUED = 1000
"""Progress messages that wait for the client; further ones are dropped."""

_log = logging.getLogger(__name__)
_decode_request = msgspec.json.Decoder(named_sessions.Request).decode


@contextmanager
def open_socket(name: str) -> Iterator[socket.socket]:
    """Listen for the calls of a session, for the time of the block. The caller's starter excludes others.

    Raises:
        PrivateFileError: no directory can be used, or the path is too long for a socket.
    """
    path = named_sessions.prepare_directory() / f"{name}.sock"
    endpoint.check_length(path)
    path.unlink(missing_ok=True)  # of a holder that was killed
    listener = endpoint.bind(path)
    try:
        yield listener
    finally:
        # First the name: a client that still connected gets the end of its connection, and tries again.
        path.unlink(missing_ok=True)
        listener.close()


class NamedSession:
    """Serves the calls of one named session."""

    def __init__(self, name: str, session: Session, router: Router, listener: socket.socket) -> None:
        self._name = name
        self._folder = session.folder
        self._calls = CommandCalls(router, session)
        self._listener = listener
        self._running = 0
        self._used_at = trio.current_time()
        self._ended = trio.Event()

    async def serve(self) -> None:
        """Serve until the session ends. Calls that run then are cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._accept_clients)
            nursery.start_soon(self._watch_use)
            await self._ended.wait()
            nursery.cancel_scope.cancel()

    async def _watch_use(self) -> None:
        path = trio.Path(self._listener.getsockname())
        while await path.exists():
            remaining_s = IDLE_S - self._idle_s()
            if remaining_s <= 0:
                break
            await trio.sleep(min(_CHECK_INTERVAL_S, remaining_s))
        self._ended.set()

    def _idle_s(self) -> float:
        return 0 if self._running else trio.current_time() - self._used_at

    async def _accept_clients(self) -> None:
        async with trio.open_nursery() as nursery:
            listener = trio.SocketListener(trio.socket.from_stdlib_socket(self._listener.dup()))
            await trio.serve_listeners(self._serve_client, [listener], handler_nursery=nursery)

    async def _serve_client(self, stream: trio.SocketStream) -> None:
        try:
            endpoint.check_peer(stream)
            await stream.send_all(encode_line(self._greeting()))
            if line := await _read_line(stream):
                await self._serve_request(stream, _decode_request(line))
        except (EndpointError, msgspec.DecodeError) as error:
            _log.warning("rejected a connection: %s", error)
        except trio.BrokenResourceError:
            pass  # the client has gone
        finally:
            await trio.aclose_forcefully(stream)

    def _greeting(self) -> Greeting:
        return Greeting(
            name=self._name, pid=os.getpid(), folder=self._folder, idle_s=self._idle_s(), idle_limit_s=IDLE_S
        )

    async def _serve_request(self, stream: trio.SocketStream, request: named_sessions.Request) -> None:
        if isinstance(request, EndSession):
            os.dup(stream.socket.fileno())  # never closed: so the client sees the end of this process
            self._ended.set()
            return
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_cancel_at_end, stream, nursery.cancel_scope)
            await self._answer(stream, request)
            nursery.cancel_scope.cancel()

    async def _answer(self, stream: trio.SocketStream, request: ListTools | CallTool) -> None:
        messages, queued = trio.open_memory_channel[Wire](_MAX_QUEUED)

        def on_progress(progress: Progress) -> None:
            with suppress(trio.WouldBlock):
                messages.send_nowait(ProgressText(message=progress.message))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(_write_messages, stream, queued)
            async with messages:
                with self._in_use():  # until the reply is known: who has it finds the session idle
                    reply = await self._reply_to(request, CallObserver(on_progress))
                await messages.send(reply)

    @contextmanager
    def _in_use(self) -> Iterator[None]:
        self._running += 1
        try:
            yield
        finally:
            self._running -= 1
            self._used_at = trio.current_time()

    async def _reply_to(self, request: ListTools | CallTool, observer: CallObserver) -> Wire:
        if isinstance(request, ListTools):
            return await self._calls.list_tools()
        return await self._call(request, observer)

    async def _call(self, request: CallTool, observer: CallObserver) -> Wire:
        try:
            return await self._calls.call(request, observer)
        except Exception as error:  # noqa: BLE001  (a failed call is not the end of the session)
            _log.exception("a call of session %s failed", self._name)
            return Rejection(
                message=f"mcpb failed ({type(error).__name__}). Its log has more: run mcpb doctor"
            )


async def _write_messages(stream: trio.SocketStream, queued: trio.MemoryReceiveChannel[Wire]) -> None:
    async for message in queued:
        with suppress(trio.BrokenResourceError):  # the client has gone, which cancels the call
            await stream.send_all(encode_line(message))


async def _cancel_at_end(stream: trio.SocketStream, scope: trio.CancelScope) -> None:
    """Cancel once the client has gone: it sends nothing after its request."""
    with suppress(trio.BrokenResourceError):
        await stream.receive_some(1)
    scope.cancel()


async def _read_line(stream: trio.SocketStream) -> bytes:
    """Read the one request; empty if the client has gone without one."""
    received = bytearray()
    while b"\n" not in received and len(received) <= _MAX_REQUEST_BYTES:
        data = await stream.receive_some(1024 * 1024)
        if not data:
            return b""
        received += data
    return bytes(received)
