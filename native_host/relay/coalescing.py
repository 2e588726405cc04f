"""What waits for a client that reads slowly: of each thing the newest, and nothing that is over. Sans-IO.

A client that has read all of it knows what it would know had it read every announcement. So what waits grows
with what there is to know, and not with how often that changes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from native_host.ipc.send_queue import Outgoing, Part, SendQueue
from native_host.protocol.announcements import Kind, News, Topic
from native_host.protocol.framing import Part

PAGE_NEWS_WAITING = 1024
"""Different notifications of page servers that wait for one client: of more, the oldest are left out."""
_OF_ONE_TAB = {Kind.TAB, Kind.TAB_GONE, Kind.TOOLS, Kind.TOOLS_GONE, Kind.PAGE_NEWS}


class Newest:
    """Puts announcements into the send queue of one client."""

    def __init__(self, queue: SendQueue) -> None:
        self._queue = queue
        self._page_news: OrderedDict[Topic, None] = OrderedDict()
        """Those that wait, the oldest first; before them some that are written by now."""

    def put(self, parts: tuple[Part, ...], news: News) -> None:
        """Queue a message; leave out what is waiting and need not be heard any more."""
        if news.is_known:
            self._put_known(parts)
            return
        outgoing = Outgoing(parts, news.topic, is_first=news.is_first)
        match news.topic.kind:
            case Kind.TABS:
                self._put_tabs(outgoing)
            case Kind.TAB_GONE:
                self._put_tab_gone(outgoing, news.topic)
            case Kind.TOOLS:
                self._put_tools(outgoing, news.topic)
            case Kind.TOOLS_GONE:
                self._put_tools_gone(outgoing, news.topic)
            case Kind.PAGE_NEWS:
                self._put_page_news(outgoing, news.topic)
            case _:
                self._put_or_replace(outgoing, news.topic)

    def _put_known(self, parts: tuple[Part, ...]) -> None:
        if not self._queue:
            self._queue.put(Outgoing(parts))

    def _put_or_replace(self, outgoing: Outgoing, topic: Topic) -> None:
        """In the place of the one before, so that it is heard in its turn however often it changes."""
        if waiting := self._queue.about(topic):
            outgoing.is_first = waiting.is_first
            self._queue.replace(waiting, outgoing)
        else:
            self._queue.put(outgoing)

    def _put_tabs(self, outgoing: Outgoing) -> None:
        """The whole list tells all of every tab; but of one that was gone in between, it has to be heard."""
        self._withdraw_all(lambda topic: topic.kind in {Kind.TABS, Kind.TAB})
        self._queue.put(outgoing)

    def _put_tab_gone(self, outgoing: Outgoing, topic: Topic) -> None:
        tab = self._queue.about(topic._replace(kind=Kind.TAB))
        is_unheard_of = tab is not None and tab.is_first and not self._queue.about(topic)
        self._withdraw_all(lambda other: other.kind in _OF_ONE_TAB and other.tab_id == topic.tab_id)
        if not is_unheard_of:
            self._queue.put(outgoing)

    def _put_tools(self, outgoing: Outgoing, topic: Topic) -> None:
        """A frame's list replaces the one of any document that was there."""
        gone_topic = topic._replace(kind=Kind.TOOLS_GONE)
        gone = self._queue.about(gone_topic)
        if gone and not self._queue.about(topic):
            outgoing.is_first = False
            self._queue.replace(gone, outgoing)
            return
        self._withdraw_about(gone_topic)
        self._put_or_replace(outgoing, topic)

    def _put_tools_gone(self, outgoing: Outgoing, topic: Topic) -> None:
        """After a list that waits, since it names that list's document, and not the one that is known."""
        tools = self._queue.about(topic._replace(kind=Kind.TOOLS))
        if tools and tools.is_first:
            self._queue.withdraw(tools)
        else:
            self._put_or_replace(outgoing, topic)

    def _put_page_news(self, outgoing: Outgoing, topic: Topic) -> None:
        while self._page_news and not self._queue.about(next(iter(self._page_news))):
            self._page_news.popitem(last=False)
        self._put_or_replace(outgoing, topic)
        self._page_news[topic] = None
        if len(self._page_news) > PAGE_NEWS_WAITING:
            self._withdraw_about(next(iter(self._page_news)))

    def _withdraw_about(self, topic: Topic) -> None:
        self._page_news.pop(topic, None)
        if waiting := self._queue.about(topic):
            self._queue.withdraw(waiting)

    def _withdraw_all(self, is_superfluous: Callable[[Topic], bool]) -> None:
        for topic in [topic for topic in self._queue.topics() if is_superfluous(topic)]:
            self._withdraw_about(topic)
