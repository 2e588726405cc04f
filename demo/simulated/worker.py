"""Service worker of the simulated extension: one native port, its messages, its calls and watches.

It lives as long as its port; all of its state can be rebuilt from the tabs.
"""

from __future__ import annotations

from collections.abc import Awaitable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import trio

from demo.simulated.commands import COMMANDS, RefusedError, check_session, check_site
from demo.simulated.page_requests import PageRequests
from demo.simulated.page_server import ServerError
from demo.simulated.tabs import TOP_FRAME, BrowserState, PageTool, SimulatedFrame, ToolResult, origin_of
from native_host.protocol import jsonrpc, wire
from native_host.protocol.chunking import Joiner
from native_host.protocol.jsonrpc import Envelope
from native_host.protocol.validation_errors import describe_problem
from native_host.protocol.wire import Code

if TYPE_CHECKING:
    from demo.simulated.port import NativePort


FRAME_COMMANDS = ["browser/executeTool", "browser/mcp", "browser/watchResource"]
"""Requests that a document answers."""
_SERVER_METHODS = {
    "resources/read": "resources",
    "prompts/get": "prompts",
    "completion/complete": "completions",
}
"""Methods of `browser/mcp`, by the capability that each needs."""


@dataclass(frozen=True)
class Watch:
    """A client's watch of a resource."""

    frame: SimulatedFrame
    uri: str


class Call:
    """A page's tool or server at work, for one asker."""

    def __init__(
        self, raw_id: bytes, frame: SimulatedFrame, port: NativePort, requests: PageRequests
    ) -> None:
        self.raw_id = raw_id
        self.frame = frame
        self.scope = trio.CancelScope()
        self._port = port
        self._requests = requests

    def report_progress(self, progress: float, total: float | None = None, message: str = "") -> None:
        """Tell the asker how far it is."""
        params = wire.Progress(progress=progress, total=total, message=message)
        notice = Envelope(method="browser/progress", params=msgspec.Raw(msgspec.json.encode(params)))
        self._port.post(jsonrpc.address_to(notice, self.raw_id))

    async def request(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """Send `sampling/createMessage`, `roots/list` or `elicitation/create`, as the page's server.

        Raises:
            ServerError: the client answered with an error.
        """
        return await self._requests.send(self.raw_id, self.scope, method, params or {})


_running: ContextVar[Call] = ContextVar("running")


def current_call() -> Call:
    """Return the call that the running handler serves."""
    return _running.get()


class Worker:
    """Handles received bodies and queues responses; it performs no I/O.

    Calls run in the nursery of the port's owner and end with it.
    """

    def __init__(self, browser: BrowserState, port: NativePort, nursery: trio.Nursery) -> None:
        self._browser = browser
        self._port = port
        self._nursery = nursery
        self._joiner = Joiner()
        self._calls: dict[bytes, Call] = {}
        self._watches: dict[bytes, Watch] = {}
        self._announced: dict[SimulatedFrame, wire.FrameTools] = {}
        self._requests = PageRequests(port)

    # ── What it says ────────────────────────────────────────────────────────────────────────────────────────

    def greet(self) -> None:
        """Say hello and everything that is known."""
        self.notify("browser/hello", self._browser.hello)
        self.notify("browser/tabs", self._browser.all_tabs())
        self.notify("browser/paused", self._browser.paused)
        for tab in self._browser.tabs.values():
            for frame in tab.frames.values():
                self.announce(frame)

    def notify(self, method: str, params: wire.Wire) -> None:
        """Tell every client something."""
        self._port.post(jsonrpc.notification(method, params))

    def announce(self, frame: SimulatedFrame) -> None:
        """Announce the tools of a frame, unless they are unchanged."""
        known = self._announced.get(frame)
        if frame.frame_id != TOP_FRAME and not frame.tools and not frame.server and not known:
            return  # a subframe dials once it offers something
        tools = frame.announcement()
        if tools == known:
            return
        self._announced[frame] = tools
        self.notify("browser/updateTools" if known else "browser/registerTools", tools)

    def document_gone(self, frame: SimulatedFrame) -> None:
        """Its tools are gone, and what they were doing is lost."""
        for call in [call for call in self._calls.values() if call.frame is frame]:
            self._give_up(call.raw_id)
            text = "the page navigated while its tool was running"
            self._port.post(jsonrpc.failure(call.raw_id, Code.NAVIGATED, text, handed=True))
        self.end_watches(frame)
        if self._announced.pop(frame, None) and frame.tab.tab_id in self._browser.tabs:
            self.notify("browser/unregister", frame.address)

    def resource_updated(self, frame: SimulatedFrame, uri: str) -> None:
        """Tell each client that watches the resource, or one that it is a part of."""
        for raw_id, watch in self._watches.items():
            if watch.frame is frame and is_part_of(uri, watch.uri):
                self._tell_asker(raw_id, "browser/resourceUpdated", wire.ResourceUpdated(uri=uri))

    def end_watches(self, frame: SimulatedFrame) -> None:
        """Answer the watches of a document that is gone, or whose server has stopped."""
        for raw_id in [raw_id for raw_id, watch in self._watches.items() if watch.frame is frame]:
            del self._watches[raw_id]
            self._port.post(jsonrpc.result(raw_id, b"{}"))

    def _tell_asker(self, raw_id: bytes, method: str, params: wire.Wire) -> None:
        notice = Envelope(method=method, params=msgspec.Raw(msgspec.json.encode(params)))
        self._port.post(jsonrpc.address_to(notice, raw_id))

    # ── What it hears ───────────────────────────────────────────────────────────────────────────────────────

    def hear(self, body: bytes) -> list[Envelope]:
        """Act on one message of the host; returns it, and the one whose last piece it was.

        Raises:
            UndecodableError, msgspec.DecodeError, ChunkError: it makes no sense. The port stays open.
        """
        message = jsonrpc.decode(body)
        if message.method == "host/chunk":
            chunk = msgspec.json.decode(message.params, type=wire.Chunk)
            joined = self._joiner.add(chunk, trio.current_time())
            return [message, *(self.hear(joined) if joined else [])]
        if message.method == "host/chunkAbort":
            self._joiner.abort(msgspec.json.decode(message.params, type=wire.ChunkAbort).transfer)
        elif message.method == "browser/cancel":
            self._give_up(msgspec.json.encode(msgspec.json.decode(message.params, type=wire.Cancel).id))
        elif message.is_request:
            self._answer(message)
        elif message.is_response:
            self._requests.answer(message)
        return [message]

    def _answer(self, request: Envelope) -> None:
        raw_id = bytes(request.id)
        try:
            match request.method:
                case "browser/executeTool":
                    self._begin_call(raw_id, msgspec.json.decode(request.params, type=wire.ExecuteTool))
                case "browser/mcp":
                    self._begin_request(raw_id, msgspec.json.decode(request.params, type=wire.PageMcp))
                case "browser/watchResource":
                    self._begin_watch(raw_id, msgspec.json.decode(request.params, type=wire.WatchResource))
                case _:
                    self._port.post(jsonrpc.result(raw_id, self._obey(request)))
        except RefusedError as refusal:
            self._port.post(jsonrpc.failure(raw_id, refusal.code, str(refusal), handed=False, **refusal.data))
        except msgspec.DecodeError as error:
            self._port.post(
                jsonrpc.failure(raw_id, Code.INVALID_PARAMS, describe_problem(error), handed=False)
            )

    def _obey(self, request: Envelope) -> bytes:
        command = COMMANDS.get(request.method)
        if command is None:
            raise RefusedError(Code.METHOD_NOT_FOUND, f"this browser does not know {request.method}")
        params = msgspec.json.decode(bytes(request.params) or b"{}", type=wire.METHODS[request.method].params)
        if isinstance(params, wire.Asked):
            check_session(self._browser, params.session)
        return msgspec.json.encode(command(self._browser, params))

    # ── Calls ───────────────────────────────────────────────────────────────────────────────────────────────

    def _begin_call(self, raw_id: bytes, params: wire.ExecuteTool) -> None:
        frame = self._find_frame(params)
        tool = frame.tools.get(params.tool_name)
        if tool is None:
            raise RefusedError(Code.NO_LONGER_OFFERED, f"the page does not offer {params.tool_name} any more")
        self._begin(raw_id, frame, _execute(tool, params.args))

    def _begin_request(self, raw_id: bytes, params: wire.PageMcp) -> None:
        needed = _SERVER_METHODS.get(params.method)
        if needed is None:
            raise RefusedError(Code.INVALID_PARAMS, f"a page server is not asked for {params.method}")
        frame = self._find_frame(params)
        if frame.server is None or needed not in frame.server.capabilities:
            raise RefusedError(Code.NO_LONGER_OFFERED, f"no server of the page offers {needed}")
        request = msgspec.json.decode(params.params)
        self._begin(raw_id, frame, _ask(frame.server.answer(params.method, request)))

    def _begin_watch(self, raw_id: bytes, params: wire.WatchResource) -> None:
        frame = self._find_frame(params)
        if frame.server is None:
            raise RefusedError(Code.NO_LONGER_OFFERED, "no server of the page offers resources")
        if frame.server.rejects_watch:
            raise RefusedError(Code.INVALID_PARAMS, frame.server.rejects_watch)
        self._watches[raw_id] = Watch(frame, params.uri)
        self._tell_asker(raw_id, "browser/watching", wire.Watching())

    def _find_frame(self, params: wire.ExecuteTool | wire.PageMcp | wire.WatchResource) -> SimulatedFrame:
        check_session(self._browser, params.session)
        frame = self._browser.tab(params.tab_id).frames.get(params.frame_id)
        if frame is None or frame.document_id != params.document_id:
            raise RefusedError(Code.NAVIGATED, "another document is in this frame now")
        check_site(self._browser, origin_of(frame.url))
        return frame

    def _begin(self, raw_id: bytes, frame: SimulatedFrame, work: Awaitable[wire.Executed]) -> None:
        call = self._calls[raw_id] = Call(raw_id, frame, self._port, self._requests)
        self._nursery.start_soon(self._run, call, work)

    async def _run(self, call: Call, work: Awaitable[wire.Executed]) -> None:
        _running.set(call)
        with call.scope:
            executed = await work
            if self._calls.pop(call.raw_id, None):  # else it was given up in the meantime
                self._port.post(_within_cap(call.raw_id, executed))

    def _give_up(self, raw_id: bytes) -> None:
        self._watches.pop(raw_id, None)
        if call := self._calls.pop(raw_id, None):
            call.scope.cancel()


async def _execute(tool: PageTool, args: msgspec.Raw) -> wire.Executed:
    try:
        payload: ToolResult = await tool.handler(msgspec.json.decode(args))
    except Exception as error:  # noqa: BLE001 - a page may throw anything; the extension reports its text
        return wire.Executed(success=False, payload=msgspec.Raw(msgspec.json.encode(str(error))))
    if isinstance(payload, str):
        payload = {"content": [{"type": "text", "text": payload}]}
    return wire.Executed(success=True, payload=msgspec.Raw(msgspec.json.encode(payload)))


async def _ask(answer: Awaitable[dict[str, Any]]) -> wire.Executed:
    try:
        payload, success = await answer, True
    except ServerError as error:
        payload, success = error.error, False
    return wire.Executed(success=success, payload=msgspec.Raw(msgspec.json.encode(payload)))


def is_part_of(uri: str, whole: str) -> bool:
    """Return whether a URI is that of a resource, or of a part of it: `cart://1/items` of `cart://1`."""
    return uri == whole or (uri.startswith(whole) and (whole[-1] in "/?#" or uri[len(whole)] in "/?#"))


def _within_cap(raw_id: bytes, executed: wire.Executed) -> bytes:
    answer = jsonrpc.result(raw_id, msgspec.json.encode(executed))
    if len(answer) <= wire.FROM_BROWSER_BYTES:
        return answer
    text = f"the result is {len(answer)} bytes, the limit is {wire.FROM_BROWSER_BYTES}"
    return jsonrpc.failure(raw_id, Code.TOO_LARGE, text, handed=True)
