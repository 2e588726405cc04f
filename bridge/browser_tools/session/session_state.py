"""State of a session: pictures, current tab, browser, captures. It is limited and ends with the session."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from bridge.browser_tools.page.event_notes import EventNotes
from bridge.browser_tools.page.page import Numbering, Page

MAX_PICTURES = 50
MAX_PICTURE_BYTES = 64 * 1024 * 1024
"""Bytes of all pictures of a session."""

MAX_NUMBERS = 1000
"""Tab numbers that a session remembers, those seen last."""

T = TypeVar("T")


class BrowserKey(NamedTuple):
    """Identity of a running browser."""

    profile: str
    pid: int

    def is_restarted_as(self, other: BrowserKey) -> bool:
        """Return whether the other one is this browser after a restart, which numbers its tabs anew."""
        return self.profile == other.profile and self.pid != other.pid


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
    """The browser's id of the current tab."""
    numbers: dict[int, BrowserKey | None] = field(default_factory=dict)
    """By tab number: the browser in which the session saw it; None: in several."""
    pages: dict[tuple[str, int], Page] = field(default_factory=dict)
    numbering: Numbering = field(default_factory=Numbering)
    pictures: Pictures = field(default_factory=Pictures)
    download_notes: EventNotes = field(default_factory=EventNotes)
    """Notes on the downloads of all its tabs, also of closed ones."""
    others: dict[type, Any] = field(default_factory=dict)

    def state_of(self, kind: type[T]) -> T:
        """Return the state of this type, created on first use."""
        if kind not in self.others:
            self.others[kind] = kind()
        found: T = self.others[kind]
        return found

    def is_chosen(self, browser: BrowserKey) -> bool:
        """Return whether the session has chosen this browser."""
        return browser == (self.profile, self.browser_pid)

    def bind_number(self, number: int, browser: BrowserKey | None) -> None:
        """Let a number stand for the tab of this browser from now on, or of several."""
        self.numbers.pop(number, None)
        self.numbers[number] = browser
        while len(self.numbers) > MAX_NUMBERS:
            del self.numbers[next(iter(self.numbers))]

    def release_tabs(self) -> None:
        """Release all tabs: the session ends."""
        for page in self.pages.values():
            page.release()
        self.pages.clear()
        self.others.clear()
