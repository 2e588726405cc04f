"""Tools that outlive their page: kept where a page says `annotations.cache: true`, and offered without a tab."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from bridge.hub.page_tool import PageTool


@dataclass(frozen=True, slots=True)
class CachedTool:
    """A kept tool of one profile and origin."""

    profile: str
    """The id of the profile that it was offered in: it is opened again in that one only."""
    origin: str
    url: str
    """Where a tab for it is opened."""
    tool: PageTool


def is_cacheable(tool: PageTool) -> bool:
    """Whether its page allows keeping it."""
    annotations = tool.definition.get("annotations")
    return isinstance(annotations, dict) and annotations.get("cache") is True


class ToolStore(Protocol):
    """Where cached tools are kept; all bridges of a user share one."""

    def refresh(self) -> bool:
        """Look whether another bridge or command has changed something; whether `tools` differ now."""
        ...

    def tools(self) -> Sequence[CachedTool]:
        """Everything that is kept, in a stable order; without I/O."""
        ...

    def offered(self, profile: str, tab_id: int, origin: str, url: str, tools: Sequence[PageTool]) -> bool:
        """A tab's top document offers these now: keep what it allows, drop what it no longer does.

        What it does not offer just now stays kept. Returns whether `tools()` differ now.
        """
        ...


class NothingKept:
    """A store for who needs none."""

    def refresh(self) -> bool:
        """Nothing changes."""
        return False

    def tools(self) -> Sequence[CachedTool]:
        """None."""
        return ()

    def offered(self, profile: str, tab_id: int, origin: str, url: str, tools: Sequence[PageTool]) -> bool:
        """Nothing is kept."""
        del profile, tab_id, origin, url, tools
        return False
