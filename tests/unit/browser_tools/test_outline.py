"""Outlines of documents as text: refs, the limit for all frames, masked values, and search in them."""

from __future__ import annotations

import time

import pytest

from bridge.browser_tools.page.credential_masking import masked_body, masked_url
from bridge.browser_tools.page.outline import Line, Outline, Viewport
from bridge.browser_tools.page.outline_difference import OutlineLine
from bridge.browser_tools.tools.find import MAX_CHOSEN, parse_choice

HEADING = Line(0, 'heading "Cart"', 1, " level=1", is_frame=False)
TEXT = Line(1, '"3 apples"', 0, "", is_frame=False)


@pytest.mark.parametrize(
    ("line", "frame", "indent", "text"),
    [
        (HEADING, 0, 0, 'heading "Cart" [1] level=1'),
        (HEADING, 4, 0, 'heading "Cart" [f4.1] level=1'),
        (HEADING, 4, 2, '    heading "Cart" [f4.1] level=1'),
        (TEXT, 0, 0, '  "3 apples"'),
        (TEXT, 4, 1, '    "3 apples"'),
    ],
)
def test_a_line_has_its_place_and_its_ref(line: Line, frame: int, indent: int, text: str) -> None:
    assert Outline(1000).reserve_lines([line], frame, indent)[0][0].text == text


def test_what_is_written_stands_in_lines() -> None:
    outline = Outline(1000)
    outline.write_line(OutlineLine("one"))
    outline.write_remark(1, "two")
    assert str(outline) == "one\n  (two)"
    assert len(outline) == 2


def test_lines_that_have_no_room_are_left_out_and_it_is_known() -> None:
    outline = Outline(max_chars=30)
    assert [line for _, line in outline.reserve_lines([HEADING, TEXT, HEADING], 0, 0)] == [HEADING]
    assert outline.is_full
    assert outline.cuts == {"size"}


def test_all_documents_share_one_bound() -> None:
    outline = Outline(max_chars=50)
    assert outline.reserve_lines([HEADING], 0, 0)
    assert not outline.is_full
    assert not outline.reserve_lines([HEADING], 1, 0)
    assert outline.is_full


def test_what_fits_exactly_is_whole() -> None:
    text = 'heading "Cart" [1] level=1'
    assert Outline(len(text) + 1).reserve_lines([HEADING], 0, 0)
    assert not Outline(len(text)).reserve_lines([HEADING], 0, 0)


def test_a_note_without_room_is_no_line() -> None:
    outline = Outline(max_chars=5)
    outline.write_remark(0, "this frame cannot be read")
    assert str(outline) == ""


def test_only_a_page_that_is_scrolled_has_a_scroll_position() -> None:
    scrolled = Viewport(780, 437, 0, 120.5, 765, 2000)
    assert scrolled.describe_scroll() == "scrolled to 0, 120.5 of 765 x 2000 CSS pixels"
    assert Viewport(780, 437, 0, 0, 765, 2000).describe_scroll() == ""


# ── Masking of credentials in what pages wrote ──────────────────────────────────────────────────────────────


SIZE = 100_000
LIMIT_S = 1.0
"""A linear search of SIZE characters takes 0.02 s; the quadratic one took 10 s and more."""


@pytest.mark.parametrize(
    "shape", ["eyJaaaaa-", "-eyJ", "eyJaaaaa.", "eyJaaaaa", 'a"', '"a":"', '"a":"\\"', "a="]
)
def test_masking_takes_linear_time(shape: str) -> None:
    text = (shape * SIZE)[:SIZE]
    began = time.process_time()
    masked_url(f"https://shop.example/{text}?{text}#{text}")
    masked_body("{" + text)
    masked_body(text)
    assert time.process_time() - began < LIMIT_S


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("x-eyJhbGciOi.eyJzdWIi.c2ln", "x-[masked]"),
        ("eyJa-eyJhbGciOi.eyJzdWIi.c2ln", "[masked]"),
        ("a.eyJhbGciOi.eyJzdWIi.c2ln b", "a.[masked] b"),
        ("xeyJhbGciOi.eyJzdWIi.c2ln", "xeyJhbGciOi.eyJzdWIi.c2ln"),
        ("eyJhbGciOi.eyJz.c2ln", "eyJhbGciOi.eyJz.c2ln"),
    ],
)
def test_a_json_web_token_is_masked_from_its_first_character(text: str, masked: str) -> None:
    assert masked_body(text) == masked


def test_a_secret_parameter_with_a_long_name_is_masked() -> None:
    assert masked_body("x" * 200 + "-token=hunter2&page=2") == "x" * 200 + "-token=[masked]&page=2"


# ── Search for elements ─────────────────────────────────────────────────────────────────────────────────────


OUTLINE = r"""
main "Books" [1]
  text "[9] is no ref here"
  button "Reserve \"Dune\"" [2] disabled
  link [3] href=/x
  iframe "Ads" [4]
    button "Reserve" [f2.1]
""".strip()


@pytest.mark.parametrize(
    ("said", "refs"),
    [
        ("2", ["2"]),
        ("ref_2", ["2"]),
        ("f2.1\nref_2", ["f2.1", "2"]),
        ("ref_f2_1", ["f2.1"]),
        ("The best is [3], then `2`; 3 again.", ["3", "2"]),
        ("9 and 77 and f3.1", []),
        ("xref_2 ref_2x", []),
        ("none", []),
        ("", []),
    ],
)
def test_refs_are_taken_in_the_model_s_order_if_they_are_in_the_page(said: str, refs: list[str]) -> None:
    assert [str(chosen.ref) for chosen in parse_choice(said, OUTLINE)] == refs


def test_each_has_its_kind_and_name() -> None:
    assert [(chosen.role, chosen.name) for chosen in parse_choice("ref_2 ref_3", OUTLINE)] == [
        ("button", 'Reserve "Dune"'),
        ("link", ""),
    ]


def test_no_more_are_taken_than_are_shown() -> None:
    outline = "\n".join(f'button "{n}" [{n}]' for n in range(1, 100))
    said = " ".join(f"ref_{n}" for n in range(1, 100))
    assert len(parse_choice(said, outline)) == MAX_CHOSEN
