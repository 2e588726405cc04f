"""What an extension answers to a call, in whatever form it is written."""

from typing import Any

import msgspec
import pytest

from bridge.errors import CallError
from bridge.hub import tool_result
from bridge.hub.tool_result import Answer
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
