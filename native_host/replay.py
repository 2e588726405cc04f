"""The announcements that a late client must hear: the newest of each, by tab and frame. Sans-IO.

Of an announcement only its address is read (tab, frame, document); the rest stays bytes.
"""

from __future__ import annotations

import logging

import msgspec

from native_host import envelope
from native_host.wire import REPLAY_TOOLS_BYTES, FrameAddress, TabRemoved, Wire

logger = logging.getLogger(__name__)


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


class Replay:
    """What has been announced and still holds."""

    def __init__(self) -> None:
        self._hello = b""
        self._tabs: dict[int, bytes] | None = None
        self._tools: dict[tuple[int, int], tuple[str, bytes]] = {}
        """By tab and frame: the document, and the announcement."""
        self._paused = b""

    @property
    def has_tabs(self) -> bool:
        """Whether the extension has said its first `browser/tabs`."""
        return self._tabs is not None

    def keep(self, method: str, params: bytes) -> None:
        """Fold an announcement in; methods that are not kept are passed over.

        Raises:
            msgspec.ValidationError: its address cannot be read.
        """
        match method:
            case "browser/hello":
                self._hello = params
            case "browser/tabs":
                self._keep_tabs(params)
            case "browser/tabChanged":
                self._fold_tab(bytes(_tab_changed.decode(params).tab))
            case "browser/tabRemoved":
                self._remove_tab(_tab_removed.decode(params).tab_id)
            case "browser/registerTools" | "browser/updateTools":
                self._keep_tools(params)
            case "browser/unregister":
                self._unregister(_frame_address.decode(params))
            case "browser/paused":
                self._paused = params

    def messages(self) -> list[bytes]:
        """Everything known, in the order hello, tabs, tools (oldest first), paused, then `host/replayed`."""
        said = []
        if self._hello:
            said.append(envelope.notification("browser/hello", self._hello))
        if self._tabs is not None:
            tabs = b'{"tabs":[%b]}' % b",".join(self._tabs.values())
            said.append(envelope.notification("browser/tabs", tabs))
        said += [envelope.notification("browser/registerTools", params) for _, params in self._tools.values()]
        if self._paused:
            said.append(envelope.notification("browser/paused", self._paused))
        said.append(envelope.notification("host/replayed", b"{}"))
        return said

    def _keep_tabs(self, params: bytes) -> None:
        tabs = [bytes(raw) for raw in _tabs.decode(params).tabs]
        self._tabs = {_tab_address.decode(raw).tab_id: raw for raw in tabs}
        self._tools = {frame: kept for frame, kept in self._tools.items() if frame[0] in self._tabs}

    def _fold_tab(self, raw: bytes) -> None:
        if self._tabs is not None:
            self._tabs[_tab_address.decode(raw).tab_id] = raw

    def _remove_tab(self, tab_id: int) -> None:
        if self._tabs is not None:
            self._tabs.pop(tab_id, None)
        for frame in [frame for frame in self._tools if frame[0] == tab_id]:
            del self._tools[frame]

    def _keep_tools(self, params: bytes) -> None:
        address = _frame_address.decode(params)
        frame = (address.tab_id, address.frame_id)
        self._tools.pop(frame, None)  # so that the newest stands last
        if len(params) + sum(len(kept) for _, kept in self._tools.values()) > REPLAY_TOOLS_BYTES:
            logger.warning(
                "the tools of tab %d are not kept for late clients: too many in all", address.tab_id
            )
            return
        self._tools[frame] = (address.document_id, params)

    def _unregister(self, address: FrameAddress) -> None:
        frame = (address.tab_id, address.frame_id)
        kept = self._tools.get(frame)
        # A document that is already replaced says goodbye late: its successor's tools stay.
        if kept is not None and kept[0] == address.document_id:
            del self._tools[frame]
