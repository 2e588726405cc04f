"""Pages that mean harm, or are badly broken, in a real Chromium: they spoil what is theirs alone."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
import trio
from mcp import Client

from demo.chromium import Chromium
from full_chain import Chain, call, until_listed
from socket_observer import hosts, restart_worker
from wire_peers import SocketClient, until

pytestmark = pytest.mark.one_browser

TOOLS = 6
"""Of each of the ordinary test pages."""

Frames = dict[tuple[int, int], dict[str, Any]]
"""What is announced, by tab and frame."""


async def until_announced(chain: Chain, wanted: Callable[[Frames], object]) -> Frames:
    """Hear what the host says until its frames are as wanted. Bound it."""
    while True:
        await until(lambda: bool(hosts(chain)))
        with suppress(EOFError):  # a worker that was just started is sometimes stopped once more
            return await _announced(chain, wanted)


async def _announced(chain: Chain, wanted: Callable[[Frames], object]) -> Frames:
    (host,) = hosts(chain)
    frames: Frames = {}
    async with SocketClient.connected(chain.home / "run", host.instance, introduce=False) as client:
        await client.introduce()
        while not wanted(frames):
            message = await client.next_message()
            if message.get("method") in ("browser/registerTools", "browser/updateTools"):
                params = message["params"]
                frames[params["tabId"], params["frameId"]] = params
            if message.get("method") == "browser/unregister":
                frames.pop((message["params"]["tabId"], message["params"]["frameId"]), None)
    return frames


def named(frames: Frames, tool: str) -> dict[str, Any]:
    """The frame that offers this tool; empty: none does."""
    offering = (frame for frame in frames.values() if tool in [each["name"] for each in frame["tools"]])
    return next(offering, {})


# ── Names ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("host", ["constructor", "__proto__"])
async def test_a_host_named_like_a_property_of_every_object_harms_no_other_tab(
    chain: Chain, browser: Chromium, host: str
) -> None:
    await chain.open(browser, "tabserver.html")
    with trio.fail_after(60):
        async with chain.client() as client:
            await until_listed(client, lambda names: len(names) == TOOLS)  # so that it is the site's tab 1
            hostile = await chain.open(browser, "plain.html")
            await hostile.evaluate(f"void(location.href = 'http://{host}/')")
            await hostile.wait_until("location.protocol === 'chrome-error:'")
            await chain.open(browser, "tabserver.html?second")
            await until_listed(client, lambda names: len(names) == 2 * TOOLS)
            await restart_worker(chain, browser)
            await until_announced(chain, lambda frames: sum(bool(f["tools"]) for f in frames.values()) == 2)
            assert await call(client, chain.name("echo"), text="on") == (False, "echo: on")


async def test_tools_named_like_properties_of_every_object_are_tools_like_others(
    chain: Chain, browser: Chromium
) -> None:
    tab = await chain.open(browser, "tabserver.html")
    with trio.fail_after(60):
        for name in ("constructor", "__proto__"):
            await tab.evaluate(f"addTool('{name}')")
        frames = await until_announced(chain, lambda frames: named(frames, "__proto__"))
        async with chain.client() as client:
            await until_listed(client, lambda names: len(names) == TOOLS + 2)
            assert await call(client, chain.name("constructor")) == (False, "extra: constructor")
    via = named(frames, "__proto__")["via"]
    assert via["__proto__"] == via["constructor"] == via["echo"] == "mcp-b"


# ── Lists ───────────────────────────────────────────────────────────────────────────────────────────────────


async def test_what_is_nested_too_deeply_is_left_out_and_every_other_frame_is_announced(
    chain: Chain, browser: Chromium
) -> None:
    with trio.fail_after(60):
        await chain.open(browser, "deep.html")
        await chain.open(browser, "tabserver.html")
        for _ in range(2):
            frames = await until_announced(chain, lambda f: named(f, "whoami") and named(f, "deep195"))
            deep = named(frames, "deep195")
            assert [tool["name"] for tool in deep["tools"]] == ["deep195", "deep196", "deep197", "echo"]
            assert "serverInfo" not in deep
            assert deep["notice"].startswith("4 of this page's 8 tools are left out")
            assert named(frames, "whoami")["serverInfo"] == {"name": "by hand", "version": "1"}
            await restart_worker(chain, browser)


async def test_a_crowd_of_frames_with_long_lists_leaves_room_for_every_other_tab(
    chain: Chain, browser: Chromium
) -> None:
    def full(frames: Frames) -> bool:
        return len(frames) == 42 and bool(named(frames, "whoami"))

    def fat_ones(frames: Frames) -> int:
        return sum(bool(named({key: frame}, "fat")) for key, frame in frames.items())

    with trio.fail_after(60):
        crowd = await chain.open(browser, "crowd.html?frames=40")
        await chain.open(browser, "tabserver.html")
        frames = await until_announced(chain, full)
        notices = [frame["notice"] for frame in frames.values() if "notice" in frame]
        assert fat_ones(frames) == 4
        assert len(notices) == 36
        assert all("a tab's frames may hold 4096 KiB" in notice for notice in notices)
        # Whoever goes makes room for another.
        await crowd.evaluate("document.querySelectorAll('iframe').forEach((f, n) => n < 38 && f.remove())")
        await until_announced(chain, lambda frames: len(frames) == 4 and fat_ones(frames) == 2)


async def test_a_tab_s_address_and_title_are_cut_to_what_a_person_would_read(
    chain: Chain, browser: Chromium
) -> None:
    tab = await chain.open(browser, "tabserver.html")
    with trio.fail_after(60):
        await tab.evaluate("void(location.hash = 'x'.repeat(1_900_000)); document.title = 'é'.repeat(90_000)")
        await restart_worker(chain, browser)
        await until_announced(chain, lambda frames: named(frames, "whoami"))
        (host,) = hosts(chain)
        async with SocketClient.connected(chain.home / "run", host.instance) as client:
            assert client.bytes_read < 64 * 1024


# ── Calls ───────────────────────────────────────────────────────────────────────────────────────────────────

THROWING = "{ ...extraTool('order'), run() { throw new TypeError('options must be an object'); } }"
NOT_FOUND = (
    "{ ...extraTool('search'), run: () => ({ ...text('search: item 4711 was not found'), isError: true }) }"
)


async def test_a_polyfilled_tool_that_throws_a_type_error_is_not_run_again(
    chain: Chain, browser: Chromium
) -> None:
    tab = await chain.open(browser, "polyfill.html")
    with trio.fail_after(60):
        await tab.evaluate(f"void addTool('order', {THROWING})")
        async with chain.client() as client:
            await until_listed(client, lambda names: chain.name("order") in names)
            is_error, text = await call(client, chain.name("order"))
        assert await tab.evaluate("window.runs") == 1
    assert is_error
    assert "options must be an object" in text


async def test_a_tool_that_finds_nothing_is_not_taken_for_a_server_that_does_not_know_it(
    chain: Chain, browser: Chromium
) -> None:
    tab = await chain.open(browser, "tabserver.html")
    with trio.fail_after(60):
        await tab.evaluate(
            f"offered.set('search', {NOT_FOUND}); void startServer(new Map([['other', tools.echo]]))"
        )
        async with chain.client() as client:
            await until_listed(client, lambda names: chain.name("search") in names)
            assert await call(client, chain.name("search")) == (True, "search: item 4711 was not found")


@pytest.mark.parametrize("successor", ["", "startServer(new Map([['slow', tools.slow]]));"])
async def test_a_call_whose_server_stops_ends_and_may_have_run_whoever_follows(
    chain: Chain, browser: Chromium, successor: str
) -> None:
    tab = await chain.open(browser, "tabserver.html")
    ended: list[tuple[bool, str]] = []

    async def wait_for_slow(client: Client) -> None:
        ended.append(await call(client, chain.name("slow")))

    with trio.fail_after(60):
        async with chain.client() as client:
            await until_listed(client, lambda names: len(names) == TOOLS)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(wait_for_slow, client)
                await tab.wait_until("window.runs === 1")
                await tab.evaluate(f"window.server.stop(); {successor} 0")
                with trio.fail_after(20):  # before the client's own patience ends
                    await until(lambda: bool(ended))
            await until_listed(client, lambda names: len(names) == (1 if successor else 0))
    ((is_error, text),) = ended
    assert is_error
    assert "may have run" in text


WRITTEN_ANEW = """document.open();
    document.write('<script src="tools.js"><\\/script><script src="tabserver.js"><\\/script>'
        + '<script>startServer(new Map([["after", extraTool("after")]]))<\\/script>');
    document.close(); 0"""


async def test_a_page_that_writes_itself_anew_offers_what_its_new_server_offers(
    chain: Chain, browser: Chromium
) -> None:
    tab = await chain.open(browser, "tabserver.html")
    with trio.fail_after(60):
        async with chain.client() as client:
            await until_listed(client, lambda names: len(names) == TOOLS)
            await tab.evaluate(WRITTEN_ANEW)
            await until_listed(client, lambda names: names == {chain.name("after")})
            assert await call(client, chain.name("after")) == (False, "extra: after")


async def test_a_page_that_writes_itself_anew_without_a_server_offers_nothing_any_more(
    chain: Chain, browser: Chromium
) -> None:
    tab = await chain.open(browser, "tabserver.html")
    with trio.fail_after(60):
        async with chain.client() as client:
            await until_listed(client, lambda names: len(names) == TOOLS)
            await tab.evaluate("document.write('no tools')")
            await until_listed(client, lambda names: not names)


async def test_a_page_that_replaces_its_root_keeps_its_server_and_its_calls(
    chain: Chain, browser: Chromium
) -> None:
    tab = await chain.open(browser, "tabserver.html")
    answers: list[tuple[bool, str]] = []

    async def wait_for_slow(client: Client) -> None:
        answers.append(await call(client, chain.name("slow")))

    with trio.fail_after(60):
        async with chain.client() as client, trio.open_nursery() as nursery:
            await until_listed(client, lambda names: len(names) == TOOLS)
            nursery.start_soon(wait_for_slow, client)
            await tab.wait_until("window.runs === 1")
            await tab.evaluate("document.documentElement.replaceWith(document.createElement('html'))")
            await tab.evaluate("setTimeout(finishSlow, 300); 0")  # later than a call outlives its server
            await until(lambda: bool(answers))
    assert answers == [(False, "slow: done")]


async def test_a_polyfill_s_tools_outlive_a_page_that_writes_itself_anew(
    chain: Chain, browser: Chromium
) -> None:
    tab = await chain.open(browser, "polyfill.html")
    with trio.fail_after(60):
        async with chain.client() as client:
            await until_listed(client, lambda names: chain.name("echo") in names)
            await tab.evaluate("document.write('written anew')")
            assert await call(client, chain.name("echo"), text="on") == (False, "echo: on")


# ── Floods ──────────────────────────────────────────────────────────────────────────────────────────────────

POSTING = """window.flood = setInterval(() => postMessage({ channel: "mcp-default", type: "mcp",
    direction: "server-to-client",
    payload: { jsonrpc: "2.0", method: "notifications/x", params: { a: "y".repeat(%d) } } }, origin), 4); 0"""
LISTING = """setInterval(() => {
    offered.set("new", extraTool(String(Math.random())));
    server.changed();
}, 4)"""


async def heard(chain: Chain, method: str, seconds: float) -> int:
    """How many messages of a method come within some seconds."""
    (host,) = hosts(chain)
    count = 0
    async with SocketClient.connected(chain.home / "run", host.instance) as client:
        with trio.move_on_after(seconds):
            while await client.heard(method) is not None:
                count += 1
    return count


async def test_a_flood_of_notifications_reaches_clients_as_a_trickle_and_long_ones_not_at_all(
    chain: Chain, browser: Chromium
) -> None:
    await chain.open(browser, "tabserver.html")
    elsewhere = chain.pages.replace("localhost", "127.0.0.1")  # a process of its own
    hostile = await browser.open_page(f"{elsewhere}/tabserver.html")
    with trio.fail_after(60):
        async with chain.client() as client:
            await until_listed(client, lambda names: len(names) == 2 * TOOLS)
            await hostile.evaluate(POSTING % 100)
            assert 0 < await heard(chain, "browser/pageNotification", 1) <= 20
            await hostile.evaluate("clearInterval(window.flood); " + POSTING % 900_000)
            with trio.fail_after(60):
                assert await call(client, chain.name("echo"), text="on") == (False, "echo: on")
            assert await heard(chain, "browser/pageNotification", 1) == 0


async def test_a_list_that_changes_all_the_time_is_announced_twice_a_second(
    chain: Chain, browser: Chromium
) -> None:
    hostile = await chain.open(browser, "tabserver.html")
    with trio.fail_after(60):
        await until_announced(chain, lambda frames: named(frames, "echo"))
        await hostile.evaluate(LISTING)
        assert 0 < await heard(chain, "browser/updateTools", 1) <= 4
