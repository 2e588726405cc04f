"""Flow control and liveness at a node: slow readers, silent peers, and two sockets of one browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import trio

from proxy_node import ProxyNode, running_node, token_of, write_config
from raw_websocket import RawPeer, raw_connected

MIB = 1024 * 1024
LARGE_BYTES = MIB
ANNOUNCEMENTS = 200
"""Announcements of 20 MB in all."""
RESULTS = 40
"""Results of 40 MiB in all, of which no more than 12 MiB may wait at the node."""


async def sign_in(extension: RawPeer, **credentials: str) -> str:
    """The id of the extension."""
    await extension.receive()
    token = token_of("alice", "extension")
    await extension.send(id="proxy:1", result={"name": "Chrome", "accessToken": token, **credentials})
    return str((await extension.receive())["params"]["extension_id"])


async def test_a_client_that_reads_late_receives_everything_and_the_node_queues_little(
    mcpb_home: Path,
) -> None:
    write_config(mcpb_home, f"queued_bytes = {12 * MIB}\nqueued_bytes_per_socket = {2 * MIB}")
    large = "x" * LARGE_BYTES

    async with (
        running_node(mcpb_home) as node,
        node.extension(answer=lambda _: large) as extension,
        raw_connected(f"{node.base}/mcp", buffer_bytes=64 * 1024) as client,
    ):
        await client.send(id=0, method="mcp_handshake", params={"accessToken": token_of("alice", "client")})
        await client.receive_response()
        await client.send(id="c", method="connect", params={"extension_id": extension.extension_id})
        await client.receive_response()
        for number in range(RESULTS):
            await client.send(id=number, method="getTabs")
        await node.until_metric(f"requests_total {RESULTS}")
        received = [await client.receive_response() for _ in range(RESULTS)]
        assert {response["id"] for response in received} == set(range(RESULTS))
        assert {len(response["result"]) for response in received} == {LARGE_BYTES}


async def test_requests_for_an_extension_that_reads_late_wait_at_their_clients(mcpb_home: Path) -> None:
    settings = f"queued_bytes = {12 * MIB}\nqueued_bytes_per_socket = {2 * MIB}\nslow_reader_s = 60"
    write_config(mcpb_home, settings)
    async with (
        running_node(mcpb_home) as node,
        raw_connected(f"{node.base}/extension", buffer_bytes=64 * 1024) as extension,
        node.client() as client,
    ):
        await client.connect(await sign_in(extension))
        async with trio.open_nursery() as nursery:

            async def send_all() -> None:
                for number in range(RESULTS):
                    await client.send(id=number, method="type", params={"text": "x" * LARGE_BYTES})

            nursery.start_soon(send_all)
            # The node reads no more than its limits allow.
            await node.until_event("connected")
            for _ in range(RESULTS):
                while "method" not in (request := await extension.receive()) or "id" not in request:
                    pass
                await extension.send(id=request["id"], result=len(request["params"]["text"]))
        received = [await client.receive_response() for _ in range(RESULTS)]
        assert {response["result"] for response in received} == {LARGE_BYTES}


async def test_of_announcements_a_slow_client_gets_the_newest_and_stays_connected(mcpb_home: Path) -> None:
    write_config(mcpb_home, f"queued_bytes_per_socket = {2 * MIB}\nslow_reader_s = 1")
    hello = {
        "wire": 1,
        "extension": {"id": "x", "version": "1"},
        "browser": {"brand": "Chromium"},
        "profile": {"id": "0c5d"},
    }
    async with (
        running_node(mcpb_home) as node,
        node.extension(client_id="0c5d") as extension,
        raw_connected(f"{node.base}/mcp", buffer_bytes=4096) as client,
    ):
        await extension.send(method="browser/hello", params=hello)
        token = token_of("alice", "client")
        await client.send(id=1, method="mcp_handshake", params={"accessToken": token, "wire": 1})
        await client.receive_response()
        listed = await client.receive()
        assert (listed["method"], listed["params"]["extensions"][0]["wire"]) == ("extensions", 1)
        await client.send(id=2, method="connect", params={"extension_id": extension.extension_id})
        await client.receive_response()
        for number in range(ANNOUNCEMENTS):
            tab = {"tabId": 1, "windowId": 1, "url": f"https://a.example/{number}", "title": "x" * 100_000}
            await extension.send(method="browser/tabs", params={"tabs": [tab]})
        await extension.send(id="unknown", result="the end of all that was announced")
        urls: list[str] = []
        while urls[-1:] != [f"https://a.example/{ANNOUNCEMENTS - 1}"]:
            message = await client.receive()
            if message["method"] == "browser/tabs":
                urls.append(message["params"]["tabs"][0]["url"])
        assert len(set(urls)) < ANNOUNCEMENTS
        await client.send(id=3, method="disconnect")
        assert (await client.receive_response())["result"] == {"disconnected": True}


async def test_silent_peers_are_closed_and_a_browser_that_returns_gets_its_id(mcpb_home: Path) -> None:
    write_config(
        mcpb_home,
        "ping_interval_s = 0.5\nunanswered_pings = 2\nreplacement_ping_s = 3\nstatus_interval_s = 0.3",
    )
    async with running_node(mcpb_home) as node:
        await close_silent_extension(node)
        await replace_extension(node)


async def close_silent_extension(node: ProxyNode) -> None:
    """Pings without a pong end a socket; status arrives meanwhile at an extension that responds."""
    async with (
        node.extension(client_id="alive") as alive,
        raw_connected(f"{node.base}/extension") as silent,
        node.client() as client,
    ):
        await silent.receive()
        await silent.send(
            id="proxy:1", result={"name": "Chrome", "accessToken": token_of("alice", "extension")}
        )
        name = (await silent.receive())["params"]["extension_id"]
        await client.connect(name)
        await client.send(id="lost", method="getTabs")
        response = await client.receive_response()
        assert (response["id"], response["error"]["code"]) == ("lost", -32010)
        assert response["error"]["data"]["handed"] is True
        assert await silent.wait_code() == 1001
        while (await client.receive())["method"] != "disconnected":
            pass
        await alive.until(lambda each: len(statuses(each.notifications)) > 3)
        assert alive.closed is None


def statuses(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [message for message in messages if message["method"] == "status"]


async def replace_extension(node: ProxyNode) -> None:
    """A newcomer with the id of a browser that responds gets another id, else it takes its place."""
    async with node.extension(client_id="profile") as first:
        async with node.extension(client_id="profile") as copied:
            assert copied.extension_id != first.extension_id
        assert first.closed is None
        own_id = first.extension_id
    async with raw_connected(f"{node.base}/extension") as silent:
        await silent.receive()
        credentials = {
            "name": "Chrome",
            "accessToken": token_of("alice", "extension"),
            "client_id": "profile",
        }
        await silent.send(id="proxy:1", result=credentials)
        assert (await silent.receive())["params"]["extension_id"] == own_id
        async with node.extension(client_id="profile") as second:
            assert second.extension_id == own_id
        assert await silent.wait_code() in {1001, 4001}
