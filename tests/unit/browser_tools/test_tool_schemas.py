"""What clients see of the browser's own tools: the arguments that they know from elsewhere, titles, hints."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import msgspec
import pytest

from bridge.browser_tools.tool import Tool
from bridge.browser_tools.tool_runner import all_tools
from bridge.errors import CallError
from bridge.hub.argument_validation import Arguments
from bridge.hub.meta_tools import TOOLS as META_TOOLS

KNOWN: dict[str, Any] = json.loads((Path(__file__).parents[2] / "data/tool_schemas.json").read_text())
"""The input schemas that clients of the same tools elsewhere send arguments for, without descriptions."""
TOOLS = all_tools()
SPECIFIED = {
    "navigate",
    "computer",
    "read_page",
    "find",
    "form_input",
    "get_page_text",
    "tabs_context",
    "tabs_create",
    "tabs_context_mcp",
    "tabs_create_mcp",
    "resize_window",
    "read_console_messages",
    "read_network_requests",
    "upload_image",
    "gif_creator",
    "update_plan",
    "shortcuts_list",
    "shortcuts_execute",
    "javascript_tool",
    "turn_answer_start",
    "turn_answer_complete",
    "dev_utils",
    "permissions_check",
}
"""The tools of the HTTP/SSE specification."""
MAX_DESCRIPTION = 300
"""Characters: every conversation carries all of them."""

READ_ONLY = {
    "read_page",
    "find",
    "get_page_text",
    "tabs_context",
    "read_console_messages",
    "read_network_requests",
    "shortcuts_list",
    "turn_answer_start",
    "turn_answer_complete",
    "dev_utils",
    "permissions_check",
    "list_connected_browsers",
    "wait_for",
}
DESTRUCTIVE = {
    "computer",
    "javascript_tool",
    "upload_image",
    "shortcuts_execute",
    "tabs_close_mcp",
    "browser_batch",
    "file_upload",
    "fill_form",
}

every_tool = pytest.mark.parametrize("tool", TOOLS.values(), ids=lambda tool: tool.name)


ADDED = {
    "computer": {"difference"},
    "form_input": {"difference"},
    "read_page": {"links", "query"},
    "get_page_text": {"offset"},
    "javascript_tool": {"max_chars"},
    "navigate": {"wait"},
    "read_console_messages": {"max_chars"},
    "read_network_requests": {"max_chars"},
}
"""Arguments that only ours have."""
OWN = {"fill_form", "wait_for"}
"""Tools that only we have."""
UNEXPLAINED = {"action", "filename", "options", "ref", "tool", "url"}
"""Arguments whose name says enough."""

SCHEMA_KEYWORDS = {
    "type",
    "description",
    "properties",
    "required",
    "items",
    "enum",
    "anyOf",
    "minimum",
    "maximum",
    "maxLength",
    "contentEncoding",
}
"""Keywords that function schemas of Gemini (`Schema` of its API) and of OpenAI (strict off) both take."""


def described(schema: Any) -> Any:
    """Type and limits, in the one spelling that both sides have."""
    match schema:
        case {"properties": dict(properties), **rest}:
            return {**described(rest), "properties": {name: described(it) for name, it in properties.items()}}
        case {"const": value, **rest}:
            return described({**rest, "enum": [value]})
        case {"enum": list(values), **rest}:  # their order says nothing
            return {**described(rest), "enum": sorted(values)}
        case {"type": [*types], **rest}:
            return described({**rest, "anyOf": [{"type": name} for name in types]})
        case dict():
            left_out = {"description", "additionalProperties", "minItems", "maxItems", "minLength", "minimum"}
            return {name: described(it) for name, it in schema.items() if name not in left_out and it != []}
        case list():
            return [described(item) for item in schema]
        case _:
            return schema


def test_all_of_them_are_there_and_no_others() -> None:
    assert sorted(TOOLS) == sorted([*KNOWN, *OWN])


@every_tool
def test_the_arguments_are_those_that_clients_know(tool: Tool[Any, Any]) -> None:
    if tool.name in OWN:
        return
    schema, known = described(tool.make_definition()["inputSchema"]), described(KNOWN[tool.name])
    if required := known.pop("required", None):  # the tab is optional, as its description says
        known |= {"required": rest} if (rest := [name for name in required if name != "tabId"]) else {}
    added = {name: schema["properties"].pop(name) for name in ADDED.get(tool.name, ())}
    assert schema == known
    assert not added.keys() & set(schema.get("required", ()))


def test_the_23_tools_of_the_specification_can_be_called() -> None:
    assert len(SPECIFIED) == 23
    assert TOOLS.keys() >= SPECIFIED


def subschemas(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield schema
    inner = [*schema.get("properties", {}).values(), *schema.get("anyOf", ())]
    for member in [*inner, *([schema["items"]] if "items" in schema else [])]:
        yield from subschemas(member)


@pytest.mark.parametrize(
    "definition",
    [*META_TOOLS, *(tool.make_definition() for tool in TOOLS.values())],
    ids=lambda definition: definition["name"],
)
def test_the_schema_is_one_that_models_apis_take(definition: dict[str, Any]) -> None:
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,44}", definition["name"])
    for schema in subschemas(definition["inputSchema"]):
        assert schema.keys() <= SCHEMA_KEYWORDS
        assert isinstance(schema.get("type", "object"), str)
        assert ("items" in schema) == (schema.get("type") == "array")
        assert all(isinstance(value, str) for value in schema.get("enum", ()))
        assert set(schema.get("required", ())) <= schema.get("properties", {}).keys()


@every_tool
def test_both_schemas_are_json_schema_2020_12_of_objects(tool: Tool[Any, Any]) -> None:
    for schema in (tool.make_definition()["inputSchema"], tool.make_definition()["outputSchema"]):
        jsonschema_rs.meta.validate({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema})
        assert schema["type"] == "object"
        assert "$ref" not in json.dumps(schema)


@every_tool
def test_it_has_a_title_a_description_of_a_bounded_length_and_described_arguments(
    tool: Tool[Any, Any],
) -> None:
    definition = tool.make_definition()
    assert definition["title"]
    assert 15 < len(definition["description"]) <= MAX_DESCRIPTION
    properties = definition["inputSchema"]["properties"]
    unexplained = {name for name, schema in properties.items() if not schema.keys() & {"description", "enum"}}
    plain = {name for name in unexplained if properties[name]["type"] in ("boolean", "integer", "number")}
    assert unexplained - plain <= UNEXPLAINED


@every_tool
def test_its_hints_say_what_it_may_do(tool: Tool[Any, Any]) -> None:
    hints = tool.make_definition()["annotations"]
    assert hints["readOnlyHint"] is (tool.name in READ_ONLY)
    assert hints.get("destructiveHint", False) is (tool.name in DESTRUCTIVE)


@every_tool
def test_an_unknown_argument_is_refused_by_its_name(tool: Tool[Any, Any]) -> None:
    if tool.name in OWN or KNOWN[tool.name]["additionalProperties"]:
        return
    given = {name: sample(schema) for name, schema in KNOWN[tool.name]["properties"].items()}
    with pytest.raises(CallError, match="surprise"):
        tool.read_arguments(Arguments.of({**given, "surprise": 1}))


@every_tool
def test_numbers_switches_and_lists_may_be_written_as_text(tool: Tool[Any, Any]) -> None:
    schemas = KNOWN.get(tool.name, {"properties": {}})["properties"]
    if not schemas:
        return
    given = {name: sample(schema) for name, schema in schemas.items()}
    texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in given.items()}
    assert plain(tool.read_arguments(Arguments.of(texts))) == plain(tool.read_arguments(Arguments.of(given)))


def plain(given: Any) -> Any:
    """As values of JSON; a text where any simple value is taken stays one."""
    found = msgspec.to_builtins(given)
    if isinstance(found.get("value"), str):
        found["value"] = None
    return found


def sample(schema: dict[str, Any]) -> Any:
    """A value that fits the schema."""
    match schema:
        case {"const": value} | {"enum": [value, *_]}:
            return value
        case {"type": [*_]} | {"type": "string"}:
            return "text"
        case {"type": "integer"} | {"type": "number"}:
            return schema.get("minimum", 1)
        case {"type": "boolean"}:
            return True
        case {"type": "array"}:
            return [sample(schema["items"])] * max(1, schema.get("minItems", 1))
        case _:
            return {name: sample(schema["properties"][name]) for name in schema.get("required", [])}
