"""Calls while a page is being reloaded: they wait for its next document, and for no other page."""

from __future__ import annotations

import json
from collections.abc import Callable

import msgspec
import pytest
import trio
import trio.testing

from bridge.errors import UnknownToolError
from bridge.hub.argument_validation import Arguments
from bridge.hub.client_session import Session
from bridge.hub.router import Router
from bridge.hub.transport import DiscoveryFinished
from fake_transport import CART, PlayedTransport, tab, tools
from native_host.protocol import wire

SHOP = "https://shop.example/"
IN_TAB = "website_tool_shop_example_tab1_getCart"
ANYWHERE = "website_tool_shop_example_getCart"
GONE = wire.FrameAddress(tab_id=1, frame_id=0, document_id="d1")


def page(document_id: str, *names: str, url: str = SHOP) -> wire.FrameTools:
    return msgspec.structs.replace(tools(1, *names, document_id=document_id), url=url)


@pytest.fixture
def transport() -> PlayedTransport:
    return PlayedTransport()


@pytest.fixture
def router(transport: PlayedTransport, nursery: trio.Nursery) -> Router:
    router = Router(transport)
    nursery.start_soon(router.run)
    transport.happen(DiscoveryFinished())
    transport.connect("h1", wire.Tabs(tabs=[tab(1)]), page("d1", "getCart"))
    return router


class Calling:
    """A call that was begun while its page was away."""

    def __init__(self, router: Router, session: Session, name: str, nursery: trio.Nursery) -> None:
        self.answer: bytes | Exception | None = None
        self.took_s = 0.0
        self._began = trio.current_time()
        nursery.start_soon(self._call, router, session, name)

    async def _call(self, router: Router, session: Session, name: str) -> None:
        try:
            self.answer = await router.call(session, name, Arguments.of({}))
        except UnknownToolError as error:
            self.answer = error
        self.took_s = trio.current_time() - self._began

    @property
    def is_over(self) -> bool:
        return self.answer is not None

    @property
    def failure(self) -> str:
        assert isinstance(self.answer, bytes)
        return str(json.loads(self.answer)["content"][0]["text"])


@pytest.fixture
async def begin(router: Router, nursery: trio.Nursery) -> Callable[[str], Calling]:
    """Begin a call of a session that has listed the tools."""
    session = Session("ours")
    await router.list_tools_decoded(session)
    return lambda name: Calling(router, session, name, nursery)


@pytest.mark.parametrize("name", [IN_TAB, ANYWHERE])
async def test_a_call_waits_for_the_next_document_and_runs_in_it(
    transport: PlayedTransport, begin: Callable[[str], Calling], name: str
) -> None:
    transport.announce("h1", GONE)
    calling = begin(name)
    await trio.testing.wait_all_tasks_blocked()
    assert transport.executed() == []
    transport.announce("h1", page("d2"), page("d2", "another"))  # tools are registered one after the other
    await trio.testing.wait_all_tasks_blocked()
    assert not calling.is_over
    transport.announce("h1", page("d2", "another", "getCart"))
    await trio.testing.wait_all_tasks_blocked()
    assert calling.answer == json.dumps(CART, separators=(",", ":")).encode()
    assert transport.executed() == [(1, "d2")]


async def test_a_name_that_was_not_listed_is_waited_for_as_well(
    router: Router, transport: PlayedTransport, nursery: trio.Nursery
) -> None:
    transport.announce("h1", GONE)
    calling = Calling(router, Session("new"), IN_TAB, nursery)
    await trio.testing.wait_all_tasks_blocked()
    transport.announce("h1", page("d2", "getCart"))
    await trio.testing.wait_all_tasks_blocked()
    assert transport.executed() == [(1, "d2")]
    assert calling.answer is not None


async def test_a_page_that_does_not_offer_its_tool_again_is_waited_for_three_seconds(
    transport: PlayedTransport, begin: Callable[[str], Calling], autojump_clock: trio.testing.MockClock
) -> None:
    transport.announce("h1", GONE, page("d2"))
    calling = begin(IN_TAB)
    await trio.sleep(2.9)
    assert not calling.is_over
    await trio.sleep(0.2)
    assert "no longer offers this tool" in calling.failure
    assert "Nothing was run" in calling.failure
    again = begin(IN_TAB)
    await trio.testing.wait_all_tasks_blocked()
    assert again.took_s < 0.1


@pytest.mark.parametrize(
    "elsewhere",
    [
        wire.TabChanged(tab=msgspec.structs.replace(tab(1), url="https://shop.example/other")),
        wire.TabRemoved(tab_id=1),
    ],
)
@pytest.mark.parametrize("is_late", [False, True])
async def test_a_tab_that_goes_elsewhere_is_not_waited_for(
    transport: PlayedTransport, begin: Callable[[str], Calling], elsewhere: wire.Wire, is_late: bool
) -> None:
    transport.announce("h1", GONE)
    if not is_late:
        transport.announce("h1", elsewhere)
    calling = begin(IN_TAB)
    await trio.testing.wait_all_tasks_blocked()
    if is_late:
        assert not calling.is_over
        transport.announce("h1", elsewhere)
        await trio.testing.wait_all_tasks_blocked()
    assert "Nothing was run" in calling.failure
    assert transport.executed() == []


async def test_a_tool_that_its_document_removes_is_not_waited_for(
    transport: PlayedTransport, begin: Callable[[str], Calling]
) -> None:
    transport.announce("h1", page("d1"))
    calling = begin(IN_TAB)
    await trio.testing.wait_all_tasks_blocked()
    assert "no longer offers this tool" in calling.failure


async def test_another_tool_of_the_same_name_in_the_next_document_is_not_run(
    transport: PlayedTransport, begin: Callable[[str], Calling]
) -> None:
    transport.announce("h1", GONE)
    calling = begin(IN_TAB)
    await trio.testing.wait_all_tasks_blocked()
    definition = msgspec.Raw(b'{"name":"getCart","description":"Empties the cart"}')
    transport.announce("h1", msgspec.structs.replace(page("d2"), tools=[definition]))
    await trio.testing.wait_all_tasks_blocked()
    assert "was listed for another one. Nothing was run" in calling.failure
    assert transport.executed() == []


async def test_a_call_that_was_sent_to_the_document_before_is_not_sent_to_the_next(
    transport: PlayedTransport, begin: Callable[[str], Calling]
) -> None:
    transport.answer = None
    calling = begin(IN_TAB)
    await trio.testing.wait_all_tasks_blocked()
    transport.announce("h1", GONE, page("d2", "getCart"))
    transport.asked[0].on_done(msgspec.json.encode({"success": False, "payload": "Error: unloaded"}))
    await trio.testing.wait_all_tasks_blocked()
    assert "unloaded" in calling.failure
    assert transport.executed() == [(1, "d1")]
