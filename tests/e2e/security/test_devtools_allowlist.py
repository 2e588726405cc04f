"""The extension's allow-lists against a client of the native host's socket (F10: A49, A50b; F9)."""

from __future__ import annotations

import ast
import base64
import hashlib
import itertools
import re
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from clipboard import copy_as_user
from logged_hosts import LoggedHosts
from native_host.protocol.wire import EXTENSION_ID, Code
from socket_observer import Onlooker, onlooking
from tool_browser import Browsing

BROWSER_TOOLS = Path(__file__).parents[3] / "bridge/browser_tools"
POPUP = f"chrome-extension://{EXTENSION_ID}/popup/popup.html"
DEVTOOLS_NAME = re.compile(r"[A-Z]\w+\.[a-z]\w+")
SOON_S = 30
WEBSOCKET_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
"""RFC 6455, section 1.3."""
EVENTS = {
    "Input.dragIntercepted",
    "Inspector.targetCrashed",
    "Log.entryAdded",
    "Network.loadingFailed",
    "Network.loadingFinished",
    "Network.requestServedFromCache",
    "Network.requestWillBeSent",
    "Network.responseReceived",
    "Network.webSocketClosed",
    "Network.webSocketCreated",
    "Network.webSocketFrameError",
    "Network.webSocketHandshakeResponseReceived",
    "Page.documentOpened",
    "Page.downloadWillBegin",
    "Page.fileChooserOpened",
    "Page.frameAttached",
    "Page.frameDetached",
    "Page.frameNavigated",
    "Page.frameStartedNavigating",
    "Page.frameStoppedLoading",
    "Page.javascriptDialogClosed",
    "Page.javascriptDialogOpening",
    "Page.loadEventFired",
    "Page.navigatedWithinDocument",
    "Runtime.consoleAPICalled",
    "Runtime.exceptionRevoked",
    "Runtime.exceptionThrown",
    "Runtime.executionContextCreated",
    "Runtime.executionContextsCleared",
    "Target.attachedToTarget",
    "Target.detachedFromTarget",
}
"""DevTools events that the bridge names, beside commands."""
REJECTED = {"code": Code.INVALID_PARAMS, "data": {"handed": False}}
HIDDEN = {"code": Code.NO_SUCH_TAB, "data": {"handed": False}}
"""Pages of our extension are not among the tabs of clients."""


class SocketClient:
    """A process of the user that speaks the wire itself, without a bridge and its checks."""

    def __init__(self, browsing: Browsing, wire: Onlooker) -> None:
        self.browsing = browsing
        self._wire = wire
        self._ids = itertools.count(1)

    def request(self, request: str, /, **params: Any) -> Any:
        """Return the result of a request, or its error without the message."""

        async def send() -> Any:
            number = next(self._ids)
            await self._wire.say(id=number, method=request, params=params)
            return await self._wire.answer_to(number)

        answer = self.browsing.thread.run(send)
        error = answer.get("error", {})
        error.pop("message", None)
        return error or answer["result"]

    def command(self, tab_id: int, command: str, /, **params: Any) -> Any:
        """Send a DevTools command."""
        return self.request("forwardCDPCommand", tabId=tab_id, method=command, params=params)

    def open(self, url: str) -> int:
        """Open a tab, loaded; return its id."""
        tab_id: int = self.request("createTab")["tabId"]
        assert "url" in self.request("browser_navigate", tabId=tab_id, url=url)
        return tab_id

    def event_of(self, tab_id: int, event: str, expression: str) -> Any:
        """Return the params of the first such event after a script has begun."""

        async def hear(method: str) -> Any:
            while True:
                message = await self._wire.next_message()
                if message.get("method") == "browser/cdpEvent" and message["params"]["method"] == method:
                    return message["params"]["params"]

        async def run() -> Any:
            asked = {"tabId": tab_id, "events": ["mcpb.subscribed", event]}
            with trio.fail_after(SOON_S):
                await self._wire.say(id=next(self._ids), method="subscribeCDP", params=asked)
                await hear("mcpb.subscribed")
                for method, params in (
                    ("Network.enable", {}),
                    ("Runtime.evaluate", {"expression": expression}),
                ):
                    command = {"tabId": tab_id, "method": method, "params": params}
                    await self._wire.say(id=next(self._ids), method="forwardCDPCommand", params=command)
                return await hear(event)

        return self.browsing.thread.run(run)

    def evaluate(self, tab_id: int, expression: str) -> Any:
        answer = self.command(tab_id, "Runtime.evaluate", expression=expression, returnByValue=True)
        return answer["result"].get("value") if "result" in answer else answer


@pytest.fixture(scope="module")
def socket_client(browsing: Browsing) -> Iterator[SocketClient]:
    with browsing.thread.holding(onlooking(browsing.chain)) as wire:
        yield SocketClient(browsing, wire)


@pytest.fixture
def page(socket_client: SocketClient, hosts: LoggedHosts) -> int:
    """A tab with a text field that has the focus, and a file field."""
    html = "<textarea id=field></textarea><input type=file><script>field.focus()</script>"
    return socket_client.open(hosts.set_page("evil.localhost", "/", html))


# ── Commands ────────────────────────────────────────────────────────────────────────────────────────────────


def test_each_devtools_command_and_event_of_the_bridge_is_allowed(browsing: Browsing) -> None:
    popup = browsing.browser.open(POPUP)
    module = "import('/worker/devtools_allowlist.js')"
    allowed = set(popup.evaluate(f"{module}.then((list) => [...list.ALLOWED_COMMANDS.keys()])"))
    events = set(popup.evaluate(f"{module}.then((list) => [...list.ALLOWED_EVENTS])"))
    popup.close()
    named = {
        node.value
        for path in BROWSER_TOOLS.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and DEVTOOLS_NAME.fullmatch(node.value)
    }
    assert len(named) > 50
    assert named - allowed == EVENTS
    assert events == {*EVENTS, "mcpb.download", "mcpb.eventDropped", "mcpb.subscribed"}


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("Page.addScriptToEvaluateOnNewDocument", {"source": "globalThis.stolen = 1"}),
        ("Fetch.enable", {}),
        ("Network.setExtraHTTPHeaders", {"headers": {"x": "y"}}),
        ("Page.setBypassCSP", {"enabled": True}),
        ("Page.captureSnapshot", {}),
        ("Page.reload", {"scriptToEvaluateOnLoad": "globalThis.stolen = 1"}),
        ("Page.navigate", {"url": POPUP}),
        ("Network.getAllCookies", {}),
        ("Target.createTarget", {"url": POPUP}),
        ("Page.disable", {}),
        ("Emulation.setFocusEmulationEnabled", {"enabled": False}),
        ("Page.createIsolatedWorld", {"frameId": "x", "grantUniveralAccess": True}),
        ("toString", {}),
    ],
)
def test_commands_that_are_not_on_the_list_are_rejected(
    socket_client: SocketClient, page: int, method: str, params: dict[str, Any]
) -> None:
    assert socket_client.command(page, method, **params) == REJECTED


@pytest.mark.parametrize(
    "event",
    [
        "Network.requestWillBeSentExtraInfo",
        "Network.responseReceivedExtraInfo",
        "Network.webSocketWillSendHandshakeRequest",
        "Page.screencastFrame",
        "toString",
    ],
)
def test_events_that_are_not_on_the_list_cannot_be_subscribed_to(
    socket_client: SocketClient, page: int, event: str
) -> None:
    events = ["Page.loadEventFired", event]
    assert socket_client.request("subscribeCDP", tabId=page, events=events) == REJECTED


def test_the_event_of_a_websocket_s_handshake_has_no_cookies(
    socket_client: SocketClient, hosts: LoggedHosts
) -> None:
    page = hosts.set_page("ws.localhost", "/", "", Set_Cookie="id=SENT-SECRET; HttpOnly")
    tab_id = socket_client.open(page)
    with websocket_server() as (port, requests):
        script = f"void new WebSocket('ws://ws.localhost:{port}/')"
        event = socket_client.event_of(tab_id, "Network.webSocketHandshakeResponseReceived", script)
    assert b"SENT-SECRET" in requests[0]
    assert set(event["response"]) == {"status", "statusText", "headers"}
    assert (event["response"]["status"], event["response"]["headers"]["X-Other"]) == (101, "kept")
    assert "SECRET" not in str(event)


@contextmanager
def websocket_server() -> Iterator[tuple[int, list[bytes]]]:
    """Accept WebSockets with a cookie until the block ends; yield the port and the requests."""
    requests: list[bytes] = []

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            head = b"".join(iter(self.rfile.readline, b"\r\n"))
            requests.append(head)
            key = re.findall(rb"Sec-WebSocket-Key: (\S+)", head)[0]
            accept = base64.b64encode(hashlib.sha1(key + WEBSOCKET_GUID).digest())
            self.wfile.write(
                b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                b"Sec-WebSocket-Accept: %b\r\nX-Other: kept\r\n"
                b"Set-Cookie: id=SET-SECRET; HttpOnly\r\n\r\n" % accept
            )
            self.rfile.read()

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        block_on_close = False

    with Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield int(server.server_address[1]), requests
        finally:
            server.shutdown()


def test_a_client_gives_a_page_no_file_past_the_bridge(socket_client: SocketClient, page: int) -> None:
    found = socket_client.command(
        page, "Runtime.evaluate", expression="document.querySelector('[type=file]')"
    )
    object_id = found["result"]["objectId"]
    command = {"objectId": object_id, "files": ["/etc/hostname"]}
    assert socket_client.command(page, "DOM.setFileInputFiles", **command) == REJECTED
    dropped = {"items": [], "files": ["/etc/hostname"], "dragOperationsMask": 1}
    drag = {"type": "dragEnter", "x": 1, "y": 1, "data": dropped}
    assert socket_client.command(page, "Input.dispatchDragEvent", **drag) == REJECTED
    assert socket_client.evaluate(page, "document.querySelector('[type=file]').files.length") == 0


# ── Pages of extensions ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "url",
    [
        POPUP,
        POPUP.upper(),
        f" {POPUP}",
        f"view-source:{POPUP}",
        f"blob:{POPUP}",
        "chrome://version/",
        "file:///etc/hostname",
        "data:text/html,x",
        "javascript:alert(1)",
        "about:srcdoc",
        "about:blank#x",
    ],
)
def test_only_web_pages_and_blank_tabs_are_opened(
    socket_client: SocketClient, hosts: LoggedHosts, page: int, url: str
) -> None:
    assert socket_client.request("createTab", url=url) == REJECTED
    assert socket_client.request("browser_navigate", tabId=page, url=url) == REJECTED
    assert socket_client.evaluate(page, "location.href") == hosts.url("evil.localhost")


def test_blank_tabs_and_new_tabs_are_opened(socket_client: SocketClient) -> None:
    assert socket_client.request("createTab", url="about:blank")["url"] == "about:blank"
    assert "tabId" in socket_client.request("createTab", url="")


def test_a_page_of_the_extension_takes_no_command(browsing: Browsing, socket_client: SocketClient) -> None:
    tab_id = browsing.open_as_user(POPUP)
    for answer in (
        socket_client.evaluate(tab_id, "chrome.runtime.id"),
        socket_client.request("subscribeCDP", tabId=tab_id, events=["Page.loadEventFired"]),
    ):
        assert answer == HIDDEN


def test_a_tab_that_goes_to_a_page_of_the_extension_is_detached_from(
    browsing: Browsing, socket_client: SocketClient, page: int
) -> None:
    assert socket_client.evaluate(page, "1") == 1
    browsing.look(page).load(POPUP)
    # A tab that the extension is still attached to would be refused to it a second time.
    attach = (
        f"chrome.debugger.attach({{ tabId: {page} }}, '1.3').then(() => 'free', (error) => error.message)"
    )
    assert browsing.ask_extension(attach) == "free"
    browsing.ask_extension(f"chrome.debugger.detach({{ tabId: {page} }})")
    assert socket_client.evaluate(page, "chrome.runtime.id") == HIDDEN


def test_code_in_a_content_script_s_world_cannot_change_the_extension_s_rules(
    socket_client: SocketClient, page: int
) -> None:
    def evaluate_in(context: int, expression: str) -> Any:
        params = {"expression": expression, "contextId": context, "awaitPromise": True}
        return socket_client.command(page, "Runtime.evaluate", **params).get("result", {}).get("value")

    (ours,) = [n for n in range(1, 20) if evaluate_in(n, "globalThis.chrome?.runtime?.id") == EXTENSION_ID]
    write = "chrome.storage.local.set({ allowedOrigins: ['*'] }).then(() => 'written', () => 'rejected')"
    assert evaluate_in(ours, write) == "rejected"


# ── The user's clipboard ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "event",
    [
        {"key": "v", "code": "KeyV", "windowsVirtualKeyCode": 86, "modifiers": 2},
        {"key": "x", "code": "KeyX", "windowsVirtualKeyCode": 86, "modifiers": 2},
        {"key": "V", "modifiers": 10},
        {"code": "KeyV", "modifiers": 4},
        {"key": "Insert", "code": "Insert", "windowsVirtualKeyCode": 45, "modifiers": 8},
        {"windowsVirtualKeyCode": 45, "modifiers": 8},
        {"key": "Paste"},
        {"key": "a", "commands": ["paste"]},
        {"key": "a", "commands": ["pasteAndMatchStyle"]},
        {"key": "a", "commands": "paste"},
        {"key": "a", "nativeVirtualKeyCode": 9},
    ],
)
def test_no_key_event_pastes_the_clipboard(
    browsing: Browsing, socket_client: SocketClient, page: int, event: dict[str, Any]
) -> None:
    copy_as_user(browsing, "CLIP-SECRET-42")
    for kind in ("rawKeyDown", "keyDown"):
        assert socket_client.command(page, "Input.dispatchKeyEvent", type=kind, **event) == REJECTED
    assert socket_client.evaluate(page, "document.querySelector('textarea').value") == ""


def test_the_middle_mouse_button_is_rejected(socket_client: SocketClient, page: int) -> None:
    press = {"type": "mousePressed", "x": 20, "y": 20, "button": "middle", "clickCount": 1}
    assert socket_client.command(page, "Input.dispatchMouseEvent", **press) == REJECTED


def test_the_allowed_key_events_still_work(socket_client: SocketClient, page: int) -> None:
    letter = {"type": "keyDown", "key": "v", "code": "KeyV", "windowsVirtualKeyCode": 86, "text": "v"}
    socket_client.command(page, "Input.dispatchKeyEvent", unmodifiedText="v", modifiers=0, **letter)
    select = {"type": "rawKeyDown", "key": "a", "modifiers": 4, "commands": ["selectAll"]}
    assert socket_client.command(page, "Input.dispatchKeyEvent", **select) == {}
    assert socket_client.evaluate(page, "document.querySelector('textarea').selectionEnd") == 1
