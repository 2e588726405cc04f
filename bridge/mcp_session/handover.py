"""Handover of a session: what it passes to the SDK session, line by line."""

from __future__ import annotations

from typing import NamedTuple

from bridge.hub.tool_schema import Era
from bridge.mcp_session.client_writer import Client

GOODBYE_S = 1.0
"""After a client's last line, for answers to what was asked before it."""


class Passed(NamedTuple):
    """A line for the package."""

    line: bytes
    client: Client
    """Gets what concerns its request."""


class Missed(NamedTuple):
    """What the package was not told, because it was not needed."""

    era: Era | None
    opening: bytes
    """The line that began a handshake."""
    is_initialized: bool
