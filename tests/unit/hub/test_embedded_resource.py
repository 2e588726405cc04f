"""A resource as the result of a tool: cut to what a model can take, with a note about what is left out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bridge.hub.primitives.embedded_resource import MAX_BLOB, MAX_CHARS, embed_contents


def embed(*contents: dict[str, Any], offset: int = 0, max_chars: int = MAX_CHARS) -> list[dict[str, Any]]:
    result = embed_contents(json.dumps({"contents": contents}).encode(), offset, max_chars)
    blocks: list[dict[str, Any]] = json.loads(result)["content"]
    return blocks


def text(value: str, uri: str = "x://1") -> dict[str, Any]:
    return {"uri": uri, "text": value, "_meta": {"dev.mcpb/untrusted": True}}


def test_a_short_resource_is_embedded_as_it_is() -> None:
    assert embed(text("tea")) == [{"type": "resource", "resource": text("tea")}]


def test_20000_characters_are_returned_without_a_limit_of_the_client() -> None:
    block, note = embed(text("é" * 20_001))
    assert block["resource"]["text"] == "é" * 20_000
    assert note["text"] == "Characters 0 to 20000 of 20001. The rest: offset 20000."


@pytest.mark.parametrize(
    ("offset", "max_chars", "expected"),
    [(0, 2, ["ab"]), (1, 3, ["bc", "d"]), (3, 9, ["def"]), (5, 1, ["f"]), (6, 1, []), (9, 1, [])],
)
def test_the_window_goes_over_all_texts(offset: int, max_chars: int, expected: list[str]) -> None:
    blocks = embed(text("abc"), text("def", "x://2"), offset=offset, max_chars=max_chars)
    assert [block["resource"]["text"] for block in blocks[:-1]] == expected
    assert blocks[-1]["text"].startswith(f"Characters {min(offset, 6)} to {min(offset + max_chars, 6)} of 6.")


def test_a_picture_comes_with_the_beginning() -> None:
    picture = {"uri": "x://p", "mimeType": "image/png", "blob": "AAAA"}
    assert embed(picture) == [{"type": "resource", "resource": picture}]
    assert [block["type"] for block in embed(text("tea"), picture, offset=1)] == ["resource", "text"]


def test_a_long_blob_is_left_out_and_named() -> None:
    (note,) = embed({"uri": "x://p", "blob": "A" * (MAX_BLOB + 4)})
    assert note["text"] == f"x://p is left out: {MAX_BLOB + 4} characters of base64."


def test_an_empty_text_is_a_resource() -> None:
    assert embed(text("")) == [{"type": "resource", "resource": text("")}]
