"""Client of named sessions: `NAME.sock` in a private directory, and the messages of a connection.

A process of its own holds each session (`bridge/frontends/named_session.py`). Messages are lines of JSON. A
connection begins with the holder's `Greeting` and carries one request, any number of `ProgressText`, and one
reply. The process that calls waits, so this module blocks and needs no event loop.
"""

from __future__ import annotations

import os
import re
import select
import signal
import socket
import stat
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import msgspec

from native_host.ipc import endpoint
from native_host.protocol.wire import Wire
from native_host.system import private_files
from native_host.system.private_files import PrivateFileError

DIRECTORY = "sessions"
"""Directory of the sockets, in the directory of the native hosts' sockets."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,31}")
READY = b"ready\n"
"""Output of a holder, once it accepts connections."""
GREETING_S = 5.0
"""Seconds within which a running holder greets."""
START_S = 20.0
"""Seconds within which a started holder accepts connections, on a busy machine too."""
END_S = 10.0
"""Seconds within which a holder ends."""
_RETRIES = 3


class SessionError(Exception):
    """A session cannot be used; the text is for users."""


class UnresponsiveError(SessionError):
    """The process that holds a session does not answer."""

    def __init__(self, name: str, pid: int) -> None:
        super().__init__(
            f"the process of session {name} (pid {pid}) does not answer. To stop it, run: "
            f"mcpb session end {name}"
        )
        self.pid = pid
        """0 if the system does not say."""


# ── Messages ────────────────────────────────────────────────────────────────────────────────────────────────


class Greeting(Wire, kw_only=True):
    """First message of a holder: what it holds."""

    name: str
    pid: int
    folder: str
    """Working directory of the call that started the session."""
    idle_s: float
    """Seconds since its last call; 0 while one runs."""
    idle_limit_s: float
    """Seconds without a call after which the session ends."""


class ListTools(Wire, tag="listTools", tag_field="type"):
    """Request for the tool list."""


class CallTool(Wire, tag="callTool", tag_field="type", kw_only=True):
    """Request to call a tool."""

    name: str
    arguments: dict[str, Any] = {}
    texts: list[tuple[str, str]] = []
    """Arguments as text: read as JSON unless the tool's schema wants a string."""


class EndSession(Wire, tag="endSession", tag_field="type"):
    """Request to end the session. The connection ends with the process."""


Request = ListTools | CallTool | EndSession


class ProgressText(Wire, tag="progress", tag_field="type", kw_only=True):
    """Progress of the running call."""

    message: str


class ToolList(Wire, tag="tools", tag_field="type", kw_only=True):
    """Reply to `ListTools`."""

    tools: list[dict[str, Any]]
    missing: str
    """Reason why no page offers tools, with the command that repairs it; empty if one does."""


class CallResult(Wire, tag="result", tag_field="type", kw_only=True):
    """Reply to `CallTool`: a CallToolResult, also of a call that failed."""

    result: msgspec.Raw


class Rejection(Wire, tag="rejection", tag_field="type", kw_only=True):
    """Reply to a request that could not be made a call."""

    message: str


Reply = ToolList | CallResult | Rejection
_decode_message = msgspec.json.Decoder(ProgressText | ToolList | CallResult | Rejection).decode


def encode_line(message: Wire) -> bytes:
    """Return a message as a line."""
    return msgspec.json.encode(message) + b"\n"


def check_name(name: str) -> None:
    """Check the name of a session.

    Raises:
        SessionError: it is not a name.
    """
    if not NAME.fullmatch(name):
        raise SessionError(
            f"{name!r} cannot be a session's name: use 1 to 32 letters, digits, dots, hyphens or "
            "underscores, and begin with a letter or a digit"
        )


# ── Sockets ─────────────────────────────────────────────────────────────────────────────────────────────────


def prepare_directory() -> Path:
    """Create the directory of the sockets if it is missing, and return it.

    Raises:
        PrivateFileError: no directory can be used; the reason has the reason of each.
    """
    refusals = []
    for parent in endpoint.host_directories(os.environ):
        try:
            private_files.prepare_directory(parent)
            private_files.prepare_directory(parent / DIRECTORY)
        except PrivateFileError as error:
            refusals.append(str(error))
        else:
            return parent / DIRECTORY
    raise PrivateFileError(None, "; ".join(refusals))


def directories(environ: Mapping[str, str] = os.environ) -> list[Path]:
    """Return the private directories that may have sockets of sessions."""
    found = [parent / DIRECTORY for parent in endpoint.host_directories(environ)]
    return [directory for directory in found if private_files.is_private(directory)]


def find_sockets(environ: Mapping[str, str] = os.environ) -> list[Path]:
    """Return the sockets of all sessions, sorted by name; holders that were killed leave theirs."""
    sockets = [path for directory in directories(environ) for path in directory.glob("*.sock")]
    return sorted((path for path in sockets if _is_socket(path)), key=lambda path: path.stem)


def _is_socket(path: Path) -> bool:
    try:
        return stat.S_ISSOCK(path.lstat().st_mode)
    except OSError:
        return False


# ── Connections ─────────────────────────────────────────────────────────────────────────────────────────────


class Connection:
    """Connection to the holder of a session."""

    def __init__(self, stream: socket.socket, greeting: Greeting, lines: Iterator[bytes]) -> None:
        self._stream = stream
        self._lines = lines
        self.greeting = greeting

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    def ask(self, request: Request, on_progress: Callable[[str], None] = lambda _: None) -> Reply:
        """Send a request and wait for its reply.

        Raises:
            SessionError: the session ended before the reply.
        """
        with suppress(OSError):  # the holder has gone: there is no reply
            self._stream.sendall(encode_line(request))
            for line in self._lines:
                message: ProgressText | Reply = _decode_message(line)
                if not isinstance(message, ProgressText):
                    return message
                on_progress(message.message)
        raise SessionError(
            f"the session {self.greeting.name} ended before the answer. The tool may have run: look before "
            "you repeat it"
        )

    def end(self) -> None:
        """End the session, and wait for the end of its process.

        Raises:
            UnresponsiveError: it still runs after END_S.
        """
        self._stream.settimeout(END_S)
        try:
            self._stream.sendall(encode_line(EndSession()))
            for _ in self._lines:
                pass
        except TimeoutError:
            raise UnresponsiveError(self.greeting.name, self.greeting.pid) from None
        except OSError:
            return  # it has gone


def connect(path: Path) -> Connection | None:
    """Connect to the holder at a socket; None if no process listens there.

    Raises:
        SessionError: the holder does not greet, or belongs to another user.
    """
    for _ in range(_RETRIES):  # one that is about to end drops a connection without a word
        stream = _open_socket(path)
        if stream is None:
            return None
        try:
            if connection := _read_greeting(stream):
                return connection
        except (OSError, msgspec.DecodeError):
            pid = endpoint.peer_pid(stream)
            stream.close()
            raise UnresponsiveError(path.stem, pid) from None
        stream.close()
    return None


def _open_socket(path: Path) -> socket.socket | None:
    stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    stream.settimeout(GREETING_S)
    try:
        stream.connect(str(path))
        owner = endpoint.peer_uid(stream)
    except (ConnectionError, FileNotFoundError):
        stream.close()
        return None
    except OSError as error:
        stream.close()
        raise SessionError(f"the session {path.stem} cannot be reached ({error.strerror or error})") from None
    if owner != os.getuid():
        stream.close()
        raise SessionError(f"{path} belongs to user {owner}, not to you")
    return stream


def _read_greeting(stream: socket.socket) -> Connection | None:
    lines = _read_lines(stream)
    try:
        line = next(lines, None)
    except ConnectionError:
        return None
    if line is None:
        return None
    greeting = msgspec.json.decode(line, type=Greeting)
    stream.settimeout(None)
    return Connection(stream, greeting, lines)


def _read_lines(stream: socket.socket) -> Iterator[bytes]:
    """Yield complete lines until the other end closes."""
    partial: list[bytes] = []
    while data := stream.recv(1024 * 1024):
        *ends, rest = data.split(b"\n")
        for end in ends:
            yield b"".join([*partial, end])
            partial = []
        partial.append(rest)


def find(name: str) -> Connection | None:
    """Connect to a session; None if no process holds one of that name.

    Raises:
        SessionError: it is not a name, or the holder cannot be used.
    """
    check_name(name)
    for path in find_sockets():
        if path.stem == name and (connection := connect(path)):
            return connection
    return None


def find_or_start(name: str, command: Sequence[str]) -> Connection:
    """Connect to a session, and first start its holder with `command` if no process holds it.

    Raises:
        SessionError: it is not a name, or the holder cannot be used or started.
        PrivateFileError: no directory can be used for its socket.
    """
    if connection := find(name):
        return connection
    directory = prepare_directory()
    # Two first calls at once start one holder.
    with private_files.lock_directory(directory):
        if connection := find(name):
            return connection
        _start_holder(name, command)
        if connection := find(name):
            return connection
    raise SessionError(f"the session {name} ended at once. To find out why, run: mcpb doctor")


def _start_holder(name: str, command: Sequence[str]) -> None:
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as process:
        assert process.stdout
        output = _read_until_closed(process.stdout.fileno(), time.monotonic() + START_S)
        if output.endswith(READY):
            process.returncode = 0  # it continues without a parent
            return
        process.kill()
    text = output.decode(errors="replace").strip()
    raise SessionError(f"the session {name} cannot be started: {text or 'its process was not ready in time'}")


def _read_until_closed(descriptor: int, deadline: float) -> bytes:
    output = b""
    while (remaining_s := deadline - time.monotonic()) > 0:
        if not select.select([descriptor], [], [], remaining_s)[0]:
            break
        data = os.read(descriptor, 65536)
        output += data
        if not data:
            break
    return output


def end_session(path: Path) -> bool:
    """End the session at a socket, and wait for the end of its process; one that does not answer is killed.

    Returns:
        False if no process listened there.

    Raises:
        SessionError: the holder belongs to another user.
    """
    is_open = True
    with private_files.lock_directory(path.parent):  # no other is started there meanwhile
        try:
            if connection := connect(path):
                with connection:
                    connection.end()
            else:
                is_open = False
        except UnresponsiveError as error:
            if error.pid:
                with suppress(ProcessLookupError):
                    os.kill(error.pid, signal.SIGKILL)
        path.unlink(missing_ok=True)  # of a holder that was killed
    return is_open


def all_greetings(environ: Mapping[str, str] = os.environ) -> list[Greeting]:
    """Return the greetings of all sessions, sorted by name; those that do not greet are left out."""
    found = []
    for path in find_sockets(environ):
        with suppress(SessionError):
            if connection := connect(path):
                with connection:
                    found.append(connection.greeting)
    return found
