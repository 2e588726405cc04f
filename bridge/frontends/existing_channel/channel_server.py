"""Server of the published socket: connections, the tabs of their sessions, and the device id."""

from __future__ import annotations

import logging
import shlex
import socket
import struct
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import trio

from bridge.errors import CallError
from bridge.frontends.existing_channel import channel_results
from bridge.frontends.existing_channel.channel_connection import Connection, Serving, TooManyError
from bridge.frontends.existing_channel.channel_sessions import ChannelSessions
from bridge.hub.client_session import Session
from bridge.hub.operation import FINISHED, Operation
from bridge.hub.registry import Browser, Registry
from bridge.hub.router import Router
from bridge.hub.transport import TabAddress, TabTransport
from native_host.existing_channel.channel_messages import FRAME_BYTES
from native_host.ipc import endpoint
from native_host.ipc.endpoint import EndpointError
from native_host.ipc.streams import FrameReader, MessageWriter
from native_host.protocol import wire
from native_host.protocol.framing import FrameError, split_frame
from native_host.protocol.untrusted_text import single_line
from native_host.system.home_layout import StateLayout
from native_host.system.private_files import PrivateFileError, open_regular
from native_host.system.proc import find_program_name

TRANSPORT = "channel"
MAX_CONNECTIONS = 64
UNREAD_BYTES = 64 * 1024 * 1024
"""While a client has left more of its answers unread, nothing more of it is read."""
LAST_WORDS_S = 0.5
"""Seconds for a client to read its last message."""
RELEASE_S = 1.0
"""At a session's end, for browsers to hear of it."""
MAX_PROGRAM = 60
_ENDING = "mcpb serve was ended. The tool may have run: look before you repeat it."
_CREDENTIALS = struct.Struct("3i")
"""`ucred`: pid, uid, gid."""

_log = logging.getLogger(__name__)


class ChannelServer:
    """Serves the published socket for one hub."""

    def __init__(
        self,
        router: Router,
        transport: TabTransport,
        tell_hosts: Callable[[list[wire.Session]], None],
        device_id: str,
    ) -> None:
        self._router = router
        self._tell_hosts = tell_hosts
        self._serving = Serving(router, partial(show_tab, router.registry, transport), device_id)
        self._connections: dict[Connection, MessageWriter] = {}

    def sessions(self) -> Iterator[Session]:
        """Yield the sessions of all connections that have called a tool."""
        return (session for connection in self._connections for session in connection.agents)

    async def serve(self, listener: socket.socket, until: trio.Event) -> None:
        """Serve connections until the event; then each client receives the reason of the end."""
        accepting = trio.SocketListener(trio.socket.from_stdlib_socket(listener))
        async with trio.open_nursery() as nursery:
            take = partial(trio.serve_listeners, self._accept_client, [accepting], handler_nursery=nursery)
            nursery.start_soon(take)
            await until.wait()
            await self._say_goodbye()
            nursery.cancel_scope.cancel()

    async def _say_goodbye(self) -> None:
        for connection in self._connections:
            connection.close(_ENDING)
        with trio.move_on_after(LAST_WORDS_S):
            for writer in list(self._connections.values()):
                with suppress(trio.BrokenResourceError):
                    await writer.wait_room()

    # ── One connection ──────────────────────────────────────────────────────────────────────────────────────

    async def _accept_client(self, stream: trio.SocketStream) -> None:
        async with stream:
            try:
                endpoint.check_peer(stream)
            except EndpointError as error:
                _log.warning("refused a connection: %s", error)
                return
            endpoint.tune(stream)
            try:
                await self._serve_client(stream)
            except Exception:  # noqa: BLE001  (one connection's fault is not the others')
                _log.exception("a connection ended")

    async def _serve_client(self, stream: trio.SocketStream) -> None:
        writer = MessageWriter(stream.socket.fileno())
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_write_bodies, writer, nursery.cancel_scope)
            if len(self._connections) >= MAX_CONNECTIONS:
                text = f"{MAX_CONNECTIONS} clients are connected: end one, then connect again."
                await _send_goodbye(stream, writer, text)
            else:
                await self._exchange_messages(stream, writer)
            nursery.cancel_scope.cancel()

    async def _exchange_messages(self, stream: trio.SocketStream, writer: MessageWriter) -> None:
        def send_message(body: bytes) -> None:
            writer.write(*split_frame((body,), "little"))

        async with trio.open_nursery() as releasing:

            def end_connection(session: Session) -> None:
                releasing.start_soon(self._release_session, session)

            agents = ChannelSessions(_program_name(stream), self._notify_hosts, end_connection)
            connection = Connection(self._serving, agents, send_message)
            self._connections[connection] = writer
            try:
                await _receive_messages(connection, stream, writer)
            finally:
                connection.close()
                del self._connections[connection]
                self._notify_hosts()
                with trio.move_on_after(RELEASE_S, shield=True):
                    for session in connection.agents:
                        await self._release_session(session)

    async def _release_session(self, session: Session) -> None:
        try:
            await self._router.release(session)
        except CallError as error:
            _log.info("a browser did not hear that a session is over: %s", error)

    def _notify_hosts(self) -> None:
        self._tell_hosts([session.on_wire() for session in self.sessions()])


async def _receive_messages(connection: Connection, stream: trio.SocketStream, writer: MessageWriter) -> None:
    """Until the client goes, or breaks the rules; that product's host cuts it off then without a word."""
    reader = FrameReader(stream.socket.fileno(), FRAME_BYTES, "little", takes_empty=False)
    try:
        while _handle_bodies(connection, await reader.receive()):
            await writer.wait_room(UNREAD_BYTES)
    except (FrameError, TooManyError) as error:
        connection.close()
        text = f"{error}. The connection is closed, and what was open is cancelled."
        await _send_goodbye(stream, writer, text)
    except trio.BrokenResourceError:
        _log.info("a client broke off")


def _handle_bodies(connection: Connection, bodies: list[bytes]) -> bool:
    """Return whether there were messages. The reader's variable would keep a long one alive."""
    for body in bodies:
        connection.handle_bodies(body)
    return bool(bodies)


async def _send_goodbye(stream: trio.SocketStream, writer: MessageWriter, text: str) -> None:
    """Say why, and let the client hear it: what it still sends is taken and thrown away."""
    writer.write(
        *split_frame((channel_results.make_message(None, channel_results.make_failure(text)),), "little")
    )
    with trio.move_on_after(LAST_WORDS_S), suppress(trio.BrokenResourceError):
        await writer.wait_room()
        await stream.send_eof()
        while await stream.receive_some():
            pass


async def _write_bodies(writer: MessageWriter, connection: trio.CancelScope) -> None:
    with suppress(trio.BrokenResourceError):
        await writer.run()
    connection.cancel()


def _program_name(stream: trio.SocketStream) -> str:
    """Return the connected program, such as `node, pid 4711`, as far as the system knows it."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return "a program"
    pid = _CREDENTIALS.unpack(stream.getsockopt(socket.SOL_SOCKET, option, _CREDENTIALS.size))[0]
    if name := find_program_name(pid):
        return f"{single_line(name, MAX_PROGRAM)}, pid {pid}"
    return f"pid {pid}"


SHOW_S = 5.0


def show_tab(
    registry: Registry, transport: TabTransport, session: Session, on_shown: Callable[[bool], None]
) -> Operation:
    """Activate the tab that a session used last; report whether it exists."""
    tabs = [
        (browser, tab)
        for browser in registry.browsers()
        if browser.is_live
        for tab in _own_tab(browser, session)
    ]
    if not tabs:
        on_shown(False)
        return FINISHED
    browser, tab = max(tabs, key=lambda found: found[1].last_accessed)
    try:
        registry.pauses.check(session, tab.origin)
    except CallError:  # Paused by the user: no tab of it is activated.
        on_shown(False)
        return FINISHED

    def on_done(answer: bytes | CallError) -> None:
        on_shown(not isinstance(answer, CallError))

    asked = wire.ActivateTab(session=session.id, tab_id=tab.tab_id, focus_window=True)
    return transport.send(TabAddress(browser.host, tab.tab_id), "activateTab", asked, SHOW_S, on_done)


def _own_tab(browser: Browser, session: Session) -> list[wire.Tab]:
    return [tab for tab in browser.tabs.values() if tab.owner == session.id]


_MAX_BYTES = 64


def device_id(state: Path) -> str:
    """Return the device id, which lives as long as the state directory. It contains no host name.

    Raises:
        PrivateFileError: it cannot be read or written.
    """
    path = StateLayout(state).device_id
    try:
        with suppress(FileExistsError), open(path, "xb", opener=open_regular) as file:
            file.write(str(uuid.uuid4()).encode())
        with open(path, "rb", opener=open_regular) as file:
            return str(uuid.UUID(file.read(_MAX_BYTES).decode().strip()))
    except (OSError, ValueError) as error:
        command = f"rm {shlex.quote(str(path))}"
        raise PrivateFileError(path, f"cannot be used: {error}", command) from error
