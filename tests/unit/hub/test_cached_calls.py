"""A tool whose page allows it outlives that page: its call opens the page again, and runs once."""

import json

import msgspec
import pytest
import trio

from bridge.errors import UnknownToolError
from bridge.hub.argument_validation import Arguments
from bridge.hub.cached_tools import CachedToolRow, NoToolStore
from bridge.hub.client_session import Session
from bridge.hub.meta_tools import TOOLS
from bridge.hub.page_tool import PageTool
from bridge.hub.providers import NoProvider
from bridge.hub.router import Router, Terms
from bridge.hub.tool_definition import mark_of
from bridge.hub.transport import CallObserver, DiscoveryFinished, HostLost, TabAddress
from fake_transport import CART, Answer, Asked, PlayedTransport, one_page, tab, tools
from native_host.protocol import wire

ANY = "website_tool_shop_example_getCart"
TAB1 = "website_tool_shop_example_tab1_getCart"
URL = "https://shop.example/cart"


class Kept(NoToolStore):
    """A store with what the test puts into it."""

    def __init__(self, *cached: CachedToolRow) -> None:
        self.cached = list(cached)
        self.has_changed = False

    def refresh(self) -> bool:
        return self.has_changed

    def tools(self) -> list[CachedToolRow]:
        return self.cached

    def was_called(self, profile: str, origin: str) -> bool:
        del profile, origin
        return True


def kept(profile: str = "p1", origin: str = "https://shop.example", name: str = "getCart") -> CachedToolRow:
    raw = msgspec.json.encode({"name": name, "annotations": {"cache": True}})
    definition = {**json.loads(raw), "inputSchema": {"type": "object"}}
    return CachedToolRow(profile, origin, f"{origin}/cart", PageTool.of(name, definition, raw))


@pytest.fixture
def transport() -> PlayedTransport:
    return PlayedTransport()


@pytest.fixture
def store() -> Kept:
    return Kept(kept())


@pytest.fixture
def router(transport: PlayedTransport, store: Kept, nursery: trio.Nursery) -> Router:
    router = Router(transport, store=store)
    nursery.start_soon(router.run)
    transport.happen(DiscoveryFinished())
    return router


async def page_tools(router: Router, session: Session | None = None) -> dict[str, str]:
    listed = await router.list_tools_decoded(session or Session("ours"))
    return {tool["name"]: tool["description"] for tool in listed[len(TOOLS) :]}


def failure_of(answer: bytes) -> str:
    result = json.loads(answer)
    assert result["isError"] is True
    return str(result["content"][0]["text"])


class Browser:
    """Opens tabs whose pages offer the tool, the first after a while."""

    def __init__(
        self,
        transport: PlayedTransport,
        nursery: trio.Nursery,
        after_s: float = 0.0,
        status: str = "",
        tools_of_a_tab: tuple[str, ...] = ("getCart",),
    ) -> None:
        self._transport = transport
        self._nursery = nursery
        self._after_s = after_s
        self._status = status
        self._tools = tools_of_a_tab
        self.opened: list[wire.Wire] = []
        transport.connect("h1", wire.Tabs(tabs=[]))
        transport.on_request = self._answer

    def _answer(self, asked: Asked) -> Answer:
        if asked.method == "browser/executeTool":
            return {"success": True, "payload": CART}
        self.opened.append(asked.params)
        tab_id = 10 + len(self.opened) if asked.tab.tab_id is None else asked.tab.tab_id
        self._transport.announce("h1", wire.TabChanged(tab=tab(tab_id, owner="ours", status=self._status)))
        self._nursery.start_soon(self._offer, tab_id)
        return {"tabId": tab_id, "windowId": 1, "url": URL}

    async def _offer(self, tab_id: int) -> None:
        await trio.sleep(self._after_s)
        self._transport.announce("h1", tools(tab_id, *self._tools))


async def test_without_a_tab_it_is_listed_by_its_domain_and_says_that_no_tab_is_open(router: Router) -> None:
    assert await page_tools(router) == {
        ANY: (
            f"{mark_of('https://shop.example')} [no tab is open, a call opens one] "
            "The page does not describe it."
        )
    }


async def test_while_a_page_offers_it_only_the_page_s_own_entry_is_listed(
    router: Router, transport: PlayedTransport
) -> None:
    transport.connect("h1", *one_page("getCart"))
    assert list(await page_tools(router)) == [TAB1]
    transport.announce("h1", wire.TabRemoved(tab_id=1))
    assert list(await page_tools(router)) == [ANY]


async def test_what_is_not_kept_is_gone_at_once(router: Router, transport: PlayedTransport) -> None:
    transport.connect("h1", *one_page("getCart", "checkout"))
    session = Session("ours")
    await router.list_tools_decoded(session)
    transport.announce("h1", wire.TabRemoved(tab_id=1))
    assert list(await page_tools(router)) == [ANY]
    assert "no longer offers" in failure_of(
        await router.call(session, TAB1.replace("getCart", "checkout"), Arguments.of({}))
    )
    with pytest.raises(UnknownToolError):
        await router.call(session, "website_tool_shop_example_checkout", Arguments.of({}))


async def test_a_call_opens_the_page_in_a_tab_of_the_session_s_own_and_runs_once(
    router: Router, transport: PlayedTransport, nursery: trio.Nursery
) -> None:
    browser = Browser(transport, nursery)
    session = Session("ours", title="Claude Code in shop")
    await router.list_tools_decoded(session)
    assert json.loads(await router.call(session, ANY, Arguments.of({}))) == CART
    assert transport.asked[0].tab == TabAddress("h1")
    created = wire.CreateTab(
        session="ours", url=URL, title="Claude Code in shop", group_key=session.group_key, closing="unused"
    )
    assert browser.opened == [created]
    assert transport.executed() == [(11, "d1")]


async def test_a_slow_page_has_two_seconds_and_three_tries(
    router: Router, transport: PlayedTransport, nursery: trio.Nursery, autojump_clock: trio.abc.Clock
) -> None:
    Browser(transport, nursery, after_s=4.9)
    assert json.loads(await router.call(Session("ours"), ANY, Arguments.of({}))) == CART
    assert len(transport.executed()) == 1


async def test_a_page_that_does_not_offer_it_any_more_says_so_and_nothing_is_run(
    router: Router, transport: PlayedTransport, nursery: trio.Nursery, autojump_clock: trio.abc.Clock
) -> None:
    Browser(transport, nursery, after_s=60)
    began = trio.current_time()
    text = failure_of(await router.call(Session("ours"), ANY, Arguments.of({})))
    assert trio.current_time() - began == pytest.approx(5)
    assert "was opened in a tab of its own and offers no getCart there" in text
    assert "Nothing was run" in text
    assert transport.executed() == []


async def test_the_next_call_uses_the_tab_that_is_open_by_then(
    router: Router, transport: PlayedTransport, nursery: trio.Nursery
) -> None:
    browser = Browser(transport, nursery)
    session = Session("ours")
    for _ in range(2):
        assert json.loads(await router.call(session, ANY, Arguments.of({}))) == CART
    assert len(browser.opened) == 1


@pytest.mark.parametrize("owner", [None, "another"])
async def test_a_tab_that_is_no_longer_the_session_s_is_not_used_again(
    router: Router, transport: PlayedTransport, nursery: trio.Nursery, owner: str | None
) -> None:
    browser = Browser(transport, nursery)
    session = Session("ours")
    await router.call(session, ANY, Arguments.of({}))
    transport.announce("h1", tools(11), wire.TabChanged(tab=tab(11, owner=owner)))
    assert json.loads(await router.call(session, ANY, Arguments.of({}))) == CART
    assert [type(asked) for asked in browser.opened] == [wire.CreateTab, wire.CreateTab]
    assert transport.executed() == [(11, "d1"), (12, "d1")]


async def test_a_page_that_did_not_load_is_loaded_again_in_the_same_tab(
    router: Router, transport: PlayedTransport, nursery: trio.Nursery, autojump_clock: trio.abc.Clock
) -> None:
    """Where it failed, the browser shows a page of its own, which no content script gets into."""
    browser = Browser(transport, nursery, after_s=2.5, status="complete")
    assert json.loads(await router.call(Session("ours"), ANY, Arguments.of({}))) == CART
    assert browser.opened[1:] == [wire.Navigate(session="ours", tab_id=11, url=URL, wait_until="commit")]


async def test_a_page_that_is_there_without_the_tool_is_left_alone(
    router: Router, transport: PlayedTransport, nursery: trio.Nursery, autojump_clock: trio.abc.Clock
) -> None:
    """A person may be signing in."""
    browser = Browser(transport, nursery, after_s=60)
    session = Session("ours")
    nursery.start_soon(transport_says_soon, transport)
    for _ in range(2):
        assert "may have to sign in" in failure_of(await router.call(session, ANY, Arguments.of({})))
    assert len(browser.opened) == 1
    transport.announce("h1", tools(11, "getCart"))
    assert json.loads(await router.call(session, ANY, Arguments.of({}))) == CART


async def transport_says_soon(transport: PlayedTransport) -> None:
    """A sign-in form is a document as well, one without tools."""
    await trio.sleep(0.5)
    transport.announce("h1", tools(11))


async def test_a_tab_that_the_person_closes_meanwhile_is_not_opened_again(
    router: Router, transport: PlayedTransport, nursery: trio.Nursery, autojump_clock: trio.abc.Clock
) -> None:
    browser = Browser(transport, nursery, after_s=60)

    async def close() -> None:
        await trio.sleep(1)
        transport.announce("h1", wire.TabRemoved(tab_id=11))

    nursery.start_soon(close)
    failure_of(await router.call(Session("ours"), ANY, Arguments.of({})))
    assert len(browser.opened) == 1


async def test_calls_that_wait_for_one_page_share_what_comes_of_it(
    router: Router, transport: PlayedTransport, nursery: trio.Nursery, autojump_clock: trio.abc.Clock
) -> None:
    Browser(transport, nursery, after_s=60)
    session, began = Session("ours"), trio.current_time()
    async with trio.open_nursery() as calls:
        for _ in range(10):
            calls.start_soon(router.call, session, ANY, Arguments.of({}))
    assert trio.current_time() - began == pytest.approx(5)
    assert transport.executed() == []


async def test_a_call_that_opens_the_page_and_is_given_up_leaves_it_to_the_next(
    router: Router, transport: PlayedTransport, nursery: trio.Nursery, autojump_clock: trio.abc.Clock
) -> None:
    browser = Browser(transport, nursery, after_s=3)
    session = Session("ours")

    async def give_up() -> None:
        with trio.move_on_after(1):
            await router.call(session, ANY, Arguments.of({}))

    nursery.start_soon(give_up)
    await trio.sleep(0.5)
    assert json.loads(await router.call(session, ANY, Arguments.of({}))) == CART
    assert len(browser.opened) == 1


async def test_tools_of_two_pages_of_a_site_are_opened_in_a_tab_each(
    router: Router, transport: PlayedTransport, store: Kept, nursery: trio.Nursery
) -> None:
    """Else one call would navigate the tab away under the other."""
    orders = kept(name="getOrders")
    store.cached.append(msgspec.structs.replace(orders, url="https://shop.example/orders"))
    router.catalog.store_changed()
    browser = Browser(transport, nursery, tools_of_a_tab=("getCart", "getOrders"))
    session = Session("ours")
    for name in (ANY, ANY.replace("Cart", "Orders")):
        session = Session("ours", opened=session.opened)  # a name that it was shown means that one tool
        transport.announce("h1", *(wire.TabRemoved(tab_id=tab_id) for tab_id in (11, 12)))
        assert json.loads(await router.call(session, name, Arguments.of({}))) == CART
    assert [getattr(opened, "url", "") for opened in browser.opened] == [URL, "https://shop.example/orders"]


async def test_a_browser_that_has_just_gone_is_waited_for_before_a_tab_is_opened(
    router: Router, transport: PlayedTransport, nursery: trio.Nursery, autojump_clock: trio.abc.Clock
) -> None:
    transport.connect("h0", wire.Tabs(tabs=[]))
    transport.happen(HostLost("h0"))

    async def come_back() -> None:
        await trio.sleep(2)
        Browser(transport, nursery)

    nursery.start_soon(come_back)
    assert json.loads(await router.call(Session("ours"), ANY, Arguments.of({}))) == CART


async def test_of_two_profiles_that_keep_it_the_one_that_runs_is_meant(
    router: Router, transport: PlayedTransport, store: Kept, nursery: trio.Nursery
) -> None:
    store.cached.append(kept(profile="p2"))
    router.catalog.store_changed()
    Browser(transport, nursery)
    assert json.loads(await router.call(Session("ours"), ANY, Arguments.of({}))) == CART


async def test_kept_tools_do_not_crowd_out_what_pages_offer_now(
    transport: PlayedTransport, store: Kept
) -> None:
    store.cached += [kept(name=f"kept{number}") for number in range(130)]
    router = Router(transport, store=store, terms=Terms(max_listed=10))
    transport.happen(DiscoveryFinished())
    transport.connect("h1", *one_page("search", "checkout"))
    names = [tool["name"] for tool in await router.list_tools_decoded(Session("ours"))]
    assert len(names) == 10
    assert names[len(TOOLS)].endswith("_search")


async def test_calls_at_once_share_the_tab_that_the_first_one_opens(
    router: Router, transport: PlayedTransport, nursery: trio.Nursery, autojump_clock: trio.abc.Clock
) -> None:
    browser = Browser(transport, nursery, after_s=1)
    session = Session("ours")
    answers: list[bytes] = []

    async def call() -> None:
        answers.append(await router.call(session, ANY, Arguments.of({})))

    async with trio.open_nursery() as calls:
        for _ in range(3):
            calls.start_soon(call)
    assert [json.loads(answer) for answer in answers] == [CART] * 3
    assert len(browser.opened) == 1
    assert len(transport.executed()) == 3


async def test_the_tabs_of_a_session_that_is_over_are_anybody_s(
    router: Router, transport: PlayedTransport, nursery: trio.Nursery
) -> None:
    Browser(transport, nursery)
    session = Session("ours")
    await router.tabs.release(session)
    await router.call(session, ANY, Arguments.of({}))
    transport.on_request = lambda _: {}
    await router.tabs.release(session)
    closing = wire.CloseSession(session="ours", closing="unused")
    assert transport.asked[-1][:3] == (TabAddress("h1"), "closeSession", closing)
    assert [asked.method for asked in transport.asked].count("closeSession") == 1


async def test_it_is_opened_in_its_own_profile_and_in_no_other(
    router: Router, transport: PlayedTransport, store: Kept
) -> None:
    store.cached[:] = [kept(profile="p2")]
    router.catalog.store_changed()
    transport.connect("h1", wire.Tabs(tabs=[]))
    text = failure_of(await router.call(Session("ours"), ANY, Arguments.of({})))
    assert "is not running; start that browser" in text
    assert "Nothing was run" in text
    assert transport.asked == []


async def test_two_profiles_that_keep_the_same_tool_get_a_name_each(
    router: Router, transport: PlayedTransport, store: Kept
) -> None:
    store.cached.append(kept(profile="p2"))
    router.catalog.store_changed()
    names = list(await page_tools(router))
    assert len(names) == 2
    assert ANY not in names


async def test_a_shown_name_goes_on_meaning_its_profile_when_the_page_is_open_in_another(
    router: Router, transport: PlayedTransport, nursery: trio.Nursery
) -> None:
    session = Session("ours")
    await router.list_tools_decoded(session)
    Browser(transport, nursery)
    transport.announce("h1", wire.Tabs(tabs=[tab(5, "http://shop.example")]))
    transport.announce("h1", tools(5, "getCart", origin="http://shop.example"))
    assert json.loads(await router.call(session, ANY, Arguments.of({}))) == CART
    assert transport.executed() == [(11, "d1")]


async def test_what_others_keep_is_heard_of_in_time(
    router: Router, transport: PlayedTransport, store: Kept, autojump_clock: trio.abc.Clock
) -> None:
    store.cached.clear()
    router.catalog.store_changed()
    assert await page_tools(router) == {}
    store.cached.append(kept())
    store.has_changed = True
    assert list(await page_tools(router)) == [ANY]


async def test_a_browser_that_has_gone_leaves_it_listed(
    router: Router, transport: PlayedTransport, autojump_clock: trio.abc.Clock
) -> None:
    transport.connect("h1", *one_page("getCart"))
    transport.happen(HostLost("h1"))
    await trio.sleep(4)
    assert list(await page_tools(router)) == [ANY]


async def test_what_is_kept_does_not_hide_that_no_browser_is_there(
    transport: PlayedTransport, store: Kept, nursery: trio.Nursery
) -> None:
    router = Router(transport, lambda _: "No browser is connected.", store=store)
    nursery.start_soon(router.run)
    transport.happen(DiscoveryFinished())
    assert router.connection_problem() == "No browser is connected."
    answer = json.loads(await router.call(Session("ours"), "list_page_tools", Arguments.of({})))
    listed = answer["content"][0]["text"]
    assert listed.startswith(ANY)
    assert listed.endswith("No browser is connected.")


async def test_the_provider_is_told_before_a_tab_is_opened(
    router: Router, transport: PlayedTransport, nursery: trio.Nursery
) -> None:
    browser = Browser(transport, nursery)
    prepared: list[tuple[str, int]] = []

    class Preparing(NoProvider):
        async def prepare_tab(self, session: Session, caller: CallObserver) -> None:
            del caller
            prepared.append((session.id, len(browser.opened)))

    router.set_provider(Preparing())
    await router.call(Session("ours"), ANY, Arguments(b"{}"))
    assert prepared == [("ours", 0)]
    assert browser.opened
