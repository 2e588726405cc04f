"""Arguments against a page's schema: the field is named, nothing is fetched, and no schema keeps us busy."""

import json
import logging
import math
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.hub.argument_validation import ArgumentCheck
from bridge.hub.page_tool import PageTool
from bridge.hub.schemas import compiled_schema
from bridge.hub.schemas.compiled_schema import MAX_KEPT, MAX_SCHEMA

Json = dict[str, Any]

SLOW_S = 5.0
"""Of processor time; everything here takes less than a tenth of it."""
DRAFT_7 = "http://json-schema.org/draft-07/schema#"


def tool(schema: Json, name: str = "order") -> PageTool:
    definition = {"name": name, "inputSchema": {"type": "object", **schema}}
    return PageTool.of(name, definition, msgspec.json.encode(definition))


def refusal(schema: Json, arguments: Json) -> str:
    began = time.process_time()
    said = ArgumentCheck().find_errors(tool(schema), arguments)
    assert time.process_time() - began < SLOW_S
    assert "\n" not in said
    return said


def unchecked(caplog: pytest.LogCaptureFixture, schema: Json, arguments: Json | None = None) -> str:
    """Why the arguments are not checked."""
    with caplog.at_level(logging.WARNING):
        assert refusal(schema, arguments or {}) == ""
    (record,) = caplog.records
    return record.getMessage().removeprefix("arguments of order: not checked, because ")


def nested(depth: int, innermost: Any = None) -> Json:
    value = {} if innermost is None else innermost
    for _ in range(depth):
        value = {"c": value}
    assert isinstance(value, dict)
    return value


# ── What is told ────────────────────────────────────────────────────────────────────────────────────────────

ORDER = {
    "properties": {
        "item": {"type": "string", "maxLength": 20},
        "count": {"type": "integer", "minimum": 1},
        "size": {"enum": ["small", "large"]},
        "code": {"pattern": "^[A-Z]{3}$"},
        "when": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "at": {"type": "string", "format": "date-time"},
        "lines": {"items": {"properties": {"price": {"type": "number"}}, "required": ["price"]}},
    },
    "required": ["item"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"item": "tea", "count": 2, "lines": [{"price": 1.5}], "when": None, "size": "small"}, ""),
        ({}, "item is missing"),
        ({"item": "tea", "count": "two"}, 'count: "two" is not of type "integer"'),
        ({"item": "tea", "count": 0}, "count: 0 is less than the minimum of 1"),
        ({"item": "tea", "count": 2.0}, ""),
        ({"item": "tea", "size": "big"}, 'size: "big" is not one of "small" or "large"'),
        ({"item": "tea", "code": "ab"}, 'code: "ab" does not match "^[A-Z]{3}$"'),
        ({"item": "tea", "when": 3}, 'when: fits no alternative: 3 is not of type "string" or 3 is not of'),
        (
            {"item": "tea", "extra": 1},
            'unknown argument "extra"; known: item, count, size, code, when, at, lines',
        ),
        ({"itm": "tea"}, 'unknown argument "itm": did you mean "item"?; item is missing'),
        ({"item": "tea", "lines": [{"price": 1}, {}]}, "lines[1].price is missing"),
        (
            {"item": "tea", "lines": [{"prize": 1}]},
            'lines[0].price is missing; unknown argument "lines[0].prize": did you mean "price"?',
        ),
        ({"item": "tea", "lines": [{"price": "x"}]}, 'lines[0].price: "x" is not of type "number"'),
        ({"item": "tea", "at": "tomorrow"}, ""),
    ],
)
def test_a_refusal_names_the_field_and_what_is_wrong_with_it(arguments: Json, says: str) -> None:
    said = refusal(ORDER, arguments)
    assert said == says or (says and said.startswith(says))


@pytest.mark.parametrize(
    "schema",
    [
        {"additionalProperties": False},
        {"properties": {}, "additionalProperties": False},
        {"allOf": [{"additionalProperties": False}]},
        {"unevaluatedProperties": False},
    ],
)
def test_a_tool_that_takes_nothing_names_everything_it_was_given(schema: Json) -> None:
    said = refusal(schema, {"a": 1, "b": {}})
    assert said == 'unknown argument "a"; known: none; unknown argument "b"; known: none'


def test_at_most_three_things_are_told() -> None:
    said = refusal({"required": list("abcdef")}, {})
    assert said == "a is missing; b is missing; c is missing"


def test_what_is_told_is_short_and_printable_whatever_is_in_it() -> None:
    hostile = "x\n\u202e\x1b[31m" + "y" * 100_000
    schema = {"properties": {"a": {"type": "integer"}, "b": {"enum": [hostile, 1]}}, "required": [hostile]}
    said = refusal(schema, {"a": hostile, "b": hostile + "z"})
    assert said.isprintable()
    assert said.count("; ") == 2
    assert len(said) <= 3 * 200 + 4


@pytest.mark.parametrize(
    ("schema", "arguments"),
    [({}, {"anything": 1}), ({"properties": {"a": True}}, {"a": 1}), ({"description": "nothing else"}, {})],
)
def test_a_schema_that_says_nothing_takes_everything(schema: Json, arguments: Json) -> None:
    assert refusal(schema, arguments) == ""


# ── Drafts and references ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"properties": {"a": {"prefixItems": [{"type": "string"}]}}}, {"a": ["x"]}, {"a": [1]}),
        (
            {"$schema": DRAFT_7, "properties": {"a": {"items": [{"type": "string"}]}}},
            {"a": ["x"]},
            {"a": [1]},
        ),
        (
            {"$schema": "https://json-schema.org/draft/2019-09/schema", "dependentRequired": {"a": ["b"]}},
            {"a": 1, "b": 1},
            {"a": 1},
        ),
        (
            {
                "$schema": "http://json-schema.org/draft-04/schema#",
                "properties": {"a": {"minimum": 1, "exclusiveMinimum": True}},
            },
            {"a": 2},
            {"a": 1},
        ),
        ({"$schema": "https://schemas.example/own", "required": ["a"]}, {"a": 1}, {}),
    ],
)
def test_the_draft_is_the_one_that_the_schema_names_if_it_is_known(
    schema: Json, good: Json, bad: Json
) -> None:
    assert refusal(schema, good) == ""
    assert refusal(schema, bad) != ""


@pytest.mark.parametrize(
    "schema",
    [
        {"$defs": {"word": {"type": "string"}}, "properties": {"a": {"$ref": "#/$defs/word"}}},
        {"$defs": {"a/b %": {"type": "string"}}, "properties": {"a": {"$ref": "#/$defs/a~1b%20%25"}}},
        {"$defs": {"x": {"$anchor": "word", "type": "string"}}, "properties": {"a": {"$ref": "#word"}}},
        {
            "$id": "https://shop.example/order",
            "$defs": {"x": {"$id": "parts/word", "type": "string"}},
            "properties": {"a": {"$ref": "parts/word"}},
        },
        {
            "$id": "urn:order",
            "$defs": {"x": {"$id": "urn:word", "type": "string"}},
            "properties": {"a": {"$ref": "urn:word"}},
        },
        {
            "$schema": DRAFT_7,
            "definitions": {"x": {"$id": "#word", "type": "string"}},
            "properties": {"a": {"$ref": "#word"}},
        },
        {
            "$defs": {"x": {"$dynamicAnchor": "word", "type": "string"}},
            "properties": {"a": {"$dynamicRef": "#word"}},
        },
    ],
)
def test_references_within_the_schema_are_followed(schema: Json) -> None:
    assert refusal(schema, {"a": "x"}) == ""
    assert refusal(schema, {"a": 1}) == 'a: 1 is not of type "string"'


def test_a_schema_may_contain_itself() -> None:
    tree = {"properties": {"c": {"$ref": "#"}, "name": {"type": "string"}}}
    assert refusal(tree, nested(190)) == ""
    assert refusal(tree, nested(2, {"name": 3})) == 'c.c.name: 3 is not of type "string"'


class _Counting(BaseHTTPRequestHandler):
    """A server that has any schema one asks for, and would rather not be asked."""

    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"required":["a"]}')

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass


@pytest.fixture
def web(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, list[str]]]:
    """A real web server, and what it was asked for."""
    asked: list[str] = []
    monkeypatch.setattr(_Counting, "asked", asked, raising=False)
    with HTTPServer(("127.0.0.1", 0), _Counting) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", asked
        server.shutdown()
        thread.join(5)


@pytest.mark.parametrize("keyword", ["$ref", "$dynamicRef", "$schema", "$id"])
def test_nothing_is_fetched_from_the_network(web: tuple[str, list[str]], keyword: str) -> None:
    url, asked = web
    for schema in ({keyword: f"{url}/s.json"}, {"properties": {"a": {keyword: f"{url}/s.json"}}}):
        refusal({"$id": f"{url}/base.json", **schema}, {"a": {}})
        refusal(schema, {"a": {}})
    refusal({"$id": f"{url}/dir/base.json", "$ref": "other.json"}, {})
    looks_own = {"$id": f"{url}/elsewhere/s.json", "$defs": {"x": {"$id": "s.json"}}}
    refusal({"properties": {"a": {keyword: f"{url}/s.json"}}, **looks_own}, {"a": {}})
    assert asked == []


def test_nothing_is_read_from_the_disk(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A file that would refuse everything, were it read."""
    path = tmp_path / "s.json"
    path.write_text("false")
    assert "outside itself" in unchecked(caplog, {"$ref": path.as_uri()})
    for schema in ({"$id": f"{tmp_path.as_uri()}/base.json", "$ref": "s.json"}, {"$ref": str(path)}):
        assert refusal(schema, {}) == ""


def test_a_name_of_its_own_does_not_open_a_way_outside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The validator itself refuses, too: what looks like a place within the schema may not be one."""
    path = tmp_path / "s.json"
    path.write_text("false")
    schema = {"$ref": path.as_uri(), "$defs": {"x": {"$id": "https://shop.example/s.json"}}}
    assert "not present in a registry" in unchecked(caplog, schema)


@pytest.mark.parametrize(
    "reference", ["other.json", "urn:x:y", "https://json-schema.org/draft-07/schema#", "#no"]
)
def test_a_reference_to_something_outside_leaves_the_call_unchecked_and_says_so(
    caplog: pytest.LogCaptureFixture, reference: str
) -> None:
    assert "outside itself" in unchecked(caplog, {"properties": {"a": {"$ref": reference}}})


# ── Schemas that mean no good ───────────────────────────────────────────────────────────────────────────────


def doubling(levels: int, keyword: str = "allOf", **members: Any) -> Json:
    def twice(level: int) -> Json:
        return {keyword: [{"$ref": f"#/$defs/a{level + 1}"}, {"$ref": f"#/$defs/a{level + 1}"}], **members}

    defs = {f"a{level}": twice(level) for level in range(levels)}
    return {"$ref": "#/$defs/a0", "$defs": {**defs, f"a{levels}": {"type": "string"}}}


def within_each_other(levels: int, **members: Any) -> Json:
    schema: Json = {"properties": {"a": True}}
    for _ in range(levels):
        schema = {"anyOf": [schema], **members}
    return schema


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"properties": {"a": {"type": "integr"}}}, 'inputSchema.properties.a.type: "integr" is not valid'),
        ({"properties": 3}, "is not of type"),
        ({"$schema": 7}, "is not of type"),
        ({"properties": {"a": {"pattern": "(?=a)b"}}}, '"(?=a)b" is not a "regex"'),
        ({"properties": {"a": {"pattern": "(a{1000}){1000}"}}}, "regex"),
        (doubling(30), "multiplies"),
        (doubling(30, "anyOf"), "multiplies"),
        (doubling(30, "oneOf"), "multiplies"),
        (doubling(8, unevaluatedProperties=False), "multiplies"),
        (within_each_other(25, unevaluatedProperties=False), "multiplies"),
        ({"allOf": [{"$ref": "#"}, {"$ref": "#"}]}, "too large"),
        ({"$ref": "#"}, "too large"),
        ({"properties": {"c": {"$ref": "#"}}, "unevaluatedProperties": False}, "contains itself"),
        ({"properties": {f"p{n}": {"pattern": f"x{n}"} for n in range(101)}}, "100 patterns"),
        (nested(70), "64 deep"),
        ({"description": "x" * MAX_SCHEMA}, "longer than"),
        (
            {"$defs": {str(n): {"$id": f"x{n}"} for n in range(200)}, "properties": {"a": {"$ref": "#"}}},
            "too many",
        ),
    ],
)
def test_a_schema_that_cannot_be_used_leaves_the_call_unchecked_and_says_why(
    caplog: pytest.LogCaptureFixture, schema: Json, reason: str
) -> None:
    assert reason in unchecked(caplog, schema)


def test_definitions_that_nobody_refers_to_cost_nothing() -> None:
    chain = {f"a{n}": {"not": {"$ref": f"#/$defs/a{n + 1}"}} for n in range(999)}
    assert refusal({"$defs": {**chain, "a999": {}}, "required": ["item"]}, {}) == "item is missing"


def test_references_in_a_long_chain_are_not_followed_to_the_end_of_the_stack(
    caplog: pytest.LogCaptureFixture,
) -> None:
    chain = {f"a{n}": {"not": {"$ref": f"#/$defs/a{n + 1}"}} for n in range(2000)}
    backwards = [{"$ref": f"#/$defs/a{n}"} for n in range(2000, -1, -100)]
    assert "within each other" in unchecked(caplog, {"allOf": backwards, "$defs": {**chain, "a2000": {}}})


def test_a_complete_tangle_of_references_ends(caplog: pytest.LogCaptureFixture) -> None:
    others = {f"a{n}": [{"$ref": f"#/$defs/a{m}"} for m in range(12) if m != n] for n in range(12)}
    tangle = {name: {"allOf": refs} for name, refs in others.items()}
    assert "too large" in unchecked(caplog, {"$ref": "#/$defs/a0", "$defs": tangle})


def test_what_doubles_with_each_level_of_the_arguments_goes_unchecked(
    caplog: pytest.LogCaptureFixture,
) -> None:
    twice = {"allOf": [{"properties": {"c": {"$ref": "#"}}}, {"properties": {"c": {"$ref": "#"}}}]}
    assert refusal(twice, nested(5, {"c": 3})) != ""
    assert "too large" in unchecked(caplog, twice, nested(190, {"c": 3}))


def test_an_expression_takes_linear_time() -> None:
    exploding = {"properties": {"a": {"pattern": "^(a+)+$"}}}
    assert 'does not match "^(a+)+$"' in refusal(exploding, {"a": "a" * 5_000 + "b"})


def test_a_long_text_is_not_run_through_an_expression(caplog: pytest.LogCaptureFixture) -> None:
    slow = {"properties": {"a": {"pattern": "[ab]*a[ab]{900}c"}, "b": {"type": "string"}}}
    assert "too large" in unchecked(caplog, slow, {"a": "ab" * 500_000})
    assert refusal(slow, {"a": "c", "b": "ab" * 50_000}) != ""


def test_large_arguments_of_a_usual_schema_are_checked() -> None:
    table = {
        "properties": {
            "text": {"type": "string"},
            "rows": {"items": {"properties": {f"f{n}": {"type": "string"} for n in range(10)}}},
        }
    }
    rows: list[Json] = [{f"f{n}": "x" for n in range(10)} for _ in range(500)]
    assert refusal(table, {"text": "x" * 1_000_000, "rows": rows}) == ""
    assert refusal(table, {"rows": [*rows, {"f1": 3}]}) == 'rows[500].f1: 3 is not of type "string"'


def test_what_would_be_copied_into_too_many_errors_is_refused_without_saying_where() -> None:
    said = refusal({"anyOf": [{"type": "string"}] * 300}, {"x": ["y" * 10] * 50_000})
    assert said == "arguments: do not fit the tool's inputSchema (they are too large to say where)"


def test_a_reason_is_logged_once_for_each_schema(caplog: pytest.LogCaptureFixture) -> None:
    check = ArgumentCheck()
    for schema in ({"$ref": "#"}, {"$ref": "x"}):
        for _ in range(5):
            assert check.find_errors(tool(schema), {}) == ""
    assert len(caplog.records) == 2


# ── Arguments that mean no good ─────────────────────────────────────────────────────────────────────────────


def test_arguments_may_be_200_deep() -> None:
    assert refusal({}, nested(199)) == ""
    assert refusal({}, nested(200)) == "arguments: are nested more than 200 deep"
    assert refusal({"properties": {"c": {"$ref": "#"}}}, nested(100_000)).endswith("200 deep")


@pytest.mark.parametrize(
    "odd",
    [
        "\ud800",
        10**400,
        pytest.param(10**5000, id="huge"),
        -(2**70),
        math.nan,
        math.inf,
        1e308,
        "\x00",
        (1, 2),
        b"x",
        object(),
    ],
)
def test_values_that_json_hardly_has_do_no_harm(odd: Any) -> None:
    for inner in ({"type": "string"}, {"maximum": 1}, {"enum": [1]}, {"multipleOf": 3}, {"pattern": "^a"}):
        refusal({"properties": {"a": inner}}, {"a": odd})


def test_half_a_character_in_a_name_does_no_harm() -> None:
    assert refusal({"additionalProperties": False}, {"\ud800": 1}) == ""


# ── Keeping ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_schema_is_compiled_once_and_those_needed_last_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[Json] = []
    real = compiled_schema._make_validator

    def counting(schema: Json, keyword: str) -> Any:
        compiled.append(schema)
        return real(schema, keyword)

    monkeypatch.setattr(compiled_schema, "_make_validator", counting)
    check = ArgumentCheck()
    first = tool({"required": ["n0"]})
    for number in range(MAX_KEPT):
        assert check.find_errors(tool({"required": [f"n{number}"]}), {}) == f"n{number} is missing"
        assert check.find_errors(first, {}) == "n0 is missing"
    assert len(compiled) == MAX_KEPT
    check.find_errors(tool({"required": ["one more"]}), {})
    check.find_errors(first, {})
    assert len(compiled) == MAX_KEPT + 1
    check.find_errors(tool({"required": ["n1"]}), {})
    assert len(compiled) == MAX_KEPT + 2


# ── Whatever ────────────────────────────────────────────────────────────────────────────────────────────────

names = st.sampled_from(["a", "b", "c"])
references = st.sampled_from(["#", "#/$defs/d", "#/$defs/e", "#m", "x", "file:///etc/passwd"])
leaves: st.SearchStrategy[Any] = st.one_of(
    st.booleans(),
    st.builds(lambda kind: {"type": kind}, st.sampled_from(["string", "object", "array", "integer", "odd"])),
    st.builds(lambda found: {"enum": found}, st.lists(st.integers() | st.text(max_size=3), max_size=3)),
    st.builds(lambda pattern: {"pattern": pattern}, st.sampled_from(["^a+$", "(a|a)*b", "(", "(?=a)"])),
    st.builds(lambda reference: {"$ref": reference}, references),
    st.just({"minimum": 3, "multipleOf": 0.1, "uniqueItems": True}),
)


def around(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    single = st.sampled_from(
        [
            "not",
            "items",
            "contains",
            "propertyNames",
            "additionalProperties",
            "unevaluatedProperties",
            "if",
            "then",
        ]
    )
    several = st.sampled_from(["allOf", "anyOf", "oneOf", "prefixItems"])
    named = st.sampled_from(["properties", "patternProperties", "dependentSchemas", "$defs"])
    return st.one_of(
        st.dictionaries(single, inner, max_size=3),
        st.dictionaries(several, st.lists(inner, min_size=1, max_size=3), max_size=2),
        st.dictionaries(named, st.dictionaries(names, inner, max_size=3), max_size=2),
    )


schemas = st.recursive(leaves, around, max_leaves=12)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(names | st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=15,
)


@settings(deadline=None, max_examples=300)
@given(schemas, schemas, schemas, st.dictionaries(names, json_values, max_size=3))
def test_whatever_the_schema_and_the_arguments_there_is_a_short_answer_soon(
    schema: Any, first: Any, second: Any, arguments: Json
) -> None:
    whole = {**(schema if isinstance(schema, dict) else {}), "$defs": {"d": first, "e": second}}
    assert len(refusal(whole, arguments)) <= 3 * 200 + 4


@settings(deadline=None, max_examples=200)
@given(st.dictionaries(st.text(max_size=8), json_values, max_size=4), st.dictionaries(names, json_values))
def test_what_is_no_schema_at_all_does_no_harm(schema: Json, arguments: Json) -> None:
    refusal(json.loads(json.dumps(schema)), arguments)
