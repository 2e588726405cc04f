"""What the person allows: which origins and tools, and under which description. Pure; read from config.toml."""

from __future__ import annotations

from bridge.hub.page_tool import PageTool


class Policy:
    """Everything is allowed, unless the rules say otherwise."""

    def refusal(self, origin: str, tool: PageTool) -> str:
        """Which rule forbids the tool, in words for the person; empty when none does."""
        del origin, tool
        return ""

    def origin_refusal(self, origin: str) -> str:
        """Which rule forbids to open this origin or to use its tools; empty when none does."""
        del origin
        return ""

    def description(self, origin: str, own_name: str) -> str | None:
        """The person's own description in place of the page's; None where there is none."""
        del origin, own_name
        return None
