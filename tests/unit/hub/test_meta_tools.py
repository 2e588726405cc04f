"""`list_page_tools`: what is looked for comes first, and an answer never fills a model's context."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from bridge.errors import CallError
from bridge.hub.argument_validation import Arguments
from bridge.hub.meta_tools import MAX_SCHEMA, MAX_TEXT, TOOLS, ListPageTools, page_tools, read_arguments


@dataclass(frozen=True)
class Tool:
    """What the list tells of a tool."""

    own_name: str
    title: str = ""
    origin: str = "https://shop.example"
    tab_title: str = "Shop"
    page_words: str = ""
    is_active: bool = False
    ordinal: int = 1
    shown_schema: bytes = b'{"type":"object"}'

    @property
    def name(self) -> str:
        return f"website_tool_shop_example_tab{self.ordinal}_{self.own_name}"

    def description_without_words(self) -> str:
        return f"[{self.origin}]"

    def format_description(self) -> str:
        return f"[{self.origin}] The page says: {self.page_words}"


def answer(
    tools: Sequence[Tool], notices: Sequence[str] = (), **arguments: Any
) -> tuple[str, dict[str, Any]]:
    """The text and the structured content."""
    asked = read_arguments(ListPageTools, Arguments.of(arguments))
    said = json.loads(msgspec.json.encode(page_tools(tools, asked, notices, lambda: "Run: mcpb status")))
    return said["content"][0]["text"], said["structuredContent"]


def many(count: int, **fields: Any) -> list[Tool]:
    return [Tool(f"tool{number}", **fields) for number in range(count)]


def test_a_tool_is_a_line_and_an_object() -> None:
    text, structured = answer([Tool("getCart", page_words="What is\nin it", is_active=True)])
    assert text == (
        "website_tool_shop_example_tab1_getCart: [https://shop.example] The page says: What is in it"
    )
    assert structured == {
        "tools": [
            {
                "name": "website_tool_shop_example_tab1_getCart",
                "description": "[https://shop.example] The page says: What is\nin it",
                "origin": "https://shop.example",
                "tab": 1,
                "active": True,
            }
        ],
        "total": 1,
        "shown": 1,
    }


def test_a_cached_tool_has_no_tab() -> None:
    _, structured = answer([Tool("getCart", ordinal=0)])
    assert structured["tools"][0]["tab"] is None


def test_of_many_tools_the_first_are_shown_and_the_others_counted() -> None:
    text, structured = answer(many(300))
    *lines, last = text.splitlines()
    assert len(lines) == len(structured["tools"]) == structured["shown"] == 25
    assert structured["total"] == 300
    assert last == ("Showing 25 of 300; say what you look for in `query`, or raise `limit` (at most 200).")


@pytest.mark.parametrize(
    ("arguments", "last"),
    [
        ({"limit": 200}, "Showing 200 of 300; say what you look for in `query`."),
        ({"limit": 200, "query": "shop"}, "Showing 200 of 300; say more in `query`."),
        ({"query": "shop"}, "Showing 25 of 300; say more in `query`, or raise `limit` (at most 200)."),
    ],
)
def test_how_to_see_the_others_is_said(arguments: dict[str, Any], last: str) -> None:
    text, _ = answer(many(300), **arguments)
    assert text.splitlines()[-1] == last


def test_the_best_match_is_among_those_that_are_shown() -> None:
    _, structured = answer([*many(300, page_words="cart"), Tool("cart")], query="cart", limit=1)
    assert [tool["name"] for tool in structured["tools"]] == ["website_tool_shop_example_tab1_cart"]


def test_the_text_is_bounded_whatever_pages_write() -> None:
    text, structured = answer(many(200, page_words="\N{TEAPOT}" * 2000), limit=200)
    assert MAX_TEXT - 8000 < len(text.encode()) <= MAX_TEXT + 200
    shown = structured["shown"]
    assert text.endswith(f"Showing {shown} of 200, more would be too long; say what you look for in `query`.")


def test_a_schema_that_would_be_too_much_is_left_out_and_says_how_to_get_it() -> None:
    huge = msgspec.json.encode({"type": "object", "description": "x" * 70_000})
    tools = [Tool("a", shown_schema=huge), Tool("b")]
    text, structured = answer(tools, schemas=True)
    name = "website_tool_shop_example_tab1_a"
    assert text.splitlines()[1] == (
        f"  The schema of {name} is {len(huge)} bytes long; "
        "ask for that tool alone: its name in `query`, `limit` 1"
    )
    assert text.splitlines()[3] == '  arguments: {"type":"object"}'
    assert ["inputSchema" in tool for tool in structured["tools"]] == [False, True]
    text, structured = answer(tools, schemas=True, query=name, limit=1)
    assert structured["tools"][0]["inputSchema"] == json.loads(huge)
    assert "x" * 70_000 in text


def test_a_single_schema_above_the_limit_is_shown_without_its_texts() -> None:
    text = "x" * (MAX_SCHEMA // 2)
    described = {"type": "string", "description": text, "enum": ["a"]}
    schema = {"type": "object", "title": text, "properties": {"description": described, "title": {}}}
    huge = msgspec.json.encode(schema)
    said, structured = answer([Tool("a", shown_schema=huge)], schemas=True, limit=1)
    structure = {"type": "string", "enum": ["a"]}
    assert structured["tools"][0]["inputSchema"] == {
        "type": "object",
        "properties": {"description": structure, "title": {}},
    }
    assert f"are left out: it is {len(huge)} bytes long, and at most {MAX_SCHEMA} are shown." in said
    assert len(said) < 1000


def test_a_single_schema_whose_structure_is_above_the_limit_is_left_out() -> None:
    schema = {"type": "object", "properties": {"a": {"enum": ["x" * MAX_SCHEMA]}}}
    said, structured = answer([Tool("a", shown_schema=msgspec.json.encode(schema))], schemas=True)
    size = len(msgspec.json.encode(schema))
    assert "inputSchema" not in structured["tools"][0]
    assert f"is left out: without its texts it is still {size} bytes long" in said
    assert len(said) < 1000


def test_schemas_take_only_the_room_that_lines_leave() -> None:
    schema = msgspec.json.encode({"type": "object", "description": "x" * 1000})
    text, structured = answer(many(100, shown_schema=schema), schemas=True, limit=100)
    assert structured["shown"] == 100
    assert 0 < text.count("arguments: ") < 50
    assert MAX_TEXT - 25_000 < len(text.encode()) <= MAX_TEXT + 200


def test_nothing_found_is_said_with_the_closest_names() -> None:
    text, structured = answer([Tool("addToCart"), Tool("checkout")], query="add to kart")
    assert text == (
        "None of the 2 page tools matches 'add to kart'. The closest names: "
        "website_tool_shop_example_tab1_addToCart. Without `query` all are listed."
    )
    assert structured == {"tools": [], "total": 0, "shown": 0}


EVIL = "https://evil.example"


def shown_origins(tools: Sequence[Tool], **arguments: Any) -> list[str]:
    _, structured = answer(tools, **arguments)
    return [tool["origin"] for tool in structured["tools"]]


@pytest.mark.parametrize("query", ["", "cart"])
@pytest.mark.parametrize("is_active", [False, True])
def test_a_site_with_many_tools_does_not_hide_those_of_others(query: str, is_active: bool) -> None:
    crowd = many(300, origin=EVIL, page_words="cart", is_active=is_active)
    tools = [*crowd, Tool("a", page_words="cart"), Tool("b", page_words="cart")]
    origins = shown_origins(tools, query=query)
    assert origins[:4] == [EVIL, "https://shop.example", EVIL, "https://shop.example"]
    assert (origins.count(EVIL), len(origins)) == (23, 25)


def test_a_site_with_long_descriptions_does_not_hide_those_of_others() -> None:
    crowd = many(20, origin=EVIL, page_words="\N{TEAPOT}" * 2000)
    assert "https://shop.example" in shown_origins([*crowd, Tool("a")])


def test_while_all_are_shown_those_of_a_site_stay_together() -> None:
    tools = [*many(3, origin=EVIL), *many(3)]
    assert shown_origins(tools) == [EVIL] * 3 + ["https://shop.example"] * 3


def test_a_better_match_of_a_site_comes_before_another_site_s_turn() -> None:
    tools = [*many(300, page_words="cart"), Tool("cart", origin=EVIL), Tool("cart_more", origin=EVIL)]
    assert shown_origins(tools, query="cart")[:3] == [EVIL, EVIL, "https://shop.example"]


def test_words_that_were_not_looked_for_are_told() -> None:
    note = "Only the first 8 words of `query` were looked for."
    tools = [Tool("a", page_words="1 2 3 4 5 6 7 8")]
    text, structured = answer(tools, query="1 2 3 4 5 6 7 8 9")
    assert (structured["shown"], text.splitlines()[-1]) == (1, note)
    text, _ = answer(tools, query="9 8 7 6 5 4 3 2 1")
    assert text.startswith("None of the 1 page tools matches")
    assert text.endswith(note)
    text, _ = answer(tools, query="1 2 3 4 5 6 7 8 8")
    assert note not in text


def test_without_any_tool_it_says_what_is_missing() -> None:
    text, _ = answer([], query="cart")
    assert text == "No page offers a tool right now.\nRun: mcpb status"


def test_what_extensions_left_out_is_said_and_bounded_too() -> None:
    text, _ = answer([Tool("a")], ["", *(f"https://s{n}.example: left out" for n in range(30))])
    lines = text.splitlines()
    assert len(lines) == 12
    assert lines[1] == "https://s0.example: left out"
    assert lines[-1] == "Of 20 more pages tools were left out; mcpb status names them."


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"limit": 0}, "limit is "),
        ({"limit": 201}, "limit is "),
        ({"limit": "all"}, "limit is "),
        ({"query": "x" * 201}, "query has "),
        ({"match": "cart"}, "match"),
    ],
)
def test_arguments_that_do_not_fit_name_the_field(arguments: dict[str, Any], field: str) -> None:
    with pytest.raises(CallError) as refused:
        answer([Tool("a")], **arguments)
    assert field in str(refused.value)


def test_the_schema_that_clients_see_has_just_the_arguments_that_are_read() -> None:
    schema = TOOLS[0]["inputSchema"]
    assert set(schema["properties"]) == set(ListPageTools.__struct_fields__)
    assert (schema["properties"]["limit"]["minimum"], schema["properties"]["limit"]["maximum"]) == (1, 200)
