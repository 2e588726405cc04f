"""Changes of a page in an action's answer: applied to the outline before, they give the outline after."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

import pytest

from tool_browser import Browsing, Tab, Tools

ROUNDS = 25
MUTATE = """
((seed) => {
  let state = seed;
  const next = (count) => (state = (state * 16807) % 2147483647) % count;
  const root = document.querySelector("main");
  const all = () => [...root.querySelectorAll("*")].filter((each) => each.children.length < 8);
  window.changes ??= 0;
  for (let n = 1 + next(4); n > 0; n--) {
    const there = all();
    const one = there[next(there.length)] ?? root;
    const made = document.createElement(["button", "li", "p", "h2", "ul"][next(5)]);
    made.textContent = "made " + ++window.changes;
    switch (next(5)) {
      case 0: one.before(made); break;
      case 1: one.append(made); break;
      case 2: one.remove(); break;
      case 3: one.setAttribute("aria-label", "called " + ++window.changes); break;
      default: one.hidden = !one.hidden;
    }
  }
})"""


@pytest.fixture(scope="module")
def tools(browsing: Browsing) -> Iterator[Tools]:
    """One client for all."""
    with browsing.client() as tools:
        tools.shows_changes = True
        yield tools


def outline_of(tools: Tools, tab_id: int) -> list[str]:
    outline: str = tools.done("read_page", tabId=tab_id).structured["outline"]
    return outline.splitlines()


def shown_changes(text: str) -> list[str]:
    """The lines between the boundary lines of an answer; without one, nothing has changed."""
    found = re.search(r"^\[(\w+): from [^\n]+\]\n(.*)\n\[\1: end\]$", text, re.MULTILINE | re.DOTALL)
    return found[2].splitlines() if found else []


def apply(before: list[str], changes: list[str]) -> list[str]:
    """The outline after the changes, made in the way that a reader would."""
    rest, made = list(before), list[str]()
    for change in changes:
        mark, line = change[0], change[2:]
        if mark == "+":
            made.append(line)
            continue
        if mark == " ":
            while not made or made[-1] != line:
                made.append(rest.pop(0))
            continue
        if folded := re.fullmatch(r"- … (\d+) more lines", change):
            del rest[: int(folded[1])]
            continue
        was = rest.pop(0)
        assert was == line if mark == "-" else ref_in(was) == ref_in(line)
        if mark == "~":
            made.append(line)
    return [*made, *rest]


def ref_in(line: str) -> str:
    found = re.search(r"\[([f\d.]+)\]", line)
    return found[1] if found else line


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_changes_of_each_action_lead_from_one_outline_to_the_next(tools: Tools, seed: int) -> None:
    tab_id = tools.open_site("index.html")
    page: Tab = tools.look(tab_id)
    rows = "".join(f"<li>Entry {n} <button>Take {n}</button></li>" for n in range(12))
    page.evaluate(f"document.body.innerHTML = `<main><h1>Changing</h1><ul>{rows}</ul></main>`; 1")
    page.evaluate(
        f"const mutate = {MUTATE}; addEventListener('keydown', () => mutate(Number(document.title)))"
    )
    before = outline_of(tools, tab_id)
    numbers, compared = random.Random(seed), 0
    for _ in range(ROUNDS):
        page.evaluate(f"document.title = {numbers.randrange(1, 2**31 - 1)}")
        answer = tools.done("computer", action="key", text="a", tabId=tab_id)
        changes = shown_changes(answer.text)
        after = outline_of(tools, tab_id)
        if any(line.startswith("… ") for line in changes):
            before = after  # more than an answer has
            continue
        assert apply(before, changes) == after
        before, compared = after, compared + 1
    assert compared > ROUNDS / 2


def test_a_click_tells_what_it_changed_and_nothing_else(tools: Tools) -> None:
    tab_id = tools.open_site("waiting.html?ms=10")
    outline_of(tools, tab_id)
    button = tools.ref_of("Show something later")
    answer = tools.done("computer", action="left_click", ref=button, tabId=tab_id)
    appeared = tools.done("wait_for", text="Something was late", tabId=tab_id)
    both = [*shown_changes(answer.text), *shown_changes(appeared.text)]
    assert [line for line in both if line.startswith("+")] == [
        line for line in both if "Something was late" in line
    ]


def test_another_page_is_shown_from_its_beginning(tools: Tools) -> None:
    tab_id = tools.open_site("moves-on.html")
    answer = tools.done("computer", action="left_click", ref=tools.ref_of("At once"), tabId=tab_id)
    assert 'heading "' in shown_changes(answer.text)[0]


def test_a_long_difference_is_cut_to_thirty_lines(tools: Tools) -> None:
    tab_id = tools.open_site("index.html")
    page = tools.look(tab_id)
    outline_of(tools, tab_id)
    buttons = "Array.from({length: 35}, (_, n) => `<button>B${n}</button>`).join('')"
    more = f"document.body.insertAdjacentHTML('beforeend', {buttons})"
    page.evaluate(f"addEventListener('keydown', () => {more}, {{once: true}})")
    lines = shown_changes(tools.done("computer", action="key", text="a", tabId=tab_id).text)
    assert len(lines) == 30
    assert lines[-1].startswith("… ")


def test_it_can_be_left_out(tools: Tools) -> None:
    tab_id = tools.open_site("moves-on.html")
    link = tools.ref_of("At once")
    answer = tools.done("computer", action="left_click", ref=link, tabId=tab_id, difference=False)
    assert shown_changes(answer.text) == []


def test_of_a_batch_the_last_step_tells_the_changes_of_all(tools: Tools) -> None:
    tools.open_site("forms.html")
    fills = [("Surname", "Lovelace"), ("Notes", "none")]
    actions = [
        {"name": "form_input", "input": {"ref": tools.ref_of(f'"{label}"'), "value": value}}
        for label, value in fills
    ]
    answer = tools.done("browser_batch", actions=actions)
    changes = [line for line in shown_changes(answer.text) if line.startswith("~")]
    assert re.findall(r'value="([^"]+)"', "\n".join(changes)) == ["Lovelace", "none"]


# ── The outline itself ──────────────────────────────────────────────────────────────────────────────────────


def test_links_have_addresses_on_request_or_without_a_name(tools: Tools) -> None:
    tab_id = tools.open_site("index.html")
    tools.look(tab_id).evaluate("document.body.innerHTML = `<a href=/one>One</a><a href=/two><img></a>`; 1")
    assert [("href=" in line) for line in outline_of(tools, tab_id) if "link" in line] == [False, True]
    assert tools.done("read_page", links=True).structured["outline"].count("href=") == 2
    ref = tools.ref_of('"One"')
    assert 'href="/one"' in tools.done("read_page", ref_id=ref).structured["outline"]


def test_a_long_run_of_like_elements_is_folded_and_can_be_opened(tools: Tools) -> None:
    tab_id = tools.open_site("index.html")
    items = "`<ul>${Array.from({length: 160}, (_, n) => `<li>Item ${n}</li>`).join('\\n')}</ul>`"
    tools.look(tab_id).evaluate(f"document.body.innerHTML = {items}; 1")
    lines = outline_of(tools, tab_id)
    assert len(lines) == 22
    folded = re.fullmatch(r"\s*… 140 more list items, \[(\d+)\]", lines[-1])
    assert folded
    opened = tools.done("read_page", ref_id=folded[1]).structured["outline"].splitlines()
    assert len(opened) == 161


def test_a_query_shows_what_is_around_its_words(tools: Tools) -> None:
    tab_id = tools.open_site("index.html")
    items = "Array.from({length: 160}, (_, n) => `<li>Item ${n} <button>Take ${n}</button></li>`).join('')"
    tools.look(tab_id).evaluate(f"document.body.innerHTML = `<h1>Top</h1><ul>${{{items}}}</ul>`; 1")
    lines = tools.done("read_page", query="TAKE 150").structured["outline"].splitlines()
    assert any('button "Take 150"' in line for line in lines)
    assert any(line.startswith("list") for line in lines)
    assert len(lines) < 8
    assert "No line has these words" in tools.done("read_page", query="nowhere at all").text


# ── Rules ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_rule_against_reading_hides_changes_and_texts_too(browsing: Browsing) -> None:
    rules = browsing.chain.home / "config.toml"
    rules.write_text('[[policy.tools]]\nname = "read_page"\nallow = false\n')
    try:
        with browsing.client("kept from reading") as tools:
            tools.shows_changes = True
            tab_id = tools.open_site("moves-on.html")
            ref = tools.done("find", query="At once", tabId=tab_id).structured["matches"][0]["ref"]
            answer = tools.done("computer", action="left_click", ref=ref, tabId=tab_id)
            assert shown_changes(answer.text) == []
            assert "read_page" in tools.refused("wait_for", text="arrived", tabId=tab_id)
            assert not tools.call("wait_for", url="/arrived", tabId=tab_id).is_error
    finally:
        rules.unlink()
