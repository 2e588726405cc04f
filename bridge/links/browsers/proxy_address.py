"""Address of a WebSocket proxy: what users write, and where clients connect.

A token is sent there, so that only addresses with TLS or on this machine are accepted.
"""

from __future__ import annotations

from typing import NamedTuple

from http_serving.host_header import is_loopback
from http_serving.server_address import AddressError, ServerAddress, parse_server_address
from websocket_proxy.protocol import CLIENT_PATH, EXTENSION_PATH

_PATHS = {"", "/", CLIENT_PATH, EXTENSION_PATH}
"""Paths that users copy with an address."""
_MAX_CHARS = 80
"""Characters of an address: it is the name of a directory, in which each special one takes three."""


class ProxyAddressError(ValueError):
    """It is not the address of a proxy. The message says what to write."""


class ProxyAddress(NamedTuple):
    """Address of a proxy."""

    url: str
    """Scheme and authority: `https://proxy.example:8765`."""

    @property
    def client_url(self) -> str:
        """Address of the WebSockets of clients."""
        return f"ws{self.url.removeprefix('http')}{CLIENT_PATH}"


def read_address(text: str) -> ProxyAddress:
    """Read an address as a user, a token or a file name has it.

    Raises:
        ProxyAddressError: it cannot be used.
    """
    try:
        address = _parse(text)
    except AddressError as error:
        raise ProxyAddressError(f"{error}: write it as https://proxy.example:8765") from None
    if address.path not in _PATHS or address.query:
        raise ProxyAddressError("the address of a proxy has no path: write it as https://proxy.example:8765")
    is_plain = address.scheme in {"http", "ws"}
    if is_plain and not is_loopback(address.host):
        raise ProxyAddressError("a token would cross the network in clear text: write https in place of http")
    url = f"{'http' if is_plain else 'https'}://{address.authority}"
    if len(url) > _MAX_CHARS:
        raise ProxyAddressError(f"the address is longer than {_MAX_CHARS} characters")
    return ProxyAddress(url)


def _parse(text: str) -> ServerAddress:
    if "://" in text:
        return parse_server_address(text)
    address = parse_server_address(f"https://{text}")
    return parse_server_address(f"http://{text}") if is_loopback(address.host) else address
