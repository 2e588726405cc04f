"""Hosts without wires, for tests of what stands on the hub's transport."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from announcements import browser_hello, host_hello
from bridge.errors import CallError
from bridge.hub.operation import FINISHED, OnFinished, Operation
from bridge.hub.transport import (
    NO_OBSERVER,
    Announced,
    CallObserver,
    Event,
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

    def look(self) -> None:
        self.on_look()

    def listen(self, listener: Listener) -> None:
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
        self.happen(*(Announced(host, type(message).__name__, message) for message in messages))
