"""`form_input` on every control of the site's form, and on what is none."""

from __future__ import annotations

import re

import pytest

from tool_browser import Browsing, Tab, Tools


class Form:
    """A fresh page of controls."""

    def __init__(self, tools: Tools) -> None:
        self.tools = tools
        self.tab_id = tools.open_site("forms.html", in_new_tab=True)
        self.page: Tab = tools.look(self.tab_id)
        read = tools.done("read_page").structured["outline"]
        self.refs = dict(re.findall(r'^ *\w+ "([^"]+)" \[(\d+)\]', read, re.MULTILINE))

    def fill(self, name: str, value: object) -> dict[str, object]:
        """What the tool tells of a control that it has filled."""
        given = {"ref": self.refs[name], "value": value, "tabId": self.tab_id}
        return self.tools.done("form_input", **given).structured

    def refused(self, name: str, value: object) -> str:
        """What it says to a value that cannot be."""
        return self.tools.refused("form_input", ref=self.refs[name], value=value, tabId=self.tab_id)

    @property
    def log(self) -> list[str]:
        """What the page has noticed, without who did it."""
        lines = self.page.evaluate(
            "[...document.querySelectorAll('[role=log] li')].map((li) => li.textContent)"
        )
        return [line.rpartition(" (")[0] for line in lines]


@pytest.fixture(scope="module")
def form(tools: Tools) -> Form:
    """The same page for tests that touch a control each."""
    return Form(tools)


@pytest.mark.parametrize(
    ("name", "value", "now", "noticed"),
    [
        ("Surname", "Lovelace", "Lovelace", ['surname: input "Lovelace"', 'surname: change "Lovelace"']),
        ("Notes", "one\ntwo", "one two", ['notes: input "one\\ntwo"', 'notes: change "one\\ntwo"']),
        ("Secret", "hush", "•••", ['secret: input "hush"', 'secret: change "hush"']),
        ("Colour word", "amber", "amber", ['colour-word: input "amber"', 'colour-word: change "amber"']),
        ("Copies", 3, "3", ['copies: input "3"', 'copies: change "3"']),
        ("Copies", "4", "4", ['copies: input "4"', 'copies: change "4"']),
        ("Volume", 7, "7", ['volume: input "7"', 'volume: change "7"']),
        ("Day", "2026-11-22", "2026-11-22", ['day: input "2026-11-22"', 'day: change "2026-11-22"']),
        ("Hour", "14:30", "14:30", ['hour: input "14:30"', 'hour: change "14:30"']),
        (
            "Moment",
            "2026-11-22 14:30",
            "2026-11-22T14:30",
            ['moment: input "2026-11-22T14:30"', 'moment: change "2026-11-22T14:30"'],
        ),
        ("Month", "2026-11", "2026-11", ['month: input "2026-11"', 'month: change "2026-11"']),
        ("Week", "2026-W47", "2026-W47", ['week: input "2026-W47"', 'week: change "2026-W47"']),
        ("Shade", "teal", "#008080", ['shade: input "#008080"', 'shade: change "#008080"']),
        ("Large print", True, "true", ["large-print: click true", "large-print: input true"]),
        ("At the desk", "true", "true", ["delivery: click true", "delivery: input true"]),
        ("Branch", "Hill farm", "Hill farm", ['branch: input "hill"', 'branch: change "hill"']),
        ("Branch", "market", "Market square", ['branch: input "market"', 'branch: change "market"']),
        (
            "Languages",
            "English, German",
            "English, German",
            ['languages: input ["en","de"]', 'languages: change ["en","de"]'],
        ),
        ("Languages", '["fr"]', "French", ['languages: input ["fr"]', 'languages: change ["fr"]']),
        ("Reminders", True, "true", ["Reminders: click"]),
    ],
)
def test_a_control_is_filled_and_the_page_notices(
    form: Form, name: str, value: object, now: str, noticed: list[str]
) -> None:
    before = len(form.log)
    told = form.fill(name, value)
    assert (told["name"], told["now"], told["ok"]) == (name, now, True)
    assert form.log[before:][: len(noticed)] == noticed


def test_an_editable_area_is_filled(form: Form) -> None:
    told = form.fill("Story", "Once upon a time")
    assert told["now"] == "Once upon a time"
    assert form.page.evaluate("document.querySelector('[contenteditable]').textContent") == told["now"]


def test_a_control_that_a_framework_holds_keeps_its_value(form: Form) -> None:
    form.fill("Framework", "Ada")
    form.page.wait_until("document.querySelector('#state').textContent === 'the framework holds \"Ada\"'")
    form.page.evaluate("new Promise((done) => setTimeout(done, 250))")
    assert form.page.evaluate("document.querySelector('form').elements.framework.value") == "Ada"


def test_the_old_and_the_new_value_are_told(form: Form) -> None:
    form.fill("Surname", "Lovelace")
    said = form.fill("Surname", "Hopper")["message"]
    assert said == f"textbox “Surname” ({form.refs['Surname']}) was “Lovelace” and is “Hopper” now."
    said = form.fill("Surname", "Hopper")["message"]
    assert said == f"textbox “Surname” ({form.refs['Surname']}) is “Hopper”, as it was."
    assert form.fill("Surname", "")["now"] == ""


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("Copies", 99, "takes a number from 1 to 9 in steps of 1, not"),
        ("Copies", "many", "takes a number such as 1234.5 from 1 to 9"),
        ("Volume", 11, "from 0 to 10"),
        ("Day", "22.11.2026", "takes a date in the form 2026-11-22"),
        ("Day", "2026-02-30", "takes a date in the form"),
        ("Hour", "25:00", "takes a time in the form"),
        ("Shade", "lamp", "takes an opaque color such as #ff8800 or teal"),
        ("Large print", "perhaps", "takes true or false"),
        ("Branch", "Nowhere", 'it has "Choose one", "Harbour", "Market square", "Hill farm", "Old mill"'),
        ("Branch", "Old mill", 'The option "Old mill" is disabled'),
        ("Languages", "English, Latin", 'has no option "Latin": it has "English", "French", "German"'),
        ("Card number", "1", "is read-only"),
        ("Fee", "1", "is disabled"),
        ("Send", "x", "has no value: click it"),
        ("Controls", "x", "is no form control"),
    ],
)
def test_what_a_control_does_not_take_is_refused_with_what_it_takes(
    form: Form, name: str, value: object, said: str
) -> None:
    before = form.log
    assert said in form.refused(name, value)
    assert form.log == before


def test_controls_in_frames_and_shadow_trees_are_filled(tools: Tools) -> None:
    tab = tools.look(tools.open_site("shadow.html"))
    tools.done("form_input", ref=tools.ref_of("Words for sealed"), value="psst")
    assert "sealed: psst (scripted)" in tab.evaluate("document.querySelector('[role=log]').textContent")
    tools.open_site("frames.html")
    told = tools.done("form_input", ref=tools.ref_of("Words for within"), value="deep").structured
    assert (told["was"], told["now"]) == ("", "deep")
    assert '"What happened in within"' in tools.done("read_page").text
    assert "within: deep (scripted)" in tools.done("read_page").text


def test_what_the_page_makes_of_a_value_is_told(form: Form) -> None:
    form.page.evaluate(
        "document.querySelector('[name=surname]').addEventListener('input', (event) => "
        "event.target.value = event.target.value.toUpperCase(), { once: true })"
    )
    told = form.fill("Surname", "Hopper")
    assert (told["now"], told["ok"]) == ("HOPPER", False)
    assert "the page has changed what it was given" in str(told["message"])


def test_a_dialog_that_the_value_opens_is_told(tools: Tools) -> None:
    form = Form(tools)
    form.page.evaluate("document.querySelector('[name=branch]').onchange = () => confirm('Sure?')")
    told = form.fill("Branch", "hill")
    assert (
        f"The value was given to {form.refs['Branch']}. The page has a confirm dialog open: “Sure?”"
        in str(told["message"])
    )
    assert "Until it is answered" in tools.refused("form_input", ref=form.refs["Surname"], value="Hopper")
    tools.done("computer", action="key", text="Return")
    assert form.page.evaluate("document.querySelector('[name=branch]').value") == "hill"
    assert form.page.evaluate("document.querySelector('[name=surname]').value") == ""


def test_a_value_that_sends_the_tab_elsewhere_is_told_with_where(tools: Tools, browsing: Browsing) -> None:
    form = Form(tools)
    form.page.evaluate(
        "document.querySelector('[name=branch]').onchange = () => location.href = 'index.html'"
    )
    told = form.fill("Branch", "hill")
    assert f"The tab is at {browsing.site.url}/index.html now." in str(told["message"])


def test_what_cannot_be_meant_is_explained(tools: Tools) -> None:
    form = Form(tools)
    stale = form.refs["Surname"]
    form.page.evaluate("document.querySelector('[name=surname]').remove()")
    for arguments, said in (
        ({"ref": stale, "value": "x"}, "not in the page any more: read_page and find give refs"),
        ({"ref": "ref_f99_1", "value": "x"}, "The frame of f99.1 is gone"),
        ({"ref": 'textbox "Surname"', "value": "x"}, "No element fits textbox “Surname”."),
        ({"ref": "Surname", "value": "x"}, 'The label "Surname" is no form control.'),
        ({"ref": stale}, "value is missing"),
        ({"ref": stale, "value": None}, "value is true or false or a number or text, not null"),
        ({"ref": stale, "value": ["x"]}, "value is true or false or a number or text, not a list"),
        ({"ref": stale, "value": "x", "tabId": 9999}, "tabs_context lists your tabs"),
    ):
        assert said in tools.refused("form_input", **arguments)


def test_a_ref_of_a_page_that_is_gone_means_nothing_in_the_next_one(tools: Tools, browsing: Browsing) -> None:
    form = Form(tools)
    tools.done("navigate", url=f"{browsing.site.url}/forms.html")
    tools.done("read_page")
    assert "not in the page any more" in form.refused("Surname", "x")
    again = Form(tools)
    assert again.fill("Surname", "Ada")["now"] == "Ada"


# ── fill_form ───────────────────────────────────────────────────────────────────────────────────────────────


def test_a_form_is_filled_by_labels_and_sent_in_one_call(tools: Tools) -> None:
    tab_id = tools.open_site("membership-1.html")
    fields = [
        {"label": "Name", "value": "Ada"},
        {"label": "email", "value": "ada@example.org"},
        {"label": "Birthday", "value": "1815-12-10"},
    ]
    result = tools.done("fill_form", fields=fields, submit=True)
    assert result.text.startswith("Filled 3 fields. Clicked the button “Next”")
    assert tools.look(tab_id).evaluate("location.pathname") == "/membership-2.html"
    assert result.structured["submitted"]


def test_each_kind_of_control_is_filled_as_form_input_does(tools: Tools) -> None:
    form = Form(tools)
    fields = [
        {"ref": form.refs["Surname"], "value": "Lovelace"},
        {"label": "Copies", "value": 3},
        {"label": "Large print", "value": True},
        {"label": "Choices", "value": "At the desk"},
        {"label": "Branch", "value": "Harbour"},
        {"label": "Languages", "value": "English, German"},
        {"label": "Reminders", "value": True},
        {"label": "colour-word", "value": "amber"},
    ]
    tools.done("fill_form", fields=fields, tabId=form.tab_id)
    script = (
        "Object.fromEntries([...new FormData(form)].map(([name]) => [name, new FormData(form).getAll(name)]))"
    )
    sent = form.page.evaluate(script)
    assert sent["surname"] == ["Lovelace"]
    assert sent["copies"] == ["3"]
    assert sent["large-print"] == ["on"]
    assert sent["delivery"] == ["desk"]
    assert sent["branch"] == ["harbour"]
    assert sent["languages"] == ["en", "de"]
    assert sent["colour-word"] == ["amber"]
    assert form.page.evaluate("document.querySelector('[role=switch]').ariaChecked") == "true"


def test_what_cannot_be_filled_ends_it_and_says_what_was_done(tools: Tools) -> None:
    form = Form(tools)
    fields = [
        {"label": "Surname", "value": "Lovelace"},
        {"label": "Copies", "value": "many"},
        {"label": "Notes", "value": "none"},
    ]
    said = tools.refused("fill_form", fields=fields, submit=True)
    assert said.startswith("Filled 1 field. Field 2 of 3: ")
    assert "takes a number" in said
    assert "Nothing after it was done." in said
    assert form.page.evaluate("form.elements.surname.value") == "Lovelace"
    assert form.page.evaluate("form.elements.notes.value") == ""


def test_a_frame_of_another_site_draws_no_value_to_itself_by_a_label(
    tools: Tools, browsing: Browsing
) -> None:
    tab_id = tools.open_site("index.html")
    page = tools.look(tab_id)
    frame = f"<iframe src='{browsing.site.elsewhere}/login.html' width=400 height=400></iframe>"
    page.evaluate(f"document.body.innerHTML = `{frame}<label>Password * <input id=own></label>`; 1")
    tools.done("wait_for", text="Log in", tabId=tab_id)
    tools.done("fill_form", fields=[{"label": "Password", "value": "secret"}], tabId=tab_id)
    assert page.evaluate("own.value") == "secret"
    said = tools.refused("fill_form", fields=[{"label": "Reader", "value": "ada"}], tabId=tab_id)
    found = re.search(rf"textbox \[(f\d+\.\d+)\] of {browsing.site.elsewhere}\.", said)
    assert found
    tools.done("fill_form", fields=[{"ref": found[1], "value": "ada"}], tabId=tab_id)
    assert 'textbox "Reader"' in tools.done("read_page", query="ada", tabId=tab_id).text


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ([{"label": "Shoe size", "value": 1}], "No field is called “Shoe size”"),
        ([{"label": "card", "value": "1"}], "read-only"),
        ([{"value": "1"}], "Field 1 needs either a ref or a label. Nothing was filled."),
        ([{"label": "o", "value": "1"}], "Several fields fit “o”: "),
    ],
)
def test_a_field_that_is_not_certain_is_an_error(
    tools: Tools, form: Form, fields: list[dict[str, object]], said: str
) -> None:
    assert said in tools.refused("fill_form", fields=fields, tabId=form.tab_id)
