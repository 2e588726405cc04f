"""The Firefox that tests drive: it starts, answers, and is gone afterwards."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from demo.chromium import ScriptError
from firefox import Firefox, FirefoxError, FirefoxGoneError, open_firefox

pytestmark = pytest.mark.firefox

PAGE = "data:text/html,<title>hello</title><script>var tea = 'green'</script>"


@pytest.fixture
async def firefox(short_tmp: Path) -> AsyncIterator[Firefox]:
    with trio.fail_after(90):
        async with open_firefox(short_tmp, env={"TMPDIR": str(short_tmp)}) as browser:
            yield browser


async def test_a_page_is_loaded_and_asked(firefox: Firefox) -> None:
    page = await firefox.open_page(PAGE)
    assert await page.evaluate("document.title") == "hello"
    assert await page.evaluate("Promise.resolve({a: [1, 'é']})") == {"a": [1, "é"]}
    assert await page.evaluate("tea") == "green"
    assert firefox.version.split(".")[0].isdigit()


async def test_commands_to_two_pages_at_once_reach_each_its_own(firefox: Firefox) -> None:
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


async def test_a_page_is_opened_after_another_was_closed(firefox: Firefox) -> None:
    await (await firefox.open_page(PAGE)).close()
    page = await firefox.open_page(PAGE)
    assert await page.evaluate("document.title") == "hello"


async def test_an_answer_that_nobody_waited_for_is_not_taken_for_the_next(firefox: Firefox) -> None:
    page = await firefox.open_page(PAGE)
    with pytest.raises(trio.TooSlowError):
        await page.evaluate("new Promise((resolve) => setTimeout(() => resolve('late'), 500))", timeout_s=0.2)
    assert await page.evaluate("document.title") == "hello"


async def test_what_a_script_throws_is_raised(firefox: Firefox) -> None:
    page = await firefox.open_page(PAGE)
    with pytest.raises(ScriptError, match="no such tea"):
        await page.evaluate("(() => { throw new Error('no such tea'); })()")


async def test_a_page_that_cannot_be_loaded_is_an_error_and_leaves_no_tab(firefox: Firefox) -> None:
    before = await firefox.pages()
    with pytest.raises(FirefoxError, match="error page"):
        await firefox.open_page("http://127.0.0.1:1/")
    assert await firefox.pages() == before


async def test_an_extension_that_firefox_refuses_is_an_error_in_its_words(
    firefox: Firefox, short_tmp: Path
) -> None:
    with pytest.raises(FirefoxError, match="No such file"):
        await firefox.load_extension(short_tmp / "nothing")


async def test_a_browser_that_was_killed_leaves_nothing_to_wait_for(short_tmp: Path) -> None:
    with trio.fail_after(60):
        async with open_firefox(short_tmp, env={"TMPDIR": str(short_tmp)}) as browser:
            page = await browser.open_page(PAGE)
            await browser.kill()
            with pytest.raises(FirefoxGoneError):
                await page.evaluate("1")
