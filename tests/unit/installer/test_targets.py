"""Which browsers are meant, for whom, and what people are told who type something else."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from forked_commands import listing
from install.cli import install_native_host
from install.interpreter import find_unreachable
from install.machine import Machine
from installer_home import FIREFOX_MANIFEST, MANIFEST, install, live_in, uninstall, use
from native_host.ipc import endpoint
from native_host.protocol import wire


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return live_in(tmp_path / "home", monkeypatch)


@pytest.fixture
def chromium(home: Path) -> Path:
    return use(home / ".config/chromium")


# ── By name ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_browser_that_is_named_need_not_have_been_used(home: Path) -> None:
    start = listing(home)
    assert install("--browser", "vivaldi").exit_code == 0
    assert (home / ".config/vivaldi" / MANIFEST).exists()
    uninstall()
    assert listing(home) == start


def test_a_name_that_is_none_names_the_nearest(home: Path, chromium: Path) -> None:
    ended = install("--browser", "chromum")
    assert ended.exit_code == 2
    assert "--browser: 'chromum' is no browser that mcpb knows. Did you mean chromium?" in ended.output
    assert not (home / ".mcpb").exists()


def test_the_case_of_a_name_is_nothing(home: Path, chromium: Path) -> None:
    assert install("--browser", "Chromium").exit_code == 0
    assert (chromium / MANIFEST).exists()


@pytest.mark.parametrize(
    ("word", "said"), [("chromium", "Did you mean --browser chromium?"), ("/x", "argument (/x).\n")]
)
@pytest.mark.parametrize("run", [install, uninstall])
def test_a_name_without_its_option_is_answered_with_the_option(
    home: Path, chromium: Path, run: Callable[..., Result], word: str, said: str
) -> None:
    ended = run(word)
    assert ended.exit_code == 2
    assert said in ended.output
    assert not (home / ".mcpb").exists()


@pytest.mark.parametrize(
    ("arguments", "folder"),
    [
        (["--browser", "vivaldi"], ".config/vivaldi"),
        (["--user-data-dir", "{home}/profil"], "profil"),
        (["--dir", "{home}/hosts"], "hosts"),
    ],
)
def test_a_folder_that_would_be_made_is_asked_about(home: Path, arguments: list[str], folder: str) -> None:
    named = [argument.format(home=home) for argument in arguments]
    asked = f"{home / folder} is not there yet. Is it spelt right?"
    assert asked in install("--dry-run", *named).output
    install(*named)
    assert "spelt right" not in install(*named).output


def test_a_browser_of_another_system_is_refused_with_the_way_round(home: Path) -> None:
    ended = install("--browser", "arc")
    assert ended.exit_code == 2
    assert "--dir DIR" in ended.output


def test_firefox_gets_a_manifest_of_its_kind(home: Path) -> None:
    use(home / ".mozilla")
    assert install().exit_code == 0
    manifest = json.loads((home / ".mozilla" / FIREFOX_MANIFEST).read_bytes())
    assert manifest["allowed_extensions"] == [wire.FIREFOX_ID]
    assert "allowed_origins" not in manifest


def test_each_browser_is_told_of_the_extensions_of_its_kind(home: Path, chromium: Path) -> None:
    use(home / ".mozilla")
    assert install("--extension-id", "a" * 32, "--extension-id", "dev@example.com").exit_code == 0
    ours = f"chrome-extension://{wire.EXTENSION_ID}/"
    firefox = json.loads((home / ".mozilla" / FIREFOX_MANIFEST).read_bytes())
    assert firefox["allowed_extensions"] == [wire.FIREFOX_ID, "dev@example.com"]
    origins = json.loads((chromium / MANIFEST).read_bytes())["allowed_origins"]
    assert origins == [ours, f"chrome-extension://{'a' * 32}/"]


# ── By folder ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("folder", "options", "key"),
    [
        ("some/native-messaging-hosts", [], "allowed_extensions"),
        ("some/NativeMessagingHosts", [], "allowed_origins"),
        ("some/hosts", ["--kind", "firefox"], "allowed_extensions"),
    ],
)
def test_a_folder_takes_the_manifest_that_its_name_or_the_person_says(
    home: Path, folder: str, options: list[str], key: str
) -> None:
    start = listing(home)
    assert install("--dir", str(home / folder), *options).exit_code == 0
    assert key in json.loads((home / folder / f"{wire.HOST_NAME}.json").read_bytes())
    uninstall("--dir", str(home / folder), *options)
    assert not (home / "some").exists()
    uninstall()
    assert listing(home) == start


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--kind", "firefox"], "add --dir DIR"),
        (["--system", "--dir", "x"], "--browser"),
        (["--dir", ""], "it is empty"),
        (["--extension-id", "nothing"], "about:debugging"),
        (["--json"], "--yes or --dry-run"),
    ],
)
def test_what_does_not_fit_together_is_explained(
    home: Path, chromium: Path, arguments: list[str], said: str
) -> None:
    ended = CliRunner().invoke(install_native_host, arguments)
    assert ended.exit_code == 2
    assert said in ended.output


def test_the_person_s_own_table_that_cannot_be_read_is_named(home: Path, chromium: Path) -> None:
    (home / ".mcpb").mkdir()
    (home / ".mcpb/browsers.toml").write_text("[[browser]]\nnam = 'x'\n")
    ended = install()
    assert ended.exit_code == 1
    assert str(home / ".mcpb/browsers.toml") in ended.output


def test_the_person_s_own_table_that_cannot_be_read_does_not_keep_mcpb_from_going(
    home: Path, chromium: Path
) -> None:
    start = listing(home)
    install("--browser", "chromium")
    (home / ".mcpb/browsers.toml").write_text("[[browser]]\nnam = 'x'\n")
    assert uninstall("--browser", "chromium").exit_code == 1
    assert uninstall("--purge").exit_code == 0
    assert listing(home) == start


@pytest.mark.skipif(os.getuid() != 0, reason="gives the home away")
@pytest.mark.parametrize("run", [install, uninstall])
def test_root_with_somebody_s_home_is_told_to_run_it_as_that_user(
    home: Path, chromium: Path, run: Callable[..., Result]
) -> None:
    os.chown(home, 65534, 65534)
    ended = run()
    assert ended.exit_code == 1
    assert "Run it as nobody, without sudo" in ended.output
    assert not (home / ".mcpb").exists()


def test_a_relative_folder_for_settings_is_ignored(
    home: Path, chromium: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", "settings")
    install()
    assert (chromium / MANIFEST).exists()


def test_a_link_that_leads_nowhere_is_no_browser(home: Path, chromium: Path) -> None:
    (home / ".config/vivaldi").symlink_to(home / "gone")
    assert install().exit_code == 0
    assert (chromium / MANIFEST).exists()


# ── Browsers in a sandbox ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("folder", "said"),
    [
        (".var/app/org.chromium.Chromium", "Chromium from Flatpak cannot start a program outside"),
        ("snap/chromium", "Chromium from Snap cannot start a program outside"),
        ("snap/firefox", "Firefox from Snap starts hosts through the desktop's portal"),
    ],
)
def test_of_a_browser_in_a_sandbox_it_says_what_works(
    home: Path, chromium: Path, folder: str, said: str
) -> None:
    use(home / folder)
    assert said in install().output
    assert sorted((home / folder).iterdir()) == []


# ── For all users ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def root(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The root of a machine on which Chromium and Firefox are installed for all, and we are root."""
    root = home.with_name("root")
    for folder in ("etc/chromium", "usr/lib/mozilla", "usr/local/lib"):
        (root / folder).mkdir(parents=True)
    machine = Machine("linux", home, os.environ, root)
    monkeypatch.setattr("install.cli.this_machine", lambda: machine)
    monkeypatch.setattr("install.cli.find_unreachable", lambda _interpreter: None)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return root


def test_for_all_users_everybody_can_read_it_and_no_home_is_baked_in(
    root: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MCPB_HOME", str(home / "mine"))
    start = listing(root)
    first = install("--system")
    assert first.exit_code == 0
    wrapper = root / "usr/local/lib/mcpb/bin/mcpb-native-host"
    manifest = root / f"etc/chromium/native-messaging-hosts/{wire.HOST_NAME}.json"
    assert json.loads(manifest.read_bytes())["path"] == str(wrapper)
    assert (root / "usr/lib/mozilla" / FIREFOX_MANIFEST).exists()
    assert 'Undo: sudo "$(command -v mcpb)" uninstall-native-host --system' in first.output
    assert "\nunset MCPB_HOME\nunset HOME\n" in wrapper.read_text()
    modes = {str(path.relative_to(root)): path.stat().st_mode & 0o7777 for path in root.rglob("*")}
    assert modes[str(wrapper.relative_to(root))] == 0o755
    assert modes["usr/local/lib/mcpb/state/ledger.json"] == modes[str(manifest.relative_to(root))] == 0o644
    assert modes["usr/local/lib/mcpb"] == modes["etc/chromium/native-messaging-hosts"] == 0o755
    assert not (home / "mine").exists()
    assert not (home / ".mcpb").exists()
    assert uninstall().exit_code == 0, "the person's own is another one"
    assert wrapper.exists()
    assert uninstall("--system").exit_code == 0
    assert listing(root) == start


def test_modes_are_as_planned_whatever_the_umask(root: Path) -> None:
    umask = os.umask(0o077)
    try:
        install("--system")
    finally:
        os.umask(umask)
    assert (root / "usr/local/lib/mcpb/bin").stat().st_mode & 0o777 == 0o755


def test_for_all_users_a_browser_without_such_a_folder_is_refused(root: Path) -> None:
    ended = install("--system", "--browser", "comet")
    assert ended.exit_code == 2
    assert "for hosts of all users" in ended.output


def test_without_root_it_says_sudo(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    ended = install("--system")
    assert ended.exit_code == 1
    assert 'sudo "$(command -v mcpb)" install-native-host --system' in ended.output


def test_a_python_that_other_users_cannot_reach_is_refused_with_the_closed_folder(
    root: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("install.cli.find_unreachable", find_unreachable)
    python = home / "private/bin/python"
    python.parent.mkdir(parents=True)
    python.touch(mode=0o755)
    (home / "private").chmod(0o700)
    closed = find_unreachable(python)
    assert closed in python.parents
    monkeypatch.setattr("sys.executable", str(python))
    ended = install("--system")
    assert ended.exit_code == 1
    assert f"other users cannot reach {python}: {closed} is closed to them" in ended.output
    assert not (root / "usr/local/lib/mcpb").exists()


# ── What goes besides ───────────────────────────────────────────────────────────────────────────────────────


def test_what_dead_hosts_left_goes_and_a_living_host_s_files_stay(home: Path, chromium: Path) -> None:
    install()
    living = endpoint.open_endpoint(home / ".mcpb/run")
    (home / ".mcpb/run/dead.lock").touch(mode=0o600)
    (home / ".mcpb/run/dead.json").write_text("{}")
    ended = uninstall()
    assert {path.stem for path in (home / ".mcpb/run").iterdir()} == {living.instance}
    assert f"{home / '.mcpb/run'} is in use by a running browser" in ended.output
    living.close()
    assert "in use" not in uninstall().output
    assert not (home / ".mcpb").exists()


def test_purge_removes_what_mcpb_keeps_and_nothing_that_it_does_not_know(home: Path, chromium: Path) -> None:
    start = listing(home)
    install()
    state = ["audit.jsonl", "tools.sqlite", "mcpb.log", "http-token", "http-tokens.json", "approvals.json"]
    state += ["pauses.json", "pauses.json.new", "profiles.json", "profiles.json.new"]
    kept = ["config.toml", "shortcuts.toml", *(f"state/{name}" for name in state)]
    (home / ".mcpb/pictures").mkdir()
    (home / ".mcpb/pictures/page.png").write_text("a screenshot")
    for name in kept:
        (home / ".mcpb" / name).write_text("something")
    copy = home / ".mcpb/extension"
    copy.mkdir()
    (copy / "manifest.json").write_bytes((Path(__file__).parents[3] / "extension/manifest.json").read_bytes())
    (copy / "worker").mkdir()
    (copy / "worker/service_worker.js").write_text("of an earlier version")
    (home / ".mcpb/extension-firefox").mkdir()
    (home / ".mcpb/extension-firefox/mine.txt").write_text("not a copy")
    (home / ".mcpb/notes.txt").write_text("mine")
    assert uninstall("--purge", "--browser", "chromium").exit_code == 2
    uninstall()
    assert all(
        (home / ".mcpb" / name).exists()
        for name in [*kept, "extension/worker/service_worker.js", "pictures/page.png"]
    )
    purged = uninstall("--purge")
    assert all(str(home / ".mcpb" / name) in purged.output for name in [*kept, "pictures"])
    assert f"{home / '.mcpb/pictures'}/  (whatever is in it)\n" in purged.output
    assert f"{home / '.mcpb/config.toml'}\n" in purged.output
    left = {str(path.relative_to(home)) for path in home.rglob("*")} - set(start)
    folder = ".mcpb/extension-firefox"
    assert left == {".mcpb", ".mcpb/notes.txt", folder, f"{folder}/mine.txt"}
