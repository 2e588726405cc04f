"""A client on the real host's socket that keeps what the extension says."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

import trio

from demo.chromium import Chromium
from full_chain import Chain
from native_host.ipc import endpoint
from wire_peers import SocketClient, until

POLL_S = 0.005
STOPPED_S = 8
"""Ample for a worker to be stopped and for its successor's host to be there."""

Frame = dict[str, Any]
"""The params of `browser/registerTools`."""


class Onlooker(SocketClient):
    """Knows which tabs, frames and pauses are announced, and how often a frame has been."""

    def __init__(self, stream: trio.SocketStream) -> None:
        super().__init__(stream)
        self.tabs: dict[int, dict[str, Any]] = {}
        self.frames: dict[tuple[int, int], Frame] = {}
        self.paused: dict[str, list[Any]] = {}
        self.hello: dict[str, Any] = {}
        """The newest `browser/hello`."""
        self.announcements = 0
        """Of frames' lists, heard so far."""
        self._ids = itertools.count(1)

    async def next_message(self) -> dict[str, Any]:
        """The next message, kept if it is an announcement."""
        message = await super().next_message()
        self._keep(message.get("method", ""), message.get("params", {}))
        return message

    async def until(self, wanted: Callable[[], object]) -> None:
        """Hear what is said until this is so. Bound it."""
        while not wanted():
            await self.next_message()

    def offering(self, tool: str, path: str = "") -> Frame | None:
        """The frame that offers a tool of this name, at an address with this in it."""
        for frame in self.frames.values():
            if path in frame["url"] and tool in [each["name"] for each in frame["tools"]]:
                return frame
        return None

    async def until_offered(self, tool: str, path: str = "") -> Frame:
        """Hear what is said until a frame offers this tool. Bound it."""
        await self.until(lambda: self.offering(tool, path))
        frame = self.offering(tool, path)
        assert frame is not None
        return frame

    async def until_tab(self, path: str) -> int:
        """Hear what is said until there is a tab at an address with this in it. Bound it."""

        def found() -> list[int]:
            return [tab["tabId"] for tab in self.tabs.values() if path in tab["url"]]

        await self.until(found)
        return found()[0]

    async def request(self, method: str, **params: Any) -> Any:
        """The result of a request, or its error."""
        answer = await self.ask(next(self._ids), method, **params)
        return answer.get("result", answer.get("error"))

    async def begin_call(self, frame: Frame, tool: str, session: str = "", **args: Any) -> int:
        """Ask for a tool's run; its answer is heard later, under the id that this returns."""
        number = next(self._ids)
        address = {name: frame[name] for name in ("tabId", "frameId", "documentId")}
        params = {**address, "toolName": tool, "args": args, **({"session": session} if session else {})}
        await self.say(id=number, method="browser/executeTool", params=params)
        return number

    async def call(self, frame: Frame, tool: str, session: str = "", **args: Any) -> Any:
        """Run a tool: its text, or the error."""
        answer = await self.answer_to(await self.begin_call(frame, tool, session, **args))
        return answer["error"] if "error" in answer else text_of(answer["result"])

    def _keep(self, method: str, params: dict[str, Any]) -> None:
        match method:
            case "browser/tabs":
                self.tabs = {tab["tabId"]: tab for tab in params["tabs"]}
            case "browser/tabChanged":
                self.tabs[params["tab"]["tabId"]] = params["tab"]
            case "browser/tabRemoved":
                self.tabs.pop(params["tabId"], None)  # its frames go with it: no `unregister` need follow
                self.frames = {key: frame for key, frame in self.frames.items() if key[0] != params["tabId"]}
            case "browser/registerTools" | "browser/updateTools":
                self.announcements += 1
                self.frames[params["tabId"], params["frameId"]] = params
            case "browser/unregister":
                self.frames.pop((params["tabId"], params["frameId"]), None)
            case "browser/paused":
                self.paused = params
            case "browser/hello":
                self.hello = params


def text_of(executed: dict[str, Any]) -> str:
    """What an `executeTool` that succeeded answered in words."""
    assert executed["success"], executed
    return "".join(block["text"] for block in executed["payload"]["content"])


def hosts(chain: Chain) -> list[endpoint.Record]:
    """The native hosts that run now."""
    return endpoint.live_hosts(chain.home / "run")


@asynccontextmanager
async def onlooking(chain: Chain) -> AsyncIterator[Onlooker]:
    """Connect to the host that answers, and read its replay. Bound it."""
    async with AsyncExitStack() as stack:
        yield await _connect(chain, stack)


async def _connect(chain: Chain, stack: AsyncExitStack) -> Onlooker:
    """Connect to the host that answers: one that was killed stays listed until the browser has noticed."""
    while True:
        for host in hosts(chain):
            with suppress(OSError, EOFError):
                return await stack.enter_async_context(Onlooker.connected(chain.home / "run", host.instance))
        await trio.sleep(POLL_S)


async def restart_worker(chain: Chain, browser: Chromium) -> None:
    """Stop the worker and wait for the host of its successor. Bound it."""
    before = {host.pid for host in hosts(chain)}
    while True:
        await browser.stop_workers()
        with trio.move_on_after(STOPPED_S):  # one that the browser is just starting is not always stopped
            await until(lambda: len(now := {host.pid for host in hosts(chain)}) == 1 and not now & before)
            return
