"""Validation errors of msgspec: explained as structure, to users, to models, and in the audit log."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta

from bridge.browser_tools.session.call_context import CallContext
from bridge.browser_tools.tool import Tool, ToolInput
from bridge.browser_tools.tool_output import ToolOutput, ToolResult
from bridge.errors import CallError
from bridge.hub.argument_validation import Arguments
from native_host.protocol.validation_errors import (
    ProblemKind,
    ValidationProblem,
    describe_problem,
    explain,
    rejected_field,
)


class Item(msgspec.Struct, forbid_unknown_fields=True):
    kind: Literal["tea", "milk"]
    count: Annotated[int, msgspec.Meta(ge=1, le=10)] = 1
    name: Annotated[str, msgspec.Meta(max_length=5, pattern="^[a-z]*$")] = ""
    more: dict[str, int] = {}


class Order(msgspec.Struct, forbid_unknown_fields=True):
    items: list[Item] = []


def error_of(value: object) -> Exception:
    with pytest.raises(msgspec.ValidationError) as raised:
        msgspec.convert(value, Order)
    return raised.value


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ({}, "items[0].kind: required"),
        ({"kind": "hunter2"}, "items[0].kind: enum"),
        ({"kind": "hunter2` - at `$.hunter2`"}, "items[0].kind: enum"),
        ({"kind": "tea", "count": "hunter2"}, "items[0].count: type"),
        ({"kind": "tea", "count": 11}, "items[0].count: range"),
        ({"kind": "tea", "name": "hunter2"}, "items[0].name: length"),
        ({"kind": "tea", "name": "HUNT"}, "items[0].name: pattern"),
        ({"kind": "tea", "more": {"hunter2": "x"}}, "items[0].more[...]: type"),
        ({"kind": "tea", "hunter2": 1}, "arguments: additionalProperties"),
        ({"kind": "tea", "hunter2` - at `$.hunter2": 1}, "arguments: additionalProperties"),
        ("hunter2", "items[0]: type"),
    ],
)
def test_a_rejected_value_is_named_by_field_and_rule(item: Any, expected: str) -> None:
    assert rejected_field(error_of({"items": [item]})) == expected


def test_what_is_no_json_is_named_without_its_text() -> None:
    with pytest.raises(msgspec.DecodeError) as raised:
        msgspec.json.decode(b'{"items": hunter2}')
    assert rejected_field(raised.value) == "arguments: invalid"


LEAF = st.sampled_from(["hunter2", "` - at `$.hunter2`", "hunter2` - at `key in $.hunter2`", 7, None, 1.5])
VALUES = st.recursive(
    LEAF,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["kind", "count", "more", "items", "hunter2", "x` - at `$.hunter2`"]), inner
        )
    ),
    max_leaves=8,
)


@given(value=st.fixed_dictionaries({"items": st.lists(VALUES, min_size=1, max_size=2)}) | VALUES)
def test_no_text_of_the_sender_is_ever_named(value: object) -> None:
    texts = []
    try:
        msgspec.convert(value, Order)
    except msgspec.ValidationError as error:
        texts.append(rejected_field(error))
    assert "hunter2" not in "".join(texts)


@pytest.mark.parametrize(
    ("item", "problem", "text"),
    [
        ({}, ValidationProblem("items[0]", ProblemKind.MISSING, "kind"), "items[0]: kind is missing"),
        (
            {"kind": "x"},
            ValidationProblem("items[0].kind", ProblemKind.CHOICE, actual="x"),
            "items[0].kind: x is not one of its values",
        ),
        (
            {"kind": "tea", "count": 11},
            ValidationProblem("items[0].count", ProblemKind.RANGE, "int", comparison="<=", limit=10),
            "items[0].count: expected int <= 10",
        ),
        (
            {"kind": "tea", "name": "hunter2"},
            ValidationProblem("items[0].name", ProblemKind.LENGTH, "str", comparison="<=", limit=5),
            "items[0].name: expected str of length <= 5",
        ),
        (
            {"kind": "tea", "name": "HUNT"},
            ValidationProblem("items[0].name", ProblemKind.PATTERN, "str", comparison="^[a-z]*$"),
            "items[0].name: expected str matching ^[a-z]*$",
        ),
        (
            {"kind": "tea", "count": {}},
            ValidationProblem("items[0].count", ProblemKind.TYPE, "int", "object"),
            "items[0].count: expected int, got object",
        ),
        (
            {"kind": "tea", "sugar": 1},
            ValidationProblem("items[0]", ProblemKind.UNKNOWN, actual="sugar"),
            "items[0]: there is no key sugar",
        ),
    ],
)
def test_a_rejected_value_is_explained(item: Any, problem: ValidationProblem, text: str) -> None:
    error = error_of({"items": [item]})
    assert explain(error) == problem
    assert describe_problem(error) == text


# ── Arguments of a tool ─────────────────────────────────────────────────────────────────────────────────────


class Cup(msgspec.Struct):
    """A part of what is given."""

    tea: Literal["green", "black"]


class CupOrder(ToolInput):
    """What is given."""

    size: Literal["small", "large"]
    sugar: Annotated[float, Meta(ge=0.5, le=30)] = 1
    count: int = 1
    place: Annotated[list[float], Meta(min_length=2, max_length=2)] = []
    name: Annotated[str, Meta(min_length=1)] = "Ada"
    cups: list[Cup] = []
    hot: bool | None = None


async def run(_given: CupOrder, _context: CallContext) -> ToolResult:
    raise AssertionError


TOOL = Tool(name="order", title="", description="", input_type=CupOrder, output_type=ToolOutput, run=run)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "size is missing"),
        ({"size": "huge"}, "size is one of large, small"),
        ({"milk": 1}, 'unknown argument "milk"; known: size, sugar, count, place, name, cups, hot'),
        ({"sugar": 31}, "sugar is at most 30"),
        ({"sugar": 0}, "sugar is at least 0.5"),
        ({"sugar": "x"}, "sugar is a number, not text"),
        ({"count": 1.5}, "count is a whole number, not a number"),
        ({"place": [1]}, "place has at least 2 items"),
        ({"place": [1, 2, 3]}, "place has at most 2 items"),
        ({"place": [1, "x"]}, "place[1] is a number, not text"),
        ({"name": ""}, "name has at least 1 character"),
        ({"cups": {"tea": 1}}, "cups is a list, not an object"),
        ({"cups": [{}]}, "cups[0].tea is missing"),
        ({"cups": [{"tea": "red"}]}, "cups[0].tea is one of black, green"),
        ({"hot": [1]}, "hot is true or false or null, not a list"),
    ],
)
def test_a_rejected_argument_is_explained_to_the_model(arguments: dict[str, Any], said: str) -> None:
    whole = {"size": "small", **arguments} if arguments else arguments
    with pytest.raises(CallError) as refused:
        TOOL.read_arguments(Arguments.of(whole))
    assert refused.value.detail == said
