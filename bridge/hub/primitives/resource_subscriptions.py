"""Subscriptions of sessions to resources of pages.

All subscriptions of this bridge to one resource of a document share one watch (`browser/watchResource`); the
extension joins the watches of all bridges. A watch ends with its document or the page's server, and begins
again when the page is back: a URI means tab, frame and the page's own URI, not the document. Nothing is
polled, and no update is invented.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable

import msgspec
import trio

from bridge.errors import CallError, NotOfferedError, PageServerError
from bridge.hub.audit_records import CallRecord
from bridge.hub.client_session import Session
from bridge.hub.operation import FINISHED, Operation
from bridge.hub.primitives.document_access import DocumentAccess
from bridge.hub.primitives.extension_support import WATCH, check_extension, has_command
from bridge.hub.primitives.own_resource import OwnWatch
from bridge.hub.primitives.page_documents import PageDocument
from bridge.hub.primitives.resource_catalog import ResourceCatalog, ResourceTarget
from bridge.hub.transport import CallObserver, TabTransport
from native_host.protocol import wire
from native_host.protocol.untrusted_text import single_line
from native_host.protocol.wire import Code

MAX_SUBSCRIPTIONS = 32
"""Subscriptions of a session: half of those that the extension allows in a document, for all clients."""
RETRY_S = 0.5
"""Seconds until a watch that has ended is begun again; doubled after each attempt without success."""
MAX_RETRY_S = 30.0
_MAX_SAID = 500
LOOK_S = 2.0
"""Seconds between two looks at what no version counts, such as the owner of a tab."""

_log = logging.getLogger(__name__)


WatchOwn = Callable[[Session, str, Callable[[], None]], OwnWatch | None]
"""Calls a function for each change of a resource; returns None if it is not one of mcpb."""


class Subscription:
    """Subscription of a session to a URI; made by `ResourceSubscriptions`."""

    def __init__(self, session: Session, uri: str, tell: Callable[[], None]) -> None:
        self.session = session
        self.uri = uri
        """As the client wrote it: updates name it so."""
        self.tell = tell
        self.own: OwnWatch | None = None
        """Watch of a resource of mcpb; None: the resource is a page's."""
        self.watch: _Watch | None = None
        self.unmatched: object = None
        """Version of the documents, of which none has the resource."""
        self.moved = trio.Event()
        """Set when it gets another watch, or none."""

    def move(self, watch: _Watch | None) -> None:
        """Let it belong to another watch."""
        self.watch = watch
        self.moved.set()
        self.moved = trio.Event()


class _Place(msgspec.Struct, frozen=True):
    host: str
    tab_id: int
    frame_id: int
    document_id: str
    own_uri: str


class _Watch:
    """What a document's server reports about one of its resources."""

    def __init__(self, place: _Place, target: ResourceTarget) -> None:
        self.place = place
        self.target = target
        self.announced = target.document.frame.announced
        """Announcement for which it began: after a refusal the server is asked again only after the next."""
        self.subscriptions: dict[Subscription, None] = {}
        self.operation: Operation = FINISHED
        self.settled = trio.Event()
        """Set once it is active, or has ended."""
        self.ended: bytes | CallError | None = None
        """How it ended by itself; None: it has not."""
        self.retry_s = RETRY_S
        """Seconds after its end in which it is not begun again."""
        self.retry_at = math.inf
        """Time from which on it may be begun again."""

    def may_begin_again(self, announced: wire.FrameTools) -> bool:
        """Return whether its end may be over, given the latest announcement of its frame."""
        return announced is not self.announced or trio.current_time() >= self.retry_at


class ResourceSubscriptions:
    """The subscriptions of all sessions."""

    def __init__(
        self,
        catalog: ResourceCatalog,
        access: DocumentAccess,
        transport: TabTransport,
        call_s: Callable[[], float],
        version: Callable[[], object],
        wake: Callable[[], None],
        watch_own: WatchOwn = lambda _session, _uri, _tell: None,
    ) -> None:
        """Watch through `transport`.

        Args:
            catalog: the resources of all pages.
            access: of sessions to documents.
            transport: carries the watches.
            call_s: setting, which may change while this runs.
            version: changes whenever pages, their names or rules do.
            wake: lets the caller of `refresh` look at `next_look` again.
            watch_own: begins to report changes of a resource of mcpb; None: a page's is meant.
        """
        self._catalog = catalog
        self._access = access
        self._transport = transport
        self._call_s = call_s
        self._version = version
        self._wake = wake
        self._watch_own = watch_own
        self.version = 0
        """Changes with `uris_of`."""
        self._subscriptions: dict[Subscription, None] = {}
        self._requested: dict[tuple[str, str], Subscription] = {}
        """By session and URI: those of `resources/subscribe`."""
        self._watches: dict[_Place, _Watch] = {}
        self._followed: object = None
        """Version of everything that the last look depended on."""
        self._look_at = -math.inf

    # ── From clients ────────────────────────────────────────────────────────────────────────────────────────

    async def subscribe(
        self, record: CallRecord, uri: str, observer: CallObserver, tell: Callable[[], None]
    ) -> None:
        """Subscribe a session to a resource of a page; returns when updates are reported.

        `tell` is called for each update. A later subscription of the session to the URI replaces this one.

        Raises:
            NotOfferedError: no page has the resource.
            CallError: the session may not read it, has too many subscriptions, or the page rejects it.
        """
        session = record.session
        may_have = self._catalog.may_have
        target = await self._access.admit(
            record, observer, lambda: self._find(session, uri), lambda left: may_have(left, uri)
        )
        record.own_name = target.own_uri
        check_extension(target.document.browser, WATCH)
        self.unsubscribe(session, uri)
        self._check_room(session, [uri])
        subscription = Subscription(session, uri, tell)
        self._add([subscription])
        self._requested[session.id, uri] = subscription
        try:
            self._join(subscription, target, is_new=True)
            await self._wait_active(subscription)
        except BaseException:
            self.end([subscription])
            raise

    async def subscribe_own(self, session: Session, uri: str, tell: Callable[[], None]) -> None:
        """Subscribe a session to a resource of mcpb that it may use: as `subscribe`.

        Raises:
            CallError: the session has too many subscriptions.
        """
        self.unsubscribe(session, uri)
        self._check_room(session, [uri])
        subscription = Subscription(session, uri, tell)
        own = subscription.own = self._watch_own(session, uri, tell)
        self._add([subscription])
        self._requested[session.id, uri] = subscription
        try:
            with trio.move_on_after(self._call_s()):
                if own:
                    await own.wait_active()
        except BaseException:
            self.end([subscription])
            raise

    def unsubscribe(self, session: Session, uri: str) -> None:
        """End the subscription of a session to a URI, if there is one."""
        if subscription := self._requested.get((session.id, uri)):
            self.end([subscription])

    def listen(
        self, session: Session, uris: Iterable[str], tell: Callable[[str], None]
    ) -> list[Subscription]:
        """Subscribe a session to URIs until `end`, whether they are offered now or later.

        `tell` is called with the URI for each update.

        Raises:
            CallError: the session has too many subscriptions.
        """
        wanted = dict.fromkeys(uris)
        self._check_room(session, wanted)
        subscriptions = [Subscription(session, uri, lambda uri=uri: tell(uri)) for uri in wanted]  # type: ignore[misc]
        for subscription in subscriptions:
            subscription.own = self._watch_own(session, subscription.uri, subscription.tell)
        self._add(subscriptions)
        for subscription in subscriptions:
            self._follow(subscription)
        return subscriptions

    def end(self, subscriptions: Iterable[Subscription]) -> None:
        """End subscriptions."""
        ended = list(subscriptions)
        for subscription in ended:
            self._subscriptions.pop(subscription, None)
            key = subscription.session.id, subscription.uri
            if self._requested.get(key) is subscription:
                del self._requested[key]
            self._leave(subscription)
            subscription.moved.set()
            if subscription.own:
                subscription.own.end()
        if ended:
            self.version += 1
            self._wake()

    def release(self, session: Session) -> None:
        """End the subscriptions of a session."""
        self.end([each for each in self._subscriptions if each.session is session])

    def uris_of(self, session_id: str) -> list[str]:
        """Return the URIs that a session is subscribed to, as the client wrote them, each once."""
        return list(dict.fromkeys(each.uri for each in self._subscriptions if each.session.id == session_id))

    def _add(self, subscriptions: Iterable[Subscription]) -> None:
        self._subscriptions.update(dict.fromkeys(subscriptions))
        self.version += 1
        self._wake()

    # ── From pages ──────────────────────────────────────────────────────────────────────────────────────────

    def refresh(self) -> None:
        """Follow changes of pages and rules: begin watches that have become possible, end forbidden ones."""
        version, now = self._version(), trio.current_time()
        if not self._subscriptions or (version == self._followed and now < self.next_look):
            return
        self._followed, self._look_at = version, now + LOOK_S
        for subscription in list(self._subscriptions):
            self._follow(subscription)

    @property
    def next_look(self) -> float:
        """Time of the next `refresh`, if nothing changes before."""
        if not self._subscriptions:
            return math.inf
        return min([self._look_at, *(watch.retry_at for watch in self._watches.values())])

    def _follow(self, subscription: Subscription) -> None:
        if subscription.own:
            return
        watch = subscription.watch
        if watch and watch.ended is None and self._is_open(subscription, watch.target.document):
            return  # also if another tab is the best one by now
        if subscription.unmatched == self._catalog.documents.version:
            return
        try:
            target = self._find(subscription.session, subscription.uri)
        except NotOfferedError:
            subscription.unmatched = self._catalog.documents.version
            self._leave(subscription)
            return
        except CallError:
            self._leave(subscription)
            return
        if self._is_open(subscription, target.document) and has_command(target.document.browser, WATCH):
            self._join(subscription, target)
        else:
            self._leave(subscription)

    def _is_open(self, subscription: Subscription, document: PageDocument) -> bool:
        """Return whether a document is still there, and may be used without asking the user."""
        now = self._catalog.documents.current(document)
        return now is not None and self._access.is_open(subscription.session, now)

    def _join(self, subscription: Subscription, target: ResourceTarget, *, is_new: bool = False) -> None:
        """Let a subscription belong to the watch of its resource; `is_new`: the client waits for it."""
        at = target.document.frame.announced
        place = _Place(target.document.browser.host, at.tab_id, at.frame_id, at.document_id, target.own_uri)
        watch = self._watches.get(place)
        if watch is None or (watch.ended is not None and (is_new or watch.may_begin_again(at))):
            ended, watch = watch, _Watch(place, target)
            if ended is not None:
                watch.retry_s = min(2 * ended.retry_s, MAX_RETRY_S)
            self._watches[place] = watch
            watch.subscriptions[subscription] = None
            self._begin(watch)
        if subscription.watch is not watch:
            self._leave(subscription)
            watch.subscriptions[subscription] = None
            subscription.move(watch)

    def _leave(self, subscription: Subscription) -> None:
        watch = subscription.watch
        if watch is None:
            return
        subscription.move(None)
        del watch.subscriptions[subscription]
        if watch.subscriptions:
            return
        if self._watches.get(watch.place) is watch:
            del self._watches[watch.place]
        watch.settled.set()
        watch.operation.cancel()

    def _begin(self, watch: _Watch) -> None:
        def on_news(news: wire.Watching | wire.ResourceUpdated) -> None:
            watch.settled.set()
            watch.retry_s = RETRY_S
            if isinstance(news, wire.ResourceUpdated):
                self._tell(watch)

        def on_finished(outcome: bytes | CallError) -> None:
            watch.ended, watch.operation = outcome, FINISHED
            if not _is_refusal(outcome):
                watch.retry_at = trio.current_time() + watch.retry_s
            watch.settled.set()
            self._wake()
            if isinstance(outcome, CallError):
                _log.debug("a watch of %s has ended: %s", watch.target.document.shown_origin, outcome)

        place, document = watch.place, watch.target.document
        params = wire.WatchResource(
            tab_id=place.tab_id, frame_id=place.frame_id, document_id=place.document_id, uri=place.own_uri
        )
        send, observer = self._transport.send, CallObserver(on_watch=on_news)
        operation = send(document.address, WATCH, params, math.inf, on_finished, observer)
        if watch.ended is None:
            watch.operation = operation

    def _tell(self, watch: _Watch) -> None:
        for subscription in list(watch.subscriptions):
            if self._is_open(subscription, watch.target.document):
                subscription.tell()

    async def _wait_active(self, subscription: Subscription) -> None:
        """Wait until the watch of a subscription is active, whichever that is by then.

        Raises:
            CallError: it was rejected, or the page does not answer.
        """
        with trio.move_on_after(self._call_s()):
            while subscription in self._subscriptions:
                watch, moved = subscription.watch, subscription.moved
                if watch is None:  # its page is being loaded
                    await moved.wait()
                    continue
                await watch.settled.wait()
                if subscription.watch is not watch:
                    continue
                if isinstance(watch.ended, CallError):
                    raise _failure(watch.ended, watch.target)
                if watch.ended is None:
                    return
                await moved.wait()
            return  # it was ended meanwhile
        raise CallError(Code.TIMED_OUT, "the page was to report changes of a resource", handed=True)

    # ── What both need ──────────────────────────────────────────────────────────────────────────────────────

    def _find(self, session: Session, uri: str) -> ResourceTarget:
        if target := self._catalog.find(session, uri):
            return target
        self._access.check_extensions()
        raise NotOfferedError(uri)

    def _check_room(self, session: Session, added: Iterable[str]) -> None:
        known = sum(each.session is session for each in self._subscriptions)
        if known + len(list(added)) > MAX_SUBSCRIPTIONS:
            detail = f"a session may have {MAX_SUBSCRIPTIONS} subscriptions to resources"
            raise CallError(Code.RATE_LIMITED, detail, handed=False, then="End one of them first.")


def _is_refusal(outcome: bytes | CallError) -> bool:
    """Return whether a watch would end the same way again."""
    return isinstance(outcome, CallError) and outcome.code in (Code.INVALID_PARAMS, Code.NO_LONGER_OFFERED)


def _failure(error: CallError, target: ResourceTarget) -> CallError:
    """Return the error of a watch for its client: what the page's server says stands behind its origin."""
    if error.code != Code.INVALID_PARAMS or not error.handed:
        return error
    said = single_line(error.detail, _MAX_SAID) or "its server rejects the subscription"
    return PageServerError(error.code, f"{target.document.shown_origin}: {said}", handed=True)
