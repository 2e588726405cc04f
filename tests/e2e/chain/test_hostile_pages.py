"""Hostile and broken pages and tools in a real Chromium: each affects only itself."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import trio
from mcp import Client

from bridge.hub.tool_definition import mark_of
from demo.chromium import Chromium
from full_chain import COUNTED, Chain, call, page_tools, until_listed
from socket_observer import hosts, onlooking, restart_worker
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
        async with onlooking(chain) as client:
            await client.until(lambda: len(client.frames) == 42)  # else four of the replay would do below
            await crowd.evaluate("[...document.querySelectorAll('iframe')].slice(2).forEach(f => f.remove())")
            await client.until(lambda: len(client.frames) == 4 and fat_ones(client.frames) == 2)


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
    payload: { jsonrpc: "2.0", method: "notifications/message",
      params: { a: "y".repeat(%d) } } }, origin), 4); 0"""
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


# ── Tools that mean harm, in a real Chromium ────────────────────────────────────────────────────────────────


@pytest.fixture(autouse=True)
def counted() -> Iterator[list[str]]:
    """What pages, or who reads their schemas, have asked of the server."""
    COUNTED.clear()
    yield COUNTED
    COUNTED.clear()


def log_of(chain: Chain) -> str:
    path = Path(chain.home) / "state" / "mcpb.log"
    return path.read_text() if path.exists() else ""


async def opened(chain: Chain, browser: Chromium, client: Client, kind: str, *tools: str) -> None:
    """The page of a kind, and these of its tools listed."""
    await chain.open(browser, f"hostile.html?kind={kind}")
    wanted = {chain.name(tool) for tool in ("harmless", *tools)}
    await until_listed(client, lambda names: wanted <= names)


async def description(client: Client, name: str) -> str:
    listed = await client.list_tools(cache_mode="refresh")
    return next(tool.description or "" for tool in listed.tools if tool.name == name)


async def test_three_hundred_tools_are_searched_instead_of_listed(chain: Chain, browser: Chromium) -> None:
    with trio.fail_after(60):
        async with chain.client() as client:
            await chain.open(browser, "tabserver.html")
            await until_listed(client, lambda names: len(names) == 6)
            await chain.open(browser, "hostile.html?kind=many")
            await until_listed(client, lambda names: names == set())
            _, text = await call(client, "list_page_tools", query="t299")
            name = text.partition(":")[0]
            assert name == chain.name("t299", 2)
            assert await call(client, "call_page_tool", name=name) == (False, "extra: t299")
            _, text = await call(client, "list_page_tools")
            assert "of 307" in text
            assert await call(client, chain.name("echo"), text="still here") == (False, "echo: still here")


async def test_with_a_higher_limit_all_three_hundred_are_listed(chain: Chain, browser: Chromium) -> None:
    chain.settings["MCPB_MAX_LISTED_TOOLS"] = "0"
    with trio.fail_after(60):
        async with chain.client() as client:
            await opened(chain, browser, client, "many", "t0", "t299")
            assert len(await page_tools(client)) == 301


async def test_one_that_is_registered_in_a_loop_is_told_twice_a_second_at_most(
    chain: Chain, browser: Chromium
) -> None:
    with trio.fail_after(60):
        async with chain.client() as client, client.listen(tools_list_changed=True) as changes:
            await opened(chain, browser, client, "loop", "looped")
            told = 0
            with trio.move_on_after(1):
                while True:
                    await anext(changes)
                    told += 1
            assert told <= 3
            assert await call(client, chain.name("harmless")) == (False, "extra: harmless")


async def test_one_that_never_settles_ends_by_its_time_and_holds_up_nobody(
    chain: Chain, browser: Chromium
) -> None:
    chain.settings["MCPB_CALL_TIMEOUT_S"] = "2"
    outcomes: list[tuple[bool, str]] = []
    with trio.fail_after(60):
        async with chain.client() as client, trio.open_nursery() as nursery:
            await opened(chain, browser, client, "never", "never")

            async def wait() -> None:
                outcomes.append(await call(client, chain.name("never")))

            nursery.start_soon(wait)
            assert await call(client, chain.name("harmless")) == (False, "extra: harmless")
    ((is_error, text),) = outcomes
    assert is_error
    assert "did not answer in time: 2 s have passed. It may have run" in text


@pytest.mark.parametrize("kind", ["huge", "control"])
async def test_what_it_says_about_itself_is_cut_and_cleaned(
    chain: Chain, browser: Chromium, kind: str
) -> None:
    with trio.fail_after(60):
        async with chain.client() as client:
            await opened(chain, browser, client, kind, kind)
            said = await description(client, chain.name(kind))
            assert said.startswith(f"{mark_of(chain.pages)} [tab {chain.tabs_before + 1}")
            assert len(said) < 2500
            assert all(char.isprintable() or char == "\n" for char in said)
            assert (await call(client, chain.name(kind)))[0] is False


async def test_one_whose_arguments_are_no_object_is_left_out_by_itself_and_named_in_the_log(
    chain: Chain, browser: Chromium
) -> None:
    with trio.fail_after(60):
        async with chain.client() as client:
            await opened(chain, browser, client, "array")
            assert await page_tools(client) == {chain.name("harmless")}
        assert "the inputSchema of 'array' does not describe an object" in log_of(chain)


@pytest.mark.parametrize("kind", ["file", "http", "pattern", "doubling"])
async def test_a_schema_that_reads_elsewhere_or_explodes_is_not_used_and_nothing_is_read(
    chain: Chain, browser: Chromium, counted: list[str], kind: str
) -> None:
    with trio.fail_after(60):
        async with chain.client() as client:
            await opened(chain, browser, client, kind, kind)
            given = {"x": "a" * 5000 + "b"}
            began = trio.current_time()
            is_error, text = await call(client, chain.name(kind), **given)
            assert trio.current_time() - began < 5
            if kind == "pattern":  # it can be used, in linear time
                assert is_error
                assert "x: " in text
            else:
                assert (is_error, json.loads(text)) == (False, given)
        assert counted == []
        assert (kind == "pattern") == ("schema" not in log_of(chain))
