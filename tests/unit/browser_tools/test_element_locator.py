"""Locators: what a text means that names an element, and what is rejected because it may mean two things."""

from __future__ import annotations

import pytest

from bridge.browser_tools.page.element_locator import Locator, NamedElement, parse_locator
from bridge.browser_tools.page.element_refs import Ref
from bridge.browser_tools.tool_output import ToolError


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (12, Ref(12)),
        ("12", Ref(12)),
        ("f3.12", Ref(12, frame=3)),
        ("[ref_12]", Ref(12)),
        ('"ref_12"', Ref(12)),
    ],
)
def test_a_ref_stays_a_ref(given: str | int, meant: Ref) -> None:
    assert parse_locator(given) == meant


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ('button "Save"', Locator(role="button", name="Save")),
        ('Button  "Save"', Locator(role="button", name="Save")),
        ('"Save"', Locator(name="Save")),
        ("Place order", Locator(name="Place order", word="Place order")),
        ("main", Locator(name="main", word="main")),
        ('button "12"', Locator(role="button", name="12")),
        ('link "#general"', Locator(role="link", name="#general")),
        ('"#general"', Locator(name="#general")),
        (r'button "Say \"hi\""', Locator(role="button", name='Say "hi"')),
        ('button "Buy" in "Hard Lamp"', Locator(role="button", name="Buy", within="Hard Lamp")),
        ('"Add to cart" in "Hard Lamp"', Locator(name="Add to cart", within="Hard Lamp")),
        ('checkbox in "Hard Lamp"', Locator(role="checkbox", within="Hard Lamp")),
        ("css=input[name=zip]", Locator(css="input[name=zip]")),
    ],
)
def test_a_locator_is_read_as_an_outline_writes_it(given: str, meant: Locator) -> None:
    assert parse_locator(given) == meant


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (NamedElement(role="button", name="Save"), Locator(role="button", name="Save")),
        (NamedElement(name="12"), Locator(name="12")),
        (NamedElement(role="Button", within="Hard Lamp"), Locator(role="button", within="Hard Lamp")),
        (NamedElement(css="#save"), Locator(css="#save")),
    ],
)
def test_a_locator_may_come_in_parts(given: NamedElement, meant: Locator) -> None:
    assert parse_locator(given) == meant


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ('"12"', 'Write 12 for the ref, link "12" or button "12" for the name.'),
        ("(2)", "may be a ref or a name"),
        ("#save", 'Write css=#save for the selector, "#save" with its quotes for the name.'),
        (".primary", "may be a name or a CSS selector"),
        ("input[name=zip]", "may be a name or a CSS selector"),
        ("text=Order now", "may be a name or a CSS selector"),
        ("//button", "may be a name or a CSS selector"),
        ("css=", "needs a CSS selector"),
        ("", "named by a ref such as 12"),
        (NamedElement(), "named by a ref such as 12"),
        (NamedElement(css="#a", name="A"), "either css, or role, name and in"),
        ("x" * 1_001, "at most 1000 characters"),
    ],
)
def test_what_may_mean_two_things_or_nothing_is_rejected(given: str | NamedElement, said: str) -> None:
    with pytest.raises(ToolError) as rejected:
        parse_locator(given)
    assert said in str(rejected.value)


def test_a_hostile_locator_is_shown_as_one_short_line() -> None:
    shown = str(parse_locator("Save \x1b[31m\n" + 900 * "x"))
    assert shown.isprintable()
    assert len(shown) < 200
