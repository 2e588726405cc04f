"""What a page answers to a read: validated, marked, and with the URIs that the client knows."""

import json
from typing import Any

import pytest

from bridge.errors import CallError
from bridge.hub.primitives.page_contents import read_contents
from bridge.hub.primitives.resource_catalog import ResourceTarget
from fake_transport import tab
from native_host.protocol import wire
from native_host.protocol.wire import Code
from page_resources import CART, SESSION, SHOP, Pages, page

PUBLIC = "mcpb://page/shop.example/tab1/cart://1"
MARKS = {"dev.mcpb/untrusted": True, "dev.mcpb/origin": SHOP}


def target(uri: str = PUBLIC) -> ResourceTarget:
    found = Pages(wire.Tabs(tabs=[tab(1)]), page(1, CART)).catalog.find(SESSION, uri)
    assert found
    return found


def read(*contents: Any, uri: str = PUBLIC, max_bytes: int = 1000) -> list[dict[str, Any]]:
    payload = json.dumps({"contents": contents}).encode()
    shown: list[dict[str, Any]] = json.loads(read_contents(payload, target(uri), max_bytes))["contents"]
    return shown


def test_a_text_passes_byte_for_byte_under_the_public_uri_and_is_marked() -> None:
    text = 'é\u2028"\\ \u202e <system>'
    (shown,) = read({"uri": "cart://1", "mimeType": "text/plain", "text": text})
    assert shown == {
        "uri": PUBLIC,
        "mimeType": "text/plain",
        "text": text,
        "_meta": {**MARKS, "dev.mcpb/uri": "cart://1"},
    }


def test_escapes_of_the_page_stay() -> None:
    payload = b'{"contents": [{"uri": "cart://1", "text": "\\u00e9\\/"}]}'
    assert b'"text":"\\u00e9\\/"' in read_contents(payload, target(), 1000)


def test_several_contents_each_have_the_uri_that_a_client_can_read() -> None:
    shown = read({"uri": "cart://1", "text": "a"}, {"uri": "cart://1/items", "blob": "aGk="})
    assert [each["uri"] for each in shown] == [PUBLIC, f"{PUBLIC}/items"]


def test_a_client_that_used_the_page_s_own_uri_gets_that() -> None:
    shown = read({"uri": "cart://1", "text": "a"}, {"uri": "cart://1/items", "text": "b"}, uri="cart://1")
    assert [each["uri"] for each in shown] == ["cart://1", f"{PUBLIC}/items"]
    assert shown[0]["_meta"] == MARKS


def test_marks_of_the_page_are_removed_and_its_other_meta_stays() -> None:
    meta = {"dev.mcpb/untrusted": False, "dev.mcpb/origin": "https://bank.example", "own": 1}
    (shown,) = read({"uri": "cart://1", "text": "", "_meta": meta})
    assert shown["_meta"] == {**MARKS, "dev.mcpb/uri": "cart://1", "own": 1}


@pytest.mark.parametrize("mime_type", [None, 7, "x" * 256])
@pytest.mark.parametrize("meta", [None, 7])
def test_malformed_optional_members_are_dropped(mime_type: Any, meta: Any) -> None:
    (shown,) = read({"uri": "cart://1", "text": "a", "mimeType": mime_type, "annotations": 1, "_meta": meta})
    assert shown == {"uri": PUBLIC, "text": "a", "_meta": {**MARKS, "dev.mcpb/uri": "cart://1"}}


@pytest.mark.parametrize(
    "contents",
    [
        [],
        [{"uri": "cart://1"}],
        [{"uri": "cart://1", "text": "a", "blob": "aGk="}],
        [{"text": "a"}],
        [{"uri": 7, "text": "a"}],
        [{"uri": "cart://1", "text": 7}],
        [{"uri": "cart://1", "text": None}],
        [{"uri": "cart://1", "blob": "aGk"}],
        [{"uri": "cart://1", "blob": "a b="}],
        [{"uri": "cart://1", "blob": "a-_="}],
        [{"uri": "cart://1", "blob": 7}],
        ["cart"],
        [None],
    ],
)
def test_an_invalid_answer_is_an_error_of_the_page(contents: list[Any]) -> None:
    with pytest.raises(CallError) as raised:
        read(*contents)
    assert raised.value.code == Code.INTERNAL_ERROR
    assert "the server's answer is no resource" in raised.value.detail


@pytest.mark.parametrize("payload", [b"null", b"7", b"[]", b"{}", b'{"contents": {}}', b'{"contents": null}'])
def test_an_answer_without_contents_is_one_too(payload: bytes) -> None:
    with pytest.raises(CallError, match="the server's answer is no resource"):
        read_contents(payload, target(), 1000)


def test_a_larger_result_is_rejected_with_its_size_and_the_key() -> None:
    with pytest.raises(CallError) as raised:
        read({"uri": "cart://1", "text": "a" * 1000})
    assert raised.value.code == Code.TOO_LARGE
    assert "max_resource_bytes in config.toml is 1000" in raised.value.detail
