"""Reads of /proc: processes, their descriptors and environment, TCP listeners, Unix sockets (Linux).

Other modules do not read /proc. A function that takes a process directory (`/proc/<pid>`) raises OSError when
the process has ended or hides the answer from this user. Source: proc(5).
"""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import NamedTuple

from native_host.system.untrusted_files import entries, head

ROOT = Path("/proc")
MAX_COMMAND_LINE_BYTES = 256 * 1024
MAX_ENVIRONMENT_BYTES = 1024 * 1024
MAX_STAT_BYTES = 1024
MAX_ANCESTORS = 8
"""Processes between a browser and the host that it started: a shell, a wrapper."""
_RECENT_PROCESSES = 8
_SESSION, _STARTED_AT = 3, 19
"""Indexes in `_stat_fields`."""


# ── One process ─────────────────────────────────────────────────────────────────────────────────────────────


class Process(NamedTuple):
    """A process; its start tells it from a later one with the same id."""

    pid: int
    started_at: int
    """Clock ticks since the machine's start."""
    program: str
    """Path of its executable; empty when the system does not report it."""


def read_process(pid: int, root: Path = ROOT) -> Process | None:
    """Return a process; None when it has ended, or there is no /proc."""
    process = root / str(pid)
    try:
        started_at = int(_stat_fields(process)[_STARTED_AT])
    except (OSError, ValueError, IndexError):
        return None
    program = ""
    with suppress(OSError):
        program = read_executable(process)
    return Process(pid, started_at, program)


def is_running(pid: int) -> bool:
    """Return whether a process still runs. A zombie does not."""
    if sys.platform != "linux":
        return _accepts_signals(pid)
    with suppress(OSError, IndexError):
        return _stat_fields(ROOT / str(pid))[0] not in "ZX"
    return False


def _accepts_signals(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return True


def find_parent(pid: int) -> int:
    """Return the parent's process id; 0 when the system does not report it."""
    with suppress(OSError, ValueError, IndexError):
        return read_parent(ROOT / str(pid))
    return 0


def find_program_name(pid: int) -> str:
    """Return the name of a process as `ps` shows it; empty when the system does not report it."""
    with suppress(OSError):
        return read_program_name(ROOT / str(pid))
    return ""


def find_descriptor_path(descriptor: int) -> Path:
    """Return the path of a file that this process has open.

    Raises:
        OSError: the descriptor is closed, or there is no /proc.
    """
    return (ROOT / "self/fd" / str(descriptor)).readlink()


# ── Process directories ─────────────────────────────────────────────────────────────────────────────────────


def find_processes(uid: int, root: Path = ROOT) -> Iterator[Path]:
    """Yield the directories of a user's processes, the lowest process id first."""
    for process in sorted(_all_processes(root), key=pid_of):
        with suppress(OSError):
            if process.stat().st_uid == uid:
                yield process


def find_session_members(leader: int, root: Path = ROOT) -> Iterator[int]:
    """Yield the processes of a session (setsid(2)), whose id is its leader's process id."""
    for process in _all_processes(root):
        with suppress(OSError, IndexError):
            if _stat_fields(process)[_SESSION] == str(leader):
                yield pid_of(process)


def _all_processes(root: Path) -> list[Path]:
    return [path for path in entries(root) if path.name.isdecimal()]


def pid_of(process: Path) -> int:
    """Return the process id of a process directory."""
    return int(process.name)


def read_command_line(process: Path) -> Sequence[str]:
    """Return the words of the command line, the program first; one empty word if it cannot be read."""
    line = head(process / "cmdline", MAX_COMMAND_LINE_BYTES) or b""
    return line.decode(errors="replace").rstrip("\0").split("\0")


def read_executable(process: Path) -> str:
    """Return the path of the program, which an upgrade may have replaced since."""
    return str((process / "exe").readlink()).removesuffix(" (deleted)")


def read_program_name(process: Path) -> str:
    """Return the name that `ps` shows. The process can set it."""
    return (process / "comm").read_text(errors="replace").removesuffix("\n")


def find_working_directory(process: Path) -> Path | None:
    """Return the working directory; None when the system does not report it."""
    with suppress(OSError):
        return (process / "cwd").readlink()
    return None


def is_in_flatpak(process: Path) -> bool:
    """Return whether the process runs in the sandbox of a Flatpak."""
    with suppress(OSError):
        return (process / "root/.flatpak-info").exists()
    return False


def read_environment(process: Path, names: Collection[str]) -> Mapping[str, str] | None:
    """Return these variables of the environment, which may hold secrets; None if it cannot be read."""
    content = head(process / "environ", MAX_ENVIRONMENT_BYTES)
    if not content:
        return None
    variables = (entry.partition(b"=") for entry in content.split(b"\0"))
    return {name: os.fsdecode(value) for key, _, value in variables if (name := os.fsdecode(key)) in names}


def read_parent(process: Path) -> int:
    """Return the parent's process id: of the process that started it, or that adopted it."""
    return int(_stat_fields(process)[1])


def find_ancestors(process: Path) -> Iterator[int]:
    """Yield the process ids above a process, the nearest first, as far as the system reports them."""
    with suppress(OSError, ValueError, IndexError):
        for _ in range(MAX_ANCESTORS):
            above = read_parent(process)
            yield above
            process = process.parent / str(above)


def read_age_s(process: Path) -> float:
    """Return the seconds since the process started."""
    up_s = float((process.parent / "uptime").read_text().split()[0])
    return up_s - int(_stat_fields(process)[_STARTED_AT]) / os.sysconf("SC_CLK_TCK")


def find_sockets(process: Path) -> Iterator[int]:
    """Yield the inodes of the sockets that a process has open."""
    for descriptor in entries(process / "fd"):
        with suppress(OSError):
            name = str(descriptor.readlink())
            if name.startswith("socket:["):
                yield int(name.removeprefix("socket:[").removesuffix("]"))


def _stat_fields(process: Path) -> Sequence[str]:
    """Return the fields from the third of proc(5) on: state, parent, group, session, and more.

    The name before them stands in parentheses and may contain any character.
    """
    stat = head(process / "stat", MAX_STAT_BYTES)
    if stat is None:
        raise ProcessLookupError
    return stat.decode(errors="replace").rpartition(")")[2].split()


# ── The process that has a socket open ──────────────────────────────────────────────────────────────────────


class SocketProcesses:
    """Finds the process that has a socket open; looks first at the processes that it has found last."""

    def __init__(self) -> None:
        self._recent: list[int] = []

    def find(self, inode: int) -> Process | None:
        """Return a process of this user that has the socket open.

        None: it has closed the socket, it hides its descriptors, or its process namespace is not ours.
        """
        for pid in self._candidates():
            if _has_socket(pid, inode):
                self._recent = [pid, *(each for each in self._recent if each != pid)][:_RECENT_PROCESSES]
                return read_process(pid)
        return None

    def _candidates(self) -> Iterator[int]:
        recent = list(self._recent)
        yield from recent
        yield from (pid for pid in _own_processes() if pid not in recent)


def _own_processes() -> Iterator[int]:
    """Yield the ids of this user's processes, the highest first: a client is younger than a desktop."""
    try:
        pids = sorted((int(path.name) for path in ROOT.iterdir() if path.name.isdecimal()), reverse=True)
    except OSError:
        return
    for pid in pids:
        with suppress(OSError):
            if (ROOT / str(pid)).stat().st_uid == os.getuid():
                yield pid


def _has_socket(pid: int, inode: int) -> bool:
    # Strings, since this runs for each connection and a client may have a thousand descriptors.
    wanted, directory = f"socket:[{inode}]", f"{ROOT}/{pid}/fd"
    try:
        descriptors = os.listdir(directory)  # noqa: PTH208
    except OSError:
        return False
    for descriptor in reversed(descriptors):  # the latest connection usually has the highest number
        with suppress(OSError):
            if os.readlink(f"{directory}/{descriptor}") == wanted:  # noqa: PTH115
                return True
    return False


def find_socket_processes(inode: int, root: Path = ROOT) -> Iterator[Path]:
    """Yield the directories of all processes that have a socket open and show it to this user."""
    for process in sorted(_all_processes(root), key=pid_of):
        if inode in find_sockets(process):
            yield process


# ── TCP listeners ───────────────────────────────────────────────────────────────────────────────────────────

IpAddress = IPv4Address | IPv6Address
_TCP_LISTENS = "0A"


class TcpListener(NamedTuple):
    """A listening TCP socket."""

    uid: int
    inode: int


def find_tcp_listeners(port: int, address: IpAddress, root: Path = ROOT) -> Iterator[TcpListener]:
    """Yield the listeners that keep this address and port from being bound: there, or at all addresses."""
    for table in ("tcp", "tcp6") if address.version == 4 else ("tcp6",):
        with suppress(OSError):
            for line in (root / "net" / table).read_text().splitlines()[1:]:
                _, local, _, state, _, _, _, uid, _, inode, *_ = line.split()
                host, _, local_port = local.partition(":")
                is_there = state == _TCP_LISTENS and int(local_port, 16) == port
                if is_there and _collides(_parse_address(host), address):
                    yield TcpListener(int(uid), int(inode))


def _parse_address(words: str) -> IpAddress:
    """Parse the kernel's hexadecimal words, each in the machine's byte order."""
    packed = [bytes.fromhex(words[at : at + 8]) for at in range(0, len(words), 8)]
    return ip_address(b"".join(word[::-1] if sys.byteorder == "little" else word for word in packed))


def _collides(found: IpAddress, wanted: IpAddress) -> bool:
    return found == wanted or found.is_unspecified or wanted.is_unspecified


# ── Unix sockets ────────────────────────────────────────────────────────────────────────────────────────────

_UNIX_LISTENS = 0x10000
"""`__SO_ACCEPTCON` among the flags of net/unix."""
_UNIX_CONNECTING, _UNIX_CONNECTED = "02", "03"
"""SS_CONNECTING: the listener has not accepted yet, and the client may have sent data already."""


@dataclass
class BoundSocket:
    """Inodes of the sockets that are bound to one path."""

    listener: int = 0
    """0: no process listens there."""
    connections: list[int] = field(default_factory=list)


class _UnixSocket(NamedTuple):
    flags: int
    state: str
    inode: int
    path: str


def find_bound_sockets(root: Path = ROOT) -> Mapping[str, BoundSocket]:
    """Return all Unix sockets that have a path, by path; empty when the system does not report them."""
    found: dict[str, BoundSocket] = defaultdict(BoundSocket)
    for each in _unix_sockets(root) or []:
        if each.flags & _UNIX_LISTENS:
            found[each.path].listener = each.inode
        elif each.state == _UNIX_CONNECTED:
            found[each.path].connections.append(each.inode)
    return found


def count_unix_connections(path: Path, root: Path = ROOT) -> int | None:
    """Return how many clients are connected to a socket, by its path; None if the system does not say."""
    sockets = _unix_sockets(root)
    if sockets is None:
        return None
    wanted = str(path)
    return sum(each.path == wanted and each.state in {_UNIX_CONNECTING, _UNIX_CONNECTED} for each in sockets)


def _unix_sockets(root: Path) -> list[_UnixSocket] | None:
    try:
        lines = os.fsdecode((root / "net/unix").read_bytes()).split("\n")[1:]
    except OSError:
        return None
    return [found for line in lines if (found := _parse_unix_socket(line))]


def _parse_unix_socket(line: str) -> _UnixSocket | None:
    with suppress(ValueError):  # The path of a socket may contain a line break.
        _number, _users, _protocol, flags, _kind, state, inode, path = line.split(None, 7)
        return _UnixSocket(int(flags, 16), state, int(inode), path)
    return None
