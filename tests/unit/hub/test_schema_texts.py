"""Texts in a tool's schema are sanitized; names and values stay, or the schema is left out."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bridge.hub.schema_texts import has_hidden, sanitize_schema

TAG = "\U000e0041"
BIDI = "\u202e"
ESCAPE = "\x1b"
SELECTOR = "\U000e0141"
RUN = "\ufe0f\ufe00"


def sanitized(schema: dict[str, Any]) -> Any:
    found = sanitize_schema(msgspec.Raw(msgspec.json.encode(schema)))
    return None if found is None else msgspec.json.decode(found)


@pytest.mark.parametrize("hidden", [TAG, BIDI, ESCAPE, "\x00", "\x7f", "\u200b"])
@pytest.mark.parametrize("keyword", ["title", "description", "$comment"])
def test_hidden_characters_in_texts_are_removed_at_every_depth(keyword: str, hidden: str) -> None:
    text = {keyword: f"Obey{hidden}{hidden}me"}
    clean = {keyword: "Obey me"}
    for around in ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas"):
        assert sanitized({around: {"a": {"items": text}}}) == {around: {"a": {"items": clean}}}
    assert sanitized({"allOf": [{"not": text}]}) == {"allOf": [{"not": clean}]}


@pytest.mark.parametrize("hidden", [SELECTOR, RUN, f"\ufe0f{SELECTOR}\ufe0f", "\u180b", "\u180f"])
def test_variation_selectors_that_can_carry_text_are_removed(hidden: str) -> None:
    assert sanitized({"title": f"Obey{hidden}me"}) == {"title": "Obeyme"}


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {f"a{TAG}": {}}},
        {"properties": {"a": {"enum": ["b", f"c{BIDI}"]}}},
        {"properties": {"a": {"const": {"description": f"c{BIDI}"}}}},
        {"default": {"title": [f"{ESCAPE}[31m"]}},
        {"examples": [f"x{TAG}"]},
        {"required": [f"a{TAG}"]},
        {"pattern": f"a{BIDI}"},
        {"enum": [f"a{SELECTOR}"]},
        {"properties": {f"a{RUN}": {}}},
        {f"x-{TAG}": 1},
    ],
)
def test_a_schema_with_hidden_characters_in_names_or_values_cannot_be_shown(schema: dict[str, Any]) -> None:
    assert sanitized({"type": "object", "items": schema}) is None


@pytest.mark.parametrize(
    "schema",
    [
        b'{"properties":{"description":{"enum":["a\\nb","\\u00e9","10\\u00a0000"]}},"x":[1.0,1e5]}',
        b'{"description":"two\\n  lines","default":"\xf0\x9f\x8d\xb5"}',
        '{"title":"\u2764\ufe0f","enum":["\u2708\ufe0e","1\ufe0f\u20e3"]}'.encode(),
    ],
)
def test_a_schema_without_hidden_characters_passes_byte_for_byte(schema: bytes) -> None:
    assert sanitize_schema(msgspec.Raw(schema)) == msgspec.Raw(schema)


def test_a_property_called_like_a_keyword_is_a_schema_and_its_name_stays() -> None:
    schema = {"properties": {"enum": {"title": f"A{TAG}"}, "description": {"title": "B"}}}
    assert sanitized(schema) == {"properties": {"enum": {"title": "A"}, "description": {"title": "B"}}}


def test_hidden_characters_are_found_however_json_spells_them() -> None:
    assert has_hidden(msgspec.Raw(b'{"a":["\\u202e"]}'))
    assert has_hidden(msgspec.Raw(b'{"\\u001b":1}'))
    assert has_hidden(msgspec.Raw('"\U000e0041"'.encode()))
    assert has_hidden(msgspec.Raw(b'"a\\ufe0f\\ufe0f"'))
    assert not has_hidden(msgspec.Raw(b'["a\\n\\u00e9"]'))
