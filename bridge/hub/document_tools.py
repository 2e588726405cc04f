"""The tools of one document under their public names, and as the JSON that clients see. Pure."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

from bridge.hub.definition import in_text
from bridge.hub.describing import in_tab
from bridge.hub.entry import LiveEntry
from bridge.hub.naming import Place
from bridge.hub.page_tool import PageTool
from bridge.hub.registry import Browser, Frame
from bridge.hub.sessions import Meaning
from bridge.hub.tool_shape import Era
from native_host import wire


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
    _written: tuple[wire.Tab, Era, bytes] | None = None
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
    def told(self) -> bytes:
        """What a client is told has changed when it has: not, for instance, which tab is active."""
        origin = self.frame.announced.origin.encode()
        names = (b"%b %b" % (entry.name.encode(), entry.tool.digest) for entry in self.allowed)
        return hashlib.blake2b(b"\n".join([origin, *names]), digest_size=16).digest()

    @cached_property
    def meanings(self) -> dict[str, Meaning]:
        """What the names of those mean."""
        return {entry.name: entry.meaning for entry in self.allowed}

    def written(self, era: Era) -> bytes:
        """The MCP Tools as JSON, a comma before each.

        Tabs change under it, and their titles often: the definitions stay, the place in them is another.
        """
        announced = self.frame.announced
        tab = self.browser.tabs[announced.tab_id]
        if self._written is None or self._written[0] is not tab or self._written[1] is not era:
            place = in_text(in_tab(announced.origin, tab))
            around = (entry.around_place for entry in self.allowed if entry.tool.is_for(era))
            parts = [part for before, behind in around for part in (b",", before, place, behind)]
            self._written = tab, era, b"".join(parts)
        return self._written[2]

    def is_of(self, browser: Browser, tab: wire.Tab, frame: Frame) -> bool:
        """Whether it is of this document, which may have other tools by now."""
        return self.browser is browser and self.frame is frame and self.tab_origin == tab.origin

    def is_up_to_date(self, browser: Browser, tab: wire.Tab, frame: Frame) -> bool:
        """Whether nothing in it would be different."""
        is_same_list = self.tools is frame.tools and self.ordinal == tab.ordinal
        return is_same_list and self.is_of(browser, tab, frame)
