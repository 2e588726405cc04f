"""install/install.sh and uninstall.sh, in homes of their own: what they make, and what they leave alone.

In place of pip stands a module of that name, which makes the same commands for this clone in no time, or
fails as told. The real one is used in test_newcomer.py.
"""

from __future__ import annotations

import hashlib
import os
import pty
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from install.browsers import known_browsers
from installer_home import write_claude
from native_host.existing_channel.channel_messages import CLAUDE_CODE
from native_host.ipc import endpoint

ROOT = Path(__file__).parents[3]
INSTALL, UNINSTALL = ROOT / "install/install.sh", ROOT / "install/uninstall.sh"
SECONDS = 60

PIP = f"""\
import os, pathlib, signal, sys
does = os.environ.get("PIP_DOES", "")
if does == "fail":
    sys.exit("no such package")
if does.startswith("wait "):
    pathlib.Path(does.removeprefix("wait ")).read_text()
if does != "install nothing":
    site = pathlib.Path(__file__).parent.parent
    (site / "mcpb.pth").write_text("{ROOT}\\n{sysconfig.get_path("purelib")}\\n")
python = sys.executable
line = f"#!{{python}}"
if " " in python:  # as pip writes it
    line = f"#!/bin/sh\\n'''exec' \\"{{python}}\\" \\"$0\\" \\"$@\\"\\n' '''"
for name in ("mcpb", "mcpb-bridge", "mcpb-native-host"):
    command = pathlib.Path(python).with_name(name)
    command.write_text(f"{{line}}\\nfrom bridge.cli.group import main\\nmain()\\n")
    command.chmod(0o755)
if does == "kill":
    os.kill(os.getppid(), signal.SIGKILL)
"""
PYTHON = f"""\
#!/bin/sh
if [ "$1 $2 $3" != "-I -m venv" ]; then
    exec {sys.executable} "$@"
fi
{sys.executable} -I -m venv --without-pip "$4"
cp -r "$(dirname "$0")/pip" "$4"/lib/python3*/site-packages/
"""


@dataclass
class Person:
    """Somebody with a home, in which Chromium has been used."""

    home: Path
    environ: dict[str, str] = field(default_factory=dict)

    @property
    def installed(self) -> Path:
        """A home in which mcpb is installed, as it is copied."""
        return self.home.with_name("installed")

    @property
    def prefix(self) -> Path:
        """Where install.sh puts mcpb."""
        return self.home / ".local/share/mcpb"

    @property
    def commands(self) -> Path:
        """Where it is reached."""
        return self.home / ".local/bin"

    @property
    def claude_calls(self) -> list[str]:
        """Arguments with which Claude Code was run."""
        calls = self.home.parent / "claude/calls"
        return calls.read_text().splitlines() if calls.exists() else []

    @property
    def manifests(self) -> list[Path]:
        """Where it is registered."""
        return list((self.home / ".config").rglob("*.json"))

    def run(self, script: Path, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        """Run a script without a terminal."""
        return subprocess.run(
            ["/bin/sh", str(script), *arguments],
            env={**self.environ, **environ},
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
            check=False,
        )

    def install(self, *arguments: str, **environ: str) -> str:
        """Run install.sh to a good end."""
        done = self.run(INSTALL, *arguments, **environ)
        assert done.returncode == 0, done.stdout
        return done.stdout

    def have_installed(self) -> None:
        """Put what `install.sh --yes` makes into a new home; the script ran for the first of all tests."""
        if self.installed.exists():
            shutil.copytree(self.installed, self.home, symlinks=True, dirs_exist_ok=True)
        else:
            self.install("--yes")
            shutil.copytree(self.home, self.installed, symlinks=True)

    def uninstall(self, *arguments: str) -> str:
        """Run uninstall.sh to a good end."""
        done = self.run(UNINSTALL, "--yes", *arguments)
        assert done.returncode == 0, done.stdout
        return done.stdout

    def in_terminal(self, script: Path, *answers: str) -> tuple[int, str]:
        """Run a script in a terminal and answer it; returns how it ended and what it showed."""
        ours, theirs = pty.openpty()
        os.write(ours, "".join(f"{answer}\n" for answer in answers).encode())
        process = subprocess.Popen(
            ["/bin/sh", str(script)], env=self.environ, stdin=theirs, stdout=theirs, stderr=theirs
        )
        os.close(theirs)
        said = b"".join(_read_all(ours)).decode()
        return process.wait(SECONDS), said

    def version(self) -> str:
        """What the installed command says."""
        return subprocess.run(
            [str(self.commands / "mcpb"), "--version"],
            env=self.environ,
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    def listing(self) -> dict[str, str]:
        """Everything in the home: kind, mode and content."""
        return {str(path.relative_to(self.home)): _seen(path) for path in self.home.rglob("*")}


def _read_all(terminal: int) -> Iterator[bytes]:
    try:
        while data := os.read(terminal, 65536):
            yield data
    except OSError:  # how Linux says that the other end is closed
        return
    finally:
        os.close(terminal)


def _seen(path: Path) -> str:
    if path.is_symlink():
        return f"-> {path.readlink()}"
    content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
    return f"{path.lstat().st_mode:o} {content}"


def a_person(home: Path, **environ: str) -> Person:
    (home / ".config/chromium").mkdir(parents=True)
    (home / "letter.txt").write_text("Dear Ana")
    kept = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    path = f"{home}/.local/bin:{write_claude(home.parent / 'claude').parent}:{os.environ['PATH']}"
    own = {"HOME": str(home), "MCPB_HOME": str(home / ".mcpb"), "PATH": path, "PYTHON": sys.executable}
    # A script that is killed leaves the log of its step there.
    temporary = home.parent / "tmp"
    temporary.mkdir(exist_ok=True)
    return Person(home, {**kept, **own, "TMPDIR": str(temporary), **environ})


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of all homes, with the quick pip: an installation has its path in its files."""
    directory = tmp_path_factory.mktemp("homes")
    (directory / "quick/pip").mkdir(parents=True)
    (directory / "quick/pip/__main__.py").write_text(PIP)
    python = directory / "quick/python"
    python.write_text(PYTHON)
    python.chmod(0o755)
    return directory


@pytest.fixture
def person(homes: Path) -> Iterator[Person]:
    """A user whose pip is the quick one."""
    person = a_person(homes / "home of Ana", PYTHON=str(homes / "quick/python"))
    yield person
    for path in (person.home, homes / "claude"):
        shutil.rmtree(path)


# ── Again and again ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_second_run_upgrades_beside_and_browsers_go_on_starting_the_same_path(person: Person) -> None:
    person.install("--yes")
    first, wrapper = (person.prefix / "venv").readlink(), person.home / ".mcpb/bin/mcpb-native-host"
    registered = wrapper.read_bytes()
    assert str(person.prefix / "venv/bin/python").encode() in registered
    assert "Registered already." in person.install("--yes")
    second = (person.prefix / "venv").readlink()
    assert second != first
    assert wrapper.read_bytes() == registered
    assert (person.prefix / first).is_dir(), "processes may still run from it"
    person.install("--yes")
    assert not (person.prefix / first).exists()
    assert (person.prefix / second).is_dir()


@pytest.mark.parametrize(("does", "times"), [("fail", 1), ("install nothing", 1), ("kill", 1), ("kill", 0)])
def test_an_installation_that_breaks_off_leaves_what_was_there_and_the_next_run_ends_well(
    person: Person, does: str, times: int
) -> None:
    before = person.listing()
    for _ in range(times):
        person.have_installed()
    after = person.listing()
    broken = person.run(INSTALL, "--yes", PIP_DOES=does)
    assert broken.returncode == (-signal.SIGKILL if does == "kill" else 1), broken.stdout
    if does != "kill":
        assert person.listing() == after
    if times:
        assert person.version().startswith("mcpb ")
    person.install("--yes")
    assert person.version().startswith("mcpb ")
    assert len(list(person.prefix.glob("env-*"))) == 1 + times
    person.uninstall("--purge")
    assert person.listing() == before


def test_what_a_killed_first_run_left_is_removed_by_uninstalling_alone(person: Person) -> None:
    before = person.listing()
    person.run(INSTALL, "--yes", PIP_DOES="kill")
    assert person.listing() != before
    person.uninstall()
    assert person.listing() == before


def fill_disk() -> None:
    """Let no file grow, as on a full disk; the signal of this limit would end the shell."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


@pytest.mark.parametrize("times", [0, 1])
def test_a_full_disk_is_named_in_one_line_and_nothing_is_left(person: Person, times: int) -> None:
    for _ in range(times):
        person.install("--yes")
    before = person.listing()
    done = subprocess.run(
        ["/bin/sh", str(INSTALL), "--yes"],
        env=person.environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
        check=False,
        restore_signals=False,
        preexec_fn=fill_disk,
    )
    (line,) = done.stdout.splitlines()
    assert str(person.prefix / "install.record") in line
    assert line.endswith("Free some space, then run this again.")
    assert done.returncode == 1
    assert person.listing() == before


@pytest.mark.parametrize(("free_kb", "is_full"), [(12_000, True), (900_000, False)])
def test_a_step_that_fails_on_a_full_disk_says_so(person: Person, free_kb: int, is_full: bool) -> None:
    df = person.home.parent / "quick/df"
    df.write_text(f"#!/bin/sh\necho Filesystem\necho /dev/sda1 9000000 8000000 {free_kb} 99% /\n")
    df.chmod(0o755)
    before = person.listing()
    done = person.run(INSTALL, PIP_DOES="fail", PATH=f"{df.parent}:{person.environ['PATH']}")
    assert done.returncode == 1
    assert (f"The disk is full: 11 MB are left for {person.prefix}." in done.stdout) == is_full
    assert person.listing() == before


# ── What is not ours ────────────────────────────────────────────────────────────────────────────────────────


def test_another_mcpb_stays_where_it_is_and_the_second_name_is_offered(person: Person) -> None:
    person.commands.mkdir(parents=True)
    other = person.commands / "mcpb"
    other.write_text("#!/bin/sh\necho MCP Bundles\n")
    other.chmod(0o755)
    before = person.listing()
    said = person.install("--yes")
    assert f"{other} does not belong to mcpb and stays unchanged." in said
    assert f"mv '{other}' '{other}.other'" in said
    second = shlex.quote(str(person.commands / "mcpb-bridge"))
    assert f"claude mcp add --scope user browser -- {second} bridge --name browser\n" in said
    assert other.read_text() == "#!/bin/sh\necho MCP Bundles\n"
    person.uninstall("--purge")
    assert person.listing() == before


def test_a_folder_with_other_things_in_it_is_refused(person: Person) -> None:
    before = person.listing()
    done = person.run(INSTALL, "--prefix", str(person.home))
    assert done.returncode == 1
    assert "has other things in it" in done.stdout
    assert person.listing() == before


def test_a_folder_of_one_s_choice_is_used_and_given_back(person: Person) -> None:
    before = person.listing()
    person.install("--yes", "--prefix", "tools/browser bridge")  # below the current folder
    assert (person.commands / "mcpb").readlink() == person.home / "tools/browser bridge/venv/bin/mcpb"
    assert person.version().startswith("mcpb ")
    person.uninstall("--purge", "--prefix", "tools/browser bridge")
    assert person.listing() == before


def test_uninstalling_leaves_what_others_have_put_into_the_folders_that_were_made(person: Person) -> None:
    person.have_installed()
    (person.commands / "mine").write_text("#!/bin/sh\n")
    settings = person.home / ".mcpb/config.toml"
    settings.write_text("")
    person.uninstall()
    assert (person.commands / "mine").exists()
    assert settings.exists()
    assert person.manifests == []
    assert not person.prefix.exists()


def test_a_registration_of_another_installation_stays(person: Person) -> None:
    person.have_installed()
    other = subprocess.run(
        [sys.executable, "-m", "bridge", "install-native-host", "--yes"],
        env=person.environ,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert other.returncode == 0, other.stderr
    said = person.uninstall("--purge")
    assert "in spite of --purge" in said
    assert (person.home / ".mcpb").is_dir()
    assert f"Browsers start another installation of mcpb ({sys.executable})" in said
    assert len(person.manifests) == 1


def test_uninstalling_removes_nothing_from_a_folder_that_was_not_made_by_install_sh(person: Person) -> None:
    project = person.home / "project"
    (project / "env-mydata").mkdir(parents=True)
    (project / "venv").symlink_to("env-mydata")
    before = person.listing()
    done = person.run(UNINSTALL, "--yes", "--prefix", "project")
    assert done.returncode == 1
    assert "no install.record is there" in done.stdout
    assert person.listing() == before


def test_an_environment_that_is_not_in_the_record_stays(person: Person) -> None:
    for _ in range(2):
        person.install("--yes")
        (person.prefix / "env-backup").mkdir(exist_ok=True)
    said = person.uninstall()
    assert [path.name for path in person.prefix.iterdir()] == ["env-backup"]
    assert f"{person.prefix} stays" in said


@pytest.mark.parametrize(
    ("made_as", "removed_as"),
    [("tools/mcpb/", "tools//mcpb"), ("tools/../mcpb", "mcpb"), ("link/mcpb", "tools/mcpb")],
)
def test_a_folder_is_the_same_one_however_it_is_spelled(
    person: Person, made_as: str, removed_as: str
) -> None:
    (person.home / "tools").mkdir()
    (person.home / "link").symlink_to("tools")
    before = person.listing()
    person.install("--yes", "--prefix", made_as)
    person.uninstall("--purge", "--prefix", removed_as)
    assert person.listing() == before


def test_after_a_killed_run_and_a_failed_one_installing_and_uninstalling_still_work(person: Person) -> None:
    before = person.listing()
    person.run(INSTALL, "--yes", PIP_DOES="kill")
    killed = person.listing()
    assert person.run(INSTALL, "--yes", PIP_DOES="fail").returncode == 1
    assert person.listing() == killed
    person.install("--yes")
    assert len(list(person.prefix.glob("env-*"))) == 1
    person.uninstall("--purge")
    assert person.listing() == before


@pytest.mark.parametrize("script", [INSTALL, UNINSTALL])
def test_a_run_beside_another_one_changes_nothing_and_says_to_wait(person: Person, script: Path) -> None:
    pause = person.home / "pause"
    os.mkfifo(pause)
    with subprocess.Popen(
        ["/bin/sh", str(INSTALL), "--yes"],
        env={**person.environ, "PIP_DOES": f"wait {pause}"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as first:
        with pause.open("w"):  # pip has begun, and waits until this is closed
            before = person.listing()
            second = person.run(script, "--yes")
            after = person.listing()
        assert first.wait(SECONDS) == 0
    assert second.returncode == 1
    assert "is at work in" in second.stdout
    assert after == before
    assert person.version().startswith("mcpb ")


@pytest.mark.parametrize("script", [INSTALL, UNINSTALL])
@pytest.mark.parametrize("arguments", [("--prefix",), ("--prefix", "--yes"), ("--prefix", "")])
def test_an_option_is_not_taken_for_a_folder(
    person: Person, script: Path, arguments: tuple[str, ...]
) -> None:
    before = person.listing()
    done = person.run(script, *arguments)
    assert done.returncode == 1
    assert "--prefix needs a folder" in done.stdout
    assert person.listing() == before


@pytest.mark.parametrize("script", [INSTALL, UNINSTALL])
def test_without_a_home_it_says_so(person: Person, script: Path) -> None:
    done = person.run(script, "--yes", HOME="")
    assert done.returncode == 1
    assert "HOME is not set to your home directory" in done.stdout


def test_a_file_where_a_folder_must_be_is_named_and_nothing_is_made(person: Person) -> None:
    person.commands.parent.mkdir()
    person.commands.write_text("")
    before = person.listing()
    done = person.run(INSTALL, "--yes")
    assert done.returncode == 1
    assert f"{person.commands} is not a folder: move it away" in done.stdout
    assert person.listing() == before


def test_the_clone_that_is_installed_is_the_script_s_own_whatever_cdpath_says(
    person: Person, tmp_path: Path
) -> None:
    (tmp_path / "other/install").mkdir(parents=True)
    clone = tmp_path / "clone"
    clone.mkdir()
    for name in ("install", "pyproject.toml"):
        (clone / name).symlink_to(ROOT / name)
    done = subprocess.run(
        ["/bin/sh", "install/install.sh", "--yes"],
        env={**person.environ, "CDPATH": str(tmp_path / "other")},
        cwd=clone,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert f"Installing {clone} " in done.stderr


# ── What it says ────────────────────────────────────────────────────────────────────────────────────────────


def test_without_a_terminal_nothing_is_registered_unasked_and_the_command_that_is_left_is_named(
    person: Person,
) -> None:
    said = person.install()
    assert person.claude_calls == []
    assert "stdin is not a terminal: nothing new was registered with browsers." in said
    assert "as it was" not in said
    assert "Then run: mcpb install-native-host\n" in said
    assert person.manifests == []


@pytest.mark.parametrize(("answer", "count"), [("y", 1), ("n", 0)])
def test_in_a_terminal_the_plan_is_shown_and_the_person_is_asked(
    person: Person, answer: str, count: int
) -> None:
    code, said = person.in_terminal(INSTALL, answer, answer)
    assert code == 0, said
    assert "Apply this plan?" in said
    assert "Run this?" in said
    assert len(person.manifests) == len(person.claude_calls) == count
    assert person.version().startswith("mcpb ")


def test_the_first_installation_adds_mcpb_to_claude_code_and_later_ones_do_not(person: Person) -> None:
    said = person.install("--yes")
    entry = f"mcp add --scope user browser -- {person.commands}/mcpb bridge --name browser"
    assert person.claude_calls == [entry]
    assert "Undo: claude mcp remove --scope user browser\n" in said
    said = person.install("--yes")
    assert person.claude_calls == [entry]
    assert "Add it to your MCP client" in said


def test_a_client_that_has_mcpb_is_enough(person: Person) -> None:
    settings = person.home / ".cursor/mcp.json"
    settings.parent.mkdir()
    settings.write_text('{"mcpServers": {"web": {"command": "mcpb", "args": ["bridge"]}}}')
    assert "after their next start" in person.install("--yes")
    assert person.claude_calls == []


def test_a_claude_code_that_refuses_leaves_the_line_to_the_user(person: Person) -> None:
    (person.home.parent / "claude/claude").write_text("#!/bin/sh\nexit 1\n")
    said = person.install("--yes")
    assert "Undo: claude" not in said
    assert said.index("Load unpacked") < said.index("Add it to your MCP client")


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 1)])
def test_uninstalling_shows_what_goes_and_asks(person: Person, answer: str, code: int) -> None:
    person.have_installed()
    before = person.listing()
    ended, said = person.in_terminal(UNINSTALL, answer)
    assert ended == code, said
    assert "NativeMessagingHosts" in said
    assert str(person.prefix) in said
    assert "Remove all this?" in said
    assert (person.listing() == before) == bool(code)


def test_uninstalling_without_a_terminal_wants_a_yes_and_changes_nothing(person: Person) -> None:
    person.have_installed()
    before = person.listing()
    done = person.run(UNINSTALL, "--purge")
    assert done.returncode == 2
    assert "pass --yes" in done.stdout
    assert person.listing() == before


def link_tools(directory: Path) -> Path:
    """Return a directory with the programs of this machine but its browsers."""
    browsers = {program for row in known_browsers() for program in row.programs}
    directory.mkdir()
    for program in Path("/usr/bin").iterdir():
        if program.name not in browsers:
            (directory / program.name).symlink_to(program)
    return directory


def test_a_browser_that_was_never_used_is_found_by_its_program_and_registered(
    person: Person, tmp_path: Path
) -> None:
    shutil.rmtree(person.home / ".config")
    tools = link_tools(tmp_path / "tools")
    vivaldi = tools / "vivaldi-stable"
    vivaldi.symlink_to("/bin/true")
    person.environ["PATH"] = f"{person.commands}:{tools}"
    before = person.listing()
    assert "Register the native host with Vivaldi\n" in person.install("--yes")
    (manifest,) = person.manifests
    assert manifest.parent == person.home / ".config/vivaldi/NativeMessagingHosts"
    person.uninstall("--purge")
    assert person.listing() == before


def test_without_a_browser_mcpb_is_installed_all_the_same_and_says_what_is_left(
    person: Person, tmp_path: Path
) -> None:
    shutil.rmtree(person.home / ".config")
    person.environ["PATH"] = f"{person.commands}:{link_tools(tmp_path / 'tools')}"
    said = person.install("--yes")
    assert "mcpb is installed." in said
    assert "Then run: mcpb install-native-host\n" in said
    assert person.version().startswith("mcpb ")


def test_a_script_that_said_yes_is_told_when_something_stands_in_the_way(person: Person) -> None:
    manifest = person.home / ".config/chromium/NativeMessagingHosts/dev.mcpb.native_host.json"
    manifest.mkdir(parents=True)
    done = person.run(INSTALL, "--yes")
    assert done.returncode == 1
    assert "mcpb is installed." in done.stdout
    assert "--replace" in done.stdout
    assert person.version().startswith("mcpb ")


def test_a_directory_that_the_extension_cannot_use_fails_the_script_after_the_other_steps(
    person: Person,
) -> None:
    (person.home / "extension").mkdir()
    (person.home / "extension/diary.txt").touch()
    done = person.run(INSTALL, "--yes", "--extension", "extension")
    assert done.returncode == 1
    assert "extension is not a copy of the extension" in done.stdout
    assert "claude mcp add" in done.stdout
    assert len(person.manifests) == 1


def test_how_to_load_the_extension_stands_after_the_registration_and_names_no_command_that_was_run(
    person: Person,
) -> None:
    said = person.install("--yes")
    assert said.index("Done.") < said.index("claude mcp add") < said.index("Load unpacked")
    assert "Then run" not in said


def test_a_script_that_is_interrupted_in_a_step_ends_its_line(tmp_path: Path) -> None:
    script = tmp_path / "script.sh"
    progress = shlex.quote(str(ROOT / "install/progress.sh"))
    script.write_text(f". {progress}\ntrap end_step EXIT\ntrap 'exit 130' INT\nrun_step Waiting sleep 60\n")
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        ["/bin/sh", str(script)], stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    )
    os.close(theirs)
    shown = os.read(ours, 65536)
    os.killpg(process.pid, signal.SIGINT)
    shown += b"".join(_read_all(ours))
    assert process.wait(SECONDS) == 130
    assert re.fullmatch(rb"(\rWaiting \.\.\. \d+ s)+\r\n", shown)


def test_a_folder_for_commands_that_is_not_on_path_is_said_with_the_line_that_adds_it(person: Person) -> None:
    person.environ["PATH"] = f"{person.home.parent / 'claude'}:{os.environ['PATH']}"
    said = person.install("--yes")
    assert said.endswith(f'export PATH="{person.commands}:$PATH"\n')
    assert f"claude mcp add --scope user browser -- '{person.commands}/mcpb' bridge --name browser\n" in said
    assert f"Undo: '{person.commands}/mcpb' uninstall-native-host\n" in said


def test_without_a_new_enough_python_it_says_so_and_makes_nothing(person: Person, tmp_path: Path) -> None:
    before = person.listing()
    (tmp_path / "bin").mkdir()
    for tool in ("dirname", "find", "grep", "id", "readlink"):
        (tmp_path / "bin" / tool).symlink_to(shutil.which(tool) or "")
    done = person.run(INSTALL, "--yes", PATH=str(tmp_path / "bin"), PYTHON="python3")
    assert done.returncode == 1
    assert "Python 3.11 or newer" in done.stdout
    assert person.listing() == before


def test_an_environment_that_was_damaged_is_removed_all_the_same(person: Person) -> None:
    person.have_installed()
    shutil.rmtree(next(person.prefix.glob("env-*")))
    said = person.uninstall()
    assert "cannot unregister itself" in said
    assert not (person.home / ".local").exists()


def test_a_script_without_a_clone_around_it_installs_nothing(person: Person, tmp_path: Path) -> None:
    before = person.listing()
    alone = Path(shutil.copy(INSTALL, tmp_path))
    done = person.run(alone, "--yes")
    assert done.returncode == 1
    assert f"{tmp_path} is not the install directory of a clone of mcpb." in done.stdout
    assert person.listing() == before


def test_purging_after_a_plain_uninstallation_names_the_command_that_removes_what_was_kept(
    person: Person,
) -> None:
    before = person.listing()
    person.have_installed()
    (person.home / ".mcpb/config.toml").touch()
    command = f"rm -r {shlex.quote(str(person.home / '.mcpb'))}"
    assert command in person.uninstall()
    done = person.run(UNINSTALL, "--purge")
    assert done.returncode == 1
    assert command in done.stdout
    assert "has put nothing" not in done.stdout
    subprocess.run(command, shell=True, check=True)
    assert person.listing() == before


def test_what_a_running_host_kept_from_purging_goes_with_the_next_run(person: Person) -> None:
    before = person.listing()
    person.have_installed()
    run = person.home / ".mcpb/run"
    host = endpoint.open_endpoint(run)
    assert "close them and run this again" in person.uninstall("--purge")
    waits = person.run(UNINSTALL, "--purge", "--yes")
    assert (waits.returncode, f"{run} is in use" in waits.stdout) == (1, True)
    host.close()
    assert "are removed now" in person.uninstall("--purge")
    assert person.listing() == before


def test_what_browsers_still_start_is_not_given_to_rm(person: Person) -> None:
    person.have_installed()
    shutil.rmtree(person.prefix)
    person.uninstall()
    done = person.run(UNINSTALL, "--purge")
    assert done.returncode == 1
    assert "rm -r" not in done.stdout
    assert "Run install/install.sh, then this again." in done.stdout


def test_a_shim_that_browsers_still_start_is_not_given_to_rm(person: Person) -> None:
    shim = person.home / ".mcpb/bin" / f"shim-{CLAUDE_CODE}"
    shim.parent.mkdir(parents=True)
    shim.touch()
    done = person.run(UNINSTALL, "--purge", "--yes")
    assert done.returncode == 1
    assert "rm -r" not in done.stdout


@pytest.mark.parametrize("is_installed_again", [False, True])
def test_after_its_folder_was_moved_away_nothing_is_left_behind_either(
    person: Person, tmp_path: Path, is_installed_again: bool
) -> None:
    before = person.listing()
    person.have_installed()
    person.prefix.rename(tmp_path / "elsewhere")
    if is_installed_again:
        person.install("--yes")
        person.uninstall("--purge")
        assert person.listing() == before
    else:
        person.uninstall()
        assert not (person.home / ".local").exists()


def test_without_its_record_an_installation_is_left_alone_and_says_how_it_goes(person: Person) -> None:
    person.have_installed()
    (person.prefix / "install.record").unlink()
    before = person.listing()
    done = person.run(UNINSTALL, "--yes")
    assert done.returncode == 1
    assert "no install.record is there, so nothing was removed" in done.stdout
    assert "mcpb uninstall-native-host" in done.stdout
    assert person.listing() == before


def test_where_nothing_is_installed_uninstalling_says_so(person: Person) -> None:
    before = person.listing()
    done = person.run(UNINSTALL)
    assert done.returncode == 1
    assert "has put nothing into" in done.stdout
    assert person.listing() == before


@pytest.mark.parametrize("script", [INSTALL, UNINSTALL])
def test_help_explains_each_option_and_does_nothing(person: Person, script: Path) -> None:
    before = person.listing()
    done = person.run(script, "--help")
    usage, _, explained = done.stdout.partition("\n")
    assert done.returncode == 0
    assert all(f"\n  {option}" in explained for option in re.findall(r"--[a-z]+", usage))
    assert person.listing() == before


@pytest.mark.parametrize("script", [INSTALL, UNINSTALL])
def test_an_option_that_it_does_not_know_is_refused_with_the_usage(person: Person, script: Path) -> None:
    done = person.run(script, "--purgee")
    assert done.returncode == 1
    assert "unknown: --purgee" in done.stdout
    assert "usage:" in done.stdout


def test_all_scripts_pass_shellcheck() -> None:
    shellcheck = shutil.which("shellcheck")
    if shellcheck is None and not os.environ.get("CI"):
        pytest.skip("no shellcheck: apt install shellcheck")
    scripts = [str(ROOT / ".ci/run"), *map(str, (ROOT / "install").glob("*.sh"))]
    done = subprocess.run([shellcheck or "shellcheck", *scripts], capture_output=True, text=True, check=False)
    assert done.stdout == ""
