"""Checks of a request before it becomes a WebSocket: path, Host, Origin and limits of sockets.

A rejection is an HTTP response. Rules: docs/PROXY_PROTOCOL.md, "Endpoints".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from ipaddress import ip_address

from http_serving.error_responses import RequestRejected
from http_serving.host_header import ServerNames, is_address, is_loopback, network_of
from http_serving.http_connection import UpgradeRequest
from http_serving.peer_credentials import Peer
from http_serving.plain_routes import OriginRule
from websocket_proxy import protocol
from websocket_proxy.limits import Limits
from websocket_proxy.protocol import Role

RETRY_S = 10
"""Seconds after which a rejected peer may find room."""
_ROLES = {protocol.EXTENSION_PATH: Role.EXTENSION, protocol.CLIENT_PATH: Role.CLIENT}


class ForwardedAddress:
    """IP addresses of peers, also behind servers that name them in X-Forwarded-For."""

    def __init__(self, *, is_behind_proxy: bool, trusted: Collection[str] = ()) -> None:
        """Trust the header of loopback peers and of these addresses, if a proxy is in front."""
        self._is_behind_proxy = is_behind_proxy
        self._trusted = {str(ip_address(each)) for each in trusted if is_address(each)}

    def find(self, peer: Peer, forwarded: Sequence[str]) -> str:
        """Return the address of a peer; `forwarded` are the values of X-Forwarded-For, in order."""
        found = peer.address
        hops = [hop.strip() for value in forwarded for hop in value.split(",")]
        # Each server appends the address that has connected to it: all before an untrusted one is a claim.
        while self._is_behind_proxy and hops and self._is_trusted(found) and is_address(hops[-1]):
            found = str(ip_address(hops.pop()))
        return found

    def _is_trusted(self, address: str) -> bool:
        return is_loopback(address) or address in self._trusted


class SocketCounts:
    """Numbers of sockets of a node."""

    def __init__(self, limits: Limits) -> None:
        self.total = 0
        self.unauthenticated = 0
        self._limits = limits
        self._by_network: Counter[str] = Counter()
        """Sockets that are not authenticated."""

    def check(self, address: str) -> None:
        """Check that there is room for another socket.

        Raises:
            RequestRejected: a limit is reached (429 or 503, with Retry-After).
        """
        limits = self._limits
        if self.total >= limits.sockets:
            raise _full(f"{limits.sockets} WebSockets are open")
        if self._by_network[network_of(address)] >= (most := limits.unauthenticated_sockets_per_address):
            text = f"{most} WebSockets of your address are not authenticated: authenticate or close one"
            raise RequestRejected(HTTPStatus.TOO_MANY_REQUESTS, text, headers={"Retry-After": str(RETRY_S)})
        if self.unauthenticated >= (most := limits.unauthenticated_sockets):
            raise _full(f"{most} WebSockets are not authenticated")

    @contextmanager
    def count(self, address: str) -> Iterator[CountedSocket]:
        """Count a socket for the time of the block; it is unauthenticated at first."""
        self.total += 1
        self.unauthenticated += 1
        network = network_of(address)
        self._by_network[network] += 1
        counted = CountedSocket(self, network)
        try:
            yield counted
        finally:
            counted.authenticate()
            self.total -= 1

    def authenticate(self, network: str) -> None:
        """Count a socket as authenticated."""
        self.unauthenticated -= 1
        self._by_network[network] -= 1
        if not self._by_network[network]:
            del self._by_network[network]


class CountedSocket:
    """One socket in the counts."""

    def __init__(self, counts: SocketCounts, network: str) -> None:
        self._counts = counts
        self._network = network
        self._is_authenticated = False

    def authenticate(self) -> None:
        """Note that it is authenticated, or gone."""
        if not self._is_authenticated:
            self._is_authenticated = True
            self._counts.authenticate(self._network)


class Admission:
    """Checks of one port."""

    def __init__(
        self, names: ServerNames, extension_origins: Collection[str], client_origins: Collection[str]
    ) -> None:
        self._names = names
        self._origins = {
            Role.EXTENSION: OriginRule(extension_origins),
            Role.CLIENT: OriginRule(client_origins),
        }
        self._has_client_origins = bool(client_origins)

    def check(self, request: UpgradeRequest) -> tuple[Role, str]:
        """Return the role of a request for a WebSocket, and its Origin; empty if it has none.

        Raises:
            RequestRejected: it is rejected (403, 404 or 421).
        """
        path = request.head.target.decode("latin-1").partition("?")[0]
        role = _ROLES.get(path)
        if role is None:
            # Without the path, which could have a token in it: the text is logged.
            text = f"this path does not exist: use {' or '.join(_ROLES)}"
            raise RequestRejected(HTTPStatus.NOT_FOUND, text)
        local_address = str(request.stream.socket.getsockname()[0])
        hosts = values_of(request, b"host")
        if len(hosts) != 1 or not self._names.has_name_in(hosts[0], local_address, is_over_unix=False):
            text = "the Host header does not name this proxy: add its name to allowed_hosts below [proxy]"
            raise RequestRejected(HTTPStatus.MISDIRECTED_REQUEST, text)
        origins = values_of(request, b"origin")
        origin = ", ".join(origins)
        if origins and not self._is_allowed(role, origin):
            raise RequestRejected(HTTPStatus.FORBIDDEN, f"this Origin may not connect to {path}")
        return role, origin

    def _is_allowed(self, role: Role, origin: str) -> bool:
        if role is Role.CLIENT and not self._has_client_origins:
            return False
        return self._origins[role].is_allowed(origin)


def values_of(request: UpgradeRequest, name: bytes) -> list[str]:
    """Return the values of a header, in order."""
    return [value.decode("latin-1") for each, value in request.head.headers if each == name]


def shutting_down() -> RequestRejected:
    """Return the rejection of a request while the node shuts down."""
    return _full("the WebSocket proxy shuts down")


def _full(text: str) -> RequestRejected:
    headers = {"Retry-After": str(RETRY_S)}
    return RequestRejected(HTTPStatus.SERVICE_UNAVAILABLE, f"{text}: try again later", headers=headers)
