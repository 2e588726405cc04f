"""blueprint's extension 1.5.0 as it was recorded, clients like its own, and its endless reconnecting.

Neither can run here: its package is not available. The transcript is what the unmodified worker of 1.5.0
sent and received, with two clients, at a proxy that implements the specification.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import trio
from websockets.trio.client import connect

from proxy_node import SOON_S, ForeignClient, ForeignExtension, ProxyNode, token_of
from proxy_samples import FOLDER
from reconnecting_extension import CALLS_PER_S, ReconnectingExtension
from tool_browser import TrioThread

Message = dict[str, Any]
TRANSCRIPT = [json.loads(line) for line in (FOLDER / "blueprint-1.5.0.jsonl").read_text().splitlines()]
RENEWAL_S = 120
"""Seconds before the end of a token at which an extension is asked for a new one."""
REQUEST_S = 30
"""Timeout of blueprint's client for a request."""


# ── The recorded extension ──────────────────────────────────────────────────────────────────────────────────


class RecordedSession:
    """The transcript at a node: its extension, and its clients by the name of their connection."""

    def __init__(
        self, node: ProxyNode, extension: ForeignExtension, clients: dict[str, ForeignClient]
    ) -> None:
        self._node = node
        self._extension = extension
        self._clients = clients
        self._inbox: list[Message] = []
        """Received by the extension and not yet compared."""
        self._token = ""
        self._extension_id = ""
        self._asked: Message = {}
        """The latest request to the extension."""

    async def play(self, sender: str, message: Message) -> None:
        """Play a line: what the extension sent, or what it received."""
        match message:
            case {"result": _}:
                await self._respond(message)
            case {"method": "authenticate"}:
                self._asked = await self._receive(lambda it: it["method"] == "authenticate")
                assert self._asked == message
            case {"method": "authenticated"}:
                confirmed = await self._receive(lambda it: it["method"] == "authenticated")
                self._extension_id = confirmed["params"]["extension_id"]
                assert confirmed["params"].keys() >= message["params"].keys()
            case {"method": "status"}:
                await self._connect("conn-abc")
                expected = message["params"]["peer_count"]
                status = await self._receive(lambda it: it["params"].get("peer_count") == expected)
                assert status["params"].keys() == message["params"].keys()
            case {"method": "disconnected", "params": {"connection_id": name}}:
                gone = self._clients.pop(name)
                await gone.socket.aclose()
                notice = await self._receive(lambda it: it["method"] == "disconnected")
                assert notice["params"] == {
                    "connection_id": gone.connection_id,
                    "reason": "MCP client closed",
                }
            case _:
                assert sender == "proxy"
                await self._forward(message)

    async def _connect(self, name: str) -> None:
        await self._clients[name].connect(self._extension_id)

    async def _forward(self, message: Message) -> None:
        """Let a client send what the extension received."""
        name, own = self._read_id(message["id"])
        client = self._clients[name]
        if not client.connection_id:
            await self._connect(name)
        await client.send(**{**message, "id": own})
        self._asked = await self._receive(lambda it: "id" in it and it["method"] != "authenticate")
        assert self._asked == {**message, "id": f"{client.connection_id}:{own}"}

    async def _respond(self, message: Message) -> None:
        """Send a response of the extension; the client that waits for it receives it as it is."""
        asked_id = str(self._asked["id"])
        text = json.dumps({**message, "id": asked_id})
        if asked_id.startswith("proxy:"):
            self._token = self._token or token_of("blueprint", "extension", exp=time.time() + RENEWAL_S + 1)
            text = text.replace("TOKEN", self._token)
        await self._extension.socket.send(text)
        if not asked_id.startswith("proxy:"):
            name, own = self._read_id(message["id"])
            assert await self._clients[name].receive_response() == {**message, "id": own}

    @staticmethod
    def _read_id(recorded: str | int) -> tuple[str, str | int]:
        """The connection of an id and the client's own; the first connection if the id names none."""
        if isinstance(recorded, int):
            return "conn-abc", recorded
        name, _, own = recorded.partition(":")
        return name, int(own) if own.isdigit() else own

    async def _receive(self, is_expected: Callable[[Message], object]) -> Message:
        """A message to the extension, whatever has come before it."""
        while not (found := [message for message in self._inbox if is_expected(message)]):
            self._inbox.append(await self._extension.receive())
        self._inbox.remove(found[0])
        return found[0]


async def test_every_recorded_message_of_its_extension_passes(node: ProxyNode) -> None:
    async with (
        connect(f"{node.base}/extension", **node.options) as socket,
        connect(f"{node.base}/mcp", **node.options) as first,
        connect(f"{node.base}/mcp", **node.options) as second,
    ):
        clients = {"conn-abc": ForeignClient(first), "conn-xyz": ForeignClient(second)}
        for client in clients.values():
            client.numbers = itertools.count(1000)
            opened = await client.ask("mcp_handshake", access_token=token_of("blueprint", "client"))
            assert opened["result"]["authenticated"]
        session = RecordedSession(node, ForeignExtension(socket, lambda _: None), clients)
        for line in TRANSCRIPT:
            await session.play(line["from"], line["message"])


# ── A client like its own ───────────────────────────────────────────────────────────────────────────────────


class BlueprintClient(ForeignClient):
    """Its client as its source code has it: UUIDs, `access_token`, 30 s for a request."""

    async def ask(self, method: str, **params: Any) -> Message:
        """The response to a request."""
        own = str(uuid4())
        await self.send(id=own, method=method, params=params)
        with trio.fail_after(REQUEST_S):
            response = await self.receive_response()
        assert response["id"] == own
        return response

    async def open(self, user: str) -> None:
        """Sign in."""
        response = await self.ask(
            "mcp_handshake", access_token=token_of(user, "client"), client_id="blueprint"
        )
        assert response["result"]["authenticated"]

    async def find_extensions(self) -> list[str]:
        listed = (await self.ask("list_extensions"))["result"]["extensions"]
        return [extension["id"] for extension in listed]


def answer_like_1_9(message: Message) -> Any:
    """Results of 1.9; what it does not know it answers with success. `closeTab` is answered by the test."""
    results: dict[str, Any] = {
        "createTab": {"success": True, "tab": {"id": 7}},
        "getTabs": {"tabs": [], "count": 0},
    }
    return results.get(message["method"], {}) if message["method"] != "closeTab" else None


async def test_a_client_like_its_own_has_a_whole_session(node: ProxyNode) -> None:
    user = "user of blueprint's client"
    extension_token = token_of(user, "extension")
    async with connect(f"{node.base}/mcp", **node.options) as socket:
        client = BlueprintClient(socket)
        await client.open(user)
        assert await client.find_extensions() == []  # it asks again, up to five times
        async with node.extension(extension_token, answer_like_1_9, client_id="chrome-1") as extension:
            assert await client.find_extensions() == [extension.extension_id]
            connection = await client.connect(extension)
            assert (await client.ask("createTab", url="data:,"))["result"]["tab"] == {"id": 7}
            assert (await client.ask("click", selector="body"))["result"] == {}

            # 1.7 and later send errors without a code, with the stack.
            await client.send(id="e", method="closeTab", params={})
            await extension.until(lambda it: it.requests[-1]["method"] == "closeTab")
            await extension.send(
                id=extension.requests[-1]["id"], error={"message": "No tab", "stack": "at …"}
            )
            assert (await client.receive_response())["error"] == {"code": -32000, "message": "No tab"}

        # After `disconnected` it connects again without `disconnect`.
        while (notice := await client.receive())["method"] != "disconnected":
            pass
        assert notice["params"] == {"connection_id": connection, "reason": "Extension closed"}
        async with connect(f"{node.base}/extension", **node.options) as opened:
            # 1.9 sends a notification before it is asked.
            again = ForeignExtension(opened, answer_like_1_9)
            await again.send(method="build_info", params={"version": "1.9.20"})
            assert (await again.receive())["method"] == "authenticate"
            credentials = {"name": "Chrome 150", "access_token": extension_token, "client_id": "chrome-1"}
            await again.send(id="proxy:1", result=credentials)
            assert (await again.receive())["params"]["extension_id"] == extension.extension_id
            async with trio.open_nursery() as nursery:
                nursery.start_soon(again.run)
                assert await client.connect(extension) != connection
                assert (await client.ask("getTabs"))["result"] == {"tabs": [], "count": 0}
                await client.socket.aclose()
                await again.until(lambda it: it.notifications[-1]["params"].get("peer_count") == 0)
                ended = [each["params"] for each in again.notifications if each["method"] == "disconnected"]
                assert ended == [{"connection_id": client.connection_id, "reason": "MCP client closed"}]
                nursery.cancel_scope.cancel()


# ── An extension that reconnects without end ────────────────────────────────────────────────────────────────


def test_an_extension_that_reconnects_once_a_second_affects_no_other_connection(
    reconnecting: ReconnectingExtension, thread: TrioThread
) -> None:
    """Its token was changed while it ran: it connects, or it is rejected, each second anew."""
    rounds = reconnecting.rounds
    thread.run_within(rounds + SOON_S, reconnecting.finished.wait)
    assert len(reconnecting.extension_ids) == rounds - rounds // 2
    assert len(set(reconnecting.extension_ids)) == 1
    assert reconnecting.closed == [(1008, "Invalid token: scope")] * (rounds // 2)
    assert reconnecting.notices == []
    # Each quiet connection has been answered all the time, though a busy machine runs late.
    assert reconnecting.calls > rounds * CALLS_PER_S / 2
    assert reconnecting.slowest_s < 5
