"""Trial of the host program, started as a browser would: hello, nothing else on stdout, end with its pipes.

It sends nothing. The host is complete for that moment: it opens its socket in the real directory, which is
part of the trial. Bridges see a host without a browser come and go; it has no tools, so their clients notice
nothing. Running hosts are not touched. Nothing is left whatever happens, also to this process: no process of
its session, and no file of a killed host.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import msgspec
import trio

from install import wrapper
from install.browsers import Kind
from install.findings import (
    INSTALL_COMMAND,
    Command,
    Finding,
    FindingCode,
    Level,
    Mcpb,
    Part,
    Value,
    foreign_value,
    path_value,
    public_value,
)
from install.plan.apply import LARGEST_FILE_BYTES
from native_host import __version__
from native_host.ipc import endpoint
from native_host.protocol import jsonrpc, wire
from native_host.protocol.framing import FrameDecoder, FrameError
from native_host.protocol.untrusted_text import escape
from native_host.system import proc
from native_host.system.private_files import PrivateFileError, check_directory
from native_host.system.untrusted_files import head

HELLO_SECONDS = 5.0
"""Timeout; usually 0.2 s. Browsers wait without end, users do not."""
END_SECONDS = 2.0
"""After the end of its input; then Chromium kills it."""
DRAIN_SECONDS = 0.5
"""For what is still in the pipes of a program that has ended; a child of it may keep them open."""
STDERR_BYTES = 64 * 1024
STDOUT_BYTES = 4 * wire.TO_BROWSER_BYTES
"""Nothing is said to it, so it has nothing more to say than its hello."""
SHOWN = 120
_LENGTH_BYTES = 4
_ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

# The output is untrusted: only a plain command of mcpb is shown as a command.
_PLAIN_COMMAND = re.compile(r"mcpb [\w.@{}=/ -]+")


@dataclass(frozen=True)
class Trial:
    """Outcome of a trial."""

    finding: Finding | None = None
    """None: a browser would be content."""
    version: str = ""
    seconds: float = 0.0


@dataclass
class _HostOutput:
    """Output of the program."""

    body: bytes = b""
    noise: bytes = b""
    """Bytes outside of messages."""
    rest: bytes = b""
    """Bytes of stdout after the last complete message."""
    is_too_much: bool = False
    stderr: bytes = b""
    first: trio.Event = field(default_factory=trio.Event)


def browser_arguments(program: Path, kind: Kind, caller: str, manifest: Path) -> list[str]:
    """Return the command line: Chromium passes the caller, Firefox the manifest and the caller."""
    return [str(program), caller] if kind == "chromium" else [str(program), str(manifest), caller]


async def try_host(program: Path, kind: Kind, caller: str, manifest: Path) -> Trial:
    """Start it with an empty environment in its own folder, wait for its hello, close its input, see it end.

    Codes: host-not-started, host-prints, host-exits, interpreter-gone, host-refuses, host-silent,
    host-not-ours, host-other-wire; host-version and host-lingers are warnings.
    """
    began = trio.current_time()
    try:
        async with _start_host(browser_arguments(program, kind, caller, manifest), program.parent) as process:
            heard = _HostOutput()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_read_messages, process, heard)
                nursery.start_soon(_read_stderr, process, heard)
                with trio.move_on_after(HELLO_SECONDS):
                    await heard.first.wait()
                seconds = trio.current_time() - began
                ended_by_itself, lingers = await _end_host(process)
                nursery.cancel_scope.deadline = trio.current_time() + DRAIN_SECONDS
    except OSError as error:
        template, reason = "{program} cannot be started: {reason}", public_value(error.strerror)
        return Trial(_make_finding(FindingCode.HOST_NOT_STARTED, program, template, reason=reason))
    hello = _read_hello(heard)
    finding = _find_fault(program, heard, process.returncode if ended_by_itself else None)
    if finding is None and hello is not None:
        finding = _warning_finding(program, hello, lingers=lingers)
    return Trial(finding, hello.version if hello else "", seconds)


@asynccontextmanager
async def cancel_on_signals() -> AsyncIterator[None]:
    """Cancel the block on the first signal, with its cleanup. In the main thread only."""
    received: list[int] = []
    with trio.open_signal_receiver(*_ENDINGS) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_wait_for, signals, received, nursery.cancel_scope)
            yield
            nursery.cancel_scope.cancel()
    if received:
        signal.raise_signal(received[0])


async def _wait_for(signals: AsyncIterator[int], received: list[int], scope: trio.CancelScope) -> None:
    async for number in signals:
        received.append(number)
        scope.cancel()


# ── The process ─────────────────────────────────────────────────────────────────────────────────────────────


@asynccontextmanager
async def _start_host(command: list[str], folder: Path) -> AsyncIterator[trio.Process]:
    start = partial(trio.lowlevel.open_process, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    # A session of its own, so that whatever it starts can be ended with it.
    process = await start(command, stderr=subprocess.PIPE, cwd=folder, env={}, start_new_session=True)
    try:
        yield process
    finally:
        is_killed = process.poll() is None or process.returncode == -signal.SIGKILL
        _kill_session(process.pid)
        with trio.CancelScope(shield=True):  # it has been killed
            await process.wait()
            if is_killed:
                _sweep_after(Path(command[0]))
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:
                    await trio.aclose_forcefully(stream)


def _kill_session(leader: int) -> None:
    """Kill the process group of a session's leader, and its other processes where the system reports them."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)
    for pid in proc.find_session_members(leader):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def _sweep_after(program: Path) -> None:
    """Remove the files that a killed host leaves in the endpoint directory."""
    made = wrapper.read_wrapper((head(program, LARGEST_FILE_BYTES) or b"").decode(errors="replace"))
    if made is None:
        return
    for directory in endpoint.host_directories(made.environ):
        with suppress(PrivateFileError, OSError):
            check_directory(directory)
            endpoint.sweep(directory)


async def _end_host(process: trio.Process) -> tuple[bool, bool]:
    """Close its input; returns whether it had ended before, and whether it does not end now."""
    with trio.move_on_after(0):
        await process.wait()
    ended_by_itself = process.poll() is not None
    assert process.stdin is not None
    await process.stdin.aclose()
    with trio.move_on_after(END_SECONDS):
        await process.wait()
    lingers = process.poll() is None
    if lingers:
        process.kill()
    return ended_by_itself, lingers


async def _read_messages(process: trio.Process, heard: _HostOutput) -> None:
    assert process.stdout is not None
    decoder, size = FrameDecoder(wire.TO_BROWSER_BYTES, "native"), 0
    try:
        async for data in process.stdout:
            size += len(data)
            heard.rest += data
            decoder.feed(data)
            while (body := decoder.next_frame()) is not None:
                heard.rest = heard.rest[_LENGTH_BYTES + len(body) :]
                _handle_body(heard, body)
            if size > STDOUT_BYTES:
                heard.is_too_much = True
                heard.first.set()
                return
        decoder.end()
    except FrameError:
        heard.noise = heard.noise or heard.rest[: 4 * SHOWN]
        heard.first.set()
        return
    with trio.move_on_after(END_SECONDS):  # its exit code is wanted, if it is about to end
        await process.wait()
    heard.first.set()


def _handle_body(heard: _HostOutput, body: bytes) -> None:
    heard.body = heard.body or body
    if not (heard.noise or _is_json(body)):
        heard.noise = body[: 4 * SHOWN]
    heard.first.set()


async def _read_stderr(process: trio.Process, heard: _HostOutput) -> None:
    assert process.stderr is not None
    async for data in process.stderr:
        heard.stderr = (heard.stderr + data)[-STDERR_BYTES:]


# ── The verdict ─────────────────────────────────────────────────────────────────────────────────────────────


def _read_hello(heard: _HostOutput) -> wire.HostHello | None:
    params = _read_params(heard, "host/hello")
    try:
        return msgspec.json.decode(params, type=wire.HostHello) if params else None
    except msgspec.DecodeError:
        return None


def _read_params(heard: _HostOutput, method: str) -> bytes:
    """Return the params of the first message if it has this method."""
    try:
        first = jsonrpc.decode(heard.body) if heard.body else None
    except jsonrpc.UndecodableError:
        return b""
    return bytes(first.params) if first is not None and first.method == method else b""


def _find_fault(program: Path, heard: _HostOutput, code: int | None) -> Finding | None:
    """Return the first fault; `code` is the exit code of a program that ended by itself."""
    if heard.noise:
        template, output = (
            "{program} writes to stdout what is not a message: {output}",
            _escape_bytes(heard.noise),
        )
        return _make_finding(FindingCode.HOST_PRINTS, program, template, output=output)
    if heard.is_too_much:
        template = f"{{program}} is not a host of mcpb: it sends more than {STDOUT_BYTES >> 20} MiB unasked"
        return _make_finding(FindingCode.HOST_NOT_OURS, program, template)
    if _read_params(heard, "host/error"):
        return _refusal_finding(program, heard)
    if hello := _read_hello(heard):
        if hello.wire == wire.WIRE_VERSION:
            return None
        template = f"{{program}} speaks wire version {{version}}, this mcpb {wire.WIRE_VERSION}"
        return _make_finding(FindingCode.HOST_OTHER_WIRE, program, template, version=public_value(hello.wire))
    if heard.body:
        template, output = "{program} is not a host of mcpb: it sends {output}", _escape_bytes(heard.body)
        return _make_finding(FindingCode.HOST_NOT_OURS, program, template, output=output)
    if code is not None:
        template, ending = "{program} ends at once, with {ending}", public_value(_describe_exit(code))
        return _finding_with_stderr(FindingCode.HOST_EXITS, program, template, heard, ending=ending)
    if heard.rest:
        template, output = (
            "{program} begins a message and does not end it: {output}",
            _escape_bytes(heard.rest),
        )
        return _make_finding(FindingCode.HOST_PRINTS, program, template, output=output)
    template = f"{{program}} sends nothing within {HELLO_SECONDS:g} s"
    return _finding_with_stderr(FindingCode.HOST_SILENT, program, template, heard)


def _refusal_finding(program: Path, heard: _HostOutput) -> Finding:
    template = "{program} reports: {reason}"
    try:
        said = msgspec.json.decode(_read_params(heard, "host/error"), type=wire.HostError)
    except msgspec.DecodeError:
        return _make_finding(FindingCode.HOST_REFUSES, program, template, reason=_escape_bytes(heard.body))
    command = _plain_command(said.command) or INSTALL_COMMAND
    # Only the wrapper, which runs without Python, names the installer as the remedy for this code.
    is_wrapper = said.code == wire.Code.INTERNAL_ERROR and command == INSTALL_COMMAND
    code = FindingCode.INTERPRETER_GONE if is_wrapper else FindingCode.HOST_REFUSES
    return _make_finding(code, program, template, command, reason=_escape_bytes(said.message.encode()))


def _plain_command(line: str) -> Command | None:
    """Accept a command of mcpb without shell syntax; its arguments are foreign text."""
    if line == INSTALL_COMMAND.text or not _PLAIN_COMMAND.fullmatch(line):
        return None
    _, *arguments = line.split()
    return Command((Mcpb.NAME, *map(foreign_value, arguments)))


def _warning_finding(program: Path, hello: wire.HostHello, *, lingers: bool) -> Finding | None:
    if hello.version != __version__:
        template = f"{{program}} starts mcpb {{version}}, this is mcpb {__version__}"
        version = _escape_bytes(hello.version.encode())
        return _make_finding(FindingCode.HOST_VERSION, program, template, level="warning", version=version)
    if lingers:
        template = f"{{program}} still runs {END_SECONDS:g} s after the browser has closed its input"
        return _make_finding(FindingCode.HOST_LINGERS, program, template, level="warning")
    return None


def _finding_with_stderr(
    code: FindingCode, program: Path, template: str, heard: _HostOutput, **values: Part
) -> Finding:
    if lines := heard.stderr.strip().splitlines():
        values["stderr"] = _escape_bytes(lines[-1])
        template += ". Last line of stderr: {stderr}"
    return _make_finding(code, program, template, INSTALL_COMMAND, "fault", **values)


def _make_finding(
    code: FindingCode,
    program: Path,
    template: str,
    command: Command = INSTALL_COMMAND,
    level: Level = "fault",
    **values: Part,
) -> Finding:
    return Finding(
        code=code,
        hop="host",
        template=template,
        values={"program": path_value(program), **values},
        command=command,
        level=level,
    )


def _is_json(body: bytes) -> bool:
    try:
        msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


def _describe_exit(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    with suppress(ValueError):
        return f"signal {signal.Signals(-code).name}"
    return f"signal {-code}"


def _escape_bytes(data: bytes) -> Value:
    """Return foreign bytes, shortened, on one line and harmless to a terminal."""
    text = data.decode(errors="backslashreplace")
    return foreign_value(escape(text[:SHOWN]) + ("…" if len(text) > SHOWN else ""))
