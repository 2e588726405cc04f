"""A bridge's end of a WebSocket proxy: an extension of mcpb by hand, and links that a test watches."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import trio

from bridge.hub.registry import Registry
from bridge.hub.transport import Event, TabAddress
from bridge.links.browsers.composite_transport import CompositeTransport
from bridge.links.browsers.native_hosts import NativeLinks
from bridge.links.browsers.native_profiles import NativeProfiles
from bridge.links.browsers.proxied_links import ProxiedLinks
from bridge.links.browsers.proxy_address import read_address
from bridge.links.browsers.proxy_credentials import FixedToken, UsedProxy, login_file
from bridge.links.browsers.websocket_proxies import ProxyLinks
from bridge.links.oauth.login_file import RemoteLogin
from fake_host import METHOD_OF
from fake_transport import browser_hello, one_page
from native_host.protocol import wire
from native_host.protocol.wire import Wire
from proxy_node import Answer, ForeignExtension, ProxyNode, token_of
from wire_peers import until

SOON_S = 30
USER = "alice"


@asynccontextmanager
async def own_extension(
    node: ProxyNode, profile: str = "p1", *announced: Wire, answer: Answer | None = None, token: str = ""
) -> AsyncIterator[ForeignExtension]:
    """An extension of mcpb at the proxy, with a page that offers `getCart` unless told otherwise."""
    async with node.extension(token or None, answer, client_id=profile) as extension:
        await announce(extension, browser_hello(profile), *(announced or one_page("getCart")))
        yield extension


async def announce(extension: ForeignExtension, *messages: Wire) -> None:
    for message in messages:
        await extension.send(method=METHOD_OF[type(message)], params=json.loads(msgspec.json.encode(message)))


class WatchedLinks:
    """All links of a bridge, with a registry that hears them."""

    def __init__(
        self,
        run_directory: Path,
        find_proxies: Callable[[], Mapping[str, UsedProxy]],
        home: Path | None = None,
    ) -> None:
        """Use these proxies; with `home` those of stored sign-ins, also later ones."""
        self.native = NativeLinks([run_directory])
        self.links = CompositeTransport(self.native)
        self.proxied = ProxiedLinks(self.links, self.native, home, {}) if home else None
        self.proxies = ProxyLinks(find_proxies, NativeProfiles(self.native))
        if home is None:
            self.links.add_part(self.proxies)
        self.registry = Registry()
        self.events: list[Event] = []
        self.links.set_listener(self._keep)

    def _keep(self, event: Event) -> None:
        self.events.append(event)
        self.registry.on_event(event, trio.current_time())

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.native.run)
            nursery.start_soon((self.proxied or self.proxies).run)

    @property
    def hosts(self) -> list[str]:
        """The hosts of live browsers, each with whether it is at a proxy."""
        return [browser.proxy or "native" for browser in self.registry.browsers() if browser.is_live]

    @property
    def offered(self) -> list[str]:
        return [offer.tool.name for offer in self.registry.offers()]

    @property
    def causes(self) -> list[str]:
        return [problem.cause.value for state in self.proxies.states for problem in state.problems]

    async def until(self, condition: Callable[[], bool]) -> None:
        with trio.fail_after(SOON_S):
            await until(condition)

    async def execute(self, timeout_s: float = SOON_S, **more: Any) -> bytes:
        (browser,) = self.registry.browsers()
        params = wire.ExecuteTool(
            tab_id=1, frame_id=0, document_id="d1", tool_name="getCart", args=msgspec.Raw(b"{}")
        )
        return await self.links.request(
            TabAddress(browser.host, 1), "browser/executeTool", params, timeout_s, **more
        )


def store_token(home: Path, url: str, token: str = "") -> None:
    """Store a sign-in, as `mcpb proxy login` does."""
    address = read_address(url)
    file = login_file(home, address)
    file.prepare()
    login = RemoteLogin(
        url=address.url,
        issuer=address.url,
        token_endpoint=f"{address.url}/token",
        client_id="mcpb-bridge",
        access_token=token or token_of(USER, "client"),
        issued_at=time.time(),
    )
    file.write(login)


def use_token(url: str, token: str = "") -> Callable[[], Mapping[str, UsedProxy]]:
    """Use one proxy with a token, by default a valid one."""
    address = read_address(url)
    used = UsedProxy(address, FixedToken(token or token_of(USER, "client")))
    return lambda: {address.url: used}
