"""An extension at the proxy with its clients: router, status, flow control, and its end in every state."""

from __future__ import annotations

import json
from typing import Any

import pytest

from native_host.ipc.send_queue import SendQueue
from native_host.relay.coalescing import AnnouncementCoalescer
from proxy_conversation import TIMESTAMP, ProxyClient, ProxyConversation, ProxyExtension
from websocket_proxy.limits import Limits
from websocket_proxy.protocol import CloseCode, DisconnectReason

ORIGIN = "chrome-extension://jhipampgcbajgajeedfncbijjojmbnbc"
HELLO = {
    "wire": 1,
    "extension": {"id": "x", "version": "1"},
    "browser": {"brand": "Chromium"},
    "profile": {"id": "0c5d"},
}


@pytest.fixture
def proxy() -> ProxyConversation:
    return ProxyConversation()


@pytest.fixture
def foreign(proxy: ProxyConversation) -> ProxyExtension:
    """A foreign extension of alice."""
    return proxy.extension()


@pytest.fixture
def ours(proxy: ProxyConversation) -> ProxyExtension:
    """Our own extension, with no tab open."""
    extension = proxy.extension(client_id="0c5d", origin=ORIGIN)
    extension.say(method="browser/hello", params=HELLO)
    extension.say(method="browser/tabs", params={"tabs": []})
    extension.received()
    return extension


def connect(proxy: ProxyConversation, extension: ProxyExtension, **handshake: Any) -> ProxyClient:
    """Return a connected client; it and the extension have read everything."""
    client = proxy.client(**handshake)
    client.connect(extension)
    client.received()
    extension.received()
    return client


def methods(messages: list[Any]) -> list[str]:
    return [message.get("method", "response") for message in messages]


# ── Opening ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_opening_of_an_extension(proxy: ProxyConversation) -> None:
    extension = ProxyExtension(proxy)
    assert extension.received() == [
        {"jsonrpc": "2.0", "id": "proxy:1", "method": "authenticate", "params": {}}
    ]
    extension.sign_in("alice", client_id="0c5d")
    assert extension.received() == [
        {
            "jsonrpc": "2.0",
            "method": "authenticated",
            "params": {
                "user_id": "alice",
                "extension_id": extension.peer.extension_id,
                "wire": 1,
                "version": "0.2.0",
            },
        },
        {
            "jsonrpc": "2.0",
            "method": "status",
            "params": {"connected": True, "peer_count": 0, "timestamp": TIMESTAMP},
        },
    ]


def test_messages_behind_the_credentials_wait_for_the_verification(proxy: ProxyConversation) -> None:
    proxy.holds_tokens = True
    extension = ProxyExtension(proxy)
    extension.sign_in("alice")
    extension.say(id="ext:1", method="browser/pageRequest", params={})
    assert methods(extension.received()) == ["authenticate"]
    proxy.holds_tokens = False
    extension.verify_tokens()
    assert methods(extension.received()) == ["authenticated", "status", "response"]


def test_a_rejected_token_closes_the_socket_with_its_reason(proxy: ProxyConversation) -> None:
    extension = ProxyExtension(proxy)
    extension.sign_in("alice:audience")
    assert extension.closed == (1008, "Invalid token: audience")
    assert proxy.extensions_of("alice") == []


def test_a_name_for_users_is_one_line_of_limited_length(proxy: ProxyConversation) -> None:
    extension = proxy.extension(name="Chrome\n\x1b[31m 141" + "!" * 200)
    assert extension.peer.name.startswith("Chrome [31m 141!!!")
    assert len(extension.peer.name) == 100
    assert proxy.extension(name="").peer.name == "Browser"


def test_a_renewal_holds_up_no_response(proxy: ProxyConversation, foreign: ProxyExtension) -> None:
    client = connect(proxy, foreign)
    client.say(id=1, method="getTabs")
    foreign.received()
    proxy.now_s += 3600 - 120
    foreign.run_timer()
    proxy.holds_tokens = True
    foreign.say_raw(b'{"id":"proxy:2","result":{"access_token":"alice"}}')
    foreign.say(id=f"{client.peer.connection_id}:1", result={})
    assert len(client.received()) == 1
    proxy.holds_tokens = False
    foreign.verify_tokens()
    proxy.now_s += 121
    foreign.run_timer()
    assert foreign.closed is None


def test_an_expired_token_ends_the_extension_and_its_calls(
    proxy: ProxyConversation, foreign: ProxyExtension
) -> None:
    client = connect(proxy, foreign)
    client.say(id=1, method="getTabs")
    foreign.received()
    proxy.now_s += 3600
    foreign.run_timer()
    assert foreign.closed == (1008, "Token expired")
    error, disconnected, _ = client.received()
    assert (error["error"]["code"], error["error"]["data"]) == (-32010, {"handed": True})
    assert disconnected["params"]["reason"] == "Extension closed"


# ── Status ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_status_counts_the_connections_whenever_a_client_connects_or_leaves(
    proxy: ProxyConversation, foreign: ProxyExtension
) -> None:
    client = proxy.client()
    client.connect(foreign)
    (status,) = foreign.received()
    assert status["params"] == {"connected": True, "peer_count": 1, "timestamp": TIMESTAMP}
    client.ask(1, "disconnect")
    assert foreign.received()[-1]["params"]["peer_count"] == 0


def test_status_comes_every_20_s_because_a_silent_socket_lets_a_browser_stop_the_worker(
    proxy: ProxyConversation, foreign: ProxyExtension
) -> None:
    assert foreign.peer.next_timer_s == proxy.now_s + 20
    for _ in range(3):
        proxy.now_s += 20
        foreign.run_timer()
        assert methods(foreign.received()) == ["status"]
    proxy.now_s += 19
    foreign.run_timer()
    assert foreign.received() == []


def test_of_statuses_that_wait_only_the_latest_is_sent(
    proxy: ProxyConversation, foreign: ProxyExtension
) -> None:
    clients = [proxy.client() for _ in range(3)]
    for client in clients:
        client.connect(foreign)
    (status,) = foreign.received()
    assert status["params"]["peer_count"] == 3


# ── Foreign extensions ──────────────────────────────────────────────────────────────────────────────────────


def test_a_foreign_extension_receives_neither_host_clients_nor_cancellations(
    proxy: ProxyConversation, foreign: ProxyExtension
) -> None:
    client = connect(proxy, foreign, wire=1)
    client.say(id=1, method="getTabs")
    assert methods(foreign.received()) == ["getTabs"]
    client.say(method="browser/cancel", params={"id": 1})
    client.say(method="bridge/sessions", params={"sessions": []})
    client.peer.on_closed()
    assert methods(foreign.received()) == ["disconnected", "status"]


def test_errors_without_a_code_and_empty_responses_are_completed(
    proxy: ProxyConversation, foreign: ProxyExtension
) -> None:
    client = connect(proxy, foreign)
    for number in (1, 2):
        client.say(id=number, method="getTabs")
    connection_id = client.peer.connection_id
    foreign.received()
    foreign.say_raw(b'{"id":"%b:1","error":{"message":"no tab","stack":"at x"}}' % connection_id.encode())
    foreign.say_raw(b'{"id":"%b:2"}' % connection_id.encode())
    first, second = client.received()
    assert first["error"] == {"code": -32000, "message": "no tab"}
    assert second["error"]["code"] == -32603


def test_its_notifications_go_to_its_own_connections(
    proxy: ProxyConversation, foreign: ProxyExtension
) -> None:
    clients = [connect(proxy, foreign), connect(proxy, foreign, wire=1)]
    stranger = connect(proxy, proxy.extension())
    foreign.say(method="notifications/tab_info_update", params={"currentTab": None})
    for client in clients:
        assert methods(client.received()) == ["notifications/tab_info_update"]
    assert stranger.received() == []


@pytest.mark.parametrize("method", ["disconnected", "status", "extensions", "host/error", "bridge/sessions"])
def test_it_cannot_speak_for_the_proxy(
    proxy: ProxyConversation, foreign: ProxyExtension, method: str
) -> None:
    client = connect(proxy, foreign)
    foreign.say(method=method, params={"connection_id": client.peer.connection_id})
    assert client.received() == []


@pytest.mark.parametrize("method", ["disconnected", "status", "extensions", "host/error", "host/hello"])
def test_it_cannot_speak_for_the_proxy_during_a_call(
    proxy: ProxyConversation, ours: ProxyExtension, method: str
) -> None:
    client = connect(proxy, ours, wire=1)
    client.say(id=7, method="browser/executeTool", params={})
    (call,) = ours.received()
    for _ in range(9):
        ours.say(**{"id": "ext:1", "method": method, "for": call["id"], "params": {}})
    assert {(each["id"], each["error"]["code"]) for each in ours.received()} == {("ext:1", -32601)}
    assert client.received() == []
    ours.say(**{"method": method, "for": call["id"], "params": {}})
    assert ours.closed == (1008, "10 rejected messages in a minute")


@pytest.mark.parametrize("method", ["authenticate", "handshake", "browser/pageRequest"])
def test_a_request_without_for_is_rejected(foreign: ProxyExtension, method: str) -> None:
    foreign.say(id="ext:1", method=method, params={})
    (answer,) = foreign.received()
    assert (answer["id"], answer["error"]["code"]) == ("ext:1", -32601)


def test_ten_undecodable_messages_in_a_minute_close_the_socket(
    proxy: ProxyConversation, foreign: ProxyExtension
) -> None:
    client = connect(proxy, foreign)
    for body in [b"{", b"[]", b"{}"] * 3:
        foreign.say_raw(body)
    assert {answer["error"]["code"] for answer in foreign.received()} == {-32700, -32600}
    foreign.say(method="browser/tabs", params={"tabs": 7})
    assert foreign.closed == (1008, "10 rejected messages in a minute")
    assert client.received()[0]["params"]["reason"] == "Extension closed"


def test_responses_that_nobody_waits_for_are_dropped_however_many(
    proxy: ProxyConversation, foreign: ProxyExtension
) -> None:
    client = connect(proxy, foreign)
    for raw_id in ("conn-x:1", 7, None, "proxy:9", "proxy:1"):
        for _ in range(100):
            foreign.say(id=raw_id, result={})
    assert (foreign.closed, client.received(), foreign.received()) == (None, [], [])


def test_a_response_over_64_mib_becomes_an_error_of_a_call_that_may_have_run() -> None:
    proxy = ProxyConversation(Limits(message_bytes=1000))
    foreign = proxy.extension()
    client = connect(proxy, foreign)
    client.say(id=1, method="screenshot")
    foreign.received()
    foreign.say(id=f"{client.peer.connection_id}:1", result={"data": "x" * 1000})
    (answer,) = client.received()
    assert (answer["error"]["code"], answer["error"]["data"]) == (-32012, {"handed": True})


# ── Our own extension ───────────────────────────────────────────────────────────────────────────────────────


def test_a_client_that_speaks_the_wire_receives_what_a_native_host_sends(
    proxy: ProxyConversation, ours: ProxyExtension
) -> None:
    client = proxy.client(wire=1, client={"name": "mcpb", "version": "0.2.0"})
    client.connect(ours)
    ours.say(method="browser/tabRemoved", params={"tabId": 1})
    assert methods(client.received()) == ["browser/tabRemoved"]
    messages = client.ask(2, "disconnect")
    client.say(id=3, method="connect", params={"extension_id": ours.peer.extension_id})
    messages = client.received()
    assert methods(messages) == [
        "response", "status", "host/hello", "browser/hello", "browser/tabs", "host/replayed", "host/clients",
    ]  # fmt: skip


def test_host_hello_describes_the_connection(proxy: ProxyConversation, ours: ProxyExtension) -> None:
    client = proxy.client(wire=1)
    client.say(id=1, method="connect", params={"extension_id": ours.peer.extension_id})
    hello = next(message["params"] for message in client.received() if message.get("method") == "host/hello")
    browser_pid = hello.pop("browserPid")
    assert hello == {
        "wire": 1,
        "instance": client.peer.connection_id.removeprefix("conn-"),
        "version": "0.2.0",
        "pid": 0,
        "extensionOrigin": ORIGIN,
        "limits": {"toBrowser": 67_108_864, "fromBrowser": 67_108_864, "socket": 67_108_864},
    }
    assert -(2**31) <= browser_pid < 0
    again = proxy.client(wire=1)
    again.say(id=1, method="connect", params={"extension_id": ours.peer.extension_id})
    assert browser_pid in [message.get("params", {}).get("browserPid") for message in again.received()]


def test_the_replay_of_an_extension_without_tabs_is_complete_after_a_second(
    proxy: ProxyConversation, foreign: ProxyExtension
) -> None:
    client = proxy.client(wire=1)
    client.say(id=1, method="connect", params={"extension_id": foreign.peer.extension_id})
    assert methods(client.received()) == ["response", "status", "host/hello", "host/clients"]
    assert foreign.peer.next_timer_s == proxy.now_s + 1
    proxy.now_s += 1
    foreign.run_timer()
    assert methods(client.received()) == ["host/replayed"]


def test_our_extension_learns_which_clients_are_connected(
    proxy: ProxyConversation, ours: ProxyExtension
) -> None:
    foreign_client = proxy.client(client_id="blueprint")
    connection_id = foreign_client.connect(ours)
    clients = next(m for m in ours.received() if m["method"] == "host/clients")["params"]["clients"]
    assert clients == [
        {
            "connection": connection_id,
            "pid": 0,
            "version": "",
            "sessions": [{"id": connection_id, "client": {"name": "blueprint"}}],
        }
    ]
    session = {"id": "session_9b1d", "client": {"name": "inspector"}}
    ours_client = connect(proxy, ours, wire=1, client={"name": "mcpb", "version": "0.2.0"})
    ours_client.say(method="bridge/sessions", params={"sessions": [session]})
    (told,) = ours.received()
    assert told["params"]["clients"][1]["sessions"] == [session]
    assert foreign_client.received()[2:] == []


def test_a_client_without_a_name_is_called_mcp_client(proxy: ProxyConversation, ours: ProxyExtension) -> None:
    proxy.client().connect(ours)
    clients = next(m for m in ours.received() if m["method"] == "host/clients")["params"]["clients"]
    assert clients[0]["sessions"][0]["client"] == {"name": "MCP client"}


def test_requests_of_our_extension_reach_the_client_of_their_call(
    proxy: ProxyConversation, ours: ProxyExtension
) -> None:
    client = connect(proxy, ours, wire=1)
    client.say(id=7, method="browser/executeTool", params={})
    (call,) = ours.received()
    ours.say(**{"method": "browser/progress", "for": call["id"], "params": {"progress": 1}})
    question = {"id": "ext:1", "method": "browser/elicitConfirmation", "for": call["id"], "params": {}}
    ours.say(**question)
    assert [(message["method"], message["for"]) for message in client.received()] == [
        ("browser/progress", 7),
        ("browser/elicitConfirmation", 7),
    ]
    client.say(id="ext:1", result={"action": "accept"})
    assert ours.received() == [{"jsonrpc": "2.0", "id": "ext:1", "result": {"action": "accept"}}]


def test_a_foreign_client_is_never_asked_and_receives_no_announcement(
    proxy: ProxyConversation, ours: ProxyExtension
) -> None:
    client = connect(proxy, ours)
    client.say(id=7, method="browser/executeTool", params={})
    (call,) = ours.received()
    ours.say(**{"id": "ext:1", "method": "browser/elicitConfirmation", "for": call["id"], "params": {}})
    ours.say(method="browser/tabRemoved", params={"tabId": 1})
    (answer,) = ours.received()
    assert (answer["id"], answer["error"]["code"]) == ("ext:1", -32601)
    assert client.received() == []


def test_a_client_that_leaves_has_its_calls_cancelled_in_our_extension(
    proxy: ProxyConversation, ours: ProxyExtension
) -> None:
    client = connect(proxy, ours)
    client.say(id="mine", method="browser/executeTool", params={})
    (call,) = ours.received()
    client.peer.on_closed()
    cancel, *_ = ours.received()
    assert (cancel["method"], cancel["params"]) == ("browser/cancel", {"id": call["id"]})


def test_of_queued_progress_of_a_call_a_slow_client_receives_the_latest(
    proxy: ProxyConversation, ours: ProxyExtension
) -> None:
    client = connect(proxy, ours, wire=1)
    client.say(id=7, method="browser/executeTool", params={})
    (call,) = ours.received()
    for progress in (1, 2, 3):
        ours.say(**{"method": "browser/progress", "for": call["id"], "params": {"progress": progress}})
    queue = SendQueue()
    coalescer = AnnouncementCoalescer(queue, lambda: None)
    for raw, meta in zip(client.socket.raw, client.socket.metas, strict=True):
        assert meta is not None
        coalescer.put((raw,), meta)
    (only,) = queue.next_parts()
    assert json.loads(bytes(only))["params"] == {"progress": 3}


def test_an_extension_with_too_many_tabs_and_tools_to_keep_is_closed() -> None:
    proxy = ProxyConversation(Limits(replay_bytes=50_000))
    extension = proxy.extension()
    extension.say(method="browser/hello", params=HELLO)
    extension.say(method="browser/tabs", params={"tabs": [{"tabId": 1, "windowId": 1}]})
    for tab_id in range(8):
        tab = {"tabId": tab_id, "windowId": 1, "title": "x" * 200}
        extension.say(method="browser/tabChanged", params={"tab": tab})
        assert extension.closed is None
        extension.say(method="browser/tabRemoved", params={"tabId": tab_id})
    for tab_id in range(8):
        tab = {"tabId": tab_id, "windowId": 1, "title": "x" * 200}
        extension.say(method="browser/tabChanged", params={"tab": tab})
    assert extension.closed == (1008, "Tabs and tools of more than 50000 bytes")


def test_our_extension_of_another_wire_version_is_closed_with_the_reason(proxy: ProxyConversation) -> None:
    extension = proxy.extension()
    client = connect(proxy, extension)
    client.say(id=1, method="getTabs")
    extension.received()
    extension.say(method="browser/hello", params={**HELLO, "wire": 2})
    (notice,) = extension.received()
    assert (notice["method"], notice["params"]["code"]) == ("host/error", -32017)
    assert "the WebSocket proxy 0.2.0 speaks 1" in notice["params"]["message"]
    assert extension.closed == (1008, "Another wire version")
    assert methods(client.received()) == ["response", "disconnected", "status"]


def test_a_request_stays_open_as_long_as_its_extension_needs(proxy: ProxyConversation) -> None:
    extension = ProxyExtension(proxy, direct_user="alice")
    extension.say_raw(b'{"type":"handshake","browser":"Chrome","version":"1.9.20"}')
    client = connect(proxy, extension)
    client.say(id=1, method="subscribeCDP")
    (request,) = extension.received()
    for _ in range(59):
        proxy.now_s += 60
        extension.run_timer()
        client.run_timer()
    assert client.received() == []
    extension.say(id=request["id"], result={})
    assert client.received()[0]["result"] == {}


# ── Flow control ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_client_is_not_read_while_its_extension_does_not_take_its_messages() -> None:
    proxy = ProxyConversation(Limits(client_waiting_bytes=1000, queued_bytes_per_socket=10_000))
    extension = proxy.extension()
    client, other = connect(proxy, extension), connect(proxy, extension)
    for number in range(2):
        assert [client.peer.can_read] == [True]
        client.say(id=number, method="type", params={"text": "x" * 600})
    assert (client.peer.can_read, other.peer.can_read) == (False, True)
    assert extension.peer.queued_bytes > 1000
    _, key, size = extension.take()
    assert [client.peer.can_read] == [False]
    extension.peer.on_written(key, size)
    assert client.peer.can_read
    assert client.socket.resumed > 0


def test_above_the_limit_of_the_extension_s_socket_no_client_is_read() -> None:
    proxy = ProxyConversation(Limits(queued_bytes_per_socket=1000))
    extension = proxy.extension()
    clients = [connect(proxy, extension) for _ in range(2)]
    for client in clients:
        client.say(id=1, method="type", params={"text": "x" * 900})
    assert [client.peer.can_read for client in clients] == [True, False]
    extension.received()
    assert [client.peer.can_read for client in clients] == [True, True]


def test_a_client_that_leaves_frees_the_queue_for_the_others() -> None:
    proxy = ProxyConversation(Limits(queued_bytes_per_socket=1000))
    extension = proxy.extension()
    first, second = connect(proxy, extension), connect(proxy, extension)
    first.say(id=1, method="type", params={"text": "x" * 900})
    second.say(id=1, method="getTabs")
    second.say(id=2, method="getTabs")
    assert [second.peer.can_read] == [False]
    first.peer.on_closed()
    assert second.peer.can_read
    assert methods(extension.received())[:2] == ["getTabs", "getTabs"]


# ── The end of the extension ────────────────────────────────────────────────────────────────────────────────


def test_a_lost_extension_fails_calls_in_every_state_once_and_says_which_may_have_run(
    proxy: ProxyConversation, foreign: ProxyExtension
) -> None:
    """The first two calls are written, one is half written, one was only taken out, the others are queued."""
    clients = [connect(proxy, foreign), connect(proxy, foreign)]
    for number in range(1, 5):
        for client in clients:
            client.say(id=number, method="getTabs")
    for _ in range(2):
        body, key, size = foreign.take()
        foreign.peer.on_written(key, size)
    foreign.say(id=json.loads(body)["id"], result={"answered": True})
    foreign.take()
    _, unwritten, _ = foreign.take()
    assert methods(clients[1].received()) == ["response"]
    foreign.peer.on_closed(proxy.now_s, DisconnectReason.CONNECTION_LOST, unwritten={unwritten})
    handed = []
    for client in clients:
        *answers, disconnected, _ = client.received()
        assert [answer["error"]["code"] for answer in answers] == [-32010] * len(answers)
        assert disconnected["params"]["reason"] == "Connection lost"
        handed.append({answer["id"]: answer["error"]["data"]["handed"] for answer in answers})
    assert handed == [{1: True, 2: True, 3: False, 4: False}, {2: False, 3: False, 4: False}]
    foreign.say(id=json.loads(body)["id"], result={})
    assert clients[0].received() == clients[1].received() == []


@pytest.mark.parametrize(
    ("code", "reason"),
    [(1001, "Proxy is going away"), (4001, "Extension replaced"), (1011, "Extension closed")],
)
def test_clients_learn_why_the_proxy_closed_the_extension(
    proxy: ProxyConversation, foreign: ProxyExtension, code: int, reason: str
) -> None:
    client = connect(proxy, foreign)
    foreign.peer.close(CloseCode(code), "for a test", proxy.now_s)
    assert client.received()[0]["params"]["reason"] == reason
    assert foreign.closed == (code, "for a test")


def test_what_is_left_to_write_to_a_closing_extension_contains_no_request(
    proxy: ProxyConversation, foreign: ProxyExtension
) -> None:
    client = connect(proxy, foreign)
    client.say(id=1, method="createTab")
    foreign.peer.revoke(proxy.now_s)
    assert foreign.closed == (1008, "Invalid token: revoked")
    assert foreign.received() == []
    assert client.received()[0]["error"]["data"] == {"handed": False}


def test_before_the_node_shuts_down_an_extension_is_told_so(foreign: ProxyExtension) -> None:
    wakes = foreign.socket.wakes
    foreign.peer.announce_shutdown()
    (status,) = foreign.received()
    assert status["params"] == {"connected": False, "peer_count": 0, "timestamp": TIMESTAMP}
    assert foreign.socket.wakes == wakes + 1


def test_a_client_closed_by_its_node_during_a_delivery_disturbs_no_other(
    proxy: ProxyConversation, foreign: ProxyExtension, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, other = connect(proxy, foreign), connect(proxy, foreign)

    def close(*_: object) -> None:
        monkeypatch.undo()
        slow.peer.close(CloseCode.POLICY_VIOLATION, "It reads too slowly", proxy.now_s)

    monkeypatch.setattr(slow.socket, "put", close)
    foreign.say(method="notifications/x", params={})
    assert slow.closed == (1008, "It reads too slowly")
    assert methods(other.received()) == ["notifications/x"]
    foreign.say(method="notifications/x", params={})
    assert slow.received() == []


def test_a_client_closed_by_its_node_during_its_own_disconnect_leaves_once(
    proxy: ProxyConversation, foreign: ProxyExtension, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = connect(proxy, foreign)
    slow.say(id=1, method="getTabs")
    foreign.received()

    def close(*_: object) -> None:
        monkeypatch.undo()
        slow.peer.close(CloseCode.POLICY_VIOLATION, "It reads too slowly", proxy.now_s)

    monkeypatch.setattr(slow.socket, "put", close)
    slow.say(id=2, method="disconnect")
    assert methods(foreign.received()) == ["disconnected", "status"]
    assert (foreign.peer.peer_count, slow.received()) == (0, [])


def test_the_node_is_woken_whenever_something_waits_for_the_extension(
    proxy: ProxyConversation, foreign: ProxyExtension
) -> None:
    client = proxy.client()
    for act in (
        lambda: client.connect(foreign),
        lambda: client.say(id=1, method="getTabs"),
        lambda: foreign.say_raw(b"{"),
        lambda: foreign.say(id="ext:1", method="x"),
        lambda: client.ask(2, "disconnect"),
    ):
        wakes = foreign.socket.wakes
        act()
        assert foreign.received()
        assert foreign.socket.wakes > wakes


def test_an_extension_that_the_proxy_closes_has_not_received_what_is_not_written(
    proxy: ProxyConversation, foreign: ProxyExtension
) -> None:
    client = connect(proxy, foreign)
    for number in (1, 2, 3):
        client.say(id=number, method="getTabs")
    foreign.take()
    _, unwritten, _ = foreign.take()
    foreign.socket.unwritten = [unwritten]
    foreign.peer.revoke(proxy.now_s)
    handed = {answer["id"]: answer["error"]["data"]["handed"] for answer in client.received()[:3]}
    assert handed == {1: True, 2: False, 3: False}


def test_a_node_that_shuts_down_forwards_no_further_request(
    proxy: ProxyConversation, foreign: ProxyExtension
) -> None:
    client = connect(proxy, foreign)
    client.say(id=1, method="getTabs")
    (request,) = foreign.received_requests()
    proxy.directory.is_draining = True
    (rejected,) = client.ask(2, "getTabs")
    assert (rejected["error"]["code"], rejected["error"]["data"]["handed"]) == (-32010, False)
    foreign.say(id=request["id"], result={})
    assert [(answer["id"], answer["result"]) for answer in client.received()] == [(1, {})]
