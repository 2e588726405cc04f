"""An MCP session on a fake transport, driven by a transcript of client messages."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import mcp_types
import msgspec
import trio
import trio.testing

from bridge.errors import CallError
from bridge.hub.audit_records import AuditSink
from bridge.hub.client_session import Session
from bridge.hub.operation import Operation
from bridge.hub.router import Router
from bridge.hub.transport import CallObserver, DiscoveryFinished
from bridge.mcp_session.mcp_server import McpServer
from bridge.mcp_session.session import McpSession, open_session
from custom_tools import OwnTools
from fake_transport import Answer, Asked, PlayedTransport, tab, tools
from native_host.protocol import wire
from native_host.protocol.framing import Part

GET_CART = "website_tool_shop_example_tab1_getCart"
HOLD = "website_tool_shop_example_tab1_hold"
"""A tool that answers when the test says so."""
WHERE = "where"
"""A tool of ours that asks for the client's roots."""
CAN_ASK: dict[str, Any] = {"elicitation": {}, "roots": {}}
SOON_S = 30
CLIENT = {"name": "by hand", "version": "1", "title": "By Hand", "websiteUrl": "https://hand.example"}
ENVELOPE: dict[str, Any] = {
    mcp_types.PROTOCOL_VERSION_META_KEY: "2026-07-28",
    mcp_types.CLIENT_INFO_META_KEY: CLIENT,
    mcp_types.CLIENT_CAPABILITIES_META_KEY: CAN_ASK,
}
Message = dict[str, Any] | bytes | Callable[["Played"], None]


class Told:
    """A client that hears everything at once."""

    waiting_bytes = 0

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []

    def write(self, *parts: Part) -> None:
        line = b"".join(parts)
        assert line.endswith(b"\n")
        assert line.count(b"\n") == 1
        self.messages.append(json.loads(line))

    def answer(self, *parts: Part, error: int = 0) -> None:
        self.write(*parts)
        assert self.messages[-1].get("error", {}).get("code", 0) == error

    def forgo(self) -> None:
        pass

    async def wait_room(self, limit: int = 0) -> None:
        pass

    def answered(self) -> list[Any]:
        """The ids of the answers."""
        return [message["id"] for message in self.messages if "method" not in message]


class Pages(PlayedTransport):
    """Pages whose calls of `hold` are answered when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.held: list[Held] = []
        self.on_request = self._answer_request

    def _answer_request(self, asked: Asked) -> Answer:
        match asked.params:
            case wire.PageMcp(method="prompts/get", params=params):
                if json.loads(bytes(params))["name"] == "broken":
                    return {"success": False, "payload": {"code": -32603, "message": "boom"}}
                content = {"type": "text", "text": "tea"}
                return {"success": True, "payload": {"messages": [{"role": "user", "content": content}]}}
            case wire.PageMcp(method="completion/complete"):
                return {"success": True, "payload": {"completion": {"values": ["Bern"]}}}
            case wire.PageMcp(params=params):
                uri = json.loads(bytes(params))["uri"]
                if uri == "cart://broken":
                    return {"success": False, "payload": {"code": -32603, "message": "boom"}}
                return {"success": True, "payload": {"contents": [{"uri": uri, "text": "tea"}]}}
            case wire.WatchResource(uri="cart://broken"):
                return CallError(wire.Code.INVALID_PARAMS, "it never changes", handed=True)
            case wire.WatchResource():
                assert asked.caller.on_watch
                asked.caller.on_watch(wire.Watching())
                return None
            case _:
                return self.answer

    def send(self, *asked: Any, **more: Any) -> Operation:
        answer = super().send
        if getattr(asked[2], "tool_name", "") != "hold":
            return answer(*asked, **more)
        held = Held(lambda: answer(*asked, **more), asked[5] if len(asked) > 5 else more["observer"])
        self.held.append(held)
        return held


class Held:
    def __init__(self, answer: Callable[[], object], caller: Any) -> None:
        self.caller = caller
        self.is_over = False
        self._answer = answer

    def answer(self) -> None:
        if not self.is_over:
            self.is_over = True
            self._answer()

    def cancel(self) -> None:
        self.is_over = True


class Played:
    """A session, and what a transcript may do beside speaking."""

    def __init__(
        self, router: Router, pages: Pages, client: Told, session: McpSession, nursery: trio.Nursery
    ) -> None:
        self.router = router
        self.pages = pages
        self.client = client
        self.session = session
        self.nursery = nursery

    async def take(self, message: Message) -> None:
        if callable(message):
            message(self)
        else:
            await self.session.handle_line(message if isinstance(message, bytes) else encoded(message))


def encoded(message: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode()


@asynccontextmanager
async def session(*, leaves_all: bool, keep: AuditSink = lambda _: None) -> AsyncIterator[Played]:
    pages, client = Pages(), Told()
    router = Router(pages, keep=keep)
    router.set_provider(OwnTools(where=where))
    pages.happen(DiscoveryFinished())
    pages.connect("h1", wire.Tabs(tabs=[tab(1)]), offer("getCart", "hold"))
    mcp_server = McpServer(router, Session("s1"), lambda: None)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(router.run)
        nursery.start_soon(router.notify_changes, mcp_server.tell_list_changed)
        await trio.testing.wait_all_tasks_blocked()
        async with open_session(mcp_server, client, leaves_all=leaves_all) as session:
            yield Played(router, pages, client, session, nursery)
        nursery.cancel_scope.cancel()


def initialize(version: str = "2025-11-25", **params: Any) -> dict[str, Any]:
    known = {"protocolVersion": version, "capabilities": CAN_ASK, "clientInfo": CLIENT}
    return {"id": "hello", "method": "initialize", "params": {**known, **params}}


INITIALIZED = {"method": "notifications/initialized"}
CART_CALL = {"name": GET_CART, "arguments": {"apples": [1, 2.5, None, "é", {"": []}]}}


def opened(era: str) -> list[Message]:
    return [initialize(era), INITIALIZED] if era != "2026-07-28" else []


def asked(era: str, request_id: Any, method: str, params: Any = None) -> dict[str, Any]:
    """A request of an era: since 2026-07-28 with an envelope, unless it says something else of `_meta`."""
    if era == "2026-07-28" and isinstance(params or {}, dict):
        meta = {**ENVELOPE, **(params or {}).get("_meta", {})}
        params = {**(params or {}), "_meta": meta}
    message = {"id": request_id, "method": method}
    return message if params is None else {**message, "params": params}


def call(era: str, request_id: Any, name: str = HOLD, **params: Any) -> dict[str, Any]:
    return asked(era, request_id, "tools/call", {"name": name, **params})


def cancel(request_id: Any, **params: Any) -> dict[str, Any]:
    return {"method": "notifications/cancelled", "params": {"requestId": request_id, **params}}


def answer_all(played: Played) -> None:
    for held in played.pages.held:
        held.answer()


def report(played: Played) -> None:
    for held in played.pages.held:
        if held.caller.on_progress and not held.is_over:
            held.caller.on_progress(wire.Progress(progress=1, total=2.5, message="half"))
            held.caller.on_progress(wire.Progress(progress=2))


def change(played: Played) -> None:
    played.pages.announce("h1", wire.Tabs(tabs=[tab(1)]), offer("getCart", "hold", "another"))


def change_resources(played: Played) -> None:
    played.pages.announce("h1", offer("getCart", "hold", resources=("cart://1", "cart://2")))


def log(played: Played) -> None:
    """The page logs a message of each of two levels."""
    for level in ("debug", "error"):
        params = msgspec.Raw(json.dumps({"level": level, "logger": "cart", "data": {"items": 2}}).encode())
        logged = wire.PageNotification(
            tab_id=1, frame_id=0, document_id="d1", method="notifications/message", params=params
        )
        played.pages.announce("h1", logged)


def update(played: Played) -> None:
    """The page reports a change of each resource that is watched."""
    for asked in played.pages.asked:
        if isinstance(asked.params, wire.WatchResource) and asked not in played.pages.given_up:
            assert asked.caller.on_watch
            asked.caller.on_watch(wire.ResourceUpdated(uri=asked.params.uri))


def offer(*names: str, resources: Sequence[str] = ("cart://1", "cart://broken")) -> wire.FrameTools:
    """A page with tools, resources, a template and prompts."""
    entries = [msgspec.Raw(msgspec.json.encode({"uri": uri, "name": "Cart"})) for uri in resources]
    template = msgspec.Raw(b'{"uriTemplate":"order://{id}","name":"Order"}')
    pay = b'{"name":"pay","arguments":[{"name":"place","required":true}]}'
    return msgspec.structs.replace(
        tools(1, *names),
        resources=entries,
        resource_templates=[template],
        prompts=[msgspec.Raw(pay), msgspec.Raw(b'{"name":"broken"}')],
        capabilities={"completions": {}},
    )


async def where(caller: CallObserver) -> str:
    if not caller.support.roots:
        return "nowhere"
    listed = msgspec.json.decode(await caller.on_request(wire.PageRequest(method="roots/list")))
    return " ".join(root["uri"] for root in listed["roots"])


async def put(held: Held, question: wire.ElicitConfirmation) -> None:
    with suppress(CallError):
        await held.caller.on_request(question)
    held.answer()
