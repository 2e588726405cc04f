"""Tools that a test defines: in the bridge and in a tool cache; and the tools that every client sees."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import trio

from bridge.browser_tools.tool_definitions import read_definitions
from bridge.errors import CallError
from bridge.hub.audit_records import CallRecord
from bridge.hub.client_session import ListForm, Session
from bridge.hub.meta_tools import TOOLS
from bridge.hub.page_tool import PageTool, read_tools
from bridge.hub.providers import NoProvider
from bridge.hub.router import Router
from bridge.hub.tool_result import Answer
from bridge.hub.tool_schema import Era
from bridge.hub.transport import CallObserver, DiscoveryFinished
from bridge.mcp_session.mcp_server import McpServer
from bridge.state.tool_cache import SqliteToolStore
from fake_transport import PlayedTransport
from mcp_client import McpLines, Speak, speaking_with
from native_host.protocol import wire

Run = Callable[[CallObserver], Awaitable[str]]


class OwnTools(NoProvider):
    """A `Provider` of tools by name, which answer what their function returns, or why it failed."""

    def __init__(self, **runs: Run) -> None:
        self._runs = runs
        self.names = tuple(runs)

    def definitions(self, _era: Era, _form: ListForm) -> list[dict[str, Any]]:
        return [{"name": name, "inputSchema": {"type": "object"}} for name in self._runs]

    async def run(self, recording: CallRecord, caller: CallObserver) -> Answer:
        try:
            text = await self._runs[recording.name](caller)
        except CallError as error:
            text = error.detail
        return Answer(msgspec.json.encode({"content": [{"type": "text", "text": text}]}), is_error=False)


@asynccontextmanager
async def client_of(tools: OwnTools) -> AsyncIterator[McpLines]:
    """A client by hand of a bridge that has them; nothing is said yet."""
    transport = PlayedTransport()
    router = Router(transport)
    router.set_provider(tools)
    transport.happen(DiscoveryFinished())

    async def serve(speak: Speak) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(router.run)
            await speak(McpServer(router, Session("ours"), lambda: None))
            nursery.cancel_scope.cancel()

    async with speaking_with(serve) as client:
        yield client


# ── The tools that every client is shown, whatever pages offer ──────────────────────────────────────────────


FIXED: list[str] = [
    *(tool["name"] for tool in TOOLS),
    *(tool.name for tool in read_definitions() if tool.is_in("all")),
]
"""Their names, in the order of the list."""


# ── Page tools written to a tool cache ──────────────────────────────────────────────────────────────────────


SHOP = "https://shop.example"


def tools(*names: str, cache: bool = True, description: str = "") -> list[PageTool]:
    annotations = {"cache": cache}
    definitions = [
        msgspec.Raw(
            msgspec.json.encode({"name": name, "description": description, "annotations": annotations})
        )
        for name in names
    ]
    return read_tools(wire.FrameTools(tab_id=1, frame_id=0, document_id="d1", origin=SHOP, tools=definitions))


def offer(
    store: SqliteToolStore,
    offered: list[PageTool],
    *,
    profile: str = "p1",
    tab_id: int = 1,
    origin: str = SHOP,
    path: str = "/",
) -> bool:
    return store.record_offer(profile, tab_id, origin, origin + path, offered)


def names(store: SqliteToolStore) -> list[str]:
    return [cached.tool.name for cached in store.tools()]
