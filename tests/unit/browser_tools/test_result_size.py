"""The size of results: what is cut, what the text says of it, and the limit as JSON."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from bridge.browser_tools.result_size import cut_page_text
from bridge.browser_tools.tool_output import ToolOutput, ToolResult, make_success

LIMIT = 45_000
ADVICE = "ask for less"
WORDS = st.sampled_from(["a", '"', "\\", "\n", "é", "字", "\u2028", "tea for two "])


def texts_of(answer: ToolResult) -> list[str]:
    result = json.loads(make_success(answer, is_structured=False).result)
    return [block["text"] for block in result["content"]]


@given(word=WORDS, times=st.integers(0, 60_000), origin=st.sampled_from(["", "https://shop.example"]))
def test_the_texts_of_a_result_keep_the_limit_as_json(word: str, times: int, origin: str) -> None:
    answer = ToolResult(ToolOutput(message="Read."), page=word * times, origin=origin)
    shown = texts_of(cut_page_text(answer, LIMIT, ADVICE))
    assert sum(len(json.dumps(text, ensure_ascii=False)) for text in shown) <= LIMIT


def test_what_fits_stays_as_it_is() -> None:
    answer = ToolResult(ToolOutput(message="Read."), page="tea " * 10_000)
    assert cut_page_text(answer, LIMIT, ADVICE) is answer


def test_a_cut_is_said_outside_the_boundary_with_what_shows_more() -> None:
    answer = ToolResult(ToolOutput(message="Read."), page="tea " * 20_000, origin="https://shop.example")
    message, page = texts_of(cut_page_text(answer, LIMIT, ADVICE))
    assert message.startswith("Read. The answer is cut after 44")
    assert message.endswith("of 80000 characters: ask for less.")
    assert page.startswith("[")
    assert page.endswith(": end]")
