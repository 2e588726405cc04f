"""Users of a node: isolation, stable ids, replaced extensions and limits."""

from __future__ import annotations

import pytest

from proxy_conversation import ProxyClient, ProxyConversation, ProxyExtension
from websocket_proxy.limits import Limits


@pytest.fixture
def proxy() -> ProxyConversation:
    return ProxyConversation()


def ids(proxy: ProxyConversation, user: str = "alice") -> list[str]:
    return [extension.extension_id for extension in proxy.extensions_of(user)]


# ── Ids ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_extension_has_the_same_id_after_a_reconnect(proxy: ProxyConversation) -> None:
    first = proxy.extension(client_id="0c5d")
    first.peer.on_closed(proxy.now_s)
    assert proxy.extension(client_id="0c5d").peer.extension_id == first.peer.extension_id
    assert first.peer.extension_id == "ext-8a522931-bf5a-5f6d-9d6a-170184ca23e3"


def test_two_users_with_one_client_id_have_two_extension_ids(proxy: ProxyConversation) -> None:
    alice, bob = proxy.extension("alice", client_id="0c5d"), proxy.extension("bob", client_id="0c5d")
    assert alice.peer.extension_id != bob.peer.extension_id


def test_without_a_client_id_each_connection_is_a_browser_of_its_own(proxy: ProxyConversation) -> None:
    first, second = proxy.extension(), proxy.extension()
    assert ids(proxy) == [first.peer.extension_id, second.peer.extension_id]
    assert len(set(ids(proxy))) == 2


# ── Isolation ───────────────────────────────────────────────────────────────────────────────────────────────


def test_no_user_sees_or_reaches_anything_of_another_one(proxy: ProxyConversation) -> None:
    alice, bob = proxy.extension("alice"), proxy.extension("bob")
    client = proxy.client("bob")
    (listed,) = client.ask(1, "list_extensions")
    assert [each["id"] for each in listed["result"]["extensions"]] == [bob.peer.extension_id]
    client.ask(2, "connect", extension_id=alice.peer.extension_id)
    client.connect(bob)
    client.say(id=3, method="getTabs")
    assert alice.received() == []
    assert [request["method"] for request in bob.received_requests()] == ["getTabs"]


def test_the_same_user_id_of_two_issuers_stands_for_two_users(proxy: ProxyConversation) -> None:
    first, second = proxy.extension("idp/alice", client_id="0c5d"), proxy.extension("alice", client_id="0c5d")
    assert first.peer.user_id == second.peer.user_id == "alice"
    assert first.peer.extension_id != second.peer.extension_id
    client = proxy.client("alice")
    (listed,) = client.ask(1, "list_extensions")
    assert [each["id"] for each in listed["result"]["extensions"]] == [second.peer.extension_id]
    assert "error" in client.ask(2, "connect", extension_id=first.peer.extension_id)[0]


def test_an_extension_cannot_answer_requests_to_another_one(proxy: ProxyConversation) -> None:
    alice, bob = proxy.extension("alice"), proxy.extension("bob")
    client = proxy.client("alice")
    connection_id = client.connect(alice)
    client.ask(3, "getTabs")
    bob.say(id=f"{connection_id}:3", result={"tabs": ["bob's"]})
    assert client.received() == []
    alice.say(id=f"{connection_id}:3", result={"tabs": []})
    assert client.received()[0]["result"] == {"tabs": []}


# ── A second connection of the same browser ─────────────────────────────────────────────────────────────────


def test_a_newcomer_waits_whether_the_connected_extension_answers_a_ping(proxy: ProxyConversation) -> None:
    first = proxy.extension(client_id="0c5d")
    newcomer = proxy.extension(client_id="0c5d")
    assert first.socket.pings == 1
    assert newcomer.peer.extension_id == ""
    assert not newcomer.peer.can_read
    assert newcomer.peer.next_timer_s == proxy.now_s + 2


def test_a_silent_extension_is_replaced_after_2_s_with_its_id(proxy: ProxyConversation) -> None:
    first, client = proxy.extension(client_id="0c5d"), proxy.client()
    client.connect(first)
    first.received()
    client.say(id=1, method="getTabs")
    client.received()
    newcomer = proxy.extension(client_id="0c5d")
    proxy.now_s += 2
    newcomer.run_timer()
    assert first.closed == (4001, "Replaced by a newer connection")
    assert newcomer.peer.extension_id == first.peer.extension_id
    assert newcomer.received()[0]["method"] == "authenticated"
    error, disconnected, _ = client.received()
    assert (error["id"], error["error"]["code"]) == (1, -32010)
    assert disconnected["params"]["reason"] == "Extension replaced"
    client.connect(newcomer)
    assert client.peer.connection_id


def test_an_extension_that_answers_stays_and_the_newcomer_gets_an_id_of_its_own(
    proxy: ProxyConversation,
) -> None:
    first = proxy.extension(client_id="0c5d")
    newcomer = proxy.extension(client_id="0c5d")
    first.peer.on_pong(proxy.now_s + 1)
    assert ids(proxy) == [first.peer.extension_id, newcomer.peer.extension_id]
    assert first.peer.extension_id != newcomer.peer.extension_id
    assert first.closed is None
    proxy.now_s += 10
    newcomer.run_timer()
    assert first.closed is None


def test_a_connected_extension_that_ends_meanwhile_is_replaced_at_once(proxy: ProxyConversation) -> None:
    first = proxy.extension(client_id="0c5d")
    newcomer = proxy.extension(client_id="0c5d")
    first.peer.on_closed(proxy.now_s)
    assert newcomer.peer.extension_id == first.peer.extension_id


def test_of_two_newcomers_one_gets_the_id_and_the_other_an_id_of_its_own(proxy: ProxyConversation) -> None:
    first = proxy.extension(client_id="0c5d")
    second, third = proxy.extension(client_id="0c5d"), proxy.extension(client_id="0c5d")
    proxy.now_s += 2
    second.run_timer()
    third.run_timer()
    assert second.peer.extension_id == first.peer.extension_id
    assert third.peer.extension_id not in {"", first.peer.extension_id}
    assert second.closed is third.closed is None


def test_a_newcomer_that_leaves_while_it_waits_replaces_nothing(proxy: ProxyConversation) -> None:
    first = proxy.extension(client_id="0c5d")
    newcomer = proxy.extension(client_id="0c5d")
    newcomer.peer.on_closed(proxy.now_s)
    proxy.now_s += 2
    newcomer.run_timer()
    assert ids(proxy) == [first.peer.extension_id]
    assert first.closed is None


def test_messages_of_a_newcomer_wait_until_it_is_admitted(proxy: ProxyConversation) -> None:
    first = proxy.extension(client_id="0c5d")
    newcomer = proxy.extension(client_id="0c5d")
    newcomer.say_raw(b"{")
    assert newcomer.received() == []
    first.peer.on_closed(proxy.now_s)
    assert [message.get("method", "error") for message in newcomer.received()] == [
        "authenticated", "status", "error",
    ]  # fmt: skip


# ── Limits ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_17th_extension_of_a_user_is_closed_with_try_again_later(proxy: ProxyConversation) -> None:
    for _ in range(16):
        assert proxy.extension().closed is None
    assert proxy.extension().closed == (1013, "Too many extensions of this user")
    assert proxy.extension("bob").closed is None
    assert len(ids(proxy)) == 16


def test_a_reconnect_is_no_additional_extension(proxy: ProxyConversation) -> None:
    first, *_ = [proxy.extension(client_id=str(number)) for number in range(16)]
    newcomer = proxy.extension(client_id="0")
    first.peer.on_closed(proxy.now_s)
    assert newcomer.peer.extension_id == first.peer.extension_id


def test_the_65th_client_of_a_user_is_answered_and_closed_with_try_again_later(
    proxy: ProxyConversation,
) -> None:
    for _ in range(64):
        proxy.client()
    client = ProxyClient(proxy)
    client.say(id=1, method="mcp_handshake", params={"accessToken": "alice"})
    (answer,) = client.received()
    assert (answer["error"]["code"], answer["error"]["data"]["handed"]) == (-32015, False)
    assert client.closed == (1013, "Too many clients of this user")
    assert proxy.client("bob").closed is None
    proxy.clients_of("alice")[0].on_closed()
    assert proxy.client().closed is None


def test_a_user_without_connections_is_forgotten() -> None:
    proxy = ProxyConversation(Limits(extensions_per_user=1))
    extension, client = proxy.extension(client_id="0c5d"), proxy.client()
    newcomer, refused = proxy.extension(client_id="0c5d"), proxy.extension()
    assert refused.closed is not None
    for peer in (newcomer.peer, extension.peer):
        peer.on_closed(proxy.now_s)
    client.peer.on_closed()
    assert proxy.directory.user_count == 0


def test_an_extension_without_authentication_belongs_to_nobody(proxy: ProxyConversation) -> None:
    extension = ProxyExtension(proxy)
    extension.peer.on_closed(proxy.now_s)
    extension.peer.on_pong(proxy.now_s)
    assert proxy.directory.user_count == 0
