"""Handover of a session: what it passes to the SDK session, line by line."""

from __future__ import annotations

import msgspec

from bridge.hub.tool_schema import Era
from bridge.mcp_session.client_writer import Client

GOODBYE_S = 1.0
"""Seconds after a client's last line in which its earlier requests are still answered."""


class ForwardedLine(msgspec.Struct, frozen=True):
    """A client line for the SDK session."""

    line: bytes
    client: Client
    """Receives the response to the line, and its notifications."""


class SessionHandover(msgspec.Struct, frozen=True):
    """State of a session at the time when its SDK session starts."""

    era: Era | None
    opening: bytes
    """The `initialize` request, in the handshake era."""
    is_initialized: bool
