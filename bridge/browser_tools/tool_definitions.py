"""Definitions of the browser tools, read from `tool_definitions.json`.

`make docs` writes that file from the tools (`tests/architecture/generated_files.py`).
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import msgspec

FILE = Path(__file__).with_suffix(".json")


class ToolDefinition(msgspec.Struct, frozen=True, rename="camel"):
    """One tool of the list."""

    has_read_only_calls: bool
    """At least some of its calls change neither the page nor the browser."""
    definition: dict[str, Any]

    @property
    def name(self) -> str:
        """Name of the tool."""
        name: str = self.definition["name"]
        return name


@cache
def read_definitions() -> tuple[ToolDefinition, ...]:
    """Return the definitions in the order of the tool list."""
    return msgspec.json.decode(FILE.read_bytes(), type=tuple[ToolDefinition, ...])
