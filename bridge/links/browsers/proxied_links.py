"""Links to browsers at WebSocket proxies. Nothing is imported for them before there is a proxy."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from bridge.hub.transport import TabTransport
from bridge.links.browsers.composite_transport import CompositeTransport
from bridge.links.browsers.native_profiles import NativeProfiles
from native_host.system.home_layout import HomeLayout

if TYPE_CHECKING:
    from bridge.links.browsers.websocket_proxies import ProxyLinks

VARIABLES = ("MCPB_PROXY_URL", "MCPB_PROXY_TOKEN")
"""Variables that name a proxy; `proxy_credentials.py` reads them."""
_POLL_S = 2.0
"""Seconds between two looks for the first sign-in."""


class ProxiedLinks:
    """The proxies of a user, as a part of a composite transport."""

    def __init__(
        self, links: CompositeTransport, native: TabTransport, home: Path, environ: Mapping[str, str]
    ) -> None:
        """Add proxies to `links`. Browsers that are connected through `native` are left out.

        It does not run yet.

        Raises:
            ProxyAddressError: the environment names no valid address.
        """
        self.links: ProxyLinks | None = None
        self._composite = links
        self._native = NativeProfiles(native)
        self._home = home
        self._environ = environ
        if self._is_used():
            self._add_links()

    async def run(self) -> None:
        """Connect to proxies, now or once there is one. Runs until cancelled."""
        while self.links is None:
            await trio.sleep(_POLL_S)
            if self._is_used():
                self._add_links()
        await self.links.run()

    def _is_used(self) -> bool:
        is_given = any(self._environ.get(name) for name in VARIABLES)
        return is_given or HomeLayout(self._home).state.proxy_logins.is_dir()

    def _add_links(self) -> None:
        from bridge.links.browsers.websocket_proxies import make_proxy_links  # noqa: PLC0415

        self.links = make_proxy_links(self._native, self._home, self._environ)
        self._composite.add_part(self.links)
