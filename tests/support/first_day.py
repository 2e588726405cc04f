"""First day of a user on a bare Debian: clone, install.sh, file chooser, Claude Code, a page's tool.

    make test-firstday

It plays an ordinary user, then root, as README.md says and with nothing but what the messages print: it types
into a shell on a pseudo-terminal, and clicks and types with xdotool in an open Chromium on a display of its
own. It counts what the user does until a page's tool has answered, checks each printed command, and removes
everything again. It needs root, the package sources of this machine's apt and pip, and Claude Code of
`make interop`.
"""

from __future__ import annotations

import json
import os
import pty
import re
import select
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from benchmarks.tokens.model_api import ToolResult, ToolUse, serving_model
from claude_host import PROGRAM as CLAUDE
from claude_host import why_missing

ROOT = Path(__file__).parents[2]
SUITE = "bookworm"
PACKAGES = [
    *("python3", "python3-venv", "git", "ca-certificates", "chromium", "chromium-sandbox", "procps"),
    *("xvfb", "openbox", "xdotool", "xclip", "fonts-dejavu-core", "imagemagick"),
]
"""What a desktop has, and `python3-venv`, which README.md names."""
MOST_ACTIONS = 8
"""Until a page's tool has answered; a line in a terminal, a click and a paste count one each."""
SCREEN = "1280x900x24"
PROMPT = "first-day> "
PATIENCE_S = 600.0
APT = ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qy", "--no-install-recommends"]
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07|\r")
_T = TypeVar("_T")


class FirstDayError(Exception):
    """A step did not end as the messages promise; the text has what was shown."""


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def wait_for(what: str, look: Callable[[], _T | None], timeout_s: float = 120.0) -> _T:
    """Poll until there is something to see; return it."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        with suppress(OSError, FirstDayError):
            if found := look():
                return found
        time.sleep(0.3)
    raise FirstDayError(f"{what}: nothing within {timeout_s:g} s")


# ── The machine ─────────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class Machine:
    """A bare Debian in a directory, with namespaces of its own: its processes end with it."""

    root: Path
    init: int
    """Process id of its first process."""
    pip: dict[str, str]
    """Variables of pip, as this machine has them."""
    display: str = ""
    """Name of its display, once it has one."""

    def command(self, user: str, words: Sequence[str], **environ: str) -> list[str]:
        """Return the command that runs words as a user of the machine, in the user's home."""
        home = _home_of(user)
        path = "/usr/local/bin:/usr/bin:/bin" + (":/usr/sbin:/sbin" if user == "root" else "")
        known = {"HOME": home, "USER": user, "PATH": path, "TERM": "xterm", "DISPLAY": self.display}
        variables = [f"{name}={value}" for name, value in {**known, **self.pip, **environ}.items()]
        enter = ["nsenter", "--target", str(self.init), "--mount", "--pid"]
        inside = ["env", "-i", f"--chdir={home}", *variables, *words]
        return [*enter, "chroot", f"--userspec={user}:{user}", str(self.root), *inside]

    def run(self, user: str, *words: str, timeout_s: float = PATIENCE_S, **environ: str) -> str:
        """Run a command to a good end; return what it printed."""
        command = self.command(user, words, **environ)
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout_s, check=False
        )
        if done.returncode:
            raise FirstDayError(f"{shlex.join(words)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def start(self, user: str, *words: str) -> None:
        """Start a program that runs until the machine ends."""
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        subprocess.Popen(self.command(user, words), **quiet)  # type: ignore[call-overload]

    def open_display(self, user: str) -> None:
        """Start a display with a free number: displays of all machines share one network namespace."""
        command = self.command(user, ["Xvfb", "-displayfd", "1", "-screen", "0", SCREEN])
        quiet = {"stdin": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **quiet)  # type: ignore[call-overload]
        assert server.stdout is not None
        number = server.stdout.readline().strip()
        if not number:
            raise FirstDayError(f"Xvfb: exit {server.wait()}")
        self.display = f":{number}"


def _home_of(user: str) -> str:
    return "/root" if user == "root" else f"/home/{user}"


def make_system(root: Path) -> None:
    """Write a bare Debian with the package sources of this machine's apt."""
    if not shutil.which("debootstrap"):
        subprocess.run([*APT, "update"], check=True)
        subprocess.run([*APT, "install", "debootstrap"], check=True)
    mirror = _read(["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"]).split()[0]
    made = subprocess.run(
        ["debootstrap", "--variant=minbase", SUITE, str(root), mirror],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode:
        raise FirstDayError(f"debootstrap: exit {made.returncode}\n{made.stdout[-1000:]}{made.stderr}")
    for name in ("sources.list", "sources.list.d", "apt.conf.d", "auth.conf.d", "trusted.gpg.d"):
        _copy(Path("/etc/apt") / name, root / "etc/apt" / name)
    _copy(Path("/usr/share/keyrings"), root / "usr/share/keyrings")
    _copy(Path("/etc/resolv.conf"), root / "etc/resolv.conf")
    _copy(Path("/etc/hosts"), root / "etc/hosts")


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True, symlinks=True)
    elif source.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)


@contextmanager
def open_machine(root: Path) -> Iterator[Machine]:
    """Mount what programs need, for the machine's own processes only, and end these with the block."""
    shared = [path for path in _pip_paths() if path.is_dir()]
    for path in shared:
        (root / path.relative_to("/")).mkdir(parents=True, exist_ok=True)
    mounts = [
        ["mount", "-t", "proc", "proc", f"{root}/proc"],
        ["mount", "--rbind", "/dev", f"{root}/dev"],
        ["mount", "-t", "tmpfs", "tmpfs", f"{root}/tmp"],  # without the lock of the last display
        *(["mount", "--rbind", str(path), f"{root}{path}"] for path in shared),
    ]
    script = " && ".join([*map(shlex.join, mounts), "exec sleep infinity"])
    keeper = subprocess.Popen(
        ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation=private", "sh", "-c", script]
    )
    children = Path(f"/proc/{keeper.pid}/task/{keeper.pid}/children")
    try:
        init = wait_for("namespaces", lambda: children.read_text().split())[0]
        wait_for("mounts", lambda: Path(f"/proc/{init}/comm").read_text().strip() == "sleep")
        yield Machine(root, int(init), _pip_environ())
    finally:
        keeper.kill()
        keeper.wait()


def _pip_environ() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith("PIP_")}


def _pip_config() -> dict[str, str]:
    """Return this machine's own configuration of pip: its options, without the section `global`."""
    lines = _read([sys.executable, "-m", "pip", "config", "list"]).splitlines()
    pairs = (line.partition("=") for line in lines if line.startswith("global."))
    return {name.removeprefix("global."): value.strip("'\"") for name, _, value in pairs}


def _pip_paths() -> list[Path]:
    """Return the files and directories that pip's options name; an index has its files beside it."""
    values = [*_pip_config().values(), *_pip_environ().values()]
    words = [word for value in values for word in value.split()]
    indexes = [Path(word.removeprefix("file://")).parent for word in words if word.startswith("file:///")]
    return list(dict.fromkeys([*indexes, *(Path(word) for word in words if word.startswith("/"))]))


def _read(command: Sequence[str]) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


# ── What the user does ──────────────────────────────────────────────────────────────────────────────────────


@dataclass
class Journal:
    """Actions of the user, with the seconds until the next one."""

    actions: list[tuple[str, str, float]] = field(default_factory=list)

    @contextmanager
    def action(self, kind: str, text: str) -> Iterator[None]:
        """Count an action, and time what follows from it."""
        began = time.monotonic()
        say(f"  {len(self.actions) + 1}. {kind}: {text}")
        yield
        self.actions.append((kind, text, time.monotonic() - began))


class Terminal:
    """A shell of the user on a pseudo-terminal."""

    def __init__(self, machine: Machine, user: str, journal: Journal) -> None:
        self.journal = journal
        self.shown = ""
        """Everything that it has shown."""
        self._ours, theirs = pty.openpty()
        command = machine.command(user, ["setsid", "-c", "bash", "--norc", "--noprofile", "-i"], PS1=PROMPT)
        self.process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs)
        os.close(theirs)
        self._read_until(PROMPT)

    def type(self, line: str, *, until: str = PROMPT, counts: bool = True) -> str:
        """Type a line; return what is shown until the shell, or the program, waits again."""
        if not counts:
            return self._send(line, until)
        with self.journal.action("types" if until == PROMPT else "types, and reads", line):
            return self._send(line, until)

    def _send(self, line: str, until: str) -> str:
        os.write(self._ours, f"{line}\n".encode())
        return self._read_until(until).partition("\n")[2].removesuffix(PROMPT)

    def _read_until(self, end: str) -> str:
        shown, deadline = "", time.monotonic() + PATIENCE_S
        while end not in shown:
            if not select.select([self._ours], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise FirstDayError(f"no {end!r} in the terminal:\n{shown}")
            shown = _ESCAPES.sub("", shown + os.read(self._ours, 65536).decode(errors="replace"))
            if end not in shown and shown.endswith(PROMPT):
                raise FirstDayError(f"it ended without {end!r}:\n{shown}")
        self.shown += shown
        return shown


class Desktop:
    """A display with a window manager and Chromium; the user's hands are xdotool."""

    def __init__(self, machine: Machine, user: str, journal: Journal) -> None:
        self.machine, self.user, self.journal = machine, user, journal
        machine.open_display(user)
        machine.start(user, "openbox")

    def open_browser(self) -> None:
        """Start Chromium; as root without its sandbox, as it demands."""
        self.machine.start(self.user, "chromium", *(["--no-sandbox"] if self.user == "root" else []))
        self.window = wait_for("Chromium", lambda: self._window("--name", " - Chromium$"))
        time.sleep(5)  # it paints its first page

    def load_extension(self, path: str, *, is_copied: bool) -> None:
        """Load the extension as `mcpb extension` says: a path into the file chooser, and a click on Open."""
        with self.journal.action("types into Chromium", "chrome://extensions"):
            wait_for("chrome://extensions", self._open_extensions)
            self._wait_still("")
        bar = 0 if self.user != "root" else 56
        """Height of Chromium's warning about --no-sandbox."""
        with self.journal.action("clicks", "Developer mode"):
            width, _height = self._size(self.window)
            before = self._look()
            self._click(self.window, width - 29, 149 + bar)
            self._wait_still(before)
        with self.journal.action("clicks", "Load unpacked"):
            self._click(self.window, 80, 205 + bar)
            chooser = wait_for("the file chooser", lambda: self._window("--name", "Select the extension"))
            time.sleep(1)
        with self.journal.action("pastes after Ctrl+L" if is_copied else "types after Ctrl+L", path):
            self._xdotool("windowactivate", "--sync", chooser, "key", "ctrl+l")
            if is_copied:
                self._xdotool("key", "ctrl+v")
            else:
                self._xdotool("type", "--delay", "20", path)
            time.sleep(2)
        self.picture("chooser")
        with self.journal.action("clicks", "Open"):
            width, height = self._size(chooser)
            self._click(chooser, width - 50, height - 25)

    def _open_extensions(self) -> str:
        """Type the address; a Chromium without processor time loses keys of xdotool, and is asked again."""
        self._xdotool("windowactivate", "--sync", self.window, "key", "ctrl+l")
        self._xdotool("type", "--delay", "30", "chrome://extensions")
        self._xdotool("key", "Return")
        return wait_for("chrome://extensions", lambda: self._window("--name", "^Extensions"), 20)

    def picture(self, name: str) -> None:
        """Keep a picture of the display, for a failure."""
        self.machine.run(self.user, "import", "-window", "root", f"{_home_of(self.user)}/{name}.png")

    def _wait_still(self, before: str) -> None:
        """Wait, as a user does, until the display has changed and no longer changes."""
        seen = [before]

        def has_settled() -> bool:
            time.sleep(1)
            seen.append(self._look())
            return seen[-1] == seen[-2] != before

        wait_for("a still picture", has_settled)

    def _look(self) -> str:
        """Return a checksum of the display."""
        return self.machine.run(self.user, "sh", "-c", "import -window root gray:- | cksum")

    def _window(self, *criteria: str) -> str:
        found = self._xdotool("search", "--onlyvisible", *criteria).split()
        return found[-1] if found else ""

    def _size(self, window: str) -> tuple[int, int]:
        found = dict(
            line.split("=") for line in self._xdotool("getwindowgeometry", "--shell", window).splitlines()
        )
        return int(found["WIDTH"]), int(found["HEIGHT"])

    def _click(self, window: str, x: int, y: int) -> None:
        self._xdotool("mousemove", "--window", window, str(x), str(y), "click", "1")

    def _xdotool(self, *words: str) -> str:
        return self.machine.run(self.user, "xdotool", *words, timeout_s=60)


# ── The day ─────────────────────────────────────────────────────────────────────────────────────────────────


def play(machine: Machine, user: str) -> Journal:
    """Play the day of a user; return what the user did."""
    journal = Journal()
    desktop = Desktop(machine, user, journal)
    desktop.open_browser()
    terminal = Terminal(machine, user, journal)
    try:
        told = terminal.type("git clone -q /srv/mcpb.git mcpb && mcpb/install/install.sh --yes")
        _find("Register the native host with .*(Chromium)", told)
        _find("(Added stdio MCP server browser)", told)
        path = _find(r"click Open:\n\n +(/\S+)\n", told)
        demo = _find(r"extension is loaded: (.+)$", told)
        desktop.load_extension(path, is_copied="The path is on the clipboard." in told)
        mcpb = f"{_home_of(user)}/.local/bin/mcpb"
        wait_for(
            "a connected browser", lambda: json.loads(machine.run(user, mcpb, "status", "--json"))["browsers"]
        )
        say("  The agent is set up.")
        _use(terminal, Terminal(machine, user, journal).type(demo, until="'mcp__browser__*'\n"))
        _check_commands(machine, user, terminal.shown)
        _remove(machine, user, terminal)
    except FirstDayError:
        desktop.picture("failure")
        say(terminal.shown)
        raise
    return journal


def _use(terminal: Terminal, shown: str) -> None:
    """Let the real Claude Code call a page's tool, as the demo prints it, in a directory of its own."""
    address = _find(r"(http://localhost:\d+/)", shown)
    port = address.rstrip("/").rpartition(":")[2]
    steps = [
        ToolUse("mcp__browser__navigate", {"url": address}),
        ToolUse(
            "mcp__browser__call_page_tool",
            {"name": f"website_tool_localhost_{port}_addToCart", "arguments": {"item": "green tea"}},
        ),
    ]
    with serving_model(lambda results: _next_step(steps, results)) as model:
        quiet = "DISABLE_TELEMETRY=1 CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1"
        variables = f"{quiet} ANTHROPIC_BASE_URL={model.url} ANTHROPIC_API_KEY=none"
        terminal.type(f"mkdir project; cd project; export {variables}", counts=False)
        said = terminal.type(_find(r"^ +(claude .+)$", shown))
        results = model.results if model.requests else []
    if not results or "green tea added" not in results[-1].text:
        raise FirstDayError(f"Claude Code did not call the page's tool: {results}\n{said}")
    say(f"  The page's tool: {results[-1].text.splitlines()[0]}")


def _remove(machine: Machine, user: str, terminal: Terminal) -> None:
    """Uninstall it; what is left in Claude Code is named with the command that removes it."""
    left = terminal.type("~/mcpb/install/uninstall.sh --yes", counts=False)
    terminal.type(_find(r"(claude mcp remove .+)$", left), counts=False)
    listed = machine.run(user, "claude", "mcp", "list")
    if "mcpb" in listed:
        raise FirstDayError(f"Claude Code still has it:\n{listed}")
    say("  Everything is removed, also from Claude Code.")


def _next_step(steps: Sequence[ToolUse], results: Sequence[ToolResult]) -> ToolUse | None:
    """Return the next call; the page's tool again, until the page has announced it."""
    done = sum(not result.is_error for result in results)
    return steps[done] if done < len(steps) and len(results) < 10 else None


def _check_commands(machine: Machine, user: str, shown: str) -> None:
    """Run each printed command of mcpb with --help, and the line for PATH: all must be found."""
    commands = re.findall(r"(?:run|Undo): (\S*mcpb\S* [a-z-]+)", shown)
    path = re.findall(r"export PATH=.+", shown)
    if not commands or not path:
        raise FirstDayError(f"no command was found in:\n{shown}")
    for command in [*(f"{each} --help" for each in commands), *(f"{each}; mcpb --version" for each in path)]:
        machine.run(user, "bash", "-c", command)
        say(f"  works when pasted: {command}")


def _find(pattern: str, text: str) -> str:
    if found := re.search(pattern, text, re.MULTILINE):
        return found[1]
    raise FirstDayError(f"{pattern} is not in:\n{text}")


def main() -> int:
    """Play all days, on the machine in the directory that the first argument names, or on a new one."""
    if missing := why_missing():
        sys.exit(f"Claude Code cannot be played: {missing}")
    if os.geteuid() != 0:
        sys.exit("A machine of its own needs root.")
    given = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    directory = given or Path(tempfile.mkdtemp(prefix="mcpb-first-day-"))
    directory.mkdir(exist_ok=True)
    directory.chmod(0o755)  # it becomes the machine's /
    try:
        if not (directory / "etc/debian_version").exists():
            say(f"Making a bare Debian in {directory} ...")
            make_system(directory)
        with open_machine(directory) as machine:
            prepare(machine)
        return max([report(directory, user) for user in ("ana", "root")])
    finally:
        if given is None:
            shutil.rmtree(directory)


def prepare(machine: Machine) -> None:
    """Install what a desktop has, Claude Code, and a repository that can be cloned."""
    say(f"Installing {' '.join(PACKAGES)} ...")
    machine.run("root", *APT, "update")
    machine.run("root", *APT, "install", *PACKAGES, timeout_s=1800)
    subprocess.run(
        ["git", "clone", "-q", "--bare", str(ROOT), str(machine.root / "srv/mcpb.git")], check=True
    )
    machine.run("root", "git", "config", "--system", "safe.directory", "*")
    lines = "".join(f"{name} = {value}\n" for name, value in _pip_config().items())
    (machine.root / "etc/pip.conf").write_text(f"[global]\n{lines}")
    for path in _pip_paths():
        if path.is_file():
            _copy(path, machine.root / path.relative_to("/"))
    shutil.copy(CLAUDE, machine.root / "usr/local/bin/claude")
    machine.run("root", "useradd", "--create-home", "--shell", "/bin/bash", "ana")


def report(directory: Path, user: str) -> int:
    """Play a day and print its actions; return the exit code."""
    say(f"\nThe first day of {user}:")
    try:
        with open_machine(directory) as machine:  # its own display ends with it
            journal = play(machine, user)
    except FirstDayError as error:
        say(f"  failed: {error}")
        return 1
    say(f"\n  {len(journal.actions)} actions, the first use of a page's tool included:")
    for number, (kind, text, seconds) in enumerate(journal.actions, 1):
        say(f"  {number:2}. {seconds:6.1f} s  {kind}: {text}")
    say(f"      {sum(seconds for *_, seconds in journal.actions):6.1f} s in all")
    return int(len(journal.actions) > MOST_ACTIONS)


if __name__ == "__main__":
    sys.exit(main())
