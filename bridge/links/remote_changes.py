"""Changes that a remote server reports: resource subscriptions, and `subscriptions/listen` of 2026-07-28.

In the handshake era the transport's own stream has them; here the subscriptions are made again after a
reconnect. In 2026-07-28 one listen request has them all: it is replaced when the subscriptions change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import trio

from bridge.links.remote_calls import CallClock
from bridge.links.remote_problem import RemoteProblem, RemoteReportedError
from bridge.links.remote_sync import Backoff

if TYPE_CHECKING:
    from bridge.links.remote_client import RemoteConnection

REQUEST_S = 10.0
OPENING_S = 0.25
"""Seconds that the first sync waits for the stream of changes; a later stream causes a second sync."""
_LIST_CHANGES = {
    "tools": "toolsListChanged",
    "prompts": "promptsListChanged",
    "resources": "resourcesListChanged",
}


class RemoteChanges:
    """Subscriptions of one server, on whatever connection it has."""

    def __init__(self, warn: Callable[[str], None]) -> None:
        self.opened = trio.Event()
        """Set when the current connection reports changes, or when it never will."""
        self.on_missed: Callable[[], None] = lambda: None
        """Changes may have been missed before the stream was opened."""
        self._warn = warn
        self._uris: set[str] = set()
        self._connection: RemoteConnection | None = None
        self._is_changed = trio.Event()
        self._is_acknowledged = trio.Event()
        self._has_opened = False

    def begin(self) -> None:
        """Begin with a new connection."""
        self.opened = trio.Event()
        self._has_opened = False

    def report_opened(self) -> None:
        """Note that changes are reported from now on."""
        is_late = self._has_opened
        self._has_opened = True
        self.opened.set()
        if is_late:
            self.on_missed()

    def skip_opening(self) -> None:
        """Wait no longer for the stream: whenever it opens, changes may have been missed."""
        self._has_opened = True

    def report_none(self, reason: str) -> None:
        """Note that the server reports no changes."""
        self.opened.set()
        self._warn(f"changes are not reported: {reason}")

    async def subscribe(self, uri: str) -> None:
        """Receive updates of a resource, on this connection and on all later ones.

        Raises:
            RemoteProblem: the request has failed; the URI is not subscribed.
            RemoteReportedError: the server rejects it.
        """
        self._uris.add(uri)
        connection = self._connection
        if connection is None:
            return
        if connection.is_modern:
            await self._replace_listen()
            return
        try:
            await self._request(connection, "resources/subscribe", uri)
        except (RemoteProblem, RemoteReportedError):
            self._uris.discard(uri)
            raise

    async def unsubscribe(self, uri: str) -> None:
        """End a subscription; a server that cannot be reached has ended it already."""
        self._uris.discard(uri)
        connection = self._connection
        if connection is None:
            return
        if connection.is_modern:
            self._is_changed.set()
            return
        await self._request(connection, "resources/unsubscribe", uri)

    async def serve(self, connection: RemoteConnection, *, watch: bool) -> None:
        """Keep the subscriptions of a connection, until it is lost or cancelled."""
        self._connection = connection
        try:
            if connection.is_modern:
                if watch:
                    await self._listen(connection)
                else:
                    self.opened.set()
            else:
                await self._subscribe_again(connection)
                if connection.transport != "streamable-http" or not watch:
                    self.opened.set()
                await connection.lost.wait()
        finally:
            self._connection = None

    async def _replace_listen(self) -> None:
        if self._is_acknowledged.is_set():
            self._is_acknowledged = trio.Event()
        self._is_changed.set()
        with trio.move_on_after(REQUEST_S):
            await self._is_acknowledged.wait()

    async def _subscribe_again(self, connection: RemoteConnection) -> None:
        for uri in sorted(self._uris):
            try:
                await self._request(connection, "resources/subscribe", uri)
            except RemoteReportedError as error:
                self._warn(f"a resource subscription was rejected: {error.detail}")
            except RemoteProblem as problem:
                self._warn(f"a resource subscription has failed: {problem.detail}")

    async def _request(self, connection: RemoteConnection, method: str, uri: str) -> None:
        await connection.request(method, {"uri": uri}, clock=CallClock(REQUEST_S))

    async def _listen(self, connection: RemoteConnection) -> None:
        """Replace the listen request whenever the subscriptions change, without a gap."""
        async with trio.open_nursery() as nursery:
            previous: trio.CancelScope | None = None
            while not connection.lost.is_set():
                self._is_changed = trio.Event()
                wanted = self._wanted(connection)
                current = trio.CancelScope()
                if wanted:
                    nursery.start_soon(self._keep_listening, connection, wanted, current, previous)
                else:
                    self.opened.set()
                    if previous is not None:
                        previous.cancel()
                previous = current
                await self._is_changed.wait()

    def _wanted(self, connection: RemoteConnection) -> dict[str, Any]:
        capabilities = connection.capabilities
        wanted: dict[str, Any] = {
            name: True
            for capability, name in _LIST_CHANGES.items()
            if isinstance(capabilities.get(capability), dict) and capabilities[capability].get("listChanged")
        }
        if self._uris:
            wanted["resourceSubscriptions"] = sorted(self._uris)
        return wanted

    async def _keep_listening(
        self,
        connection: RemoteConnection,
        wanted: dict[str, Any],
        scope: trio.CancelScope,
        previous: trio.CancelScope | None,
    ) -> None:
        """Listen until cancelled; a stream that ends is opened again, at first at once."""
        backoff = Backoff()
        acknowledged = self._is_acknowledged
        is_first = True

        def on_opened() -> None:
            acknowledged.set()
            if is_first and previous is not None:
                previous.cancel()
            else:
                self.report_opened()

        with scope:
            while await self._try_to_listen(connection, wanted, on_opened):
                if not is_first:
                    await trio.sleep(backoff.next_delay_s())
                is_first = False

    async def _try_to_listen(
        self, connection: RemoteConnection, wanted: dict[str, Any], on_opened: Callable[[], None]
    ) -> bool:
        """Listen once; return whether to try again."""
        try:
            await connection.listen(wanted, on_opened)
        except RemoteReportedError as error:
            self.report_none(f"it rejects subscriptions/listen with error {error.code}")
            return False
        except RemoteProblem as problem:
            if not problem.may_recover:
                self.report_none(problem.detail)
                return False
        return not connection.lost.is_set()
