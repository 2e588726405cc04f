"""The MCP Proxy Protocol Specification over real sockets: each of its JSON samples, and its three lifecycles.

The samples are in tests/data/proxy_protocol/samples.md. Where a test does not play one as it stands, it names
the decision (`D70`) of docs/PROXY_PROTOCOL.md.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from websockets.trio.client import connect

from native_host.protocol.wire import WIRE_VERSION
from proxy_node import ForeignClient, ForeignExtension, ProxyNode, token_of
from proxy_samples import CONNECTION, playing, read_chapters

SESSION = ("Connection Phase", "Message Forwarding Phase", "Notifications (Out-of-Band Messages)")
CONTROL = ("Control Methods",)


@asynccontextmanager
async def open_extension(node: ProxyNode) -> AsyncIterator[ForeignExtension]:
    """A socket at `/extension` that has sent nothing."""
    async with connect(f"{node.base}/extension", **node.options) as socket:
        yield ForeignExtension(socket, lambda _: None)


@asynccontextmanager
async def open_client(node: ProxyNode) -> AsyncIterator[ForeignClient]:
    """A socket at `/mcp` that has sent nothing."""
    async with connect(f"{node.base}/mcp", **node.options) as socket:
        yield ForeignClient(socket)


async def receive_but_status(peer: ForeignClient | ForeignExtension) -> Any:
    """The next message that is no `status`."""
    while (message := await peer.receive()).get("method") == "status":
        pass
    return message


# ── Samples ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_chapter_with_samples_is_played() -> None:
    chapters = read_chapters()
    assert set(chapters) == {*SESSION, *CONTROL}
    assert sum(map(len, chapters.values())) == 30


async def test_the_samples_of_a_session_are_what_its_sockets_send_and_receive(node: ProxyNode) -> None:
    with playing(*SESSION) as script:
        play = script.play
        async with open_extension(node) as extension, open_client(node) as client:
            await play("Proxy Requests Authentication", extension)
            await play("Extension Responds with Credentials", extension)
            ours = {"wire", "version"}  # for our own extension
            await play("Proxy Confirms Authentication (Notification)", extension, ours)

            await play("MCP Sends Handshake", client)
            await play("Proxy Responds with Authentication", client)
            await play("MCP Lists Available Extensions", client)
            await play("Proxy Returns Extension List", client)
            await play("MCP Connects to Extension", client)
            await play("Proxy Confirms Connection", client)

            command = await play("MCP Sends Command", client)
            # D70: the extension sees a mapped id, where this sample has the client's own.
            forwarded = await play("Proxy Forwards to Extension", extension, id=f"{CONNECTION}:100")
            await play("Extension Executes and Responds", extension, id=f"{CONNECTION}:100")
            await play("Proxy Forwards Response to MCP", client)

            # The samples of errors have the id of the same request. D71: its second use gets a number.
            await script.send(command, client)
            again = {**json.loads(forwarded.text), "id": script.real(f"{CONNECTION}:100~2")}
            assert await receive_but_status(extension) == again
            await play("If command fails", extension, id=f"{CONNECTION}:100~2")
            await play("Proxy forwards error to MCP", client)

            async with node.client(token_of("83898119-db4f-4848-9d27-ea328b73a4df", "client")) as second:
                await second.connect(script.real("ext-d1cdb70b-b20a-46ed-8fa7-7597a0f2837a"))
                # D84: the time is in UTC. A client has one peer.
                await play("Proxy → Extension/MCP", extension)
                assert (await second.receive())["params"].items() >= {
                    "connected": True,
                    "peer_count": 1,
                }.items()
            await extension.socket.aclose()
            await play("Proxy → MCP (when extension disconnects)", client)


async def test_the_samples_of_the_control_methods_are_what_the_sockets_send_and_receive(
    node: ProxyNode,
) -> None:
    user = "user of the control methods"
    with playing(*CONTROL, user=user) as script:
        play = script.play
        async with open_extension(node) as extension, open_client(node) as client:
            await play("authenticate: Request", extension)
            await play("authenticate: Response", extension)
            confirmed = (await extension.receive())["params"]
            assert confirmed["wire"] == WIRE_VERSION

            handshake = await play("mcp_handshake: Request", client)
            await play("mcp_handshake: Response (Success)", client)
            async with open_client(node) as other:
                await other.socket.send(handshake.text)  # with the token of the sample, which is none
                await play("mcp_handshake: Response (Error)", other, {"data"})
                assert await other.wait_end() == (1008, "Invalid token: malformed")

            async with node.extension(token_of(user, "extension"), name="Chrome 140"):
                await play("list_extensions: Request", client)
                await play("list_extensions: Response", client)

            request = await play("connect: Request", client)
            await play("connect: Response (Success)", client)
            async with node.client(token_of("another user", "client")) as other:
                await other.socket.send(request.text)  # with the id of the sample, which no extension has
                unknown = await other.receive()
                await script.send(request, other)
                await play("connect: Response (Error - Extension not found)", other, {"data"})
                await script.send(request, other)
                assert await other.receive() == unknown
            await script.send(request, client)
            await play("connect: Response (Error - Already connected)", client, {"data"})

            request = await play("disconnect: Request", client)
            await play("disconnect: Response", client)
            await script.send(request, client)  # without a connection
            response = {"jsonrpc": "2.0", "id": 4, "result": {"disconnected": True}}
            assert await receive_but_status(client) == response
            assert script.real("ext-d1cdb70b-b20a-46ed-8fa7-7597a0f2837a") == confirmed["extension_id"]


async def test_clients_that_send_the_same_id_receive_their_own_responses(node: ProxyNode) -> None:
    """ "ID Mapping by Proxy": the collision, and its solution."""
    token = token_of("user of two clients", "client")
    async with (
        node.extension(token_of("user of two clients", "extension")) as extension,
        node.client(token) as first,
        node.client(token) as second,
    ):
        connection = await first.connect(extension)
        await second.connect(extension)
        await first.send(id=1, method="navigate", params={}, connectionId=connection)
        await second.send(id=1, method="click", params={})
        assert await first.receive_response() == {"jsonrpc": "2.0", "id": 1, "result": {"method": "navigate"}}
        assert await second.receive_response() == {"jsonrpc": "2.0", "id": 1, "result": {"method": "click"}}
        assert sorted(extension.requests, key=lambda request: str(request["method"])) == [
            {"jsonrpc": "2.0", "id": f"{second.connection_id}:1", "method": "click", "params": {}},
            {"jsonrpc": "2.0", "id": f"{connection}:1", "method": "navigate", "params": {}},
        ]


async def test_each_error_of_json_rpc_has_its_code(node: ProxyNode) -> None:
    """ "Error Codes"."""
    async with node.client(token_of("user of errors", "client")) as client:
        for sent, code in [
            ("{", -32700),
            ('{"jsonrpc": "2.0", "id": 1}', -32600),
            ('{"id": 1, "method": "getTabs"}', -32600),
            ('{"jsonrpc": "2.0", "id": "proxy:1", "method": "getTabs"}', -32600),
            ('{"jsonrpc": "2.0", "id": 1, "method": "authenticate"}', -32601),
            ('{"jsonrpc": "2.0", "id": 1, "method": "connect", "params": {}}', -32602),
            ('{"jsonrpc": "2.0", "id": 1, "method": "getTabs"}', -32000),
        ]:
            await client.socket.send(sent)
            assert (await client.receive())["error"]["code"] == code, sent


# ── Lifecycles ──────────────────────────────────────────────────────────────────────────────────────────────


async def test_the_lifecycle_of_an_extension(node: ProxyNode) -> None:
    user = "user of a passive extension"
    # 1. Extension connects to proxy via WebSocket
    # 2. Extension waits (does NOT send handshake)
    async with open_extension(node) as extension:
        # 3. Proxy sends authenticate request: {"id": "proxy:1", "method": "authenticate", ...}
        assert await extension.receive() == {
            "jsonrpc": "2.0", "id": "proxy:1", "method": "authenticate", "params": {},
        }  # fmt: skip
        # 4. Extension responds with credentials: {"id": "proxy:1", "result": {...}}
        credentials = {"name": "Chrome 141", "accessToken": token_of(user, "extension")}
        await extension.send(id="proxy:1", result=credentials)
        # 5. Proxy sends authenticated notification (no id)
        confirmed = await extension.receive()
        assert (confirmed["method"], "id" in confirmed) == ("authenticated", False)
        # 6. Extension waits for forwarded commands from MCP
        async with node.client(token_of(user, "client")) as client:
            connection = await client.connect(confirmed["params"]["extension_id"])
            for method in ("createTab", "getTabs"):
                await client.send(id=method, method=method, params={})
                command = await receive_but_status(extension)
                assert command == {
                    "jsonrpc": "2.0", "id": f"{connection}:{method}", "method": method, "params": {},
                }  # fmt: skip
                # 7. Extension responds to each command with same id
                await extension.send(id=command["id"], result={})
                assert await client.receive_response() == {"jsonrpc": "2.0", "id": method, "result": {}}


async def test_the_lifecycle_of_a_client_whose_first_command_has_the_id_4(node: ProxyNode) -> None:
    user = "user of an active client"

    def answer(message: dict[str, Any]) -> Any:
        return {"tabId": 42, **message["params"]}

    # 1. MCP connects to proxy via WebSocket
    async with node.extension(token_of(user, "extension"), answer) as extension, open_client(node) as client:
        # 2. MCP sends handshake: {"id": 1, "method": "mcp_handshake", ...}
        # 3. Proxy responds: {"id": 1, "result": {...}}
        opened = await client.ask("mcp_handshake", accessToken=token_of(user, "client"))
        assert (opened["id"], opened["result"]["authenticated"]) == (1, True)
        # 4. MCP requests list_extensions: {"id": 2, "method": "list_extensions", ...}
        # 5. Proxy responds with list: {"id": 2, "result": {...}}
        listed = await client.ask("list_extensions")
        assert (listed["id"], len(listed["result"]["extensions"])) == (2, 1)
        # 6. MCP requests connect: {"id": 3, "method": "connect", ...}
        # 7. Proxy responds with connection_id: {"id": 3, "result": {"connection_id": "..."}}
        connection = await client.connect(listed["result"]["extensions"][0]["id"])
        # 8. MCP sends tool commands: {"id": 4, "method": "createTab", "params": {...}}
        response = await client.ask("createTab", url="https://example.com")
        # 9. Proxy maps ID and forwards: {"id": "conn-abc:4", "method": "createTab", "params": {...}}
        assert [(request["id"], request["method"]) for request in extension.requests] == [
            (f"{connection}:4", "createTab")
        ]
        # 10. Extension responds: {"id": "conn-abc:4", "result": {...}}
        # 11. Proxy unmaps ID and forwards: {"id": 4, "result": {...}}
        result = {"tabId": 42, "url": "https://example.com"}
        assert response == {"jsonrpc": "2.0", "id": 4, "result": result}


async def test_the_lifecycle_of_a_disconnection(node: ProxyNode) -> None:
    user = "user of disconnections"
    extension_token, token = token_of(user, "extension"), token_of(user, "client")
    async with node.client(token) as client:
        # If Extension disconnects: Proxy sends notification to MCP
        async with node.extension(extension_token, lambda _: None) as extension:
            connection = await client.connect(extension)
            await client.send(id="open", method="getTabs", params={})
            await extension.until(lambda it: len(it.requests) == 1)
        response = await client.receive_response()
        assert (response["id"], response["error"]["code"], response["error"]["data"]) == (
            "open", -32010, {"handed": True},
        )  # fmt: skip
        notice = {"connection_id": connection, "reason": "Extension closed"}
        assert (await receive_but_status(client))["params"] == notice

        # If MCP disconnects: Connection mapping removed, Extension can serve other MCPs
        async with node.extension(extension_token, lambda _: None) as extension:
            connection = await client.connect(extension)
            await client.send(id="late", method="getTabs", params={})
            await extension.until(lambda it: len(it.requests) == 1)
            await client.socket.aclose()
            await extension.until(
                lambda it: (
                    {"connection_id": connection, "reason": "MCP client closed"}
                    in [each["params"] for each in it.notifications]
                )
            )
            await extension.send(id=extension.requests[0]["id"], result="late")
            extension.answer = lambda message: {"method": message["method"]}
            async with node.client(token) as other:
                await other.connect(extension)
                assert (await other.ask("getTabs"))["result"] == {"method": "getTabs"}
                assert [each["method"] for each in other.notifications] == ["status"]

    # Either side can close WebSocket at any time
    for open_socket in (open_extension, open_client):
        async with open_socket(node) as peer:
            await peer.socket.aclose(4000, "before the authentication")
        assert peer.socket.close_code == 4000
