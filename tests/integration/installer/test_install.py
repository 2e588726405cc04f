"""`mcpb install-native-host`: what it writes, what it leaves alone, and what the browser starts."""

import json
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from install.browsers import user_data_dir_target
from install.cli import install_native_host, uninstall_native_host
from install.installation import InstallationPaths, RegisteredHost
from install.plan import apply, install_plan
from native_host.protocol import wire
from native_host.system.home_layout import HomeLayout

MANIFEST = f"NativeMessagingHosts/{wire.HOST_NAME}.json"
OTHER_EXTENSION = "a" * 32


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home directory of a user, with mcpb's own home below it."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(
        "install.interpreter._prove_interpreter", lambda _interpreter: None
    )  # it starts a process
    monkeypatch.setattr("install.targets.installed_browsers", lambda *_: [])
    monkeypatch.setenv("MCPB_HOME", str(tmp_path / "mcpb"))
    monkeypatch.delenv("CHROME_CONFIG_HOME", raising=False)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    return tmp_path


@pytest.fixture
def chromium(home: Path) -> Path:
    """Chromium has been used: its user data directory is there."""
    directory = home / ".config" / "chromium"
    directory.mkdir(parents=True)
    return directory


def install(*arguments: str) -> Result:
    return CliRunner().invoke(install_native_host, ["--yes", *arguments])


def uninstall(*arguments: str) -> Result:
    return CliRunner().invoke(uninstall_native_host, ["--yes", *arguments])


def everything_below(directory: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(directory)): path.read_bytes() if path.is_file() else None
        for path in directory.rglob("*")
    }


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


# ── What is written ─────────────────────────────────────────────────────────────────────────────────────────


def test_the_manifest_is_what_a_browser_accepts_and_the_wrapper_is_private(
    home: Path, chromium: Path
) -> None:
    assert install().exit_code == 0
    manifest = json.loads((chromium / MANIFEST).read_bytes())
    assert manifest == {
        "name": wire.HOST_NAME,
        "description": "mcpb: web pages' tools for local MCP clients",
        "type": "stdio",
        "path": str(home / "mcpb/bin/mcpb-native-host"),
        "allowed_origins": [f"chrome-extension://{wire.EXTENSION_ID}/"],
    }
    assert mode(chromium / MANIFEST) == 0o600
    assert mode(home / "mcpb/bin/mcpb-native-host") == 0o700
    assert mode(home / "mcpb/bin") == 0o700


@pytest.mark.parametrize("variable", ["XDG_CONFIG_HOME", "CHROME_CONFIG_HOME"])
def test_the_browser_s_own_variables_move_its_directory(
    home: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, str(home / "elsewhere"))
    (home / "elsewhere/google-chrome").mkdir(parents=True)
    assert install().exit_code == 0
    assert (home / "elsewhere/google-chrome" / MANIFEST).exists()


def test_only_browsers_that_are_there_are_registered(home: Path, chromium: Path) -> None:
    install()
    assert (chromium / MANIFEST).exists()
    assert not (home / ".config/google-chrome").exists()


def test_without_any_browser_it_says_what_to_do_in_few_words_and_writes_nothing(home: Path) -> None:
    result = install()
    assert result.exit_code == 3
    assert "mcpb install-native-host --browser chromium" in result.output
    assert "Chrome, Chromium, Firefox and their relatives" in result.output
    assert len(result.output) < 300
    assert everything_below(home) == {}


def test_a_user_data_directory_can_be_named_instead(home: Path, chromium: Path) -> None:
    assert install("--user-data-dir", str(home / "one"), "--user-data-dir", str(home / "two")).exit_code == 0
    assert (home / "one" / MANIFEST).exists()
    assert (home / "two" / MANIFEST).exists()
    assert not (chromium / MANIFEST).exists()


def test_a_second_run_changes_nothing_and_says_so(home: Path, chromium: Path) -> None:
    install()
    before = everything_below(home)
    stamps = {path: path.lstat().st_mtime_ns for path in home.rglob("*")}
    result = install()
    assert "Registered already." in result.output
    assert everything_below(home) == before
    assert {path: path.lstat().st_mtime_ns for path in home.rglob("*")} == stamps


def test_the_plan_says_what_the_ledger_is(home: Path, chromium: Path) -> None:
    lines = install("--dry-run").output.splitlines()
    (line,) = [line for line in lines if "ledger.json" in line]
    assert line.endswith("the list of what mcpb has written, for uninstalling")


def test_a_dry_run_shows_the_plan_and_writes_nothing(home: Path, chromium: Path) -> None:
    before = everything_below(home)
    result = CliRunner().invoke(install_native_host, ["--dry-run"])
    assert result.exit_code == 0
    assert str(chromium / MANIFEST) in result.output
    assert everything_below(home) == before


def test_without_a_terminal_nothing_is_applied_unasked(home: Path, chromium: Path) -> None:
    before = everything_below(home)
    result = CliRunner().invoke(install_native_host, [])
    assert result.exit_code == 2
    assert "--yes" in result.output
    assert everything_below(home) == before


def test_the_plan_as_json_holds_the_very_files(home: Path, chromium: Path) -> None:
    planned = json.loads(CliRunner().invoke(install_native_host, ["--dry-run", "--json"]).output)
    assert planned["applied"] is False
    install()
    written = {step["path"]: step["content"] for step in planned["steps"] if "content" in step}
    assert written == {path: Path(path).read_text() for path in written}
    assert len(written) == 3


def test_another_extension_is_admitted_on_request_and_stays_admitted(home: Path, chromium: Path) -> None:
    install("--extension-id", OTHER_EXTENSION)
    install()
    both = [f"chrome-extension://{wire.EXTENSION_ID}/", f"chrome-extension://{OTHER_EXTENSION}/"]
    assert json.loads((chromium / MANIFEST).read_bytes())["allowed_origins"] == both
    admitted = f"MCPB_CALLERS='{both[0]} {wire.FIREFOX_ID} {both[1]}'"
    assert admitted in (home / "mcpb/bin/mcpb-native-host").read_text()


NO_IDS = ["", "A" * 32, "a" * 31, "q" * 32, "*", f"chrome-extension://{'a' * 32}/"]
NO_ADDON_IDS = ["{" + "-" * 36 + "}", "{" + "a" * 36 + "}", "{0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5}"]


@pytest.mark.parametrize("wrong", NO_IDS + NO_ADDON_IDS)
def test_what_is_no_extension_id_is_refused(chromium: Path, wrong: str) -> None:
    assert install("--extension-id", wrong).exit_code == 2
    assert not (chromium / MANIFEST).exists()


# ── What is left alone ──────────────────────────────────────────────────────────────────────────────────────


def a_foreign_manifest(path: Path) -> None:
    path.write_text('{"name": "dev.mcpb.native_host", "path": "/bin/cat"}')


def a_link(path: Path) -> None:
    path.symlink_to(path.parent.parent / "target")


def a_link_to_nowhere(path: Path) -> None:
    path.symlink_to("/nonexistent")


def a_directory(path: Path) -> None:
    path.mkdir()


def no_json(path: Path) -> None:
    path.write_text("{")


@pytest.mark.parametrize("obstacle", [a_foreign_manifest, a_link, a_link_to_nowhere, a_directory, no_json])
def test_what_is_not_ours_stays_and_nothing_else_is_written(
    home: Path, chromium: Path, obstacle: Callable[[Path], None]
) -> None:
    (chromium / MANIFEST).parent.mkdir()
    obstacle(chromium / MANIFEST)
    before = everything_below(home)
    result = install()
    assert result.exit_code == 1
    assert str(chromium / MANIFEST) in result.output
    assert "mcpb install-native-host --browser chromium --replace" in result.output
    assert everything_below(home) == before


def test_a_linked_manifest_directory_is_refused(home: Path, chromium: Path) -> None:
    (home / "elsewhere").mkdir()
    (chromium / "NativeMessagingHosts").symlink_to(home / "elsewhere")
    assert install().exit_code == 1
    assert list((home / "elsewhere").iterdir()) == []


def test_a_program_in_the_wrapper_s_place_is_refused(home: Path, chromium: Path) -> None:
    HomeLayout(home / "mcpb").wrapper.parent.mkdir(parents=True)
    HomeLayout(home / "mcpb").wrapper.write_text("#!/bin/sh\necho mine\n")
    assert install().exit_code == 1
    assert HomeLayout(home / "mcpb").wrapper.read_text() == "#!/bin/sh\necho mine\n"


def test_a_wrapper_directory_that_others_can_write_is_refused(home: Path, chromium: Path) -> None:
    (home / "mcpb/bin").mkdir(parents=True)
    (home / "mcpb/bin").chmod(0o777)
    result = install()
    assert result.exit_code == 1
    assert f"chmod go-w {home / 'mcpb/bin'}" in result.output


def test_a_file_that_changes_between_plan_and_apply_is_not_overwritten(home: Path, chromium: Path) -> None:
    host = RegisteredHost(InstallationPaths(home / "mcpb", home), Path(sys.executable))
    made = install_plan.plan_install(host, [user_data_dir_target(chromium)], [], apply.read_place)
    (chromium / MANIFEST).parent.mkdir()
    (chromium / MANIFEST).write_text("somebody was quicker")
    with pytest.raises(apply.ApplyError, match="has changed"):
        apply.apply_plan(made)
    assert (chromium / MANIFEST).read_text() == "somebody was quicker"
    assert list((chromium / MANIFEST).parent.iterdir()) == [chromium / MANIFEST]


# ── Uninstall ───────────────────────────────────────────────────────────────────────────────────────────────


def test_uninstall_leaves_the_disk_as_it_was(home: Path, chromium: Path) -> None:
    before = everything_below(home)
    install()
    result = uninstall()
    assert result.exit_code == 0
    assert str(chromium / MANIFEST) in result.output
    assert everything_below(home) == before


def test_uninstall_finds_the_named_directories_again(home: Path) -> None:
    install("--user-data-dir", str(home / "profile"))
    uninstall()
    assert not (home / "profile" / MANIFEST).exists()
    assert not HomeLayout(home / "mcpb").wrapper.exists()


def test_the_wrapper_stays_until_the_last_browser_is_gone(home: Path, chromium: Path) -> None:
    install("--browser", "chromium", "--user-data-dir", str(home / "profile"))
    uninstall("--browser", "chromium")
    assert HomeLayout(home / "mcpb").wrapper.exists()
    uninstall("--user-data-dir", str(home / "profile"))
    assert not HomeLayout(home / "mcpb").wrapper.exists()


def test_uninstall_keeps_other_products_manifests(home: Path, chromium: Path) -> None:
    install()
    other = chromium / "NativeMessagingHosts/com.example.other.json"
    other.write_text("{}")
    (chromium / MANIFEST).write_text('{"name": "dev.mcpb.native_host", "path": "/bin/cat"}')
    uninstall()
    assert other.read_text() == "{}"
    assert (chromium / MANIFEST).exists()
    assert not HomeLayout(home / "mcpb").wrapper.exists()


def test_uninstall_without_an_installation_says_so(home: Path, chromium: Path) -> None:
    result = uninstall()
    assert result.exit_code == 0
    assert "Nothing of mcpb is registered here." in result.output
    (home / "mcpb/run").mkdir(parents=True)
    result = uninstall()
    assert result.output.endswith("Nothing of mcpb is registered here.\n")
    assert not (home / "mcpb").exists()


# ── What people type ────────────────────────────────────────────────────────────────────────────────────────


def test_an_empty_user_data_dir_is_refused_and_not_taken_for_the_current_one(chromium: Path) -> None:
    """An unset shell variable comes as an empty word."""
    result = install("--user-data-dir", "")
    assert result.exit_code == 2
    assert "it is empty" in result.output


def test_a_path_that_is_not_utf_8_is_refused_because_a_manifest_cannot_hold_it(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = install("--user-data-dir", str(home / "a\udcff"))
    assert result.exit_code == 2
    assert "not UTF-8" in result.output
    monkeypatch.setenv("MCPB_HOME", str(home / "a\udcff"))
    assert "MCPB_HOME is not UTF-8" in install("--user-data-dir", str(home)).output


def test_the_plan_shows_every_directory_that_it_will_make(home: Path) -> None:
    directory = home / "not" / "yet"
    result = CliRunner().invoke(install_native_host, ["--dry-run", "--user-data-dir", str(directory)])
    made = [line.split()[1] for line in result.output.splitlines() if line.split()[:1] == ["make"]]
    ours = [home / "mcpb", home / "mcpb/state", home / "mcpb/bin"]
    below = [*ours, home / "not", directory, directory / "NativeMessagingHosts"]
    assert made == [f"{path}/" if not str(path).endswith("/") else str(path) for path in below]
    assert install("--user-data-dir", str(directory)).exit_code == 0
    assert (directory / MANIFEST).exists()


def test_saying_no_changes_nothing_and_says_so(
    home: Path, chromium: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("install.cli._is_anybody_there", lambda: True)
    before = everything_below(home)
    result = CliRunner().invoke(install_native_host, [], input="n\n")
    assert result.exit_code == 1
    assert result.output.endswith("Nothing was changed.\n")
    assert everything_below(home) == before


@pytest.mark.parametrize("name", ["a\u2028b", "a\x85b", "a\nb", 'it\'s 100% \\ "quoted"', "日本語"])
def test_a_path_with_any_character_is_installed_found_again_and_removed(
    home: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("MCPB_HOME", str(home / name))
    directory = home / f"profile {name}"
    before = everything_below(home)
    assert install("--user-data-dir", str(directory)).exit_code == 0
    assert "Registered already." in install("--user-data-dir", str(directory)).output
    assert uninstall().exit_code == 0
    assert everything_below(home) == before
