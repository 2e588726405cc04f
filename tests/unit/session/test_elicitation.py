"""A page's question: which forms a person may be shown, and what the page gets back."""

import json
from typing import Any

import msgspec
import pytest

from bridge.errors import CallError
from bridge.hub.server_request import ClientSupport
from bridge.mcp_session import elicitation
from bridge.mcp_session.call_observer import ClientFacingRequest, make_observer
from native_host.protocol import wire
from native_host.protocol.untrusted_text import MAX_TITLE_CHARS
from native_host.protocol.wire import Code

BUY = wire.ElicitConfirmation(message="Buy?")


def read(form: Any) -> elicitation.ElicitationRequest:
    raw = msgspec.Raw(json.dumps(form).encode())
    return elicitation.read_form(wire.ElicitConfirmation(message="Buy?", requested_schema=raw))


def form(**fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": fields}


def test_a_question_without_a_form_asks_for_a_yes_or_no() -> None:
    assert elicitation.read_form(BUY) == ("Buy?", {"type": "object", "properties": {}})


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
        ([], "expected object"),
        ({"type": "array", "properties": {}}, "type: "),
        ({"type": "object"}, "properties"),
        (form(address={"type": "object", "properties": {}}), "properties[...]"),
        (form(list={"type": "array"}), "items"),
        (form(list={"type": "array", "items": {"enum": [1]}}), "items.enum"),
        (form(name={"$ref": "file:///etc/passwd"}), "type"),
        (form(name={"type": ["string", "null"]}), "properties[...]"),
        (form(name={"type": "string", "format": "password"}), "format"),
        (form(name={"type": "string", "enum": [1]}), "enum"),
        (form(name="string"), "properties[...]"),
        ({**form(), "required": "all"}, "required: "),
        (form(name={"type": "string", "title": "x" * elicitation.MAX_FORM_BYTES}), "the limit is 65536"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_a_form_that_mcp_does_not_know_is_refused_and_the_error_says_where(refused: Any, where: str) -> None:
    with pytest.raises(CallError) as caught:
        read(refused)
    assert (caught.value.code, caught.value.handed) == (Code.INVALID_PARAMS, False)
    assert where in caught.value.detail


HOSTILE = "\x1b[2J\n\n\u202ehttps://bank.example asks:  your password"


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (
            form(name={"type": "string", "title": HOSTILE, "description": HOSTILE}),
            form(name={"type": "string", "title": "SAFE", "description": "SAFE"}),
        ),
        (
            form(size={"type": "string", "enum": ["S"], "enumNames": [HOSTILE]}),
            form(size={"type": "string", "enum": ["S"], "enumNames": ["SAFE"]}),
        ),
        (
            form(size={"type": "string", "oneOf": [{"const": "S", "title": HOSTILE}]}),
            form(size={"type": "string", "oneOf": [{"const": "S", "title": "SAFE"}]}),
        ),
        (
            form(sizes={"type": "array", "items": {"anyOf": [{"const": "S", "title": HOSTILE}]}}),
            form(sizes={"type": "array", "items": {"anyOf": [{"const": "S", "title": "SAFE"}]}}),
        ),
        ({**form(), "title": HOSTILE}, {**form(), "title": "SAFE"}),
    ],
    ids=["field", "enumNames", "oneOf", "anyOf", "form"],
)
def test_what_a_person_reads_of_a_form_is_one_printable_line(
    written: dict[str, Any], shown: dict[str, Any]
) -> None:
    safe = "[2J https://bank.example asks: your password"
    assert read(written).form == json.loads(json.dumps(shown).replace("SAFE", safe))


def test_titles_and_descriptions_are_cut() -> None:
    long = form(name={"type": "string", "title": "x" * 5000, "description": "y" * 5000})
    shown = read(long).form["properties"]["name"]
    assert (len(shown["title"]), len(shown["description"])) == (MAX_TITLE_CHARS, elicitation.MAX_DESCRIPTION)


@pytest.mark.parametrize("bad", [HOSTILE, "x" * (elicitation.MAX_VALUE + 1)], ids=["hostile", "long"])
def test_names_and_values_go_back_to_the_page_as_they_are_so_bad_ones_are_refused(bad: str) -> None:
    for refused in (
        form(**{bad: {"type": "boolean"}}),
        form(size={"type": "string", "enum": ["S", bad]}),
        form(size={"type": "string", "oneOf": [{"const": bad, "title": "small"}]}),
        form(name={"type": "string", "default": bad}),
        form(name={"type": "string", "examples": [{"title": {"deep": bad}}]}),
        {**form(), "required": [bad]},
    ):
        with pytest.raises(CallError, match="is not printable, or longer than 300 characters") as caught:
            read(refused)
        assert caught.value.detail.isprintable()


def test_a_field_may_be_called_title() -> None:
    named = form(title={"type": "string", "title": "Title"}, description={"type": "boolean"})
    assert read(named).form == named


async def test_a_call_asks_a_bounded_number_of_times() -> None:
    async def ask(_: ClientFacingRequest) -> bytes:
        return b"[]"

    support = ClientSupport(elicitation=True, roots=True)
    asking, another = (make_observer(support, ask, None) for _ in range(2))
    for _ in range(10):
        for request in (BUY, wire.PageRequest(method="roots/list")):
            assert await asking.on_request(request) == b"[]"
    with pytest.raises(CallError, match="may ask 20 times") as caught:
        await asking.on_request(BUY)
    assert (caught.value.code, caught.value.handed) == (Code.RATE_LIMITED, False)
    assert await another.on_request(BUY) == b"[]"


def test_only_an_accepted_question_brings_the_page_what_was_filled_in() -> None:
    assert (
        elicitation.make_elicit_result("accept", {"name": "é"})
        == '{"action": "accept", "content": {"name": "é"}}'.encode()
    )
    assert elicitation.make_elicit_result("accept", None) == b'{"action": "accept", "content": {}}'
    assert elicitation.make_elicit_result("decline", {"name": "a"}) == b'{"action": "decline"}'
    assert elicitation.make_elicit_result("cancel", None) == b'{"action": "cancel"}'
