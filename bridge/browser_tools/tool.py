"""Declaration of a browser tool: name, input and output types, flags, and the function that runs it.

The JSON Schemas of the tool list are made from the types, and arguments are converted to them.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Annotated, Any, ClassVar, Generic, TypeVar

import msgspec
from msgspec import Meta, UnsetType

from bridge.browser_tools.tool_output import ToolOutput, ToolResult
from bridge.errors import CallError
from bridge.hub.argument_validation import Arguments
from bridge.hub.client_session import ToolSet
from native_host.protocol.validation_errors import describe_argument, rejected_field
from native_host.protocol.wire import Code

LIMIT_S = 30.0


class ToolInput(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Arguments of a tool, one field each."""

    unlisted: ClassVar[tuple[str, ...]] = ()
    """Arguments that the schema omits; it allows any others."""


Input = TypeVar("Input", bound=ToolInput)
Context = TypeVar("Context")

MaybeTab = Annotated[int, Meta(description="Default: your current tab.")] | UnsetType


@dataclass(frozen=True, kw_only=True)
class Tool(Generic[Input, Context]):
    """A tool: its definition for clients, and the function that runs it."""

    name: str
    title: str
    description: str
    input_type: type[Input]
    output_type: type[ToolOutput]
    run: Callable[[Input, Context], Awaitable[ToolResult]]
    is_read_only: bool = False
    """Every call leaves page and browser as they are."""
    is_read_only_for: Callable[[Input], bool] | None = None
    """Return whether a call with this input is read-only, for tools with calls of both kinds."""
    is_for_paused: bool = False
    """A client that is paused may call it all the same."""
    is_destructive: bool = False
    is_repeatable: bool = False
    limit_s: float = LIMIT_S
    listed: ToolSet = "all"
    """The smallest set of tools that has it."""
    search_hint: str = ""
    """Words that find it, for clients which load the definitions of most tools only when they are needed."""
    max_result_chars: int = 0
    """Characters that its result may have where the caller asks for many; 0: results are short."""

    def make_definition(self) -> dict[str, Any]:
        """Return the MCP Tool."""
        hints: dict[str, Any] = {"readOnlyHint": self.is_read_only, "openWorldHint": True}
        if not self.is_read_only:
            hints |= {"destructiveHint": self.is_destructive, "idempotentHint": self.is_repeatable}
        return {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": input_schema(self.input_type),
            "outputSchema": output_schema(self.output_type),
            "annotations": hints,
            **({"_meta": meta} if (meta := self._make_meta()) else {}),
        }

    def _make_meta(self) -> dict[str, Any]:
        """Return the members of `_meta` that Claude Code reads."""
        meta: dict[str, Any] = {}
        if self.listed == "core":
            meta["anthropic/alwaysLoad"] = True
        if self.search_hint:
            meta["anthropic/searchHint"] = self.search_hint
        if self.max_result_chars:
            meta["anthropic/maxResultSizeChars"] = self.max_result_chars
        return meta

    def read_arguments(self, arguments: Arguments) -> Input:
        """Convert the arguments. Numbers, booleans and lists may be written as text.

        Raises:
            CallError: they are invalid; the text names the argument.
        """
        plain = {name: _parse_quoted(self.input_type, name, value) for name, value in arguments.value.items()}
        try:
            return msgspec.convert(plain, self.input_type, strict=False)
        except msgspec.ValidationError as error:
            complaint = describe_argument(error, input_schema(self.input_type))
            logged = rejected_field(error)
            raise CallError(Code.INVALID_PARAMS, complaint, handed=False, logged=logged) from None

    def for_input(self, given: Input) -> Tool[Input, Context]:
        """Return the tool with the flags of a call with this input."""
        return replace(self, is_read_only=self.is_read_only_for(given)) if self.is_read_only_for else self


def input_schema(given: type[ToolInput]) -> dict[str, Any]:
    """Return the JSON Schema of arguments."""
    schema = _plain_schema(given)
    for name in given.unlisted:
        del schema["properties"][name]
    if required := schema.pop("required", None):
        schema["required"] = required  # models read the properties first
    return schema


def chosen_action(given: ToolInput) -> str:
    """Return the `action` of a call whose tool lists its actions; a free text is a value of the client."""
    action = getattr(given, "action", None)
    return action if action in _action_names(type(given)) else ""


@cache
def _action_names(given: type[ToolInput]) -> tuple[str, ...]:
    return tuple(input_schema(given)["properties"].get("action", {}).get("enum", ()))


def output_schema(told: type[ToolOutput]) -> dict[str, Any]:
    """Return the JSON Schema of a result's `structuredContent`.

    Only the message is required: the extension of Claude in Chrome may have run the tool.
    """
    return {**_plain_schema(told), "required": ["message"]}


def _plain_schema(shape: type[msgspec.Struct]) -> dict[str, Any]:
    made = msgspec.json.schema(shape)
    schema: dict[str, Any] = _inline_references(made, made.get("$defs", {}))
    schema.pop("description", None)  # the docstring is for us
    return schema


_LEFT_OUT = (
    "$defs",
    "title",
    "default",
    "additionalProperties",
    "minItems",
    "maxItems",
    "minLength",
    "minimum",
)
"""Members that cost a model tokens and rarely help it. Arguments are checked all the same."""


def _inline_references(schema: Any, definitions: dict[str, Any]) -> Any:
    """Replace references, which some clients do not follow, and remove redundant members."""
    match schema:
        case {"$ref": reference, **rest}:
            named = definitions[reference.rpartition("/")[2]]
            meant = {name: member for name, member in named.items() if name != "description" and member != []}
            return _inline_references({**meant, **rest}, definitions)
        case {"properties": dict(properties), **rest}:
            inlined = {name: _inline_references(member, definitions) for name, member in properties.items()}
            return {**_inline_references(rest, definitions), "properties": inlined}
        case dict():
            found = {
                name: _inline_references(member, definitions)
                for name, member in schema.items()
                if name not in _LEFT_OUT
            }
            return _simplify_schema(found)
        case list():
            return [_inline_references(item, definitions) for item in schema]
        case _:
            return schema


def _simplify_schema(schema: dict[str, Any]) -> dict[str, Any]:
    match schema:
        case {"type": _, "anyOf": _}:  # more is taken than is listed
            return {name: member for name, member in schema.items() if name != "anyOf"}
        case {"enum": [str(), *_], **rest}:
            return {**rest, "type": "string", "enum": schema["enum"]}
        case _:
            return schema


def _parse_quoted(given: type[ToolInput], name: str, value: Any) -> Any:
    """Return a list or an object that was sent as text; msgspec reads other types itself."""
    if not isinstance(value, str) or value.lstrip()[:1] not in ("[", "{"):
        return value
    expected = input_schema(given)["properties"].get(name, {}).get("type")
    if expected not in ("array", "object"):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value
