"""Event capture of a tab, from the first use until the session ends.

The necessary DevTools domains are enabled in each DevTools session of the tab: its own, those of frames with
a process of their own, and those of workers.
"""

from __future__ import annotations

from contextlib import suppress
from enum import Enum, auto
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from bridge.browser_tools.page.devtools import COMMAND_S, CommandError, Devtools
from bridge.browser_tools.tool_output import ToolError
from bridge.errors import CallError
from native_host.protocol import wire

BUSY_S = 2.0
_EVENTS = ("Target.attachedToTarget", "Target.detachedFromTarget", "mcpb.eventDropped")
"""The last is the extension's own: events were too long to be passed on, or too many at once."""


class Began(Enum):
    """Since when a tab is captured."""

    NOW = auto()
    AGAIN = auto()
    EARLIER = auto()


class Log(Protocol):
    """Store of captured events."""

    def on_event(self, event: wire.CdpEvent) -> None:
        """One of those that are wanted."""
        ...

    def clear(self) -> None:
        """Forget all."""
        ...


L = TypeVar("L", bound=Log)
Switches = tuple[tuple[str, dict[str, Any]], ...]
"""DevTools commands with their parameters; repeating them changes nothing."""


class Capture(Generic[L]):
    """Capture of one tab."""

    def __init__(self, tab: Devtools, log: L, events: tuple[str, ...], switches: Switches) -> None:
        self.log = log
        self.left_out = 0
        """Events of the tab, of whatever kind, that were not passed on."""
        self._tab = tab
        self._events = events
        self._switches = switches
        self._left_out_in_all = 0
        self._sessions: set[str] = set()
        self._lost_before: int | None = None
        """None: it has not begun."""

    async def continue_capture(self) -> Began:
        """Start or continue the capture; events that the browser had buffered are stored on return.

        Raises as `Devtools.run_command` does.
        """
        tab = self._tab
        if self._lost_before == tab.lost:
            with suppress(CallError, ToolError):  # A busy page, or a dialog: earlier events are stored.
                await self._switch_on("", BUSY_S)
            return Began.EARLIER
        began = Began.NOW if self._lost_before is None else Began.AGAIN
        if began is Began.NOW:
            tab.add_listener(self._on_event, (*self._events, *_EVENTS))
        await tab.wait_subscribed()
        lost = tab.lost
        await self._switch_on("", COMMAND_S)
        for session in list(self._sessions):
            try:
                await self._switch_on(session, BUSY_S)
            except (CallError, CommandError):  # it is gone, or busy, or a worker, which has no log
                self._sessions.discard(session)
        self._lost_before = lost
        tab.holds.add(type(self.log).__name__)
        return began

    def clear(self) -> None:
        """Forget what was captured."""
        self.log.clear()
        self.left_out = 0

    async def _switch_on(self, session: str, timeout_s: float) -> None:
        """Enable the domains of a DevTools session; buffered events are stored on return."""
        for method, params in self._switches:
            await self._tab.run_command(method, params, session=session, timeout_s=timeout_s)

    def _on_event(self, event: wire.CdpEvent) -> None:
        if event.method in self._events:
            self.log.on_event(event)
        match event.method:
            case "Target.attachedToTarget":
                self._handle_attachment(_decode_params(event)["sessionId"])
            case "Target.detachedFromTarget":
                self._sessions.discard(_decode_params(event)["sessionId"])
            case "mcpb.eventDropped":
                self._count_left_out(_decode_params(event)["dropped"])

    def _count_left_out(self, in_all: int) -> None:
        known = self._left_out_in_all if in_all >= self._left_out_in_all else 0  # it was attached anew
        self.left_out += in_all - known
        self._left_out_in_all = in_all

    def _handle_attachment(self, session: str) -> None:
        self._sessions.add(session)
        for method, params in self._switches:
            self._tab.begin_command(method, params, session=session)


def _decode_params(event: wire.CdpEvent) -> Any:
    return msgspec.json.decode(event.params or b"{}")
