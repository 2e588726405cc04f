"""Messages of foreign peers, and what the router receives in their place."""

from __future__ import annotations

import json

import pytest

from native_host.protocol import jsonrpc
from native_host.protocol.jsonrpc import UndecodableError
from websocket_proxy.dialects import (
    decode_client,
    decode_extension,
    may_notify_clients,
    read_direct_handshake,
)


def decode_error(error: str) -> object:
    """Return the error that a client receives for this one."""
    message = decode_extension(b'{"id":"conn-1:1","error":%b}' % error.encode())
    return json.loads(b"".join(jsonrpc.answer(b"1", message)))["error"]


def test_a_response_needs_no_jsonrpc() -> None:
    message = decode_extension(b'{"id":"conn-1:1","result":{"tabId":42}}')
    assert message.is_response
    assert b"".join(jsonrpc.answer(b"1", message)) == b'{"jsonrpc":"2.0","id":1,"result":{"tabId":42}}'


@pytest.mark.parametrize("result", ["{}", "null", "0", '""', "[ 1,  2.50, 1e3 ]", '{"a":"\\u00e9"}'])
def test_a_result_passes_byte_for_byte(result: str) -> None:
    message = decode_extension(b'{"id":"conn-1:1","result":%b}' % result.encode())
    assert bytes(message.result) == result.encode()


def test_an_error_with_a_code_passes_byte_for_byte() -> None:
    error = '{ "code":-32000,"message":"x", "stack":"at y", "data":{"n":1.0} }'
    message = decode_extension(b'{"id":"conn-1:1","error":%b}' % error.encode())
    assert bytes(message.error) == error.encode()


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ('{"message":"no tab","stack":"Error\\n at x"}', {"code": -32000, "message": "no tab"}),
        ('{"message":"no tab","data":{"a":1}}', {"code": -32000, "message": "no tab", "data": {"a": 1}}),
        ("{}", {"code": -32000, "message": ""}),
        ('"no tab"', {"code": -32000, "message": "no tab"}),
        ("[1]", {"code": -32000, "message": "[1]"}),
    ],
)
def test_an_error_without_a_code_gets_one_and_loses_its_stack(theirs: str, ours: object) -> None:
    assert decode_error(theirs) == ours


@pytest.mark.parametrize("body", [b'{"id":"conn-1:1"}', b'{"id":"conn-1:1","error":null}'])
def test_a_response_with_neither_result_nor_error_becomes_an_error(body: bytes) -> None:
    error = json.loads(bytes(decode_extension(body).error))
    assert (error["code"], error["data"]) == (-32603, {"handed": True})


def test_a_null_error_beside_a_result_is_no_error() -> None:
    message = decode_extension(b'{"id":"conn-1:1","result":{"a":1},"error":null}')
    assert b"".join(jsonrpc.answer(b"1", message)) == b'{"jsonrpc":"2.0","id":1,"result":{"a":1}}'


@pytest.mark.parametrize("body", [b"", b"{", b"7", b"[]", b"{}", b"null", b'{"method":7}', b"[" * 100_000])
def test_no_json_rpc_message_is_undecodable_at_both_endpoints(body: bytes) -> None:
    for decode in (decode_client, decode_extension):
        with pytest.raises(UndecodableError) as caught:
            decode(body)
        assert caught.value.code in {-32700, -32600}


def test_a_lone_surrogate_in_an_id_is_invalid_json() -> None:
    with pytest.raises(UndecodableError) as caught:
        decode_client(rb'{"jsonrpc":"2.0","id":"\ud800","method":"getTabs"}')
    assert caught.value.code == -32700


@pytest.mark.parametrize(
    ("member", "is_for"),
    [
        ("", True),
        (',"connectionId":null', True),
        (',"connectionId":"conn-1"', True),
        (r',"connectionId":"\u0063onn-1"', True),
        (',"connectionId":"conn-2"', False),
        (',"connectionId":1', False),
    ],
)
def test_a_client_may_name_its_connection(member: str, is_for: bool) -> None:
    body = '{"jsonrpc":"2.0","id":1,"method":"getTabs"' + member + "}"
    assert decode_client(body.encode()).is_for("conn-1") is is_for


def test_a_request_without_jsonrpc_is_recognized() -> None:
    assert not decode_client(b'{"id":0,"method":"getTabs"}').has_version
    assert decode_client(b'{"jsonrpc":"2.0","id":0,"method":"getTabs"}').has_version


def test_the_first_message_in_blueprint_s_free_mode_names_the_browser() -> None:
    body = b'{"type":"handshake","browser":"Chrome","version":"1.9.20","buildTimestamp":"2025-10-20"}'
    handshake = read_direct_handshake(body)
    assert handshake is not None
    assert handshake.browser == "Chrome"


@pytest.mark.parametrize("body", [b"{}", b'{"type":"hello"}', b"{", b'{"id":"proxy:1","result":{}}', b"[]"])
def test_any_other_message_is_no_direct_handshake(body: bytes) -> None:
    assert read_direct_handshake(body) is None


def test_a_foreign_extension_may_notify_under_any_name_but_those_of_the_proxy_and_of_our_extension() -> None:
    assert may_notify_clients("notifications/tab_info_update")
    assert may_notify_clients("build_info")
    for method in ("status", "disconnected", "extensions", "host/error", "bridge/sessions", "browser/tabs"):
        assert not may_notify_clients(method)
