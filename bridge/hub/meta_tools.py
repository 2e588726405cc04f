"""Meta tools `list_page_tools`, `call_page_tool`, `read_resource`, listed also without a browser."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from itertools import chain, islice
from typing import Annotated, Any, Protocol, TypeVar

import msgspec

from bridge.errors import CallError
from bridge.hub.argument_validation import Arguments
from bridge.hub.primitives.embedded_resource import MAX_CHARS
from bridge.hub.primitives.offered_entries import OfferedEntry, list_entries
from bridge.hub.registry import Frame
from bridge.hub.schema_texts import remove_texts
from bridge.hub.tool_search import MAX_WORDS, Searchable, find_nearest, in_turns, search_entries, words_of
from native_host.protocol.untrusted_text import MAX_NOTICE_CHARS, MAX_ORIGIN_CHARS, single_line
from native_host.protocol.validation_errors import describe_argument, rejected_field
from native_host.protocol.wire import Code

LIST_PAGE_TOOLS = "list_page_tools"
CALL_PAGE_TOOL = "call_page_tool"
READ_RESOURCE = "read_resource"

LIMIT = 25
MAX_LIMIT = 200
MAX_QUERY = 200
"""Characters."""
MAX_TEXT = 40_000
"""Bytes of an answer's text: it ends up in a model's context. The schema of a single tool may be longer."""
MAX_SCHEMA = 100_000
"""Bytes of the schema of a single tool. A longer one is shown without its texts, or left out."""
MAX_NOTICES = 10

T = TypeVar("T")


class ListedTool(Searchable, Protocol):
    """A page tool under its public name, with the members that the list shows."""

    @property
    def ordinal(self) -> int:
        """Its tab's number within the domain; 0: it is cached, and no tab is open."""
        ...

    @property
    def shown_schema(self) -> bytes:
        """The JSON Schema of its arguments with sanitized texts, as JSON."""
        ...

    def format_description(self) -> str:
        """Origin, current location, and the page's description."""
        ...

    def description_without_words(self) -> str:
        """Return the description without the page's text."""
        ...


class ListPageTools(msgspec.Struct, forbid_unknown_fields=True):
    """Arguments of `list_page_tools`."""

    query: Annotated[str, msgspec.Meta(max_length=MAX_QUERY)] = ""
    limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_LIMIT)] = LIMIT
    schemas: bool = False


class CallPageTool(msgspec.Struct, forbid_unknown_fields=True):
    """Arguments of `call_page_tool`."""

    name: str
    arguments: msgspec.Raw = msgspec.Raw(b"{}")
    """JSON of any type, as the client wrote it: `read_call` checks that it is an object."""


class ReadResource(msgspec.Struct, forbid_unknown_fields=True):
    """Arguments of `read_resource`."""

    uri: str
    offset: Annotated[int, msgspec.Meta(ge=0)] = 0
    max_chars: Annotated[int, msgspec.Meta(ge=1)] = MAX_CHARS


_ALWAYS_LOADED = {"anthropic/alwaysLoad": True}
"""In `_meta` of a tool: Claude Code gives its definition to the model from the beginning."""

TOOLS: tuple[dict[str, Any], ...] = (
    {
        "name": LIST_PAGE_TOOLS,
        "title": "List page tools",
        "description": (
            "Lists the tools, resources and prompts that open pages offer, with their sites. Says what to do "
            "when no browser is connected."
        ),
        "inputSchema": {
            "type": "object",
            "properties": {
                "query": {
                    "type": "string",
                    "maxLength": MAX_QUERY,
                    "description": "Words in name, site or description.",
                },
                "limit": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": MAX_LIMIT,
                    "description": f"Default {LIMIT}.",
                },
                "schemas": {"type": "boolean", "description": "Also the schema of the arguments."},
            },
        },
        "annotations": {"readOnlyHint": True, "openWorldHint": True},
        "_meta": _ALWAYS_LOADED,
    },
    {
        "name": CALL_PAGE_TOOL,
        "title": "Call a page tool",
        "description": (
            "Calls a page's tool by its name in list_page_tools; the page runs it as the signed-in user. "
            "Without _tab<N> in the name: in the tab used last."
        ),
        "inputSchema": {
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "arguments": {"type": "object", "description": "By the schema of that tool."},
            },
            "required": ["name"],
        },
        "annotations": {"openWorldHint": True},
        "_meta": _ALWAYS_LOADED,
    },
    {
        "name": READ_RESOURCE,
        "title": "Read a resource",
        "description": "Reads a resource that a page offers, by its URI in list_page_tools.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "uri": {"type": "string"},
                "offset": {"type": "integer", "minimum": 0, "description": "First character. Default 0."},
                "max_chars": {"type": "integer", "minimum": 1, "description": f"Default {MAX_CHARS}."},
            },
            "required": ["uri"],
        },
        "annotations": {"readOnlyHint": True, "openWorldHint": True},
    },
)


_SCHEMAS: dict[type, dict[str, Any]] = {
    ListPageTools: TOOLS[0]["inputSchema"],
    CallPageTool: TOOLS[1]["inputSchema"],
    ReadResource: TOOLS[2]["inputSchema"],
}


def read_arguments(shape: type[T], arguments: Arguments) -> T:
    """Decode the arguments of a meta tool.

    Raises:
        CallError: they are invalid; the text names the field.
    """
    try:
        return msgspec.json.decode(arguments.raw, type=shape)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        logged = rejected_field(error)
        complaint = describe_argument(error, _SCHEMAS[shape])
        raise CallError(Code.INVALID_PARAMS, complaint, handed=False, logged=logged) from None


def read_call(arguments: Arguments) -> CallPageTool:
    """Read the arguments of `call_page_tool`.

    Raises:
        CallError: an argument is missing, or has another type; the text names it.
    """
    asked = read_arguments(CallPageTool, arguments)
    if not bytes(asked.arguments).startswith(b"{"):
        complaint = "arguments is an object, such as {}"
        raise CallError(Code.INVALID_PARAMS, complaint, handed=False, logged="arguments: type")
    return asked


def page_tools(
    entries: Sequence[ListedTool],
    asked: ListPageTools,
    notices: Sequence[str],
    whats_missing: Callable[[], str],
    unlisted: Container[ListedTool] = (),
    resources: Sequence[OfferedEntry] = (),
    prompts: Sequence[OfferedEntry] = (),
    is_preferred: Callable[[str], bool] = lambda _: False,
) -> dict[str, Any]:
    """Return the result of `list_page_tools`: text, and the same as structured content.

    The user has not approved the sites of `unlisted` tools yet: their texts are shown with schemas only. The
    best matches for `asked.query` come first; the number of those beyond `asked.limit` or MAX_TEXT is stated.
    Among equals, preferred origins come first. Origins take turns, so that a site with many tools does not
    hide the others.
    """
    equals = search_entries(entries, asked.query, is_preferred)
    found = list(chain.from_iterable(equals))
    shown = _select_entries(found[: asked.limit], asked.schemas, unlisted)
    if len(shown) < len(found):
        fair = chain.from_iterable(map(in_turns, equals))
        shown = _select_entries(list(islice(fair, asked.limit)), asked.schemas, unlisted)
    if not entries:
        said = ["No page offers a tool right now.", *_limit_notices(notices), whats_missing()]
    elif not found:
        said = [_none_found(entries, asked.query), *_limit_notices(notices)]
    else:
        said = [
            *(tool.text for tool in shown),
            *_limit_notices(notices),
            _how_many(len(shown), len(found), asked),
        ]
    if len(words_of(asked.query)) > MAX_WORDS:
        said.append(f"Only the first {MAX_WORDS} words of `query` were looked for.")
    structured: dict[str, Any] = {
        "tools": [tool.content for tool in shown],
        "total": len(found),
        "shown": len(shown),
    }
    others = {
        "resources": ("Resources of pages, for read_resource", resources),
        "prompts": ("Prompts of pages, which the user can choose in the client", prompts),
    }
    for kind, (heading, offered) in others.items():
        listed, objects = list_entries(heading, offered, asked.query, asked.limit)
        said.append(listed)
        if objects:
            structured[kind] = objects
    text = "\n".join(filter(None, said))
    return {"content": [{"type": "text", "text": text}], "structuredContent": structured}


def format_notice(frame: Frame) -> str:
    """Return the notice about tools omitted from a frame's list, with the reason, or an empty text."""
    said = frame.announced.notice
    return (
        f"{single_line(frame.announced.origin, MAX_ORIGIN_CHARS)}: {single_line(said, MAX_NOTICE_CHARS)}"
        if said
        else ""
    )


class _ListedLine(msgspec.Struct):
    text: str
    content: dict[str, Any]


def _select_entries(
    entries: Sequence[ListedTool], with_schemas: bool, unlisted: Container[ListedTool]
) -> list[_ListedLine]:
    """Return the entries that fit into the text, then their schemas as far as those fit."""
    room = MAX_TEXT
    shown: list[_ListedLine] = []
    for entry in entries:
        # One line for each tool: a page that writes several could make up tools of other sites.
        is_short = entry in unlisted and not with_schemas
        description = entry.description_without_words() if is_short else entry.format_description()
        line = f"{entry.name}: {' '.join(description.split())}"
        room -= _line_bytes(line) + (_MAX_CUT if with_schemas else 0)
        if room < 0 and shown:
            break
        shown.append(_ListedLine(line, _structure_entry(entry, description)))
    if with_schemas:
        _add_schemas(entries[: len(shown)], shown, max(room, 0))
    return shown


def _add_schemas(entries: Sequence[ListedTool], shown: Sequence[_ListedLine], room: int) -> None:
    for entry, tool in zip(entries, shown, strict=True):
        schema = entry.shown_schema
        if len(schema) > MAX_SCHEMA and len(shown) == 1:
            schema, note = _limit_schema(entry.name, schema)
            tool.text += note
            if not schema:
                continue
        if len(schema) > room + _MAX_CUT and len(shown) > 1:
            tool.text += (
                f"\n  The schema of {entry.name} is {len(schema)} bytes long; ask for that tool alone: "
                "its name in `query`, `limit` 1"
            )
            continue
        room -= max(0, len(schema) - _MAX_CUT)
        tool.text += f"\n  arguments: {schema.decode()}"
        tool.content["inputSchema"] = msgspec.Raw(schema)


def _limit_schema(name: str, schema: bytes) -> tuple[bytes, str]:
    """Return a schema above MAX_SCHEMA without its texts, or empty, and a line that says so."""
    structure = remove_texts(schema)
    limit = f"bytes long, and at most {MAX_SCHEMA} are shown."
    if len(structure) > MAX_SCHEMA:
        size = f"without its texts it is still {len(structure)} {limit}"
        return b"", f"\n  The schema of {name} is left out: {size}"
    return structure, f"\n  The texts in the schema of {name} are left out: it is {len(schema)} {limit}"


_MAX_CUT = 192
"""Bytes that are set aside for a schema, or for the sentence in its place."""


def _structure_entry(entry: ListedTool, description: str) -> dict[str, Any]:
    return {
        "name": entry.name,
        "description": description,
        "origin": entry.origin,
        "tab": entry.ordinal or None,
        "active": entry.is_active,
    }


def _how_many(shown: int, found: int, asked: ListPageTools) -> str:
    if shown == found:
        return ""
    narrower = "say more in `query`" if asked.query else "say what you look for in `query`"
    if shown < asked.limit:
        return f"Showing {shown} of {found}, more would be too long; {narrower}."
    more = f", or raise `limit` (at most {MAX_LIMIT})" if asked.limit < MAX_LIMIT else ""
    return f"Showing {shown} of {found}; {narrower}{more}."


def _none_found(entries: Sequence[ListedTool], query: str) -> str:
    near = find_nearest(entries, query)
    closest = f" The closest names: {', '.join(near)}." if near else ""
    return (
        f"None of the {len(entries)} page tools matches {query!r}.{closest} Without `query` all are listed."
    )


def _limit_notices(notices: Sequence[str]) -> list[str]:
    said = [format_notice for format_notice in notices if format_notice]
    more = len(said) - MAX_NOTICES
    left = [f"Of {more} more pages tools were left out; mcpb status names them."] if more > 0 else []
    return [*said[:MAX_NOTICES], *left]


def _line_bytes(line: str) -> int:
    return len(line.encode(errors="replace")) + len("\n")
