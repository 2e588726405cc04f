"""Log messages of pages to one client: of a session since `logging/setLevel`, or of a request.

The first is the handshake era's. Since MCP 2026-07-28 the level stands in the `_meta` of each request.
"""

from __future__ import annotations

from collections.abc import Callable

from bridge.hub.primitives.log_message import MESSAGE, LogLevel, LogMessage, LogRecipient
from bridge.mcp_session.client_writer import UNREAD_BYTES, Client, make_notification

Listen = Callable[[LogRecipient], Callable[[], None]]
"""Sends a recipient what the session's documents log; returns what ends that."""


class SessionLog:
    """`LogRecipient` of a session: without a level, the session receives nothing."""

    def __init__(self, client: Client, listen: Listen) -> None:
        self.level: LogLevel | None = None
        self._client = client
        self._listen = listen
        self._end: Callable[[], None] | None = None

    def set_level(self, level: LogLevel) -> None:
        """Receive messages from this level on."""
        self.level = level
        if self._end is None:
            self._end = self._listen(self)

    def write(self, message: LogMessage) -> bool:
        """See `LogRecipient`."""
        return _write_message(self._client, message)

    def end(self) -> None:
        """Receive nothing more."""
        if self._end:
            self._end()


class RequestLog:
    """`LogRecipient` of a request."""

    def __init__(self, client: Client, level: LogLevel) -> None:
        self.level = level
        self._client = client

    def write(self, message: LogMessage) -> bool:
        """See `LogRecipient`."""
        return _write_message(self._client, message)


def _write_message(client: Client, message: LogMessage) -> bool:
    if client.waiting_bytes > UNREAD_BYTES:
        return False
    client.write(make_notification(MESSAGE, message.params))
    return True
