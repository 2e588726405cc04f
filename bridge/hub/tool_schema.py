"""Rules for a valid MCP Tool, in each era of the protocol. Sans-IO.

They are those of the `mcp` package's models, which a test compares, with one exception: that package converts
values (`"yes"` becomes true). A page's definition is sent unchanged, so its values must have the right type.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Any, Literal

import msgspec

from native_host.protocol.validation_errors import describe_problem


class Era(Enum):
    """The two ways of speaking MCP. The revisions of one agree on what a tool is."""

    HANDSHAKE = auto()
    """2024-11-05 to 2025-11-25."""
    STATELESS = auto()
    """Since 2026-07-28."""


class _Schema(msgspec.Struct, rename={"dialect": "$schema"}):
    """Any JSON Schema that is an object."""

    dialect: str | None = None


class _SchemaOfObject(_Schema, kw_only=True):
    type: Literal["object"]


class _SimpleSchema(_SchemaOfObject, kw_only=True):
    """All that the first era knew."""

    properties: dict[str, dict[str, Any] | bool] | None = None
    required: list[str] | None = None


_NAMES = {"input_schema": "inputSchema", "output_schema": "outputSchema", "meta": "_meta"}


class _StatelessTool(msgspec.Struct, rename=_NAMES):
    input_schema: _SchemaOfObject
    output_schema: _Schema | None = None
    meta: dict[str, Any] | None = None


class _HandshakeTool(msgspec.Struct, rename=_NAMES):
    input_schema: _SimpleSchema
    output_schema: _SimpleSchema | None = None


def find_fault(definition: dict[str, Any]) -> str:
    """Return why a definition with name and description is an MCP Tool in no era; empty if it is one.

    The reason quotes the page.
    """
    return _find_fault_in(definition, _StatelessTool)


def is_for(era: Era, definition: dict[str, Any]) -> bool:
    """Return whether a definition without a `fault` is an MCP Tool in this era."""
    return era is Era.STATELESS or not _find_fault_in(definition, _HandshakeTool)


def _find_fault_in(definition: dict[str, Any], shape: type[msgspec.Struct]) -> str:
    try:
        msgspec.convert(definition, shape)
    except msgspec.ValidationError as error:
        return describe_problem(error)
    return ""
