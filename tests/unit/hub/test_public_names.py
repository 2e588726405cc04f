"""Public names: readable, within the limit, and never the same for two tools."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.hub.public_names import (
    MAX_NAME,
    Place,
    ToolNamer,
    domain_name,
    domain_of,
    longest_name,
    public_names,
)


def place(
    own_name: str = "getCart",
    origin: str = "https://shop.example",
    *,
    profile: str = "p1",
    browser_pid: int = 100,
    tab_id: int = 1,
    frame_id: int = 0,
    ordinal: int = 1,
) -> Place:
    return Place(profile, browser_pid, tab_id, frame_id, ordinal, origin, own_name)


@pytest.mark.parametrize(
    ("origin", "domain"),
    [
        ("https://shop.example", "shop_example"),
        ("https://shop.example:443", "shop_example"),
        ("http://localhost:3000", "localhost_3000"),
        ("http://localhost:443", "localhost_443"),
        ("https://my-shop.example", "my-shop_example"),
        ("http://[::1]:8080", "__1_8080"),
        ("null", "null"),
        ("file://", "file"),
        ("https://shop.example:99999", "https___shop_example_99999"),
    ],
)
def test_the_domain_is_the_host_and_the_port_when_it_is_not_the_schemes_own(origin: str, domain: str) -> None:
    assert domain_of(origin) == domain


def test_a_name_says_site_tab_and_tool() -> None:
    assert public_names([place(ordinal=2)]) == ["website_tool_shop_example_tab2_getCart"]
    assert domain_name("https://shop.example", "getCart") == "website_tool_shop_example_getCart"


def test_same_named_tools_of_two_tabs_are_two_tools() -> None:
    assert public_names([place(), place(tab_id=2, ordinal=2)]) == [
        "website_tool_shop_example_tab1_getCart",
        "website_tool_shop_example_tab2_getCart",
    ]


def test_frames_origins_and_profiles_that_would_share_a_name_get_a_hash_each() -> None:
    sharing = [place(), place(frame_id=3), place(origin="http://shop.example"), place(profile="p2")]
    names = public_names(sharing)
    assert len(set(names)) == len(sharing)
    assert all(re.fullmatch(r"web_shop_example_[0-9a-f]{6}_tab1_getCart", name) for name in names)
    (longer, *_) = public_names(sharing, 53)
    assert re.fullmatch(r"website_tool_shop_example_[0-9a-f]{6}_tab1_getCart", longer)


def test_a_copied_profile_is_told_apart_by_its_process() -> None:
    first, second = public_names([place(browser_pid=100), place(browser_pid=200)])
    assert first != second


def test_the_tools_of_one_frame_carry_the_same_hash() -> None:
    both = [place(tool, profile=profile) for profile in ("p1", "p2") for tool in ("getCart", "checkout")]
    hashes = [name.split("_")[3] for name in public_names(both)]
    assert hashes[0] == hashes[1] != hashes[2] == hashes[3]


def test_a_hash_does_not_depend_on_what_came_first() -> None:
    sharing = [place(), place(profile="p2"), place(frame_id=3)]
    assert dict(zip(sharing, public_names(sharing), strict=True)) == dict(
        zip(sharing[::-1], public_names(sharing[::-1]), strict=True)
    )


@pytest.mark.parametrize(
    ("own_name", "origin", "max_name", "expected"),
    [
        (
            "search_products",
            "http://localhost:40001",
            53,
            "website_tool_localhost_40001_tab1_search_products",
        ),
        ("search_products", "http://localhost:40001", 44, "web_localhost_40001_tab1_search_products"),
        (
            "listIssues",
            "https://a-rather-long-host.example.com",
            44,
            r"web_a-rather-long-hos_HASH_tab1_listIssues",
        ),
        (
            "search_all_the_products",
            "http://localhost:40001",
            44,
            r"web_loca_HASH_tab1_search_all_the_products",
        ),
        ("x" * 32, "http://localhost:40001", 53, "web_loca_HASH_tab1_" + "x" * 32),
        ("x" * 32, "http://localhost:40001", 44, "web_HASH_" + "x" * 32),
        ("x" * 40, "https://shop.example", 53, "web_shop_HASH_tab1_" + "x" * 32),
    ],
)
def test_a_long_name_gives_up_the_prefix_then_the_domain_and_at_last_the_tab(
    own_name: str, origin: str, max_name: int, expected: str
) -> None:
    (name,) = public_names([place(own_name, origin)], max_name)
    assert re.fullmatch(expected.replace("HASH", "[0-9a-f]{6}"), name)
    assert len(name) <= max_name


def test_characters_that_clients_refuse_are_replaced_and_what_then_clashes_is_told_apart() -> None:
    dotted, underscored = public_names([place("cart.get"), place("cart_get")])
    assert dotted != underscored
    assert dotted.endswith("_tab1_cart_get")


places = st.builds(
    Place,
    profile=st.sampled_from(["p1", "p2"]),
    browser_pid=st.sampled_from([100, 200]),
    tab_id=st.integers(1, 3),
    frame_id=st.integers(0, 2),
    ordinal=st.integers(0, 12),
    origin=st.sampled_from(["https://a.example", "http://a.example", "null", "https://" + "b" * 70]),
    own_name=st.text(min_size=1, max_size=60) | st.sampled_from(["x", "x" * 80, "x" * 81]),
    mark=st.sampled_from(["", "9f1b19"]),
)


@given(st.lists(places, unique=True, max_size=30))
def test_names_are_always_safe_short_and_different(found: list[Place]) -> None:
    names = public_names(found)
    assert len(set(names)) == len(found)
    assert all(re.fullmatch(rf"[A-Za-z0-9_-]{{1,{MAX_NAME}}}", name) for name in names)


# ── As places come and go ───────────────────────────────────────────────────────────────────────────────────


def test_what_a_change_does_not_touch_keeps_its_name_and_is_not_told() -> None:
    namer = ToolNamer()
    assert namer.change_places([], [place(), place("checkout")]) == {place(), place("checkout")}
    assert namer.change_places([place()], [place("search")]) == {place("search")}
    assert namer.name_of(place("checkout")) == "website_tool_shop_example_tab1_checkout"


def test_a_second_tool_that_would_share_a_name_marks_both_and_its_going_unmarks_the_first() -> None:
    namer = ToolNamer()
    namer.change_places([], [place()])
    assert namer.change_places([], [place(frame_id=3)]) == {place(), place(frame_id=3)}
    assert [namer.name_of(place()), namer.name_of(place(frame_id=3))] == public_names(
        [place(), place(frame_id=3)]
    )
    assert namer.change_places([place(frame_id=3)], []) == {place()}
    assert namer.name_of(place()) == "website_tool_shop_example_tab1_getCart"


@given(st.lists(st.tuples(st.sets(places, max_size=8), st.sets(places, max_size=8)), max_size=6))
def test_names_made_bit_by_bit_are_those_made_at_once(steps: list[tuple[set[Place], set[Place]]]) -> None:
    namer, there, names = ToolNamer(), set[Place](), dict[Place, str]()
    for leaving, coming in steps:
        gone, come = leaving & there, coming - there
        renamed = namer.change_places(gone, come)
        there = (there - gone) | come
        expected = dict(zip(there, public_names(list(there)), strict=True))
        assert {at: namer.name_of(at) for at in there} == expected
        assert renamed == {at for at in there if at in come or names[at] != expected[at]}
        names = expected


def test_two_tools_of_a_frame_that_look_alike_do_not_make_every_change_cost_all() -> None:
    namer = ToolNamer()
    alike = [place("a.b"), place("a_b"), place("获取"), place("购物")]
    namer.change_places([], alike)
    assert len({namer.name_of(at) for at in alike}) == len(alike)
    assert not namer._is_crowded


@pytest.mark.parametrize(
    ("client", "server", "length"),
    [
        ("claude-code", "mcpb", 64 - len("mcp__mcpb__")),
        ("claude-code", "browser", 64 - len("mcp__browser__")),
        ("claude-code", "", 44),
        ("another", "mcpb", 44),
        ("claude-code", "x" * 60, 24),
    ],
)
def test_a_name_has_what_the_prefix_leaves_of_64_characters(client: str, server: str, length: int) -> None:
    assert longest_name(client, server) == length
