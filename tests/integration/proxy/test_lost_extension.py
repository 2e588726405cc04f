"""An extension that is lost with calls in every state: each has one error, which says what may have run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from certificates import make_certificate
from proxy_node import ForeignClient, running_node, token_of, write_config
from raw_websocket import RawPeer, raw_connected

HALF_WRITTEN_BYTES = 12 * 1024 * 1024
"""More than the kernel stores for a peer that does not read, and less than a client may queue."""


async def sign_in(extension: RawPeer) -> str:
    """The id of the extension."""
    await extension.receive()
    await extension.send(
        id="proxy:1", result={"name": "Chrome", "accessToken": token_of("alice", "extension")}
    )
    return str((await extension.receive())["params"]["extension_id"])


async def receive_request(extension: RawPeer) -> dict[str, object]:
    while "id" not in (message := await extension.receive()):
        pass
    found: dict[str, object] = message
    return found


async def collect_errors(client: ForeignClient, count: int) -> dict[int, tuple[int, bool]]:
    """Code and `handed` of the next responses, none of which is a second one."""
    found: dict[int, tuple[int, bool]] = {}
    for _ in range(count):
        response = await client.receive_response()
        assert response["id"] not in found
        found[response["id"]] = response["error"]["code"], response["error"]["data"]["handed"]
    return found


@pytest.mark.parametrize("with_tls", [False, True])
async def test_each_call_of_a_lost_extension_has_one_error_that_says_whether_it_may_have_run(
    mcpb_home: Path, with_tls: bool
) -> None:
    write_config(mcpb_home)
    made = make_certificate(mcpb_home)
    options = ["--tls-cert", str(made.certificate), "--tls-key", str(made.key)] if with_tls else []
    tls = made.client_context() if with_tls else None
    async with running_node(mcpb_home, *options, tls=tls) as node:
        url = f"{node.base}/extension"
        async with raw_connected(url, buffer_bytes=4096, tls=tls) as extension, node.client() as client:
            name = await sign_in(extension)
            await client.connect(name)
            await client.send(id="answered", method="getTabs")
            request = await receive_request(extension)
            await extension.send(id=request["id"], result={})
            assert (await client.receive_response())["id"] == "answered"
            for number in (1, 2):
                await client.send(id=number, method="getTabs")
            await receive_request(extension)
            partly = await receive_request(extension)
            extension.protocol.send_text(json.dumps({"id": partly["id"], "result": {}}).encode())
            (frame,) = extension.protocol.data_to_send()
            await extension.stream.send_all(frame[:-3])
            await client.send(id=3, method="forwardCDPCommand", params={"text": "x" * HALF_WRITTEN_BYTES})
            for number in range(4, 9):
                await client.send(id=number, method="getTabs")
            await node.until_metric("requests_in_flight 8")
            extension.abort()
            errors = await collect_errors(client, 8)
            assert errors == {number: (-32010, number <= 3) for number in range(1, 9)}
            # Nothing follows but the end of the connection: the next request has its own response.
            assert (await client.ask("getTabs"))["error"]["code"] == -32000
            reasons = [
                each["params"]["reason"] for each in client.notifications if each["method"] == "disconnected"
            ]
            assert reasons in ([], ["Connection lost"])
