"""Each document has a name of its own, which other documents change only if they would share it."""

from bridge.hub.primitives.document_names import DocumentPlace, document_names

SHOP = DocumentPlace("p1", 1, 7, 0, 1, "https://shop.example")


def names(*places: DocumentPlace) -> list[str]:
    found = document_names(places)
    return [str(found[place]) for place in places]


def test_a_document_is_named_by_domain_and_tab() -> None:
    assert names(SHOP, SHOP._replace(tab_id=8, ordinal=2)) == ["shop.example/tab1", "shop.example/tab2"]
    assert names(SHOP._replace(origin="http://localhost:3000")) == ["localhost_3000/tab1"]


def test_documents_that_would_share_a_name_all_get_a_hash_which_stays() -> None:
    frame = SHOP._replace(frame_id=3)
    page, inner = names(SHOP, frame)
    assert page.startswith("shop.example/tab1-")
    assert inner.startswith("shop.example/tab1-")
    assert page != inner
    other = SHOP._replace(origin="https://other.example", frame_id=4)
    assert names(frame, other, SHOP) == [inner, "other.example/tab1", page]


def test_the_tab_of_a_marked_profile_has_its_mark() -> None:
    second = SHOP._replace(profile="p2", mark="0f3a91")
    assert names(SHOP, second) == ["shop.example/tab1", "shop.example/tab1-0f3a91"]


def test_two_browsers_with_one_profile_have_different_names() -> None:
    first, second = names(SHOP, SHOP._replace(browser_pid=2))
    assert first != second
