"""Client of named sessions: `NAME.sock` in a private directory, and the messages of a connection.

A process of its own holds each session (`bridge/frontends/named_session.py`). Messages are lines of JSON. A
connection begins with the holder's `Greeting` and carries one request, a `ProgressText` when the holder
begins with it and then at least every PULSE_S, and one reply. The process that calls waits, so this module
blocks and needs no event loop.

A holder goes on with the code that it was started from. The first command after an upgrade starts a holder of
its own code, which retires an idle one and continues its session with its tabs. A holder of another
installation is used as it is: two installations would otherwise replace it in turns.
"""

from __future__ import annotations

import os
import re
import select
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import msgspec

from native_host import __version__
from native_host.ipc import endpoint
from native_host.protocol.wire import Wire
from native_host.system import private_files
from native_host.system.private_files import PrivateFileError
from native_host.system.program_name import format_command

DIRECTORY = "sessions"
"""Directory of the sockets, in the directory of the native hosts' sockets."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,31}")
CODE = f"{__version__} {Path(__file__).resolve().parents[2]}"
"""Version and directory of this code: an upgrade changes at least one of them."""
INSTALLATION = sys.prefix
"""Environment of this code: an upgrade keeps its path."""
READY = b"ready\n"
"""Output of a holder, once it accepts connections."""
GREETING_S = 5.0
"""Seconds within which a running holder greets."""
LISTED_S = 1.0
"""The same where sessions are only listed."""
START_S = 20.0
"""Seconds within which a started holder accepts connections, on a busy machine too. It may retire another
holder first, in END_S more."""
END_S = 10.0
"""Seconds within which a holder ends."""
LOCKED_S = START_S + 2 * END_S
"""Seconds after which another process that starts or ends a session is not waited for any more."""
PULSE_S = 5.0
"""Seconds between two messages of a holder during a call."""
SILENCE_S = 6 * PULSE_S
"""Seconds without a message after which a holder counts as stopped."""
_RETRIES = 3


class SessionError(Exception):
    """A session cannot be used; the text is for users."""


class UnresponsiveError(SessionError):
    """The process that holds a session does not answer."""

    def __init__(self, name: str, pid: int, *, may_have_run: bool = False) -> None:
        outcome = "The tool may have run: look before you repeat it. " if may_have_run else ""
        super().__init__(
            f"the process of session {name} (pid {pid}) does not answer. {outcome}To stop it, run: "
            f"{format_command('session end')} {name}"
        )
        self.pid = pid
        """0 if the system does not say."""


class HolderInUseError(SessionError):
    """A holder serves a request or is not outdated, and is not replaced: use it as it is."""


class NotStartedError(SessionError):
    """The session ended before it began with a request: the request can be sent again."""

    def __init__(self, name: str) -> None:
        super().__init__(f"the session {name} ended meanwhile, and nothing was run. Run the command again")


# ── Messages ────────────────────────────────────────────────────────────────────────────────────────────────


class Greeting(Wire, kw_only=True):
    """First message of a holder: what it holds."""

    name: str
    pid: int
    directory: str
    """Working directory of the call that started the session."""
    used_at: float | None
    """Unix time of the end of its last call; None while one runs."""
    ends_at: float | None
    """Unix time at which the session ends if no call uses it; None while one runs."""
    code: str = ""
    """`CODE` of the holder."""
    installation: str = ""
    """`INSTALLATION` of the holder; empty for a version that cannot be retired."""
    answers: bool
    """False in a list of sessions: its process did not greet, so that only name and process are known."""


class ListTools(Wire, tag="listTools", tag_field="type"):
    """Request for the tool list."""


class CallTool(Wire, tag="callTool", tag_field="type", kw_only=True):
    """Request to call a tool."""

    name: str
    arguments: dict[str, Any] = {}
    texts: list[tuple[str, str]] = []
    """Arguments as text: read as JSON unless the tool's schema wants a string."""


class ListResources(Wire, tag="listResources", tag_field="type"):
    """Request for the lists of resources and resource templates."""


class ReadResource(Wire, tag="readResource", tag_field="type", kw_only=True):
    """Request to read a resource."""

    uri: str


class ListPrompts(Wire, tag="listPrompts", tag_field="type"):
    """Request for the prompt list."""


class GetPrompt(Wire, tag="getPrompt", tag_field="type", kw_only=True):
    """Request to get a prompt."""

    name: str
    arguments: dict[str, str] = {}


class EndSession(Wire, tag="endSession", tag_field="type"):
    """Request to end the session. The connection ends with the process."""


class RetireHolder(Wire, tag="retireHolder", tag_field="type"):
    """Request of the next holder: end this one, and not its session, unless another request is open."""


HubRequest = ListTools | CallTool | ListResources | ReadResource | ListPrompts | GetPrompt
"""What the hub of the session answers."""
Request = HubRequest | EndSession | RetireHolder


class ContinuedSession(Wire, tag="continuedSession", tag_field="type", kw_only=True):
    """Reply to `RetireHolder`: what the next holder needs to own the same tabs. The connection then ends."""

    id: str
    """Id of the session towards browsers, which own its tabs by it."""
    profiles: list[str] = []
    """Browser profiles in which it has opened tabs."""
    directory: str = ""


class ProgressText(Wire, tag="progress", tag_field="type", kw_only=True):
    """Sign of life of the running request; with a text, the progress of its call."""

    message: str = ""


class ToolList(Wire, tag="tools", tag_field="type", kw_only=True):
    """Reply to `ListTools`."""

    tools: list[dict[str, Any]]
    missing: str
    """Reason why no page offers tools, with the command that repairs it; empty if one does."""


class ResourceList(Wire, tag="resources", tag_field="type", kw_only=True):
    """Reply to `ListResources`."""

    resources: list[msgspec.Raw]
    templates: list[msgspec.Raw]
    missing: str
    """Reason why no page's resource is listed; empty if one is."""


class PromptList(Wire, tag="prompts", tag_field="type", kw_only=True):
    """Reply to `ListPrompts`."""

    prompts: list[msgspec.Raw]
    missing: str
    """Reason why no page's prompt is listed; empty if one is."""


class CallResult(Wire, tag="result", tag_field="type", kw_only=True):
    """Reply to `CallTool` (also for a call that failed), `ReadResource` or `GetPrompt`: the MCP result."""

    result: msgspec.Raw


class Rejection(Wire, tag="rejection", tag_field="type", kw_only=True):
    """Reply to a request that could not be made a call, or that failed and was none."""

    message: str


Reply = ToolList | ResourceList | PromptList | CallResult | Rejection
_decode_message = msgspec.json.Decoder(
    ProgressText | ToolList | ResourceList | PromptList | CallResult | Rejection
).decode
_decode_retired = msgspec.json.Decoder(ContinuedSession | Rejection).decode


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
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._stream.close()

    def ask(self, request: Request, on_progress: Callable[[str], None] = lambda _: None) -> Reply:
        """Send a request and wait for its reply.

        Raises:
            NotStartedError: the session ended before it began with the request.
            UnresponsiveError: the holder sent nothing for SILENCE_S; its text says if the tool may have run.
            SessionError: the session ended before the reply.
        """
        has_begun = False
        self._stream.settimeout(SILENCE_S)
        try:
            self._stream.sendall(encode_line(request))
            for line in self._lines:
                message: ProgressText | Reply = _decode_message(line)
                if not isinstance(message, ProgressText):
                    return message
                has_begun = True
                on_progress(message.message)
        except TimeoutError:
            may_have_run = has_begun and isinstance(request, CallTool)
            raise UnresponsiveError(
                self.greeting.name, self.greeting.pid, may_have_run=may_have_run
            ) from None
        except OSError:
            pass  # the holder has gone: there is no reply
        if not has_begun:
            raise NotStartedError(self.greeting.name)
        ended = f"the session {self.greeting.name} ended before the answer"
        if isinstance(request, CallTool):
            raise SessionError(f"{ended}. The tool may have run: look before you repeat it")
        raise SessionError(f"{ended}. Run the command again")

    def retire(self) -> ContinuedSession | None:
        """End the holder, and wait for the end of its process; None if its session has ended meanwhile.

        Raises:
            HolderInUseError: it serves another request.
            UnresponsiveError: it does not answer, or still runs after END_S.
            SessionError: its reply is invalid.
        """
        self._stream.settimeout(END_S)
        try:
            self._stream.sendall(encode_line(RetireHolder()))
            replies = list(self._lines)
        except TimeoutError:
            raise UnresponsiveError(self.greeting.name, self.greeting.pid) from None
        except OSError:
            return None
        try:
            reply = _decode_retired(replies[0]) if replies else None
        except msgspec.DecodeError:
            name, pid = self.greeting.name, self.greeting.pid
            raise SessionError(
                f"the session {name} cannot be continued: the reply of its process (pid {pid}) is invalid. "
                f"To begin a new one, run: mcpb session end {name}"
            ) from None
        if isinstance(reply, Rejection):
            raise HolderInUseError(reply.message)
        return reply

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


def connect(path: Path, timeout_s: float | None = None) -> Connection | None:
    """Connect to the holder at a socket; None if no process listens there.

    `timeout_s`: seconds within which it must greet, GREETING_S unless given.

    Raises:
        SessionError: the holder does not greet, or belongs to another user.
    """
    for _ in range(_RETRIES):  # one that is about to end drops a connection without a word
        stream = _open_socket(path, GREETING_S if timeout_s is None else timeout_s)
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


def _open_socket(path: Path, timeout_s: float) -> socket.socket | None:
    stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    stream.settimeout(timeout_s)
    try:
        stream.connect(str(path))
        owner = endpoint.peer_uid(stream)
    except (ConnectionError, FileNotFoundError):
        stream.close()
        return None
    except BlockingIOError:  # many connections wait for a process that accepts none
        stream.close()
        raise UnresponsiveError(path.stem, 0) from None
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


def find_or_start(
    name: str, command: Sequence[str], on_replaced: Callable[[], None] = lambda: None
) -> Connection:
    """Connect to a session, and first start its holder with `command` if it has none, or an outdated one.

    The command gets `--lock=N` as well, a descriptor that it closes once the session accepts connections. It
    retires an outdated holder itself, so that the session outlives an end of this process.

    Raises:
        SessionError: it is not a name, or the holder cannot be used or started.
        PrivateFileError: no directory can be used for its socket.
    """
    if (connection := find(name)) and not _is_replaceable(connection.greeting):
        return connection
    if connection:
        connection.close()
    # Two first calls at once start one holder.
    with _lock_sessions(prepare_directory()) as lock:
        if (outdated := find(name)) and not _is_replaceable(outdated.greeting):
            return outdated
        if outdated:
            outdated.close()
        _start_holder(name, command, lock, START_S + END_S if outdated else START_S)
        if connection := find(name):
            if outdated and outdated.greeting.pid != connection.greeting.pid:
                on_replaced()
            return connection
    raise SessionError(f"the session {name} ended at once. To find out why, run: {format_command('doctor')}")


def _is_replaceable(holder: Greeting) -> bool:
    """Return whether a holder is idle and has the code from before an upgrade of this installation."""
    return holder.installation == INSTALLATION and holder.code != CODE and holder.used_at is not None


def is_of_other_version(holder: Greeting) -> bool:
    """Return whether a holder is of another version, and no command of this installation replaces it."""
    return holder.installation != INSTALLATION and holder.code.partition(" ")[0] != __version__


def retire_holder(name: str) -> ContinuedSession | None:
    """End the process that holds a session, for the holder that continues it; None if no process holds it.

    The starter excludes others.

    Raises:
        HolderInUseError: it serves a request, or is not outdated.
        SessionError: it cannot be used.
    """
    connection = find(name)
    if connection is None:
        return None
    with connection:
        if not _is_replaceable(connection.greeting):
            raise HolderInUseError(f"the session {name} is in use, or is held by this version")
        return connection.retire()


@contextmanager
def _lock_sessions(directory: Path) -> Iterator[int]:
    """Start or end sessions in one process at a time.

    Raises:
        SessionError: another process has been at it for LOCKED_S.
    """
    with ExitStack() as stack:
        try:
            lock = stack.enter_context(private_files.lock_directory(directory, LOCKED_S))
        except TimeoutError:
            raise SessionError(
                "another mcpb command has been starting or ending a session for "
                f"{LOCKED_S:.0f} s. If it is stopped, end it, then run this again"
            ) from None
        yield lock


def _start_holder(name: str, command: Sequence[str], lock: int, timeout_s: float) -> None:
    """Start a holder. It has the lock until it is ready, also if this process is killed."""
    with subprocess.Popen(
        [*command, f"--lock={lock}"],
        pass_fds=[lock],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as process:
        assert process.stdout
        # After Ctrl-C here the holder goes on: it may have retired another one.
        output = _read_until_closed(process.stdout.fileno(), time.monotonic() + timeout_s)
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
        SessionError: the holder belongs to another user, or other processes have the directory.
    """
    is_open = True
    with _lock_sessions(path.parent):  # no other is started there meanwhile
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


def list_sessions(environ: Mapping[str, str] = os.environ) -> list[Greeting]:
    """Return the greetings of all sessions by name; an empty one for a process that does not greet."""
    found = []
    for path in find_sockets(environ):
        try:
            if connection := connect(path, LISTED_S):
                with connection:
                    found.append(connection.greeting)
        except UnresponsiveError as error:
            found.append(_silent_session(path.stem, error.pid))
        except SessionError:
            continue  # it belongs to another user
    return found


def _silent_session(name: str, pid: int) -> Greeting:
    return Greeting(name=name, pid=pid, directory="", used_at=None, ends_at=None, answers=False)
