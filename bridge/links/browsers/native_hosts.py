"""Discovery of the user's native hosts, and a connection to each of them.

Every bridge scans up to four times a second. A directory is read again only when it has changed.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Container, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import msgspec
import trio

from bridge.errors import CallError
from bridge.hub.operation import FINISHED, OnFinished, Operation
from bridge.hub.transport import (
    NO_OBSERVER,
    CallObserver,
    DiscoveryFinished,
    Event,
    HostAnnouncement,
    HostDiscovered,
    HostLinked,
    HostLost,
    Listener,
    TabAddress,
    TabTransport,
)
from bridge.links.browsers.host_connection import HostConnection, LinkError
from bridge.links.browsers.host_streams import UnixHostStream
from bridge.links.browsers.link_problem import LinkProblem
from native_host.ipc import endpoint
from native_host.ipc.endpoint import Record
from native_host.protocol import wire
from native_host.protocol.framing import FrameError
from native_host.protocol.wire import Code, Wire
from native_host.system.private_files import PrivateFileError

LOOK_EVERY_S = 0.25
LINKED_LOOK_EVERY_S = 0.75
"""While there is a link: another host is linked within a second all the same, and a bridge that only waits
costs a third. When a link ends, its successor is looked for sooner."""
RETRY_S = 1.0
"""Before a host that broke off, and still lives, is linked again."""

_log = logging.getLogger(__name__)


class Holders(Protocol):
    """Starts holders of the existing channel's sockets: `HolderProcesses`."""

    def scan_sockets(self, held: Container[str], now: float, *, at_once: bool = False) -> set[str]:
        """Start the holders that are missing; the sockets whose holders are on their way."""
        ...

    def find_problems(self, held: Container[str], now: float) -> Mapping[str, str]:
        """Return the reason why a socket has no holder, by socket."""
        ...

    def let_go(self) -> None:
        """They are not needed here any more."""
        ...


class NativeLinks(TabTransport):
    """A `TabTransport` over native messaging hosts, one link each."""

    def __init__(self, directories: Sequence[Path], holders: Holders | None = None) -> None:
        """Without `holders`, hosts of the existing channel are ignored."""
        self.problems: dict[str, LinkProblem] = {}
        """By host instance or directory: what `mcpb status` shows."""
        self._directories = [HostDirectory(directory) for directory in directories]
        self._holders = holders
        self._coming: set[str] = set()
        """Sockets whose holders are on their way: each stands for a host until that is found."""
        self._connections: dict[str, HostConnection] = {}
        self._sessions = wire.BridgeSessions(sessions=[])
        self._listeners: list[Listener] = []
        self._busy: set[str] = set()
        self._pause = trio.CancelScope()
        self._nursery: trio.Nursery | None = None

    async def run(self) -> None:
        """Link hosts as they come and go. Runs until cancelled."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            try:
                self.scan_hosts()
                self._emit_event(DiscoveryFinished())
                while True:
                    await self._until_next_look()
                    self._scan_directories(at_once=False)
            finally:
                self._nursery = None
                if self._holders:
                    self._holders.let_go()

    def set_listener(self, listener: Listener) -> None:
        """See `TabTransport.set_listener`."""
        self._listeners.append(listener)

    def set_sessions(self, sessions: list[wire.Session]) -> None:
        """Tell every host, now and when it comes, which sessions are behind this bridge."""
        self._sessions = msgspec.structs.replace(self._sessions, sessions=sessions)
        self._send_sessions()

    def set_rules(self, digest: str) -> None:
        """Send every host, now and when it comes, which rules this bridge applies."""
        self._sessions = msgspec.structs.replace(self._sessions, rules=digest)
        self._send_sessions()

    def _send_sessions(self) -> None:
        for connection in self._connections.values():
            connection.send_notification("bridge/sessions", self._sessions)

    def send(
        self,
        tab: TabAddress,
        method: str,
        params: Wire,
        timeout_s: float,
        on_finished: OnFinished[bytes | CallError],
        observer: CallObserver = NO_OBSERVER,
    ) -> Operation:
        """See `TabTransport.send`."""
        connection = self._connections.get(tab.host)
        if connection is None:
            on_finished(CallError(Code.GONE, handed=False))
            return FINISHED
        return connection.send(method, params, timeout_s, on_finished, observer)

    def disconnect(self, tab: TabAddress) -> None:
        """See `TabTransport.disconnect`."""
        if tab.host in self._connections and tab.tab_id is not None:
            self._emit_event(
                HostAnnouncement(tab.host, "browser/tabRemoved", wire.TabRemoved(tab_id=tab.tab_id))
            )

    def scan_hosts(self) -> None:
        """See `TabTransport.scan_hosts`."""
        self._scan_directories(at_once=True)

    def _scan_directories(self, *, at_once: bool) -> None:
        if self._nursery is None:
            return
        live: set[str] = set()
        held: set[str] = set()
        for directory in self._directories:
            for record in self._wanted_hosts(directory):
                live.add(record.instance)
                held.add(record.channel)
                if record.instance not in self._busy and self._may_try(record.instance):
                    self._busy.add(record.instance)
                    self._emit_event(HostDiscovered(record.instance, record.started_at))
                    self._nursery.start_soon(self._serve_host, directory.path, record.instance)
        for instance in self.problems.keys() - live - {str(place.path) for place in self._directories}:
            del self.problems[instance]
        if self._holders:
            self._look_for_channels(self._holders, held, at_once=at_once)

    def _wanted_hosts(self, directory: HostDirectory) -> Iterator[Record]:
        yield from (record for record in self._live_hosts(directory) if self._holders or not record.channel)

    def _look_for_channels(self, holders: Holders, held: Container[str], *, at_once: bool) -> None:
        now = trio.current_time()
        coming = holders.scan_sockets(held, now, at_once=at_once)
        for socket in coming - self._coming:
            self._emit_event(HostDiscovered(socket, time.time()))
        for socket in self._coming - coming:
            self._emit_event(HostLost(socket))
        self._coming = coming
        self.problems |= {
            socket: LinkProblem(text, 0) for socket, text in holders.find_problems(held, now).items()
        }

    async def _until_next_look(self) -> None:
        pause_s = LINKED_LOOK_EVERY_S if self._connections else LOOK_EVERY_S
        with trio.CancelScope(deadline=trio.current_time() + pause_s) as self._pause:
            await trio.sleep_forever()

    def _live_hosts(self, directory: HostDirectory) -> list[Record]:
        try:
            found = directory.live_hosts(self._busy)
        except (PrivateFileError, OSError) as error:
            if str(directory.path) not in self.problems:
                _log.warning("%s", error)
            text = error.problem if isinstance(error, PrivateFileError) else str(error)
            self.problems[str(directory.path)] = LinkProblem(text, 0)
            return []
        self.problems.pop(str(directory.path), None)
        return found

    def _may_try(self, instance: str) -> bool:
        problem = self.problems.get(instance)
        return problem is None or trio.current_time() >= problem.retry_at

    async def _serve_host(self, directory: Path, instance: str) -> None:
        text: str = "the host closed the connection"
        is_final = False
        try:
            await self._connect_host(directory, instance)
        except LinkError as error:
            text, is_final = error.problem, error.is_final
        except (FrameError, PrivateFileError, OSError, trio.BrokenResourceError) as error:
            text = str(error) or "the connection broke"
        finally:
            connection = self._connections.pop(instance, None)
            self._busy.discard(instance)
            self._pause.deadline = min(self._pause.deadline, trio.current_time() + LOOK_EVERY_S)
            self._emit_event(HostLost(instance))
            if connection:  # who asks again now finds it gone
                connection.close()
        retry_at = math.inf if is_final else trio.current_time() + RETRY_S
        self.problems[instance] = LinkProblem(text, retry_at)
        _log.info("host %s: %s", instance, text)

    async def _connect_host(self, directory: Path, instance: str) -> None:
        stream = await endpoint.connect(directory, instance)

        def on_notification(method: str, message: Wire) -> None:
            match message:
                case wire.HostHello():
                    self.problems.pop(instance, None)
                    _log.debug("host %s is linked (pid %d)", instance, message.pid)
                    self._emit_event(HostLinked(instance, message))
                case _:
                    self._emit_event(HostAnnouncement(instance, method, message))

        connection = HostConnection(UnixHostStream(stream), on_notification)
        self._connections[instance] = connection
        await connection.run(self._sessions)

    def _emit_event(self, event: Event) -> None:
        for listener in self._listeners:
            listener(event)


SETTLED_S = 1.0
"""After a change that is younger there may have been another: file systems tell time in steps."""


class HostDirectory:
    """Directory in which hosts publish their sockets."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._found: list[Record] = []
        self._changed_ns: int | None = None
        """Time of the directory's last change before it was read; None: read it again."""

    def live_hosts(self, linked: Container[str]) -> list[Record]:
        """Return the live hosts; those in `linked` are not checked again.

        Raises:
            PrivateFileError: the directory exists and is not private.
            OSError: it cannot be read.
        """
        changed_ns = _changed_ns(self.path)
        is_known = changed_ns is not None and changed_ns == self._changed_ns
        if not is_known or any(record.instance not in linked for record in self._found):
            self._changed_ns = None
            self._found = endpoint.live_hosts(self.path)
            self._changed_ns = changed_ns
        return self._found


def _changed_ns(directory: Path) -> int | None:
    """Return the time when an entry, the owner or the mode changed; None: it is unreliable."""
    try:
        changed_ns = directory.lstat().st_ctime_ns
    except OSError:
        return None
    return changed_ns if time.time_ns() - changed_ns >= SETTLED_S * 1e9 else None
