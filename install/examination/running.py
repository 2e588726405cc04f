"""The browsers of this user that run now: which they are, on which folder, and what confines them.

Linux says it in /proc, macOS in `ps`. Command lines are read, environments never: a browser's holds API keys.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from install.browsers import Browser, browser_of_program
from install.examination.findings import Finding, Level
from install.machine import Machine

Confinement = Literal["", "snap", "flatpak"]

PS = ("ps", "-axo", "pid=,uid=,command=")
PS_SECONDS = 5.0
LARGEST_COMMAND_LINE = 256 * 1024
# A browser's other processes are told so: Chromium's by --type=renderer and so on, Firefox's by -contentproc.
_CHILD = re.compile(r"(^|\s)(--type=|-contentproc(\s|$))")


@dataclass(frozen=True)
class RunningBrowser:
    """The main process of a browser."""

    pid: int
    browser: Browser
    program: str
    user_data_dir: Path | None = None
    """Of a Chromium that was started with `--user-data-dir`."""
    profile: Path | None = None
    """Of a Firefox that was started with `--profile`."""
    confinement: Confinement = ""


def running_browsers(machine: Machine, browsers: Sequence[Browser], uid: int) -> list[RunningBrowser]:
    """Those of this user, by pid. What cannot be read is passed over."""
    found = _from_proc(machine.root / "proc", uid) if machine.system == "linux" else _from_ps(_ps(), uid)
    return [running for process in found if (running := _recognised(process, browsers))]


@dataclass(frozen=True)
class _Process:
    pid: int
    program: str
    words: Sequence[str]
    """Its command line, the program first. Some of Chromium's children have all of theirs in one."""
    folder: Path | None = None
    """Its working directory, to which paths in its arguments are relative."""
    is_flatpak: bool = False


def _recognised(process: _Process, browsers: Sequence[Browser]) -> RunningBrowser | None:
    browser = browser_of_program(process.program, browsers)
    if browser is None or any(_CHILD.search(word) for word in process.words):
        return None
    names = ("--user-data-dir",) if browser.kind == "chromium" else ("--profile", "-profile")
    folder = _option(process, names)
    return RunningBrowser(
        pid=process.pid,
        browser=browser,
        program=process.program,
        user_data_dir=folder if browser.kind == "chromium" else None,
        profile=folder if browser.kind == "firefox" else None,
        confinement=_confinement(process),
    )


def _option(process: _Process, names: Sequence[str]) -> Path | None:
    """The last one counts, as browsers have it."""
    found = None
    for word, after in zip(process.words, [*process.words[1:], ""], strict=True):
        name, equals, value = word.partition("=")
        if name in names and (value := value if equals else after):
            found = (process.folder or Path("/")) / value
    return found and found.resolve()


def _confinement(process: _Process) -> Confinement:
    if process.program.startswith("/snap/"):
        return "snap"
    return "flatpak" if process.is_flatpak or process.program.startswith("/app/") else ""


# ── Linux ───────────────────────────────────────────────────────────────────────────────────────────────────


def _from_proc(proc: Path, uid: int) -> Iterator[_Process]:
    entries = [path for path in proc.iterdir() if path.name.isdigit()] if proc.is_dir() else []
    for path in sorted(entries, key=lambda path: int(path.name)):
        with suppress(OSError):  # it has ended meanwhile, or hides its files
            if path.stat().st_uid == uid:
                yield _read_process(path)


def _read_process(path: Path) -> _Process:
    with (path / "cmdline").open("rb") as file:
        words = file.read(LARGEST_COMMAND_LINE).decode(errors="replace").rstrip("\0").split("\0")
    program = str((path / "exe").readlink()).removesuffix(
        " (deleted)"
    )  # after an upgrade under a running one
    folder = None
    with suppress(OSError):
        folder = (path / "cwd").readlink()
    is_flatpak = False
    with suppress(OSError):
        is_flatpak = (path / "root/.flatpak-info").exists()
    return _Process(int(path.name), program, words, folder, is_flatpak)


# ── macOS ───────────────────────────────────────────────────────────────────────────────────────────────────


def _ps() -> str:
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
    """What a confined build can do today; None for one that is not confined."""
    if not running.confinement:
        return None
    kind, confinement = running.browser.kind, running.confinement
    text, level = _CONFINED[confinement, kind]
    title = running.browser.title
    return Finding(
        code="browser-confined",
        hop="browser",
        text=f"{title} (process {running.pid}) is a {confinement.capitalize()}: {text}",
        level=level,
        where=title,
    )


_NO_WAY_OUT = (
    "it cannot start a host outside of its sandbox, and mcpb cannot run inside. Use a build that is not "
    "confined: your system's package, or the vendor's .deb or .rpm"
)
_PORTAL = (
    "it starts hosts outside of its sandbox through the desktop's portal, which Ubuntu has and others mostly "
    "do not. Allow it when it asks"
)
_PROXY = (
    "it starts hosts outside of its sandbox only since Firefox 157, and with xdg-native-messaging-proxy "
    "installed. If it does not connect, use a Firefox that your system or Mozilla packages"
)
_CONFINED: dict[tuple[Confinement, str], tuple[str, Level]] = {
    ("snap", "firefox"): (_PORTAL, "note"),
    ("flatpak", "firefox"): (_PROXY, "warning"),
    ("snap", "chromium"): (_NO_WAY_OUT, "fault"),
    ("flatpak", "chromium"): (_NO_WAY_OUT, "fault"),
}
