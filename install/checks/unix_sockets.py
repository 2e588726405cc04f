"""Who is connected to a Unix socket, as Linux tells somebody who only looks: nobody is connected to."""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

_LISTENS = 0x10000
"""`__SO_ACCEPTCON` among the flags of /proc/net/unix."""
_CONNECTED = "03"

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
            elif state == _CONNECTED:
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
