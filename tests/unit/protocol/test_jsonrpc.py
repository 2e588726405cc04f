"""Envelopes: what is a message, what is not, and that payloads pass through untouched."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from native_host.protocol import jsonrpc
from native_host.protocol.jsonrpc import UndecodableError
from native_host.protocol.wire import Code

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", Code.PARSE_ERROR),
        (b"{", Code.PARSE_ERROR),
        (b'{"method":"a","params":{"x":NaN}}', Code.PARSE_ERROR),
        (b'{"method":"a","params":{"x":Infinity}}', Code.PARSE_ERROR),
        (b'{"method":"a","params":"\xff"}', Code.PARSE_ERROR),
        (b'{"method":"a","params":{"x":"\\ud800"}}', Code.PARSE_ERROR),
        (b'{"method":"a","params":' + b"[" * 100_000 + b"]" * 100_000 + b"}", Code.PARSE_ERROR),
        (b"[]", Code.INVALID_REQUEST),
        (b'[{"method":"a"}]', Code.INVALID_REQUEST),
        (b"7", Code.INVALID_REQUEST),
        (b"{}", Code.INVALID_REQUEST),
        (b'{"method":7}', Code.INVALID_REQUEST),
        (b'{"id":1}', Code.INVALID_REQUEST),
        (b'{"result":{}}', Code.INVALID_REQUEST),
    ],
)
def test_what_is_no_message_is_refused_with_the_code_it_deserves(body: bytes, code: Code) -> None:
    with pytest.raises(UndecodableError) as caught:
        jsonrpc.decode(body)
    assert caught.value.code is code


def test_of_duplicate_keys_the_last_one_holds_as_browsers_have_it() -> None:
    message = jsonrpc.decode(b'{"id":1,"id":2,"method":"a","method":"b"}')
    assert (bytes(message.id), message.method) == (b"2", "b")


@pytest.mark.parametrize("raw_id", [b"0", b"-1", b"1152921504606846976", b'"7"', b'""', b"1.5"])
def test_an_id_keeps_its_bytes_and_so_its_type(raw_id: bytes) -> None:
    message = jsonrpc.decode(jsonrpc.request(raw_id, "a", b"{}"))
    assert bytes(message.id) == raw_id
    assert jsonrpc.is_id(raw_id)


@pytest.mark.parametrize("raw_id", [b"null", b"true", b"false", b"{}", b"[]", b""])
def test_only_strings_and_numbers_are_ids(raw_id: bytes) -> None:
    """`true` would answer request 1, since the two are equal in Python."""
    assert not jsonrpc.is_id(raw_id)


@given(json_values)
def test_params_pass_through_byte_for_byte(value: object) -> None:
    params = json.dumps(value).encode()
    try:
        message = jsonrpc.decode(jsonrpc.request(b"1", "a", params))
    except UndecodableError:
        with pytest.raises(msgspec.DecodeError):
            msgspec.json.decode(params)
        return
    assert bytes(message.params) == params


@given(st.binary())
def test_any_body_is_a_message_or_undecodable(body: bytes) -> None:
    try:
        jsonrpc.decode(body)
    except UndecodableError:
        return


def test_a_failure_says_whether_the_page_may_have_got_the_call() -> None:
    body = jsonrpc.failure(b"1", Code.GONE, "gone", handed=True)
    assert json.loads(body) == {
        "jsonrpc": "2.0",
        "id": 1,
        "error": {"code": -32010, "message": "gone", "data": {"handed": True}},
    }


def test_an_answer_s_result_is_found_without_reading_it() -> None:
    body = b"".join(jsonrpc.answer(b"7", jsonrpc.decode(b'{"id":1,"result":{"a":"\xc3\xa9"}}')))
    assert jsonrpc.read_result(body) == (b"7", b'{"a":"\xc3\xa9"}')


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"}",
        b'{"jsonrpc":"2.0","id":7}',
        b'{"jsonrpc":"2.0","id":"7","result":{}}',
        b'{"jsonrpc":"2.0", "id":7,"result":{}}',
        b'{"jsonrpc":"2.0","id":7,"result":{}} ',
        b'{"jsonrpc":"2.0","id":7,"error":{"data":1,"result":{}}}',
        b'{"jsonrpc":"2.0","method":"a","params":{"x":[1,"result":2]}}',
        b'{"jsonrpc":"2.0","id":7,"result":"\xff"}',
    ],
)
def test_what_is_written_otherwise_has_to_be_decoded(body: bytes) -> None:
    assert jsonrpc.read_result(body) is None
