"""What the installer remembers: whose files are whose, what the person took out, and where it all moved."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from forked_commands import commands, listing
from install.browsers import user_data_dir_target
from install.cli import this_home, this_host
from install.ledger import Entry, Ledger, LedgerError, decode_ledger
from install.plan import install_plan as planning
from install.plan.apply import ApplyError, apply_plan, read_place
from install.plan.ownership import FileState, is_our_manifest
from install.plan.steps import Write
from install.wrapper import read_wrapper
from installer_home import FOREIGN, MANIFEST, foreign, install, live_in, uninstall, use
from native_host.protocol.wire import HOST_NAME

LEDGER = ".mcpb/state/ledger.json"
WRAPPER = ".mcpb/bin/mcpb-native-host"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return live_in(tmp_path / "home", monkeypatch)


@pytest.fixture
def chromium(home: Path) -> Path:
    return use(home / ".config/chromium")


@pytest.fixture
def vivaldi(home: Path) -> Path:
    return use(home / ".config/vivaldi")


def ledger(home: Path) -> Ledger:
    return decode_ledger((home / LEDGER).read_bytes(), home / LEDGER)


# ── The file ────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_ledger_is_private_and_knows_each_file_and_folder(home: Path, chromium: Path) -> None:
    install()
    assert (home / LEDGER).stat().st_mode & 0o777 == 0o600
    assert (home / LEDGER).parent.stat().st_mode & 0o777 == 0o700
    known = ledger(home)
    assert {entry.path for entry in known.entries} == {str(home / WRAPPER), str(chromium / MANIFEST)}
    assert all(entry.holds(Path(entry.path).read_bytes()) for entry in known.entries)
    assert known.directories == (str(chromium / "NativeMessagingHosts"),)
    assert not known.is_under_way


def test_a_ledger_of_a_newer_mcpb_is_not_touched_and_the_text_says_what_to_do(
    home: Path, chromium: Path
) -> None:
    install()
    (home / LEDGER).write_text('{"format": 2, "version": "9.9.9", "entries": {"in": "another shape"}}')
    before = listing(home)
    for ended in (install(), uninstall()):
        assert ended.exit_code == 1
        assert "written by a newer mcpb (9.9.9)" in ended.output
        assert "upgrade this one first" in ended.output
    assert listing(home) == before


ASTRAY = [
    f'{{"format": 1, "install_id": "x", "version": "1", "entries": [{entry}]}}'
    for entry in (
        '{"path": "/home/ada/thesis.txt", "what": "manifest", "sha256": "x"}',
        '{"path": "/home/ada/bin/sh", "what": "wrapper", "sha256": "x"}',
        f'{{"path": "relative/{HOST_NAME}.json", "what": "manifest", "sha256": "x"}}',
        f'{{"path": "/a/{HOST_NAME}.json", "what": "manifest", "sha256": "x", "backup": "/home/ada/x.txt"}}',
    )
]


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"format": 1}', '{"format": "1"}', "[" * 100_000, *ASTRAY]
)
def test_a_damaged_ledger_is_kept_and_after_the_command_that_is_shown_everything_is_found_again(
    home: Path, chromium: Path, content: str
) -> None:
    start = listing(home)
    install()
    (home / LEDGER).write_text(content)
    ended = install()
    assert ended.exit_code == 1
    with pytest.raises(LedgerError) as rejected:
        decode_ledger(content.encode(), home / LEDGER)
    command = rejected.value.command
    assert ended.output.rstrip().endswith(f". Run: {command}")
    assert rejected.value.path == home / LEDGER
    assert command == f"mv {home / LEDGER} {home / LEDGER}.damaged"
    assert (home / LEDGER).read_text() == content
    os.system(command)
    assert install().exit_code == 0
    uninstall()
    (home / f"{LEDGER}.damaged").unlink()
    (home / LEDGER).parent.rmdir()
    (home / ".mcpb").rmdir()
    (chromium / "NativeMessagingHosts").rmdir()  # that we made it nobody knows any more
    assert listing(home) == start


def test_a_linked_ledger_is_refused(home: Path, chromium: Path) -> None:
    (home / LEDGER).parent.mkdir(parents=True)
    (home / LEDGER).symlink_to(home / "elsewhere")
    assert install().exit_code == 1
    assert not (home / "elsewhere").exists()


# ── What the person took out ────────────────────────────────────────────────────────────────────────────────


def take_out_by_command(browser: Path) -> str:
    assert uninstall("--browser", browser.name).exit_code == 0
    return "You removed Chromium earlier."


def take_out_by_hand(browser: Path) -> str:
    (browser / MANIFEST).unlink()
    return "The manifest of Chromium was deleted by hand"


@pytest.mark.parametrize("take_out", [take_out_by_command, take_out_by_hand])
@pytest.mark.parametrize("back", [["--browser", "chromium"], ["--all"]])
def test_a_browser_that_was_taken_out_stays_out_until_it_is_named(
    home: Path, chromium: Path, vivaldi: Path, take_out: Callable[[Path], str], back: list[str]
) -> None:
    install()
    why = take_out(chromium)
    for _ in range(2):
        plain = install()
        assert plain.exit_code == 0
        assert why in plain.output
        assert "To register it again: mcpb install-native-host --browser chromium" in plain.output
        assert not (chromium / MANIFEST).exists()
        assert (vivaldi / MANIFEST).exists()
    assert install(*back).exit_code == 0
    assert (chromium / MANIFEST).exists()
    assert "register it again" not in install().output


def test_a_manifest_that_was_deleted_by_hand_stays_in_the_ledger_and_no_command_calls_it_taken_out(
    home: Path, chromium: Path, vivaldi: Path
) -> None:
    install()
    (chromium / MANIFEST).unlink()
    (home / WRAPPER).unlink()
    apply_plan(planning.plan_repair(this_host(), read_place))
    install()
    install("--browser", "vivaldi", "--extension-id", "a" * 32)
    known = ledger(home)
    assert known.removed == ()
    assert known.find_entry(chromium / MANIFEST)
    assert not (chromium / MANIFEST).exists()
    uninstall("--browser", "chromium")
    assert "You removed Chromium earlier." in install().output


def test_what_a_killed_run_did_not_write_is_not_taken_for_deleted_by_hand(
    home: Path, chromium: Path, vivaldi: Path
) -> None:
    plan = planning.plan_install(
        this_host(), list(map(user_data_dir_target, [chromium, vivaldi])), [], read_place
    )
    writes = [number for number, step in enumerate(plan.steps) if isinstance(step, Write)]
    plan.steps = plan.steps[: writes[0] + 1]
    apply_plan(plan)
    assert ledger(home).is_under_way
    install("--browser", "vivaldi")
    assert install().exit_code == 0
    assert (chromium / MANIFEST).exists()


def test_a_folder_that_was_named_by_hand_is_called_by_one_name(home: Path, chromium: Path) -> None:
    profile = home / "profile"
    named = install("--user-data-dir", str(profile))
    plain = install("--dry-run")
    for ended in (named, plain):
        assert f"Chromium in {profile}" in ended.output
    (profile / MANIFEST).unlink()
    said = install().output
    assert f"The manifest of Chromium in {profile} was deleted by hand" in said
    assert f"--user-data-dir {profile}" in said
    shutil.rmtree(profile)
    assert str(profile) not in install().output


def test_with_the_last_browser_the_wrapper_goes_and_what_was_taken_out_is_remembered(
    home: Path, chromium: Path
) -> None:
    start = listing(home)
    install()
    uninstall("--browser", "chromium")
    assert not (home / WRAPPER).exists()
    assert not (chromium / MANIFEST).parent.exists()
    plain = install()
    assert "No browser is left to register with." in plain.output
    assert "To register it again: mcpb install-native-host --browser chromium" in plain.output
    assert not (home / WRAPPER).exists()
    uninstall()
    assert listing(home) == start
    install()
    assert (chromium / MANIFEST).exists(), "a full removal forgets"


def test_a_folder_that_was_named_is_registered_again_with_all_others(home: Path, chromium: Path) -> None:
    install("--user-data-dir", str(home / "profile"), "--extension-id", "b" * 32)
    install("--extension-id", "a" * 32)
    origins = json.loads((home / "profile" / MANIFEST).read_bytes())["allowed_origins"]
    assert f"chrome-extension://{'a' * 32}/" in origins
    assert f"chrome-extension://{'b' * 32}/" in origins


def test_taking_one_browser_out_of_a_folder_that_several_read_says_so(home: Path) -> None:
    use(home / ".mozilla")
    use(home / ".zen")
    install()
    assert "The same folder is read by Firefox" in uninstall("--browser", "zen").output


# ── What is not ours ────────────────────────────────────────────────────────────────────────────────────────


def test_what_stands_in_the_way_is_moved_away_on_request_and_comes_back_as_it_was(
    home: Path, chromium: Path
) -> None:
    theirs = foreign(chromium / MANIFEST)
    theirs.chmod(0o640)
    os.utime(theirs, ns=(1, 2))
    start = listing(home)
    assert install().exit_code == 1
    assert install("--replace").exit_code == 0
    assert json.loads(theirs.read_bytes())["path"] == str(home / WRAPPER)
    assert install().exit_code == 0, "once replaced it is ours"
    uninstall()
    assert listing(home) == start
    assert theirs.stat().st_mtime_ns == 2


def a_link(path: Path) -> None:
    path.symlink_to("/nonexistent")


def a_directory(path: Path) -> None:
    path.mkdir()
    (path / "something").write_text("in it")


def no_json(path: Path) -> None:
    path.write_text("{")


@pytest.mark.parametrize("obstacle", [a_link, a_directory, no_json])
@pytest.mark.parametrize("place", [f".config/chromium/{MANIFEST}", WRAPPER])
def test_whatever_it_is_it_comes_back(home: Path, chromium: Path, obstacle: object, place: str) -> None:
    (home / place).parent.mkdir(parents=True, mode=0o700)
    assert callable(obstacle)
    obstacle(home / place)
    start = listing(home)
    assert install("--replace").exit_code == 0
    assert (home / place).is_file()
    uninstall()
    assert dict(listing(home)) == start


def test_a_file_that_took_our_place_later_stays_and_the_one_before_is_not_lost(
    home: Path, chromium: Path
) -> None:
    foreign(chromium / MANIFEST, "the first")
    install("--replace")
    foreign(chromium / MANIFEST)
    ended = uninstall()
    assert ended.exit_code == 0
    assert (chromium / MANIFEST).read_text() == FOREIGN
    (kept,) = (home / ".mcpb/state/backup").iterdir()
    assert kept.read_text() == "the first"
    assert str(kept) in ended.output


def test_two_strangers_one_after_the_other_are_both_kept(home: Path, chromium: Path) -> None:
    foreign(chromium / MANIFEST, "the first")
    install("--replace")
    foreign(chromium / MANIFEST)
    install("--replace")
    kept = {path.read_text(): path for path in (home / ".mcpb/state/backup").iterdir()}
    assert set(kept) == {"the first", FOREIGN}
    ended = uninstall()
    assert (chromium / MANIFEST).read_text() == "the first"
    assert kept[FOREIGN].read_text() == FOREIGN
    assert f"{kept[FOREIGN]} was in the place" in ended.output


def test_two_browsers_whose_folders_are_one_by_a_link_are_registered_once(home: Path, chromium: Path) -> None:
    (home / ".config/google-chrome").symlink_to(chromium)
    start = listing(home)
    assert install().exit_code == 0
    right = listing(home)
    for again in (
        [],
        ["--browser", "chrome"],
        ["--user-data-dir", str(home / ".config/google-chrome")],
        ["--all"],
    ):
        assert install(*again).exit_code == 0
        assert len(list(ledger(home).manifests())) == 1
        assert listing(home).keys() == right.keys()
    uninstall("--browser", "chrome")
    assert not (chromium / MANIFEST).exists()
    install("--all")
    uninstall()
    assert listing(home) == start


def test_without_a_ledger_the_wrapper_stays_as_long_as_another_browser_starts_it(
    home: Path, chromium: Path, vivaldi: Path
) -> None:
    install()
    (home / LEDGER).unlink()
    uninstall("--browser", "chromium")
    assert (home / WRAPPER).exists()
    assert (vivaldi / MANIFEST).exists()
    assert "You removed Chromium earlier." in install().output


def test_a_byte_order_mark_does_not_make_our_manifest_another_s(home: Path, chromium: Path) -> None:
    start = listing(home)
    install()
    (home / LEDGER).unlink()
    (chromium / MANIFEST).write_bytes(b"\xef\xbb\xbf" + (chromium / MANIFEST).read_bytes())
    uninstall()
    (chromium / "NativeMessagingHosts").rmdir()  # that we made it nobody knows any more
    assert listing(home) == start


DAMAGED = {
    "not JSON": lambda _: "{",
    "empty": lambda _: "",
    "nested without end": lambda _: "[" * 100_000,
    "another name": lambda ours: ours.replace(HOST_NAME, "dev.mcpb.other"),
    "a relative path": lambda ours: ours.replace('"path": "/', '"path": "'),
    "no path": lambda ours: ours.replace('"path"', '"paths"'),
    "a program that is gone": lambda ours: ours.replace("bin/mcpb-native-host", "bin/gone"),
    "a program that can be none": lambda ours: ours.replace("bin/mcpb-native-host", "x\\u0000" + "y" * 5000),
}


@pytest.mark.parametrize("damage", DAMAGED.values(), ids=DAMAGED)
def test_our_manifest_that_was_damaged_is_mended_without_a_word_and_no_copy_of_it_is_kept(
    home: Path, chromium: Path, damage: Callable[[str], str]
) -> None:
    start = listing(home)
    install("--extension-id", "a" * 32)
    right = listing(home)
    for mend in (install, lambda: apply_plan(planning.plan_repair(this_host(), read_place))):
        (chromium / MANIFEST).write_text(damage((chromium / MANIFEST).read_text()))
        assert listing(home) != right
        mend()
        assert listing(home) == right
    (chromium / MANIFEST).write_text(damage((chromium / MANIFEST).read_text()))
    uninstall()
    assert listing(home) == start


def test_a_sound_manifest_that_starts_another_program_is_not_ours_even_where_we_are_registered(
    home: Path, chromium: Path
) -> None:
    install()
    foreign(chromium / MANIFEST)
    ended = install()
    assert ended.exit_code == 1
    assert "points at /bin/cat" in ended.output
    assert "mcpb install-native-host --browser chromium --replace" in ended.output
    assert planning.plan_repair(this_host(), read_place).steps == []
    uninstall()
    assert (chromium / MANIFEST).read_text() == FOREIGN


def test_a_program_that_cannot_be_seen_is_not_taken_for_gone() -> None:
    entry = Entry(path="/x", what="manifest", sha256="")
    for found, is_ours in (
        (FileState(), True),
        (FileState(is_hidden=True), False),
        (FileState(mode=0o100700), False),
    ):
        assert (
            is_our_manifest(FOREIGN.encode(), entry, Path("/w"), {Path("/bin/cat"): found}.__getitem__)
            == is_ours
        )


def test_what_a_stranger_s_manifest_says_reaches_the_terminal_without_control_characters(
    home: Path, chromium: Path
) -> None:
    foreign(chromium / MANIFEST, json.dumps({"name": HOST_NAME, "path": "/bin/\x1b[2Jcat"}))
    assert r"points at /bin/\x1b[2Jcat" in install().output


def test_a_damaged_manifest_where_we_never_were_is_not_ours(home: Path, chromium: Path) -> None:
    foreign(chromium / MANIFEST, "{")
    assert "is not JSON" in install().output
    assert (chromium / MANIFEST).read_text() == "{"


def test_our_manifest_edited_by_hand_is_ours_as_long_as_it_starts_our_wrapper(
    home: Path, chromium: Path
) -> None:
    install()
    written = (chromium / MANIFEST).read_text()
    (chromium / MANIFEST).write_text(json.dumps(json.loads(written) | {"description": "mine", "more": 1}))
    assert install().exit_code == 0
    assert (chromium / MANIFEST).read_text() == written


def test_other_products_files_beside_ours_are_not_even_touched(home: Path, chromium: Path) -> None:
    other = foreign(chromium / "NativeMessagingHosts/com.example.other.json", "{}")
    stamp = other.stat()
    install()
    install("--all", "--replace")
    plan = uninstall()
    assert str(other) not in plan.output
    assert (other.stat().st_mtime_ns, other.stat().st_ino) == (stamp.st_mtime_ns, stamp.st_ino)


@pytest.mark.skipif(os.getuid() != 0, reason="gives a folder away")
def test_another_user_s_browser_is_refused(home: Path, chromium: Path) -> None:
    os.chown(chromium, 65534, 65534)
    ended = install("--replace")
    assert ended.exit_code == 1
    assert f"{chromium} belongs to another user" in ended.output
    assert not (home / ".mcpb").exists()


@pytest.mark.parametrize(("mode", "is_refused"), [(0o777, True), (0o1777, False), (0o755, False)])
def test_mcpb_s_home_is_not_where_others_could_put_another_in_its_place(
    home: Path, chromium: Path, monkeypatch: pytest.MonkeyPatch, mode: int, is_refused: bool
) -> None:
    (home / "open").mkdir()
    (home / "open").chmod(mode)
    monkeypatch.setenv("MCPB_HOME", str(home / "open/mcpb"))
    ended = install()
    assert (f"chmod o-w {home / 'open'}" in ended.output) == is_refused
    assert (chromium / MANIFEST).exists() != is_refused


@pytest.mark.skipif(os.getuid() != 0, reason="gives a folder away")
def test_mcpb_s_home_is_not_in_another_user_s_folder(
    home: Path, chromium: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.chown(use(home / "theirs"), 65534, 65534)
    monkeypatch.setenv("MCPB_HOME", str(home / "theirs/mcpb"))
    assert f"{home / 'theirs'} belongs to another user" in install().output
    assert not (home / "theirs/mcpb").exists()


def test_mcpb_s_home_is_not_made_where_there_is_no_folder_for_it(
    home: Path, chromium: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MCPB_HOME", str(home / "not/there/mcpb"))
    ended = install()
    assert ended.exit_code == 1
    assert f"mkdir -p {home / 'not/there'}" in ended.output
    assert not (home / "not").exists()


# ── Moved and copied ────────────────────────────────────────────────────────────────────────────────────────


def test_a_home_that_was_moved_is_put_right_by_installing_again(
    home: Path, chromium: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = listing(home)
    install("--user-data-dir", str(home / "profile"), "--browser", "chromium")
    moved = live_in(home.rename(home.with_name("moved")), monkeypatch)
    assert install().exit_code == 0
    for browser in (".config/chromium", "profile"):
        assert json.loads((moved / browser / MANIFEST).read_bytes())["path"] == str(moved / WRAPPER)
    assert "Registered already." in install().output
    uninstall()
    assert listing(moved) == start


def test_an_installation_that_was_killed_and_then_moved_is_still_known_as_ours(tmp_path: Path) -> None:
    """Its files hold what was there before or what was to come, and their paths are of the old place."""
    with commands() as mcpb:
        for point in range(1, 14):
            home = tmp_path / f"home{point}"
            use(home / ".config/chromium")
            start = listing(home)
            mcpb.run("install-native-host", "--yes", home=str(home))
            changed = ["install-native-host", "--yes", "--extension-id", "a" * 32]
            mcpb.run(*changed, home=str(home), kill_at=point)
            home = home.rename(home.with_name(f"moved{point}"))
            ended = mcpb.run("uninstall-native-host", "--yes", home=str(home))
            assert listing(home) == start, ended.output


def test_what_is_done_in_a_copy_of_a_home_leaves_the_original_alone(
    home: Path, chromium: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("--browser", "chromium", "--user-data-dir", str(home.with_name("outside")))
    before = listing(home.parent)
    shutil.copytree(home, home.with_name("copy"), symlinks=True)
    copy = live_in(home.with_name("copy"), monkeypatch)
    assert uninstall().exit_code == 0
    assert not (copy / ".mcpb").exists()
    assert not (copy / ".config/chromium" / MANIFEST).exists()
    shutil.rmtree(copy)
    assert listing(home.parent) == before


def test_another_home_of_the_user_has_an_installation_of_its_own(
    home: Path, chromium: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = listing(home)
    install()
    installed, elsewhere = listing(home), use(home.with_name("elsewhere"))
    with monkeypatch.context() as patched:
        patched.setenv("HOME", str(elsewhere))
        assert "Nothing of mcpb is registered here" in uninstall().output
    assert (listing(home), list(elsewhere.iterdir())) == (installed, [])
    uninstall()
    assert listing(home) == start


# ── Two installations of mcpb ───────────────────────────────────────────────────────────────────────────────


def test_an_installation_that_takes_over_says_so_first(
    home: Path, chromium: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install()
    monkeypatch.setattr("sys.executable", "/other/python")
    ended = install("--dry-run")
    assert "Browsers start the host with /other/python from now on; until now with /" in ended.output


def test_uninstalling_another_installation_says_whose_it_is(
    home: Path, chromium: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install()
    known = read_wrapper((home / WRAPPER).read_text())
    assert known is not None
    monkeypatch.setattr("sys.executable", "/other/python")
    assert (
        f"of another installation of mcpb, and started with {known.interpreter}"
        in uninstall("--dry-run").output
    )


def test_two_commands_do_not_change_one_installation_at_once(home: Path, chromium: Path) -> None:
    (home / ".mcpb").mkdir(mode=0o700)
    plan = planning.plan_install(this_host(), [], [], read_place)
    directory = os.open(home / ".mcpb", os.O_RDONLY)
    fcntl.flock(directory, fcntl.LOCK_EX)
    with pytest.raises(ApplyError, match="another mcpb command is changing this installation"):
        apply_plan(plan)
    os.close(directory)
    apply_plan(plan)
    assert (home / WRAPPER).exists()


# ── Repair ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_repair_rewrites_the_wrapper_and_the_manifests_that_are_still_there(
    home: Path, chromium: Path, vivaldi: Path
) -> None:
    install()
    right = listing(home)
    (home / WRAPPER).unlink()
    (chromium / MANIFEST).write_text(json.dumps({"name": HOST_NAME, "path": str(home / WRAPPER)}))
    (chromium / MANIFEST).chmod(0o644)
    apply_plan(planning.plan_repair(this_host(), read_place))
    assert listing(home) == right
    assert planning.plan_repair(this_host(), read_place).steps == []


def test_repair_registers_nothing_and_touches_nothing_that_is_not_ours(
    home: Path, chromium: Path, vivaldi: Path
) -> None:
    assert planning.plan_repair(this_host(), read_place).steps == []
    install()
    (chromium / MANIFEST).unlink()
    (vivaldi / MANIFEST).write_text(FOREIGN)
    (home / WRAPPER).chmod(0o600)
    apply_plan(planning.plan_repair(this_host(), read_place))
    assert (home / WRAPPER).stat().st_mode & 0o777 == 0o700
    assert not (chromium / MANIFEST).exists()
    assert (vivaldi / MANIFEST).read_text() == FOREIGN
    (home / WRAPPER).write_text("#!/bin/sh\nexit\n")
    assert planning.plan_repair(this_host(), read_place).steps == []


def test_repair_forgets_nothing(home: Path, chromium: Path, vivaldi: Path) -> None:
    install()
    uninstall("--browser", "vivaldi")
    before = planning.ledger_of(this_home(), read_place)
    (home / WRAPPER).unlink()
    apply_plan(planning.plan_repair(this_host(), read_place))
    assert planning.ledger_of(this_home(), read_place) == before
