"""Real Firefox with our extension, real pages, the registered host, `mcpb bridge` and the mcp client."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Callable

import pytest
import trio
from mcp import Client

from chain import Chain, call, page_tools, serving_pages, until_listed
from firefox import Firefox
from native_host.wire import FIREFOX_ID, MIB
from onlooker import hosts, onlooking
from peers import until

pytestmark = pytest.mark.firefox

TOOLS = {"echo", "boom", "slow", "big", "size", "whoami"}
BACK_S = 10.0
"""Tools are back this soon after their host died. (It takes a second; Firefox is slow to start processes.)"""


@pytest.fixture
async def firefox(chain: Chain) -> AsyncIterator[Firefox]:
    with trio.fail_after(100):
        async with chain.firefox() as firefox:
            yield firefox


@pytest.fixture
async def client(chain: Chain, firefox: Firefox) -> AsyncIterator[Client]:
    async with chain.client() as client:
        yield client


async def until_tools(client: Client, count: int = len(TOOLS)) -> set[str]:
    with trio.fail_after(20):
        return await until_listed(client, lambda names: len(names) == count)


async def until_told(
    client: Client, changes: AsyncIterator[object], wanted: Callable[[set[str]], bool]
) -> None:
    """List after each change that the client is told of, until the list is as wanted."""
    with trio.fail_after(20):
        await anext(changes)
        while not wanted(await page_tools(client)):
            await anext(changes)


# ── Pages and their tools ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("page", ["tabserver.html", "global.html", "polyfill.html"])
async def test_a_page_s_tools_are_listed_and_called(
    chain: Chain, firefox: Firefox, client: Client, page: str
) -> None:
    await firefox.open_page(f"{chain.pages}/{page}")
    assert await until_tools(client) == set(map(chain.name, TOOLS))
    assert await call(client, chain.name("echo"), text="é😀") == (False, "echo: é😀")
    is_error, text = await call(client, chain.name("boom"))
    assert is_error
    assert "boom from the page" in text
    (browser,) = (await chain.status())["browsers"]
    assert (browser["brand"], browser["version"]) == ("Firefox", firefox.version)
    assert [host.extension_origin for host in hosts(chain)] == [FIREFOX_ID]


async def test_a_page_that_was_open_before_the_extension_was_loaded_offers_its_tools(
    chain: Chain, firefox: Firefox, client: Client
) -> None:
    await firefox.remove_extension(FIREFOX_ID)
    await firefox.open_page(f"{chain.pages}/tabserver.html")
    await firefox.load_extension(chain.home / "extension-firefox")
    await until_tools(client)


@pytest.mark.parametrize("page", ["tabserver.html", "global.html"])
async def test_a_tool_that_comes_or_goes_later_appears_and_disappears_and_the_client_is_told(
    chain: Chain, firefox: Firefox, client: Client, page: str
) -> None:
    extra = chain.name("extra")
    tab = await firefox.open_page(f"{chain.pages}/{page}")
    await until_tools(client)
    async with client.listen(tools_list_changed=True) as changes:
        await tab.evaluate("(addTool('extra'), 0)")
        await until_told(client, aiter(changes), lambda names: extra in names)
        assert await call(client, extra) == (False, "extra: extra")
        await tab.evaluate("(removeTool('extra'), 0)")
        await until_told(client, aiter(changes), lambda names: extra not in names)


async def test_a_page_that_is_left_or_closed_takes_its_tools_away_and_brings_them_when_it_is_back(
    chain: Chain, firefox: Firefox, client: Client
) -> None:
    tab = await firefox.open_page(f"{chain.pages}/tabserver.html")
    await until_tools(client)
    await tab.load(f"{chain.pages}/plain.html")
    await until_tools(client, 0)
    await tab.evaluate("(history.back(), 0)")
    await until_tools(client)
    assert await call(client, chain.name("echo"), text="back") == (False, "echo: back")
    await tab.close()
    await until_tools(client, 0)


async def test_a_server_in_an_iframe_of_another_site_is_the_iframe_s(
    chain: Chain, firefox: Firefox, client: Client
) -> None:
    with serving_pages() as elsewhere:
        await firefox.open_page(f"{chain.pages}/frames.html?other={elsewhere}/iframeserver.html")
        names = await until_tools(
            client, 2 * len(TOOLS)
        )  # and those of the frame with a page server of its own
        (echo,) = [name for name in names if name.endswith("_echo") and elsewhere.rpartition(":")[2] in name]
        assert await call(client, echo, text="inside") == (False, "echo: inside")


async def test_the_tab_that_is_shown_is_the_one_that_a_name_without_a_tab_means(
    chain: Chain, firefox: Firefox, client: Client
) -> None:
    first = await firefox.open_page(f"{chain.pages}/tabserver.html?first")
    await until_tools(client)
    await firefox.open_page(f"{chain.pages}/tabserver.html?second")
    await until_tools(client, 2 * len(TOOLS))
    await first.show()
    with trio.fail_after(10):
        while "first" not in (await call(client, chain.name("whoami", tab=None)))[1]:  # noqa: ASYNC110
            await trio.sleep(0.05)


async def test_long_arguments_and_answers_pass_and_too_long_ones_are_refused_by_size(
    chain: Chain, firefox: Firefox, client: Client
) -> None:
    await firefox.open_page(f"{chain.pages}/tabserver.html")
    await until_tools(client)
    assert await call(client, chain.name("big"), n=3 * MIB) == (False, "x" * (3 * MIB))
    assert await call(client, chain.name("size"), text="é" * MIB) == (False, str(MIB))
    is_error, text = await call(client, chain.name("big"), n=65 * MIB)
    assert is_error
    assert str(64 * MIB) in text
    assert await call(client, chain.name("echo"), text="on") == (False, "echo: on")


async def test_a_tab_is_opened_sent_somewhere_and_taken_back_and_where_no_page_is_that_is_said_at_once(
    chain: Chain, firefox: Firefox
) -> None:
    async with onlooking(chain) as onlooker:
        first, second = f"{chain.pages}/plain.html", f"{chain.pages}/tabserver.html"
        created = await onlooker.request("createTab", session="s1", url=first)
        tab = {"session": "s1", "tabId": created["tabId"]}
        assert isinstance(created["groupId"], int)
        with trio.fail_after(18):
            await onlooker.until_tab("plain.html")  # else it leaves no trace in the tab's history
            assert "history ends here" in (await onlooker.request("goBack", **tab))["message"]
        assert (await onlooker.request("browser_navigate", **tab, url=second))["url"] == second
        assert (await onlooker.request("goBack", **tab))["url"] == first
        with serving_pages() as closed:
            pass
        # Firefox tells it in an event and in the page that it shows instead, whichever comes first.
        refused_there = ("Error code", "connectionFailure")
        for url, at, reasons in [
            (closed, f"{closed}/", refused_there),
            (f"{chain.pages}/nothing", f"{chain.pages}/nothing", ("it leads to no page",)),
            (f"{first}?download", f"{first}?download", ("it leads to no page",)),
            (f"{chain.pages}/leading.html?{closed}/", f"{closed}/", refused_there),
            ("http://localhost:6667/", "http://localhost:6667/", ("deniedPortAccess",)),
            (f"{chain.pages}/leading.html?http://localhost:6667/", "http://localhost:6667/", ("denied",)),
        ]:
            with trio.fail_after(8):  # and not after the 30 s that a page may take
                refused = await onlooker.request("browser_navigate", **tab, url=url)
            assert refused["message"].startswith(tuple(f"{at} did not load: {why}" for why in reasons))
            # The next one starts from a page, not from where the last one failed.
            assert (await onlooker.request("browser_navigate", **tab, url=second))["url"] == second
        assert await onlooker.request("closeTab", **tab) == {}


async def test_access_to_sites_that_is_withdrawn_is_told_and_given_back_in_the_popup(chain: Chain) -> None:
    preferences = {"extensions.webextOptionalPermissionPrompts": False}  # nobody is there to say yes
    with trio.fail_after(60):
        async with chain.firefox(preferences=preferences) as firefox, onlooking(chain) as onlooker:
            popup = await firefox.open_extension_page("popup.html")
            await popup.wait_until("document.getElementById('access').hidden")
            await popup.evaluate("chrome.permissions.remove({ origins: ['<all_urls>'] })")
            await popup.wait_until("!document.getElementById('access').hidden")
            await onlooker.until(lambda: not onlooker.hello["sitesAllowed"])
            await popup.click("#allow")
            await popup.wait_until("document.getElementById('access').hidden")
            await onlooker.until(lambda: onlooker.hello["sitesAllowed"])


# ── Browsers and hosts that come and go ─────────────────────────────────────────────────────────────────────


@pytest.mark.chromium
async def test_chromium_and_firefox_answer_side_by_side(
    chain: Chain, firefox: Firefox, client: Client
) -> None:
    async def ask(name: str) -> None:
        for number in range(50):
            said = f"{name} {number}"
            assert await call(client, name, text=said) == (False, f"echo: {said}")

    async with chain.browser() as chromium:
        await firefox.open_page(f"{chain.pages}/tabserver.html?firefox")
        await chain.open(chromium, "tabserver.html?chromium")
        names = await until_tools(client, 2 * len(TOOLS))
        where = [(await call(client, name))[1] for name in names if name.endswith("_whoami")]
        async with trio.open_nursery() as nursery:
            for name in names:
                if name.endswith("_echo"):
                    nursery.start_soon(ask, name)
        brands = {browser["brand"] for browser in (await chain.status())["browsers"]}
    assert {"firefox" in text for text in where} == {True, False}
    assert "Firefox" in brands
    assert len(brands) == 2


async def test_when_the_host_is_killed_the_tools_are_back_and_the_next_hello_says_what_happened(
    chain: Chain, firefox: Firefox, client: Client
) -> None:
    await firefox.open_page(f"{chain.pages}/tabserver.html")
    await until_tools(client)
    (before,) = hosts(chain)
    os.kill(before.pid, signal.SIGKILL)
    with trio.fail_after(BACK_S):
        await until(lambda: [host.pid for host in hosts(chain)] not in ([], [before.pid]))
        assert await call(client, chain.name("echo"), text="again") == (False, "echo: again")
    async with onlooking(chain) as onlooker:
        trouble = onlooker.hello["trouble"]
    assert (trouble["attempts"], trouble["reason"]) == (1, "The native host has ended.")


@pytest.mark.parametrize("end", ["close", "kill"])
async def test_when_firefox_ends_its_host_is_gone(chain: Chain, firefox: Firefox, end: str) -> None:
    await until(lambda: bool(hosts(chain)))
    await getattr(firefox, end)()
    with trio.fail_after(5):
        await until(lambda: not hosts(chain))
    assert not list((chain.home / "run").glob("*.sock"))


async def test_an_idle_event_page_is_kept_by_its_host(chain: Chain) -> None:
    """Firefox suspends event pages after 30 idle seconds, here after one, but none with a native host."""
    preferences = {"extensions.background.idle.timeout": 1000}
    with trio.fail_after(90):
        async with chain.firefox(preferences=preferences) as firefox, chain.client() as client:
            await firefox.open_page(f"{chain.pages}/tabserver.html")
            await until_tools(client)
            before = hosts(chain)
            await trio.sleep(4)
            assert hosts(chain) == before
            assert await call(client, chain.name("echo"), text="on") == (False, "echo: on")


async def test_a_host_that_is_registered_later_is_found_when_a_page_is_looked_at(chain: Chain) -> None:
    preferences = {"extensions.background.idle.timeout": 1000}  # so that it has been suspended meanwhile
    with trio.fail_after(90):
        async with chain.firefox(preferences=preferences, is_registered=False) as firefox:
            popup = await firefox.open_extension_page("popup.html")
            await popup.wait_until("document.body.innerText.includes('mcpb install-native-host')")
            await popup.close()
            await chain.mcpb("install-native-host", "--browser", "firefox", "--yes")
            await firefox.open_page(f"{chain.pages}/tabserver.html")
            async with chain.client() as client:
                await until_tools(client)
            async with onlooking(chain) as onlooker:
                trouble = onlooker.hello["trouble"]
    assert "No such native application" in trouble["reason"]
    assert trouble["attempts"] >= 1
