"""Definitions of the browser tools, read from `tool_definitions.json`.

`make docs` writes that file from the tools (`tests/architecture/generated_files.py`).
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from bridge.hub.client_session import ListForm, ToolSet

FILE = Path(__file__).with_suffix(".json")
_SETS: tuple[ToolSet, ...] = ("core", "all", "claude-in-chrome")
"""Each has the tools of those before it."""


class ToolDefinition(msgspec.Struct, frozen=True, rename="camel"):
    """One tool of the list."""

    has_read_only_calls: bool
    """At least some of its calls change neither the page nor the browser."""
    accepts_unknown: bool
    """Arguments that it does not know are ignored; other tools reject them."""
    listed: ToolSet
    """The smallest set that it is in."""
    definition: dict[str, Any]

    def is_in(self, tool_set: ToolSet) -> bool:
        """Return whether a list of this set has it."""
        return _SETS.index(self.listed) <= _SETS.index(tool_set)

    def format_for(self, form: ListForm) -> dict[str, Any]:
        """Return the MCP Tool for a list of this form."""
        if form.is_structured:
            return self.definition
        return {name: value for name, value in self.definition.items() if name != "outputSchema"}

    @property
    def name(self) -> str:
        """Name of the tool."""
        name: str = self.definition["name"]
        return name


@cache
def read_definitions() -> tuple[ToolDefinition, ...]:
    """Return the definitions in the order of the tool list."""
    return msgspec.json.decode(FILE.read_bytes(), type=tuple[ToolDefinition, ...])
