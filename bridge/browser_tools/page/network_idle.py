"""Requests of a tab that are under way, from DevTools events while a call waits for none."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import msgspec

from bridge.browser_tools.page.devtools import CommandError, Devtools
from bridge.browser_tools.tool_output import ToolError
from bridge.errors import CallError
from native_host.protocol import wire

_EVENTS = ("Network.requestWillBeSent", "Network.loadingFinished", "Network.loadingFailed")
_ENDLESS = ("EventSource", "WebSocket")
"""Kinds of requests that last as long as the page wants."""


class _RequestEvent(msgspec.Struct, rename="camel"):
    request_id: str
    type: str = ""


class RequestsUnderWay:
    """The requests that began since this watches."""

    def __init__(self) -> None:
        self._ids: set[str] = set()

    def __len__(self) -> int:
        return len(self._ids)

    def on_event(self, event: wire.CdpEvent) -> None:
        """Count a request, or its end."""
        sent = msgspec.json.decode(event.params or b"{}", type=_RequestEvent)
        if event.method != "Network.requestWillBeSent":
            self._ids.discard(sent.request_id)
        elif sent.type not in _ENDLESS:
            self._ids.add(sent.request_id)


@asynccontextmanager
async def watch_requests(tab: Devtools) -> AsyncIterator[RequestsUnderWay]:
    """Watch the requests of a tab for the time of the block."""
    under_way = RequestsUnderWay()
    tab.add_listener(under_way.on_event, _EVENTS)
    try:
        with suppress(CommandError, CallError, ToolError):  # a busy page; its tree is watched as well
            await tab.wait_subscribed()
            await tab.run_command("Network.enable")
        yield under_way
    finally:
        tab.remove_listener(under_way.on_event)
        if "Network" not in tab.holds:  # else a capture needs the events
            tab.begin_command("Network.disable", {}, session="")
