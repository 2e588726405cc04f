"""Sites among a client's roots, and lists that begin with them."""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio

from bridge.hub.argument_validation import Arguments
from bridge.hub.client_session import Session
from bridge.hub.router import Router, Terms
from bridge.hub.rules.root_sites import MAX_SHOWN, NO_ROOTS, read_roots
from bridge.hub.server_request import ClientSupport, ServerRequest
from bridge.hub.transport import CallObserver, DiscoveryFinished
from fake_transport import PlayedTransport, tab, tools
from native_host.protocol import wire

SHOP, BANK = "https://shop.example", "https://bank.example"


@pytest.mark.parametrize(
    ("uri", "site"),
    [
        ("https://shop.example", SHOP),
        ("HTTPS://Shop.example:443/api/v1?q#f", SHOP),
        ("https://shop.example./", SHOP),
        ("http://localhost:3000/app", "http://localhost:3000"),
        ("https://shop.example@bank.example/", BANK),
    ],
)
def test_the_site_of_a_root_is_its_origin(uri: str, site: str) -> None:
    assert read_roots([uri]).sites == (site,)


@pytest.mark.parametrize(
    "uri",
    [
        "file:///home/ann",
        "https://*.shop.example",
        "*",
        "",
        "https://",
        "javascript:1",
        "https://a b",
        "null",
    ],
)
def test_other_roots_stand_for_no_site(uri: str) -> None:
    roots = read_roots([uri])
    assert roots.sites == ()
    assert not any(roots.includes(origin) for origin in (SHOP, "null", "", "file://"))


def test_an_origin_is_that_of_a_root_also_with_a_dot_and_no_other_one_is() -> None:
    roots = read_roots([SHOP])
    assert roots.includes("https://shop.example.")
    for origin in ("http://shop.example", "https://www.shop.example", "https://shop.example:8443", "null"):
        assert not roots.includes(origin)


def test_a_rejection_lists_the_first_roots_in_one_line() -> None:
    many = read_roots([f"{SHOP}/{number}\n" for number in range(MAX_SHOWN + 2)])
    assert many.format_roots().endswith(f"{SHOP}/{MAX_SHOWN - 1}, and 2 more.")
    assert "\n" not in many.format_roots()
    assert NO_ROOTS.format_roots() == "The client lists no roots."


async def listed(ranks_roots: bool, *roots: str, **asked: Any) -> list[str]:
    """Names of `list_page_tools`, for a client with these roots."""
    transport = PlayedTransport()
    router = Router(transport, terms=Terms(ranks_roots=ranks_roots))
    transport.happen(DiscoveryFinished())
    tabs = wire.Tabs(tabs=[tab(1, SHOP, active=True, focused=True), tab(2, BANK, 2)])
    transport.connect("h1", tabs, tools(1, "pay", "cart"), tools(2, "pay", origin=BANK, document_id="d2"))

    async def list_roots(_: ServerRequest) -> bytes:
        return json.dumps({"roots": [{"uri": uri} for uri in roots]}).encode()

    session = Session("ours", is_structured=True)
    caller = CallObserver(on_request=list_roots, support=ClientSupport(roots=True))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(router.run)
        result = json.loads(await router.call(session, "list_page_tools", Arguments.of(asked), caller))
        nursery.cancel_scope.cancel()
    return [each["name"].partition("tab")[2] for each in result["structuredContent"]["tools"]]


async def test_roots_that_guide_put_their_page_tools_first() -> None:
    unranked = ["1_pay", "1_cart", "2_pay"]
    assert await listed(False, BANK) == unranked
    assert await listed(True, "file:///srv") == unranked
    assert await listed(True, BANK) == ["2_pay", "1_pay", "1_cart"]
    assert await listed(True, BANK, query="pay") == ["2_pay", "1_pay"]
    assert await listed(True, BANK, limit=2) == ["2_pay", "1_pay"]
    assert await listed(False, BANK, query="pay") == ["1_pay", "2_pay"]
