"""The site that tests of the browser's own tools are made on: what its server answers, what its pages do."""

from __future__ import annotations

import hashlib
import http.client
import json
import urllib.request
from collections.abc import Iterator
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode, urlsplit

import pytest

from site_server import BOOKS, PASSWORD, READER, SITE, Site, serving_site
from tool_browser import Browser, Tab, open_browser, trio_thread


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with serving_site() as running:
        yield running


class Visit:
    """Somebody with cookies and without scripts."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
        self.url = site.url

    def get(self, path: str) -> str:
        """The text of a page, redirects followed."""
        return self._ask(urllib.request.Request(self._site.url + path))

    def post(self, path: str, **fields: str) -> str:
        """The text of what a form leads to."""
        return self._ask(urllib.request.Request(self._site.url + path, urlencode(fields).encode()))

    def _ask(self, request: urllib.request.Request) -> str:
        with self._opener.open(request, timeout=60) as answer:
            self.url = answer.url
            return str(answer.read().decode())


@pytest.fixture
def visit(site: Site) -> Visit:
    return Visit(site)


def test_the_right_password_opens_the_account_until_the_reader_logs_out(visit: Visit) -> None:
    assert "Please log in first" in visit.get("/account.html")
    assert "This password is wrong" in visit.post("/login", reader=READER, password="guess")
    assert f"Welcome, {READER}" in visit.post("/login", reader=READER, password=PASSWORD)
    assert f"Welcome, {READER}" in visit.get("/account.html")
    assert "You have logged out" in visit.post("/logout")
    assert "Please log in first" in visit.get("/account.html")


def test_who_has_no_cookie_of_a_reader_is_not_logged_in(site: Site, visit: Visit) -> None:
    visit.post("/login", reader=READER, password=PASSWORD)
    assert "Please log in first" in Visit(site).get("/account.html")


def test_a_search_lists_the_books_with_the_words_each_with_a_page(visit: Visit) -> None:
    found = visit.get("/search.html?words=brandt")
    assert "2 found for “brandt”" in found
    assert '<a href="/book.html?number=5">The Night Ferry</a> by A. Brandt' in found
    assert "<dt>Year</dt><dd>1961</dd>" in visit.get("/book.html?number=5")
    assert "0 found for “&lt;b&gt;”" in visit.get("/search.html?words=%3Cb%3E")


def test_three_pages_of_an_application_are_kept_until_all_of_it_is_shown(visit: Visit) -> None:
    assert "Page 1 of 3" in visit.get("/membership-done.html")
    said = visit.post("/membership-1.html", name="Ada <b>", email="ada@example.org", birthday="1815-12-10")
    assert "Page 2 of 3" in said
    assert "Page 2 of 3" in visit.get("/membership-done.html")
    visit.post("/membership-2.html", branch="hill", subjects="sea", frequency="weekly")
    done = visit.post("/membership-3.html", card="#ff0000", comment="")
    assert "<dt>name</dt><dd>Ada &lt;b&gt;</dd>" in done
    assert "<dt>branch</dt><dd>hill</dd>" in done
    assert "<dt>card</dt><dd>#ff0000</dd>" in done


def test_many_and_long_are_as_large_as_they_were_asked_to_be(visit: Visit) -> None:
    many = visit.get("/many.html?elements=1000")
    assert sum(many.count(f"<{tag}") for tag in ("li>", "span>", "a ", "button>", "input ")) == 1000
    assert 100_000 < len(visit.get("/long.html?bytes=100000")) < 102_000
    assert len(visit.get("/long.html")) > 5_000_000


def test_more_of_the_endless_list_goes_on_where_it_was(visit: Visit) -> None:
    assert json.loads(visit.get("/more?from=40"))[0] == "Entry 41"


def test_what_was_sent_is_echoed_and_any_status_can_be_had(visit: Visit) -> None:
    assert json.loads(visit.get("/echo?token=t"))["query"] == {"token": "t"}
    assert json.loads(visit.post("/echo", a="b"))["body"] == "a=b"
    for code in (404, 500):
        with pytest.raises(HTTPError, match=str(code)):
            visit.get(f"/status?code={code}")


def test_redirects_lead_to_a_page(visit: Visit) -> None:
    visit.get("/redirect?hops=3")
    assert visit.url.endswith("/arrived.html")


def test_a_file_to_be_saved_says_so(site: Site) -> None:
    with urllib.request.urlopen(f"{site.url}/loans.csv", timeout=60) as answer:
        assert answer.headers["Content-Disposition"] == 'attachment; filename="loans.csv"'
        assert len(answer.read().decode().splitlines()) == len(BOOKS) + 1


def test_what_is_slow_is_answered_and_what_is_held_ends_with_the_site() -> None:
    with serving_site() as site:
        held = http.client.HTTPConnection(urlsplit(site.url).netloc, timeout=60)
        held.request("GET", "/never.svg")
        with urllib.request.urlopen(f"{site.url}/slow?ms=1", timeout=60) as answer:
            assert b"Here at last" in answer.read()
    assert held.getresponse().read().startswith(b"<svg")
    held.close()


def test_what_is_not_there_and_what_makes_no_sense_is_refused(visit: Visit) -> None:
    for path, code in (("/none.html", 404), ("/../chain.py", 404), ("/many.html?elements=x", 400)):
        with pytest.raises(HTTPError, match=str(code)):
            visit.get(path)


@pytest.mark.parametrize("file", sorted(SITE.iterdir()), ids=lambda file: file.name)
def test_each_page_is_served_and_asks_for_nothing_of_another_machine(visit: Visit, file: Path) -> None:
    if file.suffix == ".pdf":
        assert file.read_bytes().startswith(b"%PDF-1.4")
        return
    text = visit.get(f"/{file.name}")
    assert "{{" not in text
    assert not [word for word in ("https://", "//cdn", "@import") if word in text]


# From here on in a browser: what only shows there.


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with trio_thread() as thread, open_browser(thread) as opened:
        yield opened


@pytest.fixture
def tab(browser: Browser) -> Iterator[Tab]:
    opened = browser.open("about:blank")
    yield opened
    opened.close()


PAINTED = "performance.getEntriesByType('paint').length"
"""Before that a browser drops what a pointer does; a page may be loaded earlier."""


def place(tab: Tab, selector: str) -> tuple[float, float]:
    """The middle of an element, which is scrolled to, in the viewport."""
    tab.wait_until(PAINTED)
    x, y = tab.evaluate(
        f"""(() => {{
            const element = document.querySelector({json.dumps(selector)});
            element.scrollIntoView({{ block: "nearest" }});
            const {{ x, y, width, height }} = element.getBoundingClientRect();
            return [x + width / 2, y + height / 2];
        }})()"""
    )
    return x, y


def mouse(tab: Tab, kind: str, x: float, y: float, **more: Any) -> None:
    tab.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)


def press(tab: Tab, selector: str) -> None:
    """Click, as a person does."""
    x, y = place(tab, selector)
    mouse(tab, "mouseMoved", x, y)
    mouse(tab, "mousePressed", x, y, button="left", buttons=1, clickCount=1)
    mouse(tab, "mouseReleased", x, y, button="left", clickCount=1)


def press_named(tab: Tab, words: str) -> None:
    """Click the button with these words."""
    all_ = "[...document.querySelectorAll('button, a')]"
    tab.evaluate(f"{all_}.find((each) => each.textContent === {json.dumps(words)}).id = 'it'")
    press(tab, "#it")
    tab.evaluate("document.querySelector('#it')?.removeAttribute('id')")


def drag(tab: Tab, what: str, to: str, right: float = 0, down: float = 0) -> None:
    """From the middle of one element to a place beside the middle of another; both are in sight together."""
    place(tab, to)
    x, y = place(tab, what)
    to_x, to_y = place(tab, to)
    mouse(tab, "mouseMoved", x, y)
    mouse(tab, "mousePressed", x, y, button="left", buttons=1, clickCount=1)
    for part in (0.25, 0.5, 0.75, 1):
        here = x + (to_x + right - x) * part, y + (to_y + down - y) * part
        mouse(tab, "mouseMoved", *here, button="left", buttons=1)
    mouse(tab, "mouseReleased", to_x + right, to_y + down, button="left", clickCount=1)


def lines(tab: Tab) -> list[str]:
    """What the page's log says."""
    said: list[str] = tab.evaluate(
        "[...document.querySelectorAll('[role=log] li')].map((l) => l.textContent)"
    )
    return said


def said(tab: Tab, selector: str = "#said") -> str:
    """What the page says there, when it says something."""
    text: str = tab.wait_until(f"document.querySelector({json.dumps(selector)}).textContent.trim()")
    return text


def test_controls_log_who_changed_them(tab: Tab, site: Site) -> None:
    tab.load(f"{site.url}/forms.html")
    press(tab, "[name=surname]")
    tab.send("Input.insertText", text="Byron")
    tab.evaluate("form.elements.copies.dispatchEvent(new Event('input', { bubbles: true }))")
    assert lines(tab) == [
        'surname: click "" (trusted)',
        'surname: input "Byron" (trusted)',
        'copies: input "" (scripted)',
    ]


def test_a_controlled_input_takes_a_value_with_an_event_through_the_native_setter_alone(
    tab: Tab, site: Site
) -> None:
    tab.load(f"{site.url}/forms.html")
    event = "input.dispatchEvent(new Event('input', { bubbles: true }))"
    tab.evaluate("void (input.value = 'plain')")
    tab.wait_until("input.value === ''")
    tab.evaluate(f"input.value = 'plain with event'; {event}")
    tab.wait_until("input.value === ''")
    tab.evaluate(f"native.set.call(input, 'right'); {event}")
    assert said(tab, "#state") == 'the framework holds "right"'
    assert tab.evaluate("input.value") == "right"


def test_a_frame_of_the_other_origin_is_a_process_of_its_own_in_the_page_and_in_a_frame(
    browser: Browser, tab: Tab, site: Site
) -> None:
    tab.load(f"{site.url}/frames.html")
    tab.wait_until("frames[2].length === 1")
    remote = {frame["url"]: frame["targetId"] for frame in browser.targets("iframe")}
    assert set(remote) == {f"{site.elsewhere}/frame.html?name={name}" for name in ("other", "within")}
    other = browser.attach(remote[f"{site.elsewhere}/frame.html?name=other"])
    press(other, "button")
    assert lines(other) == ["other: (trusted)"]
    same = "frames[0].document.querySelector"
    tab.evaluate(f"{same}('button').click()")
    assert tab.evaluate(f"{same}('[role=log]').innerText") == "same: (scripted)"
    tab.evaluate("frames[3].document.querySelector('button').click()")
    assert tab.evaluate("frames[3].said.value") == "pressed false"


def test_shadow_roots_are_open_nested_and_closed(tab: Tab, site: Site) -> None:
    tab.load(f"{site.url}/shadow.html")
    tab.evaluate("document.querySelector('#open').shadowRoot.querySelector('button').click()")
    tab.evaluate("outer.querySelector('div').shadowRoot.querySelector('button').click()")
    tab.evaluate("inner.querySelector('button').click()")
    assert lines(tab) == ["open (scripted)", "nested (scripted)", "closed (scripted)"]
    for host in ("#closed", "sealed-box"):
        assert tab.evaluate(f"document.querySelector('{host}').shadowRoot") is None
        assert tab.evaluate(f"document.querySelector('{host}').getBoundingClientRect().height") > 0


def test_the_canvas_records_what_came_and_where(tab: Tab, site: Site) -> None:
    tab.load(f"{site.url}/canvas.html")
    left, top = tab.evaluate("(({ x, y }) => [x, y])(canvas.getBoundingClientRect())")
    left, top = left + 1, top + 1  # its border
    press_at = {"x": left + 40, "y": top + 30, "modifiers": 8, "clickCount": 1}
    mouse(tab, "mousePressed", **press_at, button="right", buttons=2)
    mouse(tab, "mouseReleased", **press_at, button="right")
    mouse(tab, "mouseWheel", left + 5, top + 6, deltaX=0, deltaY=120)
    tab.send("Input.dispatchKeyEvent", type="keyDown", key="a", code="KeyA", modifiers=2)
    tab.wait_until("recorded.some((each) => each.type === 'wheel')")
    recorded = {each["type"]: each for each in tab.evaluate("recorded")}
    assert recorded["mousedown"].items() >= {"x": 40, "y": 30, "button": 2, "held": ["shift"]}.items()
    assert "contextmenu" in recorded
    assert recorded["wheel"].items() >= {"x": 5, "y": 6, "deltaY": 120, "isTrusted": True}.items()
    assert recorded["keydown"].items() >= {"key": "a", "code": "KeyA", "held": ["ctrl"]}.items()
    assert json.loads(said(tab, "#recorded").splitlines()[-1])["type"] in ("keydown", "wheel")


def test_the_editor_formats_and_has_its_own_keys(tab: Tab, site: Site) -> None:
    tab.load(f"{site.url}/editor.html")
    press(tab, "#clear")
    press(tab, "#text")
    tab.send("Input.insertText", text="**")
    tab.send("Input.insertText", text="a point")
    assert tab.evaluate("text.querySelector('li').textContent") == "a point"
    tab.send("Input.dispatchKeyEvent", type="keyDown", key="s", code="KeyS", modifiers=2)
    assert said(tab, "#saved") == "saved: a point"
    tab.evaluate("getSelection().selectAllChildren(text)")
    press(tab, "[data-does=bold]")
    assert tab.evaluate("text.querySelector('b').textContent") == "a point"


def test_things_are_dragged_by_the_pointer_and_as_html_has_it(tab: Tab, site: Site) -> None:
    tab.load(f"{site.url}/drag.html")
    drag(tab, "#order li:first-child", "#order li:last-child", down=12)
    drag(tab, "#knob", "#knob", right=148)
    drag(tab, "#novel", "#basket")
    tab.wait_until("document.querySelector('#basket').children.length === 1")
    assert lines(tab) == [
        "order: Second, Third, First (trusted)",
        "brightness: 50 (trusted)",
        "Novel to Basket (trusted)",
    ]


def test_dropped_files_are_named_with_their_size_and_hash(tab: Tab, site: Site, tmp_path: Path) -> None:
    tab.load(f"{site.url}/drag.html")
    file = tmp_path / "knots.txt"
    file.write_bytes(b"\0reef\r\n")
    x, y = place(tab, "#zone")
    data = {"items": [], "files": [str(file)], "dragOperationsMask": 1}
    for kind in ("dragEnter", "dragOver", "drop"):
        tab.send("Input.dispatchDragEvent", type=kind, x=x, y=y, data=data)
    line = tab.wait_until("document.querySelector('[role=log] li')?.textContent")
    assert line == f"dropped knots.txt, 7 bytes, text/plain, {hashlib.sha256(file.read_bytes()).hexdigest()}"


def test_uploaded_files_are_named_with_their_size_and_hash(tab: Tab, site: Site, tmp_path: Path) -> None:
    contents = {"a.bin": bytes(range(256)) * 40 + b"\r\n", "b é.txt": b"", "c.txt": b"--x\r\n\r\n"}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    tab.load(f"{site.url}/upload.html")
    for field, names in (("manuscript", ["a.bin"]), ("drawings", ["b é.txt", "c.txt"])):
        found = tab.send("Runtime.evaluate", expression=f"document.querySelector('[name={field}]')")
        paths = [str(tmp_path / name) for name in names]
        tab.send("DOM.setFileInputFiles", files=paths, objectId=found["result"]["objectId"])
    press(tab, "button")
    tab.wait_until("document.title.startsWith('Handed in') && document.readyState === 'complete'")
    rows = tab.evaluate(
        "[...document.querySelectorAll('tr')].slice(1).map((r) => [...r.cells].map((c) => c.textContent))"
    )
    fields = ("manuscript", "drawings", "drawings")
    assert rows == [
        [field, name, str(len(content)), hashlib.sha256(content).hexdigest()]
        for field, (name, content) in zip(fields, contents.items(), strict=True)
    ]


def test_downloads_are_saved_from_the_server_and_from_the_page(
    browser: Browser, tab: Tab, site: Site, tmp_path: Path
) -> None:
    browser.send("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    tab.load(f"{site.url}/downloads.html")
    press(tab, "#note")
    press(tab, "li:first-child a")
    browser.until(lambda: {file.name for file in tmp_path.iterdir()} == {"note.txt", "loans.csv"})
    assert (tmp_path / "note.txt").read_text() == "Back on Monday.\n"


def test_dialogs_are_open_until_they_are_answered_and_say_what_came_back(tab: Tab, site: Site) -> None:
    tab.load(f"{site.url}/dialogs.html")
    for number, kind, answer, result in (
        (0, "alert", {"accept": True}, "alert was closed"),
        (1, "confirm", {"accept": False}, "confirm gave false"),
        (2, "prompt", {"accept": True, "promptText": "Ada"}, 'prompt gave "Ada"'),
    ):
        click = f"void setTimeout(() => document.querySelectorAll('button')[{number}].click())"
        assert tab.heard("Page.javascriptDialogOpening", click)["type"] == kind
        tab.send("Page.handleJavaScriptDialog", **answer)
        tab.wait_until(f"document.querySelector('#said').textContent === {json.dumps(result)}")


def test_a_page_with_a_draft_asks_before_it_is_left(tab: Tab, site: Site) -> None:
    tab.load(f"{site.url}/leaving.html")
    press(tab, "input")
    tab.send("Input.insertText", text="Dear reader")
    leave = "void setTimeout(() => document.querySelector('a').click())"
    assert tab.heard("Page.javascriptDialogOpening", leave)["type"] == "beforeunload"
    tab.send("Page.handleJavaScriptDialog", accept=True)
    tab.wait_until("document.title.startsWith('Arrived')")


def test_more_entries_come_when_the_end_is_seen(tab: Tab, site: Site) -> None:
    tab.load(f"{site.url}/endless.html")
    first = tab.wait_until("list.children.length")
    tab.evaluate("end.scrollIntoView()")
    tab.wait_until(f"list.children.length > {first}")


def test_large_pages_are_as_large_as_they_say(tab: Tab, site: Site) -> None:
    tab.load(f"{site.url}/many.html")
    assert tab.evaluate("document.querySelectorAll('#items *').length") == 50_000
    tab.load(f"{site.url}/tall.html")
    assert tab.evaluate("document.documentElement.scrollHeight") > 6000


def test_noise_is_heard_in_console_and_network(tab: Tab, site: Site) -> None:
    tab.load(f"{site.url}/noise.html")
    for id_, words in {
        "fetch": "monday",
        "xhr": "XMLHttpRequest",
        "post": r"{\"reader\": \"ada\"}",
        "secret": "Bearer s3cr3t-bearer",
        "missing": "Not Found",
        "broken": "Internal Server Error",
        "abort": "AbortError",
        "unreachable": "TypeError",
    }.items():
        press(tab, f"#{id_}")
        tab.wait_until(f"document.querySelector('#said').textContent.includes({json.dumps(words)})")
    tab.evaluate(
        "for (const name of ['debug', 'log', 'info', 'warn', 'error']) console[name] = (t) => say(t)"
    )
    tab.evaluate("addEventListener('error', (e) => say(e.message))")
    tab.evaluate("addEventListener('unhandledrejection', (e) => say(e.reason.message))")
    for id_, words in {"levels": "an error", "throw": "thrown", "reject": "rejected"}.items():
        press(tab, f"#{id_}")
        tab.wait_until(f"document.querySelector('#said').textContent.includes({json.dumps(words)})")


def test_pages_wait_for_what_is_slow_and_one_is_never_loaded(tab: Tab, site: Site) -> None:
    tab.load(f"{site.url}/slow-parts.html?ms=50")
    assert said(tab, "#script") == "ran"
    assert tab.evaluate("document.images[0].naturalWidth") == 80
    tab.send("Page.navigate", url=f"{site.url}/never.html")
    tab.wait_until("document.title.startsWith('Never') && document.readyState === 'interactive'")
    press(tab, "button")
    assert said(tab) == "interactive"


def test_pages_go_elsewhere_by_themselves_and_through_history(tab: Tab, site: Site) -> None:
    tab.load(f"{site.url}/moves-on.html?ms=10")
    press(tab, "button")
    tab.wait_until("document.title.startsWith('Arrived')")
    tab.load(f"{site.url}/history.html")
    press_named(tab, "Chapter 1")
    press_named(tab, "Chapter 2")
    assert tab.evaluate("location.search + chapter.textContent") == "?chapter=2Chapter 2"
    tab.evaluate("history.back()")
    tab.wait_until("chapter.textContent === 'Chapter 1'")


def test_buttons_move_get_covered_are_replaced_and_wait(tab: Tab, site: Site) -> None:
    tab.load(f"{site.url}/moving.html?ms=10")
    before = place(tab, "#leaper")
    press(tab, "[data-does=leap]")
    tab.wait_until("at('leaper').style.marginLeft")
    assert place(tab, "#leaper") != before
    press(tab, "[data-does=cover]")
    press(tab, "#covered")
    press(tab, "[data-does=uncover]")
    press(tab, "#covered")
    press(tab, "#again")
    press(tab, "[data-does=replace]")
    press(tab, "#again")
    press(tab, "#shy")
    assert lines(tab) == ["covered (trusted)", "again (trusted)", "again, the new one (trusted)"]
    press(tab, "[data-does=hold]")
    tab.wait_until("!at('busy').disabled")
    press(tab, "[data-does=slide]")
    assert tab.evaluate("at('sliding').getAnimations().length") == 1


def test_links_and_scripts_open_further_tabs(browser: Browser, tab: Tab, site: Site) -> None:
    tab.load(f"{site.url}/windows.html")
    press_named(tab, "Arrive in a new tab")
    tab.send("Page.bringToFront")  # a tab that is not shown takes 5 s for a click
    press_named(tab, "Open a window")
    assert said(tab) == "opened"
    for by in ("link", "script"):
        browser.until_open(f"{site.url}/arrived.html?by={by}").close()


def test_the_names_of_the_zoo_are_what_the_browser_computes(tab: Tab, site: Site) -> None:
    tab.load(f"{site.url}/names.html")
    assert computed_names(tab) == tab.evaluate(
        "[...document.querySelectorAll('[data-name]')].map((e) => e.dataset.name)"
    )


def computed_names(tab: Tab) -> list[str]:
    """The accessible name of each [data-name], in the browser's opinion."""
    root = tab.send("DOM.getDocument")["root"]["nodeId"]
    found = tab.send("DOM.querySelectorAll", nodeId=root, selector="[data-name]")["nodeIds"]
    trees = (tab.send("Accessibility.getPartialAXTree", nodeId=node, fetchRelatives=False) for node in found)
    return [tree["nodes"][0].get("name", {}).get("value", "").strip() for tree in trees]
