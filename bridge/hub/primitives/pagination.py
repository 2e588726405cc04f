"""Pages of a list. A cursor names the last entry of its page and stays valid when that entry disappears.

Entries have a fixed order, so a client that reads all pages while entries come and go sees each entry that
stayed exactly once.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import msgspec

PAGE_ENTRIES = 1000
OWN_RANK = 1
"""Of entries of the browser and the user."""
PAGE_RANK = 2
"""Of entries of pages."""


class Key(NamedTuple):
    """Place of an entry in its list."""

    rank: int
    """Entries with a lower rank come first."""
    name: str


class BadCursorError(ValueError):
    """A cursor that no page had."""


T = TypeVar("T")
_keys = msgspec.json.Decoder(tuple[int, str])


def page_behind(
    keys: Sequence[Key], entries: Sequence[T], cursor: str | None
) -> tuple[Sequence[T], str | None]:
    """Return the entries of the page behind a cursor, and the cursor of the next page.

    Args:
        keys: of all entries, sorted.
        entries: in the order of `keys`.
        cursor: None: the first page.

    Raises:
        BadCursorError: no page of a list ended with this cursor.
    """
    start = 0 if cursor is None else bisect_right(keys, _read_cursor(cursor))
    end = start + PAGE_ENTRIES
    following = msgspec.json.encode(keys[end - 1]).decode() if end < len(keys) else None
    return entries[start:end], following


def _read_cursor(cursor: str) -> Key:
    try:
        return Key(*_keys.decode(cursor))
    except (msgspec.DecodeError, UnicodeEncodeError):
        raise BadCursorError(cursor) from None
