"""What is kept of tools that outlive their page: what it allows, within bounds, and no secrets for long."""

from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.hub import cached_tools
from bridge.hub.cached_tools import (
    MAX_BYTES,
    MAX_SITE_BYTES,
    MAX_SITE_TOOLS,
    MAX_TABS,
    MAX_TOOLS,
    MAX_URL,
    TOUCH_S,
    CachedToolIndex,
    Change,
    TabKey,
    address_of,
)
from bridge.hub.page_tool import PageTool, read_tools
from native_host.protocol import wire

SHOP = "https://shop.example"
NOW = 1_000_000.0


def tool(name: str, *, cache: Any = True, description: str = "") -> PageTool:
    definition = {"name": name, "description": description, "annotations": {"cache": cache}}
    raw = msgspec.Raw(msgspec.json.encode(definition))
    frame = wire.FrameTools(tab_id=1, frame_id=0, document_id="d1", origin=SHOP, tools=[raw])
    return read_tools(frame)[0]


def tools(*names: str, **fields: Any) -> list[PageTool]:
    return [tool(name, **fields) for name in names]


def numbered(count: int, **fields: Any) -> list[PageTool]:
    return tools(*(f"t{number}" for number in range(count)), **fields)


def offer(
    index: CachedToolIndex,
    offered: list[PageTool],
    *,
    profile: str = "p1",
    tab_id: int = 1,
    origin: str = SHOP,
    url: str | None = None,
    now: float = NOW,
) -> Change:
    """The page at `url` offers these, and what follows is written down."""
    address = f"{origin}/" if url is None else url
    change = index.record_offer(TabKey(profile, tab_id), origin, address, offered, now)
    index.apply(change)
    return change


def names(index: CachedToolIndex) -> list[str]:
    return [cached.tool.name for cached in index.tools()]


# ── What is kept ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("cache", "is_kept"), [(True, True), (False, False), (1, False), ("true", False)])
def test_a_tool_is_kept_only_when_its_page_says_so(cache: Any, is_kept: bool) -> None:
    index = CachedToolIndex()
    offer(index, [tool("a", cache=cache)])
    assert names(index) == (["a"] if is_kept else [])


def test_annotations_that_are_none_allow_nothing() -> None:
    odd = msgspec.Raw(b'{"name": "a", "annotations": ["cache"]}')
    frame = wire.FrameTools(tab_id=1, frame_id=0, document_id="d1", origin=SHOP, tools=[odd])
    assert not read_tools(frame)[0].is_cacheable


def test_a_tool_that_is_not_offered_just_now_stays() -> None:
    index = CachedToolIndex()
    offer(index, tools("a", "b"))
    offer(index, tools("b"))
    offer(index, [])
    assert names(index) == ["a", "b"]


def test_a_tool_that_is_offered_without_leave_to_keep_it_goes() -> None:
    index = CachedToolIndex()
    offer(index, tools("a", "b"))
    offer(index, [tool("a", cache=False)])
    assert names(index) == ["b"]


def test_each_profile_and_origin_has_its_own() -> None:
    index = CachedToolIndex()
    offer(index, tools("a"), profile="p2")
    offer(index, tools("a"))
    offer(index, tools("a"), origin="http://localhost:3000")
    assert [(cached.profile, cached.origin) for cached in index.tools()] == [
        ("p1", "http://localhost:3000"),
        ("p1", SHOP),
        ("p2", SHOP),
    ]
    offer(index, [tool("a", cache=False)])
    assert len(index.tools()) == 2


def test_a_tool_that_changed_is_kept_as_it_is_now() -> None:
    index = CachedToolIndex()
    offer(index, tools("a", description="old"))
    offer(index, tools("a", description="new"))
    (cached,) = index.tools()
    assert cached.tool.description == "new"


@pytest.mark.parametrize(
    "origin",
    [
        *["null", "", "file://", "chrome-extension://abc", "about:blank", "https://", "https://["],
        *["https://shop.example/", "HTTPS://shop.example", "https://shop.example:443"],
        "https://me:pw@shop.example",
    ],
)
def test_only_what_browsers_write_as_a_web_page_s_origin_is_kept(origin: str) -> None:
    assert not offer(CachedToolIndex(), tools("a"), origin=origin)


def test_without_a_profile_nothing_is_kept() -> None:
    assert not offer(CachedToolIndex(), tools("a"), profile="")


# ── Where it is opened again ────────────────────────────────────────────────────────────────────────


def test_for_an_hour_a_page_is_opened_again_with_its_query_and_later_without() -> None:
    index = CachedToolIndex()
    offer(index, tools("a"), url=f"{SHOP}/cart?token=x#top")
    assert [cached.url for cached in index.tools()] == [f"{SHOP}/cart?token=x"]
    assert not index.expire_stale(NOW + 3600)
    assert index.apply(index.expire_stale(NOW + 3601))
    assert [cached.url for cached in index.tools()] == [f"{SHOP}/cart"]


def test_another_page_of_the_site_does_not_lend_its_query() -> None:
    index = CachedToolIndex()
    offer(index, tools("a"), tab_id=1, url=f"{SHOP}/cart?x=1")
    offer(index, tools("b"), tab_id=2, url=f"{SHOP}/search?q=tea", now=NOW + 1)
    assert [cached.url for cached in index.tools()] == [f"{SHOP}/cart?x=1", f"{SHOP}/search?q=tea"]


def test_of_two_tabs_at_one_address_the_later_one_counts() -> None:
    index = CachedToolIndex()
    offer(index, tools("a"), tab_id=2, url=f"{SHOP}/cart?x=1")
    offer(index, tools("a"), tab_id=1, url=f"{SHOP}/cart?x=2", now=NOW + 1)
    assert [cached.url for cached in index.tools()] == [f"{SHOP}/cart?x=2"]


def test_where_a_tab_was_is_not_noted_when_nothing_is_kept() -> None:
    assert not offer(CachedToolIndex(), [tool("a", cache=False)], url=f"{SHOP}/account?secret=1")


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("https://shop.example", "/"),
        ("https://shop.example/a%20b?x=1&y=2#frag", "/a%20b?x=1&y=2"),
        ("https://me:pw@shop.example/a", "/a"),
        ("https://shop.example:443/a", "/a"),
        ("https://evil.example/a", "/"),
        ("https://shop.example.evil.example/a", "/"),
        ("http://shop.example/a", "/"),
        ("javascript:alert(1)", "/"),
        ("https://[", "/"),
        ("", "/"),
        ("https://shop.example/" + "x" * MAX_URL, "/"),
    ],
)
def test_whatever_a_url_says_the_origin_itself_is_opened(url: str, address: str) -> None:
    assert address_of(SHOP, url) == SHOP + address


# ── How much, and how long ──────────────────────────────────────────────────────────────────────────


def test_the_same_again_changes_nothing_until_a_few_minutes_have_passed() -> None:
    index = CachedToolIndex()
    offer(index, tools("a"))
    assert not offer(index, tools("a"), now=NOW + TOUCH_S - 1)
    touched = offer(index, tools("a"), now=NOW + TOUCH_S)
    assert (len(touched.tools), len(touched.tabs)) == (1, 1)


def test_noting_when_it_was_seen_is_no_change_of_what_is_shown() -> None:
    index = CachedToolIndex()
    offer(index, tools("a"))
    before = index.tools()
    offer(index, tools("a"), now=NOW + TOUCH_S)
    assert index.tools() is before


def test_of_too_many_tools_of_a_page_the_first_are_kept_and_go_on_being_kept() -> None:
    index = CachedToolIndex()
    many = numbered(MAX_SITE_TOOLS + 100)
    offer(index, many)
    assert set(names(index)) == {kept.name for kept in many[:MAX_SITE_TOOLS]}
    assert not offer(index, many, now=NOW + 1)


def test_new_tools_of_a_site_push_out_what_was_seen_longest_ago() -> None:
    index = CachedToolIndex()
    offer(index, tools("oldest"))
    offer(index, numbered(MAX_SITE_TOOLS - 1), now=NOW + 1)
    offer(index, tools("newest"), now=NOW + 2)
    assert "oldest" not in names(index)
    assert {"newest", "t0"} < set(names(index))
    assert len(names(index)) == MAX_SITE_TOOLS


def test_definitions_of_a_site_are_bounded_together() -> None:
    index = CachedToolIndex()
    half = "x" * (MAX_SITE_BYTES // 2)
    offer(index, [tool("far_too_long", description=half * 2), *tools("a", "b", description=half), tool("c")])
    assert names(index) == ["a", "c"]


def test_many_sites_together_are_bounded_and_those_with_most_give_way() -> None:
    index = CachedToolIndex()
    offer(index, tools("a", "b"))
    sites = MAX_TOOLS // MAX_SITE_TOOLS + 10
    for number in range(sites):
        offer(index, numbered(MAX_SITE_TOOLS), origin=f"https://s{number}.example", now=NOW + 1 + number)
    assert len(index.tools()) == MAX_TOOLS
    kept = Counter(cached.origin for cached in index.tools())
    assert kept.pop(SHOP) == 2
    assert set(kept.values()) == {MAX_SITE_TOOLS, MAX_SITE_TOOLS - 1}
    assert kept["https://s0.example"] == MAX_SITE_TOOLS - 1


def test_one_origin_after_another_of_a_hostile_site_pushes_nobody_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cached_tools, "MAX_TOOLS", 50)
    index = CachedToolIndex()
    offer(index, tools("getCart"))
    for number in range(40):
        offer(index, numbered(30), origin=f"https://s{number}.evil.example", now=NOW + 1 + number)
        assert SHOP in {cached.origin for cached in index.tools()}
    assert len(index.tools()) == 50


def test_where_all_sites_have_equally_few_the_one_seen_longest_ago_goes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cached_tools, "MAX_TOOLS", 5)
    index = CachedToolIndex()
    for number in range(7):
        offer(index, tools("a", "b"), origin=f"https://s{number}.example", now=NOW + number)
    assert [(cached.origin, cached.tool.name) for cached in index.tools()] == [
        (f"https://s{number}.example", "a") for number in range(2, 7)
    ]


def test_long_definitions_give_way_to_short_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cached_tools, "MAX_BYTES", 10_000)
    index = CachedToolIndex()
    offer(index, tools("a", "b"))
    for number in range(20):
        long = numbered(3, description="x" * 1000)
        offer(index, long, origin=f"https://s{number}.example", now=NOW + 1 + number)
        assert [cached.tool.name for cached in index.tools() if cached.origin == SHOP] == ["a", "b"]
    assert sum(len(cached.tool.raw) for cached in index.tools()) <= 10_000
    assert len(index.tools()) > 9


def test_what_found_no_room_is_not_tried_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cached_tools, "MAX_TOOLS", 25)
    index = CachedToolIndex()
    for number in range(2):
        offer(index, numbered(MAX_SITE_TOOLS), origin=f"https://s{number}.example", tab_id=number)
    for later in range(3):
        again = numbered(MAX_SITE_TOOLS)
        assert not offer(index, again, origin="https://s1.example", tab_id=1, now=NOW + later)
    assert Counter(cached.origin for cached in index.tools()) == {
        "https://s0.example": 12,
        "https://s1.example": 13,
    }


def test_the_definitions_of_many_sites_are_bounded_together() -> None:
    index = CachedToolIndex()
    for number in range(20):
        long = tools("a", description="x" * (MAX_SITE_BYTES - 1000))
        offer(index, long, origin=f"https://s{number}.example", now=NOW + number)
    assert sum(len(cached.tool.raw) for cached in index.tools()) <= MAX_BYTES
    assert "https://s19.example" in {cached.origin for cached in index.tools()}
    assert "https://s0.example" not in {cached.origin for cached in index.tools()}


def test_tabs_are_bounded_and_the_oldest_goes() -> None:
    index = CachedToolIndex()
    for number in range(MAX_TABS + 5):
        offer(index, tools("a"), tab_id=number, now=NOW + number)
    tabs = index.as_change().tabs
    assert {tab.key.tab_id for tab in tabs} == set(range(5, MAX_TABS + 5))


def test_tools_that_nobody_offers_any_more_go_after_as_many_days_as_wished() -> None:
    index = CachedToolIndex()
    offer(index, tools("a"))
    later = NOW + 30 * 86_400
    assert index.expire_stale(later).gone_tools == []
    assert index.expire_stale(later, 30).gone_tools == []
    index.apply(index.expire_stale(later + 1, 30))
    assert names(index) == []


def test_forgetting_an_origin_takes_all_profiles_and_nothing_else() -> None:
    index = CachedToolIndex()
    for profile in ("p1", "p2"):
        offer(index, tools("a"), profile=profile)
    offer(index, tools("b"), origin="https://other.example", tab_id=2)
    change = index.forget_origin(SHOP)
    assert (len(change.gone_tools), len(change.gone_tabs)) == (2, 2)
    index.apply(change)
    assert names(index) == ["b"]


def test_a_shelf_is_made_equal_to_what_others_wrote() -> None:
    ours, theirs = CachedToolIndex(), CachedToolIndex()
    offer(ours, tools("mine", "both"))
    offer(theirs, tools("both", "theirs"), url=f"{SHOP}/?x=1", now=NOW + 1)
    everything = theirs.as_change()
    assert ours.apply(ours.change_to(everything.tools, everything.tabs))
    assert ours.tools() == theirs.tools()
    assert not ours.change_to(everything.tools, everything.tabs)


_OFFERS = st.tuples(
    st.sampled_from(["p1", "p2"]),
    st.integers(1, 3),
    st.sampled_from([SHOP, "http://localhost:3000", "null"]),
    st.dictionaries(st.sampled_from("abc"), st.tuples(st.booleans(), st.sampled_from(["", "x"]))),
)


@given(st.lists(_OFFERS, max_size=20))
def test_whatever_pages_offer_just_what_they_last_allowed_is_kept_and_every_bridge_ends_with_the_same(
    offers: list[tuple[str, int, str, dict[str, tuple[bool, str]]]],
) -> None:
    index, other = CachedToolIndex(), CachedToolIndex()
    model: dict[tuple[str, str, str], bytes] = {}
    for now, (profile, tab_id, origin, offered) in enumerate(offers):
        page = [tool(name, cache=cache, description=text) for name, (cache, text) in offered.items()]
        before = index.tools()
        change = index.record_offer(TabKey(profile, tab_id), origin, f"{origin}/?{now}", page, now)
        assert index.apply(change) == (index.tools() != before)
        other.apply(change)
        again = index.record_offer(TabKey(profile, tab_id), origin, f"{origin}/?{now}", page, now)
        assert not again
        for each in page if origin != "null" else ():
            model.pop((profile, origin, each.name), None)
            if each.is_cacheable:
                model[profile, origin, each.name] = each.raw
    kept = {(cached.profile, cached.origin, cached.tool.name): cached.tool.raw for cached in index.tools()}
    assert kept == model
    late, everything = CachedToolIndex(), index.as_change()
    late.apply(late.change_to(everything.tools, everything.tabs))
    assert late.tools() == other.tools() == index.tools()
