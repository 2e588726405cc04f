"""Reads of resources and prompts while their page or the user's rules change."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import pytest
import trio
import trio.testing

from bridge.errors import CallError, NotOfferedError
from bridge.hub.argument_validation import Arguments
from bridge.hub.client_session import Session
from bridge.hub.consent.page_tool_settings import PageSettings
from bridge.hub.operation import wait_outcome
from bridge.hub.policy import Policy, PolicyRules
from bridge.hub.registry import GRACE_S
from bridge.hub.router import SETTLE_S, Router, Terms
from bridge.hub.transport import DiscoveryFinished
from fake_transport import Answer, Asked, PlayedTransport, tab
from native_host.protocol import wire
from native_host.protocol.wire import Code
from page_resources import CART, SHOP, page

URI = "mcpb://page/shop.example/tab1/cart://1"
GREET = {"name": "greet"}
GONE = wire.FrameAddress(tab_id=1, frame_id=0, document_id="d1")
READ = {"contents": [{"uri": "cart://1", "text": "tea"}]}
GOT = {"messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}]}


def shop_page(document_id: str = "d1") -> wire.FrameTools:
    """The document that is in the tab now."""
    return msgspec.structs.replace(page(1, CART, GREET, document_id=document_id), url=f"{SHOP}/")


class Shop:
    """A page with a cart and a prompt."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.transport = PlayedTransport()
        self.transport.on_request = self.answer
        self.policy = Policy()
        self.router = Router(self.transport, terms=Terms(policy=self.policy))
        self.transport.happen(DiscoveryFinished())
        self.transport.connect("h1", wire.Tabs(tabs=[tab(1)]), shop_page())
        nursery.start_soon(self.router.run)
        self.nursery = nursery
        self.outcomes: list[object] = []
        self.before_answer: Callable[[], None] = lambda: None

    def answer(self, asked: Asked) -> Answer:
        assert isinstance(asked.params, wire.PageMcp)
        self.before_answer()
        return {"success": True, "payload": READ if asked.params.method == "resources/read" else GOT}

    def reload(self) -> None:
        """The page has gone; `transport.announce` brings another document."""
        self.transport.announce("h1", GONE)

    async def begin(self, kind: str, name: str) -> None:
        """Begin a request, whose outcome is added to `outcomes`."""
        session = Session("s1")
        begin: Any = partial(self.router.begin_read, session, name)
        if kind == "prompt":
            begin = partial(self.router.begin_get_prompt, session, name, Arguments.of({}))

        async def run() -> None:
            self.outcomes.append(await wait_outcome(begin))

        self.nursery.start_soon(run)
        await trio.testing.wait_all_tasks_blocked()


@pytest.fixture
def shop(nursery: trio.Nursery) -> Shop:
    return Shop(nursery)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("resource", URI),
        ("resource", "mcpb://page/shop.example/cart://1"),
        ("resource", "cart://1"),
        ("prompt", "shop_example_tab1_greet"),
    ],
)
async def test_a_request_waits_for_a_page_that_is_being_reloaded(shop: Shop, kind: str, name: str) -> None:
    shop.reload()
    await shop.begin(kind, name)
    assert shop.outcomes == []
    shop.transport.announce("h1", shop_page("d2"))
    await trio.testing.wait_all_tasks_blocked()
    (outcome,) = shop.outcomes
    assert isinstance(outcome, bytes)
    assert shop.transport.asked[-1].params.document_id == "d2"  # type: ignore[attr-defined]


async def test_a_request_that_no_page_in_a_reload_may_have_had_fails_after_the_discovery(
    shop: Shop, autojump_clock: trio.testing.MockClock
) -> None:
    shop.reload()
    await shop.begin("resource", "mcpb://page/news.example/tab1/cart://1")
    await shop.begin("prompt", "shop_example_tab1_bye")
    await trio.sleep(SETTLE_S + 0.1)
    assert [type(outcome) for outcome in shop.outcomes] == [NotOfferedError] * 2


async def test_a_page_that_does_not_come_back_is_not_waited_for_any_longer(
    shop: Shop, autojump_clock: trio.testing.MockClock
) -> None:
    shop.reload()
    await shop.begin("resource", URI)
    await trio.sleep(SETTLE_S + GRACE_S + 0.1)
    assert [type(outcome) for outcome in shop.outcomes] == [NotOfferedError]


@pytest.mark.parametrize(("kind", "name"), [("resource", URI), ("prompt", "shop_example_tab1_greet")])
async def test_an_answer_that_comes_after_a_deny_does_not_reach_the_client(
    shop: Shop, kind: str, name: str
) -> None:
    shop.before_answer = lambda: shop.policy.set_rules(PolicyRules(deny=(SHOP,)))
    await shop.begin(kind, name)
    (outcome,) = shop.outcomes
    assert isinstance(outcome, CallError)
    assert outcome.code == Code.NOT_ALLOWED


async def test_an_answer_that_comes_after_resources_are_off_does_not_reach_the_client(shop: Shop) -> None:
    off = PageSettings(resources="off")
    shop.before_answer = lambda: shop.router.consent.setting_for(off, asks_sites=False)
    await shop.begin("resource", URI)
    (outcome,) = shop.outcomes
    assert isinstance(outcome, CallError)
    assert outcome.code == Code.NOT_ALLOWED


async def test_an_answer_that_comes_after_a_pause_does_not_reach_the_client(shop: Shop) -> None:
    pause = wire.PauseChange(site=SHOP, paused=True, at=1)
    shop.before_answer = lambda: shop.router.registry.set_stored_pauses([pause])
    await shop.begin("resource", URI)
    (outcome,) = shop.outcomes
    assert isinstance(outcome, CallError)
    assert outcome.code == Code.PAUSED
    assert outcome.detail == SHOP
