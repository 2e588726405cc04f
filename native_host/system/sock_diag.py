"""Socket queries to the kernel: owner of a TCP socket, both ends of Unix sockets (Linux, netlink).

It does not know which process has a socket open: that is `proc.py`. Source: sock_diag(7).
"""

from __future__ import annotations

import errno
import socket
import struct
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address
from typing import NamedTuple

_SOCK_DIAG, _BY_FAMILY, _REQUEST, _DUMP = 4, 20, 1, 0x300
"""NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST, NLM_F_DUMP."""
_ERROR, _DONE = 2, 3
_HEADER = struct.Struct("=IHHII")
"""`nlmsghdr`: length, type, flags, sequence, port."""
_ALL = 0xFFFFFFFF

# ── TCP ─────────────────────────────────────────────────────────────────────────────────────────────────────

_QUERY = struct.Struct("=BBBxI")
"""`inet_diag_req_v2` without its id: family, protocol, extensions, states."""
_ADDRESSES = struct.Struct(">HH16s16s")
_ID_BYTES = 48
"""`inet_diag_sockid`: the addresses, an interface (0: any), a cookie (all ones: none)."""
_ANSWER = struct.Struct(f"=BBBB{_ID_BYTES}sIIIII")
"""`inet_diag_msg`: family, state, timer, retransmissions, id, expires, read and write queue, uid, inode."""
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


# ── Unix sockets ────────────────────────────────────────────────────────────────────────────────────────────

_UNIX_QUERY = struct.Struct("=BBHIIIII")
"""`unix_diag_req`: family, protocol, padding, states, inode, attributes to show, cookie."""
_UNIX_ANSWER = struct.Struct("=BBBxIII")
"""`unix_diag_msg`: family, type, state, inode, cookie."""
_ATTRIBUTE = struct.Struct("=HH")
"""`rtattr`: length, type."""
_SHOW_PEER, _PEER = 4, 2
_MAX_ANSWER_BYTES = 65536
_ANSWER_TIMEOUT_S = 1.0


def find_unix_peers() -> Mapping[int, int]:
    """Return the other end of each Unix socket, both as inodes; empty if the kernel does not report them."""
    family = getattr(socket, "AF_NETLINK", None)
    if family is None:
        return {}
    query = _UNIX_QUERY.pack(socket.AF_UNIX, 0, 0, _ALL, 0, _SHOW_PEER, _ALL, _ALL)
    header = _HEADER.pack(_HEADER.size + len(query), _BY_FAMILY, _REQUEST | _DUMP, 1, 0)
    with suppress(OSError, struct.error), socket.socket(family, socket.SOCK_RAW, _SOCK_DIAG) as kernel:
        kernel.settimeout(_ANSWER_TIMEOUT_S)
        kernel.send(header + query)
        return dict(_read_unix_peers(kernel))
    return {}


def _read_unix_peers(kernel: socket.socket) -> Iterator[tuple[int, int]]:
    while True:
        answer = kernel.recv(_MAX_ANSWER_BYTES)
        while answer:
            size, kind, *_ = _HEADER.unpack_from(answer)
            if kind == _DONE:
                return
            if kind == _ERROR or size < _HEADER.size:
                raise OSError(errno.EPROTO, "the kernel rejects the query")
            yield from _parse_unix_peer(answer[_HEADER.size : size])
            answer = answer[_align(size) :]


def _parse_unix_peer(message: bytes) -> Iterator[tuple[int, int]]:
    inode = _UNIX_ANSWER.unpack_from(message)[3]
    attributes = message[_UNIX_ANSWER.size :]
    while len(attributes) >= _ATTRIBUTE.size:
        size, kind = _ATTRIBUTE.unpack_from(attributes)
        if kind == _PEER:
            yield inode, struct.unpack_from("=I", attributes, _ATTRIBUTE.size)[0]
        attributes = attributes[max(_align(size), _ATTRIBUTE.size) :]


def _align(size: int) -> int:
    return (size + 3) & ~3
