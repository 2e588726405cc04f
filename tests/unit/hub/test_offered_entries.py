"""`list_page_tools` names the resources of pages, and `read_resource` reads them."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
import trio

from bridge.hub.argument_validation import Arguments
from bridge.hub.client_session import Session
from bridge.hub.consent.page_tool_settings import PageSettings, PageSite
from bridge.hub.primitives.offered_entries import MAX_TEXT
from bridge.hub.router import Router, Terms
from bridge.hub.transport import DiscoveryFinished
from fake_transport import Answer, Asked, PlayedTransport, browser_hello, tab
from native_host.protocol import wire
from page_resources import CART, SHOP, page

URI = "mcpb://page/shop.example/tab1/cart://1"
ORDER = {"uriTemplate": "order://{id}", "name": "Order", "title": "Your order"}


class Shop:
    def __init__(self, nursery: trio.Nursery, *resources: dict[str, Any], **pages: Any) -> None:
        self.transport = PlayedTransport()
        self.transport.on_request = self.answer
        self.router = Router(self.transport, terms=Terms(pages=PageSettings(**pages)))
        self.transport.happen(DiscoveryFinished())
        self.transport.connect("h1", wire.Tabs(tabs=[tab(1, title="Shop")]), page(1, *resources))
        nursery.start_soon(self.router.run)
        self.contents: list[dict[str, Any]] = [{"uri": "cart://1", "text": "two apples"}]

    def answer(self, _: Asked) -> Answer:
        return {"success": True, "payload": {"contents": self.contents}}

    async def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(
            await self.router.call(Session("s1"), name, Arguments.of(arguments))
        )
        return found

    async def list(self, **arguments: Any) -> str:
        return str((await self.call("list_page_tools", **arguments))["content"][0]["text"])


async def test_resources_and_templates_are_named_with_site_and_words_of_the_page(
    nursery: trio.Nursery,
) -> None:
    shop = Shop(nursery, CART, ORDER)
    lines = (await shop.list()).splitlines()
    assert lines[-3:] == [
        "Resources of pages, for read_resource:",
        f'{URI}: Of {SHOP}. [tab 1 "Shop"] The page says: Cart. Everything in it',
        f'mcpb://page/shop.example/tab1/order://{{id}}: Of {SHOP}. [tab 1 "Shop"] The page says: Your order',
    ]


async def test_a_query_finds_resources_too(nursery: trio.Nursery) -> None:
    shop = Shop(nursery, CART, ORDER)
    text = await shop.list(query="everything")
    assert URI in text
    assert "order://" not in text


async def test_a_long_list_says_how_many_more_there_are(nursery: trio.Nursery) -> None:
    many = [{"uri": f"item://{number}", "name": "x" * 100} for number in range(500)]
    text = await Shop(nursery, *many).list(limit=200)
    assert len(text) < MAX_TEXT + 500
    assert "more: say what you look for in `query`." in text.splitlines()[-1]


async def test_the_words_of_a_site_that_is_to_be_asked_about_are_not_shown(nursery: trio.Nursery) -> None:
    text = await Shop(nursery, CART, sites=(PageSite(origin=SHOP, tools="ask"),)).list()
    assert URI in text
    assert "Everything" not in text


@pytest.mark.parametrize("pages", [{"resources": "off"}, {"sites": (PageSite(origin=SHOP, tools="off"),)}])
async def test_what_is_off_is_neither_named_nor_read(nursery: trio.Nursery, pages: dict[str, Any]) -> None:
    shop = Shop(nursery, CART, **pages)
    assert URI not in await shop.list()
    assert (await shop.router.list_resources(Session("s1")))[1] == []
    failed = await shop.call("read_resource", uri=URI)
    assert failed["isError"]
    assert "[pages] in config.toml" in failed["content"][0]["text"]
    assert shop.transport.asked == []


async def test_a_resource_is_read_in_parts_and_marked(nursery: trio.Nursery) -> None:
    shop = Shop(nursery, CART)
    found = await shop.call("read_resource", uri=URI, offset=4, max_chars=3)
    resource = found["content"][0]["resource"]
    assert (resource["uri"], resource["text"]) == (URI, "app")
    assert resource["_meta"]["dev.mcpb/untrusted"] is True
    assert found["content"][1]["text"] == "Characters 4 to 7 of 10. The rest: offset 7."


async def test_a_resource_that_no_page_offers_is_an_error_that_says_where_to_look(
    nursery: trio.Nursery,
) -> None:
    failed = await Shop(nursery, CART).call("read_resource", uri="cart://9")
    assert failed["isError"]
    assert "no page offers 'cart://9': list_page_tools has the URIs" in failed["content"][0]["text"]


async def test_an_error_of_the_page_keeps_its_words(nursery: trio.Nursery) -> None:
    shop = Shop(nursery, CART)
    shop.transport.on_request = lambda _: {
        "success": False,
        "payload": {"code": -32603, "message": "no\nstock"},
    }
    failed = await shop.call("read_resource", uri=URI)
    assert failed == {"content": [{"type": "text", "text": f"{SHOP}: no stock"}], "isError": True}


async def test_an_older_extension_is_named_with_the_command_that_updates_it(nursery: trio.Nursery) -> None:
    shop = Shop(nursery, CART)
    old = msgspec.structs.replace(
        browser_hello(), capabilities=wire.Capabilities(commands=["browser/executeTool"])
    )
    shop.transport.announce("h1", old)
    for uri in (URI, "cart://9"):
        text = (await shop.call("read_resource", uri=uri))["content"][0]["text"]
        assert (
            "the extension in Chromium (0.2.0) has tools of pages, but neither resources nor prompts" in text
        )
        assert "run `mcpb extension`" in text
    assert shop.transport.asked == []
