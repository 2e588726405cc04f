"""The tools that every client is shown, whatever pages offer."""

from __future__ import annotations

from bridge.browser_tools.tool_definitions import read_definitions
from bridge.hub.meta_tools import TOOLS

FIXED: list[str] = [*(tool["name"] for tool in TOOLS), *(tool.name for tool in read_definitions())]
"""Their names, in the order of the list."""
