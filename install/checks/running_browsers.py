"""Running browsers of this user, with their directories and confinement; running native hosts.

Linux shows them in /proc, macOS in `ps`. Of a browser's environment, which may hold API keys, only three
variables with directories are stored.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from install.browsers import Browser, browser_of_program
from install.findings import Finding, FindingCode, Level, public_value
from install.machine import Machine
from native_host.system import proc
from native_host.system.untrusted_files import resolved

Confinement = Literal["", "snap", "flatpak"]

PS = ("ps", "-axo", "pid=,uid=,command=")
PS_SECONDS = 5.0
PLACES = ("HOME", "XDG_CONFIG_HOME", "CHROME_CONFIG_HOME")
"""Variables that say where a browser's folders are."""
# Arguments of a browser's child processes: in Chromium --type=renderer and so on, in Firefox -contentproc.
_CHILD = re.compile(r"(^|\s)(--type=|-contentproc(\s|$))")


@dataclass(frozen=True)
class RunningBrowser:
    """The main process of a browser."""

    pid: int
    browser: Browser
    program: str
    user_data_dir: Path | None = None
    """Value of a Chromium's `--user-data-dir`."""
    profile: Path | None = None
    """Value of a Firefox's `--profile`."""
    confinement: Confinement = ""
    environ: Mapping[str, str] | None = None
    """Variables named in PLACES. None: unknown, or of a confined browser, which has its own."""


def running_browsers(machine: Machine, browsers: Sequence[Browser], uid: int) -> list[RunningBrowser]:
    """Return the browsers of this user and home directory, by pid; unreadable ones are ignored."""
    is_linux = machine.system == "linux"
    found = _from_proc(machine.root / "proc", uid, browsers) if is_linux else _from_ps(_run_ps(), uid)
    recognised = [running for process in found if (running := _recognize_browser(process, browsers))]
    return [running for running in recognised if _is_at_home(running, machine)]


def _is_at_home(running: RunningBrowser, machine: Machine) -> bool:
    home = (running.environ or {}).get("HOME")
    return not home or resolved(Path(home)) == resolved(machine.user_home)


def its_machine(running: RunningBrowser, machine: Machine) -> Machine:
    """Return the machine as that browser sees it."""
    return machine if running.environ is None else replace(machine, environ=running.environ)


@dataclass(frozen=True)
class _Process:
    pid: int
    program: str
    words: Sequence[str]
    """Its command line, the program first. Some of Chromium's children have all of theirs in one."""
    folder: Path | None = None
    """Its working directory, to which paths in its arguments are relative."""
    is_flatpak: bool = False
    directory: Path | None = None
    """The process directory, from which the environment of a browser is read."""


def _recognize_browser(process: _Process, browsers: Sequence[Browser]) -> RunningBrowser | None:
    browser = browser_of_program(process.program, browsers)
    if browser is None or any(_CHILD.search(word) for word in process.words):
        return None
    names = ("--user-data-dir",) if browser.kind == "chromium" else ("--profile", "-profile")
    folder = _option_value(process, names)
    confinement = _confinement_of(process)
    return RunningBrowser(
        pid=process.pid,
        browser=browser,
        program=process.program,
        user_data_dir=folder if browser.kind == "chromium" else None,
        profile=folder if browser.kind == "firefox" else None,
        confinement=confinement,
        environ=proc.read_environment(process.directory, PLACES)
        if process.directory and not confinement
        else None,
    )


def _option_value(process: _Process, names: Sequence[str]) -> Path | None:
    """Return the last value of an option, as browsers do."""
    found = None
    for word, after in zip(process.words, [*process.words[1:], ""], strict=True):
        name, equals, value = word.partition("=")
        if name in names and (value := value if equals else after):
            found = (process.folder or Path("/")) / value
    return found and resolved(found)


def _confinement_of(process: _Process) -> Confinement:
    if process.program.startswith("/snap/"):
        return "snap"
    return "flatpak" if process.is_flatpak or process.program.startswith("/app/") else ""


# ── Linux ───────────────────────────────────────────────────────────────────────────────────────────────────


def _from_proc(root: Path, uid: int, browsers: Sequence[Browser]) -> Iterator[_Process]:
    """Yield the processes that run a browser's program; of the others nothing else is read."""
    for process in proc.find_processes(uid, root):
        with suppress(OSError):  # it has ended meanwhile, or hides its files
            program = proc.read_executable(process)
            if browser_of_program(program, browsers):
                yield _read_process(process, program)


def _read_process(directory: Path, program: str) -> _Process:
    return _Process(
        proc.pid_of(directory),
        program,
        proc.read_command_line(directory),
        proc.find_working_directory(directory),
        proc.is_in_flatpak(directory),
        directory,
    )


# ── macOS ───────────────────────────────────────────────────────────────────────────────────────────────────


def _run_ps() -> str:
    with suppress(OSError, subprocess.SubprocessError):
        return subprocess.run(
            PS, capture_output=True, text=True, errors="replace", timeout=PS_SECONDS, check=False
        ).stdout
    return ""


def _from_ps(text: str, uid: int) -> Iterator[_Process]:
    """`ps` joins words by spaces: the program ends where the first option begins, and so does each value."""
    for line in text.splitlines():
        fields = line.split(None, 2)
        if len(fields) == 3 and fields[0].isdigit() and fields[1] == str(uid):
            program, *options = re.split(r"\s(?=-)", fields[2])
            words = [word for option in options for word in _split_option(option)]
            yield _Process(int(fields[0]), program, [program, *words])


def _split_option(option: str) -> list[str]:
    name, space, value = option.partition(" ")
    return [option] if "=" in name or not space else [name, value]


# ── What follows ────────────────────────────────────────────────────────────────────────────────────────────


def confinement_finding(running: RunningBrowser) -> Finding | None:
    """Return the finding about a confined build; None for another one."""
    if not running.confinement:
        return None
    kind, confinement = running.browser.kind, running.confinement
    text, level = _CONFINED[confinement, kind]
    title = running.browser.title
    return Finding(
        code=FindingCode.BROWSER_CONFINED,
        hop="browser",
        template=f"{{browser}} (process {{pid}}) is a {confinement.capitalize()}: {text}",
        values={"browser": public_value(title), "pid": public_value(running.pid)},
        level=level,
        where=public_value(title),
    )


_NO_WAY_OUT = (
    "it cannot start a host outside of its sandbox, and mcpb cannot run inside. Use a build that is not "
    "confined (your system's package, or the vendor's .deb or .rpm), or connect it through a WebSocket "
    "proxy: mcpb proxy serve"
)
_PORTAL = (
    "it starts hosts outside of its sandbox through the desktop's portal, which Ubuntu has and others mostly "
    "do not. Allow it when it asks"
)
_PROXY = (
    "it starts hosts outside of its sandbox only since Firefox 157, and with xdg-native-messaging-proxy "
    "installed. If it does not connect, use a Firefox that your system or Mozilla packages, or a WebSocket "
    "proxy: mcpb proxy serve"
)
_CONFINED: dict[tuple[Confinement, str], tuple[str, Level]] = {
    ("snap", "firefox"): (_PORTAL, "note"),
    ("flatpak", "firefox"): (_PROXY, "warning"),
    ("snap", "chromium"): (_NO_WAY_OUT, "fault"),
    ("flatpak", "chromium"): (_NO_WAY_OUT, "fault"),
}


_STARTS = ["-m", "native_host"]
"""So does every wrapper of mcpb's, whatever its home (install/wrapper.py)."""


def hosts_started_by(machine: Machine, browsers: Collection[int]) -> dict[int, int]:
    """Their pids, and those of their browsers: children of these processes that run mcpb's native host."""
    if machine.system != "linux" or not browsers:
        return {}
    found = {}
    for process in proc.find_processes(os.getuid(), machine.root / "proc"):
        with suppress(OSError, ValueError, IndexError):  # it has ended meanwhile
            if (browser := proc.read_parent(process)) in browsers and _is_host(process):
                found[proc.pid_of(process)] = browser
    return found


def _is_host(process: Path) -> bool:
    words = proc.read_command_line(process)
    return any(words[at : at + 2] == _STARTS for at in range(len(words)))
