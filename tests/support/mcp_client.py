"""An MCP client by hand, at the pipes of a bridge: one JSON line at a time."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Self

import mcp_types
import msgspec
import trio

from bridge.app import new_session, open_hub, speak_mcp
from bridge.config.settings import Config
from bridge.frontends import stdio
from bridge.mcp_session.mcp_server import McpServer

Speak = Callable[[McpServer], Awaitable[None]]
BRIDGE_COMMAND = [sys.executable, "-m", "bridge", "bridge", "--structured"]


class McpLines:
    """Over any pair of byte streams; `shake_hands` first, unless the test is about that."""

    def __init__(self, to_server: trio.abc.SendStream, from_server: trio.abc.ReceiveStream) -> None:
        self.unasked: list[dict[str, Any]] = []
        """Notifications, requests, and answers to nobody, in the order they came."""
        self.capabilities: dict[str, Any] = {}
        """What this client declares, from then on."""
        self._to_server = to_server
        self._from_server = from_server
        self._answers: dict[Any, dict[str, Any]] = {}
        self._buffer = b""
        self._ids = itertools.count(1)
        self._meta: dict[str, Any] = {}

    async def aclose(self) -> None:
        """Go, as a client does."""
        await self._to_server.aclose()

    async def stop_reading(self) -> None:
        await self._from_server.aclose()

    async def shake_hands(self, version: str = "2024-11-05") -> dict[str, Any]:
        client = {"name": "by hand", "version": "1"}
        params = {"protocolVersion": version, "capabilities": self.capabilities, "clientInfo": client}
        result: dict[str, Any] = await self.ask("initialize", params)
        await self.notify("notifications/initialized")
        return result

    async def need_no_handshake(self) -> dict[str, Any]:
        """Speak 2026-07-28: every request says who asks and in which version. Also listen for changes."""
        self._meta = {
            mcp_types.PROTOCOL_VERSION_META_KEY: "2026-07-28",
            mcp_types.CLIENT_INFO_META_KEY: {"name": "by hand", "version": "1"},
            mcp_types.CLIENT_CAPABILITIES_META_KEY: self.capabilities,
        }
        found: dict[str, Any] = await self.ask("server/discover")
        await self.send("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        await self.heard("notifications/subscriptions/acknowledged")
        return found

    async def ask(self, method: str, params: dict[str, Any] | None = None) -> Any:
        """The result, or the error object under `error`."""
        return await self.answer_to(await self.send(method, params))

    async def send(self, method: str, params: dict[str, Any] | None = None) -> int:
        """Only the request; its id."""
        request_id = next(self._ids)
        asked = dict(params or {})
        if self._meta:
            asked["_meta"] = {**self._meta, **asked.get("_meta", {})}
        await self._say({"id": request_id, "method": method, "params": asked})
        return request_id

    async def notify(self, method: str, params: dict[str, Any] | None = None) -> None:
        await self._say({"method": method, **({"params": params} if params else {})})

    async def answer_to(self, request_id: Any) -> Any:
        while request_id not in self._answers:
            await self._take_message()
        answer = self._answers.pop(request_id)
        return answer.get("result", answer)

    def is_answered(self, request_id: Any) -> bool:
        """As far as messages have been taken."""
        return request_id in self._answers

    async def heard(self, method: str) -> dict[str, Any]:
        """The params of the next notification of this method."""
        params: dict[str, Any] = (await self.asked(method)).get("params", {})
        return params

    async def asked(self, method: str) -> dict[str, Any]:
        """The next request of the server of this method, whole."""
        while True:
            for message in self.unasked:
                if message.get("method") == method:
                    self.unasked.remove(message)
                    return message
            await self._take_message()

    async def reply(self, request: dict[str, Any], **answer: Any) -> None:
        """To a request of the server: `result` or `error`."""
        await self._say({"id": request["id"], **answer})

    async def tool_names(self) -> list[str]:
        """Of the pages' tools."""
        listed = await self.ask("tools/list")
        return [
            tool["name"] for tool in listed["tools"] if tool["name"].startswith(("website_tool_", "web_"))
        ]

    async def until_offered(self, name: str) -> None:
        """Wait for a page's tool to be listed."""
        while name not in await self.tool_names():
            await self.heard("notifications/tools/list_changed")

    async def call(self, name: str, **arguments: Any) -> Any:
        return await self.ask("tools/call", {"name": name, "arguments": arguments})

    async def say_line(self, line: bytes) -> None:
        await self._to_server.send_all(line + b"\n")

    async def next_message(self) -> dict[str, Any]:
        while b"\n" not in self._buffer:
            data = await self._from_server.receive_some(1 << 20)
            if not data:
                raise EOFError("the bridge closed its stdout")
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        assert message["jsonrpc"] == "2.0"
        return message

    async def rest(self) -> bytes:
        """All that the bridge still writes, until it closes its stdout."""
        while data := await self._from_server.receive_some(1 << 20):
            self._buffer += data
        return self._buffer

    async def _say(self, message: dict[str, Any]) -> None:
        await self.say_line(json.dumps({"jsonrpc": "2.0", **message}).encode())

    async def _take_message(self) -> None:
        message = await self.next_message()
        if "method" not in message and message.get("id") is not None:
            self._answers[message["id"]] = message
        else:
            self.unasked.append(message)


class BridgeProcess(McpLines):
    """A real `mcpb bridge`, ended by the end of its stdin."""

    def __init__(self, process: trio.Process) -> None:
        assert process.stdin
        assert process.stdout
        super().__init__(process.stdin, process.stdout)
        self.process = process

    @classmethod
    @asynccontextmanager
    async def started(cls, env: Mapping[str, str] | None = None) -> AsyncIterator[Self]:
        process = await trio.lowlevel.open_process(
            BRIDGE_COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env
        )
        bridge = cls(process)
        try:
            yield bridge
            with trio.fail_after(30):
                await bridge.aclose()
                await process.wait()
        finally:
            process.kill()
            with trio.CancelScope(shield=True):
                await bridge.aclose()
                await bridge.stop_reading()
                await process.wait()


@asynccontextmanager
async def bridge_in_process(config: Config | None = None) -> AsyncIterator[McpLines]:
    """The same without a process: the real parts on a pair of pipes. Starts ten times faster."""
    structured = msgspec.structs.replace(new_session(), is_structured=True)
    async with (
        open_hub(config or Config()) as hub,
        speaking_with(lambda speak: speak_mcp(hub, structured, speak)) as client,
    ):
        yield client


@asynccontextmanager
async def speaking_with(serve: Callable[[Speak], Awaitable[None]]) -> AsyncIterator[McpLines]:
    """A client at one end of a pair of pipes, and at the other the stdio front end."""
    stdin, to_server = os.pipe()
    from_server, stdout = os.pipe()

    async def speak() -> None:
        try:
            await serve(lambda server: stdio.serve_descriptors(server, stdin, stdout))
        finally:
            os.close(stdin)
            os.close(stdout)

    async with (
        trio.lowlevel.FdStream(to_server) as ours,
        trio.lowlevel.FdStream(from_server) as theirs,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(speak)
        yield McpLines(ours, theirs)
        await ours.aclose()


def text_of(result: dict[str, Any]) -> str:
    """All text of a CallToolResult."""
    return "\n".join(block["text"] for block in result["content"])
