"""One home for host, bridge, installer, scripts and doctor, whatever HOME and MCPB_HOME are, or a reason."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from bridge.cli.group import main
from install.cli import this_home
from install.installation import InstallationPaths
from native_host.system.home_layout import mcpb_home
from source_trees import ROOT

PASSWORDS = Path(pwd.getpwuid(os.getuid()).pw_dir)
PRINT_HOME = "from native_host.system.home_layout import mcpb_home; print(mcpb_home())"
SECONDS = 60


@dataclass(frozen=True)
class Terminal:
    """A terminal with a home directory, in which nothing is written."""

    directory: Path
    environ: Mapping[str, str]

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a program, with a current directory that no other test has."""
        return subprocess.run(
            command,
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), **self.environ},
            cwd=self.directory,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )

    def mcpb(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command of mcpb."""
        return self.run(sys.executable, "-m", "bridge", *arguments)

    @cached_property
    def wrapper(self) -> Any:
        """The planned step that writes the wrapper; nothing is applied."""
        profile = ["--user-data-dir", str(self.directory / "profile")]
        done = self.mcpb("install-native-host", "--dry-run", "--json", *profile)
        assert done.returncode == 0, done.stderr
        (step,) = (step for step in json.loads(done.stdout)["steps"] if step["path"].endswith("native-host"))
        return step

    def installer_home(self) -> Path:
        """Return the home in which the installer puts the wrapper."""
        return Path(self.wrapper["path"]).parents[1]

    def host_home(self, browser: Mapping[str, str]) -> Path:
        """Return the home of the host that a browser with these variables starts by the wrapper."""
        script = self.wrapper["content"].replace("-m native_host", f"-c '{PRINT_HOME}'")
        started = replace(self, environ=browser).run("/bin/sh", "-c", script)
        return Path(started.stdout.strip())

    def bridge_home(self) -> Path:
        """Return the home of the bridge that a client of this terminal starts."""
        return Path(self.run(sys.executable, "-c", PRINT_HOME).stdout.strip())

    def doctor_codes(self) -> set[str]:
        """Return the codes of the findings of `mcpb doctor`."""
        report = json.loads(self.mcpb("doctor", "--json").stdout)
        return {finding["code"] for finding in report["findings"]}

    def script(self, name: str) -> subprocess.CompletedProcess[str]:
        """Run a script so that it shows its help, which names its directories."""
        return self.run("/bin/sh", str(ROOT / "install" / name), "--help")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def directory_of_another_user(home: Path) -> Path:
    if os.getuid() != 0:
        return Path("/")  # root's
    other = home / "ana"
    other.mkdir()
    os.chown(other, 65534, 65534)
    return other


def browsers(home: Path) -> dict[str, dict[str, str]]:
    """Return variables of browsers: a usual one, confined ones, and one of a session without a home."""
    snap, flatpak = home / "snap/chromium/current", home / ".var/app/org.mozilla.firefox"
    for directory in (snap, flatpak):
        directory.mkdir(parents=True, exist_ok=True)
    return {
        "usual": {"HOME": str(home)},
        "Snap": {"HOME": str(snap), "SNAP": "/snap/chromium/1", "SNAP_REAL_HOME": str(home)},
        "Flatpak": {"HOME": str(flatpak), "FLATPAK_ID": "org.mozilla.firefox"},
        "no home": {},
        "another MCPB_HOME": {"HOME": str(home), "MCPB_HOME": str(home / "else")},
    }


@pytest.mark.parametrize("chosen", ["", "my mcpb"])
def test_with_a_home_of_the_user_everything_is_in_it_or_in_mcpb_home(home: Path, chosen: str) -> None:
    expected = home / (chosen or ".mcpb")
    environ = {"HOME": str(home), **({"MCPB_HOME": str(expected)} if chosen else {})}
    terminal = Terminal(home, environ)
    assert terminal.bridge_home() == expected
    assert terminal.installer_home() == expected
    found = {name: terminal.host_home(variables) for name, variables in browsers(home).items()}
    assert found == dict.fromkeys(found, expected)
    assert f"\n                {expected}\n" in terminal.script("uninstall.sh").stdout
    assert f"{home}/.local/bin/mcpb" in terminal.script("install.sh").stdout
    assert "home-of-another-user" not in terminal.doctor_codes()


@pytest.mark.parametrize("named", [None, "", "relative", "/nonexistent", "file"])
def test_without_a_home_everything_is_in_that_of_the_password_database_and_scripts_say_why_not(
    home: Path, named: str | None
) -> None:
    (home / "relative").mkdir()
    (home / "file").touch()
    value = str(home / "file") if named == "file" else named
    terminal = Terminal(home, {} if value is None else {"HOME": value})
    expected = PASSWORDS / ".mcpb"
    assert terminal.bridge_home() == expected
    assert terminal.installer_home() == expected
    found = {name: terminal.host_home(variables) for name, variables in browsers(home).items()}
    assert found == dict.fromkeys(found, expected)
    for name in ("install.sh", "uninstall.sh"):
        done = terminal.script(name)
        assert (done.returncode, done.stdout) == (1, "")
        assert "HOME is" in done.stderr
        assert "Nothing was changed." in done.stderr


def test_with_the_home_of_another_user_nothing_is_written_and_the_reason_is_named(home: Path) -> None:
    """As `sudo` without -H may leave it; with -H it is the user's own."""
    other = directory_of_another_user(home)
    terminal = Terminal(home, {"HOME": str(other)})
    assert terminal.bridge_home() == PASSWORDS / ".mcpb"
    assert "home-of-another-user" in terminal.doctor_codes()
    refused = terminal.mcpb("install-native-host", "--dry-run")
    assert (refused.returncode, f"HOME is {other}" in refused.stderr) == (1, True)
    for name in ("install.sh", "uninstall.sh"):
        done = terminal.script(name)
        assert done.returncode == 1
        assert f"HOME is {other}, which belongs to another user" in done.stderr
    assert list(other.iterdir()) == [] or other == Path("/")


@pytest.mark.parametrize("named", [None, "/nonexistent", "of another user"])
def test_mcpb_home_counts_whatever_home_is_and_scripts_and_installer_check_home_all_the_same(
    home: Path, named: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In this process, but for the scripts, which cost little."""
    chosen, is_foreign = home / "chosen", named == "of another user"
    value = str(directory_of_another_user(home)) if is_foreign else named
    monkeypatch.setenv("MCPB_HOME", str(chosen))
    monkeypatch.delenv("HOME")
    if value is not None:
        monkeypatch.setenv("HOME", value)
    assert this_home() == InstallationPaths(chosen, PASSWORDS)
    assert mcpb_home() == chosen
    profile = ["--user-data-dir", str(home / "profile")]
    planned = CliRunner().invoke(main, ["install-native-host", "--dry-run", "--json", *profile])
    assert planned.exit_code == is_foreign, planned.output
    if is_foreign:
        assert f"HOME is {value}" in planned.output
    else:
        paths = [step["path"] for step in json.loads(planned.stdout)["steps"]]
        assert str(chosen / "bin/mcpb-native-host") in paths
    environ = {"MCPB_HOME": str(chosen), **({} if value is None else {"HOME": value})}
    for name in ("install.sh", "uninstall.sh"):
        done = Terminal(home, environ).script(name)
        assert (done.returncode, done.stdout) == (1, "")
        assert "HOME is" in done.stderr
    assert not chosen.exists()


def test_a_relative_mcpb_home_would_be_another_one_in_each_directory_and_is_rejected(home: Path) -> None:
    terminal = Terminal(home, {"HOME": str(home), "MCPB_HOME": "mine"})
    for command in (["bridge"], ["status"], ["doctor"], ["install-native-host", "--yes"], ["extension"]):
        done = terminal.mcpb(*command)
        assert done.returncode == 2, command
        assert "MCPB_HOME is 'mine', a relative path" in done.stderr
    for name in ("install.sh", "uninstall.sh"):
        assert "MCPB_HOME is mine: set it to an absolute path" in terminal.script(name).stderr
    assert list(home.iterdir()) == []
