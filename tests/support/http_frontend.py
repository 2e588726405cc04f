"""An HTTP front end for tests: on a real port, over a hub whose hosts the test plays."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from ssl import SSLContext
from typing import Any

import httpx2
import pytest
import trio
import trio.testing
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from bridge.config.settings import HttpSettings
from bridge.frontends.http.access_tokens import TokenClient, digest_of
from bridge.frontends.http.asgi_app import Admit
from bridge.frontends.http.http_frontend import HttpFrontend
from bridge.frontends.http.metrics import Metrics
from bridge.hub.router import Router, Terms
from bridge.hub.transport import DiscoveryFinished
from fake_transport import Answer, Asked, PlayedTransport, one_page
from http_serving import http_server, listeners
from http_serving.http_connection import UpgradeHandler, reject_upgrade
from http_serving.http_server import ConnectionLimits, ServerOptions
from http_serving.tls import ServerCertificate
from native_host.protocol import wire
from native_host.protocol.rate_limit import RateLimiter

CLOSES_EARLY = pytest.mark.filterwarnings(
    "ignore:Async generator 'httpx2:ResourceWarning", "ignore:Async generator 'httpcore:ResourceWarning"
)
"""For tests that leave a response before its end: httpx2 leaves generators behind."""
GET_CART = "website_tool_shop_example_tab1_getCart"
HOLD = "website_tool_shop_example_tab1_hold"
"""The pages' tools. What they answer is the transport's to say."""
SOON_S = 30
STATELESS = "2026-07-28"
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": STATELESS,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "by hand", "version": "1"},
}
INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"elicitation": {}},
    "clientInfo": {"name": "by hand", "version": "1"},
}


class OneToken:
    """The access tokens of a server that has one, of the client `laptop`."""

    def __init__(self, token: str) -> None:
        self._token = token

    def find(self, token: str) -> TokenClient | None:
        return TokenClient("laptop", digest_of(token)) if token == self._token else None


class Served:
    """A front end that serves, and what a test may want of it."""

    def __init__(self, front: HttpFrontend, router: Router, transport: PlayedTransport, port: int) -> None:
        self.front = front
        self.router = router
        self.transport = transport
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self.sessions: list[wire.Session] = []
        """As the hosts were told last."""
        self.stop = trio.Event()
        """Set, it ends as a signal ends `mcpb serve`."""
        self.stopped = trio.Event()
        """It has."""

    def client(self, **headers: str) -> httpx2.AsyncClient:
        """An HTTP client of somebody else's, to be used in `async with`."""
        return httpx2.AsyncClient(base_url=self.url, headers=headers, timeout=SOON_S)


def open_front(
    settings: HttpSettings | None = None,
    tools: Iterable[str] = ("getCart", "hold"),
    admit: Admit | None = None,
) -> AbstractAsyncContextManager[Served]:
    """Serve as long as the block runs; see `Served`."""
    return _open_front(settings or HttpSettings(), list(tools), admit or admit_all)


async def admit_all(_: Request) -> dict[str, str]:
    """Let every request in, as if no gate stood before the routes."""
    return {}


@asynccontextmanager
async def _open_front(settings: HttpSettings, tools: list[str], admit: Admit) -> AsyncIterator[Served]:
    transport = PlayedTransport()
    metrics = Metrics()
    router = Router(
        transport, terms=Terms(rate_limiter=RateLimiter(settings.calls_per_minute)), keep=metrics.keep
    )
    transport.happen(DiscoveryFinished())
    transport.connect("h1", *one_page(*tools))
    sessions: list[wire.Session] = []

    def tell_hosts(told: list[wire.Session]) -> None:
        sessions[:] = told

    front = HttpFrontend(router, tell_hosts, settings, admit, metrics)
    listening = socket.create_server(("127.0.0.1", 0))
    served = Served(front, router, transport, listening.getsockname()[1])
    served.sessions = sessions

    async def serve() -> None:
        await front.serve([listening], served.stop)
        served.stopped.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(router.run)
        nursery.start_soon(serve)
        yield served
        served.stop.set()
        with trio.fail_after(SOON_S):
            await served.stopped.wait()
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def serving_app(
    app: ASGIApp,
    limits: ConnectionLimits | None = None,
    until: trio.Event | None = None,
    handle_upgrade: UpgradeHandler = reject_upgrade,
    tls: SSLContext | ServerCertificate | None = None,
    host: str = "127.0.0.1",
) -> AsyncIterator[int]:
    """An application of the test behind our server, on the port that this yields."""
    sockets = listeners.listen(host, 0)
    until = trio.Event() if until is None else until
    async with trio.open_nursery() as nursery:
        options = ServerOptions(limits or ConnectionLimits(), handle_upgrade=handle_upgrade, tls=tls)
        nursery.start_soon(http_server.serve, app, sockets, until, options)
        try:
            yield sockets[0].getsockname()[1]
        finally:
            until.set()


async def hello(scope: Scope, receive: Receive, send: Send) -> None:
    await Response("hello")(scope, receive, send)


def request(request_id: object, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
    """A JSON-RPC request."""
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params or {}}


def call(request_id: object, name: str, **arguments: Any) -> dict[str, Any]:
    """A tool call of the handshake era."""
    return request(request_id, "tools/call", {"name": name, "arguments": arguments})


async def shake_hands(client: httpx2.AsyncClient, **params: Any) -> dict[str, str]:
    """Open a session; the headers that its further requests have."""
    answer = await client.post("/mcp", json=request(0, "initialize", {**INITIALIZE, **params}))
    assert answer.status_code == 200, answer.text
    headers = {
        "Mcp-Session-Id": answer.headers["Mcp-Session-Id"],
        "MCP-Protocol-Version": answer.json()["result"]["protocolVersion"],
    }
    told = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert (await client.post("/mcp", json=told, headers=headers)).status_code == 202
    return headers


def stateless(method: str, name: str = "") -> dict[str, str]:
    """What a request since 2026-07-28 says in its headers."""
    named = {"Mcp-Name": name} if name else {}
    return {"MCP-Protocol-Version": STATELESS, "Mcp-Method": method, **named}


def hold_calls(served: Served) -> list[Asked]:
    """Calls of `hold`, which the test answers."""
    held: list[Asked] = []

    def answer(asked: Asked) -> Answer:
        if isinstance(asked.params, wire.ExecuteTool) and asked.params.tool_name == "hold":
            held.append(asked)
            return None
        return served.transport.answer

    served.transport.on_request = answer
    return held


async def until(condition: Callable[[], object]) -> None:
    """Wait for something that tells nobody when it happens."""
    with trio.fail_after(SOON_S):
        while not condition():
            await trio.testing.wait_all_tasks_blocked(0.001)


class Events:
    """Server-sent events of a response, one by one."""

    def __init__(self, response: httpx2.Response) -> None:
        self._parts = response.aiter_raw()
        self._text = b""

    async def next(self) -> dict[str, str] | None:
        """The members of the next event; None: the stream has ended."""
        event: dict[str, str] = {}
        while not event:
            while b"\n\n" not in self._text:
                if not (part := await anext(self._parts, b"")):
                    return None
                self._text += part
            text, _, self._text = self._text.partition(b"\n\n")
            for line in text.decode().split("\n"):
                name, _, value = line.partition(":")
                if name:
                    event[name] = value.removeprefix(" ")
        return event

    async def message(self) -> dict[str, Any]:
        """The next MCP message."""
        with trio.fail_after(SOON_S):
            while event := await self.next():
                if event.get("data"):
                    found: dict[str, Any] = json.loads(event["data"])
                    return found
        raise AssertionError("the stream has ended")
