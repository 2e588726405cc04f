"""Whose process is at the other end of a connection, as far as the system tells it.

A Unix socket knows its peer's user. A TCP socket does not, but both ends of a loopback connection are sockets
of this machine, and Linux tells whose the other one is (`native_host/system/sock_diag.py`, some 20 µs).
Elsewhere, and at addresses of other machines, it could be anybody.
"""

from __future__ import annotations

import os
import socket
import struct
from ipaddress import IPv6Address, ip_address
from typing import Any

import trio

from bridge.frontends.http.connection import Kind, Peer
from native_host.ipc import endpoint
from native_host.system.sock_diag import TcpAddress, find_socket_owner

_NOBODY = 65534
"""So the kernel calls users whom our user namespace does not know, and distributions a user of their own."""


def peer_of(sock: socket.socket | trio.socket.SocketType) -> Peer:
    """Who is at the other end of a connected socket, over TCP or a Unix socket. Never raises.

    `Kind.OURS` is said only by the system, of a process that has the other end open now.
    """
    try:
        if sock.family == socket.AF_UNIX:
            return Peer(_kind_of(endpoint.peer_uid(sock)), "", pid=_unix_peer_pid(sock))
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


def _unix_peer_pid(sock: socket.socket | trio.socket.SocketType) -> int:
    """Return the process that has connected; 0 on macOS, and for one of another process namespace."""
    if (peer_credentials := getattr(socket, "SO_PEERCRED", None)) is None:
        return 0
    raw = sock.getsockopt(socket.SOL_SOCKET, peer_credentials, struct.calcsize("3i"))
    return int(struct.unpack("3i", raw)[0])


def _kind_of(uid: int) -> Kind:
    if uid != os.getuid():
        return Kind.ANOTHERS
    return Kind.UNKNOWN if uid == _NOBODY else Kind.OURS


def _end(name: Any) -> TcpAddress:
    """From what `getpeername` says; IPv4 on a socket of IPv6 (`::ffff:127.0.0.1`) is IPv4."""
    address, port = ip_address(name[0]), int(name[1])
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return TcpAddress(mapped or address, port)
