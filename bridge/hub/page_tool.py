"""A page's tool, checked: what is not an MCP Tool is left out by itself and named in the log."""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass
from typing import Any

import msgspec

from bridge.hub.describing import cleaned
from native_host import wire

MAX_TOOLS = 1024
"""Of a frame. The extension has the same bound; nobody reads that many."""
_MAX_COMPLAINTS = 5
_MAX_SAID = 100

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
    complaints: list[str] = []
    for raw in announced.tools[:MAX_TOOLS]:
        try:
            tool = _read(bytes(raw))
        except (msgspec.DecodeError, RecursionError, _NotAToolError) as error:
            complaints.append(str(error))
            continue
        if tool.name in tools:
            complaints.append(f"{cleaned(tool.name, _MAX_SAID)!r} is there twice, the first one counts")
            continue
        tools[tool.name] = tool
    if len(announced.tools) > MAX_TOOLS:
        complaints.append(f"a frame may have {MAX_TOOLS} tools")
    _complain(announced, len(tools), complaints)
    return list(tools.values())


def _complain(announced: wire.FrameTools, kept: int, complaints: list[str]) -> None:
    """One line for each list: a page decides how much is wrong with it."""
    if complaints:
        why = "; ".join([*complaints[:_MAX_COMPLAINTS], *("…" for _ in complaints[_MAX_COMPLAINTS:][:1])])
        origin, given = cleaned(announced.origin, _MAX_SAID), len(announced.tools)
        _log.warning("%s: %d of %d tools left out: %s", origin, given - kept, given, why)


def _read(raw: bytes) -> PageTool:
    definition = msgspec.json.decode(raw, type=dict[str, Any])
    name = definition.get("name")
    if not isinstance(name, str) or not name:
        raise _NotAToolError("it has no name")
    if not isinstance(definition.get("description"), str | None):
        raise _NotAToolError(f"the description of {cleaned(name, _MAX_SAID)!r} is no text")
    schema = definition.get("inputSchema")
    if schema is None:
        schema = {}
    if not isinstance(schema, dict) or schema.get("type", "object") != "object":
        raise _NotAToolError(f"the inputSchema of {cleaned(name, _MAX_SAID)!r} does not describe an object")
    # MCP asks for the type; many pages leave it out, and arguments are an object anyway.
    definition["inputSchema"] = {"type": "object", **schema}
    return PageTool.of(name, definition, raw)
