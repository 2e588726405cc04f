"""TCP sockets of this machine by their two addresses: user and inode (Linux).

It does not know which process has a socket open: that is `proc.py`. Source: sock_diag(7).
"""

from __future__ import annotations

import socket
import struct
import sys
from ipaddress import IPv4Address, IPv6Address
from typing import NamedTuple

_SOCK_DIAG, _BY_FAMILY, _REQUEST = 4, 20, 1
"""NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST."""
_HEADER = struct.Struct("=IHHII")
"""`nlmsghdr`: length, type, flags, sequence, port."""
_QUERY = struct.Struct("=BBBxI")
"""`inet_diag_req_v2` without its id: family, protocol, extensions, states."""
_ADDRESSES = struct.Struct(">HH16s16s")
_ID_BYTES = 48
"""`inet_diag_sockid`: the addresses, an interface (0: any), a cookie (all ones: none)."""
_ANSWER = struct.Struct(f"=BBBB{_ID_BYTES}sIIIII")
"""`inet_diag_msg`: family, state, timer, retransmissions, id, expires, read and write queue, uid, inode."""
_ALL = 0xFFFFFFFF
_CONNECTED = {1, 4, 5, 8}
"""ESTABLISHED, FIN_WAIT1, FIN_WAIT2, CLOSE_WAIT. In another state the port belongs to a different socket."""


class TcpAddress(NamedTuple):
    """One end of a TCP connection."""

    address: IPv4Address | IPv6Address
    port: int


class SocketOwner(NamedTuple):
    """The user that has a socket open, and the socket's inode."""

    uid: int
    inode: int


def find_socket_owner(local: TcpAddress, remote: TcpAddress) -> SocketOwner | None:
    """Return the owner of the TCP socket that is bound to `local` and connected to `remote`.

    None: no process has that socket open any more, or the system does not report it.

    Raises:
        OSError: there is no such socket, or the system rejects the query.
    """
    if sys.platform != "linux":
        return None
    family = socket.AF_INET if local.address.version == 4 else socket.AF_INET6
    query = _QUERY.pack(family, socket.IPPROTO_TCP, 0, _ALL) + _socket_id(local, remote)
    header = _HEADER.pack(_HEADER.size + len(query), _BY_FAMILY, _REQUEST, 0, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, _SOCK_DIAG) as kernel:
        kernel.setblocking(False)  # the answer is there before `send` returns
        kernel.send(header + query)
        answer = kernel.recv(4096)
    if _HEADER.unpack_from(answer)[1] != _BY_FAMILY:
        return None
    _, state, *_, uid, inode = _ANSWER.unpack_from(answer, _HEADER.size)
    # The kernel reports a socket that no process has open with inode 0, and as root's.
    return SocketOwner(uid, inode) if inode and state in _CONNECTED else None


def _socket_id(local: TcpAddress, remote: TcpAddress) -> bytes:
    source, destination = (end.address.packed.ljust(16, b"\0") for end in (local, remote))
    addresses = _ADDRESSES.pack(local.port, remote.port, source, destination)
    return addresses + struct.pack("=III", 0, _ALL, _ALL)
