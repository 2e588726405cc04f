"""Fake extension of Claude in Chrome on the stdio of a native host, and a fake socket of that host.

The extension speaks as version 1.0.36 does, whose results carry no id (`untagged`), or as newer versions do
(`tagged`). Calls run concurrently and end with their handlers.

    async with StubExtension(command, tools={"find": find}).running() as extension:
"""

from __future__ import annotations

import itertools
import os
import subprocess
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal, Self

import msgspec
import trio

from channel_client import bytes_of
from demo.simulated.port import NativePort, open_port
from native_host.existing_channel.channel_messages import FRAME_BYTES
from native_host.ipc.endpoint import bind
from native_host.protocol.framing import FrameDecoder, frame

ORIGIN = "chrome-extension://fcoeoabgfenejglbffodgkkbkcdhcgfn/"
"""Of the product's extension."""

Dialect = Literal["untagged", "tagged"]
Content = str | list[dict[str, Any]]


class ToolFailedError(Exception):
    """Raised by a tool: its text is the error that the extension answers."""


class Call:
    """One `execute_tool` that has arrived."""

    def __init__(self, params: dict[str, Any], permit: Callable[[Call, str], Awaitable[bool]]) -> None:
        self.params = params
        self.tool: str = params["tool"]
        self.args: dict[str, Any] = params.get("args", {})
        self.use_id: str | None = params.get("tool_use_id")
        self._permit = permit

    async def permitted(self, url: str) -> bool:
        """Ask the person at the client whether the tool may do this there."""
        return await self._permit(self, url)


Tool = Callable[[Call], Awaitable[Content]]


class StubExtension:
    """The extension of one browser. Its host may end, and it may start another.

    `tools` answer by name; a call that names none of them is only heard (`calls`).
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        dialect: Dialect = "tagged",
        tools: Mapping[str, Tool] | None = None,
    ) -> None:
        self.command = list(command)
        self.env = dict(env or {})
        self.dialect = dialect
        self.tools = dict(tools or {})
        self.heard: list[dict[str, Any]] = []
        """Everything that hosts said, in order."""
        self.calls: list[Call] = []
        self.answered_bytes = 0
        """What each client reads of the answers, if it is there for all of them."""
        self.port: NativePort
        self._taken = 0
        self._news = trio.Event()
        self._question_ids = itertools.count(1)
        self._verdicts: dict[str, bool] = {}
        self._scope = trio.CancelScope()
        self._ended = trio.Event()
        self._nursery: trio.Nursery

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Self]:
        """Start a host as a browser does; in the end its pipes are closed."""
        async with trio.open_nursery() as self._nursery:
            await self.connect()
            yield self
            await self.close()
            self._nursery.cancel_scope.cancel()

    @property
    def pid(self) -> int:
        """Of the host."""
        return self.port.process.pid

    @property
    def heard_types(self) -> Counter[str]:
        """How often the hosts said what."""
        return Counter(message["type"] for message in self.heard)

    @property
    def runs(self) -> Counter[str | None]:
        """How often each tool_use_id was run."""
        return Counter(call.use_id for call in self.calls)

    # ── Hosts ───────────────────────────────────────────────────────────────────────────────────────────────

    async def connect(self) -> None:
        """Start a host, and see that it is one: ping, then its status."""
        await self._nursery.start(self._keep_port)
        self.say(type="ping")
        await self.hear("pong")
        self.say(type="get_status")
        await self.hear("status_response")

    async def close(self) -> None:
        """End the host as the browser does."""
        self._scope.cancel()
        await self._ended.wait()

    async def kill_host(self) -> None:
        """End it as nobody should."""
        self.port.process.kill()
        await self._ended.wait()

    async def _keep_port(self, *, task_status: trio.TaskStatus[None]) -> None:
        self._scope, self._ended = trio.CancelScope(), trio.Event()
        try:
            with self._scope:
                async with (
                    open_port(self.command, ORIGIN, self.env, subprocess.DEVNULL) as self.port,
                    trio.open_nursery() as nursery,
                ):
                    nursery.start_soon(self.port.write_forever)
                    task_status.started()
                    await self.port.read_until_end(self._hear)
                    nursery.cancel_scope.cancel()
        finally:
            self._ended.set()

    # ── What it says ────────────────────────────────────────────────────────────────────────────────────────

    def say(self, **message: Any) -> None:
        self.port.post(msgspec.json.encode(message))

    def say_bodies(self, *bodies: bytes) -> None:
        """Frames of these, in one write."""
        self.port.post_bytes(b"".join(frame(body, "native") for body in bodies))

    def say_too_much(self) -> None:
        """A frame over the cap: the real host ends its service for good, and lives on."""
        filler = "x" * FRAME_BYTES
        self.say(type="notification", method="filler", params={"filler": filler})

    # ── What it hears ───────────────────────────────────────────────────────────────────────────────────────

    async def hear(self, kind: str = "") -> dict[str, Any]:
        """The next message, or the next of this type; what comes before it is passed over."""
        while True:
            while self._taken < len(self.heard):
                message = self.heard[self._taken]
                self._taken += 1
                if kind in {"", message["type"]}:
                    return message
            await self._news.wait()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Until this is true of what was heard."""
        while not condition():
            await self._news.wait()

    def _hear(self, body: bytes) -> None:
        message: dict[str, Any] = msgspec.json.decode(body)
        self.heard.append(message)
        if message["type"] == "tool_request":
            self._hear_request(message)
        self._news.set()
        self._news = trio.Event()

    def _hear_request(self, message: dict[str, Any]) -> None:
        params: dict[str, Any] = message.get("params", {})
        if message.get("method") == "execute_tool":
            call = Call(params, self._permit)
            self.calls.append(call)
            if tool := self.tools.get(call.tool):
                self._nursery.start_soon(self._run, tool, call)
        elif message.get("method") == "permission_response":
            self._verdicts[params["request_id"]] = params["allowed"]

    async def _run(self, tool: Tool, call: Call) -> None:
        try:
            content = await tool(call)
        except ToolFailedError as failure:
            self.answer(call, error=str(failure))
        else:
            self.answer(call, result=content)

    def answer(self, call: Call, **content: Content) -> None:
        """`result` or `error`. An empty one is never sent by 1.0.36."""
        if self.dialect == "untagged" and not any(content.values()):
            return
        tag = {"tool_use_id": call.use_id} if self.dialect == "tagged" and call.use_id else {}
        said = {**tag, **{kind: {"content": value} for kind, value in content.items()}}
        self.answered_bytes += bytes_of(said)
        self.say(type="tool_response", **said)

    async def _permit(self, call: Call, url: str) -> bool:
        request_id = f"question-{next(self._question_ids)}"
        about = {"tool_use_id": call.use_id, "tool_type": call.tool, "url": url}
        params: dict[str, Any] = {**about, "request_id": request_id, "action_data": {}}
        self.say(type="notification", jsonrpc="2.0", method="permission_request", params=params)
        await self.until(lambda: request_id in self._verdicts)
        return self._verdicts[request_id]


# ── The socket of another product's host, played ────────────────────────────────────────────────────────────


class TheirSocket:
    """Each tool is answered with its name and tab at once; those that are `silent` are not."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.calls: list[dict[str, Any]] = []
        """The params of each `execute_tool`."""
        self.silent: set[str] = set()
        self.accepted = 0
        """Connections so far."""
        self.clients: set[trio.SocketStream] = set()

    @classmethod
    @asynccontextmanager
    async def in_directory(cls, directory: Path, pid: int = 0) -> AsyncIterator[Self]:
        """Named after a process that lives, usually this one. In the end it is closed and removed."""
        theirs = cls(directory / f"{pid or os.getpid()}.sock")
        listener = trio.SocketListener(trio.socket.from_stdlib_socket(bind(theirs.path)))
        async with listener, trio.open_nursery() as nursery:
            nursery.start_soon(trio.serve_listeners, theirs._serve, [listener])
            try:
                yield theirs
            finally:
                theirs.path.unlink()
                nursery.cancel_scope.cancel()

    async def _serve(self, client: trio.SocketStream) -> None:
        self.accepted += 1
        self.clients.add(client)
        decoder = FrameDecoder(FRAME_BYTES, "little")
        try:
            async for data in client:
                decoder.feed(data)
                while (body := decoder.next_frame()) is not None:
                    await self._hear(msgspec.json.decode(body))
        except trio.BrokenResourceError:
            pass  # it was killed
        finally:
            self.clients.discard(client)

    async def _hear(self, message: dict[str, Any]) -> None:
        params: dict[str, Any] = message["params"]
        self.calls.append(params)
        tool, tab_id = params["tool"], params["args"].get("tabId")
        if tool in self.silent:
            return
        made = f"Created new tab. Tab ID: {len(self.calls)}"
        text = made if tool == "tabs_create_mcp" else f"{tool} in {tab_id}"
        await self.tell({"tool_use_id": params["tool_use_id"], "result": {"content": text}})

    async def tell(self, message: dict[str, Any]) -> None:
        for client in list(self.clients):
            await client.send_all(frame(msgspec.json.encode(message), "little"))
