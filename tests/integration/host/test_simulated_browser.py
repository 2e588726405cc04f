"""The simulated browser keeps the extension's side of the wire. The test plays the native host: the browser
starts a small program that hands its pipes to a socket, and the test sits at the other end.
"""

import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from demo.simulated.browser import SimulatedBrowser
from demo.simulated.page_server import ServerError
from demo.simulated.worker import current_call
from native_host.protocol import jsonrpc, wire
from native_host.protocol.chunking import Transfer
from native_host.protocol.framing import FrameDecoder, frame
from wire_peers import HOST_COMMAND, SocketClient

HANDS_OVER_ITS_PIPES = """
import os, socket, sys, threading
peer = socket.socket(socket.AF_UNIX)
peer.connect(sys.argv[1])
assert len(sys.argv) == 3 and sys.argv[2].startswith("chrome-extension://"), sys.argv
def to_browser():
    while data := peer.recv(65536):
        while data:
            data = data[os.write(1, data):]
    os._exit(0)
threading.Thread(target=to_browser, daemon=True).start()
while data := os.read(0, 65536):
    peer.sendall(data)
"""


class PlayedHost:
    """The test's end: says hello, sends what it is told, and keeps what it hears."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._decoder = FrameDecoder(wire.FROM_BROWSER_BYTES, "native")

    async def say(self, body: bytes) -> None:
        await self._stream.send_all(frame(body, "native"))

    async def ask(self, method: str, raw_id: str = '"7f-1:1"', **params: Any) -> None:
        await self.say(jsonrpc.request(raw_id.encode(), method, msgspec.json.encode(params)))

    async def heard(self) -> dict[str, Any]:
        while (body := self._decoder.next_frame()) is None:
            data = await self._stream.receive_some(65536)
            assert data, "the browser closed the port"
            self._decoder.feed(data)
        message: dict[str, Any] = msgspec.json.decode(body)
        assert message.pop("jsonrpc") == "2.0"
        return message

    async def heard_next(self, method: str) -> dict[str, Any]:
        while (message := await self.heard()).get("method") != method:
            pass
        return message

    async def answer(self) -> dict[str, Any]:
        while "id" not in (message := await self.heard()):
            pass
        return message

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def heard_end(self) -> bool:
        return await self._stream.receive_some(1) == b""


def hello() -> bytes:
    limits = wire.Limits(to_browser=1, from_browser=2, socket=3)
    host = wire.HostHello(
        wire=1, instance="7f", version="0", pid=1, browser_pid=2, extension_origin="", limits=limits
    )
    return jsonrpc.notification("host/hello", host)


@asynccontextmanager
async def played(tmp_path: Path) -> AsyncIterator[tuple[SimulatedBrowser, PlayedHost]]:
    address = str(tmp_path / "host.sock")
    with trio.fail_after(30), trio.socket.socket(socket.AF_UNIX) as listener:
        await listener.bind(address)
        listener.listen()
        browser = SimulatedBrowser([sys.executable, "-c", HANDS_OVER_ITS_PIPES, address], profile_label="p")
        hosts: list[PlayedHost] = []

        async def accept_and_greet() -> None:
            connection, _ = await listener.accept()
            hosts.append(PlayedHost(trio.SocketStream(connection)))
            await hosts[0].say(hello())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(accept_and_greet)
            try:
                async with browser:
                    yield browser, hosts[0]
            finally:
                await hosts[0].aclose()


def address_of(announced: dict[str, Any]) -> dict[str, Any]:
    return {name: announced["params"][name] for name in ("tabId", "frameId", "documentId")}


async def echo(args: dict[str, Any]) -> str:
    return f"echo {args['text']}"


async def test_hello_and_the_tabs_are_said_first(tmp_path: Path) -> None:
    async with played(tmp_path) as (_, host):
        first = await host.heard()
        assert first["method"] == "browser/hello"
        assert first["params"]["extension"]["id"] == wire.EXTENSION_ID
        assert first["params"]["profile"]["label"] == "p"
        assert await host.heard() == {"method": "browser/tabs", "params": {"tabs": []}}
        assert await host.heard() == {"method": "browser/paused", "params": {}}


async def test_a_page_s_tools_are_announced_as_whole_lists(tmp_path: Path) -> None:
    async with played(tmp_path) as (browser, host):
        tab = browser.add_tab("http://localhost:8123/shop", "Shop")
        loaded = await host.heard_next("browser/registerTools")
        tab.offer("a", echo, description="A", annotations={"readOnlyHint": True})
        tab.offer("b", echo, input_schema={"type": "object"}, via="webmcp")
        tab.withdraw("a")

        assert loaded["params"]["tools"] == []
        assert loaded["params"]["origin"] == "http://localhost:8123"
        one = await host.heard_next("browser/updateTools")
        assert one["params"]["tools"] == [
            {"name": "a", "description": "A", "annotations": {"readOnlyHint": True}}
        ]
        await host.heard_next("browser/updateTools")
        last = await host.heard_next("browser/updateTools")
        assert last["params"]["tools"] == [{"name": "b", "inputSchema": {"type": "object"}}]
        assert last["params"]["via"] == {"b": "webmcp"}
        assert address_of(last) == address_of(loaded)


async def test_a_call_runs_the_handler_and_answers_with_its_result(tmp_path: Path) -> None:
    async with played(tmp_path) as (browser, host):
        tab = browser.add_tab("http://localhost/")
        tab.offer("echo", echo)
        page = await host.heard_next("browser/updateTools")
        await host.ask("browser/executeTool", **address_of(page), toolName="echo", args={"text": "hi"})
        payload = {"content": [{"type": "text", "text": "echo hi"}]}
        assert await host.answer() == {"id": "7f-1:1", "result": {"success": True, "payload": payload}}


async def test_what_a_handler_raises_is_what_the_page_threw(tmp_path: Path) -> None:
    async def boom(_args: dict[str, Any]) -> str:
        raise LookupError("no such cart")

    async with played(tmp_path) as (browser, host):
        browser.add_tab("http://localhost/").offer("boom", boom)
        page = await host.heard_next("browser/updateTools")
        await host.ask("browser/executeTool", **address_of(page), toolName="boom", args={})
        assert (await host.answer())["result"] == {"success": False, "payload": "no such cart"}


async def test_progress_goes_to_the_asker(tmp_path: Path) -> None:
    async def slow(_args: dict[str, Any]) -> str:
        current_call().report_progress(1, total=2, message="half")
        return "done"

    async with played(tmp_path) as (browser, host):
        browser.add_tab("http://localhost/").offer("slow", slow)
        page = await host.heard_next("browser/updateTools")
        await host.ask("browser/executeTool", **address_of(page), toolName="slow", args={})
        progress = await host.heard_next("browser/progress")
        assert progress["for"] == "7f-1:1"
        assert progress["params"] == {"progress": 1, "total": 2, "message": "half"}


async def test_a_page_requests_something_of_the_client_of_its_call(tmp_path: Path) -> None:
    async def ask(_args: dict[str, Any]) -> str:
        roots = await current_call().request("roots/list")
        with pytest.raises(ServerError, match="no model here"):
            await current_call().request("sampling/createMessage", {"maxTokens": 1})
        elicited = await current_call().request("elicitation/create", {"message": "Sure?"})
        return msgspec.json.encode([roots, elicited]).decode()

    async with played(tmp_path) as (browser, host):
        browser.add_tab("http://localhost/").offer("ask", ask)
        page = await host.heard_next("browser/updateTools")
        await host.ask("browser/executeTool", **address_of(page), toolName="ask", args={})
        asked = await host.answer()
        assert asked == {
            "id": "ext:1",
            "method": "browser/pageRequest",
            "for": "7f-1:1",
            "params": {"method": "roots/list", "params": {}},
        }
        await host.say(jsonrpc.result(b'"ext:1"', b'{"roots":[]}'))
        asked = await host.answer()
        assert asked["params"] == {"method": "sampling/createMessage", "params": {"maxTokens": 1}}
        await host.say(jsonrpc.failure(b'"ext:2"', wire.Code.METHOD_NOT_FOUND, "no model here"))
        asked = await host.answer()
        assert (asked["method"], asked["params"]) == ("browser/elicitConfirmation", {"message": "Sure?"})
        await host.say(jsonrpc.result(b'"ext:3"', b'{"action":"accept"}'))
        (said,) = (await host.answer())["result"]["payload"]["content"]
        assert msgspec.json.decode(said["text"]) == [{"roots": []}, {"action": "accept"}]


@pytest.mark.parametrize("is_cancelled_by_page", [True, False])
async def test_a_request_that_the_page_cancels_is_cancelled_at_its_client(
    tmp_path: Path, is_cancelled_by_page: bool
) -> None:
    request = trio.CancelScope()
    ended = trio.Event()

    async def ask(_args: dict[str, Any]) -> str:
        try:
            with request:
                await current_call().request("roots/list")
        finally:
            ended.set()
        return "cancelled"

    async with played(tmp_path) as (browser, host):
        browser.add_tab("http://localhost/").offer("ask", ask)
        page = await host.heard_next("browser/updateTools")
        await host.ask("browser/executeTool", **address_of(page), toolName="ask", args={})
        await host.heard_next("browser/pageRequest")
        if is_cancelled_by_page:
            request.cancel()
            cancelled = await host.heard()
            assert (cancelled["method"], cancelled["for"]) == ("browser/cancelled", "7f-1:1")
            assert cancelled["params"] == {"id": "ext:1"}
            await host.say(jsonrpc.result(b'"ext:1"', b'{"roots":[]}'))
            assert (await host.answer())["id"] == "7f-1:1"
        else:
            await host.say(jsonrpc.notification("browser/cancel", b'{"id":"7f-1:1"}'))
            await ended.wait()
            await host.ask("getTabs", raw_id='"7f-1:2"')
            assert (await host.heard())["id"] == "7f-1:2"


async def test_a_cancelled_call_stops_and_is_never_answered(tmp_path: Path) -> None:
    started, stopped = trio.Event(), trio.Event()

    async def wait_for_ever(_args: dict[str, Any]) -> str:
        started.set()
        try:
            await trio.Event().wait()
        finally:
            stopped.set()
        return ""

    async with played(tmp_path) as (browser, host):
        browser.add_tab("http://localhost/").offer("wait", wait_for_ever)
        page = await host.heard_next("browser/updateTools")
        await host.ask("browser/executeTool", **address_of(page), toolName="wait", args={})
        await started.wait()
        await host.say(jsonrpc.notification("browser/cancel", b'{"id":"7f-1:1"}'))
        await stopped.wait()
        await host.ask("getTabs", raw_id='"7f-1:2"')
        assert (await host.answer())["id"] == "7f-1:2"


async def test_a_call_for_another_document_does_not_run(tmp_path: Path) -> None:
    async with played(tmp_path) as (browser, host):
        tab = browser.add_tab("http://localhost/one")
        tab.offer("echo", echo)
        page = await host.heard_next("browser/updateTools")
        tab.navigate("http://localhost/two")
        tab.offer("echo", echo)
        gone = await host.heard_next("browser/unregister")
        assert address_of(gone) == address_of(page)

        await host.ask("browser/executeTool", **address_of(page), toolName="echo", args={"text": "hi"})
        error = (await host.answer())["error"]
        assert (error["code"], error["data"]["handed"]) == (wire.Code.NAVIGATED, False)


async def test_a_navigation_ends_a_running_call(tmp_path: Path) -> None:
    started = trio.Event()

    async def wait_for_ever(_args: dict[str, Any]) -> str:
        started.set()
        await trio.Event().wait()
        return ""

    async with played(tmp_path) as (browser, host):
        tab = browser.add_tab("http://localhost/one")
        tab.offer("wait", wait_for_ever)
        page = await host.heard_next("browser/updateTools")
        await host.ask("browser/executeTool", **address_of(page), toolName="wait", args={})
        await started.wait()
        tab.navigate("http://localhost/two")
        error = (await host.answer())["error"]
        assert (error["code"], error["data"]["handed"]) == (wire.Code.NAVIGATED, True)


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("getWindows", {}, wire.Code.METHOD_NOT_FOUND),
        ("closeTab", {"tabId": "one"}, wire.Code.INVALID_PARAMS),
        ("closeTab", {"tabId": 99}, wire.Code.NO_SUCH_TAB),
        ("closeTab", {"tabId": 1, "session": "s"}, wire.Code.NOT_YOURS),
        ("goBack", {"tabId": 1}, wire.Code.INVALID_PARAMS),
        ("browser/pause", {"paused": True}, wire.Code.INVALID_PARAMS),
        ("browser/pause", {"site": "localhost", "paused": True}, wire.Code.INVALID_PARAMS),
        (
            "browser/executeTool",
            {"tabId": 9, "frameId": 0, "documentId": "D", "toolName": "t", "args": {}},
            wire.Code.NO_SUCH_TAB,
        ),
    ],
)
async def test_what_cannot_be_done_is_refused_by_number(
    tmp_path: Path, method: str, params: dict[str, Any], code: int
) -> None:
    async with played(tmp_path) as (browser, host):
        browser.add_tab("http://localhost/")
        await host.ask(method, **params)
        error = (await host.answer())["error"]
        assert (error["code"], error["data"]) == (code, {"handed": False})


async def test_a_session_s_tabs_are_its_own_until_it_is_closed(tmp_path: Path) -> None:
    async with played(tmp_path) as (browser, host):
        await host.ask("createTab", session="s1", url="http://localhost/", active=True)
        created = (await host.answer())["result"]
        tab = browser.tabs[created["tabId"]]
        assert (tab.state.owner, tab.state.active) == ("s1", True)
        await host.ask("browser_navigate", session="s1", tabId=tab.tab_id, url="http://localhost/two")
        assert (await host.answer())["result"]["url"] == "http://localhost/two"
        await host.ask("goBack", session="s1", tabId=tab.tab_id)
        assert (await host.answer())["result"]["url"] == "http://localhost/"
        await host.ask("closeSession", session="s1")
        await host.answer()
        assert tab.state.owner is None


async def test_a_paused_site_runs_nothing_and_is_not_gone_to_until_it_is_resumed(tmp_path: Path) -> None:
    async with played(tmp_path) as (browser, host):
        browser.add_tab("http://localhost/").offer("echo", echo)
        page = await host.heard_next("browser/updateTools")
        call = {**address_of(page), "toolName": "echo", "args": {"text": "hi"}}
        await host.ask("browser/pause", site="http://localhost", paused=True)
        paused = await host.heard_next("browser/paused")
        assert paused["params"] == {"sites": ["http://localhost"]}
        assert (await host.answer())["result"] == {}
        for method, params in (
            ("browser/executeTool", call),
            ("createTab", {"url": "http://localhost/two"}),
            ("browser_navigate", {"tabId": 1, "url": "http://localhost/two"}),
        ):
            await host.ask(method, **params)
            error = (await host.answer())["error"]
            assert (error["code"], error["data"]) == (
                wire.Code.PAUSED,
                {"handed": False, "site": "http://localhost"},
            ), method
        await host.ask("browser/pause", site="http://localhost", paused=False)
        await host.answer()
        await host.ask("browser/executeTool", **call)
        assert (await host.answer())["result"]["success"]


async def test_a_paused_session_is_refused_and_another_is_not(tmp_path: Path) -> None:
    async with played(tmp_path) as (browser, host):
        browser.pause(session="s1")
        assert (await host.heard_next("browser/paused"))["params"] == {}
        assert (await host.heard_next("browser/paused"))["params"] == {"sessions": ["s1"]}
        browser.pause(session="s1")  # is nothing new
        await host.ask("getTabs", session="s1")
        assert (await host.heard())["error"]["code"] == wire.Code.PAUSED
        await host.ask("getTabs", session="s2")
        assert "result" in await host.answer()


async def test_a_tab_that_is_handed_over_may_be_commanded_unless_it_is_another_session_s(
    tmp_path: Path,
) -> None:
    async with played(tmp_path) as (browser, host):
        tab = browser.add_tab("http://localhost/")
        tab.hand_over()
        await host.ask("activateTab", session="s1", tabId=tab.tab_id)
        assert (await host.answer())["result"]["tab"]["handedOver"] is True
        tab.change(owner="s2")
        await host.ask("activateTab", session="s1", tabId=tab.tab_id)
        assert (await host.answer())["error"]["code"] == wire.Code.NOT_YOURS
        tab.change(owner=None)
        tab.hand_over(False)
        await host.ask("activateTab", session="s1", tabId=tab.tab_id)
        assert (await host.answer())["error"]["code"] == wire.Code.NOT_YOURS


async def test_tabs_are_counted_in_their_profile_and_no_number_is_used_again(tmp_path: Path) -> None:
    async with played(tmp_path) as (browser, _):
        first = browser.add_tab("http://localhost:8123/")
        browser.remove_tab(first)
        again = browser.add_tab("http://localhost:8123/other")
        elsewhere = browser.add_tab("https://example.com/")
        assert [tab.state.ordinal for tab in (first, again, elsewhere)] == [1, 2, 3]


async def test_a_request_in_pieces_is_joined(tmp_path: Path) -> None:
    async with played(tmp_path) as (browser, host):
        browser.add_tab("http://localhost/").offer("echo", echo)
        page = await host.heard_next("browser/updateTools")
        params = {**address_of(page), "toolName": "echo", "args": {"text": "x" * 3 * wire.MIB}}
        transfer = Transfer(
            1, "", jsonrpc.request(b'"7f-1:1"', "browser/executeTool", msgspec.json.encode(params))
        )
        last, pieces = False, 0
        while not last:
            piece, last = transfer.next_piece()
            pieces += 1
            await host.say(piece)
        assert len((await host.answer())["result"]["payload"]["content"][0]["text"]) > 3 * wire.MIB
        assert len(browser.heard("host/chunk")) == pieces > 1
        assert len(browser.heard("browser/executeTool")) == 1


async def test_nonsense_of_the_host_is_dropped_and_counted(tmp_path: Path) -> None:
    async with played(tmp_path) as (browser, host):
        await host.say(b"not JSON")
        await host.ask("getTabs")
        await host.answer()
        assert browser.dropped == 1


async def test_a_frame_over_the_browser_s_cap_closes_the_port(tmp_path: Path) -> None:
    async with played(tmp_path) as (browser, host):
        with suppress(trio.BrokenResourceError):  # the header alone is enough
            await host.say(b" " * (wire.TO_BROWSER_BYTES + 1))
        await browser.wait_port_ended()
        assert str(wire.TO_BROWSER_BYTES + 1) in browser.port_error


async def test_closing_gives_the_host_an_end_of_file(tmp_path: Path) -> None:
    async with played(tmp_path) as (browser, host):
        await host.heard_next("browser/tabs")
        assert browser.port is not None
        process = browser.port.process
        await browser.close()
        assert process.returncode == 0
        assert await host.heard_end()


async def test_the_calls_of_a_port_end_with_it(tmp_path: Path) -> None:
    started, stopped = trio.Event(), trio.Event()

    async def wait_for_ever(_args: dict[str, Any]) -> str:
        started.set()
        try:
            await trio.Event().wait()
        finally:
            stopped.set()
        return ""

    async with played(tmp_path) as (browser, host):
        browser.add_tab("http://localhost/").offer("wait", wait_for_ever)
        page = await host.heard_next("browser/updateTools")
        await host.ask("browser/executeTool", **address_of(page), toolName="wait", args={})
        await started.wait()
        await browser.close()
        assert stopped.is_set()


async def test_the_next_host_is_told_everything_again(mcpb_home: Path) -> None:
    with trio.fail_after(60):
        async with SimulatedBrowser(HOST_COMMAND) as browser:
            browser.add_tab("http://localhost/").offer("echo", echo)
            await browser.kill_host()
            second = await browser.connect()
            assert second.instance != msgspec.json.decode(browser.heard("host/hello")[0].params)["instance"]
            async with SocketClient.connected(mcpb_home / "run", second.instance, introduce=False) as client:
                await client.introduce()
                tools = await client.heard("browser/registerTools")
                assert [tool["name"] for tool in tools["tools"]] == ["echo"]


async def test_a_host_that_ends_at_once_is_an_error_that_names_the_command() -> None:
    browser = SimulatedBrowser(["/bin/sh", "-c", "exit 3"])
    with trio.fail_after(30), pytest.RaisesGroup(pytest.RaisesExc(EOFError, match=r"exit 3")):
        async with browser:
            pass
