"""A bridge's end of a WebSocket proxy: real nodes and sockets, extensions by hand."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trio

from bridge.errors import CallError
from bridge.hub.registry import GRACE_S
from bridge.hub.transport import DiscoveryFinished, HostAnnouncement, HostDiscovered, HostLost
from bridge.links.browsers.proxy_address import read_address
from bridge.links.browsers.proxy_credentials import ProxyCredentials, UsedProxy
from fake_host import PlayedHost
from fake_transport import one_page
from native_host.protocol import wire
from native_host.protocol.wire import Code
from proxied_bridge import SOON_S, WatchedLinks, announce, own_extension, store_token, use_token
from proxy_node import ForeignExtension, ProxyNode, running_node, token_of, write_config
from websocket_ends import Authority


@pytest.fixture
async def node(mcpb_home: Path) -> AsyncIterator[ProxyNode]:
    write_config(mcpb_home)
    async with running_node(mcpb_home) as node:
        yield node


@pytest.fixture
async def links(node: ProxyNode, short_tmp: Path, nursery: trio.Nursery) -> WatchedLinks:
    links = WatchedLinks(short_tmp / "run", use_token(node.base))
    nursery.start_soon(links.run)
    return links


async def test_a_browser_at_a_proxy_offers_its_tools_and_runs_them(
    links: WatchedLinks, node: ProxyNode, short_tmp: Path, nursery: trio.Nursery
) -> None:
    async with own_extension(node) as extension:
        await links.until(lambda: links.offered == ["getCart"])
        assert await links.execute() == b'{"method": "browser/executeTool"}'
        assert len(extension.requests) == 1
        session = wire.Session(id="s1", title="T", client=wire.ClientInfo(name="c"))
        links.links.set_sessions([session])
        await extension.until(
            lambda it: any(
                client["sessions"] == [{"id": "s1", "title": "T", "client": {"name": "c"}}]
                for each in it.notifications
                if each["method"] == "host/clients"
                for client in each["params"]["clients"]
            )
        )
        await announce(extension, *one_page("getCart", "checkout"))
        await links.until(lambda: links.offered == ["getCart", "checkout"])
        listed = [each.message for each in links.events if isinstance(each, HostAnnouncement)]
        clients = [client for each in listed if isinstance(each, wire.HostClients) for client in each.clients]
        # The connection itself is no session of a client: `mcpb status` would list its own process.
        assert {each.id for client in clients for each in client.sessions} <= {"s1"}
        later = WatchedLinks(short_tmp / "run", use_token(node.base))
        nursery.start_soon(later.run)
        await later.until(lambda: DiscoveryFinished() in later.events)
        assert isinstance(later.events[0], HostDiscovered)  # a command waits for the discovered ones alone
    await links.until(lambda: links.hosts == [])


async def test_an_extension_that_does_not_speak_the_wire_is_reported_and_not_used(
    links: WatchedLinks, node: ProxyNode
) -> None:
    await links.until(lambda: links.causes == ["no-browser"])
    async with node.extension() as extension:
        await links.until(lambda: links.causes == ["extension-old"])
        assert links.events[1:] == []
        assert extension.requests == []


# ── May have run ────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_call_whose_extension_is_lost_fails_once_and_may_have_run(
    links: WatchedLinks, node: ProxyNode, nursery: trio.Nursery
) -> None:
    errors: list[CallError] = []

    async def call() -> None:
        with pytest.raises(CallError) as caught:
            await links.execute()
        errors.append(caught.value)

    async with own_extension(node, answer=lambda _: None) as extension:
        await links.until(lambda: links.offered == ["getCart"])
        nursery.start_soon(call)
        await extension.until(lambda it: len(it.requests) == 1)
    await links.until(lambda: len(errors) == 1)
    assert (errors[0].code, errors[0].handed) == (Code.GONE, True)
    async with own_extension(node) as back:
        await links.until(lambda: links.hosts == [links_url(node)])
        assert back.requests == []  # nothing is sent twice


async def test_a_call_after_the_loss_of_the_extension_has_reached_nothing(
    links: WatchedLinks, node: ProxyNode
) -> None:
    async with own_extension(node):
        await links.until(lambda: links.offered == ["getCart"])
    await links.until(lambda: links.hosts == [])
    with pytest.raises(CallError) as caught:
        await links.execute()
    assert (caught.value.code, caught.value.handed) == (Code.GONE, False)


# ── One browser, two ways ───────────────────────────────────────────────────────────────────────────────────


async def test_a_browser_with_a_native_host_is_used_through_the_proxy_when_that_has_ended(
    links: WatchedLinks, node: ProxyNode, short_tmp: Path
) -> None:
    async with own_extension(node) as extension:
        async with PlayedHost.in_directory(short_tmp / "run") as host:
            with trio.fail_after(SOON_S):
                await host.welcome(*one_page("getCart"))
            await links.until(lambda: links.hosts == ["native"])
            await until_left(extension, 1)
            assert (links.offered, extension.requests) == (["getCart"], [])
        lost_at = trio.current_time()
        await links.until(lambda: links.hosts == [links_url(node)])
        assert trio.current_time() - lost_at < GRACE_S
        assert links.offered == ["getCart"]
        async with PlayedHost.in_directory(short_tmp / "run") as host:
            with trio.fail_after(SOON_S):
                await host.welcome(*one_page("getCart"))
            await links.until(lambda: links.hosts == ["native"])
            await until_left(extension, 2)
            assert links.offered == ["getCart"]
    assert all(message["method"] != "browser/cancel" for message in extension.notifications)


async def test_a_call_in_progress_ends_where_it_began_when_a_native_host_appears(
    links: WatchedLinks, node: ProxyNode, short_tmp: Path, nursery: trio.Nursery
) -> None:
    results: list[bytes] = []

    async def call() -> None:
        results.append(await links.execute())

    async with own_extension(node, answer=lambda _: None) as extension:
        await links.until(lambda: links.offered == ["getCart"])
        nursery.start_soon(call)
        await extension.until(lambda it: len(it.requests) == 1)
        async with PlayedHost.in_directory(short_tmp / "run") as host:
            with trio.fail_after(SOON_S):
                await host.welcome(*one_page("getCart"))
            await links.until(lambda: links.hosts == ["native"])
            await extension.send(id=extension.requests[0]["id"], result="after the change")
            await links.until(lambda: results == [b'"after the change"'])
            await until_left(extension, 1)


async def test_a_proxy_that_the_user_signs_in_to_later_is_not_used_for_browsers_with_a_native_host(
    node: ProxyNode, short_tmp: Path, nursery: trio.Nursery
) -> None:
    links = WatchedLinks(short_tmp / "run", dict, short_tmp)
    nursery.start_soon(links.run)
    async with PlayedHost.in_directory(short_tmp / "run") as host, own_extension(node) as extension:
        with trio.fail_after(SOON_S):
            await host.welcome(*one_page("getCart"))
        await links.until(lambda: links.hosts == ["native"])
        store_token(short_tmp, node.base)
        await until_left(extension, 1)
        assert links.hosts == ["native"]
        async with own_extension(node, "p2"):
            await links.until(lambda: links.hosts == ["native", links_url(node)])


# ── Staying connected ───────────────────────────────────────────────────────────────────────────────────────


async def test_a_proxy_that_was_killed_is_used_again(
    mcpb_home: Path, short_tmp: Path, nursery: trio.Nursery
) -> None:
    write_config(mcpb_home)
    async with running_node(mcpb_home) as first:
        links = WatchedLinks(short_tmp / "run", use_token(first.base))
        nursery.start_soon(links.run)
        async with own_extension(first):
            await links.until(lambda: links.offered == ["getCart"])
            first.process.kill()
            await links.until(lambda: links.hosts == [] and links.causes in (["lost"], ["address"]))
    async with running_node(mcpb_home, "--port", str(first.port)) as second, own_extension(second):
        await links.until(lambda: links.offered == ["getCart"] and links.hosts != [])
        assert links.causes == []


class RenewedToken:
    """A source of tokens: the first one ends soon."""

    def __init__(self, *tokens: str) -> None:
        self._tokens = list(tokens)
        self.due_at = time.time() + 0.5

    async def read(self, *, is_rejected: bool = False) -> str:  # noqa: ARG002  (the name is of `TokenSource`)
        if time.time() >= self.due_at:
            self.due_at = time.time() + 3600
            self._tokens.pop(0)
        return self._tokens[0]


async def test_a_new_token_is_sent_on_open_sockets(
    node: ProxyNode, short_tmp: Path, nursery: trio.Nursery
) -> None:
    tokens = RenewedToken(
        token_of("alice", "client", exp=time.time() - 27.5), token_of("alice", "client", jti="second")
    )
    address = read_address(node.base)
    used = {address.url: UsedProxy(address, tokens)}
    links = WatchedLinks(short_tmp / "run", lambda: used)
    nursery.start_soon(links.run)
    async with own_extension(node):
        await links.until(lambda: links.offered == ["getCart"])
        await trio.sleep_until(trio.current_time() + 3)  # the first token has ended, tolerance included
        assert await links.execute() == b'{"method": "browser/executeTool"}'
        assert [type(event) for event in links.events].count(HostLost) == 0


# ── Causes ──────────────────────────────────────────────────────────────────────────────────────────────────


REJECTED: dict[str, dict[str, Any]] = {
    "token-audience": {"aud": "https://elsewhere.example"},
    "token-issuer": {"iss": "https://elsewhere.example"},
    "token-expired": {"exp": time.time() - 60},
    "token-not-yet-valid": {"nbf": time.time() + 3600},
    "token-scope": {"scope": "mcpb:extension"},
    "token-user": {"user_id": None},
    "token-connection-url": {"connection_url": "wss://elsewhere.example/mcp"},
}
"""Changes of a valid token, by the cause of its rejection."""


async def test_each_reason_of_a_rejection_is_a_cause(
    node: ProxyNode, short_tmp: Path, nursery: trio.Nursery
) -> None:
    for cause, changed in REJECTED.items():
        token = token_of("alice", "client", **changed)
        links = WatchedLinks(short_tmp / "run", use_token(node.base, token))
        nursery.start_soon(links.run)
        await links.until(lambda links=links, cause=cause: links.causes == [cause])  # type: ignore[misc]


async def test_a_new_sign_in_is_used_soon_after_a_rejection(
    node: ProxyNode, short_tmp: Path, nursery: trio.Nursery
) -> None:
    store_token(short_tmp, node.base, token_of("alice", "client", exp=time.time() - 60))
    links = WatchedLinks(short_tmp / "run", ProxyCredentials(short_tmp, {}).find_proxies)
    nursery.start_soon(links.run)
    await links.until(lambda: links.causes == ["token-expired"])
    store_token(short_tmp, node.base)
    async with own_extension(node):
        await links.until(lambda: links.offered == ["getCart"])


async def test_an_address_without_a_proxy_and_an_untrusted_certificate_are_causes(
    mcpb_home: Path, short_tmp: Path, nursery: trio.Nursery
) -> None:
    authority = Authority(short_tmp)
    write_config(mcpb_home)
    files = "--tls-cert", str(authority.certificate), "--tls-key", str(authority.key)
    async with running_node(mcpb_home, *files) as node:
        links = WatchedLinks(short_tmp / "run", use_token(node.base))
        nursery.start_soon(links.run)
        await links.until(lambda: links.causes == ["tls"])
    await links.until(lambda: links.causes == ["address"])


async def until_left(extension: ForeignExtension, times: int) -> None:
    """Wait until clients have left an extension so many times."""

    def is_left(it: ForeignExtension) -> bool:
        return [each["method"] for each in it.notifications].count("disconnected") == times

    await extension.until(is_left)


def links_url(node: ProxyNode) -> str:
    return read_address(node.base).url
