"""Outlines that a session has seen last, one per tab: what a difference is compared with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from bridge.browser_tools.page.outline_difference import OutlineLine
from bridge.browser_tools.page.page import Frame, Page

MAX_PAGES = 20
"""Tabs whose outlines are kept, those used last."""


class _SeenOutline(NamedTuple):
    loader: str
    """Document of the tab's main frame."""
    lines: Sequence[OutlineLine]


@dataclass
class SeenOutlines:
    """State of a session."""

    _by_page: dict[Page, _SeenOutline] = field(default_factory=dict)

    def keep(self, page: Page, main: Frame, lines: Sequence[OutlineLine]) -> None:
        """Keep the outline of a page, whose main document is that of `main`."""
        self._by_page.pop(page, None)
        self._by_page[page] = _SeenOutline(main.loader, lines)
        while len(self._by_page) > MAX_PAGES:
            del self._by_page[next(iter(self._by_page))]

    def find(self, page: Page, main: Frame) -> Sequence[OutlineLine] | None:
        """Return the outline that was seen of this document, or None."""
        seen = self._by_page.get(page)
        return seen.lines if seen and seen.loader == main.loader else None
