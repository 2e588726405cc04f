"""The Firefox that tests drive: it starts, answers, and is gone afterwards."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from demo.chromium import ScriptError
from real_firefox import Firefox, FirefoxError, FirefoxGoneError, open_firefox

PAGE = "data:text/html,<title>hello</title><script>var tea = 'green'</script>"


@pytest.fixture
async def firefox(short_tmp: Path) -> AsyncIterator[Firefox]:
    with trio.fail_after(200):
        async with open_firefox(short_tmp, env={"TMPDIR": str(short_tmp)}) as browser:
            yield browser


async def test_pages_are_loaded_and_asked_each_its_own_also_at_once_and_when_another_was_closed(
    firefox: Firefox,
) -> None:
    page = await firefox.open_page(PAGE)
    assert await page.evaluate("document.title") == "hello"
    assert await page.evaluate("Promise.resolve({a: [1, 'é']})") == {"a": [1, "é"]}
    assert await page.evaluate("tea") == "green"
    assert firefox.version.split(".")[0].isdigit()
    await page.close()

    pages = {
        tea: await firefox.open_page(f"data:text/html,<title>{tea}</title>") for tea in ("green", "black")
    }
    answers: list[tuple[str, str]] = []

    async def ask(tea: str) -> None:
        for _ in range(20):
            answers.append((tea, await pages[tea].evaluate("document.title")))  # noqa: PERF401 - one after the other

    async with trio.open_nursery() as nursery:
        for tea in pages:
            nursery.start_soon(ask, tea)
    assert set(answers) == {("green", "green"), ("black", "black")}


async def test_what_goes_wrong_is_an_error_in_its_own_words_and_does_no_harm_to_what_comes_next(
    firefox: Firefox, short_tmp: Path
) -> None:
    page = await firefox.open_page(PAGE)
    with pytest.raises(trio.TooSlowError):
        await page.evaluate("new Promise((resolve) => setTimeout(() => resolve('late'), 500))", timeout_s=0.2)
    assert await page.evaluate("document.title") == "hello"  # the late answer is not taken for this one
    with pytest.raises(ScriptError, match="no such tea"):
        await page.evaluate("(() => { throw new Error('no such tea'); })()")
    before = await firefox.pages()
    with pytest.raises(FirefoxError, match="error page"):
        await firefox.open_page("http://127.0.0.1:1/")
    assert await firefox.pages() == before  # no tab is left behind
    with pytest.raises(FirefoxError, match="No such file"):
        await firefox.load_extension(short_tmp / "nothing")
    await firefox.kill()
    with pytest.raises(FirefoxGoneError):
        await page.evaluate("1")
