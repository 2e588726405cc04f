"""The code that runs in documents: values for form controls, the focus, and files, in a real Chromium."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from page_scripts import InPage, InPageError
from tool_browser import Browser, open_browser, trio_thread


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with trio_thread() as thread, open_browser(thread) as opened:
        yield opened


@pytest.fixture(scope="module")
def page(browser: Browser) -> InPage:
    return InPage(browser.open("about:blank"))


CONTROL = "input, textarea, select, button, [role], [contenteditable]"


def fill(page: InPage, value: Any, selector: str = CONTROL) -> Any:
    return page.call("fill", ref=page.ref(selector), value=value)


SELECT = "<select><option value=r>Red<option value=g>Green<option value=gr>Grey<option disabled>Gold</select>"
SEVERAL = "<select multiple><option selected>Red<option>Green<option>Red, dark</select>"
FILLED = {
    "text": ("<input value=old>", "new", "new"),
    "text_that_is_a_number": ("<input>", 7, "7"),
    "nothing": ("<input value=old>", "", ""),
    "email": ("<input type=email>", "a@b.example", "a@b.example"),
    "text_of_several_lines": ("<textarea></textarea>", "a\nb", "a\nb"),
    "number": ("<input type=number min=0 max=10 step=0.5>", 2.5, "2.5"),
    "number_as_text": ("<input type=number>", " 12 ", "12"),
    "no_number": ("<input type=number value=3>", "", ""),
    "range": ("<input type=range>", 70, "70"),
    "date": ("<input type=date>", "2026-11-22", "2026-11-22"),
    "date_with_slashes": ("<input type=date>", "2026/1/2", "2026-01-02"),
    "date_in_words": ("<input type=date>", "22 November 2026", "2026-11-22"),
    "date_in_American_words": ("<input type=date>", "Nov. 2nd, 2026", "2026-11-02"),
    "time": ("<input type=time>", "14:30", "14:30"),
    "time_after_noon": ("<input type=time>", "2:30 pm", "14:30"),
    "midnight": ("<input type=time>", "12 am", "00:00"),
    "moment": ("<input type=datetime-local>", "2026-11-22 14:30", "2026-11-22T14:30"),
    "moment_in_words": ("<input type=datetime-local>", "November 22, 2026, 2:30 p.m.", "2026-11-22T14:30"),
    "month": ("<input type=month>", "11/2026", "2026-11"),
    "month_in_words": ("<input type=month>", "November 2026", "2026-11"),
    "week": ("<input type=week>", "week 7 2026", "2026-W07"),
    "color": ("<input type=color>", "#F80", "#ff8800"),
    "color_by_name": ("<input type=color>", "teal", "#008080"),
    "color_as_a_function": ("<input type=color>", "rgb(1, 2, 3)", "#010203"),
    "option_by_value": (SELECT, "g", "g"),
    "option_by_label": (SELECT, "Green", "g"),
    "option_by_label_in_small_letters": (SELECT, "green", "g"),
    "option_by_the_beginning_of_its_label": (SELECT, "re", "r"),
}
CHECKED = {
    "checked": ("<input type=checkbox>", True, True),
    "checked_as_text": ("<input type=checkbox>", "on", True),
    "unchecked": ("<input type=checkbox checked>", False, False),
    "checked_already": ("<input type=checkbox checked>", True, True),
    "checked_that_is_not_shown": ("<input type=checkbox style='display:none'>", True, True),
    "chosen": ("<input type=radio name=a><input type=radio name=a checked>", "true", True),
}


@pytest.mark.parametrize(("html", "value", "holds"), FILLED.values(), ids=FILLED.keys())
def test_a_control_is_filled_with(page: InPage, html: str, value: str | float, holds: str) -> None:
    page.show(html)
    page.tab.evaluate(
        """globalThis.told = [];
        for (const type of ["input", "change"]) {
          addEventListener(type, ({ target }) => told.push([type, target.value]), true);
        }"""
    )
    assert fill(page, value)["ok"] is True
    assert page.tab.evaluate("document.querySelector('input, textarea, select').value") == holds
    assert page.tab.evaluate("told") == [["input", holds], ["change", holds]]
    assert page.tab.evaluate("document.activeElement.localName") in {"input", "textarea", "select"}


@pytest.mark.parametrize(("html", "value", "is_checked"), CHECKED.values(), ids=CHECKED.keys())
def test_a_box_is(page: InPage, html: str, value: str | bool, is_checked: bool) -> None:
    assert fill(page.show(html), value)["ok"] is True
    assert page.tab.evaluate("document.querySelector('input').checked") is is_checked


@pytest.mark.parametrize(
    ("value", "chosen"),
    [
        ('["Green", "Red"]', ["Red", "Green"]),
        ("Green", ["Green"]),
        ("red, green", ["Red", "Green"]),
        ("Red, dark", ["Red, dark"]),
        ("", []),
    ],
)
def test_of_several_options_are_chosen(page: InPage, value: str, chosen: list[str]) -> None:
    assert fill(page.show(SEVERAL), value)["ok"] is True
    labels = "Array.from(document.querySelector('select').selectedOptions, option => option.label)"
    assert page.tab.evaluate(labels) == chosen


def test_it_says_what_was_there_and_what_is_there_now(page: InPage) -> None:
    page.show("<label>Town <input value=Kiel></label>")
    assert fill(page, "Bergen") == {
        "ok": True,
        "was": "Kiel",
        "now": "Bergen",
        "role": "textbox",
        "name": "Town",
        "kind": "text",
    }


def test_what_is_secret_is_not_told(page: InPage) -> None:
    answer = fill(page.show("<input type=password>"), "secret")
    assert (answer["ok"], answer["was"], answer["now"]) == (True, "", "•••")


UNFIT = {
    "a_date_that_can_be_read_in_two_ways": (
        "<input type=date aria-label=Day>",
        "22.11.2026",
        'unfit: The textbox "Day" takes a date in the form 2026-11-22, not "22.11.2026".',
    ),
    "a_day_that_there_is_not": (
        "<input type=date aria-label=Day>",
        "2026-02-30",
        'unfit: The textbox "Day" takes a date in the form 2026-11-22, not "2026-02-30".',
    ),
    "a_day_out_of_bounds": (
        "<input type=date aria-label=Day min=2026-01-01>",
        "2025-12-31",
        'unfit: The textbox "Day" takes a date in the form 2026-11-22 from 2026-01-01, not "2025-12-31".',
    ),
    "no_number": (
        "<input type=number aria-label=n>",
        "seven",
        'unfit: The spinbutton "n" takes a number such as 1234.5, not "seven".',
    ),
    "a_number_out_of_bounds": (
        "<input type=number aria-label=n min=1 max=9>",
        12,
        'unfit: The spinbutton "n" takes a number from 1 to 9, not "12".',
    ),
    "a_number_between_steps": (
        "<input type=range aria-label=n step=5>",
        7,
        'unfit: The slider "n" takes a number from 0 to 100 in steps of 5, not "7".',
    ),
    "no_color": (
        "<input type=color aria-label=c>",
        "reddish",
        'unfit: The textbox "c" takes an opaque color such as #ff8800 or teal, not "reddish".',
    ),
    "an_option_that_there_is_not": (
        f"<label>Hue {SELECT}</label>",
        "Blue",
        'unfit: The combobox "Hue" has no option "Blue": it has "Red", "Green", "Grey", "Gold".',
    ),
    "a_beginning_of_two_options": (SELECT, "gre", 'unfit: "gre" may mean "Green", "Grey".'),
    "an_option_that_is_disabled": (SELECT, "Gold", 'disabled: The option "Gold" is disabled.'),
    "too_long_a_text": (
        "<input aria-label=t maxlength=3>",
        "four",
        'unfit: The textbox "t" takes at most 3 characters.',
    ),
    "two_lines_for_one": ("<input aria-label=t>", "a\nb", 'unfit: The textbox "t" takes one line.'),
    "neither_true_nor_false": (
        "<input type=checkbox aria-label=b>",
        "maybe",
        'unfit: The checkbox "b" takes true or false, not "maybe".',
    ),
    "a_choice_taken_back": (
        "<input type=radio aria-label=b checked>",
        False,
        'unfit: The radio "b" is one of several choices: set another one to true.',
    ),
    "a_file": (
        "<input type=file aria-label=f>",
        "a.txt",
        'unfit: The button "f" takes files: use file_upload or upload_image.',
    ),
    "a_disabled_control": ("<input aria-label=t disabled>", "x", 'disabled: The textbox "t" is disabled.'),
    "a_read_only_one": ("<input aria-label=t readonly>", "x", 'disabled: The textbox "t" is read-only.'),
    "one_that_is_not_shown": (
        "<input aria-label=t style='display:none'>",
        "x",
        'hidden: The textbox "t" is not shown.',
    ),
    "a_hidden_field": (
        "<input type=hidden id=h>",
        "x",
        'hidden: The input with the id "h" is a hidden field, which users cannot fill in.',
    ),
    "a_button": ("<button>Go</button>", "x", 'unfit: The button "Go" has no value: click it.'),
    "a_list_of_the_page_s_own": (
        "<div role=combobox aria-label=c tabindex=0></div>",
        "x",
        'unfit: The combobox "c" is the page\'s own: click it, then click an option.',
    ),
    "a_slider_of_the_page_s_own": (
        "<div role=slider aria-label=s tabindex=0></div>",
        "5",
        'unfit: The slider "s" is the page\'s own: click it, then press arrow keys.',
    ),
}


@pytest.mark.parametrize(("html", "value", "said"), UNFIT.values(), ids=UNFIT.keys())
def test_a_control_is_not_filled_with(page: InPage, html: str, value: str | float, said: str) -> None:
    page.show(html)
    page.tab.evaluate("globalThis.told = 0; oninput = onchange = () => told++")
    before = page.tab.evaluate("document.body.querySelector('input, select')?.value")
    with pytest.raises(InPageError) as raised:
        fill(page, value)
    assert str(raised.value) == said
    assert page.tab.evaluate("told") == 0
    assert page.tab.evaluate("document.body.querySelector('input, select')?.value") == before


def test_a_framework_that_watches_its_control_takes_the_value(page: InPage) -> None:
    """As React does: a setter on the element remembers, and an `input` that brings nothing else is none."""
    page.show("<input>")
    page.tab.evaluate(
        """const input = document.querySelector("input");
        const native = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value");
        let known = "";
        globalThis.state = "";
        Object.defineProperty(input, "value", {
          get() { return native.get.call(this); },
          set(value) { known = value; native.set.call(this, value); },
        });
        input.addEventListener("input", () => {
          if (native.get.call(input) === known) return;
          known = state = native.get.call(input);
        });"""
    )
    assert fill(page, "typed")["ok"] is True
    assert page.tab.evaluate("state") == "typed"


def test_it_says_that_the_page_has_undone_the_value(page: InPage) -> None:
    page.show("<input value=old>")
    page.tab.evaluate("oninput = ({ target }) => { target.value = 'mine'; }")
    answer = fill(page, "new")
    assert (answer["ok"], answer["now"]) == (False, "mine")


def test_a_label_means_its_control(page: InPage) -> None:
    page.show("<label for=t>Town</label><input id=t>")
    assert fill(page, "Kiel", "label")["role"] == "textbox"
    assert page.tab.evaluate("document.querySelector('input').value") == "Kiel"


@pytest.mark.parametrize("text", ["new words", "two\nlines", ""])
def test_an_editor_hears_what_is_typed_over_its_text(page: InPage, text: str) -> None:
    page.show("<div contenteditable aria-label=Story>old <b>words</b></div>")
    page.tab.evaluate(
        """globalThis.heard = [];
        for (const type of ["beforeinput", "input"]) addEventListener(type, () => heard.push(type), true);"""
    )
    answer = fill(page, text)
    assert (answer["ok"], answer["was"], answer["kind"]) == (True, "old words", "editor")
    assert page.tab.evaluate("document.querySelector('div').innerText").split() == text.split()
    heard = page.tab.evaluate("heard")
    assert heard[0] == "beforeinput"
    assert "input" in heard


def test_an_editor_that_keeps_its_text_itself_makes_the_edit(page: InPage) -> None:
    page.show("<div contenteditable aria-label=Story>old</div>")
    page.tab.evaluate(
        """addEventListener("beforeinput", (event) => {
          event.preventDefault();
          setTimeout(() => { event.target.textContent = event.data; });
        });"""
    )
    assert fill(page, "new")["ok"] is True
    assert page.tab.evaluate("document.querySelector('div').textContent") == "new"


def test_a_widget_that_says_whether_it_is_checked_is_clicked(page: InPage) -> None:
    page.show("<div role=switch aria-checked=false tabindex=0>Wifi</div>")
    page.tab.evaluate(
        """document.querySelector("div").onclick = ({ target }) =>
          setTimeout(() => { target.ariaChecked = String(target.ariaChecked !== "true"); });"""
    )
    assert fill(page, True) == {
        "ok": True,
        "was": "false",
        "now": "true",
        "role": "switch",
        "name": "Wifi",
        "kind": "aria",
    }
    assert fill(page, True)["ok"] is True
    assert page.tab.evaluate("document.querySelector('div').ariaChecked") == "true"


def test_a_widget_that_does_not_change_is_told(page: InPage) -> None:
    page.show("<div role=checkbox aria-checked=false tabindex=0>Wifi</div>")
    answer = fill(page, True)
    assert (answer["ok"], answer["now"]) == (False, "false")


def test_a_field_in_a_shadow_tree_is_filled_and_its_host_hears_it(page: InPage) -> None:
    page.show("<div></div>")
    page.tab.evaluate(
        """const host = document.querySelector("div");
        host.attachShadow({ mode: "open" }).innerHTML = "<input aria-label=Deep>";
        globalThis.heard = 0;
        host.addEventListener("input", () => heard++);"""
    )
    (match,) = page.find("deep", limit=1)
    assert page.call("fill", ref=match["ref"], value="x")["ok"] is True
    assert page.tab.evaluate("heard") == 1


# ── What has the focus ──────────────────────────────────────────────────────────────────────────────────────


def test_nothing_has_the_focus_at_first(page: InPage) -> None:
    assert page.show("<input>").call("focusInfo")["ref"] == 0


@pytest.mark.parametrize(
    ("html", "role", "editable", "selection"),
    [
        ("<input value='some text'>", "textbox", True, "some text"),
        ("<textarea>more</textarea>", "textbox", True, "more"),
        ("<div contenteditable>rich <b>text</b></div>", "textbox", True, "rich text"),
        ("<input type=password value=secret>", "textbox", True, ""),
        ("<button>Go</button>", "button", False, "Go"),
        ("<input readonly value=fixed>", "textbox", False, "fixed"),
    ],
)
def test_what_has_the_focus_once_it_is_selected(
    page: InPage, html: str, role: str, editable: bool, selection: str
) -> None:
    page.show(html)
    focused = page.call("select", ref=page.ref(CONTROL))
    assert (focused["role"], focused["editable"], focused["selection"]) == (role, editable, selection)


# ── Files ───────────────────────────────────────────────────────────────────────────────────────────────────


def send(page: InPage, content: bytes, name: str, mime_type: str = "text/plain") -> dict[str, str]:
    """In pieces of 30 000 bytes."""
    transfer = hashlib.sha256(content + name.encode()).hexdigest()
    for start in range(0, max(len(content), 1), 30_000):
        piece = content[start : start + 30_000]
        last = start + 30_000 >= len(content)
        page.call("receive", transfer=transfer, chunk=base64.b64encode(piece).decode(), last=last)
    return {"transfer": transfer, "name": name, "mimeType": mime_type}


BYTES = bytes(range(256)) * 400


def test_a_file_input_gets_files(page: InPage) -> None:
    page.show("<input type=file aria-label=Pictures accept='.png, text/*' multiple>")
    page.tab.evaluate(
        """globalThis.told = [];
        oninput = onchange = async ({ type, target }) =>
          told.push([type, ...await Promise.all(Array.from(target.files, async (file) =>
            [file.name, file.type, Array.from(new Uint8Array(await file.arrayBuffer()))]))]);"""
    )
    files = [send(page, BYTES, "a.png", "image/png"), send(page, b"", "b.txt")]
    given = page.call("giveFiles", ref=page.ref("input"), files=files)
    assert given == {
        "how": "input",
        "accepted": ["a.png", "b.txt"],
        "role": "button",
        "name": "Pictures",
        "shows": "",
    }
    both = [["a.png", "image/png", list(BYTES)], ["b.txt", "text/plain", []]]
    assert page.tab.wait_until("told.length === 2 && told") == [["input", *both], ["change", *both]]


@pytest.mark.parametrize(
    ("html", "said"),
    [
        (
            "<input type=file aria-label=f accept=image/*>",
            'unfit: The button "f" takes "image/*", not "a.txt" (text/plain).',
        ),
        ("<input type=file aria-label=f disabled>", 'disabled: The button "f" is disabled.'),
        (
            "<div role=region aria-label=f>Words</div>",
            (
                'unfit: The region "f" takes no files: neither is it a file input '
                "nor does it let anything be dropped."
            ),
        ),
    ],
)
def test_files_are_not_given_to(page: InPage, html: str, said: str) -> None:
    page.show(html)
    with pytest.raises(InPageError) as raised:
        page.call("giveFiles", ref=page.ref("[aria-label=f]"), files=[send(page, b"x", "a.txt")])
    assert str(raised.value) == said


def test_one_file_is_given_to_an_input_for_one(page: InPage) -> None:
    page.show("<label>Letter <input type=file></label>")
    files = [send(page, b"x", "a.txt"), send(page, b"y", "b.txt")]
    with pytest.raises(InPageError, match=r'^unfit: The button "Letter" takes one file, not 2\.$'):
        page.call("giveFiles", ref=page.ref("input"), files=files)
    assert page.call("giveFiles", ref=page.ref("label"), files=files[:1])["accepted"] == ["a.txt"]


def test_files_are_dropped_where_they_may_be(page: InPage) -> None:
    page.show("<div id=zone style='position:fixed;inset:0'>Drop here</div>")
    page.tab.evaluate(
        """globalThis.told = [];
        for (const type of ["dragenter", "dragover", "drop"]) zone.addEventListener(type, (event) => {
          event.preventDefault();
          told.push([type, event.clientX, event.dataTransfer.files.length]);
          if (type === "drop") zone.textContent = `Got ${event.dataTransfer.files[0].name}`;
        });"""
    )
    given = page.call("giveFiles", x=50, y=40, files=[send(page, b"x", "a.txt")])
    assert (given["how"], given["accepted"], given["shows"]) == ("drop", ["a.txt"], "Got a.txt")
    assert [told[:2] for told in page.tab.evaluate("told")] == [
        ["dragenter", 50],
        ["dragover", 50],
        ["drop", 50],
    ]


def test_a_transfer_that_has_not_arrived_is_no_file(page: InPage) -> None:
    page.show("<input type=file>")
    page.call("receive", transfer="half", chunk="AAAA")
    with pytest.raises(InPageError, match="the transfer half has not arrived"):
        page.call("giveFiles", ref=page.ref("input"), files=[{"transfer": "half", "name": "a"}])


def test_the_browser_saves_a_file(browser: Browser, page: InPage, tmp_path: Path) -> None:
    browser.send("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    page.show("<p>x</p>")
    sent = send(page, b"GIF89a", "film.gif", "image/gif")
    assert page.call("download", **sent) == {"size": 6}
    saved = tmp_path / "film.gif"
    browser.until(lambda: saved.exists() and saved.read_bytes() == b"GIF89a")
