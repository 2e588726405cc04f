"""Endpoint of a native host: socket, record and lock in a private directory.

For each host, `<instance>.sock` (the socket), `<instance>.json` (a `Record`, written once the socket accepts)
and `<instance>.lock` (held while the host lives: liveness is the lock, never the pid). Everything found is
checked with `lstat` before it is used or removed, and both ends check the other's user id.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import socket
import stat
import struct
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

import msgspec
import trio

from native_host.protocol.wire import Wire
from native_host.system import private_files
from native_host.system.home_layout import NAME, HomeLayout, is_home_chosen, mcpb_home, password_home
from native_host.system.private_files import PrivateFileError

SOCKET_PATH_BYTES = 107 if sys.platform == "linux" else 103
"""Longest path of a socket (measured on Linux: 107 bytes bind, 108 fail)."""
_SOCKET_BUFFER_BYTES = 4 * 1024 * 1024
_CONNECTABLE_GONE = {errno.ECONNREFUSED, errno.ENOENT, errno.ENOTSOCK}


class EndpointError(PrivateFileError):
    """A socket cannot be used."""


class Record(Wire, kw_only=True):
    """Description of a native host, which bridges read from the directory."""

    instance: str
    pid: int
    browser_pid: int
    extension_origin: str
    version: str
    started_at: float
    """Seconds since the epoch."""
    browser: str = ""
    profile_id: str = ""
    profile_label: str = ""
    channel: str = ""
    """Socket of Claude in Chrome that a holder shares; empty for a native host of mcpb's extension."""


def candidates(environ: Mapping[str, str] = os.environ) -> list[Path]:
    """Return the directories in which bridges look for hosts.

    These are those of `host_directories`. Browsers may run with another `HOME`, so the home that the password
    database names counts too, unless `MCPB_HOME` is set.
    """
    found = host_directories(environ)
    if is_home_chosen(environ):
        return found
    other = HomeLayout(password_home() / NAME).run
    is_known = any(os.path.realpath(each) == os.path.realpath(other) for each in found)
    return found if is_known else [*found, other]


def host_directories(environ: Mapping[str, str] = os.environ) -> list[Path]:
    """Return the directories in which a host may open its endpoint; it takes the first that it can use.

    `/run/user/<uid>/mcpb` where its parent is private, unless `MCPB_HOME` is set, and `run` in mcpb's home.
    """
    below_home = HomeLayout(mcpb_home(environ)).run
    runtime = Path(f"/run/user/{os.getuid()}")
    if is_home_chosen(environ) or not private_files.is_private(runtime):
        return [below_home]
    return [runtime / "mcpb", below_home]


# ── The host's side ─────────────────────────────────────────────────────────────────────────────────────────


class Endpoint:
    """Three files and the listening socket of a native host.

    `close` removes them; a host that was killed leaves them to the next one.
    """

    def __init__(self, directory: Path, instance: str, lock: int, listener: socket.socket) -> None:
        self.directory = directory
        self.instance = instance
        self.listener = listener
        self._lock = lock

    def publish(self, record: Record) -> None:
        """Replace the record atomically. Bridges connect when it exists.

        Raises:
            PrivateFileError: it cannot be written.
        """
        path = self.directory / f"{self.instance}.json"
        private_files.replace(path, msgspec.json.encode(record), is_durable=False)

    def is_in_place(self) -> bool:
        """Return whether bridges can still find it: the directory of a running host may have been removed."""
        return _is_ours(socket_path(self.directory, self.instance), stat.S_ISSOCK)

    def close(self) -> None:
        """Remove the files, the lock last, so that no bridge takes a live host for a stale one."""
        self.listener.close()
        _remove(self.directory, self.instance)
        os.close(self._lock)


def open_first(directories: Sequence[Path]) -> Endpoint:
    """Return an endpoint in the first directory that can be used.

    Raises:
        EndpointError: none can; the reason has the reason of each.
    """
    refusals = []
    for directory in directories:
        try:
            return open_endpoint(directory)
        except PrivateFileError as error:
            refusals.append(str(error))
    raise EndpointError(None, "; ".join(refusals))


def open_endpoint(directory: Path) -> Endpoint:
    """Create a socket in `directory` under a new instance name, and remove the files of dead hosts.

    Raises:
        PrivateFileError: the directory is not private, the path is too long for a socket address, or the
            system refuses.
    """
    private_files.prepare_directory(directory)
    try:
        sweep(directory)
        instance, lock = _claim(directory)
    except OSError as error:
        raise EndpointError(directory, f"cannot be used: {error.strerror}") from error
    try:
        return Endpoint(directory, instance, lock, _listen(directory, instance))
    except BaseException:
        _remove(directory, instance)
        os.close(lock)
        raise


def sweep(directory: Path) -> None:
    """Remove the files of hosts that are dead: lock free, socket ours, nothing answering."""
    for lock_path in directory.glob("*.lock"):
        with _lock_if_dead(lock_path) as is_stale:
            if is_stale and not is_answering(socket_path(directory, lock_path.stem)):
                _remove(directory, lock_path.stem)


def find_leftovers(directory: Path) -> list[Path]:
    """Return the files that `sweep` would remove: no host uses one of these names again."""
    left: list[Path] = []
    for lock_path in sorted(directory.glob("*.lock")):
        with _lock_if_dead(lock_path) as is_stale:
            if is_stale and not is_answering(socket_path(directory, lock_path.stem)):
                left += _files(directory, lock_path.stem)
    return left


@contextmanager
def _lock_if_dead(path: Path) -> Iterator[bool]:
    """Hold the lock of a dead host for a moment; False if the host lives, or belongs to another user."""
    lock = private_files.open_own(path, os.O_RDWR)
    if lock is None:
        yield False
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield True
    except BlockingIOError:
        yield False
    finally:
        os.close(lock)


def _claim(directory: Path) -> tuple[str, int]:
    while True:
        instance = secrets.token_hex(4)
        path = directory / f"{instance}.lock"
        lock = private_files.open_regular(path, os.O_CREAT | os.O_EXCL | os.O_RDWR)
        with suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if path.stat().st_ino == os.fstat(lock).st_ino:
                return instance, lock
        os.close(lock)  # another host swept it away between its making and its locking


def _listen(directory: Path, instance: str) -> socket.socket:
    path = socket_path(directory, instance)
    check_length(path)
    return bind(path)


def bind(path: Path) -> socket.socket:
    """Return a socket that listens at `path`, for this user alone.

    Raises:
        EndpointError: the system refuses.
    """
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    umask = os.umask(0o177)
    try:
        listener.bind(str(path))
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise EndpointError(path, f"cannot be bound: {error.strerror}") from error
    finally:
        os.umask(umask)
    listener.setblocking(False)
    return listener


def check_length(path: Path) -> None:
    """Check that a socket's path is not longer than the system allows.

    Raises:
        EndpointError: it is too long.
    """
    size = len(os.fsencode(path))
    if size > SOCKET_PATH_BYTES:
        # A process with a shorter path never imports it.
        from native_host.system.program_name import format_command  # noqa: PLC0415

        raise EndpointError(
            path,
            f"is {size} bytes long; a socket's path may have {SOCKET_PATH_BYTES} on this system. "
            "Set MCPB_HOME to a shorter directory first",
            format_command("install-native-host"),
        )


def _remove(directory: Path, instance: str) -> None:
    for path in _files(directory, instance):
        path.unlink(missing_ok=True)


def _files(directory: Path, instance: str) -> Iterator[Path]:
    """Yield the files of a host, the lock last."""
    for suffix in (".sock", ".json.new", ".json", ".lock"):
        path = directory / f"{instance}{suffix}"
        if _is_ours(path, stat.S_ISSOCK if suffix == ".sock" else stat.S_ISREG):
            yield path


def _is_ours(path: Path, is_kind: Callable[[int], bool]) -> bool:
    try:
        found = path.lstat()
    except OSError:
        return False
    return is_kind(found.st_mode) and found.st_uid == os.getuid()


def is_answering(path: Path) -> bool:
    """Return whether a process of this user listens there."""
    # Only after lstat: on Linux a connect to a regular file is refused just like one to a dead socket.
    if not _is_ours(path, stat.S_ISSOCK):
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        return probe.connect_ex(str(path)) not in _CONNECTABLE_GONE


# ── The bridge's side ───────────────────────────────────────────────────────────────────────────────────────


def live_hosts(directory: Path) -> list[Record]:
    """Return the hosts in `directory` that live now. Files that are no record of a host are ignored.

    Raises:
        PrivateFileError: the directory exists and is not private.
    """
    if not directory.exists() and not directory.is_symlink():
        return []
    private_files.check_directory(directory)
    return [record for path in sorted(directory.glob("*.json")) if (record := _read_live(path))]


def socket_path(directory: Path, instance: str) -> Path:
    """Return the path of the socket of the host `instance`."""
    return directory / f"{instance}.sock"


async def connect(directory: Path, instance: str) -> trio.SocketStream:
    """Connect to a host of this user. Raises as `connect_to` does."""
    return await connect_to(socket_path(directory, instance))


async def connect_to(path: Path) -> trio.SocketStream:
    """Connect to a socket that belongs to this user, and on which a process of this user listens.

    Raises:
        EndpointError: the file is not that socket, or the peer belongs to another user.
        OSError: no process listens.
    """
    if not _is_ours(path, stat.S_ISSOCK):
        raise EndpointError(path, "is not a socket of yours")
    stream = await trio.open_unix_socket(path)
    try:
        check_peer(stream)
    except EndpointError:
        await trio.aclose_forcefully(stream)
        raise
    return stream


def _read_live(path: Path) -> Record | None:
    if not _is_ours(path, stat.S_ISREG):
        return None
    if not _is_held(path.with_suffix(".lock")):
        return None
    try:
        record = msgspec.json.decode(path.read_bytes(), type=Record)
    except (OSError, msgspec.DecodeError):
        return None
    return record if record.instance == path.stem else None


def _is_held(path: Path) -> bool:
    lock = private_files.open_own(path, os.O_RDWR)
    if lock is None:
        return False
    try:
        return private_files.is_locked(lock)
    finally:
        os.close(lock)


# ── Both sides ──────────────────────────────────────────────────────────────────────────────────────────────


def tune(stream: trio.SocketStream) -> None:
    """Enlarge the kernel's buffers: with the default, frames of 1 MB take 1.7 times as long (measured)."""
    with suppress(OSError):  # macOS: the other end has gone already, or the system's own limit is lower
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            stream.setsockopt(socket.SOL_SOCKET, option, _SOCKET_BUFFER_BYTES)


def check_peer(stream: trio.SocketStream) -> None:
    """Check that the process at the other end belongs to this user.

    Raises:
        EndpointError: it belongs to another user, or has gone.
    """
    try:
        uid = peer_uid(stream)
    except OSError as error:  # macOS knows the user of a connected socket only
        raise EndpointError(None, f"the other end of the socket has gone ({error.strerror})") from error
    if uid != os.getuid():
        raise EndpointError(None, f"the other end of the socket belongs to user {uid}, not to you")


class HasOptions(Protocol):
    """A socket, or a stream on one."""

    def getsockopt(self, level: int, option: int, buffersize: int, /) -> bytes:
        """Return an option: `socket.socket.getsockopt`."""
        ...


def peer_uid(unix_socket: HasOptions) -> int:
    """Return the user id of the other end at the time of its connection.

    Raises:
        OSError: they have gone (on macOS alone), or it is no Unix socket.
    """
    if (peer_credentials := getattr(socket, "SO_PEERCRED", None)) is not None:
        raw = unix_socket.getsockopt(socket.SOL_SOCKET, peer_credentials, struct.calcsize("3i"))
        return int(struct.unpack("3i", raw)[1])
    # macOS: struct xucred {u_int version; uid_t uid; …} by LOCAL_PEERCRED (1) at level SOL_LOCAL (0).
    raw = unix_socket.getsockopt(0, 1, 76)
    return int(struct.unpack_from("II", raw)[1])


def peer_pid(unix_socket: HasOptions) -> int:
    """Return the process at the other end at the time of its connection; a server's is that of `listen`.

    0 on macOS, and for one of another process namespace.
    """
    if (peer_credentials := getattr(socket, "SO_PEERCRED", None)) is None:
        return 0
    raw = unix_socket.getsockopt(socket.SOL_SOCKET, peer_credentials, struct.calcsize("3i"))
    return int(struct.unpack("3i", raw)[0])
