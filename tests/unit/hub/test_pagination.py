"""A client that reads all pages while entries come and go sees each entry that stayed exactly once."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.hub.primitives import pagination
from bridge.hub.primitives.pagination import BadCursorError, Key, page_behind

PAGE = 3
"""Entries of a page here; 1000 for clients."""
keys = st.builds(Key, st.integers(0, 1), st.text(max_size=3))
lists = st.frozensets(keys, max_size=12)


@pytest.fixture(autouse=True)
def _short_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pagination, "PAGE_ENTRIES", PAGE)


def read_all(list_now: Callable[[], frozenset[Key]]) -> list[Key]:
    """Return the entries of all pages, each taken from the list as it is then."""
    seen: list[Key] = []
    cursor: str | None = None
    while True:
        listed = sorted(list_now())
        page, cursor = page_behind(listed, listed, cursor)
        seen += page
        if cursor is None:
            return seen


@given(stays=lists, versions=st.lists(lists, min_size=1, max_size=20))
def test_each_entry_that_stayed_is_seen_exactly_once(
    stays: frozenset[Key], versions: list[frozenset[Key]]
) -> None:
    later = iter(versions)
    seen = read_all(lambda: stays | next(later, frozenset()))
    assert [key for key in seen if key in stays] == sorted(stays)
    assert len(set(seen)) == len(seen)


def test_a_page_has_1000_entries_and_a_cursor_only_if_there_are_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pagination, "PAGE_ENTRIES", 1000)
    listed = [Key(1, f"{number:04}") for number in range(1001)]
    first, cursor = page_behind(listed, listed, None)
    assert (len(first), cursor) == (1000, '[1,"0999"]')
    assert page_behind(listed, listed, cursor) == ([Key(1, "1000")], None)
    assert page_behind(listed[:1000], listed[:1000], None)[1] is None


@pytest.mark.parametrize("cursor", ["", "0", "[1]", '["a",1]', "{}", '[1,"a",2]', "[1", "\ud800"])
def test_a_cursor_that_no_page_had_is_rejected(cursor: str) -> None:
    with pytest.raises(BadCursorError):
        page_behind([], [], cursor)
