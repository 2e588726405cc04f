"""Our program before another product's native host: the one file of others that changes, and its way back."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import venv
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from forked_commands import Commands, commands, listing
from install import shim_script
from install.commands import install_native_host
from install.examination.neighbours import CLAUDE_CODE, CLAUDE_DESKTOP
from install.shim_script import Shim
from installing import install, live_in, uninstall, use

ORIGINAL = '{ "name": "%s",\n\t"description": "theirs — ¿?", "path": "%s", "type": "stdio",\n "x": 1.50,\
 "allowed_origins": ["chrome-extension://fcoeoabgfenejglbffodgkkbkcdhcgfn/"]}'
LONG_AGO_NS = 1_600_000_000_123_456_789
KILLED = -9


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return live_in(tmp_path / "home", monkeypatch)


@pytest.fixture
def chromium(home: Path) -> Path:
    return use(home / ".config/chromium")


@pytest.fixture
def program(home: Path) -> Path:
    return a_program(home / ".claude/chrome/chrome-native-host")


@pytest.fixture
def code(chromium: Path, program: Path) -> Path:
    """Claude Code's manifest."""
    return register(chromium, CLAUDE_CODE, program)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("install.commands._is_anybody_there", lambda: True)


def a_program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\necho original: $0 $@\n")
    path.chmod(0o755)
    return path


def register(browser: Path, name: str, program: Path) -> Path:
    path = browser / "NativeMessagingHosts" / f"{name}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(ORIGINAL % (name, program))
    path.chmod(0o640)
    os.utime(path, ns=(LONG_AGO_NS, LONG_AGO_NS))
    return path


def shim(*arguments: str, typed: str = CLAUDE_CODE) -> Result:
    return CliRunner().invoke(install_native_host, ["--shim", *arguments], input=typed + "\n")


def unshim(*arguments: str) -> Result:
    return install("--unshim", *arguments)


def state(path: Path) -> tuple[object, ...]:
    found = path.lstat()
    return path.read_bytes(), found.st_mode, found.st_mtime_ns


def everything(home: Path) -> dict[str, tuple[object, ...]]:
    """Of others: what was never ours."""
    files = [path for path in home.rglob("*") if path.is_file() and ".mcpb" not in path.parts]
    return {str(path): state(path) for path in sorted(files)}


# ── There and back ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.usefixtures("terminal")
def test_the_manifest_gets_another_program_and_is_otherwise_what_it_was(code: Path, home: Path) -> None:
    before = json.loads(code.read_bytes())
    mode = code.stat().st_mode
    ended = shim()
    assert ended.exit_code == 0, ended.output
    ours = home / f".mcpb/bin/shim-{CLAUDE_CODE}"
    assert json.loads(code.read_bytes()) == before | {"path": str(ours)}
    assert code.stat().st_mode == mode
    assert ours.stat().st_mode & 0o777 == 0o700
    assert not (home / ".mcpb/bin/mcpb-native-host").exists()  # nothing else was asked for


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize("back", [unshim, uninstall])
def test_what_was_there_comes_back_with_its_mode_and_time_and_nothing_of_ours_is_left(
    code: Path, home: Path, back: Callable[..., Result]
) -> None:
    before, all_before = everything(home), listing(home)
    assert shim().exit_code == 0
    assert everything(home) != before
    ended = back()
    assert ended.exit_code == 0, ended.output
    assert everything(home) == before
    assert listing(home) == all_before


@pytest.mark.usefixtures("terminal")
def test_what_else_is_installed_stays_when_the_shim_goes(code: Path, home: Path, chromium: Path) -> None:
    install()
    before = listing(home)
    shim()
    assert unshim().exit_code == 0
    assert listing(home) == before


@pytest.mark.usefixtures("terminal")
def test_taking_a_browser_out_takes_the_shim_out_of_it(code: Path, home: Path, chromium: Path) -> None:
    other = register(use(home / ".config/vivaldi"), CLAUDE_CODE, home / ".claude/chrome/chrome-native-host")
    install()
    before = everything(home)
    shim()
    uninstall("--browser", "chromium")
    assert state(code) == before[str(code)]
    assert json.loads(other.read_bytes())["path"] == str(home / f".mcpb/bin/shim-{CLAUDE_CODE}")
    unshim("--browser", "vivaldi")
    assert state(other) == before[str(other)]
    assert not (home / f".mcpb/bin/shim-{CLAUDE_CODE}").exists()


@pytest.mark.usefixtures("terminal")
def test_a_second_time_there_is_nothing_to_do(code: Path, home: Path) -> None:
    shim()
    before = listing(home)
    again = shim("--yes", typed="")
    assert again.exit_code == 0
    assert "mcpb stands there already." in again.output
    assert listing(home) == before
    unshim()
    assert "mcpb stands before no other host." in unshim().output


@pytest.mark.usefixtures("terminal")
def test_an_upgrade_writes_our_program_anew_and_needs_no_typing(code: Path, home: Path) -> None:
    shim()
    ours = home / f".mcpb/bin/shim-{CLAUDE_CODE}"
    ours.write_text(ours.read_text().replace('"version":"', '"version":"0.0.0-'))
    assert shim("--yes", typed="").exit_code == 0
    assert "0.0.0-" not in ours.read_text()


# ── Said and asked ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.usefixtures("terminal")
def test_both_texts_are_shown_whole_before_anything_is_asked(code: Path, home: Path) -> None:
    original = code.read_text()
    shown = shim(typed="").output.partition("type its host name")[0]
    assert all(line.replace("\t", r"\t") in shown for line in original.splitlines())
    assert f'"path": "{home}/.mcpb/bin/shim-{CLAUDE_CODE}"' in shown


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize("typed", ["\n", "y\n", "yes\n", f"{CLAUDE_DESKTOP}\n", ""])
def test_nothing_but_the_host_s_name_is_a_yes(code: Path, home: Path, typed: str) -> None:
    before = listing(home)
    ended = CliRunner().invoke(install_native_host, ["--shim"], input=typed)  # the last: an end of input
    assert ended.exit_code == 1
    assert ended.output.endswith("\nThat is not the host's name. Nothing was changed.\n")
    assert listing(home) == before


def test_without_a_terminal_it_is_refused_before_anything_is_shown(code: Path, home: Path) -> None:
    assert_refused(code, home)


@pytest.mark.usefixtures("terminal")
def test_yes_is_no_typed_word(code: Path, home: Path) -> None:
    assert_refused(code, home, "--yes")


def assert_refused(code: Path, home: Path, *flags: str) -> None:
    before = listing(home)
    ended = shim(*flags)
    assert ended.exit_code == 2
    assert "typed confirmation" in ended.output
    assert str(code) not in ended.output
    assert listing(home) == before


def test_the_plan_begins_with_the_file_that_is_another_product_s(code: Path) -> None:
    plan = shim("--dry-run").output.partition("}\n\n")[2].splitlines()
    assert plan[0] == f"  replace {code}  (mode 0640) (another product's)"
    assert len([line for line in plan if "(another product's)" in line]) == 1
    assert len([line for line in plan if "ledger.json" in line]) == 1


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize("back", [unshim, uninstall])
def test_the_way_back_says_that_a_connection_outlives_it(code: Path, back: Callable[..., Result]) -> None:
    shim()
    shown = back("--dry-run").output
    assert f"{code} will be what it was before --shim" in shown
    assert "connects anew (open https://clau.de/chrome/reconnect" in shown
    back()
    assert "reconnect" not in back().output


def test_stepping_back_takes_no_host_name(code: Path) -> None:
    ended = unshim(CLAUDE_CODE)
    assert (ended.exit_code, "--unshim takes no host name" in ended.output) == (2, True)


def test_a_dry_run_shows_the_plan_and_as_json_the_original_s_text(code: Path, home: Path) -> None:
    before = listing(home)
    assert shim("--dry-run").exit_code == 0
    told = json.loads(shim("--dry-run", "--json").output)
    copies = [
        step["content"] for step in told["steps"] if "state/backup/" in step["path"] and "content" in step
    ]
    assert copies == [code.read_text()]
    assert listing(home) == before
    assert shim("--json", "--yes").exit_code == 2


@pytest.mark.usefixtures("terminal")
def test_stepping_back_can_be_tried_and_told_as_json(code: Path, home: Path) -> None:
    shim()
    before = listing(home)
    tried = json.loads(unshim("--dry-run", "--json").output)
    assert listing(home) == before
    done = json.loads(unshim("--json").output)
    assert done == tried | {"applied": True}
    assert not (home / ".mcpb").exists()


@pytest.mark.parametrize(
    "other", ["--replace", "--all", "--unshim", "--system", "--extension-id=" + "a" * 32]
)
def test_it_goes_with_no_other_change(code: Path, other: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert shim(other).exit_code == 2


# ── Which host ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.usefixtures("terminal")
def test_the_host_that_the_extension_would_take_is_meant(code: Path, chromium: Path, home: Path) -> None:
    desktop_program = home / "Claude/chrome-native-host"
    desktop = register(chromium, CLAUDE_DESKTOP, desktop_program)
    before = desktop.read_bytes()
    assert shim("--dry-run").output.startswith(f"{code} is:")  # that of Desktop is gone
    a_program(desktop_program)
    assert shim("--dry-run").output.startswith(f"{desktop} is:")
    assert shim(CLAUDE_CODE).exit_code == 0
    assert desktop.read_bytes() == before


def test_another_host_s_name_is_refused(code: Path) -> None:
    ended = shim("org.example.password_manager")
    assert ended.exit_code == 2
    assert CLAUDE_DESKTOP in ended.output


@pytest.mark.usefixtures("terminal")
def test_browsers_without_that_product_are_passed_over_unless_they_are_named(code: Path, home: Path) -> None:
    use(home / ".config/vivaldi")
    use(home / ".mozilla")
    assert shim("--dry-run").exit_code == 0
    named = shim("--dry-run", "--browser", "vivaldi")
    assert (named.exit_code, "Start that product once" in named.output) == (1, True)
    firefox = shim("--dry-run", "--browser", "firefox")
    assert (firefox.exit_code, "no extension for Firefox" in firefox.output) == (1, True)


def test_where_that_product_is_nowhere_it_says_so(chromium: Path) -> None:
    ended = shim()
    assert ended.exit_code == 1
    assert "nothing to stand before" in ended.output
    assert "in the way" not in ended.output


@pytest.mark.parametrize("browser", [[], ["--browser", "chromium"]])
def test_where_the_other_of_its_two_hosts_is_there_that_is_said(code: Path, browser: list[str]) -> None:
    ended = shim(CLAUDE_DESKTOP, *browser)
    assert ended.exit_code == 1
    assert "Claude Desktop's host is " in ended.output
    assert f"Claude Code's is: --shim {CLAUDE_CODE}" in ended.output
    assert "Start that product once" not in ended.output


def test_of_a_host_whose_program_is_gone_its_product_makes_it_anew(code: Path, program: Path) -> None:
    program.unlink()
    assert "cannot be started. Claude Code writes it anew when it is started" in shim().output


@pytest.mark.usefixtures("terminal")
def test_two_programs_of_one_name_are_not_stood_before_at_once(code: Path, home: Path) -> None:
    other = a_program(home / "other/chrome-native-host")
    register(use(home / ".config/vivaldi"), CLAUDE_CODE, other)
    before = listing(home)
    ended = shim()
    assert ended.exit_code == 1
    assert "different programs" in ended.output
    assert listing(home) == before
    assert shim("--browser", "vivaldi").exit_code == 0
    assert "different programs" in shim("--browser", "chromium").output


# ── What is not touched ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize("back", [unshim, uninstall])
def test_what_the_product_has_written_since_is_left_and_what_is_ours_goes(
    code: Path, home: Path, program: Path, back: Callable[..., Result]
) -> None:
    before = listing(home)
    shim()
    code.unlink()
    register(code.parent.parent, CLAUDE_CODE, program)
    code.write_text(code.read_text() + "\n\n")
    rewritten = state(code)
    ended = back()
    assert ended.exit_code == 0
    assert "was written anew by its product" in ended.output
    assert state(code) == rewritten
    assert listing(home).keys() == before.keys()


@pytest.mark.usefixtures("terminal")
def test_after_that_it_can_be_put_there_again_and_the_newer_original_comes_back(
    code: Path, home: Path, program: Path
) -> None:
    shim()
    register(code.parent.parent, CLAUDE_CODE, program)
    code.write_text(code.read_text() + "\n\n")
    rewritten = state(code)
    again = shim()
    assert (again.exit_code, "was written anew" in again.output) == (0, True)
    assert unshim().exit_code == 0
    assert state(code) == rewritten


@pytest.mark.usefixtures("terminal")
def test_a_manifest_that_was_deleted_since_stays_deleted(code: Path, home: Path) -> None:
    shim()
    code.unlink()
    ended = unshim()
    assert (ended.exit_code, "is gone" in ended.output) == (0, True)
    assert not code.exists()
    assert not (home / ".mcpb").exists()


@pytest.mark.usefixtures("terminal")
def test_without_the_copy_the_manifest_and_our_program_stay_because_it_would_start_nothing(
    code: Path, home: Path
) -> None:
    shim()
    shimmed = code.read_bytes()
    shutil.rmtree(home / ".mcpb/state/backup")
    ended = unshim()
    assert "stays: what was there before" in ended.output
    assert code.read_bytes() == shimmed
    assert (home / f".mcpb/bin/shim-{CLAUDE_CODE}").exists()


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize("back", [unshim, uninstall])
def test_a_manifest_that_has_become_a_link_since_goes_on_starting_what_it_names(
    code: Path, home: Path, back: Callable[..., Result]
) -> None:
    """As some keep their settings: whether it still names us, nobody can say who follows no links."""
    original = state(code)
    shim()
    as_link(code)
    ended = back()
    assert ended.exit_code == 0, ended.output
    assert "is a symbolic link" in ended.output
    assert Path(json.loads(code.read_bytes())["path"]).exists()
    code.with_name("elsewhere").rename(code)
    assert unshim().exit_code == 0
    assert state(code) == original
    assert (home / ".mcpb").exists() == (back is uninstall)  # where no ledger tells of it


@pytest.mark.usefixtures("terminal")
def test_where_the_copy_was_lost_the_product_s_next_manifest_is_stood_before_as_the_first(
    code: Path, home: Path, program: Path
) -> None:
    shim()
    shutil.rmtree(home / ".mcpb/state")
    assert shim("--yes").exit_code == 0  # it is known again, without a copy
    anew = state(register(code.parents[1], CLAUDE_CODE, program))
    ended = shim()
    assert ended.exit_code == 0, ended.output
    assert unshim().exit_code == 0
    assert state(code) == anew


@pytest.mark.usefixtures("terminal")
def test_without_a_ledger_what_is_ours_is_known_by_what_the_manifest_names(code: Path, home: Path) -> None:
    before = everything(home)
    shim()
    (home / ".mcpb/state/ledger.json").unlink()
    assert unshim().exit_code == 0
    assert everything(home) == before
    left = [path for path in (home / ".mcpb").rglob("*") if path.is_file()]
    assert left == [home / f".mcpb/bin/shim-{CLAUDE_CODE}"]  # for manifests that nobody knows of


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize("back", [unshim, uninstall])
def test_without_a_ledger_a_manifest_elsewhere_goes_on_starting_its_host(
    home: Path, program: Path, back: Callable[..., Result]
) -> None:
    elsewhere = use(home / "elsewhere")
    code = register(elsewhere, CLAUDE_CODE, program)
    original = state(code)
    shim("--user-data-dir", str(elsewhere))
    (home / ".mcpb/state/ledger.json").unlink()
    ended = back()
    assert ended.exit_code == 0, ended.output
    assert Path(json.loads(code.read_bytes())["path"]).exists()
    assert unshim("--user-data-dir", str(elsewhere)).exit_code == 0
    assert state(code) == original


@pytest.mark.usefixtures("terminal")
def test_after_mcpb_s_home_was_moved_the_manifest_still_comes_back(
    code: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = everything(home)
    shim()
    (home / ".mcpb").rename(home / "moved")
    monkeypatch.setenv("MCPB_HOME", str(home / "moved"))
    ended = unshim()
    assert ended.exit_code == 0, ended.output
    assert everything(home) == before


def as_link(path: Path) -> None:
    path.symlink_to(path.rename(path.with_name("elsewhere")))


def as_nonsense(path: Path) -> None:
    path.write_text("{")


def as_relative(path: Path) -> None:
    path.write_text(ORIGINAL % (CLAUDE_CODE, "relative"))


def as_another_name(path: Path) -> None:
    path.write_text(ORIGINAL % ("another", "/bin/cat"))


def as_giant(path: Path) -> None:
    path.write_text(path.read_text() + " " * 300_000)


def as_gone(path: Path) -> None:
    Path(json.loads(path.read_bytes())["path"]).unlink()


def as_another_mcpb_s(path: Path) -> None:
    script = path.parent / "shim"
    made = Shim(version="1", interpreter="/p", module="/m", home=None, program="/bin/cat")
    script.write_text(shim_script.script(made))
    script.chmod(0o700)
    path.write_text(ORIGINAL % (CLAUDE_CODE, script))


def behind_a_link(path: Path) -> None:
    path.parent.symlink_to(path.parent.rename(path.parent.with_name("elsewhere")))


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize(
    "spoil",
    [
        as_link,
        as_nonsense,
        as_relative,
        as_another_name,
        as_giant,
        as_gone,
        as_another_mcpb_s,
        behind_a_link,
    ],
)
def test_a_manifest_that_is_not_a_plain_and_sound_file_of_the_person_s_is_refused(
    code: Path, home: Path, spoil: Callable[[Path], None]
) -> None:
    spoil(code)
    before = listing(home)
    ended = shim()
    assert ended.exit_code == 1, ended.output
    assert str(code.name) in ended.output or str(code.parent) in ended.output
    assert listing(home) == before


@pytest.mark.skipif(os.getuid() != 0, reason="gives a file to another user")
@pytest.mark.usefixtures("terminal")
def test_a_manifest_of_another_user_is_refused(code: Path, home: Path) -> None:
    os.chown(code, 65534, -1)
    before = listing(home)
    assert "another user's" in shim().output
    assert listing(home) == before


@pytest.mark.usefixtures("terminal")
def test_another_file_in_our_program_s_place_is_refused(code: Path, home: Path) -> None:
    a_program(home / f".mcpb/bin/shim-{CLAUDE_CODE}")
    assert "is not ours" in shim().output


# ── Our program ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("gone", ["interpreter", "module"])
def test_without_mcpb_the_browser_gets_what_it_had_before(tmp_path: Path, gone: str) -> None:
    original = a_program(tmp_path / "it's $HOME/host")
    there = {"interpreter": "/bin/false", "module": "/bin/false", gone: str(tmp_path / "gone")}
    script = tmp_path / "shim"
    script.write_text(
        shim_script.script(Shim(version="1", home=str(tmp_path), program=str(original), **there))
    )
    script.chmod(0o700)
    ran = subprocess.run([script, "chrome-extension://x/", "a b"], check=True, capture_output=True, text=True)
    assert ran.stdout == f"original: {original} chrome-extension://x/ a b\n"


def test_where_the_interpreter_has_become_another_version_the_browser_gets_what_it_had_before(
    tmp_path: Path,
) -> None:
    """As after a system's upgrade: the environment's link leads to a Python that looks for us elsewhere."""
    venv.create(tmp_path / "env", with_pip=False)
    made = Shim(
        version="1",
        interpreter=str(tmp_path / "env/bin/python"),
        module=str(shim_script.MODULE),
        home=None,
        program=str(a_program(tmp_path / "host")),
    )
    script = tmp_path / "shim"
    script.write_text(shim_script.script(made))
    script.chmod(0o700)
    ran = subprocess.run([script, "chrome-extension://x/"], check=True, capture_output=True, text=True)
    assert ran.stdout == f"original: {made.program} chrome-extension://x/\n"
    assert "going on without mcpb" in ran.stderr


def test_a_script_tells_what_it_was_made_from() -> None:
    made = Shim(version="1", interpreter="/a b\n'", module="/m", home="/“h”", program="/p")
    assert shim_script.read(shim_script.script(made)) == made
    assert shim_script.read("#!/bin/sh\n# something\n") is None


# ── Killed ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def server() -> Iterator[Commands]:
    with commands() as running:
        yield running


@pytest.mark.parametrize("command", ["--shim", "--unshim"])
def test_killed_at_any_change_of_the_disk_the_manifest_works_and_everything_comes_back(
    server: Commands, tmp_path: Path, command: str
) -> None:
    home = tmp_path / "home"
    program = a_program(home / ".claude/chrome/chrome-native-host")
    code = register(use(home / ".config/chromium"), CLAUDE_CODE, program)
    server.defaults = {"home": str(home)}
    before, original = listing(home), state(code)
    if command == "--unshim":
        assert server.run("install-native-host", "--shim", typed=CLAUDE_CODE + "\n").exit_code == 0
    arguments = [command] if command == "--shim" else [command, "--yes"]
    prepared = tmp_path / "prepared"
    shutil.copytree(home, prepared, symlinks=True)
    for point in count(1):
        shutil.rmtree(home)
        shutil.copytree(prepared, home, symlinks=True)
        ended = server.run("install-native-host", *arguments, typed=CLAUDE_CODE + "\n", kill_at=point)
        assert Path(json.loads(code.read_bytes())["path"]).exists(), point
        if ended.exit_code != KILLED:
            assert ended.exit_code == 0, ended.output
            assert point > 8
            return
        if point % 2:
            # The name is asked for as long as the manifest is still the original, then a mere yes.
            again = server.run("install-native-host", *arguments, typed=f"{CLAUDE_CODE}\ny\n")
            assert again.exit_code == 0, again.output
        undone = server.run("uninstall-native-host", "--yes")
        assert undone.exit_code == 0, undone.output
        assert listing(home) == before, point
        assert state(code) == original, point


def test_what_a_dry_run_shows_is_what_is_then_done(server: Commands, tmp_path: Path) -> None:
    home = tmp_path / "home"
    register(use(home / ".config/chromium"), CLAUDE_CODE, a_program(home / "host"))
    server.defaults = {"home": str(home)}
    shown = json.loads(server.run("install-native-host", "--shim", "--dry-run", "--json").output)
    done = server.run("install-native-host", "--shim", typed=CLAUDE_CODE + "\n")
    changes = [
        path
        for step in shown["steps"]
        for path in ([step["draft"], step["path"]] if "draft" in step else [step["path"]])
    ]
    told = [
        path
        for event, paths in done.events
        if event in ("os.mkdir", "os.rename", "os.remove", "os.rmdir")
        for path in paths
    ]
    assert told == changes
