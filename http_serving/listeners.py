"""Listeners of an HTTP server: TCP and Unix sockets, and the reasons why one cannot be opened.

It accepts no connection: that is `http_server.py`. What to do about a failure depends on the server's own
options, so its command adds that.
"""

from __future__ import annotations

import errno
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from enum import Enum, auto
from pathlib import Path

from http_serving.host_header import Scheme
from http_serving.port_owner import describe_port_owner
from native_host.ipc import endpoint
from native_host.system.private_files import PrivateFileError, prepare_directory

_LOOPBACK = ("127.0.0.1", "::1")
"""Both addresses that a client may take `localhost` for: no other process may listen at one of them."""
LOOPBACK_NAMES = {"localhost", *_LOOPBACK}
_BACKLOG = 1024
"""Connections that wait to be accepted. Linux limits it to `net.core.somaxconn`."""
_TRIES = 20
"""Attempts to find a port that is free at both loopback addresses."""
_NOT_HERE = {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT}
_ANY = {"0.0.0.0", "::"}  # noqa: S104  (compared, not bound)


class ListenFault(Enum):
    """Cause of a `ListenError`, for which the command of the server knows a remedy."""

    UNKNOWN_ADDRESS = auto()
    PORT_IN_USE = auto()
    PORT_PRIVILEGED = auto()
    SOCKET_PATH = auto()
    SYSTEM = auto()


class ListenError(Exception):
    """A listener cannot be opened. The text is for the user and says why."""

    def __init__(self, fault: ListenFault, reason: str) -> None:
        super().__init__(reason)
        self.fault = fault


@contextmanager
def open_listeners(host: str, port: int, socket_path: str = "") -> Iterator[list[socket.socket]]:
    """Open all sockets of a server, those of the port first. They close when the block ends.

    Args:
        host: an address or a name; both loopback addresses are meant where it is one of LOOPBACK_NAMES.
        port: 0 chooses a free port.
        socket_path: path of a Unix socket to listen on as well; empty for none.

    Raises:
        ListenError: one of them cannot be opened; tell the user.
    """
    with ExitStack() as stack:
        sockets = [stack.enter_context(each) for each in listen(host, port)]
        if socket_path:
            sockets.append(stack.enter_context(open_unix_listener(Path(socket_path).expanduser())))
        yield sockets


def local_url(host: str, port: int, scheme: Scheme = "http") -> str:
    """Return the URL, ending with a slash, by which this machine reaches a server that listens on `host`."""
    name = "localhost" if host in LOOPBACK_NAMES | _ANY else host
    return f"{scheme}://[{name}]:{port}/" if ":" in name else f"{scheme}://{name}:{port}/"


def listen(host: str, port: int) -> list[socket.socket]:
    """Open sockets that listen on a TCP port, on both loopback addresses if `host` is one of them.

    Args:
        host: an address or a name.
        port: 0 chooses a port that is free at all addresses.

    Raises:
        ListenError: one of them cannot be opened; tell the user.
    """
    if host not in LOOPBACK_NAMES:
        return _listen_at(_addresses(host), host, port)
    for _ in range(_TRIES - 1):
        try:
            return _listen_at(_LOOPBACK, host, port)
        except ListenError:
            if port:
                raise
    return _listen_at(_LOOPBACK, host, port)


def _listen_at(addresses: tuple[str, ...], host: str, port: int) -> list[socket.socket]:
    with ExitStack() as stack:
        listeners: list[socket.socket] = []
        for address in addresses:
            # All addresses share the port of the first one.
            wanted = listeners[0].getsockname()[1] if listeners else port
            try:
                listeners.append(stack.enter_context(_bind(address, wanted)))
            except OSError as error:
                if error.errno in _NOT_HERE and host in LOOPBACK_NAMES and listeners:
                    continue  # a machine without IPv6
                raise _explain(error, address, wanted) from error
        stack.pop_all()
        return listeners


def _bind(address: str, port: int) -> socket.socket:
    # This sets SO_REUSEADDR, so connections of an earlier server do not occupy its port.
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return socket.create_server((address, port), family=family, backlog=_BACKLOG)


def _addresses(host: str) -> tuple[str, ...]:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        text = f"{host} is not an address of this machine: {error.strerror}."
        raise ListenError(ListenFault.UNKNOWN_ADDRESS, text) from error
    return tuple(dict.fromkeys(str(name[0]) for *_, name in found))


def _explain(error: OSError, address: str, port: int) -> ListenError:
    match error.errno:
        case errno.EADDRINUSE:
            by = f" by {found}" if (found := describe_port_owner(port, address)) else ""
            return ListenError(ListenFault.PORT_IN_USE, f"Port {port} is in use{by}.")
        case errno.EACCES:
            text = f"Port {port} needs administrator rights."
            return ListenError(ListenFault.PORT_PRIVILEGED, text)
        case _ if error.errno in _NOT_HERE:
            text = f"{address} is not an address of this machine."
            return ListenError(ListenFault.UNKNOWN_ADDRESS, text)
        case _:
            text = f"Port {port} of {address} cannot be opened: {error.strerror}."
            return ListenError(ListenFault.SYSTEM, text)


# ── Unix sockets ────────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def open_unix_listener(path: Path) -> Iterator[socket.socket]:
    """Open a Unix socket for this user alone. It closes and its file is removed when the block ends.

    Raises:
        ListenError: its directory is not private, the path is in use, or the system reports an error; tell
            the user.
    """
    path = path.absolute()
    if len(os.fsencode(path)) > endpoint.SOCKET_PATH_BYTES:
        raise _path_error(f"{path} is too long: the limit is {endpoint.SOCKET_PATH_BYTES} bytes.")
    try:
        _prepare(path.parent)
        _remove_stale(path)
        listener = endpoint.bind(path)
    except endpoint.EndpointError as error:
        raise ListenError(ListenFault.SYSTEM, str(error)) from error
    created = path.lstat()
    try:
        yield listener
    finally:
        listener.close()
        with suppress(OSError):
            if os.path.samestat(path.lstat(), created):
                path.unlink()


def _prepare(directory: Path) -> None:
    # The user named it, and it may be their home: never change the mode of a directory that exists.
    if not directory.parent.is_dir():
        text = f"{directory.parent} is not a directory: only the last directory of the path is created."
        raise _path_error(text)
    try:
        prepare_directory(directory)
    except PrivateFileError:
        text = f"{directory} cannot hold the socket: it must be a real directory that only you can open."
        raise _path_error(text) from None


def _remove_stale(path: Path) -> None:
    # Only a socket that a killed server left behind is removed.
    with suppress(FileNotFoundError):
        found = path.lstat()
        if not stat.S_ISSOCK(found.st_mode) or found.st_uid != os.getuid():
            raise _path_error(f"{path} exists and is not a socket of yours.")
        if endpoint.is_answering(path):
            raise _path_error(f"Another server listens at {path}.")
        path.unlink()


def _path_error(text: str) -> ListenError:
    return ListenError(ListenFault.SOCKET_PATH, text)
