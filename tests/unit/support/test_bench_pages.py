"""The pages of `make bench-tokens` have the size of real ones, and its tasks a judge that is right."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import pytest

from benchmarks.tokens import tasks
from benchmarks.tokens.pages import make_page
from benchmarks.tokens.task_site import ORDER, Log, Request, Site
from benchmarks.tokens.tasks import Call

SITE = Site("http://localhost:1", "http://127.0.0.1:1", Log())


class Counter(HTMLParser):
    """Counts the elements, links and characters of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements = self.links = self.characters = 0
        self._is_text = True
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._is_text = tag not in {"script", "style"}
        self.elements += 1
        self.links += tag == "a" and any(name == "href" for name, _ in attrs)

    def handle_endtag(self, _tag: str) -> None:
        self._is_text = True

    def handle_data(self, data: str) -> None:
        if self._is_text:
            self.characters += len(" ".join(data.split()))


@pytest.mark.parametrize(
    ("page", "elements", "links", "characters"),
    [
        ("news", 2038, 442, 14_251),
        ("article", 2763, 848, 33_808),
        ("shop", 2564, 193, 18_348),
        ("mail", 1362, 268, 11_209),
        ("dashboard", 1125, 154, 11_247),
        ("form", 40, 2, 300),
    ],
)
def test_a_page_is_as_large_as_the_real_one(page: str, elements: int, links: int, characters: int) -> None:
    counted = Counter(make_page(page))
    assert counted.elements >= elements
    assert counted.links >= links
    assert counted.characters >= characters


def test_pages_are_the_same_at_every_run() -> None:
    assert make_page("news") == make_page("news")
    assert len(make_page("news", with_hidden=False)) < len(make_page("news"))


def test_a_script_acts_on_what_it_has_read() -> None:
    script = tasks.TASKS[4].scripts[tasks.OURS](SITE, Path("/files"))
    assert next(script).tool == "browser_batch"
    fields = [{"ref": "1", "value": "reader"}, {"ref": "2", "value": "open sesame"}]
    outline = 'textbox "User" [1]\ntextbox "Password" [2] type=password\nbutton "Sign in" [3]'
    assert script.send(outline) == Call("fill_form", {"fields": fields, "submit": True})
    with pytest.raises(StopIteration, match="128"):
        script.send('paragraph [8]: "Your balance is 128 EUR."')


def test_a_form_is_done_if_the_server_has_received_all_of_it_once() -> None:
    task = tasks.TASKS[0]
    sent = Request("/ordered", ORDER, "")
    assert task.is_done(Log([sent]), "4711")
    assert not task.is_done(Log([sent]), "")
    assert not task.is_done(Log([sent, sent]), "4711")
    assert not task.is_done(Log([Request("/ordered", {**ORDER, "city": "Bremen"}, "")]), "4711")
