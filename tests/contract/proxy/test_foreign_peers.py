"""Peers by the specification alone: its two JavaScript samples in Node, and Python's websockets."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from foreign_clients import NODE
from proxy_node import SOON_S, ForeignClient, ProxyNode, token_of
from proxy_samples import FOLDER

IDS = [
    "0",
    "1",
    '"1"',
    '"550e8400-e29b-41d4-a716-446655440000"',
    '"a:b"',
    "9007199254740992",
    "9007199254740993",
    "1.0",
    "1e3",
]
"""As JSON text. The responses have them as they were written."""


class RunningSample:
    """One of the samples in Node."""

    def __init__(self, process: trio.Process) -> None:
        self._process = process
        self._printed = b""
        self.received: list[dict[str, Any]] = []
        """Messages that it has received."""
        self.logged: list[str] = []
        """Lines that the sample itself has printed."""

    def find(self, method: str) -> list[dict[str, Any]]:
        """The requests or notifications of this name."""
        return [message for message in self.received if message.get("method") == method]

    async def until(self, condition: Callable[[RunningSample], object]) -> None:
        """Read what it prints until a condition is met."""
        assert self._process.stdout
        with trio.fail_after(SOON_S):
            while not condition(self):
                data = await self._process.stdout.receive_some()
                assert data, self.logged
                *lines, self._printed = (self._printed + data).split(b"\n")
                for line in map(bytes.decode, lines):
                    if line.startswith("received "):
                        self.received.append(json.loads(line.removeprefix("received ")))
                    else:
                        self.logged.append(line)


@asynccontextmanager
async def running_sample(name: str, node: ProxyNode, token: str) -> AsyncIterator[RunningSample]:
    """Run a sample, unmodified, at the node."""
    process = await trio.lowlevel.open_process(
        [NODE / "node", FOLDER / "run_sample.cjs", FOLDER / f"{name}_sample.js", node.base],
        env={**os.environ, "MCPB_TEST_TOKEN": token},
        stdout=subprocess.PIPE,
    )
    assert process.stdout
    try:
        yield RunningSample(process)
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()
            await process.stdout.aclose()


async def send_ids(client: ForeignClient) -> None:
    """Send requests with all ids at once; each response has the id of its request as that was written."""
    for number, raw_id in enumerate(IDS):
        params = json.dumps({"url": f"https://example.com/{number}"})
        await client.socket.send(
            f'{{"jsonrpc": "2.0", "id": {raw_id}, "method": "createTab", "params": {params}}}'
        )
    results: dict[str, Any] = {}
    with trio.fail_after(SOON_S):
        while len(results) < len(IDS):
            text = await client.socket.recv()
            assert isinstance(text, str)
            head, separator, result = text.partition(',"result":')
            if separator:
                results[head] = json.loads(result.removesuffix("}"))
    assert results == {
        f'{{"jsonrpc":"2.0","id":{raw_id}': {"tabId": 42, "url": f"https://example.com/{number}"}
        for number, raw_id in enumerate(IDS)
    }


async def test_the_javascript_samples_of_the_specification_work_unmodified(node: ProxyNode) -> None:
    user = "user of the samples"
    token = token_of(user, "client")
    async with running_sample("extension", node, token_of(user, "extension")) as extension:
        await extension.until(lambda it: it.find("authenticated"))
        assert extension.logged[0] == "Connected, waiting for proxy auth request..."

        async with running_sample("client", node, token) as client:
            await client.until(lambda it: it.received and it.received[-1].get("id") == 4)
        responses = [message for message in client.received if "id" in message]
        assert [message["id"] for message in responses] == [1, 2, 3, 4]
        assert responses[3]["result"] == {"tabId": 42, "url": "..."}
        # The sample sends a `connectionId`, and the extension never sees it.
        await extension.until(lambda it: it.find("createTab"))
        (request,) = extension.find("createTab")
        connection = responses[2]["result"]["connection_id"]
        assert request == {
            "jsonrpc": "2.0", "id": f"{connection}:4", "method": "createTab", "params": {"url": "..."},
        }  # fmt: skip

        # An id of 0 is a text in the extension, where the sample would take the number for no id.
        async with node.client(token) as other:
            (listed,) = (await other.ask("list_extensions"))["result"]["extensions"]
            assert listed == {"id": listed["id"], "name": "Chrome 141", "connected": True}
            await other.connect(listed["id"])
            await send_ids(other)
            assert (await other.ask("activateTab"))["result"] == {}
            error = {"code": -32000, "message": "No such tab"}
            assert (await other.ask("closeTab"))["error"] == error


@pytest.mark.parametrize("names_connection", [False, True])
async def test_websockets_works_at_both_ends(node: ProxyNode, names_connection: bool) -> None:
    user = f"user of websockets {names_connection}"

    def answer(message: dict[str, Any]) -> Any:
        return {"tabId": 42, "url": message["params"]["url"]}

    async with (
        node.extension(token_of(user, "extension"), answer) as extension,
        node.client(token_of(user, "client")) as client,
    ):
        (listed,) = (await client.ask("list_extensions"))["result"]["extensions"]
        connection = await client.connect(listed["id"])
        named = {"connectionId": connection} if names_connection else {}
        await client.send(id=4, method="createTab", params={"url": "..."}, **named)
        response = await client.receive_response()
        assert response == {"jsonrpc": "2.0", "id": 4, "result": {"tabId": 42, "url": "..."}}
        assert extension.requests == [
            {"jsonrpc": "2.0", "id": f"{connection}:4", "method": "createTab", "params": {"url": "..."}}
        ]
        await send_ids(client)
        sent = [json.loads(raw_id) if raw_id.startswith('"') else raw_id for raw_id in IDS]
        # The texts "1" and 1 have one suffix, so the second one has a number.
        expected = [f"{connection}:{own}" for own in sent]
        expected[2] = f"{connection}:1~2"
        assert [request["id"] for request in extension.requests[1:]] == expected
