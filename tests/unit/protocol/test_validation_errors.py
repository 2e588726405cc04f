"""What the audit log says of rejected arguments: field and rule, never a value."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from native_host.protocol.validation_errors import rejected_field


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
