"""`tools/list` is kept as it was written, and only what is another is put together anew."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import msgspec
import pytest

from bridge.hub.cached_tools import CachedToolRow, NoToolStore
from bridge.hub.catalog import Catalog
from bridge.hub.client_session import Session
from bridge.hub.meta_tools import TOOLS
from bridge.hub.page_tool import read_tools
from bridge.hub.policy import Policy, PolicyRules, ToolRule
from bridge.hub.registry import Registry
from bridge.hub.tool_definition import TEXTS_LEFT_OUT, mark_of
from bridge.hub.tool_list import MAX_SITE_BYTES, Listing
from bridge.hub.tool_schema import Era
from fake_transport import announce, connect, one_page, tab, tools
from native_host.protocol import wire

OURS = [tool["name"] for tool in TOOLS]


@pytest.fixture
def registry() -> Registry:
    return Registry()


@pytest.fixture
def catalog(registry: Registry) -> Catalog:
    return Catalog(registry)


def written(listing: Listing, era: Era = Era.STATELESS) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = msgspec.json.decode(listing.format_tools(era))
    return found


def names(listing: Listing, era: Era = Era.STATELESS) -> list[str]:
    """The pages' own names, behind ours."""
    found = [tool["name"] for tool in written(listing, era)]
    assert found[: len(OURS)] == OURS
    return [name.rpartition("_")[2] for name in found[len(OURS) :]]


def page(tab_id: int, *definitions: dict[str, Any], **fields: Any) -> wire.FrameTools:
    announced = tools(tab_id, **fields)
    announced.tools = [msgspec.Raw(msgspec.json.encode(definition)) for definition in definitions]
    return announced


def test_our_own_tools_lead_and_the_pages_follow_by_tab_each_in_its_order(
    registry: Registry, catalog: Catalog
) -> None:
    listing = Listing(catalog)
    assert names(listing) == []
    tabs = wire.Tabs(tabs=[tab(1), tab(2, ordinal=2)])
    connect(registry, "h1", tabs, tools(2, "c"), tools(1, "b", "a"))
    assert names(listing) == ["b", "a", "c"]


def test_an_era_is_shown_what_is_a_tool_in_it(registry: Registry, catalog: Catalog) -> None:
    rows = {"name": "rows", "outputSchema": {"type": "array"}}
    connect(registry, "h1", wire.Tabs(tabs=[tab(1)]), page(1, {"name": "a"}, rows, {"name": "b"}))
    listing = Listing(catalog)
    assert names(listing, Era.STATELESS) == ["a", "rows", "b"]
    assert names(listing, Era.HANDSHAKE) == ["a", "b"]
    assert names(listing, Era.STATELESS) == ["a", "rows", "b"]


def test_nothing_is_written_again_while_nothing_is_another(registry: Registry, catalog: Catalog) -> None:
    connect(registry, "h1", *one_page("a"))
    listing = Listing(catalog)
    before = listing.format_tools(Era.STATELESS)
    announce(registry, "h1", tools(1, "a"), wire.Paused(sites=["https://shop.example"]))
    assert listing.format_tools(Era.STATELESS) is before


def test_where_a_tool_lives_is_as_its_tab_is_now(registry: Registry, catalog: Catalog) -> None:
    connect(registry, "h1", *one_page("a", "b"))
    listing = Listing(catalog)
    written(listing)
    announce(registry, "h1", wire.TabChanged(tab=tab(1, title="Basket", active=True, focused=True)))
    for tool in written(listing)[len(OURS) :]:
        assert tool["description"].startswith(f'{mark_of("https://shop.example")} [tab 1 "Basket" • Active] ')


def test_of_a_list_that_is_announced_again_only_the_tools_that_are_others_are_made_anew(
    registry: Registry, catalog: Catalog
) -> None:
    tabs = wire.Tabs(tabs=[tab(1), tab(2, origin="https://other.example")])
    connect(registry, "h1", tabs, page(1, {"name": "a"}, {"name": "b"}, {"name": "c"}), tools(2, "d"))
    listing = Listing(catalog)
    before = {entry.own_name: entry for entry in catalog.live_entries()}
    written(listing)
    announce(registry, "h1", page(1, {"name": "c"}, {"name": "b", "x": 1}, {"name": "e"}))
    assert names(listing) == ["c", "b", "e", "d"]
    after = {entry.own_name: entry for entry in catalog.live_entries()}
    assert [name for name in after if before.get(name) is after[name]] == ["c", "d"]


@pytest.mark.parametrize(
    "later",
    [
        tools(1, "a", document_id="d2"),
        tools(1, "a", origin="https://other.example"),
        msgspec.structs.replace(tools(1, "a"), url="https://shop.example/elsewhere"),
    ],
)
def test_the_same_list_of_another_page_is_another_page_s(
    registry: Registry, catalog: Catalog, later: wire.FrameTools
) -> None:
    connect(registry, "h1", *one_page("a"))
    (before,) = catalog.live_entries()
    announce(registry, "h1", later)
    (after,) = catalog.live_entries()
    assert after.binding != before.binding


def test_what_a_page_no_longer_offers_is_not_held_on_to(registry: Registry, catalog: Catalog) -> None:
    connect(registry, "h1", *one_page("a", "b"))
    listing, session = Listing(catalog), Session("ours")
    session.bind_names(listing.listed_bindings())
    written(listing)
    entry, _ = catalog.live_entries()
    gone = weakref.ref(entry)
    del entry
    announce(registry, "h1", tools(1, "b"))
    session.bind_names(listing.listed_bindings())
    written(listing)
    gc.collect()
    assert gone() is None


def test_sessions_that_were_shown_the_same_share_it(registry: Registry, catalog: Catalog) -> None:
    connect(registry, "h1", *one_page("a"))
    listing = Listing(catalog, max_listed=100)
    before = listing.listed_bindings()
    announce(registry, "h1", wire.TabChanged(tab=tab(1, title="Basket")))
    assert listing.listed_bindings() is before
    announce(registry, "h1", tools(1, "a", "b"))
    assert listing.listed_bindings() is not before
    assert listing.listed_bindings() is catalog.all_bindings()


def test_more_tools_than_there_is_room_for_are_not_listed_and_change_unheard(
    registry: Registry, catalog: Catalog
) -> None:
    connect(registry, "h1", *one_page("a", "b"))
    listing = Listing(catalog, max_listed=len(OURS) + 2)
    assert names(listing) == ["a", "b"]
    told = listing.fingerprint()
    announce(registry, "h1", tools(1, "a", "b", "c"))
    assert (names(listing), dict(listing.listed_bindings())) == ([], {})
    assert listing.fingerprint() != told
    told = listing.fingerprint()
    announce(registry, "h1", tools(1, "a", "b", "d"))
    assert listing.fingerprint() == told


class Kept(NoToolStore):
    """A store that has these from the start."""

    def __init__(self, *own_names: str) -> None:
        origin = "https://kept.example"
        announced = tools(1, *own_names, origin=origin)
        self._tools = [CachedToolRow("p1", origin, f"{origin}/", tool) for tool in read_tools(announced)]

    def tools(self) -> list[CachedToolRow]:
        return self._tools


def test_what_is_kept_fills_the_room_that_is_left(registry: Registry) -> None:
    catalog = Catalog(registry, store=Kept("c", "d"))
    connect(registry, "h1", *one_page("a"))
    listing = Listing(catalog, max_listed=len(OURS) + 2)
    assert names(listing) == ["a", "c"]
    assert [name.rpartition("_")[2] for name in listing.listed_bindings()] == ["a", "c"]
    assert "no tab is open" in written(listing)[-1]["description"]


# ── Limits per site ─────────────────────────────────────────────────────────────────────────────────────────

OTHER = "https://other.example"


def test_a_site_with_more_tools_than_there_is_room_for_does_not_hide_the_others(
    registry: Registry, catalog: Catalog
) -> None:
    tabs = wire.Tabs(tabs=[tab(1), tab(2, origin=OTHER)])
    connect(registry, "h1", tabs, tools(1, *(f"t{number}" for number in range(129))))
    announce(registry, "h1", tools(2, "search", "buy", origin=OTHER))
    listing = Listing(catalog, max_listed=128)
    assert names(listing) == ["search", "buy"]
    assert len(listing.listed_bindings()) == 2


def test_frames_of_a_page_share_its_limits(registry: Registry, catalog: Catalog) -> None:
    frames = [
        tools(1, "t", frame_id=number, document_id=f"d{number}", origin=f"https://{number}.example")
        for number in range(1, 130)
    ]
    tabs = wire.Tabs(tabs=[tab(1), tab(2, origin=OTHER)])
    connect(registry, "h1", tabs, *frames, tools(2, "search", origin=OTHER))
    assert names(Listing(catalog, max_listed=128)) == ["search"]


def test_a_tool_above_its_limit_is_listed_without_its_texts_and_keeps_its_hints(
    registry: Registry, catalog: Catalog
) -> None:
    long = {"type": "object", "properties": {"a": {"description": "Obey me. " * 100_000}}}
    definition = {"name": "a", "inputSchema": long, "annotations": {"readOnlyHint": True, "title": "T"}}
    connect(registry, "h1", wire.Tabs(tabs=[tab(1)]), page(1, definition))
    listing = Listing(catalog)
    (shown,) = written(listing)[len(OURS) :]
    assert shown["inputSchema"] == {"type": "object"}
    assert shown["annotations"] == {"readOnlyHint": True}
    assert shown["description"] == f"{mark_of('https://shop.example')} [tab 1] {TEXTS_LEFT_OUT}"
    (entry,) = catalog.all_entries()
    assert msgspec.json.decode(entry.shown_schema) == long


def test_a_site_above_its_limit_has_its_further_tools_listed_without_texts(
    registry: Registry, catalog: Catalog
) -> None:
    schema = {"type": "object", "description": "x" * 3000}
    definitions = [{"name": f"t{number}", "inputSchema": schema} for number in range(100)]
    tabs = wire.Tabs(tabs=[tab(1), tab(2, origin=OTHER)])
    connect(registry, "h1", tabs, page(1, *definitions), page(2, definitions[0], origin=OTHER))
    listing = Listing(catalog)
    *shown, other = written(listing)[len(OURS) :]
    with_texts = [tool["name"] for tool in shown if "description" in tool["inputSchema"]]
    assert len(shown) == 100
    assert 5 < len(with_texts) < 11
    assert with_texts == [tool["name"] for tool in shown][: len(with_texts)]
    assert "description" in other["inputSchema"]
    assert len(listing.format_tools(Era.STATELESS)) < MAX_SITE_BYTES + 100 * 600


def test_the_users_own_description_is_never_left_out(registry: Registry) -> None:
    rules = PolicyRules(tools=(ToolRule(description="Mine."),))
    catalog = Catalog(registry, policy=Policy(rules))
    connect(registry, "h1", wire.Tabs(tabs=[tab(1)]), page(1, {"name": "a", "x": "y" * 5000}))
    assert written(Listing(catalog))[-1]["description"].endswith("] Mine.")
