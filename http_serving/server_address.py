"""Addresses of servers, such as `https://proxy.example/mcp`: scheme, host, port and path. Pure.

They are configured or contained in tokens, and no browser reads them. Not for origins of web pages.
Rules: RFC 3986.
"""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import urlsplit

from native_host.protocol.untrusted_text import is_single_line

_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}
"""Accepted schemes, and the ports that their addresses leave out."""


class AddressError(ValueError):
    """The text is not the address of a server. The message does not quote it."""


class ServerAddress(NamedTuple):
    """Parts of an address, all in lower case but path and query."""

    scheme: str
    host: str
    """Name or IP address, without brackets."""
    port: int
    path: str
    query: str

    @property
    def origin(self) -> tuple[str, str, int]:
        """Return scheme, host and port."""
        return self.scheme, self.host, self.port

    @property
    def authority(self) -> str:
        """Return host and port as a Host header has them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def target(self) -> str:
        """Return path and query as the first line of a request has them."""
        return (self.path or "/") + (f"?{self.query}" if self.query else "")

    def __str__(self) -> str:
        """Return the address without its query, which may have secrets."""
        return f"{self.scheme}://{self.authority}{self.path}"


def parse_server_address(text: str) -> ServerAddress:
    """Parse an http, https, ws or wss address.

    Raises:
        AddressError: it is not one, or it has a user name, a password or a fragment.
    """
    if not text.isascii() or not is_single_line(text) or " " in text:
        raise AddressError("the address has characters that no URL has")
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise AddressError("the address is not a valid URL") from None
    if parts.scheme not in _PORTS or not host or port == 0:
        raise AddressError("the address is not one of a server")
    if "@" in parts.netloc or parts.fragment:
        raise AddressError("the address has a user name, a password or a fragment")
    return ServerAddress(parts.scheme, host, port or _PORTS[parts.scheme], parts.path, parts.query)
