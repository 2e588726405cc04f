"""A session may read the URIs that results of pages have linked to, the latest 256."""

from __future__ import annotations

from bridge.hub.primitives.linked_resources import MAX_LINKED, LinkedResources

SHOP, NEWS = "https://shop.example", "https://news.example"


def test_a_link_is_known_with_the_origins_of_its_pages() -> None:
    linked = LinkedResources()
    linked.add(["cart://1"], SHOP)
    linked.add(["cart://1", "cart://2"], NEWS)
    assert set(linked.origins_of("cart://1")) == {SHOP, NEWS}
    assert set(linked.origins_of("cart://2")) == {NEWS}
    assert linked.origins_of("cart://3") == ()


def test_long_uris_are_not_remembered_and_origins_are_few() -> None:
    linked = LinkedResources()
    long = f"x:{'a' * 3000}"
    linked.add([long, "no scheme"], SHOP)
    assert linked.origins_of(long) == linked.origins_of("no scheme") == ()
    for number in range(100):
        linked.add(["x:1"], f"https://{number}.example")
    assert linked.origins_of("x:1") == [f"https://{number}.example" for number in range(84, 100)]


def test_an_origin_with_many_links_does_not_displace_those_of_others() -> None:
    linked = LinkedResources()
    linked.add(["cart://1"], SHOP)
    linked.add([f"new://{number}" for number in range(256)], NEWS)
    linked.add(["cart://1"], NEWS)
    assert linked.origins_of("cart://1") == [SHOP, NEWS]
    assert linked.origins_of("new://0") == ()


def test_the_latest_256_are_kept() -> None:
    assert MAX_LINKED == 256
    linked = LinkedResources()
    linked.add(["old://1", "old://2"], SHOP)
    linked.add(["old://1"], SHOP)
    linked.add([f"new://{number}" for number in range(255)], SHOP)
    assert linked.origins_of("old://1") == [SHOP]
    assert linked.origins_of("old://2") == ()
    linked.add([f"many://{number}" for number in range(10_000)], SHOP)
    assert linked.origins_of("many://9744") == [SHOP]
    assert linked.origins_of("many://9743") == ()
