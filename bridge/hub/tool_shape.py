"""The shape of an MCP Tool, as the revisions of the protocol ask for it. Pure.

The rules are those of the `mcp` package's own models, which a test compares; the package is not needed.
"""

from __future__ import annotations

from enum import Enum, auto


class Era(Enum):
    """The two ways of speaking MCP. The revisions of one agree on what a tool is."""

    HANDSHAKE = auto()
    """2024-11-05 to 2025-11-25."""
    STATELESS = auto()
    """Since 2026-07-28."""
