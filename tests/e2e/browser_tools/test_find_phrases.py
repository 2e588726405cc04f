"""One hundred descriptions of elements: `find` has to list the element that is meant first.

Their author saw only pictures of the pages. Half of them are for the score alone: no message names them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import pytest

from benchmarks import find_phrases, peers, programs
from benchmarks.find_phrases import Phrase, first_ref, judge_ref, read_phrases, serving_pages
from benchmarks.subject import Bench
from tool_browser import Tools

LEAST = 95


def test_there_are_a_hundred_descriptions_half_of_them_for_the_score() -> None:
    assert Counter(phrase.use for phrase in read_phrases()) == {"develop": 50, "score": 50}


@pytest.fixture
def pages() -> Iterator[str]:
    with serving_pages() as url:
        yield url


def test_the_first_result_is_the_element_that_is_meant(tools: Tools, pages: str) -> None:
    wrong: list[Phrase] = []
    for page, phrases in groupby(read_phrases(), lambda phrase: phrase.page):
        tab_id: int = tools.done("navigate", url=f"{pages}/{page}").structured["tabId"]
        tab = tools.look(tab_id)
        for phrase in phrases:
            ref = first_ref(tools.done("find", query=phrase.phrase).text)
            if not tab.run(judge_ref, ref, phrase.expected):
                wrong.append(phrase)
    shown = [f"{phrase.page}: {phrase.phrase}" for phrase in wrong if phrase.use == "develop"]
    first = len(read_phrases()) - len(wrong)
    assert first >= LEAST, f"{first} of {len(read_phrases())}; of those for development: {shown}"


# ── The section of the bench ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.skipif(not peers.version(peers.PLAYWRIGHT), reason="not installed: make bench-peers")
def test_the_bench_counts_for_both_products(short_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = [phrase for phrase in read_phrases() if phrase.page == "login.html" and phrase.use == "develop"]
    named = Phrase(0, "login.html", "Show password", ["[aria-label='Show password']"], "score")
    monkeypatch.setattr(find_phrases, "read_phrases", lambda: [*page, named])
    [table] = find_phrases.tables(Bench(short_tmp, programs.build(short_tmp)))
    counts = {(row.what.split()[-1], row.load): row.p50 for row in table.rows}
    assert counts["find", "score, 1 descriptions"] == counts["browser_find", "score, 1 descriptions"] == 1
    assert counts["find", f"develop, {len(page)} descriptions"] == len(page)
