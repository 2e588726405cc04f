"""A session may read the URIs that results of pages have linked to, the latest 256."""

from __future__ import annotations

import json

import pytest

from bridge.hub.primitives.linked_resources import MAX_LINKED, MAX_RESULT_BYTES, LinkedResources

SHOP, NEWS = "https://shop.example", "https://news.example"


def result(*uris: object, **more: object) -> bytes:
    links = [{"type": "resource_link", "uri": uri, "name": "x"} for uri in uris]
    return json.dumps({"content": [{"type": "text", "text": "see"}, *links], **more}).encode()


def test_a_link_is_known_with_the_origins_of_its_pages() -> None:
    linked = LinkedResources()
    linked.read(result("cart://1"), SHOP)
    linked.read(result("cart://1", "cart://2"), NEWS)
    assert set(linked.origins_of("cart://1")) == {SHOP, NEWS}
    assert set(linked.origins_of("cart://2")) == {NEWS}
    assert linked.origins_of("cart://3") == ()


def test_long_uris_are_not_remembered_and_origins_are_few() -> None:
    linked = LinkedResources()
    long = f"x:{'a' * 3000}"
    linked.read(result(long, "no scheme"), SHOP)
    assert linked.origins_of(long) == linked.origins_of("no scheme") == ()
    for number in range(100):
        linked.read(result("x:1"), f"https://{number}.example")
    assert linked.origins_of("x:1") == [f"https://{number}.example" for number in range(84, 100)]


def test_the_latest_256_are_kept() -> None:
    assert MAX_LINKED == 256
    linked = LinkedResources()
    linked.read(result("old://1", "old://2"), SHOP)
    linked.read(result("old://1"), SHOP)
    linked.read(result(*(f"new://{number}" for number in range(255))), SHOP)
    assert linked.origins_of("old://1") == [SHOP]
    assert linked.origins_of("old://2") == ()
    linked.read(result(*(f"many://{number}" for number in range(10_000))), SHOP)
    assert linked.origins_of("many://9744") == [SHOP]
    assert linked.origins_of("many://9743") == ()


@pytest.mark.parametrize(
    "odd",
    [
        b'{"content":"resource_link"}',
        b'{"content":[7,"resource_link"]}',
        b'"resource_link"',
        b'{"content":[{"type":"resource_link"}]}',
        b'{"content":[{"type":["resource_link"],"uri":"x://1"},"resource_link"]}',
        result(7, None, ["x://1"]),
        result("x://1", more="x" * MAX_RESULT_BYTES),
        b'{"a":' + b"[" * 100_000 + b'"resource_link"',
    ],
    ids=lambda odd: odd[:40].decode(),
)
def test_content_without_a_link_is_ignored(odd: bytes) -> None:
    linked = LinkedResources()
    linked.read(odd, SHOP)
    assert linked.origins_of("x://1") == ()
