"""Real Firefox: our extension, real pages, the registered host, `mcpb bridge`, and causes of failures."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path

import pytest
import trio
from mcp import Client

from connection_causes import CAUSES, TABLE, WALK_S, firefox_stage, meet
from demo.chromium import find_chromium
from full_chain import Chain, call, page_tools, serving_pages, until_answered, until_listed
from native_host.protocol.wire import FIREFOX_ID, MIB
from real_firefox import Firefox, FirefoxPage
from socket_observer import hosts, onlooking
from wire_peers import until

TOOLS = {"echo", "boom", "slow", "big", "size", "whoami"}
BACK_S = 30.0
"""Tools are back this soon after their host died. (It takes a second; Firefox is slow to start processes.)"""


@pytest.fixture
async def firefox(chain: Chain) -> AsyncIterator[Firefox]:
    preferences = {"extensions.webextOptionalPermissionPrompts": False}  # nobody is there to say yes
    with trio.fail_after(200):
        async with chain.firefox(preferences=preferences) as firefox:
            yield firefox


@pytest.fixture
async def client(chain: Chain, firefox: Firefox) -> AsyncIterator[Client]:
    async with chain.client() as client:
        yield client


async def until_tools(client: Client, count: int = len(TOOLS)) -> set[str]:
    with trio.fail_after(60):
        return await until_listed(client, lambda names: len(names) == count)


async def until_told(
    client: Client, changes: AsyncIterator[object], wanted: Callable[[set[str]], bool]
) -> None:
    """List after each change that the client is told of, until the list is as wanted."""
    with trio.fail_after(60):
        await anext(changes)
        while not wanted(await page_tools(client)):
            await anext(changes)


async def until_no_host(chain: Chain) -> None:
    """Until the native hosts are gone, and with them what they had opened; within moments."""
    with trio.fail_after(60):
        await until(lambda: not hosts(chain))
    assert not list((chain.home / "run").glob("*.sock"))


# ── Pages and their tools ───────────────────────────────────────────────────────────────────────────────────


async def test_a_page_s_tools_are_listed_and_called_and_the_client_is_told_of_those_that_come_or_go_later(
    chain: Chain, firefox: Firefox, client: Client
) -> None:
    for number, page in enumerate(["tabserver.html", "global.html", "polyfill.html"], 1):
        tab = await firefox.open_page(f"{chain.pages}/{page}")
        await use_page(client, tab, partial(chain.name, tab=number))
        await tab.close()
        await until_tools(client, 0)
    (browser,) = (await chain.status())["browsers"]
    assert (browser["brand"], browser["version"]) == ("Firefox", firefox.version)
    assert [host.extension_origin for host in hosts(chain)] == [FIREFOX_ID]


async def use_page(client: Client, tab: FirefoxPage, name: Callable[[str], str]) -> None:
    """`name` makes public names of its tools."""
    assert await until_tools(client) == set(map(name, TOOLS))
    assert await call(client, name("echo"), text="é😀") == (False, "echo: é😀")
    is_error, text = await call(client, name("boom"))
    assert is_error
    assert "boom from the page" in text
    extra = name("extra")
    async with client.listen(tools_list_changed=True) as changes:
        await tab.evaluate("(addTool('extra'), 0)")
        await until_told(client, aiter(changes), lambda names: extra in names)
        assert await call(client, extra) == (False, "extra: extra")
        await tab.evaluate("(removeTool('extra'), 0)")
        await until_told(client, aiter(changes), lambda names: extra not in names)


async def test_long_arguments_and_answers_pass_and_a_page_that_is_left_or_closed_takes_its_tools_away(
    chain: Chain, firefox: Firefox, client: Client
) -> None:
    tab = await firefox.open_page(f"{chain.pages}/tabserver.html")
    await until_tools(client)
    assert await call(client, chain.name("big"), n=3 * MIB) == (False, "x" * (3 * MIB))
    assert await call(client, chain.name("size"), text="é" * MIB) == (False, str(MIB))
    is_error, text = await call(client, chain.name("big"), n=65 * MIB)
    assert is_error
    assert str(64 * MIB) in text
    assert await call(client, chain.name("echo"), text="on") == (False, "echo: on")

    await tab.load(f"{chain.pages}/plain.html")
    await until_tools(client, 0)
    await tab.evaluate("(history.back(), 0)")
    await until_tools(client)
    assert await call(client, chain.name("echo"), text="back") == (False, "echo: back")
    await tab.close()
    await until_tools(client, 0)


async def test_a_name_without_a_tab_means_the_one_that_is_shown_and_a_server_in_an_iframe_is_the_iframe_s(
    chain: Chain, firefox: Firefox, client: Client
) -> None:
    first = await firefox.open_page(f"{chain.pages}/tabserver.html?first")
    await until_tools(client)
    second = await firefox.open_page(f"{chain.pages}/tabserver.html?second")
    await until_tools(client, 2 * len(TOOLS))
    await first.show()
    with trio.fail_after(60):
        while "first" not in (await call(client, chain.name("whoami", tab=None)))[1]:  # noqa: ASYNC110
            await trio.sleep(0.05)
    await first.close()
    await second.close()
    await until_tools(client, 0)

    with serving_pages() as elsewhere:
        # Tools in a frame of another site are listed once the user has opened that site.
        own_page = await firefox.open_page(f"{elsewhere}/iframeserver.html")
        await own_page.close()
        await firefox.open_page(f"{chain.pages}/frames.html?other={elsewhere}/iframeserver.html")
        names = await until_tools(
            client, 2 * len(TOOLS)
        )  # and those of the frame with a page server of its own
        (echo,) = [name for name in names if name.endswith("_echo") and elsewhere.rpartition(":")[2] in name]
        assert await call(client, echo, text="inside") == (False, "echo: inside")


async def is_refused_a_step_past_the_end_of_a_tab_s_history(chain: Chain) -> None:
    async with onlooking(chain) as onlooker:
        created = await onlooker.request("createTab", session="s2", url=f"{chain.pages}/plain.html")
        tab = {"session": "s2", "tabId": created["tabId"]}
        with trio.fail_after(120):
            await onlooker.until(lambda: "plain.html" in onlooker.tabs[tab["tabId"]]["url"])
            assert "history ends here" in (await onlooker.request("goBack", **tab))["message"]


async def test_a_tab_is_sent_somewhere_and_back_what_does_not_load_says_why_and_access_to_sites_is_told_of(
    chain: Chain, firefox: Firefox
) -> None:
    async with onlooking(chain) as onlooker, trio.open_nursery() as nursery:
        nursery.start_soon(is_refused_a_step_past_the_end_of_a_tab_s_history, chain)  # it takes a while
        first, second = f"{chain.pages}/plain.html?first", f"{chain.pages}/tabserver.html"
        created = await onlooker.request("createTab", session="s1", url=first)
        tab = {"session": "s1", "tabId": created["tabId"]}
        assert isinstance(created["groupId"], int)
        with trio.fail_after(120):
            await onlooker.until_tab("plain.html?first")  # else it leaves no trace in the tab's history
        assert (await onlooker.request("browser_navigate", **tab, url=second))["url"] == second
        assert (await onlooker.request("goBack", **tab))["url"] == first
        with serving_pages() as closed:
            pass
        # Firefox tells it in an event and in the page that it shows instead, whichever comes first.
        refused_there = ("Error code", "connectionFailure")
        for url, at, reasons in [
            (closed, f"{closed}/", refused_there),
            (f"{closed}/a+b", f"{closed}/a+b", refused_there),
            (f"{chain.pages}/nothing", f"{chain.pages}/nothing", ("it leads to no page",)),
            (f"{second}?download", f"{second}?download", ("it leads to no page",)),
            (f"{chain.pages}/leading.html?{closed}/", f"{closed}/", refused_there),
            ("http://localhost:6667/", "http://localhost:6667/", ("deniedPortAccess",)),
            (f"{chain.pages}/leading.html?http://localhost:6667/", "http://localhost:6667/", ("denied",)),
        ]:
            with trio.fail_after(20):  # and not after the 30 s that a page may take
                refused = await onlooker.request("browser_navigate", **tab, url=url)
            assert refused["message"].startswith(tuple(f"{at} did not load: {why}" for why in reasons))
            # The next one starts from a page, not from where the last one failed.
            answer = await onlooker.request("browser_navigate", **tab, url=second)
            assert answer.get("url") == second, answer
        assert await onlooker.request("closeTab", **tab) == {}

    popup = await firefox.open_extension_page("popup/popup.html")
    with trio.fail_after(60):
        async with onlooking(chain) as onlooker:
            await popup.wait_until("document.getElementById('access').hidden")
            await popup.evaluate("chrome.permissions.remove({ origins: ['<all_urls>'] })")
            await popup.wait_until("!document.getElementById('access').hidden")
            await onlooker.until(lambda: not onlooker.hello["sitesAllowed"])
            await popup.click("#allow")
            await popup.wait_until("document.getElementById('access').hidden")
            await onlooker.until(lambda: onlooker.hello["sitesAllowed"])


async def test_the_approval_window_asks_and_takes_one_answer(chain: Chain, firefox: Firefox) -> None:
    prompt = {
        "session": "s1",
        "prompt": "7f3a91c0d2e45b68",
        "client": "Agent",
        "origin": "https://shop.example",
        "kind": "act",
        "text": "Agent wants to act.",
        "choices": ["once", "no"],
    }
    before = set(await firefox.pages())
    with trio.fail_after(60):
        async with onlooking(chain) as onlooker, trio.open_nursery() as nursery:
            answers: list[object] = []

            async def ask() -> None:
                answers.append(await onlooker.request("browser/ask", **prompt))

            nursery.start_soon(ask)
            while not (opened := set(await firefox.pages()) - before):  # noqa: ASYNC110 - nobody tells
                await trio.sleep(0.05)
            window = firefox.attach(opened.pop())
            await window.wait_until("document.getElementById('prompt')?.hidden === false")
            assert await window.evaluate("document.getElementById('origin').textContent") == prompt["origin"]
            await window.wait_until("!document.querySelector('button').disabled")
            await window.click("button[data-choice=once]")
        assert answers == [{"choice": "once"}]
        while set(await firefox.pages()) != before:  # noqa: ASYNC110 - nobody tells
            await trio.sleep(0.05)


# ── Browsers and hosts that come and go ─────────────────────────────────────────────────────────────────────


@pytest.mark.skipif(not find_chromium(), reason="no Chromium: apt install chromium")
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


async def test_tools_are_back_when_their_host_was_killed_and_when_the_extension_is_loaded_after_the_page(
    chain: Chain, firefox: Firefox, client: Client
) -> None:
    tab = await firefox.open_page(f"{chain.pages}/tabserver.html")
    await until_tools(client)
    (before,) = hosts(chain)
    os.kill(before.pid, signal.SIGKILL)
    with trio.fail_after(BACK_S):
        await until(lambda: [host.pid for host in hosts(chain)] not in ([], [before.pid]))
        await until_answered(client, chain.name("echo"), "echo: again", text="again")
    async with onlooking(chain) as onlooker:
        trouble, exits = onlooker.hello["trouble"], onlooker.hello["exits"]
    assert (trouble["attempts"], trouble["reason"]) == (1, "The native host has ended.")
    assert exits == {"count": 1, "reason": trouble["reason"], "at": trouble["at"]}

    await firefox.remove_extension(FIREFOX_ID)
    await until_tools(client, 0)
    await tab.close()
    await firefox.open_page(f"{chain.pages}/tabserver.html")
    await firefox.load_extension(chain.home / "extension-firefox")
    await until_tools(client)

    await firefox.kill()
    await until_no_host(chain)


async def test_a_number_is_not_given_again_after_a_reload_of_the_extension(
    chain: Chain, firefox: Firefox, client: Client
) -> None:
    tab = await firefox.open_page(f"{chain.pages}/tabserver.html")
    assert chain.name("echo", 1) in await until_tools(client)
    await firefox.open_page(f"{chain.pages}/tabserver.html")
    assert chain.name("echo", 2) in await until_tools(client, 2 * len(TOOLS))
    await tab.close()
    await until_tools(client)
    await firefox.load_extension(chain.home / "extension-firefox")
    with trio.fail_after(60):
        await until_listed(client, lambda names: names == {chain.name(tool, 3) for tool in TOOLS})


async def test_an_idle_event_page_finds_a_host_that_is_registered_later_and_is_kept_by_it(
    chain: Chain,
) -> None:
    """Firefox suspends event pages after 30 idle seconds, here after half a one, none with a native host."""
    preferences = {"extensions.background.idle.timeout": 500}
    with trio.fail_after(200):
        async with chain.firefox(preferences=preferences, is_registered=False) as firefox:
            popup = await firefox.open_extension_page("popup/popup.html")
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

                before = hosts(chain)
                await trio.sleep(2)
                assert hosts(chain) == before
                assert await call(client, chain.name("echo"), text="on") == (False, "echo: on")
            await firefox.close()
            await until_no_host(chain)


# ── The causes of docs/TROUBLESHOOTING.md in a real Firefox ─────────────────────────────────────────────────

OFTEN_WALKED = {"manifest-missing", "origin-missing", "host-exits"}
"""No manifest, a wrong one, and a host that ends; each costs 4 s of processor time."""
WALKED = [cause for cause in CAUSES if cause.code in OFTEN_WALKED or "MCPB_ALL_CAUSES" in os.environ]
"""`make test-causes` sets the variable."""


@pytest.mark.timeout(WALK_S)
async def test_in_firefox_the_doctor_names_each_cause_and_its_command_makes_the_browser_connect(
    short_tmp: Path,
) -> None:
    with trio.fail_after(WALK_S):
        async with firefox_stage(short_tmp) as stage:
            for cause in WALKED:
                await meet(stage, cause)


def test_firefox_looks_in_the_same_place_for_all_profiles() -> None:
    """The walk's Firefox has its profile elsewhere, and finds the manifest all the same."""
    assert TABLE["user-data-dir"].firefox == []
