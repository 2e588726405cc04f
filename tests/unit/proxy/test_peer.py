"""The part that extensions and clients have in common: ids, names, and events for the audit log."""

from __future__ import annotations

import re

import pytest

from proxy_conversation import ProxyClient, ProxyConversation, ProxyExtension
from websocket_proxy.peer import Observer, Peer, clean_name, make_id
from websocket_proxy.protocol import DisconnectReason, RejectionReason


class Events(Observer):
    """Observer that lists events, with the prefixes of ids."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def on_admitted(self, peer: Peer) -> None:
        self.seen.append(f"{peer.user_id} {peer.peer_id[:3]} admitted")

    def on_token_rejected(self, peer: Peer, reason: RejectionReason) -> None:
        self.seen.append(f"{peer.role} rejected: {reason}")

    def on_connected(self, client: Peer, extension: Peer, connection_id: str) -> None:
        self.seen.append(f"{client.peer_id[:3]} to {extension.peer_id[:3]} as {connection_id[:4]}")

    def on_disconnected(self, connection_id: str, reason: DisconnectReason) -> None:
        self.seen.append(f"{connection_id[:4]} ended: {reason}")

    def on_request(self, client: Peer, connection_id: str, method: str) -> None:
        self.seen.append(f"{client.peer_id[:3]} {connection_id[:4]} {method}")

    def on_request_failed(self, peer: Peer, code: int) -> None:
        self.seen.append(f"{peer.peer_id[:3]} {code}")


@pytest.fixture
def events() -> Events:
    return Events()


@pytest.fixture
def proxy(events: Events) -> ProxyConversation:
    return ProxyConversation(observer=events)


def test_ids_are_a_prefix_and_a_random_uuid() -> None:
    first, second = make_id("conn"), make_id("conn")
    assert re.fullmatch(r"conn-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", first)
    assert first != second


def test_a_name_without_printable_characters_gets_the_default() -> None:
    assert clean_name("\x1b\n", "Browser") == "Browser"
    assert clean_name("Chrome 141", "Browser") == "Chrome 141"


def test_events_of_a_call(proxy: ProxyConversation, events: Events) -> None:
    extension, client = proxy.extension(), proxy.client()
    client.connect(extension)
    client.ask(1, "createTab", url="https://secret.example")
    client.ask(1, "createTab")
    client.ask(2, "disconnect")
    assert events.seen == [
        "alice ext admitted",
        "alice mcp admitted",
        "mcp to ext as conn",
        "mcp conn createTab",
        "mcp conn createTab",
        "conn ended: MCP client disconnected",
    ]


def test_events_of_rejections(proxy: ProxyConversation, events: Events) -> None:
    ProxyExtension(proxy).sign_in("alice:expired")
    ProxyClient(proxy).say(id=1, method="mcp_handshake", params={})
    client = proxy.client()
    client.ask(1, "getTabs")
    client.say_raw(b"{")
    client.ask("proxy:1", "getTabs")
    client.ask(2, "connect", extension_id="ext-1")
    assert events.seen == [
        "mcpb:extension rejected: expired",
        "mcpb:client rejected: missing",
        "alice mcp admitted",
        "mcp -32000",
        "mcp -32700",
        "mcp -32600",
        "mcp -32000",
    ]


def test_the_end_of_an_extension_is_an_event_for_each_of_its_connections(
    proxy: ProxyConversation, events: Events
) -> None:
    extension = proxy.extension()
    for _ in range(2):
        proxy.client().connect(extension)
    events.seen.clear()
    extension.peer.on_closed(proxy.now_s, DisconnectReason.CONNECTION_LOST)
    assert events.seen == ["conn ended: Connection lost"] * 2


def test_the_requests_in_flight_are_known_for_a_node_that_drains(proxy: ProxyConversation) -> None:
    extension, client = proxy.extension(), proxy.client()
    connection_id = client.connect(extension)
    client.ask(1, "getTabs")
    assert extension.peer.requests_in_flight == 1
    extension.received()
    extension.say(id=f"{connection_id}:1", result={})
    assert [extension.peer.requests_in_flight] == [0]
