"""One TabTransport of several: native hosts, and WebSocket proxies.

It passes requests to the part that has discovered the host, and the events of all parts in their order.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Protocol

import msgspec

from bridge.errors import CallError
from bridge.hub.operation import FINISHED, OnFinished, Operation
from bridge.hub.transport import (
    NO_OBSERVER,
    CallObserver,
    DiscoveryFinished,
    Event,
    HostDiscovered,
    HostLost,
    Listener,
    TabAddress,
    TabTransport,
)
from bridge.links.browsers.link_problem import LinkProblem
from native_host.protocol import wire
from native_host.protocol.wire import Code, Wire


class BrowserLinks(TabTransport, Protocol):
    """A way to reach browsers. Its hosts have names that no other way uses."""

    @property
    def problems(self) -> Mapping[str, LinkProblem]:
        """Reasons why browsers are not connected, by host or place."""
        ...

    def set_sessions(self, sessions: list[wire.Session]) -> None:
        """Send every browser, now and when it comes, the sessions behind this bridge."""
        ...

    def set_rules(self, digest: str) -> None:
        """Send every browser, now and when it comes, which rules this bridge applies."""
        ...


class CompositeTransport(TabTransport):
    """All ways to reach browsers, as one. Their owner runs them."""

    def __init__(self, *parts: BrowserLinks) -> None:
        self._parts: list[BrowserLinks] = []
        self._scanning: list[BrowserLinks] = []
        """Parts whose first scan has not finished."""
        self._owners: dict[str, BrowserLinks] = {}
        """By discovered host."""
        self._listeners: list[Listener] = []
        self._announced = wire.BridgeSessions(sessions=[])
        for part in parts:
            self.add_part(part)

    def add_part(self, part: BrowserLinks) -> None:
        """Add a way that does not run yet."""
        self._parts.append(part)
        self._scanning.append(part)
        part.set_sessions(self._announced.sessions)
        part.set_rules(self._announced.rules)
        part.set_listener(partial(self._on_event, part))

    @property
    def problems(self) -> Mapping[str, LinkProblem]:
        """Return the problems of all parts."""
        return {place: problem for part in self._parts for place, problem in part.problems.items()}

    def set_sessions(self, sessions: list[wire.Session]) -> None:
        """See `BrowserLinks`."""
        self._announced = msgspec.structs.replace(self._announced, sessions=sessions)
        for part in self._parts:
            part.set_sessions(sessions)

    def set_rules(self, digest: str) -> None:
        """See `BrowserLinks`."""
        self._announced = msgspec.structs.replace(self._announced, rules=digest)
        for part in self._parts:
            part.set_rules(digest)

    def set_listener(self, listener: Listener) -> None:
        """See `TabTransport`."""
        self._listeners.append(listener)

    def scan_hosts(self) -> None:
        """See `TabTransport`."""
        for part in self._parts:
            part.scan_hosts()

    def send(
        self,
        tab: TabAddress,
        method: str,
        params: Wire,
        timeout_s: float,
        on_finished: OnFinished[bytes | CallError],
        observer: CallObserver = NO_OBSERVER,
    ) -> Operation:
        """See `TabTransport`."""
        owner = self._owners.get(tab.host)
        if owner is None:
            on_finished(CallError(Code.GONE, handed=False))
            return FINISHED
        return owner.send(tab, method, params, timeout_s, on_finished, observer)

    def disconnect(self, tab: TabAddress) -> None:
        """See `TabTransport`."""
        if owner := self._owners.get(tab.host):
            owner.disconnect(tab)

    def _on_event(self, part: BrowserLinks, event: Event) -> None:
        match event:
            case HostDiscovered():
                self._owners[event.host] = part
            case HostLost():
                self._owners.pop(event.host, None)
            case DiscoveryFinished():
                if part in self._scanning:
                    self._scanning.remove(part)
                if self._scanning:
                    return
        for listener in self._listeners:
            listener(event)
