"""Real Chromium, real pages, the registered host, `mcpb bridge`, and foreign MCP clients."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterable, AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
import trio
from mcp import Client

import extension
from bridge.hub.tool_definition import mark_of
from custom_tools import FIXED
from demo.chromium import Chromium, open_chromium
from full_chain import (
    INSPECTOR,
    MCPB,
    WEBMCP,
    Chain,
    RawClient,
    call,
    page_tools,
    until_answered,
    until_listed,
    until_said,
)
from install.browsers import known_browsers
from install.checks.profiles import chromium_extensions, is_used_in
from install.checks.running_browsers import running_browsers
from install.machine import this_machine
from native_host import __version__
from native_host.ipc import endpoint
from native_host.protocol.wire import EXTENSION_ID, MIB
from wire_peers import SocketClient, until

pytestmark = pytest.mark.one_browser

BACK_S = 15.0
"""Limit for tools to be back after a host or a worker died; a second is usual."""
TOOLS = {"echo", "boom", "slow", "big", "size", "whoami"}

Era = Literal["auto", "legacy"]


def run_directory(chain: Chain) -> Path:
    return chain.home / "run"


def host_pid(chain: Chain) -> int:
    (record,) = endpoint.live_hosts(run_directory(chain))
    return record.pid


# ── Three kinds of pages, through a foreign client ──────────────────────────────────────────────────────────


@pytest.fixture
async def native_browser(chain: Chain) -> AsyncIterator[Chromium]:
    """One that has the pages' tools itself."""
    async with chain.browser(flags=[WEBMCP]) as chromium:
        yield chromium


async def test_tools_of_a_page_over_plain_http_are_called(chain: Chain) -> None:
    """There the browser has no `crypto.randomUUID`, in content scripts neither."""
    port = chain.pages.rpartition(":")[2]
    flags = ["--host-resolver-rules=MAP shop.test 127.0.0.1"]
    async with chain.browser("plain", flags) as chromium, chain.client() as client:
        page = await chromium.open_page(f"http://shop.test:{port}/tabserver.html")
        assert await page.evaluate("[isSecureContext, typeof crypto.randomUUID]") == [False, "undefined"]
        with trio.fail_after(60):
            names = await until_listed(client, lambda names: len(names) == len(TOOLS))
            (echo,) = [name for name in names if name.endswith("_echo")]
            assert await call(client, echo, text="plain") == (False, "echo: plain")


async def test_a_page_s_tools_are_listed_and_called_by_the_inspector(chain: Chain, browser: Chromium) -> None:
    assert "boom from the page" in await thrown_at_the_inspector(chain, browser, "global.html")


async def test_a_page_s_native_tools_are_listed_and_called_by_the_inspector(
    chain: Chain, native_browser: Chromium
) -> None:
    # The browser hides the page's words.
    assert "the invocation failed" in await thrown_at_the_inspector(chain, native_browser, "native.html")


async def thrown_at_the_inspector(chain: Chain, chromium: Chromium, page: str) -> str:
    """What it hears from the tool that fails, after it has listed all and called one that does not."""
    assert INSPECTOR.exists(), "run: npm ci"
    with trio.fail_after(120):
        await chain.open(chromium, page)
        async with chain.client() as client:
            await until_listed(client, lambda names: len(names) == len(TOOLS))
        listed = await chain.inspect("tools/list")
        echoed = await chain.inspect(
            "tools/call", "--tool-name", chain.name("echo"), "--tool-arg", "text=hello"
        )
        failed = await chain.inspect("tools/call", "--tool-name", chain.name("boom"))
    tools = {tool["name"]: tool for tool in listed["tools"]}
    assert set(tools) >= {*FIXED, *map(chain.name, TOOLS)}
    assert tools[chain.name("echo")]["inputSchema"]["properties"]["text"] == {"type": "string"}
    assert f"{mark_of(chain.pages)} [tab 1" in tools[chain.name("echo")]["description"]
    assert echoed["content"] == [{"type": "text", "text": "echo: hello"}]
    assert failed["isError"] is True
    thrown: str = failed["content"][0]["text"]
    return thrown


async def until_told(
    changes: AsyncIterable[object], client: Client, wanted: Callable[[set[str]], bool]
) -> None:
    """List again whenever a change is told: the first may be about what the page did before. Bound it."""
    async for _ in changes:
        if wanted(await page_tools(client)):
            return


@pytest.mark.parametrize("page", ["tabserver.html", "global.html", "polyfill.html"])
async def test_a_tool_that_comes_or_goes_later_appears_and_disappears_and_the_client_is_told(
    chain: Chain, browser: Chromium, page: str
) -> None:
    await tool_comes_and_goes(chain, browser, page)


async def test_a_native_tool_that_comes_or_goes_later_does_so_too(
    chain: Chain, native_browser: Chromium
) -> None:
    await tool_comes_and_goes(chain, native_browser, "native.html")


async def test_a_native_tool_that_goes_between_two_calls_is_not_run(
    chain: Chain, native_browser: Chromium
) -> None:
    with trio.fail_after(60):
        tab = await chain.open(native_browser, "native.html")
        async with chain.client() as client:
            await until_listed(client, lambda names: len(names) == len(TOOLS))
            echo = chain.name("echo")
            assert await call(client, echo, text="one") == (False, "echo: one")
            await tab.evaluate("removeTool('echo')")
            is_error, text = await call(client, echo, text="two")
    assert is_error
    assert "Nothing was run" in text


async def tool_comes_and_goes(chain: Chain, chromium: Chromium, page: str) -> None:
    extra = chain.name("extra")
    with trio.fail_after(120):
        tab = await chain.open(chromium, page)
        async with chain.client() as client:
            await until_listed(client, lambda names: len(names) == len(TOOLS))
            async with client.listen(tools_list_changed=True) as changes:
                await tab.evaluate("addTool('extra')")
                await until_told(changes, client, lambda names: extra in names)
                assert await call(client, extra) == (False, "extra: extra")
                await tab.evaluate("removeTool('extra')")
                await until_told(changes, client, lambda names: extra not in names)
            is_error, text = await call(client, extra)
    assert is_error
    assert "Nothing was run" in text


# ── Both protocol eras on one command ───────────────────────────────────────────────────────────────────────


@pytest.fixture
async def raw(chain: Chain) -> AsyncIterator[RawClient]:
    async with chain.raw_client() as raw:
        yield raw


async def test_a_client_that_knows_only_2024_11_05_lists_calls_and_hears_of_changes(
    chain: Chain, browser: Chromium, raw: RawClient
) -> None:
    client_info = {"name": "old", "version": "1"}
    with trio.fail_after(60):
        hello = await raw.ask(
            0, "initialize", protocolVersion="2024-11-05", capabilities={}, clientInfo=client_info
        )
        await raw.say(method="notifications/initialized")
        await chain.open(browser, "tabserver.html")
        await raw.heard("notifications/tools/list_changed")
        tools = [tool["name"] for tool in (await raw.ask("list", "tools/list"))["tools"]]
        answer = await raw.ask(2**53, "tools/call", name=chain.name("echo"), arguments={"text": "é😀"})
        pong = await raw.ask(3, "ping")
        unknown = await raw.ask(4, "tools/call", name="never_seen", arguments={})
    assert hello["protocolVersion"] == "2024-11-05"
    assert hello["capabilities"]["tools"] == {"listChanged": True}
    assert chain.name("echo") in tools
    assert answer["content"] == [{"type": "text", "text": "echo: é😀"}]
    assert pong == {}
    assert unknown["code"] == -32602


async def test_a_client_that_asks_server_discover_first_is_served_in_2026_07_28(
    chain: Chain, browser: Chromium, raw: RawClient
) -> None:
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "claude-code", "version": "2.1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    await chain.open(browser, "tabserver.html")
    with trio.fail_after(60):
        found = await raw.ask(0, "server/discover", _meta=meta)
        names: list[str] = []
        while chain.name("echo") not in names:
            listed = await raw.ask(1, "tools/list", _meta=meta)
            names = [tool["name"] for tool in listed["tools"]]
        answer = await raw.ask(2, "tools/call", name=chain.name("echo"), arguments={"text": "hi"}, _meta=meta)
        clients = (await chain.status())["browsers"][0]["clients"]
    assert "2026-07-28" in found["supportedVersions"]
    assert "browser" in found["capabilities"]["experimental"]
    assert answer["content"] == [{"type": "text", "text": "echo: hi"}]
    assert any("claude-code" in client for client in clients)


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_a_cancelled_call_is_cancelled_in_the_page(chain: Chain, browser: Chromium, era: Era) -> None:
    tab = await chain.open(browser, "tabserver.html")
    with trio.fail_after(60):
        async with chain.client(era) as client, trio.open_nursery() as nursery:
            await until_listed(client, lambda names: chain.name("slow") in names)
            nursery.start_soon(client.call_tool, chain.name("slow"))
            await tab.wait_until("window.runs === 1")
            nursery.cancel_scope.cancel()
            with trio.CancelScope(shield=True), trio.fail_after(60):
                await tab.wait_until("window.cancelled === 1")


async def test_a_native_tool_s_signal_fires_when_its_call_is_cancelled(chain: Chain) -> None:
    with trio.fail_after(60):
        async with chain.browser(flags=[WEBMCP]) as chromium:
            tab = await chain.open(chromium, "native.html")
            if not await tab.evaluate("'ontoolcancel' in document.modelContext"):
                pytest.skip("this browser gives a native tool no signal (Chromium 150 does not, 156 does)")
            async with chain.client() as client, trio.open_nursery() as nursery:
                await until_listed(client, lambda names: chain.name("slow") in names)
                nursery.start_soon(client.call_tool, chain.name("slow"))
                await tab.wait_until("window.runs === 1")
                nursery.cancel_scope.cancel()
                with trio.CancelScope(shield=True), trio.fail_after(60):
                    await tab.wait_until("window.cancelled === 1")


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_progress_of_a_page_reaches_the_client(chain: Chain, browser: Chromium, era: Era) -> None:
    tab = await chain.open(browser, "tabserver.html")
    seen: list[tuple[float, float | None, str | None]] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))
        await tab.evaluate("window.finishSlow()")

    with trio.fail_after(60):
        async with chain.client(era) as client:
            await until_listed(client, lambda names: chain.name("slow") in names)
            await client.call_tool(chain.name("slow"), progress_callback=on_progress)
    assert seen == [(1, 2, "half way")]


# ── Many clients, many browsers ─────────────────────────────────────────────────────────────────────────────


async def test_three_clients_and_two_profiles_get_every_answer_and_nobody_hears_another_s(
    chain: Chain,
) -> None:
    """200 interleaved calls of each client in each profile; a bystander at each host counts what it hears."""
    calls = 200
    answered: list[str] = []

    async def ask(client: Client, who: int, name: str) -> None:
        for number in range(calls):
            said = f"{who} {name} {number}"
            assert await call(client, name, text=said) == (False, f"echo: {said}")
            answered.append(said)

    async def listen(bystander: SocketClient, heard: list[Any]) -> None:
        async for message in bystander.until_closed():
            heard.append(message)  # noqa: PERF401 - kept as it comes: the listener is cancelled

    with trio.fail_after(120):
        async with AsyncExitStack() as stack:
            for profile in ("work", "home"):
                chromium = await stack.enter_async_context(chain.browser(profile))
                await chain.open(chromium, f"tabserver.html?{profile}")
            clients = [await stack.enter_async_context(chain.client()) for _ in range(3)]
            heard: list[Any] = []
            async with trio.open_nursery() as listeners, AsyncExitStack() as bystanders:
                for record in endpoint.live_hosts(run_directory(chain)):
                    connecting = SocketClient.connected(run_directory(chain), record.instance)
                    bystander = await bystanders.enter_async_context(connecting)
                    listeners.start_soon(listen, bystander, heard)
                async with trio.open_nursery() as nursery:
                    for who, client in enumerate(clients):
                        # Both profiles' first tab of one site: the names carry a hash each.
                        names = await until_listed(client, lambda names: len(names) == 2 * len(TOOLS))
                        for name in (name for name in names if "_echo" in name):
                            nursery.start_soon(ask, client, who, name)
                listeners.cancel_scope.cancel()
    assert len(answered) == len(set(answered)) == 3 * 2 * calls
    assert [message for message in heard if "method" not in message] == []
    assert {message["method"] for message in heard} <= {"host/clients", "browser/tabChanged"}


# ── Sizes ───────────────────────────────────────────────────────────────────────────────────────────────────


async def test_large_answers_and_arguments_pass_and_too_large_ones_are_refused_by_size(
    chain: Chain, browser: Chromium
) -> None:
    await chain.open(browser, "tabserver.html")
    with trio.fail_after(200):
        async with chain.client() as client:
            await until_listed(client, lambda names: len(names) == len(TOOLS))
            assert await call(client, chain.name("big"), n=5 * MIB) == (False, "x" * (5 * MIB))
            assert await call(client, chain.name("size"), text="é" * (3 * MIB // 2)) == (
                False,
                str(3 * MIB // 2),
            )
            result_refused = await call(client, chain.name("big"), n=70 * MIB)
            arguments_refused = await call(client, chain.name("size"), text="x" * (70 * MIB))
            assert await call(client, chain.name("echo"), text="on") == (False, "echo: on")
    for (is_error, text), ran in ((result_refused, "may have run"), (arguments_refused, "Nothing was run")):
        assert is_error
        assert str(64 * MIB) in text
        assert str(70 * MIB)[:3] in text
        assert ran in text


# ── Deaths ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
async def own_browser(chain: Chain) -> AsyncIterator[Chromium]:
    """One that is new: its extension waits longer for a host each time that one dies soon after it came."""
    async with chain.browser() as chromium:
        yield chromium


async def test_when_the_host_is_killed_a_waiting_call_ends_at_once_and_the_tools_are_back(
    chain: Chain, own_browser: Chromium
) -> None:
    tab = await chain.open(own_browser, "tabserver.html")
    ended: list[tuple[bool, str]] = []

    async def wait_for_slow(client: Client) -> None:
        ended.append(await call(client, chain.name("slow")))

    with trio.fail_after(60):
        async with chain.client() as client:
            await until_listed(client, lambda names: len(names) == len(TOOLS))
            async with trio.open_nursery() as nursery:
                nursery.start_soon(wait_for_slow, client)
                await tab.wait_until("window.runs === 1")
                os.kill(host_pid(chain), signal.SIGKILL)
                with trio.fail_after(BACK_S):
                    await until(lambda: bool(ended))
                    await until_answered(client, chain.name("echo"), "echo: again", text="again")
        await tab.wait_until("window.cancelled === 1")
    ((is_error, text),) = ended
    assert is_error
    assert "may have run" in text
    assert len(endpoint.live_hosts(run_directory(chain))) == 1


async def test_when_a_bridge_is_killed_the_others_go_on(
    chain: Chain, browser: Chromium, raw: RawClient
) -> None:
    tab = await chain.open(browser, "tabserver.html")
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    with trio.fail_after(60):
        async with chain.client() as client:
            await until_listed(client, lambda names: len(names) == len(TOOLS))
            await raw.ask(0, "initialize", **hello)
            await raw.say(method="notifications/initialized")
            await raw.ask(1, "tools/list")
            await raw.say(id=2, method="tools/call", params={"name": chain.name("slow"), "arguments": {}})
            await tab.wait_until("window.runs === 1")
            raw.process.kill()
            await tab.wait_until("window.cancelled === 1")
            assert await call(client, chain.name("echo"), text="on") == (False, "echo: on")


async def test_when_a_browser_is_killed_the_other_goes_on_and_nothing_blocks_its_next_start(
    chain: Chain,
) -> None:
    with trio.fail_after(120):
        async with chain.browser("home") as survivor, chain.client() as client:
            await chain.open(survivor, "tabserver.html?home")
            async with chain.browser("work") as chromium:
                await chain.open(chromium, "tabserver.html?work")
                await until_listed(client, lambda names: len(names) == 2 * len(TOOLS))
                await chromium.kill()
            names = await until_listed(client, lambda names: len(names) == len(TOOLS))
            (echo,) = (name for name in names if "_echo" in name)
            assert await call(client, echo, text="on") == (False, "echo: on")
            async with chain.browser("work") as chromium:
                await chain.open(chromium, "tabserver.html?work")
                await until_listed(client, lambda names: len(names) == 2 * len(TOOLS))


async def test_when_the_worker_is_stopped_its_host_ends_and_the_tools_are_back(
    chain: Chain, own_browser: Chromium
) -> None:
    await chain.open(own_browser, "tabserver.html")
    with trio.fail_after(60):
        async with chain.client() as client:
            await until_listed(client, lambda names: len(names) == len(TOOLS))
            first = host_pid(chain)
            await own_browser.stop_workers()
            with trio.fail_after(BACK_S):
                await until(
                    lambda: [r.pid for r in endpoint.live_hosts(run_directory(chain))] not in ([], [first])
                )
                await until_answered(client, chain.name("echo"), "echo: again", text="again")


async def test_a_host_that_outlives_its_worker_serves_nobody_any_more(
    chain: Chain, own_browser: Chromium
) -> None:
    """It hangs while its worker is stopped: for two seconds, until the browser kills it, there are two."""
    tab = await chain.open(own_browser, "tabserver.html")
    ended: list[tuple[bool, str]] = []

    async def wait_for_slow(client: Client) -> None:
        ended.append(await call(client, chain.name("slow")))

    with trio.fail_after(60):
        async with chain.client() as client, trio.open_nursery() as nursery:
            await until_listed(client, lambda names: len(names) == len(TOOLS))
            nursery.start_soon(wait_for_slow, client)
            await tab.wait_until("window.runs === 1")
            old = host_pid(chain)
            os.kill(old, signal.SIGSTOP)
            await own_browser.stop_workers()
            with trio.fail_after(BACK_S):
                await until(lambda: len(endpoint.live_hosts(run_directory(chain))) == 2)
                # A call that still went to the old host fails when that is killed.
                await until_answered(client, chain.name("echo"), "echo: new", text="new")
            await tab.evaluate("window.finishSlow()")
            await until(lambda: bool(ended))
            assert [record.pid for record in endpoint.live_hosts(run_directory(chain))] != [old]
    ((is_error, text),) = ended
    assert is_error
    assert "may have run" in text


async def test_a_page_that_navigates_in_mid_call_ends_the_call_with_a_sentence(
    chain: Chain, browser: Chromium
) -> None:
    tab = await chain.open(browser, "tabserver.html")
    ended: list[tuple[bool, str]] = []

    async def wait_for_slow(client: Client) -> None:
        ended.append(await call(client, chain.name("slow")))

    with trio.fail_after(60):
        async with chain.client() as client, trio.open_nursery() as nursery:
            await until_listed(client, lambda names: len(names) == len(TOOLS))
            nursery.start_soon(wait_for_slow, client)
            await tab.wait_until("window.runs === 1")
            await tab.load(f"{chain.pages}/plain.html")
            await until(lambda: bool(ended))
            assert await until_listed(client, lambda names: not names) == set()
    ((is_error, text),) = ended
    assert is_error
    assert "may have run" in text


async def test_a_page_that_comes_back_from_the_back_forward_cache_offers_its_tools_again(
    chain: Chain, browser: Chromium
) -> None:
    tab = await chain.open(browser, "tabserver.html")
    with trio.fail_after(60):
        async with chain.client() as client:
            await until_listed(client, lambda names: len(names) == len(TOOLS))
            await tab.load(f"{chain.pages}/plain.html")
            await until_listed(client, lambda names: not names)
            await tab.evaluate("history.back()")
            await until_listed(client, lambda names: len(names) == len(TOOLS))
            assert await call(client, chain.name("echo"), text="back") == (False, "echo: back")


# ── First and last ──────────────────────────────────────────────────────────────────────────────────────────


async def test_a_client_that_starts_before_the_browser_is_told_when_it_comes(chain: Chain) -> None:
    with trio.fail_after(60):
        async with chain.client() as client, client.listen(tools_list_changed=True) as changes:
            assert await page_tools(client) == set()
            async with chain.browser() as chromium:
                await chain.open(chromium, "tabserver.html")
                await anext(aiter(changes))
                await until_listed(client, lambda names: len(names) == len(TOOLS))
                assert await call(client, chain.name("echo"), text="hi") == (False, "echo: hi")


async def test_without_any_browser_a_client_starts_and_is_told_what_is_missing(chain: Chain) -> None:
    with trio.fail_after(60):
        async with chain.client() as client:
            tools = {tool.name for tool in (await client.list_tools()).tools}
            is_error, text = await call(client, "list_page_tools")
    assert tools == set(FIXED)
    assert not is_error
    assert "mcpb install-native-host" in text


async def test_status_names_the_missing_link_and_the_command(chain: Chain) -> None:
    """First no manifest, then no extension, then no page with tools, then nothing."""
    profile = chain.home / "config/chromium"
    profile.mkdir(parents=True)
    env = {"XDG_CONFIG_HOME": str(chain.home / "config")}

    async def missing() -> str:
        run = await trio.run_process([*MCPB, "status"], env={**chain.env, **env}, capture_stdout=True)
        return run.stdout.decode()

    with trio.fail_after(120):
        assert (await missing()).startswith("Not ready: ")
        assert "mcpb install-native-host" in await missing()
        await trio.run_process(
            [*MCPB, "install-native-host", "--yes"], env={**chain.env, **env}, capture_stdout=True
        )
        assert "mcpb extension" in await missing()
        async with chain.browser() as chromium:
            await until(lambda: bool(endpoint.live_hosts(run_directory(chain))))
            assert "browser tools on, no page tools open." in await missing()
            await chain.open(chromium, "tabserver.html")
            await until_said(missing, chain.name("echo"))
            assert (await missing()).startswith("Ready: ")


async def test_the_command_line_lists_and_calls_a_page_s_tools(chain: Chain, browser: Chromium) -> None:
    async def tools() -> str:
        return (await chain.mcpb("tools")).stdout.decode()

    await chain.open(browser, "tabserver.html")
    with trio.fail_after(60):
        listed = await until_said(tools, chain.name("echo"))
        said = await chain.mcpb("call", chain.name("echo"), "text=hello")
        failed = await chain.mcpb("call", chain.name("boom"), check=False)
    assert chain.name("whoami") in listed
    assert said.stdout.decode() == "echo: hello\n"
    assert failed.returncode == 1
    assert "boom from the page" in failed.stdout.decode()


async def test_the_popup_says_that_it_is_connected_and_what_this_tab_offers(
    chain: Chain, browser: Chromium
) -> None:
    with trio.fail_after(60):
        await chain.open(browser, "tabserver.html")
        # Behind the page: a popup asks for the tab that is shown.
        behind = await browser.send("Target.createTarget", {"url": "about:blank", "background": True})
        popup = await browser.attach(behind["targetId"])
        await popup.load(f"chrome-extension://{EXTENSION_ID}/popup/popup.html")
        await popup.wait_until("document.getElementById('state').innerText.startsWith('Connected')")
        await popup.wait_until("document.getElementById('offers').innerText.includes('echo (mcp-b)')")
        assert chain.pages in await popup.evaluate("document.getElementById('offers').innerText")


async def test_a_browser_whose_host_is_missing_says_what_to_run_and_connects_by_itself_after_that(
    chain: Chain,
) -> None:
    with trio.fail_after(60):
        async with chain.browser(is_registered=False) as chromium:
            popup = await chromium.open_page(f"chrome-extension://{EXTENSION_ID}/popup/popup.html")
            await popup.wait_until("document.body.innerText.includes('mcpb install-native-host')")
            await popup.close()
            chain.register(chain.home / "profile")
            with trio.fail_after(20):  # it looks every 3 s, since the extension was loaded just now
                await until(lambda: bool(endpoint.live_hosts(run_directory(chain))))


# ── Profiles and processes of a real Chromium, as `mcpb doctor` reads them ──────────────────────────────────


async def test_a_real_chromium_writes_down_what_we_read(short_tmp: Path) -> None:
    """The list when it ends, and what the extension stores at once."""
    profile = short_tmp / "profile"
    folder = Path(next(iter(extension.__path__)))
    with trio.fail_after(120):
        async with open_chromium(profile) as chromium:
            assert chromium_extensions(profile) == []
            await chromium.load_extension(folder)
            await until(lambda: is_used_in(profile))
            await chromium.send("Browser.close")
            await chromium.process.wait()
    installed = chromium_extensions(profile)
    assert installed is not None
    (found,) = installed
    assert (found.extension_id, found.is_enabled, found.version) == (EXTENSION_ID, True, __version__)


async def test_a_real_chromium_is_found_once_with_its_folder(short_tmp: Path) -> None:
    if this_machine().system != "linux":
        pytest.skip("the executable's name is read from /proc")
    with trio.fail_after(120):
        async with open_chromium(short_tmp / "profile") as chromium:
            await chromium.open_page("data:text/html,a renderer of its own")
            its_own = replace(this_machine(), user_home=short_tmp / "profile")
            running = running_browsers(its_own, known_browsers(), os.getuid())
            ours = [each for each in running if each.user_data_dir == short_tmp / "profile"]
            assert [each.pid for each in ours] == [chromium.process.pid]
