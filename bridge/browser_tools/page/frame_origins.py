"""Origins of a tab's frames, also of those without an address, for DevTools events.

An event of an unknown frame has no known origin; where rules about sites exist it is not reported.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from bridge import origins

MAX_FRAMES = 10_000
"""Frames that are remembered; those after them are unknown."""


class FrameLike(Protocol):
    """A frame as `Page.find_frames` has it."""

    @property
    def id(self) -> str:
        """Id for DevTools."""

    @property
    def session(self) -> str:
        """DevTools session; empty: the tab's own."""

    @property
    def origin(self) -> str:
        """Origin that rules know the document by."""


class _FrameOrigin(NamedTuple):
    session: str
    origin: str


class FrameOrigins:
    """The frames that a tab has or had since it came to its site."""

    def __init__(self) -> None:
        self._frames: dict[str, _FrameOrigin] = {}

    def add_context(self, frames: Iterable[FrameLike]) -> None:
        """Take frames that are there already."""
        for frame in frames:
            if frame.id not in self._frames:
                self._add_frame(frame.id, frame.session, frame.origin)

    def handle_attachment(self, frame_id: str, parent_id: str, session: str) -> None:
        """Handle `Page.frameAttached`: a new frame is empty and belongs to its parent."""
        self._add_frame(frame_id, session, self.of_frame(parent_id))

    def handle_navigation(self, frame_id: str, parent_id: str, url: str, session: str) -> None:
        """Handle `Page.frameNavigated`."""
        if not parent_id and not session:
            self._frames.clear()
        around = self.of_frame(parent_id) if parent_id or session else ""
        self._add_frame(frame_id, session, origins.get_document_origin(url, around))

    def of_frame(self, frame_id: str) -> str:
        """Return the origin of a frame's document."""
        known = self._frames.get(frame_id)
        return known.origin if known else origins.OPAQUE

    def of_session(self, session: str) -> tuple[str, ...]:
        """Return the origins that an event of a DevTools session without a frame may belong to."""
        found = {known.origin for known in self._frames.values() if known.session == session}
        return tuple(sorted(found)) or (origins.OPAQUE,)

    def _add_frame(self, frame_id: str, session: str, origin: str) -> None:
        if frame_id in self._frames or len(self._frames) < MAX_FRAMES:
            self._frames[frame_id] = _FrameOrigin(session, origin)
