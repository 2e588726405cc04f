"""Peer credentials of a connection: the user of the process at its other end.

The server gives the `Connection` to every request on it, as `request.state.connection`.

A Unix socket knows its peer's user. A TCP socket does not, but both ends of a loopback connection are sockets
of this machine, and Linux reports the other one's user (`native_host/system/sock_diag.py`, some 20 µs).
On other systems, and at addresses of other machines, the peer is unknown.
"""

from __future__ import annotations

import os
import socket
from enum import Enum, auto
from ipaddress import IPv6Address, ip_address
from typing import Any, NamedTuple, Protocol

import trio
from starlette.requests import HTTPConnection

from native_host.ipc import endpoint
from native_host.system.proc import Process
from native_host.system.sock_diag import TcpAddress, find_socket_owner

_NOBODY = 65534
"""So the kernel calls users whom our user namespace does not know, and distributions a user of their own."""


def peer_of(sock: socket.socket | trio.socket.SocketType) -> Peer:
    """Identify the peer of a connected TCP or Unix socket. Never raises.

    Only the system can establish `Kind.OURS`, for a process that has the other end open now.
    """
    try:
        if sock.family == socket.AF_UNIX:
            return Peer(_kind_of(endpoint.peer_uid(sock)), "", pid=endpoint.peer_pid(sock))
        there = _end(sock.getpeername())
    except OSError:  # it has gone already
        return Peer(Kind.UNKNOWN, "")
    return _peer_over_tcp(sock, there)


def _peer_over_tcp(sock: socket.socket | trio.socket.SocketType, there: TcpAddress) -> Peer:
    unknown = Peer(Kind.UNKNOWN, str(there.address))
    if not there.address.is_loopback:
        return unknown
    try:
        owner = find_socket_owner(there, _end(sock.getsockname()))
        sock.getpeername()  # fails once it is closed: then what was found on these ports may be another's
    except OSError:
        return unknown
    return unknown._replace(kind=_kind_of(owner.uid), inode=owner.inode) if owner else unknown


def _kind_of(uid: int) -> Kind:
    if uid != os.getuid():
        return Kind.ANOTHERS
    return Kind.UNKNOWN if uid == _NOBODY else Kind.OURS


def _end(name: Any) -> TcpAddress:
    """From what `getpeername` says; IPv4 on a socket of IPv6 (`::ffff:127.0.0.1`) is IPv4."""
    address, port = ip_address(name[0]), int(name[1])
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return TcpAddress(mapped or address, port)


_FORWARDED = {"forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip"}


class Kind(Enum):
    """Classification of a peer."""

    OURS = auto()
    ANOTHERS = auto()
    UNKNOWN = auto()


class Peer(NamedTuple):
    """The other end."""

    kind: Kind
    address: str
    """Without its port; empty for a Unix socket."""
    inode: int = 0
    """Port of the peer's end of a TCP connection within this machine; 0 if it is unknown."""
    pid: int = 0
    """Process that has connected to the Unix socket; 0: not known."""


class Connection(Protocol):
    """Properties of the connection that a request came on."""

    @property
    def peer(self) -> Peer:
        """Peer at the time of the connection."""
        ...

    @property
    def name(self) -> str:
        """Unique among all connections of this server."""
        ...

    async def find_process(self) -> Process | None:
        """Return the process at its other end; None where the system does not report it."""
        ...


class Principal(NamedTuple):
    """Sender of a request, as far as the server has established it. It contains no claim of the client."""

    token: str = ""
    """Digest of the bearer token; empty for a request that needs none."""
    client: str = ""
    """Name of the client to which that token was given."""
    process: str = ""
    """Process or connection of a request without a token."""
    is_local: bool = False
    """The request came from a process of our user on this machine, and not through a proxy."""

    @property
    def session_owner(self) -> tuple[str, bool]:
        """Value that a request needs to continue a session, besides the session's secret id."""
        return self.token, self.is_local

    @property
    def key(self) -> str:
        """Key of the session that all its requests since 2026-07-28 share."""
        return f"{self.token or self.process} {self.is_local}"

    @property
    def name(self) -> str:
        """Name under which the user's approvals for one client are stored."""
        return f"token {self.client}" if self.token else self.process


def principal_of(request: HTTPConnection) -> Principal:
    """Return who sent a request, as the gate has established it."""
    found: Principal | None = request.scope["state"].get("principal")
    return found or Principal(is_local=is_ours(request))


def connection_of(request: HTTPConnection) -> Connection:
    """Return the connection that a request came on."""
    found: Connection = request.scope["state"]["connection"]
    return found


def is_ours(request: HTTPConnection) -> bool:
    """Return whether a process of our own user sent the request, on its own behalf."""
    peer = connection_of(request).peer
    return peer.kind is Kind.OURS and _FORWARDED.isdisjoint(request.headers.keys())
