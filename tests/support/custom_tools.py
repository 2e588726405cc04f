"""Tools of the bridge itself that are what a test makes them, and a client to call them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import trio

from bridge.errors import CallError
from bridge.hub.audit_records import CallRecord
from bridge.hub.client_session import Session
from bridge.hub.providers import Resource
from bridge.hub.router import Router
from bridge.hub.tool_result import Answer
from bridge.hub.transport import CallObserver, DiscoveryFinished
from bridge.mcp_session.mcp_server import McpServer
from fake_transport import PlayedTransport
from mcp_client import McpLines, Speak, speaking_with

Run = Callable[[CallObserver], Awaitable[str]]


class OwnTools:
    """A `Provider` of tools by name, which answer what their function returns, or why it failed."""

    def __init__(self, **runs: Run) -> None:
        self._runs = runs

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._runs)

    def definitions(self) -> list[dict[str, Any]]:
        return [{"name": name, "inputSchema": {"type": "object"}} for name in self._runs]

    async def run(self, recording: CallRecord, caller: CallObserver) -> Answer:
        try:
            text = await self._runs[recording.name](caller)
        except CallError as error:
            text = error.detail
        return Answer(msgspec.json.encode({"content": [{"type": "text", "text": text}]}), is_error=False)

    def resources(self, _session: Session) -> list[Resource]:
        return []

    def release(self, session: Session) -> None:
        pass


@asynccontextmanager
async def client_of(tools: OwnTools) -> AsyncIterator[McpLines]:
    """A client by hand of a bridge that has them; nothing is said yet."""
    transport = PlayedTransport()
    router = Router(transport)
    router.provide(tools)
    transport.happen(DiscoveryFinished())

    async def serve(speak: Speak) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(router.run)
            await speak(McpServer(router, Session("ours"), lambda: None))
            nursery.cancel_scope.cancel()

    async with speaking_with(serve) as client:
        yield client
