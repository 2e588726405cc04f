"""A page's tool, checked: what is not an MCP Tool is left out by itself and named in the log."""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass
from typing import Any

import msgspec

from native_host import wire

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PageTool:
    """A tool as its page defines it, unknown members included."""

    name: str
    definition: dict[str, Any]
    raw: bytes
    """The definition byte for byte: two that are equal here are the same tool."""
    digest: bytes
    """Of `raw`, for who has to remember many."""

    @classmethod
    def of(cls, name: str, definition: dict[str, Any], raw: bytes) -> PageTool:
        """A tool whose definition has been checked."""
        return cls(name, definition, raw, hashlib.blake2b(raw, digest_size=16).digest())

    @property
    def is_repeatable(self) -> bool:
        """Whether its page says that running it twice does no harm."""
        return self.is_read_only or self._says("idempotentHint")

    @property
    def is_read_only(self) -> bool:
        """Whether its page says that it changes nothing."""
        return self._says("readOnlyHint")

    def _says(self, hint: str) -> bool:
        annotations = self.definition.get("annotations")
        return isinstance(annotations, dict) and annotations.get(hint) is True

    @property
    def description(self) -> str:
        """The page's own words, or empty."""
        return str(self.definition.get("description") or "")


class _NotAToolError(ValueError):
    pass


def read_tools(announced: wire.FrameTools) -> list[PageTool]:
    """The tools of a frame, in its order; of two with one name the first."""
    tools: dict[str, PageTool] = {}
    for raw in announced.tools:
        try:
            tool = _read(bytes(raw))
        except (msgspec.DecodeError, RecursionError, _NotAToolError) as error:
            _log.warning("%s offers something that is no MCP tool, left out: %s", announced.origin, error)
            continue
        if tool.name in tools:
            _log.warning("%s offers %r twice, the first one counts", announced.origin, tool.name)
            continue
        tools[tool.name] = tool
    return list(tools.values())


def _read(raw: bytes) -> PageTool:
    definition = msgspec.json.decode(raw, type=dict[str, Any])
    name = definition.get("name")
    if not isinstance(name, str) or not name:
        raise _NotAToolError("it has no name")
    if not isinstance(definition.get("description"), str | None):
        raise _NotAToolError(f"the description of {name!r} is no text")
    schema = definition.get("inputSchema")
    if schema is None:
        schema = {}
    if not isinstance(schema, dict) or schema.get("type", "object") != "object":
        raise _NotAToolError(f"the inputSchema of {name!r} does not describe an object")
    # MCP asks for the type; many pages leave it out, and arguments are an object anyway.
    definition["inputSchema"] = {"type": "object", **schema}
    return PageTool.of(name, definition, raw)
