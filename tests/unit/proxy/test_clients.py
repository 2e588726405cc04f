"""A client at the proxy: opening, control methods, forwarded messages and limits."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy_conversation import TIMESTAMP, ProxyClient, ProxyConversation, ProxyExtension
from websocket_proxy.limits import Limits


@pytest.fixture
def proxy() -> ProxyConversation:
    return ProxyConversation()


@pytest.fixture
def extension(proxy: ProxyConversation) -> ProxyExtension:
    """A foreign extension of alice."""
    return proxy.extension()


@pytest.fixture
def client(proxy: ProxyConversation, extension: ProxyExtension) -> ProxyClient:
    """A foreign client of alice, connected to her extension; both have read everything."""
    client = proxy.client()
    client.connect(extension)
    extension.received()
    client.received()
    return client


def errors(messages: list[Any]) -> list[tuple[Any, int]]:
    return [(message["id"], message["error"]["code"]) for message in messages]


# ── Opening ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_opening_of_a_client_is_answered_with_its_ids(proxy: ProxyConversation) -> None:
    client = ProxyClient(proxy)
    client.say(id=1, method="mcp_handshake", params={"accessToken": "alice"})
    assert client.received() == [
        {
            "jsonrpc": "2.0",
            "id": 1,
            "result": {"authenticated": True, "user_id": "alice", "mcp_client_id": client.peer.peer_id},
        }
    ]
    assert client.peer.peer_id.startswith("mcp-")


def test_messages_behind_the_handshake_wait_until_its_token_is_verified(proxy: ProxyConversation) -> None:
    proxy.holds_tokens = True
    client = ProxyClient(proxy)
    client.say(id=1, method="mcp_handshake", params={"accessToken": "alice"})
    client.say(id=2, method="list_extensions", params={})
    assert client.received() == []
    assert (client.peer.can_read, client.socket.resumed) == (False, 0)
    proxy.holds_tokens = False
    client.verify_tokens()
    assert [message["id"] for message in client.received()] == [1, 2]
    assert client.peer.can_read
    assert client.socket.resumed > 0


def test_messages_behind_a_rejected_handshake_are_not_handled(proxy: ProxyConversation) -> None:
    proxy.holds_tokens = True
    client = ProxyClient(proxy)
    client.say(id=1, method="mcp_handshake", params={"accessToken": "alice:signature"})
    client.say(id=2, method="list_extensions", params={})
    proxy.holds_tokens = False
    client.verify_tokens()
    assert errors(client.received()) == [(1, -32000)]
    assert client.closed == (1008, "Invalid token: signature")


def test_a_new_token_is_confirmed_on_the_same_socket(proxy: ProxyConversation, client: ProxyClient) -> None:
    proxy.now_s += 3599
    answer = client.ask(9, "mcp_handshake", accessToken="alice")[0]
    assert answer["result"]["mcp_client_id"] == client.peer.peer_id
    proxy.now_s += 10
    client.run_timer()
    assert client.closed is None
    assert client.peer.next_timer_s == proxy.now_s - 10 + 3600


def test_an_expired_token_answers_open_requests_and_closes_the_socket(
    proxy: ProxyConversation, client: ProxyClient, extension: ProxyExtension
) -> None:
    client.say(id=5, method="getTabs")
    extension.received()
    proxy.now_s += 3600
    client.run_timer()
    assert errors(client.received()) == [(5, -32010)]
    assert client.closed == (1008, "Token expired")
    assert [message["method"] for message in extension.received()] == ["disconnected", "status"]


# ── Control methods ─────────────────────────────────────────────────────────────────────────────────────────


def test_list_extensions_names_those_of_the_user(proxy: ProxyConversation) -> None:
    extension, _ = proxy.extension("alice"), proxy.extension("bob")
    assert proxy.client("alice").ask(1, "list_extensions") == [
        {
            "jsonrpc": "2.0",
            "id": 1,
            "result": {
                "extensions": [{"id": extension.peer.extension_id, "name": "Chrome 141", "connected": True}]
            },
        }
    ]
    assert proxy.client("carol").ask(1, "list_extensions")[0]["result"] == {"extensions": []}


def test_connect_confirms_the_connection_and_then_its_status(
    proxy: ProxyConversation, extension: ProxyExtension
) -> None:
    extension_id = extension.peer.extension_id
    confirmation, status = proxy.client().ask("c", "connect", extension_id=extension_id)
    connection_id = confirmation["result"]["connection_id"]
    assert connection_id.startswith("conn-")
    assert confirmation["result"] == {
        "connection_id": connection_id, "extension_id": extension_id, "extension_name": "Chrome 141",
    }  # fmt: skip
    assert (status["method"], status["params"]) == (
        "status", {"connected": True, "peer_count": 1, "timestamp": TIMESTAMP},
    )  # fmt: skip


@pytest.mark.parametrize("whose", ["nobody's", "bob's"])
def test_an_unknown_extension_and_another_user_s_get_the_same_error(
    proxy: ProxyConversation, whose: str
) -> None:
    bob = proxy.extension("bob")
    extension_id = bob.peer.extension_id if whose == "bob's" else "ext-1"
    client = proxy.client("alice")
    assert client.ask(1, "connect", extension_id=extension_id) == [
        {
            "jsonrpc": "2.0",
            "id": 1,
            "error": {
                "code": -32000,
                "message": "Extension not found or not accessible",
                "data": {"handed": False},
            },
        }
    ]
    assert client.ask(2, "getTabs")[0]["error"]["code"] == -32000


def test_a_client_is_connected_to_one_extension_at_a_time(
    proxy: ProxyConversation, client: ProxyClient
) -> None:
    other = proxy.extension()
    error = client.ask(3, "connect", extension_id=other.peer.extension_id)[0]["error"]
    assert (error["code"], error["message"]) == (-32001, "MCP client already connected to an extension")
    client.ask(4, "disconnect")
    assert client.ask(5, "connect", extension_id=other.peer.extension_id)[0]["result"]


def test_disconnect_succeeds_with_and_without_a_connection(client: ProxyClient) -> None:
    answer, status = client.ask(4, "disconnect")
    assert answer["result"] == {"disconnected": True}
    assert status["params"] == {"connected": True, "peer_count": 0, "timestamp": TIMESTAMP}
    assert client.ask(5, "disconnect") == [{"jsonrpc": "2.0", "id": 5, "result": {"disconnected": True}}]


def test_disconnect_answers_each_open_request_once_before_its_own_response(
    client: ProxyClient, extension: ProxyExtension
) -> None:
    client.say(id=1, method="getTabs")
    (taken,) = extension.received()
    client.say(id=2, method="getTabs")
    messages = client.ask(3, "disconnect")
    handed = {message["id"]: message["error"]["data"]["handed"] for message in messages[:2]}
    assert handed == {1: True, 2: False}
    assert messages[2]["result"] == {"disconnected": True}
    extension.say(id=taken["id"], result={})
    assert client.received() == []
    disconnected, status = extension.received()
    assert disconnected["params"]["reason"] == "MCP client disconnected"
    assert status["params"]["peer_count"] == 0


def test_after_the_extension_has_gone_a_client_connects_again_without_disconnect(
    proxy: ProxyConversation, client: ProxyClient, extension: ProxyExtension
) -> None:
    connection_id = client.peer.connection_id
    extension.peer.on_closed(proxy.now_s)
    disconnected, status = client.received()
    assert (disconnected["method"], disconnected["params"]) == (
        "disconnected", {"connection_id": connection_id, "reason": "Extension closed"},
    )  # fmt: skip
    assert status["params"]["peer_count"] == 0
    assert errors(client.ask(8, "getTabs")) == [(8, -32000)]
    again = proxy.extension()
    assert client.ask(9, "connect", extension_id=again.peer.extension_id)[0]["result"]


@pytest.mark.parametrize(
    ("method", "params", "field"),
    [
        ("connect", {}, "extension_id"),
        ("connect", {"extension_id": 7}, "extension_id"),
        ("list_extensions", [], "array"),
        ("disconnect", 7, "int"),
    ],
)
def test_wrong_params_are_rejected_with_the_field(
    client: ProxyClient, method: str, params: Any, field: str
) -> None:
    client.say(id=1, method=method, params=params)
    (message,) = client.received()
    assert message["error"]["code"] == -32602
    assert field in message["error"]["message"]


@pytest.mark.parametrize("members", [{}, {"params": None}, {"params": {"x": 1}}])
def test_methods_without_params_accept_none_and_unknown_members(
    client: ProxyClient, members: dict[str, Any]
) -> None:
    client.say(id=1, method="list_extensions", **members)
    assert "result" in client.received()[0]


@pytest.mark.parametrize("method", ["authenticate", "disconnected", "status", "host/clients", "bridge/hello"])
def test_messages_of_the_proxy_are_no_requests_of_a_client(
    client: ProxyClient, extension: ProxyExtension, method: str
) -> None:
    assert errors(client.ask(1, method)) == [(1, -32601)]
    assert extension.received() == []


# ── Forwarded requests ──────────────────────────────────────────────────────────────────────────────────────


def test_a_request_reaches_the_extension_under_the_connection_s_id_without_connection_id(
    client: ProxyClient, extension: ProxyExtension
) -> None:
    connection_id = client.peer.connection_id
    params = {"url": "https://example.com", "stealth": True}
    client.say(id=100, method="createTab", params=params, connectionId=connection_id)
    assert extension.received() == [
        {"jsonrpc": "2.0", "id": f"{connection_id}:100", "method": "createTab", "params": params}
    ]
    extension.say(id=f"{connection_id}:100", result={"tabId": 42})
    assert client.received() == [{"jsonrpc": "2.0", "id": 100, "result": {"tabId": 42}}]


@pytest.mark.parametrize(
    "raw_id", ["0", "1", '"1"', '"550e8400-e29b-41d4"', '"a:b"', "9007199254740993", "1.0", "1e3", '""']
)
def test_an_id_comes_back_as_it_was_written(
    client: ProxyClient, extension: ProxyExtension, raw_id: str
) -> None:
    client.say_raw(b'{"jsonrpc":"2.0","id":%b,"method":"getTabs","params":{}}' % raw_id.encode())
    (request,) = extension.received()
    extension.say(id=request["id"], result={})
    assert client.socket.raw == [b'{"jsonrpc":"2.0","id":%b,"result":{}}' % raw_id.encode()]


def test_params_and_results_pass_byte_for_byte(client: ProxyClient, extension: ProxyExtension) -> None:
    payload = rb'{ "n": 1.50, "big": 12345678901234567890, "s": "\u00e9\ud83d\ude00", "k":1,"k":2 }'
    client.say_raw(b'{"jsonrpc":"2.0","id":1,"method":"click","params":%b}' % payload)
    body, _, _ = extension.take()
    assert body.endswith(b'"params":%b}' % payload)
    extension.say_raw(b'{"id":"%b:1","result":%b}' % (client.peer.connection_id.encode(), payload))
    assert client.socket.raw == [b'{"jsonrpc":"2.0","id":1,"result":%b}' % payload]


def test_absent_params_become_an_empty_object(client: ProxyClient, extension: ProxyExtension) -> None:
    client.say(id=1, method="getTabs")
    assert extension.received()[0]["params"] == {}


def test_two_clients_with_the_same_ids_get_their_own_responses(
    proxy: ProxyConversation, client: ProxyClient, extension: ProxyExtension
) -> None:
    other = proxy.client()
    other.connect(extension)
    other.received()
    extension.received()
    for each in (client, other):
        each.say(id=1, method="getTabs")
    first, second = extension.received()
    extension.say(id=second["id"], result={"for": "other"})
    extension.say(id=first["id"], error={"code": -32001, "message": "no such tab"})
    assert errors(client.received()) == [(1, -32001)]
    assert other.received()[0]["result"] == {"for": "other"}


@pytest.mark.parametrize(
    ("raw_id", "answered_id"),
    [
        ('"proxy:1"', "proxy:1"),
        (r'"\u0065xt:1"', "ext:1"),
        ("null", None),
        ("true", None),
        ("[1]", None),
        ('"' + "x" * 1023 + '"', None),
    ],
)
def test_ids_that_a_client_may_not_use_are_rejected(
    client: ProxyClient, extension: ProxyExtension, raw_id: str, answered_id: str | None
) -> None:
    client.say_raw(b'{"jsonrpc":"2.0","id":%b,"method":"getTabs"}' % raw_id.encode())
    assert errors(client.received()) == [(answered_id, -32600)]
    assert extension.received() == []


def test_an_id_in_flight_is_rejected_and_its_first_request_is_answered(
    client: ProxyClient, extension: ProxyExtension
) -> None:
    client.say(id=1, method="getTabs")
    assert errors(client.ask(1, "getTabs")) == [(1, -32600)]
    (request,) = extension.received()
    extension.say(id=request["id"], result={})
    assert client.received()[0]["result"] == {}


def test_the_connection_id_of_another_connection_is_rejected(
    proxy: ProxyConversation, client: ProxyClient, extension: ProxyExtension
) -> None:
    other = proxy.client()
    other_id = other.connect(extension)
    extension.received()
    client.say(id=1, method="getTabs", connectionId=other_id)
    assert errors(client.received()) == [(1, -32602)]
    client.say(method="browser/cancel", params={"id": 1}, connectionId=other_id)
    assert (client.received(), extension.received()) == ([], [])


@pytest.mark.parametrize(
    ("body", "code"),
    [(b"{", -32700), (b"[]", -32600), (b'[{"jsonrpc":"2.0","id":1,"method":"x"}]', -32600), (b"{}", -32600)],
)
def test_an_undecodable_message_is_answered_with_id_null_and_the_socket_stays_open(
    client: ProxyClient, body: bytes, code: int
) -> None:
    client.say_raw(body)
    assert errors(client.received()) == [(None, code)]
    assert client.closed is None


def test_a_request_needs_jsonrpc(client: ProxyClient, extension: ProxyExtension) -> None:
    client.say_raw(b'{"id":0,"method":"getTabs"}')
    assert errors(client.received()) == [(0, -32600)]
    assert extension.received() == []


def test_notifications_of_a_foreign_client_are_neither_forwarded_nor_answered(
    client: ProxyClient, extension: ProxyExtension
) -> None:
    for method in ("hello", "disconnected", "bridge/sessions", "notifications/cancelled"):
        client.say(method=method, params={"connection_id": "conn-1", "sessions": 7})
    client.say(id=1, result={})
    assert (client.received(), extension.received()) == ([], [])


def test_a_notification_over_1_mib_is_dropped(proxy: ProxyConversation, extension: ProxyExtension) -> None:
    client = proxy.client(wire=1)
    client.connect(extension)
    client.received()
    for length, messages in ((1000, 1), (1024 * 1024, 0)):
        session = {"id": "x" * length, "client": {"name": "inspector"}}
        client.say(method="bridge/sessions", params={"sessions": [session]})
        assert [message["method"] for message in client.received()] == ["host/clients"] * messages


def test_cancelling_a_queued_request_withdraws_it(client: ProxyClient, extension: ProxyExtension) -> None:
    client.say(id=1, method="getTabs")
    client.say(method="browser/cancel", params={"id": 1})
    assert (client.received(), extension.received()) == ([], [])


# ── Limits ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_257th_request_in_flight_is_rejected_with_the_time_to_wait(
    client: ProxyClient, extension: ProxyExtension
) -> None:
    for number in range(257):
        client.say(id=number, method="getTabs")
    (message,) = client.received()
    assert (message["id"], message["error"]["code"]) == (256, -32015)
    assert message["error"]["data"] == {"handed": False, "retryAfterMs": 100}
    assert len(extension.received()) == 256


def test_the_6001st_request_of_a_minute_is_rejected_with_the_time_to_wait(
    proxy: ProxyConversation, client: ProxyClient
) -> None:
    for number in range(6000 - 1):  # the first one was `connect`
        client.say(id=number, method="list_extensions")
    assert "result" in client.received()[-1]
    error = client.ask("last", "list_extensions")[0]["error"]
    assert (error["code"], error["data"]) == (-32015, {"handed": False, "retryAfterMs": 10})
    proxy.now_s += 0.01
    assert "result" in client.ask("last", "list_extensions")[0]


def test_the_limit_of_a_user_counts_all_clients_of_the_user() -> None:
    proxy = ProxyConversation(Limits(requests_per_minute_per_user=3))
    first, second, bob = proxy.client("alice"), proxy.client("alice"), proxy.client("bob")
    for client in (first, second, first):
        assert "result" in client.ask(1, "list_extensions")[0]
    assert errors(second.ask(1, "list_extensions")) == [(1, -32015)]
    assert "result" in bob.ask(1, "list_extensions")[0]


def test_without_rates_nothing_is_counted() -> None:
    proxy = ProxyConversation(Limits(requests_per_minute_per_client=0, requests_per_minute_per_user=0))
    client = proxy.client()
    for number in range(10_000):
        client.say(id=number, method="list_extensions")
    assert all("result" in message for message in client.received())


def test_too_many_requests_do_not_hold_up_a_cancellation() -> None:
    proxy = ProxyConversation(Limits(requests_per_minute_per_client=2))
    extension, client = proxy.extension(), proxy.client()
    client.connect(extension)
    extension.received()
    client.say(id=1, method="getTabs")
    assert errors(client.ask(2, "getTabs")) == [(2, -32015)]
    client.say(method="browser/cancel", params={"id": 1})
    assert extension.received() == []


def test_a_message_over_64_mib_is_rejected_as_not_delivered() -> None:
    proxy = ProxyConversation(Limits(message_bytes=1000))
    extension, client = proxy.extension(), proxy.client()
    client.connect(extension)
    extension.received()
    error = client.ask(1, "type", text="x" * 1000)[0]["error"]
    assert (error["code"], error["data"]) == (-32012, {"handed": False})
    assert extension.received() == []


def test_a_message_that_its_mapped_id_makes_too_long_is_rejected_too() -> None:
    proxy = ProxyConversation(Limits(message_bytes=1000))
    extension, client = proxy.extension(), proxy.client()
    client.connect(extension)
    client.received()
    frame = b'{"jsonrpc":"2.0","id":1,"method":"type","params":"%b"}'
    client.say_raw(frame % (b"x" * 940))
    assert errors(client.received()) == [(1, -32012)]
    client.say_raw(frame % (b"x" * 900))
    assert client.received() == []


def test_the_tenth_rejected_message_of_a_minute_closes_the_socket(
    proxy: ProxyConversation, client: ProxyClient
) -> None:
    for _ in range(9):
        client.say_raw(b"{")
    proxy.now_s += 60
    for _ in range(9):
        client.say_raw(b'{"jsonrpc":"2.0","id":"proxy:1","method":"x"}')
    assert not client.peer.is_closed
    client.ask(1, "connect", extension_id=7)
    assert client.closed == (1008, "10 rejected messages in a minute")
    client.say(id=1, method="getTabs")
    assert client.received() == []


def test_errors_that_a_correct_client_receives_do_not_close_the_socket(
    proxy: ProxyConversation, extension: ProxyExtension
) -> None:
    client = proxy.client()
    for number in range(20):
        client.ask(number, "getTabs")
        client.ask(number, "connect", extension_id="ext-1")
    assert client.closed is None


# ── Our own client: wire 1 ──────────────────────────────────────────────────────────────────────────────────


def test_a_client_that_speaks_the_wire_receives_the_list_of_extensions_whenever_it_changes(
    proxy: ProxyConversation,
) -> None:
    client = ProxyClient(proxy)
    client.say(id=0, method="mcp_handshake", params={"accessToken": "alice", "wire": 1})
    assert [message.get("params") for message in client.received()] == [None, {"extensions": []}]
    extension = proxy.extension()
    extension_id = extension.peer.extension_id
    entry = {"id": extension_id, "name": "Chrome 141", "connected": True}
    assert client.socket.metas[-1] is not None
    assert [message["params"] for message in client.received()] == [{"extensions": [entry]}]
    hello = {
        "wire": 1,
        "extension": {"id": "x", "version": "1"},
        "browser": {"brand": "Chrome"},
        "profile": {"id": "p"},
    }
    extension.say(method="browser/hello", params=hello)
    (changed,) = client.received()
    assert changed["params"] == {"extensions": [{**entry, "wire": 1}]}
    client.connect(extension)
    client.received()
    other = proxy.extension()
    assert client.received() == []
    _, _, listed = client.ask(9, "disconnect")
    assert [each["id"] for each in listed["params"]["extensions"]] == [extension_id, other.peer.extension_id]


def test_a_foreign_client_receives_no_list(proxy: ProxyConversation) -> None:
    client = proxy.client()
    proxy.extension()
    assert client.received() == []


# ── The end ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_client_that_leaves_withdraws_its_requests_and_late_responses_reach_nobody(
    proxy: ProxyConversation, client: ProxyClient, extension: ProxyExtension
) -> None:
    client.say(id=1, method="getTabs")
    (taken,) = extension.received()
    client.say(id=2, method="getTabs")
    client.peer.on_closed()
    disconnected, status = extension.received()
    assert disconnected["params"]["reason"] == "MCP client closed"
    assert status["params"]["peer_count"] == 0
    extension.say(id=taken["id"], result={})
    assert client.received() == []
    assert proxy.clients_of("alice") == []


def test_a_revoked_token_closes_the_socket(proxy: ProxyConversation, client: ProxyClient) -> None:
    client.peer.revoke(proxy.now_s)
    assert client.closed == (1008, "Invalid token: revoked")


def test_before_the_node_shuts_down_a_client_is_told_so(client: ProxyClient) -> None:
    client.peer.announce_shutdown()
    (status,) = client.received()
    assert status["params"] == {"connected": False, "peer_count": 1, "timestamp": TIMESTAMP}


def test_after_its_end_a_client_is_sent_nothing(client: ProxyClient, extension: ProxyExtension) -> None:
    client.peer.on_closed()
    client.peer.announce_shutdown()
    client.say_raw(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "list_extensions"}).encode())
    assert client.received() == []
