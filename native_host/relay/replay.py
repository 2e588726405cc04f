"""Replay for late clients: the latest announcement of each tab and frame. Sans-IO.

Of an announcement only its address is read (tab, frame, document); the rest stays bytes.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

import msgspec

from native_host.protocol import jsonrpc
from native_host.protocol.announcements import AnnouncementKey, AnnouncementMeta, Kind
from native_host.protocol.wire import REPLAY_TOOLS_BYTES, FrameAddress, TabRemoved, Wire

logger = logging.getLogger(__name__)

_ENTRY_BYTES = 16 * 1024
"""Bytes for which a stored tab or frame counts beside its own: its removal is a message to each client."""


class _TabAddress(Wire, kw_only=True):
    tab_id: int


class _Tabs(Wire, kw_only=True):
    tabs: list[msgspec.Raw]


class _TabChanged(Wire, kw_only=True):
    tab: msgspec.Raw


_tabs = msgspec.json.Decoder(_Tabs)
_tab_changed = msgspec.json.Decoder(_TabChanged)
_tab_removed = msgspec.json.Decoder(TabRemoved)
_tab_address = msgspec.json.Decoder(_TabAddress)
_frame_address = msgspec.json.Decoder(FrameAddress)


class Announcement(NamedTuple):
    """Announcement for the clients, and its key for coalescing."""

    method: str
    params: bytes
    meta: AnnouncementMeta


class Replay:
    """Announcements that still hold."""

    def __init__(self) -> None:
        self._hello = b""
        self._tabs: dict[int, bytes] | None = None
        self._tabs_bytes = 0
        self._tools: dict[tuple[int, int], tuple[int, bytes]] = {}
        """Hash of the document id, and announcement, by tab and frame; empty if the announcement was too
        long. An id may be long, too."""
        self._is_too_long_logged = False
        self._tools_bytes = 0
        self._frames: dict[int, set[tuple[int, int]]] = {}
        """Keys of `_tools` by tab."""
        self._paused = b""
        self._page_tools = b""

    @property
    def has_tabs(self) -> bool:
        """Return whether the extension has sent `browser/tabs`."""
        return self._tabs is not None

    @property
    def size(self) -> int:
        """Bytes of all announcements that still hold."""
        entries = len(self._tabs or ()) + len(self._tools)
        others = len(self._hello) + len(self._paused) + len(self._page_tools)
        return self._tabs_bytes + self._tools_bytes + others + entries * _ENTRY_BYTES

    def keep(self, method: str, params: bytes) -> list[Announcement]:
        """Store an announcement, if its kind is replayed; return the announcements for the clients.

        Raises:
            msgspec.ValidationError: its address cannot be read.
        """
        match method:
            case "browser/hello":
                self._hello = params
                meta = AnnouncementMeta(AnnouncementKey(Kind.HELLO))
            case "browser/tabs":
                return [
                    *self._keep_tabs(params),
                    Announcement(method, params, AnnouncementMeta(AnnouncementKey(Kind.TABS))),
                ]
            case "browser/tabChanged":
                meta = self._fold_tab(bytes(_tab_changed.decode(params).tab))
            case "browser/tabRemoved":
                meta = self._remove_tab(_tab_removed.decode(params).tab_id)
            case "browser/registerTools" | "browser/updateTools":
                meta = self._keep_tools(params)
            case "browser/unregister":
                meta = self._unregister(_frame_address.decode(params))
            case "browser/paused":
                self._paused = params
                meta = AnnouncementMeta(AnnouncementKey(Kind.PAUSED))
            case "browser/pageTools":
                self._page_tools = params
                meta = AnnouncementMeta(AnnouncementKey(Kind.PAGE_TOOLS))
            case _:  # browser/pageNotification
                meta = _page_news(params)
        return [Announcement(method, params, meta)]

    def messages(self) -> list[bytes]:
        """Return the replay: hello, tabs, tools (oldest first), paused, page tools, then `host/replayed`."""
        said = []
        if self._hello:
            said.append(jsonrpc.notification("browser/hello", self._hello))
        if self._tabs is not None:
            tabs = b'{"tabs":[%b]}' % b",".join(self._tabs.values())
            said.append(jsonrpc.notification("browser/tabs", tabs))
        said += [
            jsonrpc.notification("browser/registerTools", params)
            for _, params in self._tools.values()
            if params
        ]
        if self._paused:
            said.append(jsonrpc.notification("browser/paused", self._paused))
        if self._page_tools:
            said.append(jsonrpc.notification("browser/pageTools", self._page_tools))
        said.append(jsonrpc.notification("host/replayed", b"{}"))
        return said

    def _keep_tabs(self, params: bytes) -> list[Announcement]:
        """Announce the removal of tabs that the list lacks before the list itself."""
        tabs = {_tab_address.decode(raw).tab_id: bytes(raw) for raw in _tabs.decode(params).tabs}
        gone = {*(self._tabs or ()), *self._frames} - tabs.keys()
        removals = [
            Announcement("browser/tabRemoved", b'{"tabId":%d}' % tab_id, self._remove_tab(tab_id))
            for tab_id in sorted(gone)
        ]
        self._tabs = tabs
        self._tabs_bytes = sum(map(len, tabs.values()))
        return removals

    def _fold_tab(self, raw: bytes) -> AnnouncementMeta:
        tab_id = _tab_address.decode(raw).tab_id
        is_first = self._knows_nothing_of(tab_id)
        if self._tabs is not None:
            self._tabs_bytes += len(raw) - len(self._tabs.get(tab_id, b""))
            self._tabs[tab_id] = raw
        return AnnouncementMeta(AnnouncementKey(Kind.TAB, tab_id), is_first=is_first)

    def _remove_tab(self, tab_id: int) -> AnnouncementMeta:
        is_known = self._knows_nothing_of(tab_id)
        if self._tabs is not None:
            self._tabs_bytes -= len(self._tabs.pop(tab_id, b""))
        for frame in [*self._frames.get(tab_id, ())]:
            self._forget_tools(frame)
        return AnnouncementMeta(AnnouncementKey(Kind.TAB_GONE, tab_id), is_known=is_known)

    def _knows_nothing_of(self, tab_id: int) -> bool:
        if self._tabs is None or tab_id in self._tabs:
            return False
        return tab_id not in self._frames

    def _keep_tools(self, params: bytes) -> AnnouncementMeta:
        address = _frame_address.decode(params)
        frame = (address.tab_id, address.frame_id)
        is_first = frame not in self._tools
        self._forget_tools(frame)  # so that the newest stands last
        if self._tools_bytes + len(params) > REPLAY_TOOLS_BYTES:
            self._log_too_long(address.tab_id)
            params = b""
        self._tools[frame] = (hash(address.document_id), params)
        self._frames.setdefault(address.tab_id, set()).add(frame)
        self._tools_bytes += len(params)
        return AnnouncementMeta(AnnouncementKey(Kind.TOOLS, *frame), is_first=is_first)

    def _log_too_long(self, tab_id: int) -> None:
        if not self._is_too_long_logged:
            self._is_too_long_logged = True
            logger.warning("the tools of tab %d are not kept for late clients: too many in all", tab_id)

    def _unregister(self, address: FrameAddress) -> AnnouncementMeta:
        frame = (address.tab_id, address.frame_id)
        kept = self._tools.get(frame)
        # A document that is already replaced says goodbye late: its successor's tools stay.
        is_known = kept is None or kept[0] != hash(address.document_id)
        if not is_known:
            self._forget_tools(frame)
        return AnnouncementMeta(AnnouncementKey(Kind.TOOLS_GONE, *frame), is_known=is_known)

    def _forget_tools(self, frame: tuple[int, int]) -> None:
        _, params = self._tools.pop(frame, (0, b""))
        self._tools_bytes -= len(params)
        frames = self._frames.get(frame[0], set())
        frames.discard(frame)
        if not frames:
            self._frames.pop(frame[0], None)


def _page_news(params: bytes) -> AnnouncementMeta:
    address = _frame_address.decode(params)
    return AnnouncementMeta(
        AnnouncementKey(Kind.PAGE_NEWS, address.tab_id, address.frame_id, which=hash(params))
    )
