"""Page tools by words: what a person or a model remembers of a tool, in any order, best first. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Protocol, TypeVar

MAX_READ = 2000
"""Characters that are looked through of one text: as many as clients are shown of a description."""
_MAX_COMPARED = 1000
"""Names among which a near one is looked for."""
_NEAR = 0.6
"""`difflib`'s ratio; below it names have little in common."""

_MAX_LABEL = 200
"""Characters that are looked through of what is shown as one line: names, titles, origins."""
_ITS_NAME = 100
"""For each word: more than it can count in any text."""

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


class Searchable(Protocol):
    """What of a tool is looked through. All of it may be a page's own text, of any length."""

    @property
    def name(self) -> str:
        """The public name."""
        ...

    @property
    def own_name(self) -> str:
        """What its page calls it."""
        ...

    @property
    def title(self) -> str:
        """The page's title for it, or empty."""
        ...

    @property
    def origin(self) -> str:
        """Where it lives."""
        ...

    @property
    def tab_title(self) -> str:
        """Of its tab, or empty."""
        ...

    @property
    def page_words(self) -> str:
        """The page's description of it, or empty."""
        ...

    @property
    def is_active(self) -> bool:
        """Whether the person looks at its tab."""
        ...


T = TypeVar("T", bound=Searchable)


def search(entries: Sequence[T], query: str) -> list[T]:
    """The entries in which every word of `query` is found, best first; without a word, all as they come.

    A word is found where one begins with it, and counts a little more where it is the whole word. The first
    text that has it decides what it counts: the page's own name for the tool, the origin, a title, the public
    name, the description. A query that is the tool's name comes before all others. Among equals those of the
    active tab come first, then the order is that of `entries`.
    """
    words = _words(query)
    if not words:
        return list(entries)
    whole = "".join(words)
    found = [(_rank(entry, words, whole), entry) for entry in entries]
    matching = [(rank, entry) for rank, entry in found if rank]
    matching.sort(key=lambda pair: (-pair[0], not pair[1].is_active))
    return [entry for _, entry in matching]


def nearest(entries: Sequence[Searchable], query: str, count: int = 3) -> list[str]:
    """Public names of the tools whose own names look most like `query`; for who has found nothing."""
    public: dict[str, str] = {}
    for entry in entries:
        if len(public) == _MAX_COMPARED:
            break
        public.setdefault(_joined(entry.own_name), entry.name)
    return [public[own] for own in difflib.get_close_matches(_joined(query), public, count, _NEAR)]


def _rank(entry: Searchable, words: Sequence[str], whole: str) -> int:
    """How well it fits; 0: not every word is found."""
    total = 0
    for word in words:
        counts = _counts(entry, word)
        if not counts:
            return 0
        total += counts
    is_its_name = _is_called(entry.own_name, whole) or _is_called(entry.name, whole)
    return total + _ITS_NAME * len(words) if is_its_name else total


def _counts(entry: Searchable, word: str) -> int:
    for weight, max_chars, text, apart in _fields(entry):
        # Nearly always the answer is no, and this is the quickest way to it.
        if word not in _folded(text[:max_chars]):
            continue
        if not word.isascii():
            return weight  # not every script puts spaces between its words
        spaced = apart(text[:max_chars])
        if f" {word} " in spaced:
            return weight + 1
        if f" {word}" in spaced:
            return weight
    return 0


def _fields(entry: Searchable) -> Iterator[tuple[int, int, str, Callable[[str], str]]]:
    """What a word counts in each text, how much of it is read, how that is taken apart; weightiest first."""
    yield 50, _MAX_LABEL, entry.own_name, _name_apart
    yield 40, _MAX_LABEL, entry.origin, _label_apart
    yield 30, _MAX_LABEL, entry.title, _label_apart
    yield 30, _MAX_LABEL, entry.tab_title, _label_apart
    yield 20, _MAX_LABEL, entry.name, _name_apart
    yield 10, MAX_READ, entry.page_words, _apart


def _is_called(name: str, whole: str) -> bool:
    # A name has at most one separator for each letter; most names are too long, or too short.
    return len(whole) <= len(name) <= 2 * len(whole) and _joined(name) == whole


def _words(text: str) -> tuple[str, ...]:
    """Each once, in order."""
    return tuple(dict.fromkeys(_apart(text).split()))


def _joined(name: str) -> str:
    """`addToCart`, `add_to_cart` and `add to cart` are the same."""
    return "".join(_apart(name[:_MAX_LABEL]).split())


def _folded(text: str) -> str:
    # The same for ASCII, and several times as fast.
    return text.lower() if text.isascii() else text.casefold()


def _apart(text: str) -> str:
    """Folded, a space around each word."""
    return f" {_folded(text).translate(_SPACES)} "


@lru_cache(16_384)
def _label_apart(text: str) -> str:
    return _apart(text)


@lru_cache(16_384)
def _name_apart(name: str) -> str:
    """`addToCart` is its three words, and itself."""
    return _apart(_HUMP.sub(" ", name)) + _apart(name)


class _Spaces(dict[int, int]):
    """For `str.translate`: what is neither letter nor digit is a space."""

    def __missing__(self, char: int) -> int:
        kept = char if chr(char).isalnum() else ord(" ")
        self[char] = kept
        return kept


_SPACES = _Spaces()
