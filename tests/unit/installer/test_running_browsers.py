"""Which browsers run, as /proc and `ps` tell it, and what of it matters."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from install.browsers import known_browsers
from install.checks import running_browsers as running_module
from install.checks.running_browsers import PS, RunningBrowser, confinement_finding, running_browsers
from install.machine import Machine

ME = os.getuid()
ROWS = known_browsers()
CHROMIUM = "/usr/lib/chromium/chromium"
FIREFOX = "/usr/lib/firefox-esr/firefox-esr"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine("linux", tmp_path / "home", {}, tmp_path)


def start(machine: Machine, pid: int, program: str, *options: str, flatpak: bool = False) -> None:
    """As the kernel shows a process."""
    folder = machine.root / "proc" / str(pid)
    folder.mkdir(parents=True)
    (folder / "exe").symlink_to(program)
    (folder / "cwd").symlink_to("/work")
    (folder / "cmdline").write_bytes("\0".join([program, *options, ""]).encode())
    (folder / "root").mkdir()
    if flatpak:
        (folder / "root/.flatpak-info").touch()


def seen(machine: Machine, uid: int = ME) -> list[RunningBrowser]:
    return running_browsers(machine, ROWS, uid)


def only(machine: Machine) -> RunningBrowser:
    (running,) = seen(machine)
    return running


def test_the_main_process_of_a_browser_is_found_and_its_children_are_not(machine: Machine) -> None:
    start(machine, 100, CHROMIUM)
    start(machine, 101, CHROMIUM, "--type=renderer", "--lang=en")
    start(machine, 102, f"{CHROMIUM} --type=gpu-process --flag")  # some rewrite their command line
    start(machine, 200, FIREFOX)
    start(machine, 201, FIREFOX, "-contentproc", "-childID", "1")
    start(machine, 300, "/usr/bin/python3")
    assert [(each.pid, each.browser.name) for each in seen(machine)] == [(100, "chromium"), (200, "firefox")]


def test_other_users_browsers_are_passed_over(machine: Machine) -> None:
    start(machine, 100, CHROMIUM)
    assert seen(machine, uid=ME + 1) == []


def test_a_process_that_ended_meanwhile_is_passed_over(machine: Machine) -> None:
    (machine.root / "proc/100").mkdir(parents=True)
    start(machine, 101, CHROMIUM)
    assert only(machine).pid == 101


def test_a_browser_that_was_upgraded_while_it_ran_is_known_still(machine: Machine) -> None:
    start(machine, 100, f"{CHROMIUM} (deleted)")
    assert only(machine).program == CHROMIUM


@pytest.mark.parametrize(
    ("program", "name"),
    [
        ("/opt/google/chrome/chrome", "chrome"),
        ("/opt/google/chrome-beta/chrome", "chrome-beta"),
        ("/opt/microsoft/msedge/msedge", "edge"),
        ("/opt/brave.com/brave/brave", "brave"),
        ("/opt/vivaldi/vivaldi-bin", "vivaldi"),
        ("/usr/lib/firefox/firefox", "firefox"),
        ("/usr/lib/librewolf/librewolf", "librewolf"),
    ],
)
def test_a_program_names_its_row(program: str, name: str, machine: Machine) -> None:
    start(machine, 100, program)
    assert only(machine).browser.name == name


@pytest.mark.parametrize(
    ("options", "folder"),
    [
        (["--user-data-dir=/data/one"], "/data/one"),
        (["--user-data-dir=/data/one", "--user-data-dir=/data/two"], "/data/two"),
        (["--user-data-dir=below"], "/work/below"),
        (["--user-data-dir="], None),
        ([], None),
    ],
)
def test_a_folder_of_its_own_is_read_from_the_command_line(
    options: list[str], folder: str | None, machine: Machine
) -> None:
    start(machine, 100, CHROMIUM, *options)
    assert only(machine).user_data_dir == (Path(folder) if folder else None)


def test_firefoxs_own_profile_is_read_from_the_command_line(machine: Machine) -> None:
    start(machine, 100, FIREFOX, "--headless", "--profile", "/data/work", "about:blank")
    assert (only(machine).profile, only(machine).user_data_dir) == (Path("/data/work"), None)


def set_variables(machine: Machine, pid: int, **variables: str) -> None:
    content = "\0".join([f"{name}={value}" for name, value in variables.items()])
    (machine.root / "proc" / str(pid) / "environ").write_text(content)


def test_of_an_environment_only_what_says_where_folders_are_is_kept(machine: Machine) -> None:
    start(machine, 100, CHROMIUM)
    home = str(machine.user_home)
    set_variables(machine, 100, API_KEY="secret", HOME=home, XDG_CONFIG_HOME="/settings", XDG_X="y")
    assert only(machine).environ == {"HOME": home, "XDG_CONFIG_HOME": "/settings"}


def test_a_browser_of_another_home_is_nobodys_here(machine: Machine) -> None:
    start(machine, 100, CHROMIUM)
    set_variables(machine, 100, HOME="/another")
    assert seen(machine) == []


def test_a_confined_browser_has_a_home_of_its_own_and_runs_all_the_same(machine: Machine) -> None:
    start(machine, 100, "/snap/chromium/3000/usr/lib/chromium-browser/chrome")
    set_variables(machine, 100, HOME="/home/ada/snap/chromium/3000")
    assert only(machine).environ is None


@pytest.mark.parametrize(
    ("program", "flatpak", "confinement", "level"),
    [
        ("/snap/chromium/3000/usr/lib/chromium-browser/chrome", False, "snap", "fault"),
        ("/snap/firefox/5000/usr/lib/firefox/firefox", False, "snap", "note"),
        ("/app/chromium/chromium", True, "flatpak", "fault"),
        ("/app/lib/firefox/firefox", True, "flatpak", "warning"),
    ],
)
def test_what_a_confined_build_can_do_is_said(
    program: str, flatpak: bool, confinement: str, level: str, machine: Machine
) -> None:
    start(machine, 100, program, flatpak=flatpak)
    finding = confinement_finding(only(machine))
    assert finding is not None
    assert (only(machine).confinement, finding.code, finding.level) == (
        confinement,
        "browser-confined",
        level,
    )


def test_a_build_that_is_not_confined_needs_no_word(machine: Machine) -> None:
    start(machine, 100, CHROMIUM)
    assert confinement_finding(only(machine)) is None


# ── macOS ───────────────────────────────────────────────────────────────────────────────────────────────────

CHROME = "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"
PS_TEXT = f"""\
  100   501 {CHROME} --user-data-dir=/Users/ada/My Profiles/one --flag
  101   501 {CHROME} Helper --type=renderer
  102   502 {CHROME}
  103   501 /Applications/Firefox.app/Contents/MacOS/firefox -profile /Users/ada/p
  104   501 /sbin/launchd
"""


def test_on_macos_ps_tells(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running_module, "_run_ps", lambda: PS_TEXT)
    mac = Machine("macos", machine.user_home, {}, machine.root)
    found = {each.pid: each for each in seen(mac, uid=501)}
    assert found[103].profile == Path("/Users/ada/p")
    assert found[103].browser.name == "firefox"
    assert 101 not in found
    assert 102 not in found
    assert 104 not in found


def test_ps_takes_these_options_here_as_well() -> None:
    assert str(os.getpid()) in running_module._run_ps()
    assert PS[0] == "ps"


# ── A real one ──────────────────────────────────────────────────────────────────────────────────────────────
