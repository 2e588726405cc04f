"""End of a node: running requests finish, every response comes once, then 1001 and exit status 0."""

from __future__ import annotations

import signal
from collections import Counter
from pathlib import Path
from typing import Any

import httpx2
import trio

from proxy_node import SOON_S, ForeignClient, ForeignExtension, ProxyNode, running_node, write_config
from raw_websocket import raw_opened

END_S = 10.0
CLIENTS = 4


class Load:
    """Clients that send one request after the other until their sockets are closed."""

    def __init__(self) -> None:
        self.responses: Counter[tuple[str, int]] = Counter()
        self.sent: set[tuple[str, int]] = set()
        self.errors: list[dict[str, Any]] = []
        self.ends: list[tuple[int, str]] = []
        self.notifications: list[list[str]] = []

    async def run(self, node: ProxyNode, extension: ForeignExtension, name: str) -> None:
        async with node.client() as client, trio.open_nursery() as nursery:
            await client.connect(extension)
            nursery.start_soon(self._send, client, name, nursery.cancel_scope)
            methods = []
            async for message in client.socket:
                found = client.read(message)
                if "id" not in found:
                    methods.append(found["method"])
                    continue
                self.responses[name, found["id"]] += 1
                if "error" in found:
                    self.errors.append(found["error"])
            self.ends.append((client.socket.close_code or 0, client.socket.close_reason or ""))
            self.notifications.append(methods)
            nursery.cancel_scope.cancel()

    async def _send(self, client: ForeignClient, name: str, scope: trio.CancelScope) -> None:
        for number in range(1000, 100_000):
            self.sent.add((name, number))
            if not await client.try_send(id=number, method="getTabs"):
                return
            await trio.sleep(0.002)
        scope.cancel()


async def test_under_load_running_requests_finish_and_no_response_comes_twice(mcpb_home: Path) -> None:
    write_config(mcpb_home)
    held: list[dict[str, Any]] = []

    def answer(message: dict[str, Any]) -> Any:
        if message["method"] != "hold":
            return {}
        held.append(message)
        return None

    async with running_node(mcpb_home) as node, node.extension(answer=answer) as extension:
        load = Load()
        async with node.client() as client, trio.open_nursery() as nursery:
            await client.connect(extension)
            await client.send(id="held", method="hold")
            for number in range(CLIENTS):
                nursery.start_soon(load.run, node, extension, f"client {number}")
            await extension.until(lambda each: len(each.requests) > 20 * CLIENTS and bool(held))
            begun_s = trio.current_time()
            node.process.send_signal(signal.SIGTERM)
            await node.until_event("draining")
            async with raw_opened(f"{node.base}/mcp") as (response, _):
                assert response.status_code == 503
                assert int(response.headers["Retry-After"]) > 0
            async with httpx2.AsyncClient(timeout=SOON_S, trust_env=False) as http:
                assert (await http.get(f"{node.base.replace('ws', 'http', 1)}/extension")).status_code == 503
                assert (await http.get(f"{node.admin_url}/ready")).status_code == 503
                assert (await http.get(f"{node.admin_url}/health")).status_code == 200
            await client.send(id="late", method="getTabs")
            late = await client.receive_response()
            assert (late["id"], late["error"]["code"], late["error"]["data"]["handed"]) == (
                "late",
                -32010,
                False,
            )
            await extension.send(id=held[0]["id"], result={"finished": True})
            assert (await client.receive_response())["result"] == {"finished": True}
            assert (await client.wait_end())[0] == 1001
        assert await node.process.wait() == 0
        assert trio.current_time() - begun_s < END_S
        assert set(load.responses.values()) == {1}
        assert {(error["code"], error["data"]["handed"]) for error in load.errors} <= {(-32010, False)}
        # Without a response are only those that were sent while the socket closed, the last ones.
        for name in {name for name, _ in load.sent}:
            answered = {number for each, number in load.responses if each == name}
            assert answered == set(range(1000, 1000 + len(answered)))
        assert {code for code, _ in load.ends} == {1001}
        assert all("status" in methods[-3:] for methods in load.notifications)
        assert (await extension.until_closed())[0] == 1001
        statuses = [each["params"] for each in extension.notifications if each["method"] == "status"]
        assert not statuses[-1]["connected"]


async def test_a_request_that_does_not_finish_may_have_run(mcpb_home: Path) -> None:
    write_config(mcpb_home, "drain_s = 0.5")
    async with running_node(mcpb_home) as node, node.extension(answer=lambda _: None) as extension:
        async with node.client() as client:
            await client.connect(extension)
            await client.send(id=7, method="getTabs")
            await extension.until(lambda each: len(each.requests) == 1)
            node.process.send_signal(signal.SIGINT)
            response = await client.receive_response()
            assert (response["error"]["code"], response["error"]["data"]["handed"]) == (-32010, True)
            assert (await client.wait_end())[0] == 1001
        assert await node.process.wait() == 0


async def test_a_second_signal_ends_the_node_at_once(mcpb_home: Path) -> None:
    write_config(mcpb_home)
    async with (
        running_node(mcpb_home) as node,
        node.extension(answer=lambda _: None) as extension,
        node.client() as client,
    ):
        await client.connect(extension)
        await client.send(id=7, method="getTabs")
        await extension.until(lambda each: len(each.requests) == 1)
        node.process.send_signal(signal.SIGTERM)
        await node.until_event("draining")
        begun_s = trio.current_time()
        assert await node.end(signal.SIGTERM) == 0
        assert trio.current_time() - begun_s < 5
