"""What an extension answers to a call, in whatever form it is written."""

import logging
import time
from typing import Any, get_args

import msgspec
import pytest

from bridge.errors import CallError
from bridge.hub import tool_result
from bridge.hub.page_tool import PageTool
from bridge.hub.policy import Policy, PolicyRules, ResultRule
from bridge.hub.tool_result import MAX_CHECKED_BYTES, MAX_LINKING_BYTES, Answer, ResultCheck
from native_host.protocol.wire import Code

CART = b'{"content":[{"type":"text","text":"tea"}]}'


@pytest.mark.parametrize(
    "executed",
    [
        b'{"success":true,"payload":%b}' % CART,
        b'{"success":true,"payload":%b,"extensions":{"a":1}}' % CART,
        b'{"success": true, "payload": %b}' % CART,
        b'{"success":true,"payload": %b}' % CART,
        b'{"payload":%b,"success":true}' % CART,
        b'{"success":true,"payload":1,"payload":%b}' % CART,
    ],
    ids=[
        "as extensions write it",
        "with more behind",
        "with spaces",
        "with one space",
        "in another order",
        "twice",
    ],
)
def test_the_page_s_result_is_passed_on_byte_for_byte(executed: bytes) -> None:
    assert tool_result.read_result(executed) == Answer(CART, is_error=False)


@pytest.mark.parametrize(
    ("payload", "is_error"),
    [
        (b'{"content":[],"isError":true}', True),
        (b'{"content":[],"isError":false}', False),
        (b'{"content":[{"isError":true}]}', False),
        (b'{"content":[],"isError":"yes"}', False),
        (b'"isError"', False),
        (b"null", False),
    ],
)
@pytest.mark.parametrize("form", [b'{"success":true,"payload":%b}', b'{"payload":%b,"success":true}'])
def test_a_failure_is_what_the_page_calls_one(payload: bytes, is_error: bool, form: bytes) -> None:
    assert tool_result.read_result(form % payload) == Answer(payload, is_error)


def result(*uris: object, **more: object) -> bytes:
    links = [{"type": "resource_link", "uri": uri, "name": "x"} for uri in uris]
    return msgspec.json.encode({"content": [{"type": "text", "text": "see"}, *links], **more})


@pytest.mark.parametrize("form", [b'{"success":true,"payload":%b}', b'{"payload":%b,"success":true}'])
def test_links_are_read(form: bytes) -> None:
    payload = result("x://1", "x://2", isError=True)
    answer = Answer(payload, is_error=True, links=("x://1", "x://2"))
    assert tool_result.read_result(form % payload) == answer


@pytest.mark.parametrize(
    "odd",
    [
        b'{"content":"resource_link"}',
        b'{"content":[7,"resource_link"]}',
        b'{"content":[{"type":["resource_link"],"uri":"x://1"},"resource_link"]}',
        result(7, None, ["x://1"]),
        result("x://1", more="x" * MAX_LINKING_BYTES),
    ],
    ids=lambda odd: odd[:40].decode(),
)
def test_a_result_whose_links_cannot_be_read_is_passed_on(odd: bytes) -> None:
    assert tool_result.read_result(b'{"success":true,"payload":%b}' % odd) == Answer(odd, is_error=False)


@pytest.mark.parametrize(
    ("thrown", "said"),
    [("Error: out of tea", "Error: out of tea"), ("", "did not say why"), ({"reason": 1}, '{"reason":1}')],
)
def test_what_a_tool_threw_is_told_as_a_failure(thrown: Any, said: str) -> None:
    answer = tool_result.read_result(msgspec.json.encode({"success": False, "payload": thrown}))
    assert isinstance(answer, Answer)
    assert answer.is_error
    assert said in msgspec.json.decode(answer.result)["content"][0]["text"]


@pytest.mark.parametrize(
    "executed",
    [
        b"",
        b"7",
        b'{"success":true,"payload":',
        b'{"success":true,"payload":}',
        b'{"success":true,"payload":1}}',
    ],
)
def test_what_cannot_be_read_may_have_run(executed: bytes) -> None:
    error = tool_result.read_result(executed)
    assert isinstance(error, CallError)
    assert (error.code, error.handed) == (Code.INTERNAL_ERROR, True)


# ── Results against the schema of their tool ────────────────────────────────────────────────────────────────

ORIGIN = "https://shop.example"
TOTAL: dict[str, Any] = {
    "type": "object",
    "properties": {"total": {"type": "number"}, "lines": {"type": "array", "items": {"type": "string"}}},
    "required": ["total"],
}
SLOW_S = 5.0
"""Of processor time; everything here takes less than a tenth of it."""


def tool(output_schema: Any) -> PageTool:
    definition = {"name": "sum", "inputSchema": {"type": "object"}, "outputSchema": output_schema}
    return PageTool.of("sum", definition, msgspec.json.encode(definition))


def mismatch(output_schema: Any, result: bytes, rule: ResultRule = "warn", *, is_error: bool = False) -> str:
    check = ResultCheck(Policy(PolicyRules(results=rule)))
    return check.find_mismatch(ORIGIN, tool(output_schema), Answer(result, is_error))


@pytest.mark.parametrize(
    ("result", "fields"),
    [
        (b'{"content":[],"structuredContent":{"total":1.5}}', ""),
        (b'{"content":[],"structuredContent":{"total":1,"more":[]}}', ""),
        (b'{"content":[],"structuredContent":{"total":"secret"}}', "total: type"),
        (b'{"content":[],"structuredContent":{"lines":[7]}}', "lines[0]: type; total: required"),
        (b'{"content":[],"structuredContent":["total"]}', "structuredContent: type"),
        (b'{"content":[]}', "structuredContent: required"),
        (b'{"content":[],"structuredContent":null}', "structuredContent: required"),
        (b"[]", "structuredContent: type"),
    ],
)
def test_a_result_is_compared_with_the_output_schema(result: bytes, fields: str) -> None:
    assert sorted(mismatch(TOTAL, result).split("; ")) == sorted(fields.split("; "))
    assert mismatch(TOTAL, result, "pass") == ""


def test_a_failure_needs_no_structured_content() -> None:
    assert mismatch(TOTAL, b'{"content":[],"isError":true}', is_error=True) == ""


def test_a_result_of_a_tool_without_output_schema_fits() -> None:
    for rule in get_args(ResultRule):
        assert mismatch(None, b'{"content":[],"structuredContent":7}', rule) == ""


def test_a_mismatch_is_logged_with_its_field_and_without_a_value(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        mismatch(TOTAL, b'{"content":[],"structuredContent":{"total":"secret"}}')
    (record,) = caplog.records
    assert record.args == (ORIGIN, "sum", "total: type")


def test_a_rejection_says_that_the_tool_may_have_run() -> None:
    with pytest.raises(CallError) as caught:
        mismatch(TOTAL, b'{"content":[],"structuredContent":{"total":"secret"}}', "reject")
    assert (caught.value.code, caught.value.handed) == (Code.NOT_ALLOWED, True)
    assert "total: type" in caught.value.detail
    assert "secret" not in caught.value.detail


def nested(depth: int) -> bytes:
    return b'{"content":[],"structuredContent":{"total":1,"c":%b}}' % (b"[" * depth + b"]" * depth)


@pytest.mark.parametrize(
    ("schema", "result", "fields"),
    [
        ({"type": "object", "$ref": "https://elsewhere.example/"}, b'{"structuredContent":{}}', ""),
        ({"type": "object", "properties": {"a": {"type": "odd"}}}, b'{"structuredContent":{}}', ""),
        ({"$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}] * 9}}, "$ref": "#/$defs/a"}, b"{}", None),
        (TOTAL, b'{"structuredContent":{"lines":"%b"}}' % (b"x" * MAX_CHECKED_BYTES), ""),
        (TOTAL, nested(500), "structuredContent: outputSchema"),
        (TOTAL, nested(100_000), "structuredContent: type"),
        (TOTAL, b'{"structuredContent":{"total":1e999}}', "structuredContent: type"),
        (TOTAL, b'{"structuredContent":{"total":"\xff"}}', "structuredContent: type"),
        (
            {"type": "object", "properties": {"total": {"pattern": "^(a+)+$"}}},
            b'{"structuredContent":{"total":"%b"}}' % (b"a" * 100_000 + b"!"),
            None,
        ),
    ],
    ids=["elsewhere", "no schema", "explodes", "large", "deep", "abyss", "no number", "no text", "pattern"],
)
def test_hostile_schemas_and_results_are_not_compared_for_long(
    schema: Any, result: bytes, fields: str | None
) -> None:
    began = time.process_time()
    found = mismatch(schema, result)
    assert time.process_time() - began < SLOW_S
    assert fields is None or found == fields
