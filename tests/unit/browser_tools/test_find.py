"""Descriptions of several elements, taken apart."""

from __future__ import annotations

import pytest

from bridge.browser_tools.tools.find import split_query


@pytest.mark.parametrize(
    ("query", "parts"),
    [
        ("search box", ["search box"]),
        ("e-mail, password and sign in", ["e-mail", "password", "sign in"]),
        (
            "ZIP, terms checkbox, Order now button, country",
            ["ZIP", "terms checkbox", "Order now button", "country"],
        ),
        ("user; password & login", ["user", "password", "login"]),
        ("price and stock of Hard Lamp", ["price of Hard Lamp", "stock of Hard Lamp"]),
        ("brand of Hard Lamp and price", ["brand of Hard Lamp", "price"]),
        ("sand box", ["sand box"]),
        (", ", []),
    ],
)
def test_a_list_is_searched_part_by_part(query: str, parts: list[str]) -> None:
    assert split_query(query) == parts
