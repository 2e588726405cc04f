"""A tool whose page allows it outlives that page: its call opens the page again, and runs once."""

import json

import msgspec
import pytest
import trio

from bridge.errors import UnknownToolError
from bridge.hub.caching import CachedTool, NothingKept
from bridge.hub.page_tool import PageTool
from bridge.hub.routing import Router
from bridge.hub.sessions import Session
from bridge.hub.transport import HostLost, LookedAround, TabAddress
from native_host import wire
from played_transport import CART, Answer, Asked, PlayedTransport
from said_by_hosts import one_page, tab, tools

ANY = "website_tool_shop_example_getCart"
TAB1 = "website_tool_shop_example_tab1_getCart"
URL = "https://shop.example/cart"


class Kept(NothingKept):
    """A store with what the test puts into it."""

    def __init__(self, *cached: CachedTool) -> None:
        self.cached = list(cached)
        self.has_changed = False

    def refresh(self) -> bool:
        return self.has_changed

    def tools(self) -> list[CachedTool]:
        return self.cached


def kept(profile: str = "p1", origin: str = "https://shop.example", name: str = "getCart") -> CachedTool:
    raw = msgspec.json.encode({"name": name, "annotations": {"cache": True}})
    definition = {**json.loads(raw), "inputSchema": {"type": "object"}}
    return CachedTool(profile, origin, f"{origin}/cart", PageTool.of(name, definition, raw))


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
    transport.happen(LookedAround())
    return router


async def page_tools(router: Router, session: Session | None = None) -> dict[str, str]:
    listed = await router.tools(session or Session("ours"))
    return {tool["name"]: tool["description"] for tool in listed[2:]}


def failure_of(answer: bytes) -> str:
    result = json.loads(answer)
    assert result["isError"] is True
    return str(result["content"][0]["text"])


class Browser:
    """Opens tabs whose pages offer the tool, the first after a while."""

    def __init__(self, transport: PlayedTransport, nursery: trio.Nursery, after_s: float = 0.0) -> None:
        self._transport = transport
        self._nursery = nursery
        self._after_s = after_s
        self.opened: list[wire.Wire] = []
        transport.connect("h1", wire.Tabs(tabs=[]))
        transport.on_request = self._answer

    def _answer(self, asked: Asked) -> Answer:
        if asked.method == "browser/executeTool":
            return {"success": True, "payload": CART}
        self.opened.append(asked.params)
        tab_id = 10 + len(self.opened) if asked.tab.tab_id is None else asked.tab.tab_id
        self._transport.announce("h1", wire.TabChanged(tab=tab(tab_id, owner="ours")))
        self._nursery.start_soon(self._offer, tab_id)
        return {"tabId": tab_id, "windowId": 1, "url": URL}

    async def _offer(self, tab_id: int) -> None:
        await trio.sleep(self._after_s)
        self._transport.announce("h1", tools(tab_id, "getCart"))


async def test_without_a_tab_it_is_listed_by_its_domain_and_says_that_no_tab_is_open(router: Router) -> None:
    assert await page_tools(router) == {
        ANY: "[https://shop.example · no tab is open, a call opens one] The page does not describe it."
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
    await router.tools(session)
    transport.announce("h1", wire.TabRemoved(tab_id=1))
    assert list(await page_tools(router)) == [ANY]
    assert "no longer offers" in failure_of(
        await router.call(session, TAB1.replace("getCart", "checkout"), {})
    )
    with pytest.raises(UnknownToolError):
        await router.call(session, "website_tool_shop_example_checkout", {})


async def test_a_call_opens_the_page_in_a_tab_of_the_session_s_own_and_runs_once(
    router: Router, transport: PlayedTransport, nursery: trio.Nursery
) -> None:
    browser = Browser(transport, nursery)
    session = Session("ours", title="Claude Code in shop")
    await router.tools(session)
    assert json.loads(await router.call(session, ANY, {})) == CART
    assert transport.asked[0].tab == TabAddress("h1")
    assert browser.opened == [wire.CreateTab(session="ours", url=URL, title="Claude Code in shop")]
    assert transport.executed() == [(11, "d1")]


async def test_a_slow_page_has_two_seconds_and_three_tries(
    router: Router, transport: PlayedTransport, nursery: trio.Nursery, autojump_clock: trio.abc.Clock
) -> None:
    Browser(transport, nursery, after_s=4.9)
    assert json.loads(await router.call(Session("ours"), ANY, {})) == CART
    assert len(transport.executed()) == 1


async def test_a_page_that_does_not_offer_it_any_more_says_so_and_nothing_is_run(
    router: Router, transport: PlayedTransport, nursery: trio.Nursery, autojump_clock: trio.abc.Clock
) -> None:
    Browser(transport, nursery, after_s=60)
    began = trio.current_time()
    text = failure_of(await router.call(Session("ours"), ANY, {}))
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
        assert json.loads(await router.call(session, ANY, {})) == CART
    assert len(browser.opened) == 1


async def test_a_page_that_failed_to_come_up_is_loaded_again_in_the_same_tab(
    router: Router, transport: PlayedTransport, nursery: trio.Nursery, autojump_clock: trio.abc.Clock
) -> None:
    browser = Browser(transport, nursery, after_s=6)
    session = Session("ours")
    failure_of(await router.call(session, ANY, {}))
    assert json.loads(await router.call(session, ANY, {})) == CART
    assert browser.opened[1] == wire.Navigate(session="ours", tab_id=11, url=URL, wait_until="commit")


async def test_calls_at_once_share_the_tab_that_the_first_one_opens(
    router: Router, transport: PlayedTransport, nursery: trio.Nursery, autojump_clock: trio.abc.Clock
) -> None:
    browser = Browser(transport, nursery, after_s=1)
    session = Session("ours")
    answers: list[bytes] = []

    async def call() -> None:
        answers.append(await router.call(session, ANY, {}))

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
    await router.call(session, ANY, {})
    transport.on_request = lambda _: {}
    await router.tabs.release(session)
    assert transport.asked[-1][:3] == (TabAddress("h1"), "closeSession", wire.CloseSession(session="ours"))
    assert [asked.method for asked in transport.asked].count("closeSession") == 1


async def test_it_is_opened_in_its_own_profile_and_in_no_other(
    router: Router, transport: PlayedTransport, store: Kept
) -> None:
    store.cached[:] = [kept(profile="p2")]
    router.catalog.store_changed()
    transport.connect("h1", wire.Tabs(tabs=[]))
    text = failure_of(await router.call(Session("ours"), ANY, {}))
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
    await router.tools(session)
    Browser(transport, nursery)
    transport.announce("h1", wire.Tabs(tabs=[tab(5, "http://shop.example")]))
    transport.announce("h1", tools(5, "getCart", origin="http://shop.example"))
    assert json.loads(await router.call(session, ANY, {})) == CART
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
