"""Searching page tools: every word counts, the best match comes first."""

from dataclasses import dataclass

import pytest

from bridge.hub import tool_search as search_module
from bridge.hub.tool_search import MAX_READ, MAX_WORDS, find_nearest, in_turns, search_entries, words_of


@dataclass(frozen=True)
class Tool:
    own_name: str = "getCart"
    name: str = ""
    title: str = ""
    origin: str = "https://shop.example"
    tab_title: str = ""
    page_words: str = ""
    is_active: bool = False


def found(tools: list[Tool], query: str) -> list[Tool]:
    return [tool for equals in search_entries(tools, query) for tool in equals]


def own_names(tools: list[Tool], query: str) -> list[str]:
    return [tool.own_name for tool in found(tools, query)]


@pytest.mark.parametrize("query", ["", "   ", "?!", "_"])
def test_without_a_word_all_are_found_as_they_come(query: str) -> None:
    tools = [Tool("b"), Tool("a", is_active=True)]
    assert found(tools, query) == tools


@pytest.mark.parametrize(
    "query",
    [
        *["addToCart", "ADDTOCART", "add_to_cart", "add to cart", "cart", "cart add", "ad car", "addto"],
        *["shop", "shop.example", "https://shop.example", "shop cart"],
        *["basket", "teapots", "tuesday", "straße", "STRASSE"],
        *["website_tool_shop_example_tab1_addToCart", "tab1"],
    ],
)
def test_a_word_is_found_in_any_of_its_texts_whatever_its_case(query: str) -> None:
    tool = Tool(
        "addToCart",
        name="website_tool_shop_example_tab1_addToCart",
        title="Fill the basket",
        tab_title="Teapots, Haupt-Straße",
        page_words="Not on Tuesday.",
    )
    assert found([tool], query) == [tool]


@pytest.mark.parametrize("query", ["art", "cart teapot", "xcart", "cartx", "ample"])
def test_a_word_that_is_nowhere_or_only_inside_another_is_not_found(query: str) -> None:
    assert found([Tool("addToCart")], query) == []


@pytest.mark.parametrize(
    "own_name", ["get_http_url", "getHTTPUrl", "getHttpURL", "get-http-url", "get.http/url", "http2GetUrl"]
)
def test_names_are_taken_apart_however_they_are_written(own_name: str) -> None:
    tool = Tool(own_name)
    assert found([tool], "url get") == [tool]


@pytest.mark.parametrize("words", ["naïve cart", "カートcart", "“cart”", "—cart—", "it's: cart!"])
def test_a_word_begins_after_whatever_is_no_letter_of_its_script(words: str) -> None:
    tool = Tool("a", page_words=words)
    assert found([tool], "cart") == [tool]


def test_scripts_without_spaces_are_searched_inside() -> None:
    tool = Tool(page_words="把商品放进购物车里")
    assert found([tool], "购物车") == [tool]


def test_the_own_name_comes_before_its_words_the_origin_the_title_and_the_description() -> None:
    tools = [
        Tool("e", page_words="The cart."),
        Tool("d", title="Cart"),
        Tool("c", origin="https://cart.example"),
        Tool("cartoons"),
        Tool("get_cart"),
        Tool("cart"),
    ]
    assert own_names(tools, "cart") == ["cart", "get_cart", "cartoons", "c", "d", "e"]


def test_a_whole_word_comes_before_a_mere_beginning() -> None:
    tools = [Tool("a", page_words="carton"), Tool("b", page_words="a cart")]
    assert own_names(tools, "cart") == ["b", "a"]


def test_a_public_name_finds_its_own_tool_first() -> None:
    tools = [Tool(f"add{more}", name=f"website_tool_shop_tab1_add{more}") for more in ("All", "", "Any")]
    assert own_names(tools, "website_tool_shop_tab1_add")[0] == "add"


def test_among_equals_the_active_tab_comes_first_and_then_the_order_of_the_list() -> None:
    tools = [Tool(origin="https://a.example"), Tool(), Tool(is_active=True), Tool(origin="https://b.example")]
    first, *others = found(tools, "cart")
    assert first.is_active
    assert others == [tools[0], tools[1], tools[3]]


def test_a_better_match_comes_before_the_active_tab() -> None:
    tools = [Tool("a", page_words="cart", is_active=True), Tool("cart")]
    assert own_names(tools, "cart") == ["cart", "a"]


def test_what_no_client_is_shown_of_a_description_is_not_read() -> None:
    tool = Tool(page_words="x " * (MAX_READ // 2) + "cart")
    assert found([tool], "teapot") == found([Tool("a", page_words=tool.page_words)], "cart") == []


def test_taking_turns_each_origin_comes_once_before_any_comes_again_in_its_own_order() -> None:
    tools = [Tool(name, origin=name[0]) for name in ("a0", "a1", "a2", "b0", "c0", "c1")]
    assert [tool.own_name for tool in in_turns(tools)] == ["a0", "b0", "c0", "a1", "c1", "a2"]


def test_no_more_words_are_looked_for_than_a_few() -> None:
    words = [f"w{number}" for number in range(MAX_WORDS + 1)]
    tool = Tool("a", page_words=" ".join(words[:-1]))
    assert found([tool], " ".join(words)) == [tool]
    assert found([tool], " ".join(reversed(words))) == []
    assert words_of("Cart, CART_w1 … Straße") == ["cart", "w1", "strasse"]


def test_a_name_of_many_words_finds_its_own_tool_first() -> None:
    name = "add_to_a_b_c_d_e_f_g_a"
    tools = [Tool(f"{name}_b"), Tool(name), Tool(f"{name}_c")]
    assert own_names(tools, name)[0] == name


def test_those_that_fit_equally_well_are_together() -> None:
    tools = [Tool("a", page_words="cart"), Tool("cart"), Tool("b", page_words="cart")]
    assert search_entries(tools, "cart") == [[tools[1]], [tools[0], tools[2]]]
    assert search_entries(tools, "") == [tools]


def test_each_text_is_folded_once_however_many_words_are_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    folded: list[str] = []

    def fold(text: str) -> str:
        folded.append(text)
        return text.casefold()

    monkeypatch.setattr(search_module, "_fold_text", fold)
    text = "a é b c d e f g h" + "x" * MAX_READ
    assert found([Tool("n", page_words=text)], "a b c d e f g h")
    assert folded.count(text[:MAX_READ]) == 1


def test_a_name_that_was_misspelt_is_met_with_its_neighbours() -> None:
    tools = [Tool("checkout", name="n1"), Tool("addToCart", name="n2"), Tool("addToCard", name="n3")]
    assert find_nearest(tools, "add_to_kart") == ["n2", "n3"]
    assert find_nearest(tools, "weather") == []
