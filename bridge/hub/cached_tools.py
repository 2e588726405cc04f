"""Cached tools: page tools with `annotations.cache: true`, offered without a tab."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from operator import attrgetter, itemgetter
from typing import NamedTuple, Protocol, TypeVar

import msgspec

from bridge.hub.page_tool import PageTool
from bridge.origins import get_path_and_query, get_web_origin

MAX_SITE_TOOLS = 20
MAX_SITE_BYTES = 1024 * 1024
"""Bytes of definitions for one profile and origin."""
MAX_TOOLS = 5000
MAX_BYTES = 16 * 1024 * 1024
"""Bytes of all definitions: every bridge holds them in memory."""
MAX_TABS = 500
MAX_CALLED_SITES = 5000
"""Sites of which it is known that a client has called them; the oldest leave."""
MAX_URL = 2000
"""Characters; instead of a longer one the origin is opened."""
TAB_S = 3600.0
"""Seconds for which the last tab of a cached tool is remembered (MCP-B specification, §4)."""
TOUCH_S = 300.0
"""So old may be what is written of when something was seen: pages announce the same again and again."""

_DAY_S = 86_400.0


class CachedToolRow(msgspec.Struct, frozen=True):
    """A cached tool as the tool list shows it."""

    profile: str
    """Id of the profile that offered the tool; a tab for it opens only there."""
    origin: str
    url: str
    tool: PageTool


class ToolStore(Protocol):
    """Store of cached tools, shared by all bridges of a user."""

    def refresh(self) -> bool:
        """Look whether another bridge or command has changed something; whether `tools` differ now."""
        ...

    def tools(self) -> Sequence[CachedToolRow]:
        """Everything that is kept, in a stable order; without I/O."""
        ...

    def record_offer(
        self, profile: str, tab_id: int, origin: str, url: str, tools: Sequence[PageTool]
    ) -> bool:
        """Update the cache from the tools of a tab's top document.

        Tools that the document does not offer just now stay cached. Returns whether `tools()` changed.
        """
        ...

    @property
    def version_of_calls(self) -> int:
        """Changes when `was_called` may answer otherwise."""
        ...

    def record_call(self, profile: str, origin: str) -> None:
        """Record that a client has called a page tool of this site."""
        ...

    def was_called(self, profile: str, origin: str) -> bool:
        """Return whether a client has called a page tool of this site before; without I/O."""
        ...


class NoToolStore:
    """A store for who needs none."""

    def refresh(self) -> bool:
        """Nothing changes."""
        return False

    def tools(self) -> Sequence[CachedToolRow]:
        """None."""
        return ()

    def record_offer(
        self, profile: str, tab_id: int, origin: str, url: str, tools: Sequence[PageTool]
    ) -> bool:
        """Do nothing."""
        del profile, tab_id, origin, url, tools
        return False

    version_of_calls = 0

    def record_call(self, profile: str, origin: str) -> None:
        """Do nothing."""

    def was_called(self, profile: str, origin: str) -> bool:
        """Return False."""
        del profile, origin
        return False


# ── What is kept, and of what for how long ──────────────────────────────────────────────────────────────────


class ToolKey(NamedTuple):
    """A tool of a profile and origin, whichever tab it was offered in."""

    profile: str
    origin: str
    name: str


class TabKey(NamedTuple):
    """A tab of a profile."""

    profile: str
    tab_id: int


class CachedTool(msgspec.Struct, frozen=True):
    """A cached tool, and the address that offered it last."""

    key: ToolKey
    url: str
    """Without query and fragment: they may hold secrets, and this stays."""
    seen_at: float
    """Seconds since the epoch."""
    tool: PageTool


class CachedTab(msgspec.Struct, frozen=True):
    """The user's last tab with tools that may be cached."""

    key: TabKey
    origin: str
    url: str
    """With its query, so that the same page can be opened again; for TAB_S."""
    seen_at: float
    """Seconds since the epoch."""


class CalledSite(NamedTuple):
    """A site of a profile, a tool of which a client has called."""

    profile: str
    origin: str


class Change(msgspec.Struct):
    """Rows to add to the cache and to remove from it."""

    tools: list[CachedTool] = msgspec.field(default_factory=list)
    tabs: list[CachedTab] = msgspec.field(default_factory=list)
    gone_tools: list[ToolKey] = msgspec.field(default_factory=list)
    gone_tabs: list[TabKey] = msgspec.field(default_factory=list)
    called: list[CalledSite] = msgspec.field(default_factory=list)
    gone_called: list[CalledSite] = msgspec.field(default_factory=list)

    def __bool__(self) -> bool:
        news = self.tools or self.tabs or self.called
        return bool(news or self.gone_tools or self.gone_tabs or self.gone_called)


_Site = tuple[str, str]


class CachedToolIndex:
    """Index of all cached tools. Its rules return changes; they take effect once they are stored."""

    def __init__(self) -> None:
        self._sites: dict[_Site, dict[str, CachedTool]] = {}
        self._tabs: dict[TabKey, CachedTab] = {}
        self._shown: dict[_Site, tuple[CachedToolRow, ...]] = {}
        self._called: dict[CalledSite, None] = {}
        self.version_of_calls = 0
        """Changes when `was_called` may answer otherwise."""
        self._listed: tuple[CachedToolRow, ...] | None = ()

    # ── Questions ───────────────────────────────────────────────────────────────────────────────────────────

    def tools(self) -> tuple[CachedToolRow, ...]:
        """All tools, by profile, origin and name."""
        if self._listed is None:
            self._listed = tuple(chain.from_iterable(shown for _, shown in sorted(self._shown.items())))
        return self._listed

    def tool(self, key: ToolKey) -> CachedTool | None:
        """One of them."""
        return self._sites.get(key[:2], {}).get(key.name)

    def as_change(self) -> Change:
        """Return the change that makes an empty index equal to this one."""
        return Change(
            tools=list(self._all_tools()), tabs=list(self._tabs.values()), called=list(self._called)
        )

    def was_called(self, site: CalledSite) -> bool:
        """Return whether a client has called a tool of this site."""
        return site in self._called

    # ── Rules ───────────────────────────────────────────────────────────────────────────────────────────────

    def record_offer(
        self, key: TabKey, origin: str, url: str, tools: Sequence[PageTool], now: float
    ) -> Change:
        """Store the tools that a document allows, and remove those that it no longer allows.

        Only web pages can cache tools. If a site exceeds its limit, the tools seen longest ago go, and of one
        page the last ones of its list. If all sites together exceed the limit, those with the most tools lose
        some; the last tool of a site goes only when tools that were seen later fill the limit.
        """
        if not key.profile or not origin or get_web_origin(origin) != origin:
            return Change()
        address = address_of(origin, url)
        without_query = address.partition("?")[0]
        site = self._sites.get((key.profile, origin), {})
        allowed = [
            CachedTool(ToolKey(key.profile, origin, tool.name), without_query, now, tool)
            for tool in tools
            if tool.is_cacheable
        ]
        offered = {tool.name for tool in tools}
        earlier = [kept for name, kept in site.items() if name not in offered]
        staying = _within_bounds([*allowed, *_sort_latest_first(earlier)], MAX_SITE_TOOLS, MAX_SITE_BYTES)
        names = {kept.key.name for kept in staying}
        change = Change(
            tools=[kept for kept in staying if _is_news(site.get(kept.key.name), kept)],
            gone_tools=[kept.key for name, kept in site.items() if name not in names],
        )
        if allowed:
            self._record_tab(CachedTab(key, origin, address, now), change)
        if change.tools:
            self._make_room(staying, change)
        return change

    def expire_stale(self, now: float, max_days: float = 0) -> Change:
        """Return the rows that are too old: tabs, and tools not offered for `max_days` (0: tools stay)."""
        change = Change(gone_tabs=[tab.key for tab in self._tabs.values() if abs(now - tab.seen_at) > TAB_S])
        if max_days:
            oldest = now - max_days * _DAY_S
            change.gone_tools = [kept.key for kept in self._all_tools() if kept.seen_at < oldest]
        return change

    def record_call(self, site: CalledSite) -> Change:
        """Record a client's call of a tool of this site."""
        if site in self._called or not site.profile or get_web_origin(site.origin) != site.origin:
            return Change()
        surplus = len(self._called) + 1 - MAX_CALLED_SITES
        return Change(called=[site], gone_called=list(self._called)[: max(0, surplus)])

    def forget_origin(self, origin: str) -> Change:
        """Return the rows to remove when an origin is forgotten."""
        return Change(
            gone_tools=[kept.key for kept in self._all_tools() if kept.key.origin == origin],
            gone_tabs=[tab.key for tab in self._tabs.values() if tab.origin == origin],
            gone_called=[site for site in self._called if site.origin == origin],
        )

    def change_to(
        self, tools: Iterable[CachedTool], tabs: Iterable[CachedTab], called: Iterable[CalledSite] = ()
    ) -> Change:
        """Return the change that makes this index equal to rows of another bridge."""
        others_called = dict.fromkeys(called)
        others_tools, others_tabs = {kept.key: kept for kept in tools}, {tab.key: tab for tab in tabs}
        return Change(
            tools=[kept for key, kept in others_tools.items() if self.tool(key) != kept],
            tabs=[tab for key, tab in others_tabs.items() if self._tabs.get(key) != tab],
            gone_tools=[kept.key for kept in self._all_tools() if kept.key not in others_tools],
            gone_tabs=[key for key in self._tabs if key not in others_tabs],
            called=[site for site in others_called if site not in self._called],
            gone_called=[site for site in self._called if site not in others_called],
        )

    def _record_tab(self, tab: CachedTab, change: Change) -> None:
        before = self._tabs.get(tab.key)
        if (
            before
            and (before.origin, before.url) == (tab.origin, tab.url)
            and not _is_old(before, tab.seen_at)
        ):
            return
        change.tabs.append(tab)
        others = [other for key, other in self._tabs.items() if key != tab.key]
        if len(others) >= MAX_TABS:
            change.gone_tabs = [other.key for other in _sort_latest_first(others)[MAX_TABS - 1 :]]

    def _make_room(self, staying: Sequence[CachedTool], change: Change) -> None:
        """`staying`: all of the site that comes, as far as it goes by itself."""
        coming = staying[0].key[:2]
        others = [_sort_latest_first(site.values()) for key, site in self._sites.items() if key != coming]
        fair = {kept.key for kept in _fair_shares([staying, *others])}
        leaving = [kept.key for kept in self._all_tools() if kept.key not in fair]
        change.tools = [kept for kept in change.tools if kept.key in fair]
        change.gone_tools = list(dict.fromkeys([*change.gone_tools, *leaving]))

    # ── News ────────────────────────────────────────────────────────────────────────────────────────────────

    def apply(self, change: Change) -> bool:
        """Make it so; whether `tools()` differ now."""
        touched: set[_Site] = set()
        for site in change.gone_called:
            self._called.pop(site, None)
        self._called |= dict.fromkeys(change.called)
        self.version_of_calls += bool(change.called or change.gone_called)
        for tool_key in change.gone_tools:
            self._sites.get(tool_key[:2], {}).pop(tool_key.name, None)
            touched.add(tool_key[:2])
        for tab_key in change.gone_tabs:
            touched |= self._remove_tab(tab_key)
        for kept in change.tools:
            self._sites.setdefault(kept.key[:2], {})[kept.key.name] = kept
            touched.add(kept.key[:2])
        for tab in change.tabs:
            touched |= self._remove_tab(tab.key)
            self._tabs[tab.key] = tab
            touched.add((tab.key.profile, tab.origin))
        return self._update_rows(touched)

    def _remove_tab(self, key: TabKey) -> set[_Site]:
        tab = self._tabs.pop(key, None)
        return {(key.profile, tab.origin)} if tab else set()

    def _update_rows(self, touched: set[_Site]) -> bool:
        """Make what is shown of these anew; whether that is something else than before."""
        opened: dict[_Site, dict[str, str]] = {}
        for tab in sorted(self._tabs.values(), key=attrgetter("seen_at")):
            opened.setdefault((tab.key.profile, tab.origin), {})[tab.url.partition("?")[0]] = tab.url
        is_other = False
        for site in touched:
            before = self._shown.pop(site, ())
            if now := _make_rows(self._sites.get(site, {}), opened.get(site, {})):
                self._shown[site] = now
            else:
                self._sites.pop(site, None)
            is_other |= before != now
        if is_other:
            self._listed = None
        return is_other

    def _all_tools(self) -> Iterator[CachedTool]:
        return chain.from_iterable(site.values() for site in self._sites.values())


def address_of(origin: str, url: str) -> str:
    """Return the address that reopens `url`: always of this origin, without fragment and credentials."""
    if len(url) > MAX_URL or get_web_origin(url) != origin:
        return f"{origin}/"
    return f"{origin}{get_path_and_query(url).removesuffix('?')}"


def _make_rows(site: dict[str, CachedTool], opened: dict[str, str]) -> tuple[CachedToolRow, ...]:
    """Return a site's tools; `opened` has the addresses, without query, that the user opened recently."""
    return tuple(
        CachedToolRow(kept.key.profile, kept.key.origin, opened.get(kept.url, kept.url), kept.tool)
        for _, kept in sorted(site.items())
    )


def _is_news(before: CachedTool | None, kept: CachedTool) -> bool:
    if before is None or _is_old(before, kept.seen_at):
        return True
    return before.url != kept.url or before.tool.raw != kept.tool.raw


def _is_old(before: CachedTool | CachedTab, now: float) -> bool:
    return abs(now - before.seen_at) >= TOUCH_S


def _within_bounds(tools: Iterable[CachedTool], max_tools: int, max_bytes: int) -> list[CachedTool]:
    """Return the first tools that fit the limits."""
    staying: list[CachedTool] = []
    for kept in tools:
        if len(staying) == max_tools:
            break
        if len(kept.tool.raw) <= max_bytes:
            max_bytes -= len(kept.tool.raw)
            staying.append(kept)
    return staying


def _fair_shares(sites: Iterable[Sequence[CachedTool]]) -> list[CachedTool]:
    """Return the tools of all sites in turns, the latest first among equals."""
    turns: list[tuple[float, float, CachedTool]] = []
    for site in sites:
        taken = 0
        for count, kept in enumerate(site, 1):
            taken += len(kept.tool.raw)
            turns.append((max(count / MAX_TOOLS, taken / MAX_BYTES), -kept.seen_at, kept))
    turns.sort(key=itemgetter(0, 1))
    return _within_bounds((kept for _, _, kept in turns), MAX_TOOLS, MAX_BYTES)


_T = TypeVar("_T", CachedTool, CachedTab)


def _sort_latest_first(kept: Iterable[_T]) -> list[_T]:
    return sorted(kept, key=attrgetter("seen_at"), reverse=True)
