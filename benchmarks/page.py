"""A browser with a page whose tools are the loads, and resources: what its extension says and answers."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from benchmarks.loads import ALL, Load
from native_host import __version__
from native_host.protocol import jsonrpc, wire

FrameKey = tuple[int, int]
"""Tab and page frame."""
_ID = b"\0"
"""Stands for the id of the request that is answered."""


def announcements(
    tabs: int = 1,
    other_tools: int = 0,
    loads: Sequence[Load] = ALL,
    resources: Mapping[FrameKey, Sequence[dict[str, Any]]] = MappingProxyType({}),
) -> list[bytes]:
    """Hello, tabs, tools and resources, as bodies.

    Args:
        tabs: how many; the first has the loads' tools.
        other_tools: how many there are besides, evenly in all tabs.
        loads: those whose tools there are.
        resources: of each page frame; frame 0 is the page.
    """
    known = [_tab(number) for number in range(1, tabs + 1)]
    lists = [
        _tools(tab, loads if tab.tab_id == 1 else (), (other_tools + tabs - tab.tab_id) // tabs)
        for tab in known
    ]
    lists = [
        *(_with_resources(tools, resources.get((tools.tab_id, 0), ())) for tools in lists),
        *(_frame(known[at - 1], frame, entries) for (at, frame), entries in resources.items() if frame),
    ]
    return [
        jsonrpc.notification("browser/hello", _HELLO),
        jsonrpc.notification("browser/tabs", wire.Tabs(tabs=known)),
        jsonrpc.notification("browser/paused", wire.Paused()),
        *(jsonrpc.notification("browser/registerTools", tools) for tools in lists),
    ]


def request(load: Load) -> bytes:
    """Make a call as a bridge writes it, without its id."""
    params = wire.ExecuteTool(
        session="bench",
        tab_id=1,
        frame_id=0,
        document_id="d1",
        tool_name=load.tool,
        args=msgspec.Raw(load.arguments),
    )
    return jsonrpc.request(_ID, "browser/executeTool", msgspec.json.encode(params))


def answers(loads: Sequence[Load] = ALL) -> list[tuple[bytes, bytes]]:
    """Return pairs of request text and response, for the extension's side of the wire."""
    return [(b'"toolName":"%b"' % load.tool.encode(), jsonrpc.result(_ID, _executed(load))) for load in loads]


def mcp_answers() -> list[tuple[bytes, bytes]]:
    """Return the same pairs for MCP's side, as an ideal server."""
    return [(b'"name":"%b"' % load.tool.encode(), jsonrpc.result(_ID, load.result)) for load in ALL]


def write_rules(path: Path, opening: bytes, rules: list[tuple[bytes, bytes]]) -> Path:
    """Return the input of the answering program (see answerer.c)."""
    texts = [opening, *(text for rule in rules for text in rule)]
    path.write_bytes(b"".join(struct.pack("=I", len(text)) + text for text in texts))
    return path


_HELLO = wire.BrowserHello(
    wire=wire.WIRE_VERSION,
    extension=wire.ExtensionInfo(id=wire.EXTENSION_ID, version=__version__),
    browser=wire.BrowserInfo(brand="Bench", version="1", platform="linux"),
    profile=wire.Profile(id="bench"),
    capabilities=wire.Capabilities(commands=["browser/executeTool", "browser/mcp", "browser/watchResource"]),
)


def _tab(number: int) -> wire.Tab:
    origin = "https://shop.example" if number == 1 else f"https://site{number}.example"
    return wire.Tab(
        tab_id=number,
        window_id=1,
        url=f"{origin}/",
        origin=origin,
        title=f"Page {number}",
        status="complete",
        active=number == 1,
        ordinal=1,
    )


def _tools(tab: wire.Tab, loads: Sequence[Load], others: int) -> wire.FrameTools:
    definitions = [load.definition for load in loads]
    definitions += [{**ALL[0].definition, "name": f"other{number}"} for number in range(others)]
    return wire.FrameTools(
        tab_id=tab.tab_id,
        frame_id=0,
        document_id=f"d{tab.tab_id}",
        origin=tab.origin,
        url=tab.url,
        title=tab.title,
        tools=[msgspec.Raw(msgspec.json.encode(definition)) for definition in definitions],
        via={definition["name"]: "mcp-b" for definition in definitions},
    )


def _with_resources(tools: wire.FrameTools, entries: Sequence[dict[str, Any]]) -> wire.FrameTools:
    raw = [msgspec.Raw(msgspec.json.encode(entry)) for entry in entries]
    return msgspec.structs.replace(tools, resources=raw)


def _frame(tab: wire.Tab, frame: int, entries: Sequence[dict[str, Any]]) -> wire.FrameTools:
    """Announce a frame of another site in a tab."""
    announced = wire.FrameTools(
        tab_id=tab.tab_id,
        frame_id=frame,
        document_id=f"d{tab.tab_id}-{frame}",
        origin=f"https://frame{tab.tab_id}-{frame}.example",
        tools=[],
        delegated=True,
    )
    return _with_resources(announced, entries)


def _executed(load: Load) -> bytes:
    return msgspec.json.encode(wire.Executed(success=True, payload=msgspec.Raw(load.result)))
