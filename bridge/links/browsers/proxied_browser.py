"""Connection to one browser at a WebSocket proxy, for as long as no native host has that browser.

It passes nothing on before it knows the profile of the browser. When it is left, requests that are sent may
still be answered.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import Protocol

import msgspec
import trio

from bridge.hub.change_signal import ChangeSignal
from bridge.hub.transport import Event, HostAnnouncement, HostLinked, HostLost
from bridge.links.browsers.announcement_limit import AnnouncementLimit
from bridge.links.browsers.host_connection import HostConnection, LinkError
from bridge.links.browsers.native_profiles import NativeProfiles
from bridge.links.browsers.proxy_credentials import UsedProxy
from bridge.links.browsers.proxy_problem import ProxyCause, ProxyProblem
from bridge.links.browsers.proxy_sockets import open_socket
from native_host.protocol import wire
from native_host.protocol.framing import FrameError
from native_host.protocol.jsonrpc import Envelope
from native_host.protocol.wire import Wire

NATIVE_HELLO_S = 1.0
"""Seconds that a browser waits for native hosts that have not named their profiles."""

_log = logging.getLogger(__name__)


class HostTable(Protocol):
    """Hosts that requests reach."""

    changes: ChangeSignal

    def emit_event(self, event: Event) -> None:
        """Pass an event to all listeners."""
        ...

    def open_host(self, host: str, connection: HostConnection) -> None:
        """Let requests reach a connection, and send the sessions of this bridge there."""
        ...

    def close_host(self, host: str) -> None:
        """Let no more requests reach a host."""
        ...


class ProxiedBrowser:
    """One connection to a browser. `HostDiscovered` of its host precedes it; `leave` ends it."""

    def __init__(self, host: str, hosts: HostTable, native: NativeProfiles) -> None:
        self.profile = ""
        """Id of the browser's profile; empty: not known yet."""
        self.problem: ProxyProblem | None = None
        """Reason why it has ended, if it is one for the user."""
        self._host = host
        self._hosts = hosts
        self._native = native
        self._connection: HostConnection
        self._connection_id = ""
        self._held: list[Event] | None = []
        """Events that are not passed on yet; None: they are passed on at once."""
        self._limit = AnnouncementLimit()
        self._is_left = False
        self._has_ended = False

    async def open(self, proxy: UsedProxy, extension_id: str) -> None:
        """Connect to the extension.

        Raises:
            ProxyProblem: it cannot be reached.
        """
        socket = await open_socket(proxy)
        try:
            self._connection_id = await socket.connect_extension(extension_id)
        except BaseException:
            await socket.close()
            raise
        self._connection = HostConnection(socket, self._on_message, self._on_unknown)

    async def use(self, nursery: trio.Nursery) -> None:
        """Let the hub use it until it has ended, or a native host has the browser.

        The connection runs in `nursery` until its end.
        """
        nursery.start_soon(self._run)
        await self._wait_until(lambda: bool(self.profile))
        grace = trio.current_time() + NATIVE_HELLO_S
        await self._wait_until(lambda: self._native.are_known or self._native.has(self.profile), until=grace)
        if not (self._is_left or self._has_ended or self._native.has(self.profile)):
            self._admit()
        await self._wait_until(lambda: self._native.has(self.profile))

    def leave(self) -> None:
        """Let the hub use it no more. Requests that are sent may get their responses."""
        if self._is_left:
            return
        self._is_left = True
        self._hosts.emit_event(HostLost(self._host))
        self._hosts.close_host(self._host)
        if hasattr(self, "_connection"):
            self._connection.retire()

    async def _wait_until(self, is_so: Callable[[], bool], until: float = math.inf) -> None:
        await self._hosts.changes.wait_until(lambda: self._is_left or self._has_ended or is_so(), until=until)

    def _admit(self) -> None:
        held, self._held = self._held or [], None
        self._hosts.open_host(self._host, self._connection)
        for event in held:
            self._hosts.emit_event(event)

    async def _run(self) -> None:
        try:
            # A client that has sent no sessions counts as one.
            await self._connection.run(wire.BridgeSessions(sessions=[]))
        except LinkError as error:
            cause = ProxyCause.EXTENSION_OLD if error.is_final else ProxyCause.LOST
            self.problem = ProxyProblem(cause)
            _log.info("%s: %s", self._host, error.problem)
        except (FrameError, OSError, trio.BrokenResourceError) as error:
            _log.info("%s: %s", self._host, str(error) or "the connection broke")
        finally:
            self._has_ended = True
            self.leave()
            self._connection.close()
            self._hosts.changes.notify()

    def _on_message(self, method: str, message: Wire) -> None:
        self._limit.add(message, is_held=self._held is not None)
        if isinstance(message, wire.BrowserHello):
            self.profile = message.profile.id
            self._hosts.changes.notify()
        if isinstance(message, wire.HostClients):
            message = self._without_own_session(message)
        event = (
            HostLinked(self._host, message)
            if isinstance(message, wire.HostHello)
            else HostAnnouncement(self._host, method, message)
        )
        if self._held is not None:
            self._held.append(event)
        elif not self._is_left:
            self._hosts.emit_event(event)

    def _without_own_session(self, message: wire.HostClients) -> wire.HostClients:
        """Return the clients without the session that this connection is until its sessions have arrived."""
        clients = [
            msgspec.structs.replace(
                each, sessions=[own for own in each.sessions if own.id != each.connection]
            )
            if each.connection == self._connection_id
            else each
            for each in message.clients
        ]
        return msgspec.structs.replace(message, clients=clients)

    def _on_unknown(self, message: Envelope) -> None:
        if message.method == "disconnected":
            self.leave()
            self._connection.retire(is_browser_lost=True)
            self._hosts.changes.notify()
