"""Host header check: a request must name this server.

It prevents DNS rebinding, by which a web page gives its own name the address of this server. It does not
check origins.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import IPv6Address, ip_address
from typing import Literal

Scheme = Literal["http", "https"]
DEFAULT_PORTS: dict[Scheme, int] = {"http": 80, "https": 443}
"""Ports that a URL and a Host header leave out."""
_LOOPBACK = {"localhost", "127.0.0.1", "[::1]"}
_WILDCARDS = {"0.0.0.0", "[::]"}  # noqa: S104  (compared, not bound)
"""Not names of a server, though systems connect to this machine by them and pages have exploited that."""
_AUTHORITY = re.compile(r"(?P<name>[a-z0-9_.-]+|\[[0-9a-f:.]+\])(:(?P<port>[0-9]{1,5}))?")
_NAME = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")


class ServerNames:
    """Names by which clients may call one server."""

    def __init__(self, host: str, port: int, further: Iterable[str] = (), scheme: Scheme = "http") -> None:
        """Accept the loopback names and `host` with this port, and `further` names with any port."""
        self._port = port
        self._default_port = DEFAULT_PORTS[scheme]
        self._own = (_LOOPBACK | {format_host(host)}) - _WILDCARDS
        self._further = {format_host(each) for each in further}

    def has_name_in(self, header: str, local_address: str, *, is_over_unix: bool) -> bool:
        """Return whether a Host header names this server.

        Args:
            header: its value.
            local_address: the address to which the client has connected; empty where it is unknown.
            is_over_unix: the connection is one of a Unix socket, whose clients may leave the port out.
        """
        found = _AUTHORITY.fullmatch(header.lower())
        if found is None:
            return False
        name, port = found["name"], found["port"]
        if name in self._further:  # a proxy may have a port of its own
            return True
        if is_over_unix and name == "localhost" and port is None:
            return True
        # No page can have an address of this machine for its own name, unless this machine serves it.
        is_own = name in self._own or (bool(local_address) and name == format_host(local_address))
        return is_own and int(port or self._default_port) == self._port


def format_host(host: str) -> str:
    """Return an address or a name in the form that a Host header has."""
    if is_address(host) and ":" in host:
        return f"[{ip_address(host).compressed}]"
    return host.lower()


def is_address(host: str) -> bool:
    """Return whether a host is an IPv4 or IPv6 address (without brackets), not a name."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Return whether a host is `localhost` or a loopback address. Other names may be anything."""
    return host == "localhost" or (is_address(host) and ip_address(host).is_loopback)


def network_of(address: str) -> str:
    """Return the address for which limits count a client.

    Of IPv6 it is the network of 64 bits, since a machine may have all addresses in it.
    """
    if not is_address(address):
        return address
    found = ip_address(address)
    if not isinstance(found, IPv6Address):
        return address
    return str(found.ipv4_mapped or IPv6Address(int(found) >> 64 << 64))


def is_host(host: str) -> bool:
    """Return whether a host is an address or a name, without scheme, port and brackets."""
    return is_address(host) or bool(_NAME.fullmatch(host) and not host.rpartition(".")[2].isdecimal())
