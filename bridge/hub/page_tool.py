"""Page tool with a validated definition; invalid ones are left out and logged."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from bridge.hub import tool_schema
from bridge.hub.schemas.schema_limits import measure_extent
from bridge.hub.tool_definition import input_schema, output_schema
from bridge.hub.tool_schema import Era
from native_host.protocol import wire
from native_host.protocol.untrusted_text import single_line
from native_host.protocol.validation_errors import describe_problem

MAX_TOOLS = 1024
"""Tools of a frame. The extension has the same limit."""
_MAX_COMPLAINTS = 5
_MAX_SAID = 100

_log = logging.getLogger(__name__)
_definitions = msgspec.json.Decoder(dict[str, Any])


class PageTool(msgspec.Struct, frozen=True):
    """A tool as its page defines it, and what of that is asked for often."""

    name: str
    title: str
    """The page's own, or empty."""
    description: str
    """The page's own words, or empty."""
    is_read_only: bool
    """True if its page declares that it changes nothing."""
    is_repeatable: bool
    """True if its page declares that running it twice does no harm."""
    is_consequential: bool
    """True if its page declares that the user has to confirm each call (WebMCP)."""
    is_cacheable: bool
    """True if its page allows caching it."""
    has_output_schema: bool
    """True if its page declares the schema of its `structuredContent`."""
    is_for_handshakes: bool
    """True if it is an MCP Tool in the older era, too."""
    raw: bytes
    """The definition byte for byte, in one line: two that are equal here are the same tool."""
    digest: bytes
    """Digest of `raw`."""

    @classmethod
    def of(cls, name: str, definition: dict[str, Any], raw: bytes) -> PageTool:
        """Return a tool with a validated definition, and its JSON."""
        title, annotations = definition.get("title"), definition.get("annotations")
        hints = annotations if isinstance(annotations, dict) else {}
        is_read_only = hints.get("readOnlyHint") is True
        return cls(
            name,
            title=title if isinstance(title, str) else "",
            description=str(definition.get("description") or ""),
            is_read_only=is_read_only,
            is_repeatable=is_read_only or hints.get("idempotentHint") is True,
            is_consequential=hints.get("consequentialHint") is True,
            is_cacheable=hints.get("cache") is True,
            has_output_schema=definition.get("outputSchema") is not None,
            is_for_handshakes=tool_schema.is_for(Era.HANDSHAKE, definition),
            raw=raw,
            digest=hashlib.blake2b(raw, digest_size=16).digest(),
        )

    @property
    def input_schema(self) -> bytes:
        """The JSON Schema of its arguments, as JSON."""
        return input_schema(self.raw)

    @property
    def output_schema(self) -> bytes:
        """The JSON Schema of its `structuredContent`, as JSON, if it has one."""
        return output_schema(self.raw)

    def is_for(self, era: Era) -> bool:
        """Return whether it is an MCP Tool in this era."""
        return self.is_for_handshakes or era is Era.STATELESS


class NotAToolError(ValueError):
    """A definition is not an MCP Tool; the text says why, and may quote its page."""


def read_tools(announced: wire.FrameTools, known: Sequence[PageTool] = ()) -> list[PageTool]:
    """Return the tools of a frame in order; of two with one name the first.

    `known` are those of an earlier list: an equal tool is not decoded again and stays the same object.
    """
    known_by_definition = {tool.raw: tool for tool in known}
    tools: dict[str, PageTool] = {}
    complaints: list[str] = []
    for given in announced.tools[:MAX_TOOLS]:
        raw = bytes(given)
        try:
            tool = known_by_definition.get(raw) or read_tool(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, NotAToolError) as error:
            complaints.append(single_line(describe_problem(error), 2 * _MAX_SAID))
            continue
        if tool.name in tools:
            complaints.append(f"{single_line(tool.name, _MAX_SAID)!r} is there twice, the first one counts")
            continue
        tools[tool.name] = tool
    if len(announced.tools) > MAX_TOOLS:
        complaints.append(f"a frame may have {MAX_TOOLS} tools")
    _log_invalid(announced, len(tools), complaints)
    _name_unfit(announced.origin, [tool for tool in tools.values() if tool.raw not in known_by_definition])
    return list(tools.values())


def _log_invalid(announced: wire.FrameTools, kept: int, complaints: list[str]) -> None:
    """One line for each list: a page decides how much is wrong with it."""
    if complaints:
        why = "; ".join([*complaints[:_MAX_COMPLAINTS], *("…" for _ in complaints[_MAX_COMPLAINTS:][:1])])
        origin, given = single_line(announced.origin, _MAX_SAID), len(announced.tools)
        _log.warning("%s: %d of %d tools left out: %s", origin, given - kept, given, why)


def _name_unfit(origin: str, tools: Iterable[PageTool]) -> None:
    """Log the tools that clients of the older era are not shown."""
    if names := [repr(single_line(tool.name, _MAX_SAID)) for tool in tools if not tool.is_for_handshakes]:
        shown = ", ".join([*names[:_MAX_COMPLAINTS], *("…" for _ in names[_MAX_COMPLAINTS:][:1])])
        _log.warning(
            "%s: only clients of protocol 2026-07-28 are shown %s", single_line(origin, _MAX_SAID), shown
        )


def read_tool(raw: bytes) -> PageTool:
    """Return the tool with this definition (JSON).

    Raises:
        NotAToolError: it is not an MCP Tool.
        msgspec.DecodeError, UnicodeDecodeError, RecursionError: it is not a JSON object.
    """
    found = _definitions.decode(raw)
    name = found.get("name")
    if not isinstance(name, str) or not name:
        raise NotAToolError("it has no name")
    said = single_line(name, _MAX_SAID)
    if not isinstance(found.get("description"), str | None):
        raise NotAToolError(f"the description of {said!r} is no text")
    schema = found.get("inputSchema")
    if schema is None:
        schema = {}
    if not isinstance(schema, dict) or schema.get("type", "object") != "object":
        raise NotAToolError(f"the inputSchema of {said!r} does not describe an object")
    found["inputSchema"] = {"type": "object", **schema}
    if fault := tool_schema.find_fault(found):
        raise NotAToolError(f"{said!r}: {fault}")
    if _is_deep(raw, found):
        raise NotAToolError(f"{said!r} is nested more than {wire.MAX_DEPTH} deep")
    return PageTool.of(name, found, _in_one_line(raw))


def _is_deep(raw: bytes, found: dict[str, Any]) -> bool:
    may_be = raw.count(b"[") + raw.count(b"{") > wire.MAX_DEPTH
    return may_be and measure_extent(found, wire.MAX_DEPTH).depth > wire.MAX_DEPTH


def _in_one_line(raw: bytes) -> bytes:
    """Return JSON in one line: stdio separates messages by line ends."""
    return msgspec.json.format(raw, indent=-1) if b"\n" in raw or b"\r" in raw else raw
