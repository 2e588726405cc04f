"""The sockets that `mcpb serve` listens on, and why it cannot, in one sentence that says what to do."""

from __future__ import annotations

import errno
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from bridge.config.settings import HttpSettings
from http_serving.port_owner import describe_port_owner
from native_host.ipc import endpoint
from native_host.system.private_files import PrivateFileError, prepare_directory

_LOOPBACK = ("127.0.0.1", "::1")
"""What `localhost` can mean to a client: nobody else may answer where we do not."""
LOOPBACK_NAMES = {"localhost", *_LOOPBACK}
"""Hosts that stand for both loopback addresses."""
_BACKLOG = 1024
"""Connections that wait to be accepted; Linux takes at most `net.core.somaxconn`."""
_TRIES = 20
"""For a free port that is free at both loopback addresses."""
_NOT_HERE = {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT}
_ANY = {"0.0.0.0", "::"}  # noqa: S104  (compared, not bound)


class ListenError(Exception):
    """Nobody could connect: the text says why, and what to do."""


@contextmanager
def listening(settings: HttpSettings) -> Iterator[list[socket.socket]]:
    """All sockets that a server listens on, those of the port first; closed when the block is left.

    Raises:
        ListenError: one of them cannot.
    """
    with ExitStack() as stack:
        sockets = [stack.enter_context(each) for each in listen(settings.host, settings.port)]
        if settings.socket:
            sockets.append(stack.enter_context(listening_at(Path(settings.socket).expanduser())))
        yield sockets


def url(host: str, port: int) -> str:
    """Where a server that listens on `host` is found from this machine, with a slash at its end."""
    name = "localhost" if host in LOOPBACK_NAMES | _ANY else host
    return f"http://[{name}]:{port}/" if ":" in name else f"http://{name}:{port}/"


def listen(host: str, port: int) -> list[socket.socket]:
    """Sockets that listen on `port` of `host`; on both loopback addresses where one of them is asked for.

    Args:
        host: an address or a name.
        port: 0 takes one that is free, the same at all addresses.

    Raises:
        ListenError: they cannot, or not all of them.
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
        listening: list[socket.socket] = []
        for address in addresses:
            # They share the port that the first one got.
            wanted = listening[0].getsockname()[1] if listening else port
            try:
                listening.append(stack.enter_context(_bound(address, wanted)))
            except OSError as error:
                if error.errno in _NOT_HERE and host in LOOPBACK_NAMES and listening:
                    continue  # a machine without IPv6
                raise ListenError(_why_not(error, address, wanted)) from error
        stack.pop_all()
        return listening


def _bound(address: str, port: int) -> socket.socket:
    # With SO_REUSEADDR, which this sets: connections of a server before us do not keep its port.
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return socket.create_server((address, port), family=family, backlog=_BACKLOG)


def _addresses(host: str) -> tuple[str, ...]:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise ListenError(f"{host} is no address of this machine: {error.strerror}") from error
    return tuple(dict.fromkeys(str(name[0]) for *_, name in found))


def _why_not(error: OSError, address: str, port: int) -> str:
    match error.errno:
        case errno.EADDRINUSE:
            by = f" by {found}" if (found := describe_port_owner(port, address)) else ""
            return f"port {port} is in use{by}. Take another one: mcpb serve --port {port % 65535 + 1}"
        case errno.EACCES:
            return f"port {port} is for administrators. Take one above 1023: mcpb serve --port 3456"
        case _ if error.errno in _NOT_HERE:
            return f"{address} is no address of this machine. Without --host it is the loopback addresses"
        case _:
            return f"port {port} of {address} cannot be listened on: {error.strerror}"


# ── Unix sockets ────────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def listening_at(path: Path) -> Iterator[socket.socket]:
    """A Unix socket for this user alone; it is gone when the block is left.

    Raises:
        ListenError: its directory is not private, something else stands there, or the system refuses.
    """
    path = path.absolute()
    if len(os.fsencode(path)) > endpoint.SOCKET_PATH_BYTES:
        raise ListenError(f"{path} is too long: a socket's path may have {endpoint.SOCKET_PATH_BYTES} bytes")
    try:
        _prepare(path.parent)
        _remove_stale(path)
        listener = endpoint.bind(path)
    except endpoint.EndpointError as error:
        raise ListenError(str(error)) from error
    made = path.lstat()
    try:
        yield listener
    finally:
        listener.close()
        with suppress(OSError):
            if os.path.samestat(path.lstat(), made):
                path.unlink()


def _prepare(directory: Path) -> None:
    """The person has named it, perhaps their home: nothing there is to be removed or closed for our sake."""
    if not directory.parent.is_dir():
        raise ListenError(
            f"{directory.parent} is not there: --socket makes the last folder of its path at most"
        )
    try:
        prepare_directory(directory)
    except PrivateFileError:
        text = (
            f"{directory} is no place for the socket: it has to be a real directory that only you can open. "
            "One that is not there yet is made: --socket ~/.mcpb/run/http.sock"
        )
        raise ListenError(text) from None


def _remove_stale(path: Path) -> None:
    """What a server left that was killed; nothing else."""
    with suppress(FileNotFoundError):
        found = path.lstat()
        if not stat.S_ISSOCK(found.st_mode) or found.st_uid != os.getuid():
            raise ListenError(f"{path} is there and no socket of yours: name another one with --socket")
        if endpoint.answers(path):
            raise ListenError(f"another server listens at {path}: end it, or name another one with --socket")
        path.unlink()
