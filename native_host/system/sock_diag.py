"""TCP sockets of this machine by their two addresses: user and inode (Linux).

It does not know which process has a socket open: that is `proc.py`. Source: sock_diag(7).

Who is connected to a Unix socket, as Linux tells somebody who only looks: nobody is connected to.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
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


_LISTENS = 0x10000
"""`__SO_ACCEPTCON` among the flags of /proc/net/unix."""
_SOCKET_CONNECTED = "03"

# sock_diag(7): a dump of all Unix sockets with their other ends.
_SOCK_DIAG_BY_FAMILY, _REQUEST_DUMP, _SHOW_PEER, _PEER = 20, 0x301, 4, 2
_ALL_STATES, _NO_COOKIE = 0xFFFF_FFFF, 0xFFFF_FFFF
_DONE, _ERROR = 3, 2
_HEADER, _MESSAGE, _ATTRIBUTE = struct.Struct("=IHHII"), struct.Struct("=BBBxIII"), struct.Struct("=HH")
_ANSWER_BYTES = 65536
_ANSWER_S = 1.0


@dataclass
class Bound:
    """A path that is a socket's, by the inodes of the sockets at this end."""

    listener: int = 0
    """0: nobody listens there."""
    connections: list[int] = field(default_factory=list)


def bound_sockets(proc: Path) -> Mapping[str, Bound]:
    """All that have a path, by that; none where the kernel does not say."""
    found: dict[str, Bound] = defaultdict(Bound)
    for line in _table(proc):
        with suppress(ValueError):  # a path may have the end of a line in it
            _number, _users, _protocol, flags, _kind, state, inode, path = line.split(None, 7)
            if int(flags, 16) & _LISTENS:
                found[path].listener = int(inode)
            elif state == _SOCKET_CONNECTED:
                found[path].connections.append(int(inode))
    return found


def _table(proc: Path) -> list[str]:
    with suppress(OSError):
        return os.fsdecode((proc / "net/unix").read_bytes()).split("\n")[1:]
    return []


def other_ends() -> Mapping[int, int]:
    """The inode at the other end of each connection of this machine; none where the kernel does not say."""
    family = getattr(socket, "AF_NETLINK", None)
    if family is None:
        return {}
    with suppress(OSError, struct.error), socket.socket(family, socket.SOCK_RAW, 4) as kernel:
        kernel.settimeout(_ANSWER_S)
        body = struct.pack(
            "=BBHIIIII", socket.AF_UNIX, 0, 0, _ALL_STATES, 0, _SHOW_PEER, _NO_COOKIE, _NO_COOKIE
        )
        kernel.send(_HEADER.pack(_HEADER.size + len(body), _SOCK_DIAG_BY_FAMILY, _REQUEST_DUMP, 1, 0) + body)
        return dict(_answered(kernel))
    return {}


def _answered(kernel: socket.socket) -> Iterator[tuple[int, int]]:
    while True:
        answer = kernel.recv(_ANSWER_BYTES)
        while answer:
            size, kind, *_ = _HEADER.unpack_from(answer)
            if kind == _DONE:
                return
            if kind == _ERROR or size < _HEADER.size:
                raise OSError(errno.EPROTO, "the kernel does not say")
            yield from _connected(answer[_HEADER.size : size])
            answer = answer[_aligned(size) :]


def _connected(message: bytes) -> Iterator[tuple[int, int]]:
    inode = _MESSAGE.unpack_from(message)[3]
    attributes = message[_MESSAGE.size :]
    while len(attributes) >= _ATTRIBUTE.size:
        size, kind = _ATTRIBUTE.unpack_from(attributes)
        if kind == _PEER:
            yield inode, struct.unpack_from("=I", attributes, _ATTRIBUTE.size)[0]
        attributes = attributes[max(_aligned(size), _ATTRIBUTE.size) :]


def _aligned(size: int) -> int:
    return (size + 3) & ~3
