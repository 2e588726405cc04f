"""Refs: the words for elements, there and back."""

from __future__ import annotations

import pytest

from bridge.browser_tools.page import element_refs
from bridge.browser_tools.page.element_refs import Ref
from bridge.browser_tools.tool_output import ToolError


@pytest.mark.parametrize(
    ("text", "ref"),
    [
        ("ref_12", Ref(12)),
        ("ref_f3_12", Ref(12, frame=3)),
        (" ref_12\n", Ref(12)),
        ("[ref_12]", Ref(12)),
        ('"ref_f3_12"', Ref(12, frame=3)),
        ("12", Ref(12)),
        ("f3_12", Ref(12, frame=3)),
        ("f3.12", Ref(12, frame=3)),
        ("[f3.12]", Ref(12, frame=3)),
    ],
)
def test_a_ref_is_read_as_models_write_it(text: str, ref: Ref) -> None:
    assert element_refs.parse_ref(text) == ref


@pytest.mark.parametrize("ref", [Ref(1), Ref(12, frame=3), Ref(999_999_999, frame=999_999_999)])
def test_what_is_written_is_read_as_the_same(ref: Ref) -> None:
    assert element_refs.parse_ref(str(ref)) == ref


@pytest.mark.parametrize(
    "text", ["", "ref_", "ref_x", "ref_1_2", "ref_f_1", "Save", "ref_-1", "ref_٣", "#save", "ref_" + 10 * "1"]
)
def test_what_is_none_is_refused_with_where_refs_come_from(text: str) -> None:
    with pytest.raises(ToolError, match=r"is no ref\. .*come from read_page and find"):
        element_refs.parse_ref(text)


def test_a_hostile_ref_is_shown_as_one_short_line() -> None:
    with pytest.raises(ToolError) as refused:
        element_refs.parse_ref("ref_1\n\x1b[31m" + 1000 * "x")
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 200
