"""Port of blueprint's free mode: without a token, for extensions in browsers of the same user alone."""

from __future__ import annotations

import socket
from pathlib import Path

from websockets.trio.client import connect
from websockets.typing import Origin

from proxy_node import OPTIONS, ForeignExtension, run_in_thread, running_node
from raw_websocket import raw_opened

EXTENSION = Origin("chrome-extension://kpbeldddkjgjapiiihnkdbhddkgamimb")


def find_free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


async def test_an_extension_without_a_token_belongs_to_the_home_user(mcpb_home: Path) -> None:
    port = find_free_port()
    (mcpb_home / "config.toml").write_text(f"[proxy]\nadmin_port = 0\ndirect_port = {port}\n")
    url = f"ws://127.0.0.1:{port}"
    async with running_node(mcpb_home) as node:
        assert f"{url}/extension" in node.printed
        rejected = [
            ("/extension", {}, 403),
            ("/extension", {"Origin": "http://localhost:8080"}, 403),
            ("/mcp", {}, 403),
            ("/extension", {"Origin": EXTENSION, "Host": "rebound.example"}, 421),
        ]
        for path, headers, status in rejected:
            async with raw_opened(f"{url}{path}", headers=headers) as (response, _):
                assert response.status_code == status, (path, headers)
        async with connect(f"{url}/extension", origin=EXTENSION, **OPTIONS) as opened:
            await opened.send('{"type":"handshake","browser":"Chrome","version":"1.9.20","buildTimestamp":0}')
            extension = ForeignExtension(opened, lambda _: {})
            confirmed = await extension.receive()
            assert confirmed["method"] == "authenticated"
            token = (await run_in_thread("token", "--scope", "client")).strip()
            async with node.client(token) as client:
                listed = (await client.ask("list_extensions"))["result"]["extensions"]
                assert [each["name"] for each in listed] == ["Chrome"]
                await client.connect(confirmed["params"]["extension_id"])
                await client.send(id="a", method="getTabs")
                while "id" not in (request := await extension.receive()):
                    pass
                await extension.send(id=request["id"], result={"tabs": []})
                assert (await client.receive_response())["result"] == {"tabs": []}
        await node.until_metric("extensions 0")
