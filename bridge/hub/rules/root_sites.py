"""Sites of a client's roots (`roots/list`): those with the scheme http or https. Pure."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from bridge import origins
from bridge.hub.rules.site_patterns import matches_pattern
from native_host.protocol.untrusted_text import MAX_ORIGIN_CHARS, single_line

MAX_SHOWN = 10
"""Roots that a rejection lists."""
ROOTS_S = 5.0
"""Seconds for a client to list its roots."""


class RootSites(msgspec.Struct, frozen=True):
    """The roots of a client, and the sites among them."""

    uris: tuple[str, ...] = ()
    sites: tuple[str, ...] = ()
    """Origins in canonical form."""

    def includes(self, origin: str) -> bool:
        """Return whether an origin, as browsers report it, is that of a root."""
        return any(matches_pattern(site, origin) for site in self.sites)

    def format_roots(self) -> str:
        """Return a sentence that lists the roots."""
        if not self.uris:
            return "The client lists no roots."
        shown = [single_line(uri, MAX_ORIGIN_CHARS) for uri in self.uris[:MAX_SHOWN]]
        more = f", and {len(self.uris) - MAX_SHOWN} more" if len(self.uris) > MAX_SHOWN else ""
        none = "" if self.sites else "; none of them is a site, such as https://shop.example"
        return f"The client's roots: {', '.join(shown)}{more}{none}."


def read_roots(uris: Iterable[str]) -> RootSites:
    """Return the roots with these URIs. A URI that browsers may read otherwise stands for no site."""
    listed = tuple(uris)
    sites: dict[str, None] = {}
    for uri in listed:
        try:
            sites[str(origins.parse_origin(uri))] = None
        except origins.OriginError:
            continue
    return RootSites(listed, tuple(sites))


NO_ROOTS = RootSites()
