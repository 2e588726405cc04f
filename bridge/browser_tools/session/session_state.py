"""State of a session: pictures, current tab, browser, captures. It is limited and ends with the session."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any, TypeVar

from bridge.browser_tools.page.page import Numbering, Page

MAX_PICTURES = 50
MAX_PICTURE_BYTES = 64 * 1024 * 1024
"""Bytes of all pictures of a session."""

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

    def add_picture(self, data: bytes, mime_type: str) -> Picture:
        """Keep one; the oldest go when there are too many."""
        picture = Picture(f"img_{secrets.token_hex(4)}", data, mime_type)
        self._kept[picture.id] = picture
        while len(self._kept) > 1 and (
            len(self._kept) > MAX_PICTURES or self._total_bytes() > MAX_PICTURE_BYTES
        ):
            self._kept.popitem(last=False)
        return picture

    def get_picture(self, picture_id: str) -> Picture | None:
        """One by its id; None: there never was one, or it is gone."""
        return self._kept.get(picture_id)

    def newest_first(self) -> list[Picture]:
        """All that are kept."""
        return list(reversed(self._kept.values()))

    def _total_bytes(self) -> int:
        return sum(len(picture.data) for picture in self._kept.values())


@dataclass
class SessionState:
    """State of one session."""

    profile: str = ""
    """Profile of the chosen browser; empty without a choice."""
    browser_pid: int = 0
    tab_id: int | None = None
    pages: dict[tuple[str, int], Page] = field(default_factory=dict)
    numbering: Numbering = field(default_factory=Numbering)
    pictures: Pictures = field(default_factory=Pictures)
    others: dict[type, Any] = field(default_factory=dict)

    def state_of(self, kind: type[T]) -> T:
        """Return the state of this type, created on first use."""
        if kind not in self.others:
            self.others[kind] = kind()
        found: T = self.others[kind]
        return found

    def release_tabs(self) -> None:
        """Release all tabs: the session ends."""
        for page in self.pages.values():
            page.release()
        self.pages.clear()
        self.others.clear()
