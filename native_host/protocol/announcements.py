"""What the messages for clients are about, as far as the host knows it. Sans-IO."""

from __future__ import annotations

import enum
from typing import NamedTuple


class Kind(enum.IntEnum):
    """What can be told of."""

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


class Topic(NamedTuple):
    """What a message tells of: of two about the same topic the later one is enough."""

    kind: Kind
    tab_id: int = 0
    frame_id: int = 0
    which: int | str = ""
    """Of the calls that report, or of a page's notifications."""


class News(NamedTuple):
    """What the host knows of an announcement besides its bytes."""

    topic: Topic
    is_first: bool = False
    """Whoever has heard all before it knows of no such tab, or frame."""
    is_known: bool = False
    """Whoever has heard all before it learns nothing."""
