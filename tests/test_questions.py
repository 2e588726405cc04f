"""A page's question: which forms a person may be shown, and what the page gets back."""

import json
from typing import Any

import msgspec
import pytest

from bridge import questions
from bridge.errors import CallError
from native_host import wire
from native_host.wire import Code


def read(form: Any) -> questions.Question:
    raw = msgspec.Raw(json.dumps(form).encode())
    return questions.read(wire.ElicitConfirmation(message="Buy?", requested_schema=raw))


def form(**fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": fields}


def test_a_question_without_a_form_asks_for_a_yes_or_no() -> None:
    asked = wire.ElicitConfirmation(message="Buy?")
    assert questions.read(asked) == ("Buy?", {"type": "object", "properties": {}})


@pytest.mark.parametrize(
    "allowed",
    [
        form(),
        form(name={"type": "string", "title": "Name", "minLength": 1, "format": "email", "default": "a@b"}),
        form(size={"type": "string", "enum": ["S", "M"], "enumNames": ["small", "medium"]}),
        form(size={"type": "string", "oneOf": [{"const": "S", "title": "small"}]}),
        form(age={"type": "integer", "minimum": 0}, price={"type": "number", "maximum": 1.5}),
        form(sure={"type": "boolean", "default": True}),
        form(sizes={"type": "array", "items": {"type": "string", "enum": ["S", "M"]}, "maxItems": 2}),
        form(sizes={"type": "array", "items": {"anyOf": [{"const": "S", "title": "small"}]}}),
        {
            **form(name={"type": "string", "pattern": "^a"}),
            "required": ["name"],
            "additionalProperties": False,
        },
    ],
    ids=str,
)
def test_a_form_of_mcp_passes_as_the_page_wrote_it(allowed: dict[str, Any]) -> None:
    assert read(allowed).form == allowed


@pytest.mark.parametrize(
    ("refused", "where"),
    [
        ([], "Expected `object`"),
        ({"type": "array", "properties": {}}, "$.type"),
        ({"type": "object"}, "properties"),
        (form(address={"type": "object", "properties": {}}), "$.properties"),
        (form(list={"type": "array"}), "items"),
        (form(list={"type": "array", "items": {"enum": [1]}}), "items.enum"),
        (form(name={"$ref": "file:///etc/passwd"}), "type"),
        (form(name={"type": ["string", "null"]}), "$.properties"),
        (form(name={"type": "string", "format": "password"}), "format"),
        (form(name={"type": "string", "enum": [1]}), "enum"),
        (form(name="string"), "$.properties"),
        ({**form(), "required": "all"}, "$.required"),
        (form(name={"type": "string", "title": "x" * questions.MAX_FORM_BYTES}), "the limit is 65536"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_a_form_that_mcp_does_not_know_is_refused_and_the_error_says_where(refused: Any, where: str) -> None:
    with pytest.raises(CallError) as caught:
        read(refused)
    assert (caught.value.code, caught.value.handed) == (Code.INVALID_PARAMS, False)
    assert where in caught.value.detail


def test_only_an_accepted_question_brings_the_page_what_was_filled_in() -> None:
    assert (
        questions.answer("accept", {"name": "é"}) == '{"action": "accept", "content": {"name": "é"}}'.encode()
    )
    assert questions.answer("accept", None) == b'{"action": "accept", "content": {}}'
    assert questions.answer("decline", {"name": "a"}) == b'{"action": "decline"}'
    assert questions.answer("cancel", None) == b'{"action": "cancel"}'
