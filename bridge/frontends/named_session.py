"""Holder of a named session: `mcpb call --session NAME` asks it, so that tabs and state outlive a call.

It listens on a private Unix socket and speaks the messages of `native_host.ipc.named_sessions`. It ends when
it is asked to, after IDLE_S without a call, when its socket is removed, or for a holder of other code.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec
import trio

from bridge.frontends.command_calls import CommandCalls
from bridge.hub.client_session import Session
from bridge.hub.router import Router
from bridge.hub.transport import CallObserver
from native_host.ipc import endpoint, named_sessions
from native_host.ipc.endpoint import EndpointError
from native_host.ipc.named_sessions import (
    ContinuedSession,
    EndSession,
    Greeting,
    HubRequest,
    ProgressText,
    Rejection,
    RetireHolder,
    encode_line,
)
from native_host.protocol.wire import Progress
from native_host.system.exhaustion import describe_exhaustion, find_exhaustion
from native_host.system.program_name import format_command

IDLE_S = 30 * 60.0
"""Seconds without a call after which the session ends."""
_CHECK_INTERVAL_S = 15.0
"""Seconds between scans of the idle time and of the socket's file."""
_MAX_REQUEST_BYTES = 64 * 1024 * 1024
_MAX_QUEUED = 1000
"""Progress messages that wait for the client; further ones are dropped."""

_log = logging.getLogger(__name__)
_decode_request = msgspec.json.Decoder(named_sessions.Request).decode


@dataclass(frozen=True)
class SessionSocket:
    """Listening socket of a session, and its file."""

    listener: socket.socket
    path: Path
    file: tuple[int, int]
    """Device and inode of the file: another holder may have one of the same name."""

    def is_published(self) -> bool:
        """Return whether clients that open the path reach this process."""
        return _file_id(self.path) == self.file


@contextmanager
def open_socket(name: str) -> Iterator[SessionSocket]:
    """Listen for the calls of a session, for the time of the block. The caller's starter excludes others.

    Raises:
        PrivateFileError: no directory can be used.
        EndpointError: the path is too long for a socket, or cannot be replaced.
    """
    path = named_sessions.prepare_directory() / f"{name}.sock"
    endpoint.check_length(path)
    try:
        path.unlink(missing_ok=True)  # of a holder that was killed
    except OSError as error:
        raise EndpointError(path, f"cannot be replaced: {error.strerror}") from error
    listener = endpoint.bind(path)
    opened = SessionSocket(listener, path, _file_id(path))
    try:
        yield opened
    finally:
        # First the name: a client that still connected gets the end of its connection, and tries again.
        if opened.is_published():
            path.unlink(missing_ok=True)
        listener.close()


def _file_id(path: Path) -> tuple[int, int]:
    """Return the device and inode of a file; zeros for a missing one."""
    try:
        found = path.lstat()
    except OSError:
        return 0, 0
    return found.st_dev, found.st_ino


class NamedSession:
    """Serves the calls of one named session."""

    def __init__(self, name: str, session: Session, router: Router, opened: SessionSocket) -> None:
        self._name = name
        self._session = session
        self._calls = CommandCalls(router, session)
        self._socket = opened
        self._running = 0
        """Requests that have begun. A client repeats one that has not."""
        self.is_continued = False
        """True if another holder continues the session: its tabs are not to be released."""
        self._note_use()
        self._ended = trio.Event()

    async def serve(self) -> None:
        """Serve until the session ends. Calls that run then are cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._accept_clients)
            nursery.start_soon(self._watch_use)
            await self._ended.wait()
            nursery.cancel_scope.cancel()

    async def _watch_use(self) -> None:
        while self._socket.is_published():
            remaining_s = IDLE_S - self._idle_s()
            if remaining_s <= 0:
                break
            await trio.sleep(min(_CHECK_INTERVAL_S, remaining_s))
        self._ended.set()

    def _idle_s(self) -> float:
        return 0 if self._running else trio.current_time() - self._used_at

    async def _accept_clients(self) -> None:
        async with trio.open_nursery() as nursery:
            listener = trio.SocketListener(trio.socket.from_stdlib_socket(self._socket.listener.dup()))
            await trio.serve_listeners(self._serve_client, [listener], handler_nursery=nursery)

    async def _serve_client(self, stream: trio.SocketStream) -> None:
        try:
            endpoint.check_peer(stream)
            await stream.send_all(encode_line(self._greeting()))
            if line := await _read_line(stream):
                await self._serve_request(stream, _decode_request(line))
        except EndpointError as error:
            _log.warning("rejected a connection: %s", error)
        except (msgspec.DecodeError, _RequestTooLongError) as error:
            await self._reject(stream, error)
        except trio.BrokenResourceError:
            pass  # the client has gone
        finally:
            await trio.aclose_forcefully(stream)

    async def _reject(self, stream: trio.SocketStream, error: Exception) -> None:
        _log.warning("rejected a request: %s", error)
        with suppress(trio.BrokenResourceError):  # the client has gone
            text = f"session {self._name} cannot read the request: {error}. Nothing was run"
            await stream.send_all(encode_line(Rejection(message=text)))

    def _greeting(self) -> Greeting:
        used_at = None if self._running else self._used_at_unix
        return Greeting(
            name=self._name,
            pid=os.getpid(),
            directory=self._session.folder,
            used_at=used_at,
            ends_at=None if used_at is None else used_at + IDLE_S,
            code=named_sessions.CODE,
            installation=named_sessions.INSTALLATION,
            answers=True,
        )

    def _continued_session(self) -> ContinuedSession:
        session = self._session
        return ContinuedSession(id=session.id, profiles=sorted(session.profiles), directory=session.folder)

    async def _serve_request(self, stream: trio.SocketStream, request: named_sessions.Request) -> None:
        if self.is_continued:
            return  # the client repeats its request, and the next holder has it
        if isinstance(request, RetireHolder):
            if self._running:
                await stream.send_all(encode_line(Rejection(message="the session is in use")))
                return
            await self._hand_over(stream)
        if isinstance(request, EndSession | RetireHolder):
            os.dup(stream.socket.fileno())  # never closed: so the client sees the end of this process
            self._ended.set()
            return
        with ExitStack() as until_reply:
            until_reply.enter_context(self._in_use())
            # From here on the client does not repeat the request.
            await stream.send_all(encode_line(ProgressText()))
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_cancel_at_end, stream, nursery.cancel_scope)
                await self._answer(stream, request, until_reply)
                nursery.cancel_scope.cancel()

    async def _hand_over(self, stream: trio.SocketStream) -> None:
        # Set first: a request that comes while the reply is sent must not begin.
        self.is_continued = True
        try:
            await stream.send_all(encode_line(self._continued_session()))
        except trio.BrokenResourceError:
            self.is_continued = False
            raise

    async def _answer(self, stream: trio.SocketStream, request: HubRequest, until_reply: ExitStack) -> None:
        messages, queued = trio.open_memory_channel[bytes](_MAX_QUEUED)

        def on_progress(progress: Progress) -> None:
            with suppress(trio.WouldBlock):
                messages.send_nowait(encode_line(ProgressText(message=progress.message)))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(_write_messages, stream, queued)
            async with messages:
                # A client that has the reply sees the session as idle.
                with until_reply:
                    async with trio.open_nursery() as pulse:
                        pulse.start_soon(_send_pulse, messages)
                        reply = await self._reply_to(request, CallObserver(on_progress))
                        pulse.cancel_scope.cancel()
                await messages.send(reply)

    @contextmanager
    def _in_use(self) -> Iterator[None]:
        self._running += 1
        try:
            yield
        finally:
            self._running -= 1
            self._note_use()

    def _note_use(self) -> None:
        self._used_at = trio.current_time()
        self._used_at_unix = time.time()

    async def _reply_to(self, request: HubRequest, observer: CallObserver) -> bytes:
        try:
            return encode_line(await self._calls.answer(request, observer))
        except Exception as error:  # noqa: BLE001  (a failed request is not the end of the session)
            _log.exception("a request to session %s failed", self._name)
            exhausted = find_exhaustion(error)
            command = format_command("doctor")
            failure = f"mcpb failed ({type(error).__name__}). Its log has more: run {command}"
            text = describe_exhaustion(exhausted) if exhausted else failure
            return encode_line(Rejection(message=text))


async def _send_pulse(messages: trio.MemorySendChannel[bytes]) -> None:
    while True:
        await trio.sleep(named_sessions.PULSE_S)
        with suppress(trio.WouldBlock):
            messages.send_nowait(encode_line(ProgressText()))


async def _write_messages(stream: trio.SocketStream, queued: trio.MemoryReceiveChannel[bytes]) -> None:
    async for line in queued:
        with suppress(trio.BrokenResourceError):  # the client has gone, which cancels the call
            await stream.send_all(line)


async def _cancel_at_end(stream: trio.SocketStream, scope: trio.CancelScope) -> None:
    """Cancel once the client has gone: it sends nothing after its request."""
    with suppress(trio.BrokenResourceError):
        await stream.receive_some(1)
    scope.cancel()


class _RequestTooLongError(Exception):
    def __init__(self) -> None:
        super().__init__(f"it has more than {_MAX_REQUEST_BYTES // 1024**2} MiB")


async def _read_line(stream: trio.SocketStream) -> bytes:
    """Read the one request; empty if the client has gone without one.

    Raises:
        _RequestTooLongError: it is longer than _MAX_REQUEST_BYTES. All of it was read, so that the client can
            read the rejection.
    """
    received = bytearray()
    length = 0
    while data := await stream.receive_some(1024 * 1024):
        length += len(data)
        if length <= _MAX_REQUEST_BYTES:
            received += data
        if data.endswith(b"\n"):
            if length > _MAX_REQUEST_BYTES:
                raise _RequestTooLongError
            return bytes(received)
    return b""
