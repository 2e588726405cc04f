"""Notifications of updated resources to one client: while it reads slowly, one of each resource waits."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import trio

from bridge.mcp_session.client_writer import UNREAD_BYTES, Client, make_notification


class ResourceUpdates:
    """Writes `notifications/resources/updated`."""

    def __init__(self, client: Client, nursery: trio.Nursery, meta: Mapping[str, Any] | None = None) -> None:
        """`meta` is the `_meta` of each notification."""
        self._client = client
        self._nursery = nursery
        self._more = {"_meta": meta} if meta else {}
        self._waiting: dict[str, None] = {}
        """URIs, the longest waiting first."""
        self._is_waiting = False

    def write(self, uri: str) -> None:
        """Notify the client, as soon as it reads."""
        if not self._is_waiting and self._client.waiting_bytes <= UNREAD_BYTES:
            self._write(uri)
            return
        self._waiting[uri] = None
        if not self._is_waiting:
            self._is_waiting = True
            self._nursery.start_soon(self._write_later)

    async def _write_later(self) -> None:
        with suppress(trio.BrokenResourceError):
            while self._waiting:
                await self._client.wait_room(UNREAD_BYTES)
                uri = next(iter(self._waiting))
                del self._waiting[uri]
                self._write(uri)
        self._is_waiting = False

    def _write(self, uri: str) -> None:
        self._client.write(make_notification("notifications/resources/updated", {"uri": uri, **self._more}))
