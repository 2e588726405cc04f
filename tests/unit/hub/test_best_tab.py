"""A call without a tab in its name goes to the best one, and never runs twice to get there."""

import json
from collections.abc import Callable

import msgspec
import pytest
import trio

from bridge.errors import CallError, UnknownToolError
from bridge.hub.argument_validation import Arguments
from bridge.hub.cached_tools import CachedToolRow, NoToolStore
from bridge.hub.client_session import Session
from bridge.hub.meta_tools import TOOLS
from bridge.hub.page_tool import PageTool
from bridge.hub.router import Router
from bridge.hub.tool_definition import mark_of
from bridge.hub.transport import DiscoveryFinished, HostDiscovered, HostLinked, TabAddress
from fake_transport import CART, Answer, Asked, PlayedTransport, browser_hello, host_hello, tab, tools
from native_host.protocol import wire
from native_host.protocol.wire import Code

TAB1 = "website_tool_shop_example_tab1_getCart"
ANY = "website_tool_shop_example_getCart"


@pytest.fixture
def transport() -> PlayedTransport:
    return PlayedTransport()


@pytest.fixture
def router(transport: PlayedTransport, nursery: trio.Nursery) -> Router:
    router = Router(transport)
    nursery.start_soon(router.run)
    transport.happen(DiscoveryFinished())
    return router


def two_tabs(transport: PlayedTransport) -> None:
    """The second one was looked at last."""
    tabs = [tab(1, last_accessed=5), tab(2, ordinal=2, last_accessed=9)]
    transport.connect("h1", wire.Tabs(tabs=tabs), tools(1, "getCart"), tools(2, "getCart"))


def failing_in(tab_id: int, error: CallError) -> Callable[[Asked], Answer]:
    def answer(asked: Asked) -> Answer:
        return error if asked.tab.tab_id == tab_id else {"success": True, "payload": CART}

    return answer


def failure_of(answer: bytes) -> str:
    result = json.loads(answer)
    assert result["isError"] is True
    return str(result["content"][0]["text"])


async def test_the_tab_that_is_shown_comes_before_the_one_that_was_looked_at_last(
    router: Router, transport: PlayedTransport
) -> None:
    two_tabs(transport)
    session = Session("ours")
    await router.call(session, ANY, Arguments.of({}))
    transport.announce("h1", wire.TabChanged(tab=tab(1, active=True, focused=True)))
    await router.call(session, ANY, Arguments.of({}))
    assert [at for at, _ in transport.executed()] == [2, 1]


async def test_a_name_with_a_tab_in_it_means_that_tab_whatever_is_shown(
    router: Router, transport: PlayedTransport
) -> None:
    two_tabs(transport)
    await router.call(Session("ours"), TAB1, Arguments.of({}))
    assert transport.executed() == [(1, "d1")]


@pytest.mark.parametrize("code", [Code.NO_SUCH_TAB, Code.NAVIGATED, Code.NO_LONGER_OFFERED, Code.GONE])
async def test_a_tab_that_was_gone_before_it_got_the_call_is_passed_by(
    router: Router, transport: PlayedTransport, code: Code
) -> None:
    two_tabs(transport)
    transport.on_request = failing_in(2, CallError(code, handed=False))
    assert json.loads(await router.call(Session("ours"), ANY, Arguments.of({}))) == CART
    assert [at for at, _ in transport.executed()] == [2, 1]


async def test_a_call_that_may_have_run_is_not_made_again_elsewhere(
    router: Router, transport: PlayedTransport
) -> None:
    two_tabs(transport)
    transport.on_request = failing_in(2, CallError(Code.NAVIGATED, handed=True))
    assert "may have run" in failure_of(await router.call(Session("ours"), ANY, Arguments.of({})))
    assert [at for at, _ in transport.executed()] == [2]


@pytest.mark.parametrize("hint", ["readOnlyHint", "idempotentHint"])
async def test_unless_its_page_says_that_running_it_twice_does_no_harm(
    router: Router, transport: PlayedTransport, hint: str
) -> None:
    definition = msgspec.Raw(msgspec.json.encode({"name": "getCart", "annotations": {hint: True}}))
    tabs = wire.Tabs(tabs=[tab(1), tab(2, ordinal=2, last_accessed=9)])
    pages = [tools(1), tools(2)]
    for page in pages:
        page.tools.append(definition)
    transport.connect("h1", tabs, *pages)
    transport.on_request = failing_in(2, CallError(Code.NAVIGATED, handed=True))
    assert json.loads(await router.call(Session("ours"), ANY, Arguments.of({}))) == CART


async def test_a_call_to_one_tab_is_not_made_in_another(router: Router, transport: PlayedTransport) -> None:
    two_tabs(transport)
    transport.on_request = failing_in(1, CallError(Code.NO_SUCH_TAB, handed=False))
    assert "No such tab" in failure_of(await router.call(Session("ours"), TAB1, Arguments.of({})))
    assert transport.executed() == [(1, "d1")]


async def test_there_is_an_end_to_trying(router: Router, transport: PlayedTransport) -> None:
    two_tabs(transport)
    transport.answer = CallError(Code.NAVIGATED, handed=False)
    assert "Nothing was run" in failure_of(await router.call(Session("ours"), ANY, Arguments.of({})))
    assert len(transport.executed()) == 3


async def test_what_a_tool_answers_is_never_a_reason_to_call_it_again(
    router: Router, transport: PlayedTransport
) -> None:
    two_tabs(transport)
    transport.answer = {"success": False, "payload": "no such tab"}
    await router.call(Session("ours"), ANY, Arguments.of({}))
    assert len(transport.executed()) == 1


async def test_when_all_tabs_are_others_own_a_new_one_is_opened_at_the_origin(
    router: Router, transport: PlayedTransport
) -> None:
    transport.connect("h1", wire.Tabs(tabs=[tab(1, owner="theirs")]), tools(1, "getCart"))

    def answer(asked: Asked) -> Answer:
        if asked.method != "createTab":
            return {"success": True, "payload": CART}
        transport.announce("h1", wire.TabChanged(tab=tab(9, ordinal=2, owner="ours")), tools(9, "getCart"))
        return {"tabId": 9, "windowId": 1}

    transport.on_request = answer
    assert json.loads(await router.call(Session("ours"), ANY, Arguments.of({}))) == CART
    created = transport.asked[0]
    assert created[:2] == (TabAddress("h1"), "createTab")
    key = Session("ours").group_key
    assert created.params == wire.CreateTab(
        session="ours", url="https://shop.example/", group_key=key, closing="unused"
    )
    assert transport.executed() == [(9, "d1")]


# ── Which document a name means ─────────────────────────────────────────────────────────────────────────────


def page(document_id: str, url: str, *, description: str = "") -> wire.FrameTools:
    announced = tools(1, document_id=document_id)
    announced.url = url
    definition = {"name": "getCart", "description": description}
    announced.tools.append(msgspec.Raw(msgspec.json.encode(definition)))
    return announced


LISTED = page("d1", "https://shop.example/cart?of=me#top")


@pytest.mark.parametrize(
    ("now", "runs"),
    [
        (page("d1", "https://shop.example/cart?of=me", description="Two items"), True),
        (page("d2", "https://shop.example/cart?of=me#end"), True),
        (page("d2", "https://shop.example/cart?of=you"), False),
        (page("d2", "https://shop.example/account"), False),
        (page("d2", "https://shop.example/cart?of=me", description="Empties the cart"), False),
    ],
    ids=["its own change", "a reload", "another query", "another page", "another tool of that name"],
)
async def test_a_listed_name_runs_in_the_page_that_was_listed_and_in_no_other(
    router: Router, transport: PlayedTransport, now: wire.FrameTools, runs: bool
) -> None:
    transport.connect("h1", wire.Tabs(tabs=[tab(1)]), LISTED)
    session = Session("ours")
    await router.list_tools_decoded(session)
    transport.announce("h1", now)
    answer = await router.call(session, TAB1, Arguments.of({}))
    assert transport.executed() == ([(1, now.document_id)] if runs else [])
    if not runs:
        assert "another document" in failure_of(answer)
        await router.list_tools_decoded(session)
        assert json.loads(await router.call(session, TAB1, Arguments.of({}))) == CART


# ── Frames, profiles and browsers ───────────────────────────────────────────────────────────────────────────

EVIL = "https://evil.example"


async def test_a_site_s_own_page_comes_before_a_frame_of_it_in_another_s_that_is_shown(
    router: Router, transport: PlayedTransport
) -> None:
    """The page around a frame may look over what it answers."""
    tabs = wire.Tabs(tabs=[tab(1), tab(2, origin=EVIL, active=True, focused=True, last_accessed=9)])
    transport.connect("h1", tabs, tools(2, "getCart", frame_id=5), tools(1, "getCart"))
    await router.call(Session("ours"), ANY, Arguments.of({}))
    assert transport.executed() == [(1, "d1")]


async def test_a_frame_in_another_site_s_page_says_in_whose(
    router: Router, transport: PlayedTransport
) -> None:
    tabs = wire.Tabs(tabs=[tab(2, origin=EVIL, title="My shop")])
    frame = msgspec.structs.replace(tools(2, "getCart", frame_id=5), opened=True)
    transport.connect("h1", tabs, frame)
    (tool,) = (await router.list_tools_decoded(Session("ours")))[len(TOOLS) :]
    place = '[inside https://evil.example · tab 1 "My shop"]'
    assert tool["description"].startswith(f"{mark_of('https://shop.example')} {place}")


@pytest.mark.parametrize("order", [(0, 1, 3), (3, 1, 0), (1, 3, 0)])
async def test_of_a_tab_s_frames_the_page_itself_is_meant_in_whatever_order_they_come(
    router: Router, transport: PlayedTransport, order: tuple[int, ...]
) -> None:
    frames = [tools(1, "getCart", frame_id=frame, document_id=f"d{frame}") for frame in order]
    transport.connect("h1", wire.Tabs(tabs=[tab(1)]), *frames)
    await router.call(Session("ours"), ANY, Arguments.of({}))
    assert transport.executed() == [(1, "d0")]


async def test_a_call_that_met_a_tab_that_was_gone_does_not_go_to_another_profile(
    router: Router, transport: PlayedTransport
) -> None:
    """Another profile is another account."""
    transport.connect("h1", wire.Tabs(tabs=[tab(1, last_accessed=9)]), tools(1, "getCart"))
    transport.happen(HostDiscovered("h2", 2.0), HostLinked("h2", host_hello("h2", browser_pid=200)))
    private = [browser_hello("p2"), wire.Tabs(tabs=[tab(2)]), tools(2, "getCart"), wire.HostReplayed()]
    transport.announce("h2", *private)
    transport.on_request = failing_in(1, CallError(Code.NAVIGATED, handed=False))
    failure_of(await router.call(Session("ours"), ANY, Arguments.of({})))
    assert {at for at, _ in transport.executed()} == {1}


async def test_nor_to_a_tab_that_would_be_opened_in_another_profile(
    transport: PlayedTransport, nursery: trio.Nursery
) -> None:
    raw = msgspec.json.encode({"name": "getCart"})
    tool = PageTool.of("getCart", {"name": "getCart", "inputSchema": {"type": "object"}}, raw)

    class Kept(NoToolStore):
        def tools(self) -> list[CachedToolRow]:
            return [CachedToolRow("p2", "https://shop.example", "https://shop.example/", tool)]

    router = Router(transport, store=Kept())
    nursery.start_soon(router.run)
    transport.happen(DiscoveryFinished())
    transport.connect("h1", wire.Tabs(tabs=[tab(1)]), tools(1, "getCart"))

    def close(asked: Asked) -> Answer:
        transport.announce("h1", wire.TabRemoved(tab_id=1))
        return CallError(Code.NO_SUCH_TAB, handed=False)

    transport.on_request = close
    failure_of(await router.call(Session("ours"), ANY, Arguments.of({})))
    assert [asked.method for asked in transport.asked] == ["browser/executeTool"]


async def test_a_name_does_not_pass_to_a_copy_of_the_profile_that_runs_beside_it(
    router: Router, transport: PlayedTransport
) -> None:
    transport.connect("h1", wire.Tabs(tabs=[tab(1)]), tools(1, "getCart"))
    session = Session("ours")
    await router.list_tools_decoded(session)
    transport.happen(HostDiscovered("h2", 2.0), HostLinked("h2", host_hello("h2", browser_pid=200)))
    copy = [browser_hello("p1"), wire.Tabs(tabs=[tab(1)]), tools(1, "getCart"), wire.HostReplayed()]
    transport.announce("h2", *copy)
    transport.announce("h1", wire.TabRemoved(tab_id=1))
    assert "no longer offers" in failure_of(await router.call(session, TAB1, Arguments.of({})))
    assert transport.executed() == []


async def test_for_a_frame_without_an_origin_no_tab_is_opened(
    router: Router, transport: PlayedTransport
) -> None:
    transport.connect(
        "h1", wire.Tabs(tabs=[tab(1, owner="theirs")]), tools(1, "getCart", frame_id=2, origin="null")
    )
    with pytest.raises(UnknownToolError):
        await router.call(Session("ours"), "website_tool_null_getCart", Arguments.of({}))
    assert transport.asked == []
