"""Roots of one session's client, kept until the client reports a change.

Only the handshake era has such reports. Since MCP 2026-07-28, each call that needs roots requests them.
"""

from __future__ import annotations

from bridge.hub.server_request import ROOTS, ServerRequest
from bridge.hub.transport import OnRequest
from native_host.protocol import wire


class ClientRoots:
    """Result of the latest `roots/list`."""

    def __init__(self) -> None:
        self._listed = b""
        self._changes = 0

    def discard(self) -> None:
        """Request them again when they are needed next: the client has reported a change."""
        self._listed = b""
        self._changes += 1

    async def send_request(self, send: OnRequest, request: ServerRequest) -> bytes:
        """Return the result of a request, which is sent unless it asks for known roots. Raises as `send`."""
        if not isinstance(request, wire.PageRequest) or request.method != ROOTS:
            return await send(request)
        if self._listed:
            return self._listed
        changes = self._changes
        listed = await send(request)
        if changes == self._changes:  # else they may be those before the change
            self._listed = listed
        return listed
