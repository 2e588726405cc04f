"""Subscriptions of sessions to resources of pages, over a transport that the test plays."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import msgspec
import pytest
import trio
import trio.testing

from bridge.errors import CallError, NotOfferedError
from bridge.hub.audit_records import CallRecord, FinishedCall, Record
from bridge.hub.client_session import Session
from bridge.hub.operation import wait_outcome
from bridge.hub.primitives.own_resource import OwnWatch
from bridge.hub.primitives.resource_subscriptions import MAX_SUBSCRIPTIONS, RETRY_S
from bridge.hub.providers import NoProvider
from bridge.hub.router import Router, Terms
from bridge.hub.transport import CallObserver, HostLost
from fake_transport import Answer, Asked, PlayedTransport, tab
from native_host.protocol import wire
from native_host.protocol.rate_limit import RateLimiter
from native_host.protocol.wire import Code
from page_resources import CART, SHOP, page

URI = "mcpb://page/shop.example/tab1/cart://1"
TEMPLATE = {"uriTemplate": "order://{id}", "name": "Order"}


class Shop:
    """A page that sells, and sessions that subscribe to its resources."""

    def __init__(self, nursery: trio.Nursery, **terms: object) -> None:
        self.pages = PlayedTransport()
        self.pages.on_request = self.watch
        self.rejects = False
        self.router = Router(self.pages, terms=Terms(**terms))  # type: ignore[arg-type]
        self.told: list[str] = []
        nursery.start_soon(self.router.run)

    def watch(self, asked: Asked) -> Answer:
        if self.rejects:
            return CallError(Code.INVALID_PARAMS, "it never changes", handed=True)
        assert asked.caller.on_watch
        asked.caller.on_watch(wire.Watching())
        return None

    async def open(self, *resources: dict[str, str], document_id: str = "d1") -> None:
        offer = page(1, *(resources or (CART, TEMPLATE)), document_id=document_id)
        offer = msgspec.structs.replace(offer, url=f"{SHOP}/")
        if self.router.registry.browsers():
            self.pages.announce("h1", offer)
        else:
            self.pages.connect("h1", wire.Tabs(tabs=[tab(1)]), offer)
        await trio.testing.wait_all_tasks_blocked()

    async def subscribe(self, session: Session, uri: str = URI) -> Exception | None:
        begin = partial(self.router.begin_subscribe, session, uri, partial(self.told.append, session.id))
        outcome = await wait_outcome(begin)
        return outcome if isinstance(outcome, Exception) else None

    def listen(self, session: Session, *uris: str) -> object:
        return self.router.subscriptions.listen(
            session, uris, lambda uri: self.told.append(f"{session.id} {uri}")
        )

    def watches(self) -> list[Asked]:
        """Those that have not been cancelled, also if they have ended."""
        return [asked for asked in self.pages.asked if asked not in self.pages.given_up]

    def update(self) -> None:
        for asked in self.watches():
            assert isinstance(asked.params, wire.WatchResource)
            assert asked.caller.on_watch
            asked.caller.on_watch(wire.ResourceUpdated(uri=asked.params.uri))


ONE, OTHER = Session("one"), Session("other")


@pytest.fixture
def shop(nursery: trio.Nursery) -> Shop:
    return Shop(nursery)


async def test_subscribers_of_a_resource_share_one_watch(shop: Shop) -> None:
    await shop.open()
    assert await shop.subscribe(ONE) is None
    assert await shop.subscribe(OTHER, "cart://1") is None
    (asked,) = shop.watches()
    assert asked.method == "browser/watchResource"
    assert asked.params == wire.WatchResource(tab_id=1, frame_id=0, document_id="d1", uri="cart://1")
    shop.update()
    assert sorted(shop.told) == ["one", "other"]


async def test_the_last_subscriber_ends_the_watch(shop: Shop) -> None:
    await shop.open()
    await shop.subscribe(ONE)
    await shop.subscribe(OTHER)
    shop.router.subscriptions.unsubscribe(ONE, URI)
    assert len(shop.watches()) == 1
    await shop.router.release(OTHER)
    assert shop.watches() == []
    shop.update()
    assert shop.told == []


async def test_a_page_that_returns_is_watched_again(shop: Shop) -> None:
    await shop.open()
    await shop.subscribe(ONE)
    shop.pages.announce("h1", wire.FrameAddress(tab_id=1, frame_id=0, document_id="d1"))
    (first,) = shop.watches()
    first.on_done(CallError(Code.NAVIGATED, handed=True))
    await shop.open(document_id="d2")
    _, second = shop.watches()
    assert second.params.document_id == "d2"  # type: ignore[attr-defined]
    shop.update()
    assert shop.told.count("one") == 1  # the ended watch has no subscriber


async def test_a_watch_that_the_page_rejects_is_not_tried_again_until_the_page_changes(shop: Shop) -> None:
    shop.rejects = True
    await shop.open()
    error = await shop.subscribe(ONE)
    assert isinstance(error, CallError)
    assert error.detail == f"{SHOP}: it never changes"
    shop.listen(OTHER, URI)
    for active in (True, False):
        shop.pages.announce("h1", wire.TabChanged(tab=tab(1, active=active)))
        await trio.testing.wait_all_tasks_blocked()
    assert len(shop.watches()) == 2
    shop.rejects = False
    await shop.open()
    shop.update()
    assert shop.told == [f"other {URI}"]


async def test_a_server_that_was_replaced_is_watched_again_without_an_announcement(
    shop: Shop, autojump_clock: trio.abc.Clock
) -> None:
    await shop.open()
    await shop.subscribe(ONE)
    shop.listen(OTHER, URI)
    shop.watches()[0].on_done(b"{}")
    assert await shop.subscribe(Session("third")) is None  # at once: its client waits
    assert len(shop.watches()) == 2
    shop.watches()[1].on_done(b"{}")
    await trio.sleep(RETRY_S)
    await trio.testing.wait_all_tasks_blocked()
    assert len(shop.watches()) == 3
    shop.update()
    assert shop.told == ["one", f"other {URI}", "third"]


async def test_a_watch_for_which_there_is_no_room_is_tried_again(
    shop: Shop, autojump_clock: trio.abc.Clock
) -> None:
    shop.pages.on_request = lambda _: CallError(Code.RATE_LIMITED, "too many", handed=False)
    await shop.open()
    shop.listen(ONE, URI)
    shop.pages.on_request = shop.watch
    await trio.sleep(2 * RETRY_S)
    shop.update()
    assert shop.told == [f"one {URI}"]


async def test_a_watch_that_fails_again_and_again_is_tried_less_and_less_often(
    shop: Shop, autojump_clock: trio.abc.Clock
) -> None:
    shop.pages.on_request = lambda _: CallError(Code.RATE_LIMITED, "too many", handed=False)
    await shop.open()
    shop.listen(ONE, URI)
    await trio.sleep(60)
    assert 6 <= len(shop.pages.asked) <= 8  # after 0.5, 1.5, 3.5, 7.5, 15.5, 31.5 s


async def test_a_subscription_waits_for_a_page_that_is_being_reloaded(shop: Shop) -> None:
    await shop.open()
    shop.pages.announce("h1", wire.FrameAddress(tab_id=1, frame_id=0, document_id="d1"))
    async with trio.open_nursery() as nursery:
        errors: list[Exception | None] = []

        async def subscribe() -> None:
            errors.append(await shop.subscribe(ONE))

        nursery.start_soon(subscribe)
        await trio.testing.wait_all_tasks_blocked()
        await shop.open(document_id="d2")
    assert errors == [None]


async def test_what_listens_is_counted_and_recorded_as_a_subscription(nursery: trio.Nursery) -> None:
    records: list[Record] = []
    router = Router(
        PlayedTransport(), terms=Terms(rate_limiter=RateLimiter(per_minute=1)), keep=records.append
    )
    router.listen(ONE, [URI, "order://7", URI], lambda _: None)
    with pytest.raises(CallError) as raised:
        router.listen(ONE, [URI], lambda _: None)
    assert raised.value.code == Code.RATE_LIMITED
    ended = [each for each in records if isinstance(each, FinishedCall)]
    assert [(each.kind, each.name, each.outcome) for each in ended] == [
        ("subscription", URI, "ok"),
        ("subscription", "order://7", "ok"),
        ("subscription", URI, "rate_limited"),
    ]


async def test_a_request_outlives_the_reload_of_its_page(shop: Shop) -> None:
    shop.pages.on_request = lambda _: None
    await shop.open()
    async with trio.open_nursery() as nursery:
        errors: list[Exception | None] = []

        async def subscribe() -> None:
            errors.append(await shop.subscribe(ONE))

        nursery.start_soon(subscribe)
        await trio.testing.wait_all_tasks_blocked()
        shop.pages.announce("h1", wire.FrameAddress(tab_id=1, frame_id=0, document_id="d1"))
        await trio.testing.wait_all_tasks_blocked()
        shop.pages.on_request = shop.watch
        await shop.open(document_id="d2")
    assert errors == [None]
    assert len(shop.watches()) == 1


async def test_a_request_ends_with_its_subscription(shop: Shop) -> None:
    shop.pages.on_request = lambda _: None
    await shop.open()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(shop.subscribe, ONE)
        await trio.testing.wait_all_tasks_blocked()
        shop.router.subscriptions.unsubscribe(ONE, URI)
    assert shop.watches() == []


async def test_what_listens_waits_for_a_page_that_is_not_there_yet(shop: Shop) -> None:
    shop.listen(ONE, URI, "order://7")
    await shop.open()
    shop.update()
    assert sorted(shop.told) == [f"one {URI}", "one order://7"]


async def test_a_resource_that_no_page_offers_is_named(shop: Shop) -> None:
    await shop.open()
    assert isinstance(await shop.subscribe(ONE, "cart://9"), NotOfferedError)
    assert shop.pages.asked == []


async def test_a_paused_site_sends_no_updates(shop: Shop) -> None:
    await shop.open()
    await shop.subscribe(ONE)
    shop.pages.announce("h1", wire.Paused(sites=[SHOP]))
    shop.update()
    assert shop.told == []
    error = await shop.subscribe(OTHER)
    assert isinstance(error, CallError)
    assert error.code == Code.PAUSED


async def test_a_tab_that_another_session_takes_sends_no_more_updates(shop: Shop) -> None:
    await shop.open()
    await shop.subscribe(ONE)
    shop.pages.announce("h1", wire.TabChanged(tab=tab(1, owner="other")))
    shop.update()
    await trio.testing.wait_all_tasks_blocked()
    assert shop.told == []
    assert shop.watches() == []


async def test_a_page_that_does_not_answer_is_not_waited_for_longer_than_a_call(
    shop: Shop, autojump_clock: trio.abc.Clock
) -> None:
    shop.pages.on_request = lambda _: None
    await shop.open()
    began = trio.current_time()
    error = await shop.subscribe(ONE)
    assert isinstance(error, CallError)
    assert error.code == Code.TIMED_OUT
    assert trio.current_time() - began == pytest.approx(10)
    assert shop.watches() == []


async def test_a_session_has_32_subscriptions_at_most(shop: Shop) -> None:
    assert MAX_SUBSCRIPTIONS == 32
    await shop.open()
    for number in range(32):
        assert await shop.subscribe(ONE, f"order://{number}") is None
    error = await shop.subscribe(ONE, "order://32")
    assert isinstance(error, CallError)
    assert "may have 32 subscriptions" in error.detail
    assert await shop.subscribe(OTHER, "order://32") is None


async def test_subscribing_twice_counts_once(shop: Shop) -> None:
    await shop.open()
    await shop.subscribe(ONE)
    await shop.subscribe(ONE)
    shop.update()
    assert shop.told == ["one"]


async def test_a_lost_host_is_followed_to_its_successor(shop: Shop) -> None:
    await shop.open()
    await shop.subscribe(ONE)
    shop.watches()[0].on_done(CallError(Code.GONE, handed=True))
    shop.pages.happen(HostLost("h1"))
    shop.pages.connect("h2", wire.Tabs(tabs=[tab(1)]), page(1, CART), started_at=2.0)
    await trio.testing.wait_all_tasks_blocked()
    assert shop.watches()[-1].tab.host == "h2"


class Clock(NoProvider):
    """Offers one resource of mcpb, whose watch never becomes active."""

    def __init__(self) -> None:
        self.ended = 0

    def defines(self, _session: Session, uri: str) -> bool:
        return uri == "mcpb://clock"

    async def admit_watch(self, record: CallRecord, uri: str, observer: CallObserver) -> None:
        """Any session may."""

    def watch(self, session: Session, uri: str, tell: Callable[[], None]) -> OwnWatch:  # noqa: ARG002
        return OwnWatch(self.end, trio.sleep_forever)

    def end(self) -> None:
        self.ended += 1


async def test_a_cancelled_request_for_a_resource_of_mcpb_ends_its_watch(shop: Shop) -> None:
    clock = Clock()
    shop.router.set_provider(clock)
    operation = shop.router.begin_subscribe(ONE, "mcpb://clock", lambda: None, lambda _: None)
    await trio.testing.wait_all_tasks_blocked()
    operation.cancel()
    await trio.testing.wait_all_tasks_blocked()
    assert clock.ended == 1


async def test_the_end_of_a_session_ends_its_watches_of_resources_of_mcpb(shop: Shop) -> None:
    clock = Clock()
    shop.router.set_provider(clock)
    shop.router.listen(ONE, ["mcpb://clock"], lambda _: None)
    await shop.router.release(ONE)
    assert clock.ended == 1
