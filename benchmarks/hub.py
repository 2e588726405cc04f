"""What the hub costs with few and with many tools: a call, a list, a change in one of many tabs.

Without processes and wires, so that the hub alone is measured: a transport answers at once.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator
from statistics import median

import msgspec
import trio

from benchmarks.subject import Bench
from benchmarks.table import Row, Table
from bridge.errors import CallError
from bridge.hub.argument_validation import Arguments
from bridge.hub.client_session import Session
from bridge.hub.operation import FINISHED, OnFinished, Operation
from bridge.hub.router import Router
from bridge.hub.tool_schema import Era
from bridge.hub.transport import (
    NO_OBSERVER,
    CallObserver,
    DiscoveryFinished,
    HostAnnouncement,
    HostDiscovered,
    HostLinked,
    Listener,
    TabAddress,
    TabTransport,
)
from native_host.protocol import wire

TOOLS_OF_A_TAB = 10
SIZES = (10, 1_000, 10_000)
_HOST = "h1"
_ANSWER = msgspec.json.encode({"success": True, "payload": {"content": [{"type": "text", "text": "done"}]}})


class InstantTransport(TabTransport):
    """Answers each request at once."""

    def __init__(self) -> None:
        self.tell: Listener = lambda _: None

    def set_listener(self, listener: Listener) -> None:
        """See `TabTransport`."""
        self.tell = listener

    def scan_hosts(self) -> None:
        """See `TabTransport`."""

    def send(
        self,
        tab: TabAddress,
        method: str,
        params: wire.Wire,
        timeout_s: float,
        on_done: OnFinished[bytes | CallError],
        caller: CallObserver = NO_OBSERVER,
    ) -> Operation:
        """See `TabTransport`."""
        del tab, method, params, timeout_s, caller
        on_done(_ANSWER)
        return FINISHED

    def disconnect(self, tab: TabAddress) -> None:
        """See `TabTransport`."""


def tables(bench: Bench) -> Iterator[Table]:
    """Each figure for a hub with few tools and with many."""
    rows = [row for size in SIZES for row in trio.run(_measure, size, bench)]
    yield Table("The hub alone", rows, "Without processes and wires: a transport answers at once.")


async def _measure(size: int, bench: Bench) -> list[Row]:
    transport = InstantTransport()
    router = Router(transport)
    _fill(transport, size // TOOLS_OF_A_TAB)
    session = Session("bench")
    first_list = await _timed(1, lambda: router.list_tools(session, Era.STATELESS))
    name = f"website_tool_site0_example_tab1_tool{TOOLS_OF_A_TAB - 1}"
    call = await _timed(bench.count(500), lambda: router.call(session, name, Arguments(b'{"text":"hello"}')))
    again = await _timed(bench.count(50), lambda: router.list_tools(session, Era.STATELESS))

    async def change() -> None:
        transport.tell(HostAnnouncement(_HOST, "browser/updateTools", _page(0, next(versions))))
        await router.list_tools(session, Era.STATELESS)

    versions = iter(range(1, 10_000))
    changed = await _timed(bench.count(100), change)
    what = f"{size:,} tools".replace(",", " ")
    return [
        Row("a call", what, call * 1e6, unit="µs"),
        Row("a change of one tab, and the list", what, changed * 1e6, unit="µs"),
        Row("the first list", what, first_list * 1e3),
        Row("the same list again", what, again * 1e6, unit="µs"),
    ]


async def _timed(count: int, act: Callable[[], Awaitable[object]]) -> float:
    """Return the median duration, in seconds."""
    took: list[float] = []
    for _ in range(count):
        began = time.perf_counter()
        await act()
        took.append(time.perf_counter() - began)
    return median(took)


def _fill(transport: InstantTransport, tabs: int) -> None:
    limits = wire.Limits(to_browser=1, from_browser=1, socket=1)
    host = wire.HostHello(
        wire=1, instance=_HOST, version="", pid=1, browser_pid=1, extension_origin="", limits=limits
    )
    browser = wire.BrowserHello(
        wire=1,
        extension=wire.ExtensionInfo(id="", version=""),
        browser=wire.BrowserInfo(brand="bench"),
        profile=wire.Profile(id="p1"),
    )
    known = [
        wire.Tab(tab_id=at, window_id=1, origin=_origin(at), title=f"Page {at}", ordinal=1)
        for at in range(tabs)
    ]
    transport.tell(DiscoveryFinished())
    transport.tell(HostDiscovered(_HOST, 1.0))
    transport.tell(HostLinked(_HOST, host))
    said: list[wire.Wire] = [browser, wire.Tabs(tabs=known), *(_page(at, 0) for at in range(tabs))]
    for message in [*said, wire.HostReplayed()]:
        transport.tell(HostAnnouncement(_HOST, "", message))


def _origin(tab: int) -> str:
    return f"https://site{tab}.example"


def _page(tab: int, version: int) -> wire.FrameTools:
    definitions = [
        {
            "name": f"tool{number}",
            "description": f"Does the thing number {number}, version {version}, as well as it can be done.",
            "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}},
        }
        for number in range(TOOLS_OF_A_TAB)
    ]
    return wire.FrameTools(
        tab_id=tab,
        frame_id=0,
        document_id=f"d{tab}",
        origin=_origin(tab),
        tools=[msgspec.Raw(msgspec.json.encode(definition)) for definition in definitions],
    )
