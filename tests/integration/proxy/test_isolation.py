"""Two users with two extensions and three clients each: no message of one reaches another."""

from __future__ import annotations

import json
import statistics
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import trio

from proxy_node import ForeignClient, ForeignExtension, running_node, token_of, write_config

USERS = ("alice", "bob")
CALLS = 200
TIMED = 200


async def call_all(client: ForeignClient, expected: str) -> None:
    """Send calls with the ids that every client uses; each has its own response, from its own extension."""

    async def send() -> None:
        for number in range(CALLS):
            await client.send(id=number, method="getTabs", params={"number": number})

    async with trio.open_nursery() as nursery:
        nursery.start_soon(send)
        for _ in range(CALLS):
            response = await client.receive_response()
            assert response["result"] == {"extension": expected, "params": {"number": response["id"]}}


async def test_users_with_the_same_ids_receive_their_own_responses_only(mcpb_home: Path) -> None:
    write_config(mcpb_home, "requests_per_minute_per_client = 0\nrequests_per_minute_per_user = 0")
    async with running_node(mcpb_home) as node, AsyncExitStack() as stack:
        extensions: dict[str, list[ForeignExtension]] = {}
        clients: dict[str, list[ForeignClient]] = {}
        for user in USERS:
            for number in (1, 2):

                def answer(message: dict[str, Any], name: str = f"{user} {number}") -> Any:
                    return {"extension": name, "params": message["params"]}

                token = token_of(user, "extension")
                opened = node.extension(token, answer, client_id=f"profile {number}")
                extension = await stack.enter_async_context(opened)
                extensions.setdefault(user, []).append(extension)
                for _ in range(3):
                    client = await stack.enter_async_context(node.client(token_of(user, "client")))
                    await client.connect(extension)
                    clients.setdefault(user, []).append(client)
        async with trio.open_nursery() as nursery:
            for user in USERS:
                for index, client in enumerate(clients[user]):
                    nursery.start_soon(call_all, client, f"{user} {1 + index // 3}")
        for user in USERS:
            for extension in extensions[user]:
                own = tuple(each.connection_id for each in clients[user])
                assert len(extension.requests) == 3 * CALLS
                assert all(request["id"].startswith(own) for request in extension.requests)
                assert {each["method"] for each in extension.notifications} == {"status"}
        await reject_foreign_names(clients, extensions)
        await respond_to_foreign_request(clients, extensions)
        newcomer = await stack.enter_async_context(node.client(token_of("alice", "client")))
        await time_rejections(newcomer, extensions["bob"][0].extension_id)


async def reject_foreign_names(
    clients: dict[str, list[ForeignClient]], extensions: dict[str, list[ForeignExtension]]
) -> None:
    """Ids of another user and of the proxy's own requests are rejected."""
    client, other = clients["alice"][0], clients["bob"][0]
    await client.ask("disconnect")
    listed = (await client.ask("list_extensions"))["result"]["extensions"]
    assert [each["id"] for each in listed] == [each.extension_id for each in extensions["alice"]]
    unknown = await client.ask("connect", extension_id="ext-00000000-0000-0000-0000-000000000000")
    foreign = await client.ask("connect", extension_id=extensions["bob"][0].extension_id)
    assert unknown["error"] == foreign["error"]
    assert foreign["error"]["code"] == -32000
    await client.connect(extensions["alice"][0])
    await client.send(id=900, method="getTabs", connectionId=other.connection_id)
    assert (await client.receive_response())["error"]["code"] == -32602
    for name in ("proxy:1", "ext:1"):
        await client.send(id=name, method="getTabs")
        assert (await client.receive_response())["error"]["code"] == -32600
    # A text in the form of another connection's id is an id like any other.
    await client.send(id=f"{other.connection_id}:1", method="getTabs", params={})
    assert (await client.receive_response())["result"]["extension"] == "alice 1"


async def respond_to_foreign_request(
    clients: dict[str, list[ForeignClient]], extensions: dict[str, list[ForeignExtension]]
) -> None:
    """An extension that responds to a request of another extension reaches no client."""
    client, extension, other = clients["alice"][1], extensions["alice"][0], extensions["bob"][0]
    own_answer, extension.answer = extension.answer, lambda _: None
    extension.requests.clear()
    await client.send(id="mine", method="getTabs", params={})
    await extension.until(lambda each: len(each.requests) == 1)
    request = extension.requests[0]
    await other.send(id=request["id"], result="forged")
    assert (await clients["bob"][0].ask("getTabs"))["result"]["extension"] == "bob 1"
    await extension.send(id=request["id"], result="right")
    assert await client.receive_response() == {"jsonrpc": "2.0", "id": "mine", "result": "right"}
    extension.answer = own_answer


async def time_rejections(client: ForeignClient, foreign_id: str) -> None:
    """A rejection takes as long for another user's extension as for an unknown one."""
    names = {"foreign": foreign_id, "unknown": "ext-" + foreign_id[4:][::-1]}
    times: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(TIMED):
        for name, extension_id in names.items():
            begun = time.perf_counter()
            response = await client.ask("connect", extension_id=extension_id)
            times[name].append(time.perf_counter() - begun)
            assert response["error"]["code"] == -32000
    foreign, unknown = (statistics.median(times[name]) for name in ("foreign", "unknown"))
    assert 0.5 < foreign / unknown < 2, json.dumps({"foreign": foreign, "unknown": unknown})
