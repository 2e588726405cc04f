"""The tools of one document under their public names, and as the JSON that clients see. Pure."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from bridge.hub.catalog_entries import LiveEntry
from bridge.hub.client_session import Meaning
from bridge.hub.describing import in_tab
from bridge.hub.page_tool import PageTool
from bridge.hub.public_names import Place
from bridge.hub.registry import Browser, Frame
from bridge.hub.tool_definition import in_text
from bridge.hub.tool_schema import Era
from native_host.protocol import wire


class _Wanted(NamedTuple):
    tab: wire.Tab
    era: Era
    room: int
    """Bytes; that of a document whose texts all fit does not depend on what is left."""


@dataclass(eq=False)
class DocumentTools:
    """What a document offers, forbidden tools included; another object when anything of it is another."""

    browser: Browser
    frame: Frame
    tools: list[PageTool]
    """As the frame had them."""
    ordinal: int
    tab_origin: str
    entries: dict[Place, LiveEntry]
    """In the page's order."""
    _written: tuple[_Wanted, tuple[bytes, int]] | None = None
    """What was asked for last."""

    @property
    def frame_of_browser(self) -> tuple[str, int, int, int]:
        """Which frame this is, also behind another host of the same browser."""
        announced = self.frame.announced
        return self.browser.profile, self.browser.pid, announced.tab_id, announced.frame_id

    @cached_property
    def allowed(self) -> list[LiveEntry]:
        """Those that the policy lets clients see."""
        return [entry for entry in self.entries.values() if not entry.refusal]

    @cached_property
    def size(self) -> int:
        """Bytes of the tools with all texts, in either era."""
        return sum(entry.shown.size for entry in self.allowed)

    @cached_property
    def told(self) -> bytes:
        """What a client is told has changed when it has: not, for instance, which tab is active."""
        origin = self.frame.announced.origin.encode()
        names = (b"%b %b" % (entry.name.encode(), entry.tool.digest) for entry in self.allowed)
        return hashlib.blake2b(b"\n".join([origin, *names]), digest_size=16).digest()

    @cached_property
    def meanings(self) -> dict[str, Meaning]:
        """What the names of those mean."""
        return {entry.name: entry.meaning for entry in self.allowed}

    @property
    def site(self) -> str:
        """The origin whose limits it shares: its page's, so that a page cannot multiply them by frames."""
        return self.tab_origin or self.frame.announced.origin

    def written(self, era: Era, room: int) -> tuple[bytes, int]:
        """The MCP Tools as JSON, a comma before each, and the bytes that they take of `room`.

        Texts that do not fit are left out. Tabs change under it, and their titles often: the definitions
        stay, the place in them is another.
        """
        announced = self.frame.announced
        tab = self.browser.tabs[announced.tab_id]
        wanted = _Wanted(tab, era, min(room, self.size))
        if self._written is None or self._written[0] != wanted:
            place = in_text(in_tab(announced.origin, tab))
            parts: list[bytes] = []
            left = room
            for entry in self.allowed:
                if entry.tool.is_for(era):
                    shown = entry.shown_within(left)
                    left -= shown.size
                    parts += (b",", shown.before, place, shown.behind)
            self._written = wanted, (b"".join(parts), room - left)
        return self._written[1]

    def is_of(self, browser: Browser, tab: wire.Tab, frame: Frame) -> bool:
        """Whether it is of this document, which may have other tools by now."""
        return self.browser is browser and self.frame is frame and self.tab_origin == tab.origin

    def is_up_to_date(self, browser: Browser, tab: wire.Tab, frame: Frame) -> bool:
        """Whether nothing in it would be different."""
        is_same_list = self.tools is frame.tools and self.ordinal == tab.ordinal
        return is_same_list and self.is_of(browser, tab, frame)
