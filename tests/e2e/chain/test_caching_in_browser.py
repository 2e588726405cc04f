"""Tools that outlive their page, in real Chromium: browser and bridge may both have been closed since."""

from __future__ import annotations

import pytest
import trio

from demo.chromium import Chromium
from full_chain import Chain, call, page_tools, until_listed


@pytest.fixture(autouse=True)
def allowed(chain: Chain) -> None:
    """The user has turned the tools of all sites on: tests/e2e/security has the questions."""
    (chain.home / "config.toml").write_text('[[pages.sites]]\norigin = "*"\ntools = "on"\n')


async def pages_of(browser: Chromium, chain: Chain) -> list[str]:
    """The addresses of the test pages that are open."""
    urls = [str(target["url"]) for target in await browser.targets()]
    return [url.removeprefix(chain.pages) for url in urls if url.startswith(chain.pages)]


async def visit(chain: Chain, page: str) -> None:
    """A browser shows the page, a bridge hears of it, and both go."""
    async with chain.browser() as browser, chain.client() as client:
        await chain.open(browser, page)
        await until_listed(client, lambda names: chain.name("count") in names)


async def test_it_is_opened_and_run_once_after_browser_and_bridge_were_closed(chain: Chain) -> None:
    with trio.fail_after(120):
        await visit(chain, "kept.html?secret=1#top")
        async with chain.client() as client:
            kept = chain.name("count", tab=None)
            assert await page_tools(client) == {kept}
            is_error, text = await call(client, kept)
            assert is_error
            assert "is not running; start that browser, or open the page. Nothing was run." in text
            async with chain.browser() as browser:
                await until_connected(chain)
                assert await pages_of(browser, chain) == []
                assert await call(client, kept) == (False, "/kept.html?secret=1 run 1")
                assert await pages_of(browser, chain) == ["/kept.html?secret=1"]
                assert await call(client, kept) == (False, "/kept.html?secret=1 run 2")
                assert len(await pages_of(browser, chain)) == 1


async def until_connected(chain: Chain) -> None:
    with trio.fail_after(60):
        while not (await chain.status())["browsers"]:
            pass


async def test_what_its_page_does_not_let_us_keep_is_gone_at_once(chain: Chain, browser: Chromium) -> None:
    with trio.fail_after(120):
        async with chain.client() as client:
            tab = await chain.open(browser, "kept.html")
            names = await until_listed(client, lambda names: len(names) == 2)
            assert names == {chain.name("count"), chain.name("fleeting")}
            await tab.close()
            assert await until_listed(client, lambda names: len(names) == 1) == {
                chain.name("count", tab=None)
            }
            is_error, text = await call(client, chain.name("fleeting"))
            assert is_error
            assert "no longer offers" in text


async def test_a_page_whose_server_comes_late_is_waited_for(chain: Chain, browser: Chromium) -> None:
    with trio.fail_after(120):
        async with chain.client() as client:
            tab = await chain.open(browser, "kept.html?late=1500")
            await until_listed(client, lambda names: len(names) == 2)
            await tab.close()
            await until_listed(client, lambda names: len(names) == 1)
            kept = chain.name("count", tab=None)
            assert await call(client, kept) == (False, "/kept.html?late=1500 run 1")


async def test_a_page_that_offers_it_no_more_is_opened_in_vain_and_says_so(
    chain: Chain, browser: Chromium
) -> None:
    with trio.fail_after(120):
        async with chain.client() as client:
            tab = await chain.open(browser, "kept.html")
            await until_listed(client, lambda names: len(names) == 2)
            await tab.evaluate("localStorage.late = 60_000")
            await tab.close()
            await until_listed(client, lambda names: len(names) == 1)
            for _ in range(2):
                is_error, text = await call(client, chain.name("count", tab=None))
                assert is_error
                assert "offers no count there; the user may have to sign in there" in text
            assert len(await pages_of(browser, chain)) == 1


async def test_it_is_forgotten_when_the_person_says_so_and_clients_are_told(
    chain: Chain, browser: Chromium
) -> None:
    with trio.fail_after(120):
        async with chain.client() as client:
            tab = await chain.open(browser, "kept.html")
            await until_listed(client, lambda names: len(names) == 2)
            await tab.close()
            await until_listed(client, lambda names: len(names) == 1)
            async with client.listen(tools_list_changed=True) as changes:
                said = await chain.mcpb("tools", "--forget", chain.pages)
                assert b"1" in said.stdout
                await anext(changes)
            assert await page_tools(client) == set()
