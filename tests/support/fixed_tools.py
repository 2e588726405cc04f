"""The tools that every client is shown, whatever pages offer."""

from __future__ import annotations

from bridge.browser_tools.provider import FAMILIES
from bridge.hub.meta_tools import TOOLS

FIXED: list[str] = [*(tool["name"] for tool in TOOLS), *(tool.name for family in FAMILIES for tool in family)]
"""Their names, in the order of the list."""
