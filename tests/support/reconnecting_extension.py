"""An extension that reconnects once a second without end, and quiet connections beside it."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import trio
from websockets.trio.client import connect

from proxy_node import ForeignClient, ForeignExtension, ProxyNode, token_of

PERIOD_S = 1.0
CALLS_PER_S = 5
USER, OTHER_USER = "user of the reconnecting browser", "another user"


class ReconnectingExtension:
    """The extension and the connections, as they go."""

    def __init__(self, node: ProxyNode, duration_s: int) -> None:
        self._node = node
        self.rounds = math.ceil(duration_s / PERIOD_S)
        self.extension_ids: list[str] = []
        """Id of each connection that was accepted."""
        self.closed: list[tuple[int, str]] = []
        """End of each connection whose token was rejected."""
        self.calls = 0
        """Calls of the quiet connections, each with the right response."""
        self.slowest_s = 0.0
        self.notices: list[dict[str, Any]] = []
        """Notifications to the quiet connections that say that something has changed."""
        self.finished = trio.Event()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run all of it beside the block."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._run)
            yield
            nursery.cancel_scope.cancel()

    async def _run(self) -> None:
        async with trio.open_nursery() as nursery:
            for user in (USER, OTHER_USER):
                await nursery.start(self._call_quietly, user)
            await self._reconnect()
            nursery.cancel_scope.cancel()
        self.finished.set()

    async def _reconnect(self) -> None:
        for number in range(self.rounds):
            next_at = trio.current_time() + PERIOD_S
            if number % 2:
                await self._connect_with_changed_token()
            else:
                async with self._node.extension(token_of(USER, "extension"), client_id="p1") as extension:
                    self.extension_ids.append(extension.extension_id)
            await trio.sleep_until(next_at)

    async def _connect_with_changed_token(self) -> None:
        async with connect(f"{self._node.base}/extension", **self._node.options) as socket:
            extension = ForeignExtension(socket, lambda _: None)
            asked = await extension.receive()
            await extension.send(
                id=asked["id"],
                result={"name": "Chrome 150", "access_token": token_of(USER, "client"), "client_id": "p1"},
            )
            self.closed.append(await extension.wait_end())

    async def _call_quietly(self, user: str, *, task_status: trio.TaskStatus[None]) -> None:
        def answer(message: dict[str, Any]) -> Any:
            return {"user": user, "params": message["params"]}

        node = self._node
        async with (
            node.extension(token_of(user, "extension"), answer, client_id="quiet") as extension,
            node.client(token_of(user, "client")) as client,
        ):
            await client.connect(extension)
            await self._call(client, user)
            await extension.until(lambda it: it.notifications[-1]["params"]["peer_count"] == 1)
            client.notifications.clear()
            extension.notifications.clear()
            task_status.started()
            try:
                while True:
                    await self._call(client, user)
                    await trio.sleep(1 / CALLS_PER_S)
            finally:
                received = [*client.notifications, *extension.notifications]
                self.notices += [each for each in received if not is_regular_status(each)]

    async def _call(self, client: ForeignClient, user: str) -> None:
        begun, number = trio.current_time(), self.calls
        response = await client.ask("getTabs", number=number)
        assert response["result"] == {"user": user, "params": {"number": number}}
        self.slowest_s = max(self.slowest_s, trio.current_time() - begun)
        self.calls += 1


def is_regular_status(message: dict[str, Any]) -> bool:
    """Return whether it is the `status` of a connection that is as before."""
    return bool(message["method"] == "status" and message["params"]["peer_count"] == 1)
