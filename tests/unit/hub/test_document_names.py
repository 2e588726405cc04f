"""Each document has a name of its own, which other documents change only if they would share it."""

import re

import pytest
from msgspec.structs import replace

from bridge.hub.primitives.document_names import DocumentPlace, document_names

SHOP = DocumentPlace("p1", 1, 7, 0, 1, "https://shop.example")


def names(*places: DocumentPlace) -> list[str]:
    found = document_names(places)
    return [str(found[place]) for place in places]


def test_a_document_is_named_by_domain_and_tab() -> None:
    assert names(SHOP, replace(SHOP, tab_id=8, ordinal=2)) == ["shop.example/tab1", "shop.example/tab2"]
    assert names(replace(SHOP, origin="http://localhost:3000")) == ["localhost_3000/tab1"]


def test_a_frame_has_a_hash_which_stays_and_the_page_around_it_has_none() -> None:
    frame = replace(SHOP, frame_id=3)
    page, inner = names(SHOP, frame)
    assert page == "shop.example/tab1"
    assert inner.startswith("shop.example/tab1-")
    alone = replace(SHOP, origin="https://other.example")
    assert names(frame, alone) == [inner, "other.example/tab1"]


@pytest.mark.parametrize(
    ("origin", "name"),
    [
        ("https://shop.example", "shop.example"),
        ("https://shop.example:8443", "shop.example_8443"),
        ("http://shop.example", "http_shop.example"),
        ("http://intranet:8080", "http_intranet_8080"),
        ("http://localhost:3000", "localhost_3000"),
        ("http://shop.localhost", "shop.localhost"),
        ("http://127.0.0.1:8000", "127.0.0.1_8000"),
        ("http://127.evil.example", "http_127.evil.example"),
    ],
)
def test_a_name_says_where_the_network_could_forge_the_page(origin: str, name: str) -> None:
    assert names(replace(SHOP, origin=origin)) == [f"{name}/tab1"]


@pytest.mark.parametrize(
    "origin", ["https://localhost_3000", "https://http_shop.example", "http://[::1]:3000", "null", "file://"]
)
def test_an_origin_whose_domain_may_be_another_one_s_has_a_hash(origin: str) -> None:
    (name,) = names(replace(SHOP, origin=origin))
    assert re.fullmatch(r"[a-z0-9._]+/tab1-[0-9a-f]{6}", name)


def test_the_tab_of_a_marked_profile_has_its_mark() -> None:
    second = replace(SHOP, profile="p2", mark="0f3a91")
    assert names(SHOP, second) == ["shop.example/tab1", "shop.example/tab1-0f3a91"]


def test_two_browsers_with_one_profile_have_different_names() -> None:
    first, second = names(SHOP, replace(SHOP, browser_pid=2))
    assert first != second
