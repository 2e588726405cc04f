"""Limit of what one browser at a WebSocket proxy announces: a hostile proxy may announce without end.

A native host needs none: its extension has smaller limits.
"""

from __future__ import annotations

import msgspec

from bridge.links.browsers.host_connection import LinkError
from native_host.protocol import wire
from native_host.protocol.wire import Wire

MAX_BYTES = 64 * 1024 * 1024
"""Bytes of all announcements that are in force. The extension announces half as much for all tabs."""
_LEAST_BYTES = 1024
"""Bytes that each one counts at least, for the objects that it becomes."""
_ITSELF = -1
"""In place of a frame id: the tab."""


class AnnouncementLimit:
    """Bytes of the announcements of one connection."""

    def __init__(self) -> None:
        self._total = 0
        self._held = 0
        self._tabs: dict[int, dict[int, tuple[str, int]]] = {}
        """Document and bytes, by tab and frame."""
        self._others: dict[type[Wire], int] = {}

    def add(self, message: Wire, *, is_held: bool = False) -> None:
        """Count an announcement in place of the one that it replaces, or beside it if both are held.

        Raises:
            LinkError: it is one too many; close the connection.
        """
        size = max(len(msgspec.json.encode(message)), _LEAST_BYTES)
        self._held += size if is_held else 0
        match message:
            case wire.FrameTools():
                self._put(message.tab_id, message.frame_id, message.document_id, size)
            case wire.FrameAddress():
                self._drop_frame(message)
            case wire.TabChanged():
                self._put(message.tab.tab_id, _ITSELF, "", size)
            case wire.TabRemoved():
                self._drop_tab(message.tab_id)
            case _:
                if isinstance(message, wire.Tabs):
                    for tab_id in self._tabs.keys() - {tab.tab_id for tab in message.tabs}:
                        self._drop_tab(tab_id)
                self._total += size - self._others.get(type(message), 0)
                self._others[type(message)] = size
        if max(self._total, self._held) > MAX_BYTES:
            raise LinkError(f"the browser has announced more than {MAX_BYTES} bytes")

    def _put(self, tab_id: int, frame_id: int, document_id: str, size: int) -> None:
        frames = self._tabs.setdefault(tab_id, {})
        self._total += size - frames.get(frame_id, ("", 0))[1]
        frames[frame_id] = document_id, size

    def _drop_frame(self, gone: wire.FrameAddress) -> None:
        frames = self._tabs.get(gone.tab_id, {})
        document_id, size = frames.get(gone.frame_id, ("", 0))
        if size and document_id == gone.document_id:
            del frames[gone.frame_id]
            self._total -= size

    def _drop_tab(self, tab_id: int) -> None:
        self._total -= sum(size for _, size in self._tabs.pop(tab_id, {}).values())
