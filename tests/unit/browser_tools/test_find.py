"""Which elements a client's model means by its words."""

from __future__ import annotations

import pytest

from bridge.browser_tools.tools.find import MAX_CHOSEN, parse_choice

OUTLINE = r"""
main "Books" [ref_1]
  text "[ref_9] is no ref here"
  button "Reserve \"Dune\"" [ref_2] disabled
  link [ref_3] href=/x
  iframe "Ads" [ref_4]
    button "Reserve" [ref_f2_1]
""".strip()


@pytest.mark.parametrize(
    ("said", "refs"),
    [
        ("ref_2", ["ref_2"]),
        ("ref_f2_1\nref_2", ["ref_f2_1", "ref_2"]),
        ("The best is [ref_3], then `ref_2`; ref_3 again.", ["ref_3", "ref_2"]),
        ("ref_9 and ref_77 and ref_f3_1", []),
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
    outline = "\n".join(f'button "{n}" [ref_{n}]' for n in range(1, 100))
    said = " ".join(f"ref_{n}" for n in range(1, 100))
    assert len(parse_choice(said, outline)) == MAX_CHOSEN
