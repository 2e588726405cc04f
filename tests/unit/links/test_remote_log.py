"""Mask of a remote server's secrets."""

from __future__ import annotations

import pytest

from bridge.links.remote_log import SecretMask

TOKEN = "0123456789abcdef"


def make_mask() -> SecretMask:
    mask = SecretMask("https://ann:password@orders.example/mcp?key=query-key&x=1")
    mask.add({"Authorization": f"Bearer {TOKEN}", "Short": "abc"})
    return mask


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        (f"bad token {TOKEN}", "bad token •••"),
        (f"bad {TOKEN}{TOKEN}", "bad ••••••"),
        ("see /mcp?key=query-key&x=1", "see /mcp?•••"),
        ("ann has no password", "ann has no •••"),
        ("a b c abc", "a b c abc"),
    ],
)
def test_values_of_headers_and_of_the_address_are_masked(text: str, masked: str) -> None:
    assert make_mask().mask(text) == masked


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        (f"“bad {TOKEN[:9]}…”: too long", "“bad •••…”: too long"),
        (f"{TOKEN[:4]}…{TOKEN[:15]}…", "•••…•••…"),
        (f"{TOKEN[:3]}… {TOKEN[1:9]}… end", f"{TOKEN[:3]}… {TOKEN[1:9]}… end"),
        (f"ends with {TOKEN[:9]}", f"ends with {TOKEN[:9]}"),
    ],
)
def test_the_beginning_of_a_value_that_a_limit_has_cut_is_masked(text: str, masked: str) -> None:
    assert make_mask().mask(text) == masked


def test_a_text_without_secrets_stays_as_it_is() -> None:
    assert SecretMask("https://orders.example").mask("a… b…") == "a… b…"
