"""MCP server of a simulated page: what it offers beside tools, and what it answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

Answer = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]
"""Returns the MCP result of a method (`resources/read`, `prompts/get`, …) with these params."""


class ServerError(Exception):
    """The server answers with a JSON-RPC error."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.error: dict[str, Any] = {"code": code, "message": message}
        if data is not None:
            self.error["data"] = data


@dataclass
class PageServer:
    """Lists in wire spelling, and one function that answers all requests."""

    answer: Answer
    resources: list[dict[str, Any]] = field(default_factory=list)
    resource_templates: list[dict[str, Any]] = field(default_factory=list)
    prompts: list[dict[str, Any]] = field(default_factory=list)
    rejects_watch: str = ""
    """Message with which it rejects each subscription; empty: it takes them."""

    @property
    def capabilities(self) -> dict[str, Any]:
        """Capabilities as `initialize` states them."""
        return {
            "tools": {"listChanged": True},
            "resources": {"listChanged": True, "subscribe": True},
            "prompts": {"listChanged": True},
            "completions": {},
        }
