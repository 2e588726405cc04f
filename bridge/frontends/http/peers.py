"""Whose process is at the other end of a connection, as far as the system tells it.

A Unix socket knows its peer's user. A TCP socket does not, but both ends of a loopback connection are sockets
of this machine, and Linux tells whose the other one is (sock_diag(7): one exact question, some 20 µs with all
around it). Elsewhere, and at addresses of other machines, it could be anybody.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any, NamedTuple

import trio

from bridge.frontends.http.connection import Kind, Peer
from native_host import endpoint

_NOBODY = 65534
"""So the kernel calls users whom our user namespace does not know, and distributions a user of their own."""

_SOCK_DIAG, _BY_FAMILY, _REQUEST = 4, 20, 1
"""NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST."""
_HEADER = struct.Struct("=IHHII")
"""`nlmsghdr`: length, type, flags, sequence, port."""
_QUESTION = struct.Struct("=BBBxI")
"""`inet_diag_req_v2` without its id: family, protocol, extensions, states."""
_ENDS = struct.Struct(">HH16s16s")
_ID_BYTES = 48
"""`inet_diag_sockid`: the ends, an interface (0: any), a cookie (all ones: none)."""
_ANSWER = struct.Struct(f"=BBBB{_ID_BYTES}sIIIII")
"""`inet_diag_msg`: family, state, timer, retransmissions, id, expires, read and write queue, uid, inode."""
_ALL = 0xFFFFFFFF
_LIVE = {1, 4, 5, 8}
"""ESTABLISHED, FIN_WAIT1, FIN_WAIT2, CLOSE_WAIT. Whoever listens or connects on the peer's port by now is
somebody else."""

Ip = IPv4Address | IPv6Address


class _End(NamedTuple):
    address: Ip
    port: int


def peer_of(sock: socket.socket | trio.socket.SocketType) -> Peer:
    """Who is at the other end of a connected socket, over TCP or a Unix socket. Never raises.

    `Kind.OURS` is said only by the system, of a process that has the other end open now.
    """
    try:
        if sock.family == socket.AF_UNIX:
            return Peer(_kind_of(endpoint.peer_uid(sock)), "")
        there = _end(sock.getpeername())
    except OSError:  # it has gone already
        return Peer(Kind.UNKNOWN, "")
    return Peer(_kind_over_tcp(sock, there), str(there.address))


def _kind_over_tcp(sock: socket.socket | trio.socket.SocketType, there: _End) -> Kind:
    if not there.address.is_loopback:
        return Kind.UNKNOWN
    try:
        uid = _user_of(there, _end(sock.getsockname()))
        sock.getpeername()  # fails once it is closed: then what was found on these ports may be another's
    except OSError:
        return Kind.UNKNOWN
    return Kind.UNKNOWN if uid is None else _kind_of(uid)


def _kind_of(uid: int) -> Kind:
    if uid != os.getuid():
        return Kind.ANOTHERS
    return Kind.UNKNOWN if uid == _NOBODY else Kind.OURS


def _end(name: Any) -> _End:
    """From what `getpeername` says; IPv4 on a socket of IPv6 (`::ffff:127.0.0.1`) is IPv4."""
    address, port = ip_address(name[0]), int(name[1])
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return _End(mapped or address, port)


def _user_of(local: _End, remote: _End) -> int | None:
    """Whose the TCP socket of this machine is that is bound to `local` and connected to `remote`.

    None: it is nobody's any more, or the system does not tell it.

    Raises:
        OSError: there is none, or the system refuses to tell.
    """
    if sys.platform != "linux":
        return None
    family = socket.AF_INET if local.address.version == 4 else socket.AF_INET6
    question = _QUESTION.pack(family, socket.IPPROTO_TCP, 0, _ALL) + _id_of(local, remote)
    header = _HEADER.pack(_HEADER.size + len(question), _BY_FAMILY, _REQUEST, 0, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, _SOCK_DIAG) as kernel:
        kernel.setblocking(False)  # the answer is there before `send` returns
        kernel.send(header + question)
        answer = kernel.recv(4096)
    if _HEADER.unpack_from(answer)[1] != _BY_FAMILY:
        return None
    _, state, *_, uid, inode = _ANSWER.unpack_from(answer, _HEADER.size)
    # Without an inode no process has it open any more, and it is shown as root's.
    return int(uid) if inode and state in _LIVE else None


def _id_of(local: _End, remote: _End) -> bytes:
    source, destination = (end.address.packed.ljust(16, b"\0") for end in (local, remote))
    ends = _ENDS.pack(local.port, remote.port, source, destination)
    return ends + struct.pack("=III", 0, _ALL, _ALL)
