"""Outlines: lines of documents as text, with refs that no page can write, within one bound for all frames."""

from __future__ import annotations

import pytest

from bridge.browser_tools.page.outline import Line, Outline, Viewport

HEADING = Line(0, 'heading "Cart"', 1, " level=1", is_frame=False)
TEXT = Line(1, '"3 apples"', 0, "", is_frame=False)


@pytest.mark.parametrize(
    ("line", "frame", "indent", "text"),
    [
        (HEADING, 0, 0, 'heading "Cart" [ref_1] level=1'),
        (HEADING, 4, 0, 'heading "Cart" [ref_f4_1] level=1'),
        (HEADING, 4, 2, '    heading "Cart" [ref_f4_1] level=1'),
        (TEXT, 0, 0, '  "3 apples"'),
        (TEXT, 4, 1, '    "3 apples"'),
    ],
)
def test_a_line_has_its_place_and_its_ref(line: Line, frame: int, indent: int, text: str) -> None:
    assert Outline(1000).reserve_lines([line], frame, indent) == [(text, line)]


def test_what_is_written_stands_in_lines() -> None:
    outline = Outline(1000)
    outline.write_line("one")
    outline.write_remark(1, "two")
    assert str(outline) == "one\n  (two)"
    assert len(outline) == 2


def test_lines_that_have_no_room_are_left_out_and_it_is_known() -> None:
    outline = Outline(max_chars=40)
    assert [line for _, line in outline.reserve_lines([HEADING, TEXT, HEADING], 0, 0)] == [HEADING]
    assert outline.is_full
    assert outline.cuts == {"size"}


def test_all_documents_share_one_bound() -> None:
    outline = Outline(max_chars=60)
    assert outline.reserve_lines([HEADING], 0, 0)
    assert not outline.is_full
    assert not outline.reserve_lines([HEADING], 1, 0)
    assert outline.is_full


def test_what_fits_exactly_is_whole() -> None:
    text = 'heading "Cart" [ref_1] level=1'
    assert Outline(len(text) + 1).reserve_lines([HEADING], 0, 0)
    assert not Outline(len(text)).reserve_lines([HEADING], 0, 0)


def test_a_note_without_room_is_no_line() -> None:
    outline = Outline(max_chars=5)
    outline.write_remark(0, "this frame cannot be read")
    assert str(outline) == ""


def test_a_viewport_is_told_in_pixels_of_css() -> None:
    assert str(Viewport(780, 437, 0, 120.5, 765, 2000)) == (
        "viewport 780 x 437, scrolled to 0, 120.5 of 765 x 2000 CSS pixels"
    )
