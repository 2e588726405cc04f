"""What is kept for a session as long as it lasts: pictures, its current tab, its browser, what captures.

Bounded, in memory, and gone with the session.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any, TypeVar

from bridge.browser_tools.page.page import Numbering, Page

MAX_PICTURES = 50
MAX_PICTURE_BYTES = 64 * 1024 * 1024
"""Of all pictures of a session together."""

T = TypeVar("T")


@dataclass(frozen=True)
class Picture:
    """A screenshot, or what was made of some."""

    id: str
    data: bytes
    mime_type: str

    @property
    def uri(self) -> str:
        """By which a client may read it."""
        return f"mcpb://pictures/{self.id}"


class Pictures:
    """The newest of a session."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Picture] = OrderedDict()

    def keep(self, data: bytes, mime_type: str) -> Picture:
        """Keep one; the oldest go when there are too many."""
        picture = Picture(f"img_{secrets.token_hex(4)}", data, mime_type)
        self._kept[picture.id] = picture
        while len(self._kept) > 1 and (len(self._kept) > MAX_PICTURES or self._size() > MAX_PICTURE_BYTES):
            self._kept.popitem(last=False)
        return picture

    def get(self, picture_id: str) -> Picture | None:
        """One by its id; None: there never was one, or it is gone."""
        return self._kept.get(picture_id)

    def newest_first(self) -> list[Picture]:
        """All that are kept."""
        return list(reversed(self._kept.values()))

    def _size(self) -> int:
        return sum(len(picture.data) for picture in self._kept.values())


@dataclass
class SessionState:
    """Of one session."""

    profile: str = ""
    """Of the browser that it works in; empty: none was chosen."""
    browser_pid: int = 0
    """Of that browser when it was chosen."""
    tab_id: int | None = None
    """Its current tab."""
    pages: dict[tuple[str, int], Page] = field(default_factory=dict)
    """By native host and tab."""
    numbering: Numbering = field(default_factory=Numbering)
    """Of refs, in whatever tab."""
    pictures: Pictures = field(default_factory=Pictures)
    others: dict[type, Any] = field(default_factory=dict)
    """What single families keep, by its type."""

    def of(self, kind: type[T]) -> T:
        """What a family keeps: made when it is first needed."""
        if kind not in self.others:
            self.others[kind] = kind()
        found: T = self.others[kind]
        return found

    def let_go(self) -> None:
        """The session is over."""
        for page in self.pages.values():
            page.let_go()
        self.pages.clear()
        self.others.clear()
