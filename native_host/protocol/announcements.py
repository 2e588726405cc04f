"""Coalescing key of an announcement: of two with one key, the later replaces the earlier. Sans-IO."""

from __future__ import annotations

import enum
from typing import NamedTuple

import msgspec


class Kind(enum.IntEnum):
    """Subject of an announcement."""

    HELLO = enum.auto()
    CLIENTS = enum.auto()
    PAUSED = enum.auto()
    PAGE_TOOLS = enum.auto()
    TABS = enum.auto()
    TAB = enum.auto()
    TAB_GONE = enum.auto()
    TOOLS = enum.auto()
    TOOLS_GONE = enum.auto()
    PAGE_NEWS = enum.auto()
    PROGRESS = enum.auto()
    RESOURCE_UPDATED = enum.auto()
    EXTENSIONS = enum.auto()


class AnnouncementKey(NamedTuple):
    """Subject of an announcement; the later of two with one key replaces the earlier."""

    kind: Kind
    tab_id: int = 0
    frame_id: int = 0
    which: int | str = ""
    """Id of the reporting call, or method of a page's notification."""


class AnnouncementMeta(msgspec.Struct, frozen=True):
    """Coalescing key and flags of an announcement, besides its bytes."""

    key: AnnouncementKey
    is_first: bool = False
    """True if no earlier announcement named the tab or frame."""
    is_known: bool = False
    """True if the announcement repeats what earlier ones said."""
