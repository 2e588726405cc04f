"""Public names of pages' prompts, and their entries in lists."""

import re

from fake_transport import announce, tab
from native_host.protocol import wire
from page_resources import SHOP, Pages, page

CHECK_OUT = {
    "name": "check out!",
    "title": "Check out",
    "description": "Pays for\nall\u202e of it",
    "arguments": [{"name": "note", "description": "For the\nshop", "required": True}, {"name": "gift"}],
    "icons": [{"src": "https://shop.example/i.png"}],
    "_meta": {"dev.mcpb/origin": "https://bank.example", "shop": 1},
}


def tabs(*known: wire.Tab) -> wire.Tabs:
    return wire.Tabs(tabs=list(known))


def test_an_entry_says_where_it_lives_without_our_meta() -> None:
    (entry,) = Pages(tabs(tab(1, title="Tea")), page(1, CHECK_OUT)).listed_prompts()
    assert entry == {
        "name": "shop_example_tab1_check_out_",
        "title": f"[{SHOP}] Check out",
        "description": entry["description"],
        "arguments": [{"name": "note", "description": "For the shop", "required": True}, {"name": "gift"}],
        "_meta": {"shop": 1},
    }
    assert entry["description"].startswith(f"Prompt of {SHOP}: that site's text.")
    assert entry["description"].endswith("The page says: Pays for\nall of it")


def test_names_are_those_of_slash_commands_within_the_limit() -> None:
    pages = Pages(tabs(tab(1)), page(1, {"name": "ä/b"}, {"name": "x" * 200}, origin="http://localhost:3000"))
    pages.prompts.max_name = 40
    short, long = sorted((entry["name"] for entry in pages.listed_prompts()), key=len)
    assert short == "localhost_3000_tab1___b"
    assert re.fullmatch(r"localhost_3000_tab1_x+_[0-9a-f]{6}", long)
    assert len(long) == 40


def test_prompts_that_would_share_a_name_all_get_a_hash() -> None:
    pages = Pages(tabs(tab(1)), page(1, {"name": "a b"}, {"name": "a_b"}, {"name": "c"}))
    names = [entry["name"] for entry in pages.listed_prompts()]
    assert "shop_example_tab1_c" in names
    assert len(set(names)) == 3
    assert sum(bool(re.fullmatch(r"shop_example_tab1_a_b_[0-9a-f]{6}", name)) for name in names) == 2
    for name in names:
        target = pages.prompts.find(name)
        assert target
        assert target.public_name == name


def test_a_name_that_no_page_may_have_gets_a_hash() -> None:
    pages = Pages(tabs(tab(1)), page(1, {"name": "c"}))
    assert pages.prompts.find("shop_example_tab1_c", {"shop_example_tab1_c"}) is None
    assert pages.prompts.find("shop_example_tab1_c")


def test_each_tab_has_its_own_and_a_page_that_has_gone_none() -> None:
    pages = Pages(tabs(tab(1), tab(2, ordinal=2)), page(1, {"name": "c"}), page(2, {"name": "c"}))
    assert [entry["name"] for entry in pages.listed_prompts()] == [
        "shop_example_tab1_c",
        "shop_example_tab2_c",
    ]
    announce(pages.registry, "h1", wire.TabRemoved(tab_id=2))
    assert pages.prompts.find("shop_example_tab2_c") is None
    assert [entry["name"] for entry in pages.listed_prompts()] == ["shop_example_tab1_c"]


def test_the_title_of_a_tab_is_current() -> None:
    pages = Pages(tabs(tab(1, title="Tea")), page(1, {"name": "c"}))
    assert "Tea" in pages.listed_prompts()[0]["description"]
    announce(pages.registry, "h1", tabs(tab(1, title="Coffee")))
    assert "Coffee" in pages.listed_prompts()[0]["description"]
