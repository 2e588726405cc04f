"""A bridge at a WebSocket proxy that lies, floods, or goes at the worst moment: a script plays the proxy."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
from websockets.exceptions import ConnectionClosed
from websockets.sync.server import ServerConnection, serve

from bridge.links.browsers import announcement_limit
from bridge.links.browsers.websocket_proxies import MAX_BROWSERS
from fake_host import METHOD_OF
from fake_transport import browser_hello, one_page
from native_host.protocol import wire
from native_host.protocol.wire import Wire
from proxied_bridge import WatchedLinks, use_token

HELLO = wire.HostHello(
    wire=1,
    instance="70dfcdd7",
    version="0.2.0",
    pid=0,
    browser_pid=-5,
    extension_origin="",
    limits=wire.Limits(to_browser=1, from_browser=1, socket=1),
)


class ScriptedSocket:
    """A socket of a bridge that has sent its handshake."""

    def __init__(self, socket: ServerConnection) -> None:
        self._socket = socket
        self.handshake = self.receive()

    def receive(self) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(self._socket.recv())
        return message

    def send(self, **message: Any) -> None:
        self._socket.send(json.dumps({"jsonrpc": "2.0", **message}))

    def announce(self, *messages: Wire) -> None:
        for message in messages:
            self.send(method=METHOD_OF[type(message)], params=json.loads(msgspec.json.encode(message)))

    def list_extensions(self, *names: str) -> None:
        """Accept the handshake, and send a list."""
        result = {"authenticated": True, "user_id": "u", "mcp_client_id": "m"}
        self.send(id=self.handshake["id"], result=result)
        extensions = [{"id": name, "name": name, "connected": True, "wire": 1} for name in names]
        self.send(method="extensions", params={"extensions": extensions})

    def accept_connect(self) -> None:
        """Wait for `connect`, if this socket is one of a browser; answer it as a native host does."""
        connect = self.receive()
        own = dict.fromkeys(("connection_id", "extension_id"), connect["params"]["extension_id"])
        self.send(id=connect["id"], result={**own, "extension_name": "x"})
        self.announce(HELLO)


@asynccontextmanager
async def bridge_at(
    script: Callable[[ScriptedSocket], None], run_directory: Path, token: str = ""
) -> AsyncIterator[WatchedLinks]:
    """A bridge that uses a proxy, which runs a script for each socket."""

    def run(socket: ServerConnection) -> None:
        with suppress(ConnectionClosed):
            script(ScriptedSocket(socket))
            while True:
                socket.recv()

    with serve(run, "127.0.0.1", 0, compression=None, close_timeout=1) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.socket.getsockname()[1]}"
        async with trio.open_nursery() as nursery:
            links = WatchedLinks(run_directory, use_token(url, token))
            nursery.start_soon(links.run)
            yield links
            nursery.cancel_scope.cancel()


async def test_a_browser_that_is_gone_before_it_is_used_ends_only_itself(short_tmp: Path) -> None:
    sockets: list[ScriptedSocket] = []

    def script(socket: ScriptedSocket) -> None:
        sockets.append(socket)
        socket.list_extensions("first")
        socket.accept_connect()
        socket.announce(browser_hello("p1"), *one_page("getCart"), wire.HostReplayed())
        if len(sockets) < 4:  # the list, and two browsers
            socket.send(
                method="disconnected", params={"connection_id": "first", "reason": "Extension closed"}
            )

    async with bridge_at(script, short_tmp) as links:
        await links.until(lambda: links.offered == ["getCart"])


async def test_a_list_without_end_opens_no_more_sockets_than_a_bridge_uses(short_tmp: Path) -> None:
    sockets: list[ScriptedSocket] = []

    def script(socket: ScriptedSocket) -> None:
        sockets.append(socket)
        for first in range(0, 200, 50) if len(sockets) == 1 else ():
            socket.list_extensions(*(f"ext-{number}" for number in range(first, first + 50)))

    async with bridge_at(script, short_tmp) as links:
        await links.until(lambda: len(sockets) > MAX_BROWSERS)
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert len(sockets) == 1 + MAX_BROWSERS


async def test_a_browser_that_announces_without_end_is_disconnected(
    short_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(announcement_limit, "MAX_BYTES", 100_000)
    ended: list[int] = []
    page = msgspec.json.encode(one_page("getCart")[-1])

    def script(socket: ScriptedSocket) -> None:
        socket.list_extensions("first")
        socket.accept_connect()
        with suppress(ConnectionClosed):
            for tab_id in range(100_000):
                socket.send(method="browser/registerTools", params={**json.loads(page), "tabId": tab_id})
        ended.append(tab_id)

    async with bridge_at(script, short_tmp) as links:
        await links.until(lambda: bool(ended))
        assert ended[0] < 99_999


async def test_a_token_that_a_proxy_quotes_is_in_no_problem(short_tmp: Path) -> None:
    def script(socket: ScriptedSocket) -> None:
        token = socket.handshake["params"]["accessToken"]
        data = {"reason": "audience", "detail": f"The token {token} is for another service."}
        socket.send(id=socket.handshake["id"], error={"code": -32000, "message": token, "data": data})

    async with bridge_at(script, short_tmp, "a.secret.token") as links:
        await links.until(lambda: links.causes == ["token-audience"])
        (problem,) = links.proxies.problems.values()
        assert "The token (token) is for another service." in problem.text
