"""Our own two tools, which exist whatever pages do: so that a client always has something to ask."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import msgspec

from bridge.errors import CallError
from bridge.hub.describing import MAX_NOTICE, MAX_ORIGIN, cleaned
from bridge.hub.entry import Entry
from bridge.hub.registry import Frame
from native_host.wire import Code

LIST_PAGE_TOOLS = "list_page_tools"
CALL_PAGE_TOOL = "call_page_tool"

T = TypeVar("T")


class ListPageTools(msgspec.Struct, forbid_unknown_fields=True):
    """Arguments of `list_page_tools`."""

    match: str = ""
    schemas: bool = False


class CallPageTool(msgspec.Struct, forbid_unknown_fields=True):
    """Arguments of `call_page_tool`."""

    name: str
    arguments: dict[str, Any] = {}


TOOLS: tuple[dict[str, Any], ...] = (
    {
        "name": LIST_PAGE_TOOLS,
        "title": "List page tools",
        "description": (
            "Lists the tools that the pages in the user's open browser tabs offer right now, and where "
            "each one lives. Call it when you expect a page's tool and do not see it, or after a page has "
            "changed; when nothing is connected it says what is missing and how to mend it."
        ),
        "inputSchema": {
            "type": "object",
            "properties": {
                "match": {
                    "type": "string",
                    "description": "Only tools with this text in their name, page or description.",
                },
                "schemas": {
                    "type": "boolean",
                    "description": "Also the JSON Schema of each tool's arguments. Default: false.",
                },
            },
            "additionalProperties": False,
        },
        "annotations": {"readOnlyHint": True, "openWorldHint": True},
    },
    {
        "name": CALL_PAGE_TOOL,
        "title": "Call a page tool",
        "description": (
            "Runs a tool that a page in the user's browser offers, by a name from list_page_tools. The page "
            "runs it as the user, signed in as they are. Without _tab<N> in the name, the tab that the user "
            "looked at last is taken. A page's tools that are listed by themselves can be called directly."
        ),
        "inputSchema": {
            "type": "object",
            "properties": {
                "name": {
                    "type": "string",
                    "description": "For instance website_tool_shop_example_tab1_getCart.",
                },
                "arguments": {"type": "object", "description": "What that tool's own schema asks for."},
            },
            "required": ["name"],
            "additionalProperties": False,
        },
        "annotations": {"openWorldHint": True},
    },
)


def read_arguments(shape: type[T], arguments: dict[str, Any]) -> T:
    """The arguments of one of our tools.

    Raises:
        CallError: they do not fit; the text names the field.
    """
    try:
        return msgspec.convert(arguments, shape)
    except msgspec.ValidationError as error:
        raise CallError(Code.INVALID_PARAMS, str(error), handed=False) from None


def page_tools(
    entries: Sequence[Entry], asked: ListPageTools, notices: Sequence[str], whats_missing: Callable[[], str]
) -> bytes:
    """The answer of `list_page_tools`: a text to read, and the same as structured content."""
    found = [entry for entry in entries if _matches(entry, asked.match.casefold())]
    lines = [*_lines(found, asked), *notices]
    if not entries:
        lines = ["No page offers a tool right now.", *notices, whats_missing()]
    elif not found:
        lines = [f"None of the {len(entries)} page tools matches {asked.match!r}.", *notices]
    text = "\n".join(line for line in lines if line)
    structured = {"tools": [_structured(entry, asked) for entry in found]}
    return msgspec.json.encode({"content": [{"type": "text", "text": text}], "structuredContent": structured})


def notice(frame: Frame) -> str:
    """What was left out of a frame's list and why, or nothing."""
    said = frame.announced.notice
    return f"{cleaned(frame.announced.origin, MAX_ORIGIN)}: {cleaned(said, MAX_NOTICE)}" if said else ""


def _matches(entry: Entry, wanted: str) -> bool:
    looked_at = (entry.name, entry.own_name, entry.page_words, entry.origin, entry.tab_title)
    return any(wanted in text.casefold() for text in looked_at)


def _lines(entries: Sequence[Entry], asked: ListPageTools) -> Iterator[str]:
    for entry in entries:
        # One line for each tool: a page that writes several could make up tools of other sites.
        yield f"{entry.name}: {' '.join(entry.description().split())}"
        if asked.schemas:
            yield f"  arguments: {msgspec.json.encode(entry.input_schema).decode()}"


def _structured(entry: Entry, asked: ListPageTools) -> dict[str, Any]:
    said = {
        "name": entry.name,
        "description": entry.description(),
        "origin": entry.origin,
        "tab": entry.ordinal,
        "active": entry.is_active,
    }
    return {**said, "inputSchema": entry.input_schema} if asked.schemas else said
