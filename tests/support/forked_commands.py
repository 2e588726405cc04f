"""`mcpb install-native-host` and `uninstall-native-host` as processes that cost a fork: many runs in a test.

A server imports the commands once. For each request it forks a child, which runs one command, may be killed
just before its nth change of the disk (which is just after the one before), and tells which changes it made.
Start it with `commands()`.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import click
import msgspec
from click.testing import CliRunner

from install import cli as installing
from install import interpreter
from install.machine import Machine
from native_host.ipc import endpoint
from native_host.system import home_layout as home_module

CHANGES = ("mkdir", "open", "fdopen", "fsync", "rename", "unlink", "rmdir", "chmod")
"""The functions of `os` that change the disk, as far as the installer uses them; `fdopen` begins a write."""
_AUDITED = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.chmod", "os.link", "os.symlink"}
_COMMANDS: dict[str, click.Command] = {
    "install-native-host": installing.install_native_host,
    "uninstall-native-host": installing.uninstall_native_host,
}
_TO_WRITE = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC

PACKAGES = ("extension", "install", "manifests", "native_host")

BROKEN = 70


class Request(msgspec.Struct, kw_only=True):
    """One run."""

    arguments: list[str]
    """Of `mcpb`: the command first."""
    home: str
    """`$HOME`, and the home directory that the password database names."""
    environ: dict[str, str] = {}
    version: str = ""
    """Of the mcpb that is run; empty for the present one."""
    interpreter: str = ""
    root: str = "/"
    """Of the machine, for what is installed for all users."""
    uid: int | None = None
    """Run as this user."""
    typed: str = ""
    """In a terminal, which is there if something is."""
    kill_at: int = 0
    """Before which change of the disk (from 1) it is killed; 0 for none."""


class Ran(msgspec.Struct, kw_only=True):
    """How a run ended."""

    exit_code: int
    """-9 for a killed one, BROKEN for one that raised something."""
    output: str = ""
    events: list[tuple[str, list[str]]] = []
    """The changes that Python's audit events tell, with their paths."""


@dataclass
class Commands:
    """The server, and what is the same for each run of a test."""

    process: subprocess.Popen[bytes]
    defaults: dict[str, Any] = field(default_factory=dict)

    def run(self, *arguments: str, **options: Any) -> Ran:
        """Run `mcpb` with these arguments; the options are those of `Request`."""
        request = Request(arguments=list(arguments), **{**self.defaults, **options})
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(msgspec.json.encode(request) + b"\n")
        self.process.stdin.flush()
        return msgspec.json.decode(self.process.stdout.readline(), type=Ran)


@contextmanager
def commands() -> Iterator[Commands]:
    """A server for as long as the block runs."""
    with tempfile.TemporaryDirectory() as directory:
        code = _readable_copy(Path(directory))
        environ = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(code)}
        with subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ
        ) as process:
            try:
                yield Commands(process)
            finally:
                process.kill()


def _readable_copy(directory: Path) -> Path:
    """Copy the packages to where every user can read them: the checkout may be below a closed home."""
    for name in PACKAGES:
        shutil.copytree(Path(__file__).parents[2] / name, directory / name)
    subprocess.run(["chmod", "-R", "a+rX", directory], check=True, timeout=60)
    return directory


# ── The server ──────────────────────────────────────────────────────────────────────────────────────────────


def _serve() -> None:
    _warm_up()
    for line in sys.stdin.buffer:
        request = msgspec.json.decode(line, type=Request)
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            os.write(writing, msgspec.json.encode(_run(request)))
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as told:
            answer = told.read()
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            answer = msgspec.json.encode(Ran(exit_code=-os.WTERMSIG(status)))
        sys.stdout.buffer.write(answer + b"\n")
        sys.stdout.buffer.flush()


def _warm_up() -> None:
    """Import all that the commands need: another user may not be able to read it."""
    with tempfile.TemporaryDirectory() as home:
        for name, command in _COMMANDS.items():
            _set_the_scene(Request(arguments=[name], home=home))
            CliRunner().invoke(command, ["--browser", "chromium", "--dry-run", "--json"])


def _run(request: Request) -> Ran:
    _set_the_scene(request)
    events: list[tuple[str, list[str]]] = []
    sys.addaudithook(lambda event, values: _note(events, event, values))
    if request.kill_at:
        _die_before(request.kill_at)
    result = CliRunner().invoke(_COMMANDS[request.arguments[0]], request.arguments[1:], input=request.typed)
    events = list(events)
    if result.exception and not isinstance(result.exception, SystemExit):
        return Ran(exit_code=BROKEN, output="".join(traceback.format_exception(result.exception)))
    return Ran(exit_code=result.exit_code, output=result.output, events=events)


def _set_the_scene(request: Request) -> None:
    os.environ.clear()
    os.environ.update({"HOME": request.home, "PATH": "/usr/bin:/bin", **request.environ})
    _replace(home_module, "pwd", SimpleNamespace(getpwuid=lambda _: SimpleNamespace(pw_dir=request.home)))
    _replace(endpoint, "_is_private", lambda _: False)  # the real user's sockets are no part of the scene
    _replace(interpreter, "_prove_interpreter", lambda _: None)  # it starts a process
    machine = Machine("linux", Path(request.home), os.environ, Path(request.root))
    _replace(installing, "this_machine", lambda: machine)
    _replace(installing, "find_unreachable", lambda _: None)
    _replace(installing, "_is_anybody_there", lambda: bool(request.typed))
    if request.interpreter:
        sys.executable = request.interpreter
    if request.version:
        real = installing.this_host
        _replace(installing, "this_host", lambda: replace(real(), version=request.version))
    if request.uid is not None:
        _replace(sys, "prefix", "/usr")  # this user may not enter the directory of the tests' environment
        os.setgid(request.uid)
        os.setuid(request.uid)


def _replace(module: ModuleType, name: str, value: object) -> None:
    setattr(module, name, value)


def _note(events: list[tuple[str, list[str]]], event: str, values: Any) -> None:
    if event not in _AUDITED or isinstance(values[0], int):  # a descriptor, opened before
        return
    if event == "open" and not (values[2] or 0) & _TO_WRITE:
        return
    paths = [os.fsdecode(value) for value in values if isinstance(value, str | bytes | os.PathLike)]
    folders = [f"/proc/self/fd/{fd}" for fd in _folders(event, values) if fd >= 0]
    events.append((event, [str(Path(path, name)) for path, name in _beside(folders, paths)]))


def _folders(event: str, values: Any) -> list[int]:
    """The descriptors of folders from which a call's paths go; `open` does not tell."""
    if event == "open":
        return []
    return list(values[2:4] if event == "os.rename" else values[-1:])


def _beside(folders: list[str], names: list[str]) -> list[tuple[str, str]]:
    return list(
        zip([str(Path(folder).readlink()) for folder in folders] or [""] * len(names), names, strict=True)
    )


def _die_before(count: int) -> None:
    """Let the process be killed before its nth change of the disk."""
    made = 0

    def counted(change: Callable[..., Any]) -> Callable[..., Any]:
        def call(*values: Any, **named: Any) -> Any:
            nonlocal made
            is_reading = (change is real_open and not values[1] & _TO_WRITE) or "rb" in values
            if is_reading:
                return change(*values, **named)
            made += 1
            if made == count:
                os.kill(os.getpid(), signal.SIGKILL)
            return change(*values, **named)

        return call

    real_open = os.open
    for name in CHANGES:
        setattr(os, name, counted(getattr(os, name)))


# ── What is on a disk ───────────────────────────────────────────────────────────────────────────────────────

Listing = Mapping[str, tuple[int, str]]


def listing(directory: Path) -> Listing:
    """Names, modes and contents of everything below a directory; links as links."""
    found = {}
    for path in sorted(directory.rglob("*")):
        mode = path.lstat().st_mode
        content = str(path.readlink()) if path.is_symlink() else ""
        if path.is_file() and not path.is_symlink():
            content = path.read_bytes().hex()
        found[str(path.relative_to(directory))] = (mode, content)
    return found


def manifest_of(directory: Path) -> dict[str, Any]:
    """Our manifest in a browser's data directory."""
    path = directory / "NativeMessagingHosts" / "dev.mcpb.native_host.json"
    decoded = json.loads(path.read_bytes())
    assert isinstance(decoded, dict)
    return decoded


if __name__ == "__main__":
    _serve()
