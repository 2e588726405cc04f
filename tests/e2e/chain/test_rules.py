"""Rules of the MCP-B specification that no other file is about; docs/PROTOCOL.md has the table of all."""

from __future__ import annotations

import json
import logging
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import trio

from bridge.errors import CallError
from bridge.hub.argument_validation import Arguments
from bridge.hub.client_session import Session
from bridge.hub.router import Router
from bridge.hub.transport import DiscoveryFinished, TabAddress
from bridge.links.browsers.native_hosts import NativeLinks
from bridge.state import log_file
from demo.chromium import Chromium, Page
from fake_host import PlayedHost
from fake_transport import PlayedTransport, browser_hello, host_hello, one_page
from full_chain import EXTENSION, Chain
from native_host.protocol import wire
from native_host.protocol.wire import EXTENSION_ID, Code
from native_host.relay.message_router import MessageRouter
from page_scripts import IsolatedWorld
from socket_observer import Frame, Onlooker, hosts, onlooking

pytestmark = pytest.mark.one_browser

SOON_S = 30
UUID = r"^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$"


@pytest.fixture
async def links(short_tmp: Path, nursery: trio.Nursery) -> NativeLinks:
    links = NativeLinks([short_tmp / "run"])
    nursery.start_soon(links.run)
    return links


@pytest.fixture
async def host(links: NativeLinks, short_tmp: Path) -> AsyncIterator[PlayedHost]:
    async with PlayedHost.in_directory(short_tmp / "run") as host:
        with trio.fail_after(SOON_S):
            await host.welcome(*one_page("getCart"))
        yield host


@pytest.fixture
async def client(chain: Chain, browser: Chromium) -> AsyncIterator[Onlooker]:
    with trio.fail_after(60):
        async with onlooking(chain) as client:
            yield client


@pytest.fixture
async def shop(chain: Chain, browser: Chromium, client: Onlooker) -> Page:
    page = await chain.open(browser, "tabserver.html")
    await client.until_offered("echo")
    return page


# ── A request leaves nothing behind ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("end", ["answered", "timed out", "cancelled", "lost"])
async def test_however_a_request_ends_its_link_keeps_nothing_of_it(
    links: NativeLinks, host: PlayedHost, nursery: trio.Nursery, end: str
) -> None:
    link = links._connections[host.instance]
    scope, over = trio.CancelScope(), trio.Event()

    async def ask() -> None:
        timeout_s = 0.05 if end == "timed out" else SOON_S
        with scope, suppress(CallError):
            await links.request(TabAddress(host.instance, 1), "getTabs", wire.Asked(), timeout_s)
        over.set()

    with trio.fail_after(SOON_S):
        nursery.start_soon(ask)
        request = await host.heard("getTabs")
        assert len(link._in_flight) == 1
        match end:
            case "answered":
                await host.answer(request, {"tabs": []})
            case "cancelled":
                scope.cancel()
            case "lost":
                await trio.aclose_forcefully(host.stream)
        await over.wait()
    assert (link._in_flight, link._waiting, link.deadlines._timed) == ({}, {}, {})


@pytest.mark.parametrize("end", ["answered", "cancelled", "its client left"])
def test_however_a_request_ends_the_host_keeps_nothing_of_it_or_its_question(end: str) -> None:
    board = MessageRouter(host_hello("ab"))

    def browser(**message: Any) -> None:
        board.from_browser(json.dumps({"jsonrpc": "2.0", **message}).encode())

    def client(**message: Any) -> None:
        board.from_client("ab-1", json.dumps({"jsonrpc": "2.0", **message}).encode())

    def refuse() -> None:  # as bridges do when the call that asked has ended
        client(id="ext:1", error={"code": Code.GONE, "message": "the call that asked has ended"})

    board.on_connected("ab-1")
    client(method="bridge/hello", params={"wire": wire.WIRE_VERSION, "version": "0", "pid": 7})
    client(id=7, method="browser/executeTool", params={"args": {}})
    while board.outbox:
        _, key, done = board.outbox.pop_next(0)
        board.on_written(key, done)
    browser(id="ext:1", method="browser/elicitConfirmation", params={"message": "Buy?"}, **{"for": "ab-1:1"})
    assert board._correlation._askers
    assert board._questions._asked
    match end:
        case "answered":
            browser(id="ab-1:1", result={})
            refuse()
        case "cancelled":
            client(method="browser/cancel", params={"id": 7})
            refuse()
        case _:
            board.on_disconnected("ab-1")
    assert not board._correlation._askers
    assert not any(board._correlation._shared_ids.values())
    assert not board._questions._asked
    assert board.waiting_bytes("ab-1") == 0


@pytest.mark.parametrize("end", ["answered", "cancelled", "its client left", "its host was killed"])
async def test_however_a_call_ends_the_extension_keeps_nothing_of_it(
    chain: Chain, client: Onlooker, shop: Page, end: str
) -> None:
    """A page that asks the person is told whether a call of its frame is still known."""
    async with onlooking(chain) as asker:
        call = await asker.begin_call(await client.until_offered("slow"), "slow")
        await shop.wait_until("window.runs === 1")
        match end:
            case "answered":
                await shop.evaluate("window.finishSlow()")
                await asker.answer_to(call)
            case "cancelled":
                await asker.notify("browser/cancel", id=call)
            case "its client left":
                await asker.stream.aclose()
            case _:
                os.kill(hosts(chain)[0].pid, signal.SIGKILL)
        if end != "answered":
            await shop.wait_until("window.cancelled === 1")
        answer = await shop.evaluate("server.request('elicitation/create', { message: 'Buy?' })")
    assert "no call runs" in answer["error"]["message"]


# ── What the bridge does ────────────────────────────────────────────────────────────────────────────────────


async def test_a_tab_that_is_disconnected_is_forgotten_without_a_word_to_the_browser(
    links: NativeLinks, host: PlayedHost, nursery: trio.Nursery
) -> None:
    heard: list[object] = []
    links.set_listener(heard.append)
    links.disconnect(TabAddress(host.instance, 1))
    with trio.fail_after(SOON_S):
        nursery.start_soon(links.request, TabAddress(host.instance), "getTabs", wire.Asked(), SOON_S)
        said = [await host.next_message()]
        while said[-1]["method"] != "getTabs":
            said.append(await host.next_message())
        await host.answer(said[-1], {"tabs": []})
    assert [message["method"] for message in said] == ["bridge/sessions", "getTabs"]
    assert [getattr(event, "message", None) for event in heard] == [wire.TabRemoved(tab_id=1)]


async def test_a_call_has_ten_seconds_unless_the_person_says_otherwise(nursery: trio.Nursery) -> None:
    transport = PlayedTransport()
    router = Router(transport)
    transport.happen(DiscoveryFinished())
    transport.connect("h1", *one_page("getCart"))
    await router.call(Session("ours"), "website_tool_shop_example_tab1_getCart", Arguments.of({}))
    assert [asked.timeout_s for asked in transport.asked] == [10.0]


async def test_what_the_browser_can_be_commanded_is_no_tool() -> None:
    transport = PlayedTransport()
    router = Router(transport)
    hello = browser_hello()
    hello.capabilities.commands = ["browser/executeTool", "createTab", "forwardCDPCommand"]
    transport.happen(DiscoveryFinished())
    transport.connect("h1", hello, *one_page("getCart"))
    listed = [tool["name"] for tool in await router.list_tools_decoded(Session("ours"))]
    assert listed == [
        "list_page_tools",
        "call_page_tool",
        "read_resource",
        "website_tool_shop_example_tab1_getCart",
    ]


@pytest.fixture
def wire_log(short_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The log file of a bridge that was started with `MCPB_LOG=wire`."""
    monkeypatch.setenv("MCPB_LOG", "wire")
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    log_file.configure_logging(short_tmp / "state")
    yield short_tmp / "state" / "mcpb.log"
    for handler in logging.getLogger().handlers:
        handler.close()
    for name in ("bridge", "bridge.wire"):
        logging.getLogger(name).setLevel(logging.NOTSET)


async def test_with_mcpb_log_wire_each_message_is_named_and_nothing_of_it_is_quoted(
    wire_log: Path, links: NativeLinks, host: PlayedHost, nursery: trio.Nursery
) -> None:
    params = wire.CreateTab(url="https://secret.example/")
    with trio.fail_after(SOON_S):
        nursery.start_soon(links.request, TabAddress(host.instance), "createTab", params, SOON_S)
        await host.heard("createTab")
    assert "DEBUG bridge.wire: → createTab" in wire_log.read_text()
    assert "secret" not in wire_log.read_text()


# ── What the extension hears ────────────────────────────────────────────────────────────────────────────────


def test_no_other_extension_and_no_page_can_dial_the_extension() -> None:
    manifest = json.loads((EXTENSION / "manifest.json").read_text())
    assert "externally_connectable" not in manifest
    sources = [path.read_text() for path in EXTENSION.rglob("*.js")]
    assert sources
    assert not any("onConnectExternal" in source or "onMessageExternal" in source for source in sources)


async def test_an_unknown_request_is_refused_by_the_extension_and_members_it_does_not_know_do_no_harm(
    client: Onlooker, shop: Page
) -> None:
    refused = await client.request("browser/doSomethingNew")
    assert (refused["code"], refused["data"]) == (Code.METHOD_NOT_FOUND, {"handed": False})
    await client.notify("browser/somethingNew", id=1)
    frame = await client.until_offered("echo")
    params = {**address_of(frame), "toolName": "echo", "args": {"text": "hi"}}
    executed = await client.request("browser/executeTool", **params, extensions={"token": "x"}, later=[1])
    assert executed == {"success": True, "payload": {"content": [{"type": "text", "text": "echo: hi"}]}}


def address_of(frame: Frame) -> dict[str, Any]:
    return {name: frame[name] for name in ("tabId", "frameId", "documentId")}


PORT_OF_THE_CONTENT_SCRIPT = """(() => {
    const { connect } = chrome.runtime;
    chrome.runtime.connect = (...how) => (globalThis.port = connect.apply(chrome.runtime, how));
    window.dispatchEvent(new PageTransitionEvent("pageshow", { persisted: true })); // it dials anew
    chrome.runtime.connect = connect;
    return port.name;
})()"""
"""A page that has got at its content script may say whatever it likes over this port."""

MALFORMED: list[Any] = [
    None,
    7,
    "register-tools",
    [],
    {},
    {"type": ["register-tools"]},
    {"type": "createTab", "url": "https://example.com/"},
    {"type": "register-tools"},
    {"type": "register-tools", "tools": "echo", "via": 7, "leftOut": "many", "serverInfo": "me"},
    {"type": "tools-updated", "tools": [None, 7, {"name": 7}, {"name": ""}, []], "via": None},
    {"type": "tool-result"},
    {"type": "tool-result", "requestId": {}, "error": None},
    {"type": "tool-progress", "requestId": None, "progress": "half"},
    {"type": "page-notification", "method": 7},
    {"type": "page-notification", "method": "notifications/x", "params": "none"},
    {"type": "page-question", "questionId": 7},
    {"type": "page-question", "questionId": "q", "method": "elicitation/create", "params": None},
    {"type": "page-question", "questionId": "q", "method": ["roots/list"]},
    {"type": "page-question-cancelled", "questionId": []},
    {"type": "child-frame", "nonce": {}},
    {"type": "to-server"},
    {"type": "resource-watched"},
    {"type": "resource-updated", "uri": {}},
    {"type": "resource-updated", "uri": "cart://1"},
    {"type": "resource-rejected", "uri": 7, "message": {}},
    {"type": "resources-unwatched", "uri": []},
    {
        "type": "tools-updated",
        "tools": [],
        "via": {},
        "resources": 7,
        "prompts": [[]],
        "resourceTemplates": {},
    },
    {"type": "from-child", "nonce": None},
]


async def test_what_no_content_script_says_is_ignored_and_the_next_message_is_heard(
    chain: Chain, browser: Chromium, client: Onlooker, shop: Page
) -> None:
    world = await IsolatedWorld.of(browser, shop)
    assert await world.evaluate(PORT_OF_THE_CONTENT_SCRIPT) == "mcpb-frame"
    await world.evaluate(f"{json.dumps(MALFORMED)}.forEach((message) => port.postMessage(message))")
    sound = {"type": "tools-updated", "tools": [{"name": "sound"}], "via": {"sound": "mcp-b"}, "leftOut": {}}
    await world.evaluate(f"port.postMessage({json.dumps(sound)})")
    frame = await client.until_offered("sound")
    assert frame["tools"] == [{"name": "sound"}]
    await chain.open(browser, "tabserver.html?other")
    other = await client.until_offered("echo", "?other")
    assert await client.call(other, "echo", text="on") == "echo: on"
    assert not [tab for tab in client.tabs.values() if "example.com" in tab["url"]]


async def test_a_frame_without_tools_is_announced_with_an_empty_list(
    chain: Chain, browser: Chromium, client: Onlooker
) -> None:
    page = await chain.open(browser, "plain.html")

    def lists() -> list[Any]:
        return [frame["tools"] for frame in client.frames.values() if "plain.html" in frame["url"]]

    await client.until(lists)
    assert lists() == [[]]
    await page.close()
    await client.until(lambda: not lists())


async def test_what_a_content_script_says_of_where_it_lives_is_not_believed(
    chain: Chain, browser: Chromium, client: Onlooker, shop: Page
) -> None:
    truth = address_of(await client.until_offered("echo"))
    world = await IsolatedWorld.of(browser, shop)
    await world.evaluate(PORT_OF_THE_CONTENT_SCRIPT)
    bank = {"origin": "https://bank.example", "url": "https://bank.example/", "title": "Bank", "tabId": 1}
    claim = {"type": "tools-updated", "tools": [{"name": "pay"}], "via": {}, "leftOut": {}, **bank}
    claim |= {"frameId": 9, "documentId": "another"}
    await world.evaluate(f"port.postMessage({json.dumps(claim)})")
    frame = await client.until_offered("pay")
    assert address_of(frame) == truth
    assert frame["origin"] == chain.pages
    assert "bank" not in frame["url"] + frame["title"]


@pytest.fixture
async def popup(browser: Chromium) -> AsyncIterator[Page]:
    """Where the person says which origins are allowed; afterwards all are."""
    popup = await browser.open_page(f"chrome-extension://{EXTENSION_ID}/popup/popup.html")
    yield popup
    await popup.evaluate("chrome.storage.local.remove('allowedOrigins')")


async def test_an_origin_that_the_extension_does_not_allow_is_neither_announced_nor_called_nor_opened(
    chain: Chain, client: Onlooker, shop: Page, popup: Page
) -> None:
    frame = await client.until_offered("echo")
    await popup.evaluate("chrome.storage.local.set({ allowedOrigins: ['https://*.example'] })")
    await client.until(lambda: client.offering("echo") is None)
    for refused in (
        await client.call(frame, "echo", text="hi"),
        await client.request("createTab", url=f"{chain.pages}/plain.html"),
    ):
        assert (refused["code"], refused["data"]) == (Code.NOT_ALLOWED, {"handed": False})
    assert await shop.evaluate("window.runs") == 0
    await popup.evaluate(f"chrome.storage.local.set({{ allowedOrigins: ['{chain.pages}'] }})")
    assert await client.call(await client.until_offered("echo"), "echo", text="hi") == "echo: hi"


# ── What the page sees ──────────────────────────────────────────────────────────────────────────────────────


async def test_a_request_to_a_page_has_an_id_of_its_own_that_nobody_can_guess(
    client: Onlooker, shop: Page
) -> None:
    await shop.evaluate("""window.ids = []; window.addEventListener("message", ({ data }) => {
        if (data.direction === "client-to-server" && data.payload.method) ids.push(data.payload.id);
    })""")
    frame = await client.until_offered("echo")
    for words in ("one", "two"):
        assert await client.call(frame, "echo", text=words) == f"echo: {words}"
    assert await shop.evaluate(f"ids.length === 2 && ids.every((id) => /{UUID}/.test(id))")
    assert await shop.evaluate("ids[0] !== ids[1]")


async def test_a_tool_runs_with_its_page_s_cookies(client: Onlooker, shop: Page) -> None:
    await shop.evaluate("document.cookie = 'signed-in=anna'")
    await shop.evaluate("""offered.set("who", { ...extraTool("who"), run: () => text(document.cookie) });
        server.changed()""")
    assert await client.call(await client.until_offered("who"), "who") == "signed-in=anna"
