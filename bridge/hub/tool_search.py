"""Search for page tools by words, in any order, best first. Sans-IO.

Pages write the texts, and a search must not block the bridge: texts, words and names are limited, each text
is folded once, and nothing is cached.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Protocol, TypeVar

MAX_WORDS = 8
MAX_READ = 2000
"""Characters that are looked through of one text: as many as clients are shown of a description."""
_MAX_COMPARED = 1000
_MAX_NEAR = 50
"""Characters of a name that are compared; the time for it grows with their square."""
_NEAR = 0.6
"""`difflib`'s ratio; below it names have little in common."""

_MAX_LABEL = 200
"""Characters that are looked through of what is shown as one line: names, titles, origins."""
_ITS_NAME = 100
"""For each word: more than it can count in any text."""

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


class Searchable(Protocol):
    """Texts of a tool that the search reads. A page may have written each, at any length."""

    @property
    def name(self) -> str:
        """The public name."""
        ...

    @property
    def own_name(self) -> str:
        """The page's name for the tool."""
        ...

    @property
    def title(self) -> str:
        """The page's title for it, or empty."""
        ...

    @property
    def origin(self) -> str:
        """Origin of the page."""
        ...

    @property
    def tab_title(self) -> str:
        """Title of its tab, or empty."""
        ...

    @property
    def page_words(self) -> str:
        """The page's description of it, or empty."""
        ...

    @property
    def is_active(self) -> bool:
        """Return whether its tab is active."""
        ...


T = TypeVar("T", bound=Searchable)


def search_entries(
    entries: Sequence[T], query: str, is_preferred: Callable[[str], bool] = lambda _: False
) -> list[list[T]]:
    """Return the entries that contain every word of `query`, equal matches together, best first.

    A word matches at the beginning of a word and counts a little more as a whole word. The first text that
    has it decides its weight: the page's own name for the tool, the origin, a title, the public name, the
    description. A query that equals a tool's name ranks that tool first. Among equals those of
    preferred origins come first, then those of the active tab, then the order is that of `entries`. Without
    words all entries are equal, and the active tab does not count.
    """
    words = words_of(query)[:MAX_WORDS]
    if not words:
        return [sorted(entries, key=lambda entry: not is_preferred(entry.origin))]
    whole = _join_words(query)
    found: dict[int, list[T]] = {}
    for entry in entries:
        if rank := _rank_entry(entry, words, whole):
            found.setdefault(rank, []).append(entry)
    return [
        sorted(found[rank], key=lambda entry: (not is_preferred(entry.origin), not entry.is_active))
        for rank in sorted(found, reverse=True)
    ]


def in_turns(entries: Iterable[T]) -> list[T]:
    """One of each origin, then the second of each, and so on: for when not all of them can be shown."""
    taken = Counter[str]()
    turns: dict[int, list[T]] = {}
    for entry in entries:
        turns.setdefault(taken[entry.origin], []).append(entry)
        taken[entry.origin] += 1
    return list(chain.from_iterable(turns.values()))


def words_of(query: str) -> list[str]:
    """Folded, each once, in order."""
    return list(dict.fromkeys(_WORD.findall(_fold_text(query))))


def find_nearest(entries: Sequence[Searchable], query: str, count: int = 3) -> list[str]:
    """Public names of the tools whose own names look most like `query`; for who has found nothing."""
    public: dict[str, str] = {}
    for entry in entries:
        if len(public) == _MAX_COMPARED:
            break
        public.setdefault(_join_words(entry.own_name)[:_MAX_NEAR], entry.name)
    from difflib import get_close_matches  # noqa: PLC0415  (docs/DEVELOPMENT.md, "Cold start")

    own_names = get_close_matches(_join_words(query)[:_MAX_NEAR], public, count, _NEAR)
    return [public[own] for own in own_names]


def _rank_entry(entry: Searchable, words: Sequence[str], whole: str) -> int:
    """Return the rank of a match; 0: a word is missing."""
    own_name, name = entry.own_name[:_MAX_LABEL], entry.name[:_MAX_LABEL]
    origin, page_words = entry.origin[:_MAX_LABEL], entry.page_words[:MAX_READ]
    title, tab_title = entry.title[:_MAX_LABEL], entry.tab_title[:_MAX_LABEL]
    # Most tools do not have all words: they are passed over before anything is taken apart.
    everything = _fold_text(f"{own_name} {origin} {title} {tab_title} {name} {page_words}")
    if not all(word in everything for word in words):
        return 0
    texts = (
        _Text(50, own_name, is_name=True),
        _Text(40, origin),
        _Text(30, title),
        _Text(30, tab_title),
        _Text(20, name, is_name=True),
        _Text(10, page_words),
    )
    total = 0
    for word in words:
        for text in texts:
            if counts := text.counts(word):
                total += counts
                break
        else:
            return 0
    is_its_name = _is_called(entry.own_name, whole) or _is_called(entry.name, whole)
    return total + _ITS_NAME * len(words) if is_its_name else total


class _Text:
    """One text of a tool: folded once, and taken apart only when a word may be in it."""

    __slots__ = ("_apart", "_folded", "_is_name", "_text", "_weight")

    def __init__(self, weight: int, text: str, *, is_name: bool = False) -> None:
        self._weight = weight
        self._text = text
        self._is_name = is_name
        self._folded = _fold_text(text)
        self._apart = ""

    def counts(self, word: str) -> int:
        """0: the word is not found here."""
        # Nearly always the answer is no, and this is the quickest way to it.
        if word not in self._folded:
            return 0
        if not word.isascii():
            return self._weight  # not every script puts spaces between its words
        if not self._apart:
            self._apart = _separate_words(self._folded)
            if self._is_name:  # `addToCart` is itself, and its three words
                self._apart += _separate_words(_fold_text(_HUMP.sub(" ", self._text)))
        if f" {word} " in self._apart:
            return self._weight + 1
        return self._weight if f" {word}" in self._apart else 0


def _is_called(name: str, whole: str) -> bool:
    # A name has at most one separator for each letter; most names are too long, or too short.
    return len(whole) <= len(name) <= 2 * len(whole) and _join_words(name) == whole


def _join_words(name: str) -> str:
    """Return a name without separators: `addToCart`, `add_to_cart` and `add to cart` are equal."""
    return "".join(_WORD.findall(_fold_text(name[:_MAX_LABEL])))


def _fold_text(text: str) -> str:
    # The same for ASCII, and several times as fast.
    return text.lower() if text.isascii() else text.casefold()


def _separate_words(folded: str) -> str:
    """Put a space on both sides of each word of ASCII; other characters end words, too."""
    return f" {folded.encode('ascii', 'replace').translate(_SPACED).decode()} "


_WORD = re.compile(r"[^\W_]+")
_KEPT = (string.ascii_lowercase + string.digits).encode()
_SPACED = bytes(char if char in _KEPT else ord(" ") for char in range(256))
