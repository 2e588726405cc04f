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


@pytest.mark.parametrize(
    "quoted",
    ["key%2B1%3D%3D", "key+1==", "two words", "/s/0123456789abcdef0", "q%22uote%5C", 'q"uote\\', "4f1c9a02"],
)
def test_a_secret_is_masked_as_it_is_sent_and_as_a_server_reads_it(quoted: str) -> None:
    mask = SecretMask(
        "https://orders.example/api/s/0123456789abcdef0/mcp?key=key%2B1%3D%3D&q=two+words&r=q%22uote%5C"
    )
    mask.add({"Cookie": "theme=dark; sid=4f1c9a02"})
    assert quoted not in mask.mask(f"bad {quoted}")
    assert quoted not in mask.mask_json({"text": f"bad {quoted}"})["text"]


def test_a_header_that_json_escapes_is_masked_in_json() -> None:
    mask = SecretMask("https://orders.example/mcp")
    mask.add({"X-Key": 'head"er\\key'})
    assert mask.mask_json({"text": 'bad head"er\\key, see /mcp'}) == {"text": "bad •••, see /mcp"}


def test_secrets_of_the_address_stay_masked_after_many_tokens() -> None:
    mask = make_mask()
    for number in range(100):
        mask.add({"Authorization": f"Bearer token-{number:04}"})
    assert mask.mask("query-key token-0099") == "••• •••"
