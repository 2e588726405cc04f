"""Journeys: an MCP client, the bridge, a real native host process, and a browser that speaks its wire."""

import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NoReturn

import mcp
import mcp_types
import msgspec
import pytest
import trio

from bridge.hub.router import CHANGES_APART_S
from bridge.hub.tool_definition import mark_of
from custom_tools import FIXED
from demo.simulated.browser import SimulatedBrowser
from demo.simulated.tabs import SimulatedTab
from demo.simulated.worker import current_call
from fake_host import PlayedHost
from fake_transport import browser_hello, tab
from mcp_client import BRIDGE_COMMAND, BridgeProcess, McpLines, bridge_in_process, text_of
from native_host.protocol import wire
from wire_peers import HOST_COMMAND

SHOP = "http://localhost:8123/"
GET_CART = "website_tool_localhost_8123_tab1_getCart"
SOON_S = 30

pytestmark = pytest.mark.usefixtures("mcpb_home")


async def get_cart(_arguments: dict[str, Any]) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": "one tea"}]}


async def echo(arguments: dict[str, Any]) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": str(arguments)}]}


@pytest.fixture
async def browser(mcpb_home: Path) -> AsyncIterator[SimulatedBrowser]:
    async with SimulatedBrowser(HOST_COMMAND) as browser:
        yield browser


@pytest.fixture
def shop(browser: SimulatedBrowser) -> SimulatedTab:
    tab = browser.add_tab(SHOP, "Shop")
    tab.offer("getCart", get_cart, description="What is in the cart")
    return tab


@pytest.fixture
async def client(mcpb_home: Path) -> AsyncIterator[McpLines]:
    """In the handshake era, at its oldest."""
    async with bridge_in_process() as client:
        with trio.fail_after(SOON_S):
            await client.shake_hands()
        yield client


@pytest.fixture
async def shopper(client: McpLines, shop: SimulatedTab) -> McpLines:
    """A client that has seen the shop's tools."""
    with trio.fail_after(SOON_S):
        await client.until_offered(GET_CART)
    client.unasked.clear()
    return client


def package_client(mode: str, **more: Any) -> mcp.Client:
    """The `mcp` package's own; "auto" is 2026-07-28."""
    command, *arguments = BRIDGE_COMMAND
    parameters = mcp.StdioServerParameters(command=command, args=arguments, env=dict(os.environ))
    return mcp.Client(parameters, mode=mode, **more)


def words(result: mcp_types.CallToolResult) -> str:
    return "\n".join(block.text for block in result.content if isinstance(block, mcp_types.TextContent))


@pytest.mark.parametrize(("mode", "version"), [("auto", "2026-07-28"), ("legacy", "2025-11-25")])
async def test_a_client_of_either_era_lists_and_calls_a_pages_tool(
    shop: SimulatedTab, mode: str, version: str
) -> None:
    with trio.fail_after(SOON_S):
        async with package_client(mode) as client:
            assert client.protocol_version == version
            assert client.server_capabilities.tools == mcp_types.ToolsCapability(list_changed=True)
            assert "browser" in (client.server_capabilities.experimental or {})
            listed = await client.list_tools()
            tool = next(tool for tool in listed.tools if tool.name == GET_CART)
            place = f'{mark_of("http://localhost:8123")} [tab 1 "Shop" • Active]'
            assert tool.description == f"{place} The page says: What is in the cart"
            assert words(await client.call_tool(GET_CART, {})) == "one tea"


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_progress_reaches_a_client_of_either_era(shop: SimulatedTab, mode: str) -> None:
    async def slow(_arguments: dict[str, Any]) -> str:
        current_call().report_progress(1, 2, "half")
        return "done"

    reports: list[tuple[float, float | None, str | None]] = []

    async def report(progress: float, total: float | None, message: str | None) -> None:
        reports.append((progress, total, message))

    shop.offer("slow", slow)
    with trio.fail_after(SOON_S):
        async with package_client(mode) as client:
            name = GET_CART.replace("getCart", "slow")
            assert words(await client.call_tool(name, {}, progress_callback=report)) == "done"
    assert reports == [(1.0, 2.0, "half")]


async def test_nothing_is_written_after_a_client_goes_with_a_call_open(shop: SimulatedTab) -> None:
    """A client of Python SDK 1 raises an error at its end for a message that comes after it."""
    has_begun, is_cancelled = trio.Event(), trio.Event()

    async def hold(_arguments: dict[str, Any]) -> NoReturn:
        has_begun.set()
        try:
            await trio.sleep_forever()
        finally:
            is_cancelled.set()
        raise AssertionError

    shop.offer("hold", hold)
    with trio.fail_after(SOON_S):
        async with BridgeProcess.started() as client:
            await client.shake_hands()
            name = GET_CART.replace("getCart", "hold")
            await client.until_offered(name)
            await client.send("tools/call", {"name": name, "arguments": {}})
            await has_begun.wait()
            await client.aclose()
            shop.offer("another", get_cart)
            assert await client.rest() == b""
            await is_cancelled.wait()


async def test_a_client_that_only_knows_2024_11_05_is_answered_in_it(shop: SimulatedTab) -> None:
    with trio.fail_after(SOON_S):
        async with BridgeProcess.started() as client:
            hello = await client.shake_hands("2024-11-05")
            assert hello["protocolVersion"] == "2024-11-05"
            assert hello["serverInfo"]["name"] == "mcpb"
            assert await client.tool_names() == [GET_CART]
            assert await client.call(GET_CART) == {
                "_meta": {"dev.mcpb/untrusted": True, "dev.mcpb/origin": "http://localhost:8123"},
                "content": [{"type": "text", "text": "one tea"}],
            }
            assert await client.ask("ping") == {}


async def test_tools_that_a_page_adds_and_removes_appear_and_disappear_with_list_changed(
    shopper: McpLines, shop: SimulatedTab
) -> None:
    with trio.fail_after(SOON_S):
        shop.offer("checkout", get_cart)
        await shopper.heard("notifications/tools/list_changed")
        assert len(await shopper.tool_names()) == 2
        shop.withdraw("getCart")
        await shopper.heard("notifications/tools/list_changed")
        assert await shopper.tool_names() == [GET_CART.replace("getCart", "checkout")]
        assert "no longer offers" in text_of(await shopper.call(GET_CART))


async def test_list_changed_reaches_a_2026_client_that_listens(shop: SimulatedTab) -> None:
    with trio.fail_after(SOON_S):
        async with package_client("auto") as client:
            await client.list_tools()
            async with client.listen(tools_list_changed=True) as events:
                shop.offer("checkout", get_cart)
                assert type(await anext(aiter(events))).__name__ == "ToolsListChanged"


async def test_a_browser_that_starts_after_the_client_is_found(client: McpLines, mcpb_home: Path) -> None:
    with trio.fail_after(SOON_S):
        assert await client.tool_names() == []
        async with SimulatedBrowser(HOST_COMMAND) as browser:
            browser.add_tab(SHOP, "Shop").offer("getCart", get_cart)
            await client.heard("notifications/tools/list_changed")
            assert await client.tool_names() == [GET_CART]


async def test_without_any_browser_the_client_starts_and_is_told_what_to_run(client: McpLines) -> None:
    with trio.fail_after(SOON_S):
        listed = await client.ask("tools/list")
        assert [tool["name"] for tool in listed["tools"]] == FIXED
        assert "mcpb install-native-host" in text_of(await client.call("list_page_tools"))


async def test_what_a_page_throws_is_its_own_text(shopper: McpLines, shop: SimulatedTab) -> None:
    async def fail(_arguments: dict[str, Any]) -> str:
        raise RuntimeError("Error: out of tea")

    shop.offer("getCart", fail)
    with trio.fail_after(SOON_S):
        result = await shopper.call(GET_CART)
    assert (result["isError"], text_of(result)) == (True, "Error: out of tea")


async def test_an_unknown_name_is_a_protocol_error(client: McpLines) -> None:
    with trio.fail_after(SOON_S):
        answer = await client.call("website_tool_nowhere_tab1_x")
    assert answer["error"]["code"] == -32602


@pytest.mark.parametrize(
    "odd",
    [
        '"just text"',
        "[1,2]",
        '{"content":"not a list"}',
        '{"content":[{"type":"hologram"}]}',
        '{"structuredContent":{"a":1},"content":7}',
    ],
)
async def test_what_is_no_tool_result_reaches_the_client_as_text(
    shopper: McpLines, shop: SimulatedTab, odd: str
) -> None:
    async def answer(_arguments: dict[str, Any]) -> msgspec.Raw:
        return msgspec.Raw(odd.encode())

    shop.offer("getCart", answer)
    with trio.fail_after(SOON_S):
        result = await shopper.call(GET_CART)
    assert text_of(result) == odd


async def test_one_bad_tool_never_harms_the_list(shopper: McpLines, shop: SimulatedTab) -> None:
    shop.offer("bad1", get_cart, input_schema={"type": "object", "properties": []})
    shop.offer("bad2", get_cart, input_schema={"type": "array"})
    shop.offer("mended", get_cart, annotations="none")
    shop.offer("good", get_cart)
    with trio.fail_after(SOON_S):
        await shopper.until_offered(GET_CART.replace("getCart", "good"))
        listed = await shopper.tool_names()
    assert [name.rpartition("_")[2] for name in listed] == ["getCart", "mended", "good"]


@pytest.mark.parametrize("era", ["handshake", "2026"])
async def test_a_cancelled_call_is_cancelled_in_the_page_and_never_answered(
    mcpb_home: Path, shop: SimulatedTab, era: str
) -> None:
    begun, ended = trio.Event(), trio.Event()

    async def endless(_arguments: dict[str, Any]) -> NoReturn:
        begun.set()
        try:
            await trio.sleep_forever()
        finally:
            ended.set()

    shop.offer("getCart", endless)
    with trio.fail_after(SOON_S):
        async with bridge_in_process() as client:
            if era == "2026":
                await client.need_no_handshake()
            else:
                await client.shake_hands()
            await client.until_offered(GET_CART)
            request_id = await client.send("tools/call", {"name": GET_CART, "arguments": {}})
            await begun.wait()
            await client.notify("notifications/cancelled", {"requestId": request_id})
            await ended.wait()
            await client.tool_names()
            assert not client.is_answered(request_id)


async def test_5_mb_come_back_and_3_mb_go_in(shopper: McpLines, shop: SimulatedTab) -> None:
    async def swap(arguments: dict[str, Any]) -> dict[str, Any]:
        assert len(arguments["text"]) == 3_000_000
        return {"content": [{"type": "text", "text": "y" * 5_000_000}]}

    shop.offer("getCart", swap)
    with trio.fail_after(SOON_S):
        assert text_of(await shopper.call(GET_CART, text="x" * 3_000_000)) == "y" * 5_000_000


async def test_70_mb_of_arguments_are_refused_by_size_and_the_chain_goes_on(
    shopper: McpLines, shop: SimulatedTab
) -> None:
    with trio.fail_after(3 * SOON_S):
        result = await shopper.call(GET_CART, text="x" * 70_000_000)
        assert result["isError"] is True
        assert "7000" in text_of(result)
        assert "67108864" in text_of(result)
        assert text_of(await shopper.call(GET_CART)) == "one tea"


async def test_a_killed_host_ends_its_calls_at_once_and_the_tools_are_back_soon(
    shopper: McpLines, browser: SimulatedBrowser, shop: SimulatedTab
) -> None:
    begun = trio.Event()

    async def endless(_arguments: dict[str, Any]) -> NoReturn:
        begun.set()
        await trio.sleep_forever()

    shop.offer("wait", endless)
    with trio.fail_after(SOON_S):
        name = GET_CART.replace("getCart", "wait")
        await shopper.until_offered(name)
        with trio.move_on_after(2 * CHANGES_APART_S):  # what is told of that tool may come after it is listed
            while True:
                await shopper.heard("notifications/tools/list_changed")
        request_id = await shopper.send("tools/call", {"name": name, "arguments": {}})
        await begun.wait()
        await browser.kill_host()
        text = text_of(await shopper.answer_to(request_id))
        assert "went away" in text
        assert "It may have run" in text
        await browser.connect()
        assert text_of(await shopper.call(GET_CART)) == "one tea"
    assert shopper.unasked == []


async def test_same_named_tools_of_two_profiles_are_told_apart(
    shopper: McpLines, shop: SimulatedTab, mcpb_home: Path
) -> None:
    async def other_cart(_arguments: dict[str, Any]) -> str:
        return "two teas"

    with trio.fail_after(SOON_S):
        async with SimulatedBrowser(HOST_COMMAND) as second:
            second.add_tab(SHOP, "Shop").offer("getCart", other_cart)
            while len(names := await shopper.tool_names()) < 2:
                await shopper.heard("notifications/tools/list_changed")
            answers = {text_of(await shopper.call(name)) for name in names}
    assert answers == {"one tea", "two teas"}


async def test_interleaved_calls_of_three_clients_to_two_profiles_are_each_answered_with_their_own(
    shop: SimulatedTab, browser: SimulatedBrowser
) -> None:
    shop.offer("getCart", echo)
    right = 0

    async def ask_many(who: int) -> None:
        nonlocal right
        async with bridge_in_process() as client:
            await client.shake_hands()
            while len(names := await client.tool_names()) < 2:
                await client.heard("notifications/tools/list_changed")
            asked = [
                (await client.send("tools/call", {"name": name, "arguments": {"who": who, "n": n}}), n)
                for n in range(200)
                for name in names
            ]
            for request_id, n in asked:
                answer = text_of(await client.answer_to(request_id))
                right += answer in (str({"who": who, "n": n}), str({"second": True, "who": who, "n": n}))

    async def second_echo(arguments: dict[str, Any]) -> dict[str, Any]:
        return await echo({"second": True, **arguments})

    with trio.fail_after(3 * SOON_S):
        async with SimulatedBrowser(HOST_COMMAND) as second:
            second.add_tab(SHOP, "Shop").offer("getCart", second_echo)
            async with trio.open_nursery() as nursery:
                for who in range(3):
                    nursery.start_soon(ask_many, who)
            assert len(second.heard("browser/executeTool")) == 600
    assert len(browser.heard("browser/executeTool")) == 600
    assert right == 1200


async def test_the_browser_is_told_which_sessions_are_behind_a_bridge(
    client: McpLines, browser: SimulatedBrowser
) -> None:
    with trio.fail_after(SOON_S):
        while not (sessions := await _sessions(browser)):
            await browser.wait_heard("host/clients", len(browser.heard("host/clients")) + 1)
    assert sessions[0]["client"] == {"name": "by hand", "version": "1"}
    assert sessions[0]["title"] == f"by hand in {Path.cwd().name}"


async def _sessions(browser: SimulatedBrowser) -> list[dict[str, Any]]:
    heard = browser.heard("host/clients")
    clients = msgspec.json.decode(heard[-1].params)["clients"] if heard else []
    return [session for client in clients for session in client["sessions"]]


async def test_lines_that_are_no_messages_are_answered_and_the_rest_goes_on(client: McpLines) -> None:
    hostile = {
        b"not json": (None, -32700),
        b"[]": (None, -32600),
        b'{"jsonrpc":"2.0","id":71,"method":"ping","params":{"n":NaN}}': (71, -32700),
        b'{"jsonrpc":"2.0","id":72,"method":"ping","params":{"s":"\\ud800"}}': (72, None),
        b'{"jsonrpc":"2.0","id":73,"method":"ping","params":' + b"[" * 300 + b"]" * 300 + b"}": (73, -32600),
        b'{"jsonrpc":"2.0","id":74,"method":"ping","params":' + b"[" * 99_999 + b"]" * 99_999 + b"}": (
            None,
            -32700,
        ),
        b'{"jsonrpc":"2.0","id":true,"method":"ping"}': (None, -32600),
        b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}': (1.5, -32600),
        b'{"jsonrpc":"2.0","id":1152921504606846976,"id":75,"method":"ping"}': (75, None),
        b'{"jsonrpc":"2.0","id":1152921504606846976,"method":"ping"}': (1152921504606846976, None),
    }
    with trio.fail_after(SOON_S):
        for line, (expected_id, code) in hostile.items():
            await client.say_line(line)
            answer = await client.next_message()
            assert answer["id"] == expected_id, line[:60]
            if code is not None:
                assert answer["error"]["code"] == code, line[:60]
        assert await client.ask("ping") == {}


async def test_stdin_may_be_a_file_and_what_it_asks_is_answered_before_the_end(
    shop: SimulatedTab, tmp_path: Path
) -> None:
    lines = tmp_path / "lines"
    client = '"clientInfo":{"name":"file","version":"1"}'
    lines.write_text(
        '{"jsonrpc":"2.0","id":1,"method":"initialize",'
        f'"params":{{"protocolVersion":"2025-06-18","capabilities":{{}},{client}}}}}\n'
        '{"jsonrpc":"2.0","method":"notifications/initialized"}\n'
        f'{{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{{"name":"{GET_CART}"}}}}'
    )
    with trio.fail_after(SOON_S), lines.open("rb") as stdin:
        done = await trio.run_process(BRIDGE_COMMAND, stdin=stdin, capture_stdout=True)
    assert b'"id":1,' in done.stdout
    assert b"one tea" in done.stdout


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
async def test_a_signal_ends_the_bridge_in_peace(number: signal.Signals) -> None:
    with trio.fail_after(SOON_S):
        async with BridgeProcess.started() as client:
            await client.shake_hands()
            client.process.send_signal(number)
            assert await client.process.wait() == 0


@pytest.mark.parametrize("number", [None, signal.SIGTERM])
@pytest.mark.parametrize("closing", ["never", "unused"])
async def test_a_client_s_tabs_are_released_or_closed_at_its_end(
    browser: SimulatedBrowser,
    shop: SimulatedTab,
    number: signal.Signals | None,
    closing: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MCPB_BROWSER_CLOSE_TABS", closing)
    with trio.fail_after(SOON_S):
        async with BridgeProcess.started() as client:
            await client.shake_hands()
            await client.until_offered(GET_CART)
            await client.call("tabs_create_mcp")
            (own,) = [tab for tab in browser.tabs.values() if tab.state.owner]
            if number:
                client.process.send_signal(number)
                await client.process.wait()
        if closing == "never":
            assert own.state.owner is None
        assert (own.tab_id in browser.tabs) == (closing == "never")


async def test_a_browser_that_does_not_answer_keeps_no_bridge_from_its_end(mcpb_home: Path) -> None:
    with trio.fail_after(SOON_S):
        async with PlayedHost.in_directory(mcpb_home / "run") as host, bridge_in_process() as client:
            await host.welcome(wire.Tabs(tabs=[]))
            capable = wire.Capabilities(commands=["documentId"])
            await host.announce(msgspec.structs.replace(browser_hello(), capabilities=capable))
            await client.shake_hands()
            async with trio.open_nursery() as calls:
                calls.start_soon(client.call, "tabs_create_mcp")
                asked = await host.heard("createTab")
                await host.announce(wire.TabChanged(tab=tab(9, "null", owner=asked["params"]["session"])))
                await host.answer(asked, {"tabId": 9, "windowId": 1, "groupId": 5, "url": "about:blank"})
            await client.aclose()
            await host.heard("closeSession")  # and says nothing


async def test_a_client_that_stops_reading_ends_the_bridge() -> None:
    with trio.fail_after(SOON_S):
        async with BridgeProcess.started() as client:
            await client.shake_hands()
            await client.stop_reading()
            await client.send("ping")
            assert await client.process.wait() == 0


async def test_a_bridge_also_logs_to_a_file_of_its_user_alone(
    mcpb_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MCPB_LOG", "loud")
    with trio.fail_after(SOON_S):
        async with BridgeProcess.started() as client:
            await client.shake_hands()
    file = mcpb_home / "state" / "mcpb.log"
    assert "WARNING bridge.state.log_file: MCPB_LOG is debug or wire" in file.read_text()
    assert [path.stat().st_mode & 0o777 for path in (file, file.parent)] == [0o600, 0o700]


@pytest.mark.parametrize("name", ["state", "state/mcpb.log"])
async def test_a_bridge_that_cannot_open_its_log_file_serves_all_the_same(mcpb_home: Path, name: str) -> None:
    (mcpb_home / name).parent.mkdir(mode=0o700, exist_ok=True)
    (mcpb_home / name).symlink_to(mcpb_home)
    with trio.fail_after(SOON_S):
        async with BridgeProcess.started() as client:
            await client.shake_hands()
    assert not (mcpb_home / "mcpb.log").exists()
