"""Fake transport and native hosts without a wire, for tests of the hub."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from bridge.errors import CallError
from bridge.hub.operation import FINISHED, OnFinished, Operation
from bridge.hub.registry import Registry
from bridge.hub.transport import (
    NO_OBSERVER,
    CallObserver,
    Event,
    HostAnnouncement,
    HostDiscovered,
    HostLinked,
    Listener,
    TabAddress,
    TabTransport,
)
from native_host.protocol import wire
from native_host.protocol.wire import Wire

CART = {"content": [{"type": "text", "text": "tea"}]}
MARKED_CART = {"_meta": {"dev.mcpb/untrusted": True, "dev.mcpb/origin": "https://shop.example"}, **CART}
"""The same as clients receive it."""


Answer = dict[str, Any] | Exception | None
"""None: not yet. The test calls the asker's `on_done` when it likes."""


class Asked(NamedTuple):
    tab: TabAddress
    method: str
    params: Wire
    timeout_s: float
    caller: CallObserver
    on_done: OnFinished[bytes | CallError]


class Unanswered(NamedTuple):
    asked: Asked
    given_up: list[Asked]

    def cancel(self) -> None:
        self.given_up.append(self.asked)


class PlayedTransport(TabTransport):
    """The test says what happens, and finds what was asked."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.given_up: list[Asked] = []
        self.answer: Answer = {"success": True, "payload": CART}
        self.on_request: Callable[[Asked], Answer] = lambda _: self.answer
        self.on_look: Callable[[], None] = lambda: None
        self._listener: Listener = lambda _: None

    def scan_hosts(self) -> None:
        self.on_look()

    def set_listener(self, listener: Listener) -> None:
        self._listener = listener

    def send(
        self,
        tab: TabAddress,
        method: str,
        params: Wire,
        timeout_s: float,
        on_done: OnFinished[bytes | CallError],
        caller: CallObserver = NO_OBSERVER,
    ) -> Operation:
        asked = Asked(tab, method, params, timeout_s, caller, on_done)
        self.asked.append(asked)
        match self.on_request(asked):
            case None:
                return Unanswered(asked, self.given_up)
            case CallError() as error:
                on_done(error)
            case Exception() as error:
                raise error
            case answer:
                on_done(msgspec.json.encode(answer))
        return FINISHED

    def executed(self) -> list[tuple[int, str]]:
        """The calls that reached pages: tab and document of each."""
        calls = [asked.params for asked in self.asked if isinstance(asked.params, wire.ExecuteTool)]
        return [(call.tab_id, call.document_id) for call in calls]

    def disconnect(self, tab: TabAddress) -> None:
        raise NotImplementedError

    def happen(self, *events: Event) -> None:
        for event in events:
            self._listener(event)

    def connect(self, host: str, *announcements: Wire, started_at: float = 1.0) -> None:
        self.happen(HostDiscovered(host, started_at), HostLinked(host, host_hello(host)))
        self.announce(host, browser_hello(), *announcements, wire.HostReplayed())

    def announce(self, host: str, *messages: Wire) -> None:
        self.happen(*(HostAnnouncement(host, type(message).__name__, message) for message in messages))


# ── What hosts and extensions say, for tests of the hub ─────────────────────────────────────────────────────


LIMITS = wire.Limits(to_browser=1, from_browser=1, socket=1)


def host_hello(instance: str, browser_pid: int = 100) -> wire.HostHello:
    return wire.HostHello(
        wire=1,
        instance=instance,
        version="0.2.0",
        pid=1,
        browser_pid=browser_pid,
        extension_origin="",
        limits=LIMITS,
    )


def browser_hello(profile: str = "p1", label: str = "") -> wire.BrowserHello:
    return wire.BrowserHello(
        wire=1,
        extension=wire.ExtensionInfo(id=wire.EXTENSION_ID, version="0.2.0"),
        browser=wire.BrowserInfo(brand="Chromium", version="156"),
        profile=wire.Profile(id=profile, label=label),
        capabilities=wire.Capabilities(commands=["browser/mcp", "browser/watchResource"]),
    )


def tab(tab_id: int, origin: str = "https://shop.example", ordinal: int = 1, **fields: Any) -> wire.Tab:
    return wire.Tab(tab_id=tab_id, window_id=1, origin=origin, url=f"{origin}/", ordinal=ordinal, **fields)


def tools(
    tab_id: int, *names: str, origin: str = "https://shop.example", frame_id: int = 0, document_id: str = "d1"
) -> wire.FrameTools:
    definitions = [msgspec.Raw(msgspec.json.encode({"name": name})) for name in names]
    return wire.FrameTools(
        tab_id=tab_id, frame_id=frame_id, document_id=document_id, origin=origin, tools=definitions
    )


def connect(
    registry: Registry,
    host: str = "h1",
    *announcements: wire.Wire,
    profile: str = "p1",
    browser_pid: int = 100,
    started_at: float = 1.0,
    now: float = 0.0,
    proxy: str = "",
) -> None:
    """Link a host whose browser says all this, up to the end of the replay."""
    registry.on_event(HostDiscovered(host, started_at, proxy), now)
    registry.on_event(HostLinked(host, host_hello(host, browser_pid)), now)
    announce(registry, host, browser_hello(profile), *announcements, wire.HostReplayed(), now=now)


def announce(registry: Registry, host: str, *messages: wire.Wire, now: float = 0.0) -> None:
    for message in messages:
        registry.on_event(HostAnnouncement(host, type(message).__name__, message), now)


def one_page(*names: str, tab_id: int = 1, **fields: Any) -> Sequence[wire.Wire]:
    """A browser with one tab, whose page offers these tools."""
    return wire.Tabs(tabs=[tab(tab_id, **fields)]), tools(tab_id, *names)
