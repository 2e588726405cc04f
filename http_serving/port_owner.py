"""Who holds a port that we wanted, as a person can find it: from what Linux says in /proc."""

from __future__ import annotations

import pwd
import sys
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import NamedTuple

from native_host.protocol.untrusted_text import escape

_PROC = Path("/proc")
_LISTENS = "0A"
_OURS = {"mcpb", "mcpb-bridge", "bridge"}
"""What our command is called where it is started."""

_Ip = IPv4Address | IPv6Address


class _Listener(NamedTuple):
    uid: int
    inode: str


def holder(port: int, address: str) -> str:
    """Who listens on that port of that address, as `python3 (pid 4711)`; empty when it cannot be told.

    Another user's process does not say which it is: that is `a process of user www-data`.
    """
    for listener in _listeners(port, ip_address(address)):
        for process in _processes_with(listener):
            return f"{_called(process)} (pid {process.name})"
        return f"a process of user {_user(listener.uid)}"
    return ""


def _listeners(port: int, wanted: _Ip) -> Iterator[_Listener]:
    """Those that are in the way: at that address, or at all of them."""
    for table in ("tcp", "tcp6") if wanted.version == 4 else ("tcp6",):
        with suppress(OSError):  # other systems have none
            for line in (_PROC / "net" / table).read_text().splitlines()[1:]:
                _, local, _, state, _, _, _, uid, _, inode, *_ = line.split()
                address, _, local_port = local.partition(":")
                if state == _LISTENS and int(local_port, 16) == port and _collide(_read(address), wanted):
                    yield _Listener(int(uid), inode)


def _read(written: str) -> _Ip:
    """From the kernel's hexadecimal words, each in the machine's order of bytes."""
    words = [bytes.fromhex(written[at : at + 8]) for at in range(0, len(written), 8)]
    packed = b"".join(word[::-1] if sys.byteorder == "little" else word for word in words)
    return ip_address(packed)


def _collide(found: _Ip, wanted: _Ip) -> bool:
    return found == wanted or found.is_unspecified or wanted.is_unspecified


def _processes_with(listener: _Listener) -> Iterator[Path]:
    name = f"socket:[{listener.inode}]"
    processes = [path for path in _PROC.iterdir() if path.name.isdecimal()]
    for process in sorted(processes, key=lambda path: int(path.name)):
        with suppress(OSError):  # another user's, or it has ended
            if any(str(fd.readlink()) == name for fd in (process / "fd").iterdir()):
                yield process


def _called(process: Path) -> str:
    with suppress(OSError):
        words = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
        if "serve" in words and any(Path(word).name in _OURS for word in words[: words.index("serve")]):
            return "another mcpb serve"
        return escape((process / "comm").read_text(errors="replace").removesuffix("\n"))
    return "a process"


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
