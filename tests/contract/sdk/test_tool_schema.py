"""What is listed is an MCP Tool, in each revision: the `mcp` package, which knows them all, is asked."""

from __future__ import annotations

import logging
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types.methods import serialize_server_result
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from bridge.hub.page_tool import PageTool, read_tools
from bridge.hub.tool_definition import in_text, with_texts
from bridge.hub.tool_schema import Era
from native_host.protocol import wire

REVISIONS = {Era.HANDSHAKE: HANDSHAKE_PROTOCOL_VERSIONS, Era.STATELESS: MODERN_PROTOCOL_VERSIONS}
HIDDEN = "\u202e"
PICTURE = "data:image/png;base64,AA=="


def announced(*definitions: bytes | dict[str, Any]) -> wire.FrameTools:
    raw = [each if isinstance(each, bytes) else msgspec.json.encode(each) for each in definitions]
    page: dict[str, Any] = {"tab_id": 1, "frame_id": 0, "document_id": "d1", "origin": "https://shop.example"}
    return wire.FrameTools(**page, tools=[msgspec.Raw(each) for each in raw])


def listed(tool: PageTool) -> bytes:
    before, behind = with_texts("website_tool_a", tool.raw, "https://shop.example", "Its words.")
    return before + in_text('[https://shop.example · tab 1 "Shop"]') + behind


def sent(definition: Any, revision: str) -> Any:
    """What the package would send of it; None: it refuses."""
    result = {"tools": [definition], "ttlMs": 0, "cacheScope": "private", "resultType": "complete"}
    try:
        return serialize_server_result("tools/list", revision, result)["tools"][0]
    except (ValidationError, ValueError):
        return None


def known_part(definition: Any, known: Any) -> Any:
    """Of a definition, the members that the package knows."""
    if isinstance(definition, dict) and isinstance(known, dict):
        return {key: known_part(value, known[key]) for key, value in definition.items() if key in known}
    if isinstance(definition, list) and isinstance(known, list) and len(definition) == len(known):
        return [known_part(*pair) for pair in zip(definition, known, strict=True)]
    return definition


def with_type(definition: dict[str, Any]) -> dict[str, Any]:
    """What a page may leave out is said for it."""
    schema = definition.get("inputSchema")
    if not isinstance(schema, dict | None):
        return definition
    return {**definition, "inputSchema": {"type": "object", **(schema or {})}}


def check(definition: bytes) -> None:
    """What we list the package takes in every revision and need not mend; what we refuse it refuses."""
    tools = read_tools(announced(definition))
    if not tools:
        assert sent(with_type(msgspec.json.decode(definition)), "2026-07-28") is None
        return
    (tool,) = tools
    ours = msgspec.json.decode(listed(tool))
    for era, revisions in REVISIONS.items():
        for revision in revisions:
            theirs = sent(ours, revision)
            assert theirs is not None or not tool.is_for(era)
            # A member that is no tool's may be left out for its hidden characters.
            assert theirs is None or tool.is_for(era) or HIDDEN.encode() in definition
            assert theirs is None or theirs == known_part(ours, theirs)


# ── Whatever a page says ────────────────────────────────────────────────────────────────────────────────────

_texts = st.sampled_from(["", "a", f"é{HIDDEN}", "yes", PICTURE, "dark", "optional"])
_nothing: st.SearchStrategy[Any] = st.sampled_from([None, [], {}, 7, 1.5])
_anything = st.recursive(
    st.one_of(_texts, _nothing, st.booleans()),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_texts, inner, max_size=2),
    max_leaves=4,
)


def _members(**given: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Some of these, usually as they should be."""
    mostly = {key: st.one_of(value, value, value, _nothing) for key, value in given.items()}
    return st.fixed_dictionaries({}, optional=mostly).map(
        lambda found: {key.replace("dialect", "$schema"): value for key, value in found.items()}
    )


_schemas = _members(
    dialect=_texts,
    type=st.just("object"),
    # Not 0 or 1: the package takes them for truths.
    properties=st.dictionaries(
        _texts, st.one_of(st.booleans(), st.dictionaries(_texts, _anything, max_size=1), st.just(5))
    ),
    required=st.lists(_texts, max_size=2),
    x=_anything,
)
_annotations = _members(title=_texts, readOnlyHint=_anything, cache=_anything, x=_anything)
_icons = st.lists(
    _members(src=_texts, mimeType=_texts, sizes=st.lists(_texts, max_size=1), theme=_texts), max_size=3
)
_definitions = _members(
    title=_texts,
    description=_texts,
    inputSchema=_schemas,
    outputSchema=_schemas,
    annotations=_annotations,
    icons=_icons,
    execution=_members(taskSupport=_texts, x=_anything),
    _meta=st.dictionaries(_texts, _anything, max_size=2),
    x=_anything,
).map(lambda found: msgspec.json.encode({"name": "a", **found}))


@given(_definitions)
def test_what_is_listed_is_a_tool_in_each_revision_and_what_is_refused_in_none(definition: bytes) -> None:
    check(definition)


@pytest.mark.parametrize(
    ("member", "eras"),
    [
        ({}, {Era.HANDSHAKE, Era.STATELESS}),
        (
            {"inputSchema": {"type": "object", "properties": {"a": True, "b": {}}}},
            {Era.HANDSHAKE, Era.STATELESS},
        ),
        ({"inputSchema": {"type": "object", "properties": {"a": 5}}}, {Era.STATELESS}),
        ({"inputSchema": {"type": "object", "required": "a"}}, {Era.STATELESS}),
        ({"inputSchema": {"type": "object", "$schema": 5}}, set()),
        ({"inputSchema": {"type": "array"}}, set()),
        ({"outputSchema": {"type": "object"}}, {Era.HANDSHAKE, Era.STATELESS}),
        ({"outputSchema": {"type": "array"}}, {Era.STATELESS}),
        ({"outputSchema": {}}, {Era.STATELESS}),
        ({"outputSchema": True}, set()),
        ({"outputSchema": {"$schema": {}}}, set()),
        ({"_meta": {"x": [1]}}, {Era.HANDSHAKE, Era.STATELESS}),
        ({"_meta": "x"}, set()),
        ({"description": 7}, set()),
        ({"execution": 7, "annotations": [], "icons": "none", "title": {}}, {Era.HANDSHAKE, Era.STATELESS}),
    ],
)
def test_a_definition_is_a_tool_in_the_eras_that_take_it(member: dict[str, Any], eras: set[Era]) -> None:
    definition = msgspec.json.encode({"name": "a", **member})
    tools = read_tools(announced(definition))
    assert {era for era in Era for tool in tools if tool.is_for(era)} == eras
    check(definition)


def test_a_definition_is_nested_as_deeply_as_the_extension_lets_it_and_no_deeper() -> None:
    """The package fails above 255 levels, and with it the whole list."""

    def nested(levels: int) -> bytes:
        return b'{"name":"a","x":%b%b}' % (b"[" * (levels - 1), b"]" * (levels - 1))

    (tool,) = read_tools(announced(nested(wire.MAX_DEPTH)))
    assert sent(msgspec.json.decode(listed(tool)), "2025-11-25")
    assert read_tools(announced(nested(wire.MAX_DEPTH + 1))) == []


def test_a_tool_that_only_the_newest_protocol_knows_is_named_in_the_log_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    page = announced({"name": "rows", "outputSchema": {"type": "array"}})
    with caplog.at_level(logging.WARNING):
        tools = read_tools(page)
        read_tools(page, tools)
    assert caplog.messages == ["https://shop.example: only clients of protocol 2026-07-28 are shown 'rows'"]
