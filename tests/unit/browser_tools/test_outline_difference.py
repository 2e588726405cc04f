"""The difference of two outlines: what it shows, and that applying it gives the new outline."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from bridge.browser_tools.page.outline_difference import (
    MAX_COMPARED,
    Change,
    OutlineLine,
    compare_outlines,
    format_changes,
)

LINES = st.builds(
    lambda ref, text, indent: (
        OutlineLine(f"{'  ' * indent}{text} [{ref}]", str(ref))
        if ref
        else OutlineLine(f"{'  ' * indent}{text}")
    ),
    st.integers(0, 12),
    st.sampled_from(["link", "button", "text"]),
    st.integers(0, 2),
)
OUTLINES = st.lists(LINES, max_size=25)


def applied(before: Sequence[OutlineLine], changes: Sequence[Change]) -> list[OutlineLine]:
    """The new outline, made from the old one in the way that a reader would."""
    rest, made = list(before), list[OutlineLine]()
    for mark, line in changes:
        if mark == " ":
            while not made or made[-1] != line:
                made.append(rest.pop(0))
        elif mark == "+":
            made.append(line)
        else:
            was = rest.pop(0)
            assert was == line if mark == "-" else was.key == line.key
            if mark == "~":
                made.append(line)
    return [*made, *rest]


def unique_lines(lines: Sequence[OutlineLine]) -> list[OutlineLine]:
    """Without lines that stand there twice: then a place is not certain."""
    return list({line.key: line for line in lines}.values())


@given(before=OUTLINES.map(unique_lines), after=OUTLINES.map(unique_lines))
def test_applying_the_difference_gives_the_new_outline(
    before: list[OutlineLine], after: list[OutlineLine]
) -> None:
    changes = compare_outlines(before, after)
    assert changes is not None
    assert applied(before, changes) == after
    assert bool(changes) == (before != after)


def line(text: str, ref: str = "") -> OutlineLine:
    return OutlineLine(f"{text} [{ref}]" if ref else text, ref)


def test_new_gone_and_changed_lines_stand_below_the_line_before_them() -> None:
    before = [
        line("list", "1"),
        line("  listitem Tea", "2"),
        line("button Pay", "3"),
        line("link Empty", "4"),
    ]
    after = [
        line("list", "1"),
        line("  listitem Tea", "2"),
        line("  listitem Milk", "5"),
        line("button Pay 2", "3"),
    ]
    assert format_changes(compare_outlines(before, after) or [], 30).splitlines() == [
        "    listitem Tea [2]",
        "+   listitem Milk [5]",
        "~ button Pay 2 [3]",
        "- link Empty [4]",
    ]


def test_at_most_so_many_lines_are_shown() -> None:
    changes = compare_outlines([], [line("button", str(number)) for number in range(100)])
    shown = format_changes(changes or [], 30).splitlines()
    assert len(shown) == 30
    assert shown[-1] == "… 71 more lines"


def test_a_long_run_of_gone_lines_has_its_first_and_its_last() -> None:
    before = [line("button", str(number)) for number in range(6)]
    after = [line("heading", "9"), line("button", "5")]
    assert format_changes(compare_outlines(before, after) or [], 30).splitlines() == [
        "- button [0]",
        "- … 3 more lines",
        "- button [4]",
        "+ heading [9]",
    ]
    assert len(format_changes(compare_outlines(before, before[:3]) or [], 30).splitlines()) == 4


def test_lines_that_are_not_shown_are_counted_one_by_one() -> None:
    before = [line("button", str(number)) for number in range(1000)]
    after = [line("heading", f"n{number}") for number in range(3)]
    shown = format_changes(compare_outlines(before, after) or [], 3).splitlines()
    assert shown == ["- button [0]", "- … 998 more lines", "… 4 more lines"]


def test_a_page_that_is_another_is_not_compared_line_by_line() -> None:
    assert compare_outlines([], [line("button", str(number)) for number in range(MAX_COMPARED + 1)]) is None
