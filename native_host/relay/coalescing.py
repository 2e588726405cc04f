"""Coalescing of announcements for a slow client: only the latest of each key waits. Sans-IO.

A client that has read all of it knows what it would know had it read every announcement. So what waits grows
with what there is to know, and not with how often that changes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from native_host.ipc.send_queue import Outgoing, SendQueue
from native_host.protocol.announcements import AnnouncementKey, AnnouncementMeta, Kind
from native_host.protocol.framing import Part

PAGE_NEWS_WAITING = 1024
"""Queued notifications of page servers per client; above this limit the oldest are dropped."""
_OF_ONE_TAB = {Kind.TAB, Kind.TAB_GONE, Kind.TOOLS, Kind.TOOLS_GONE, Kind.PAGE_NEWS}


class AnnouncementCoalescer:
    """Puts announcements into the send queue of one client."""

    def __init__(self, queue: SendQueue, on_dropped: Callable[[], None]) -> None:
        """Write to a queue; `on_dropped` is called for each notification of a page that is left out."""
        self._queue = queue
        self._on_dropped = on_dropped
        self._page_news: OrderedDict[AnnouncementKey, None] = OrderedDict()
        """Queued notifications, the oldest first; the first ones may be written already."""

    def put(self, parts: tuple[Part, ...], meta: AnnouncementMeta) -> None:
        """Queue a message, and withdraw the queued messages that it supersedes."""
        if meta.is_known:
            self._put_known(parts)
            return
        outgoing = Outgoing(parts, meta.key, is_first=meta.is_first)
        match meta.key.kind:
            case Kind.TABS:
                self._put_tabs(outgoing)
            case Kind.TAB_GONE:
                self._put_tab_gone(outgoing, meta.key)
            case Kind.TOOLS:
                self._put_tools(outgoing, meta.key)
            case Kind.TOOLS_GONE:
                self._put_tools_gone(outgoing, meta.key)
            case Kind.PAGE_NEWS:
                self._put_page_news(outgoing, meta.key)
            case _:
                self._put_or_replace(outgoing, meta.key)

    def _put_known(self, parts: tuple[Part, ...]) -> None:
        if not self._queue:
            self._queue.put(Outgoing(parts))

    def _put_or_replace(self, outgoing: Outgoing, key: AnnouncementKey) -> None:
        """Replace the queued message of this key, so that frequent changes do not delay it."""
        if waiting := self._queue.about(key):
            outgoing.is_first = waiting.is_first
            self._queue.replace(waiting, outgoing)
        else:
            self._queue.put(outgoing)

    def _put_tabs(self, outgoing: Outgoing) -> None:
        """Queue the list of all tabs. It supersedes tab changes, but not the removal of a tab in between."""
        for key in [*self._queue.keys_of_kind(Kind.TABS), *self._queue.keys_of_kind(Kind.TAB)]:
            self._withdraw_about(key)
        self._queue.put(outgoing)

    def _put_tab_gone(self, outgoing: Outgoing, key: AnnouncementKey) -> None:
        tab = self._queue.about(key._replace(kind=Kind.TAB))
        is_unheard_of = tab is not None and tab.is_first and not self._queue.about(key)
        for other in self._queue.keys_of_tab(key.tab_id):
            if other.kind in _OF_ONE_TAB:
                self._withdraw_about(other)
        if not is_unheard_of:
            self._queue.put(outgoing)

    def _put_tools(self, outgoing: Outgoing, key: AnnouncementKey) -> None:
        """Queue a frame's list, which supersedes lists of earlier documents in it."""
        gone_topic = key._replace(kind=Kind.TOOLS_GONE)
        gone = self._queue.about(gone_topic)
        if gone and not self._queue.about(key):
            outgoing.is_first = False
            self._queue.replace(gone, outgoing)
            return
        self._withdraw_about(gone_topic)
        self._put_or_replace(outgoing, key)

    def _put_tools_gone(self, outgoing: Outgoing, key: AnnouncementKey) -> None:
        """Queue a removal behind a queued list: it names the document of that list."""
        tools = self._queue.about(key._replace(kind=Kind.TOOLS))
        if tools and tools.is_first:
            self._queue.withdraw(tools)
        else:
            self._put_or_replace(outgoing, key)

    def _put_page_news(self, outgoing: Outgoing, key: AnnouncementKey) -> None:
        while self._page_news and not self._queue.about(next(iter(self._page_news))):
            self._page_news.popitem(last=False)
        self._put_or_replace(outgoing, key)
        self._page_news[key] = None
        if len(self._page_news) > PAGE_NEWS_WAITING:
            self._withdraw_about(next(iter(self._page_news)))
            self._on_dropped()

    def _withdraw_about(self, key: AnnouncementKey) -> None:
        self._page_news.pop(key, None)
        if waiting := self._queue.about(key):
            self._queue.withdraw(waiting)
