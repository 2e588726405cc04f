"""An MCP server as one writes it with the mcp package alone, on stdio: what a client gets without our lane.

    python -m benchmarks.sdk_server            answers each load's tool by itself
    python -m benchmarks.sdk_server DIRECTORY  relays calls to the native host that serves in DIRECTORY

The second does the least that a bridge has to do: no policy, no audit, no check of arguments, one browser.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path
from typing import Any

import mcp_types
import msgspec
import trio
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from benchmarks.loads import ALL
from native_host.ipc import endpoint
from native_host.protocol import jsonrpc, wire
from native_host.protocol.framing import FrameDecoder, frame

READ_BYTES = 1024 * 1024
PAUSE_S = 0.01

Call = Callable[[str, dict[str, Any]], Awaitable[mcp_types.CallToolResult]]


class HostConnection:
    """A bridge's end of the socket: calls by id, each answered with what the page said."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.tools: dict[str, mcp_types.Tool] = {}
        self._stream = stream
        self._decoder = FrameDecoder(wire.SOCKET_BYTES, "little")
        self._sending = trio.Lock()
        self._ids = count(1)
        self._answers: dict[bytes, trio.MemorySendChannel[bytes]] = {}
        self._frames: dict[str, wire.FrameTools] = {}

    async def introduce(self) -> None:
        """Say hello, and hear which tools there are."""
        hello = wire.BridgeHello(wire=wire.WIRE_VERSION, version="bench", pid=0)
        await self._send(jsonrpc.notification("bridge/hello", hello))
        while (message := await self._next()).method != "host/replayed":
            if message.method == "browser/registerTools":
                self._note(msgspec.json.decode(message.params, type=wire.FrameTools))

    async def call(self, tool: str, arguments: dict[str, Any]) -> mcp_types.CallToolResult:
        """Run a page's tool."""
        document = self._frames[tool]
        params = wire.ExecuteTool(
            tab_id=document.tab_id,
            frame_id=document.frame_id,
            document_id=document.document_id,
            tool_name=tool,
            args=msgspec.Raw(msgspec.json.encode(arguments)),
        )
        raw_id = b"%d" % next(self._ids)
        self._answers[raw_id], answered = trio.open_memory_channel[bytes](1)
        await self._send(jsonrpc.request(raw_id, "browser/executeTool", msgspec.json.encode(params)))
        executed = msgspec.json.decode(await answered.receive(), type=wire.Executed)
        return mcp_types.CallToolResult.model_validate_json(bytes(executed.payload))

    async def hear_answers(self) -> None:
        """Pass each response to its caller. Runs until cancelled."""
        while True:
            message = await self._next()
            if waiting := self._answers.pop(bytes(message.id), None):
                waiting.send_nowait(bytes(message.result))

    def _note(self, document: wire.FrameTools) -> None:
        for definition in document.tools:
            tool = mcp_types.Tool.model_validate_json(bytes(definition))
            self.tools[tool.name] = tool
            self._frames[tool.name] = document

    async def _send(self, body: bytes) -> None:
        async with self._sending:
            await self._stream.send_all(frame(body, "little"))

    async def _next(self) -> jsonrpc.Envelope:
        while (body := self._decoder.next_frame()) is None:
            data = await self._stream.receive_some(READ_BYTES)
            if not data:
                raise EOFError("the native host closed the connection")
            self._decoder.feed(data)
        return jsonrpc.decode(body)


def plain_server(tools: list[mcp_types.Tool], call: Call) -> Server[Any]:
    """With these tools."""

    async def list_tools(_context: object, _params: object) -> mcp_types.ListToolsResult:
        return mcp_types.ListToolsResult(tools=tools)

    async def call_tool(
        _context: object, params: mcp_types.CallToolRequestParams
    ) -> mcp_types.CallToolResult:
        return await call(params.name, params.arguments or {})

    return Server("plain", version="1", on_list_tools=list_tools, on_call_tool=call_tool)


async def serve(server: Server[Any]) -> None:
    """Speak MCP on stdin and stdout, until stdin ends."""
    async with stdio_server() as (heard, said):
        await server.run(heard, said, server.create_initialization_options())


def server_by_itself() -> Server[Any]:
    """Offers every load's tool, and has their results."""
    tools = [mcp_types.Tool.model_validate(load.definition) for load in ALL]
    results = {load.tool: mcp_types.CallToolResult.model_validate_json(load.result) for load in ALL}

    async def call(tool: str, _arguments: dict[str, Any]) -> mcp_types.CallToolResult:
        await trio.lowlevel.checkpoint()
        return results[tool]

    return plain_server(tools, call)


async def relay(directory: Path) -> None:
    """Offer the tools of the browser whose native host serves in `directory`."""
    while not (hosts := endpoint.live_hosts(directory)):  # noqa: ASYNC110 - directories send no events
        await trio.sleep(PAUSE_S)
    (host,) = hosts
    async with await endpoint.connect(directory, host.instance) as stream, trio.open_nursery() as nursery:
        connection = HostConnection(stream)
        await connection.introduce()
        nursery.start_soon(connection.hear_answers)
        await serve(plain_server(list(connection.tools.values()), connection.call))
        nursery.cancel_scope.cancel()


async def answer_by_itself() -> None:
    """On stdio."""
    await serve(server_by_itself())


if __name__ == "__main__":
    trio.run(relay, Path(sys.argv[1])) if len(sys.argv) > 1 else trio.run(answer_by_itself)
