"""What keeps the installer from harm: each step looks again before it changes the disk, and nothing that was
known is forgotten on the way.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from forked_commands import listing
from install.browsers import Browser, Kind, Place, Target
from install.cli import this_home, this_host
from install.interpreter import find_unreachable
from install.ledger import Entry, Ledger, decode_ledger, draft_path, relocate_ledger
from install.machine import Machine
from install.plan import install_plan as planning
from install.plan import uninstall_plan
from install.plan.apply import ApplyError, apply_plan, read_place
from install.plan.steps import Discard, Move, Plan, Remove, Step, Write
from install.targets import TargetSelection, option_for
from installer_home import FOREIGN, MANIFEST, foreign, install, live_in, uninstall, use
from native_host.system.home_layout import HomeLayout

WRAPPER = ".mcpb/bin/mcpb-native-host"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return live_in(tmp_path / "home", monkeypatch)


@pytest.fixture
def chromium(home: Path) -> Path:
    return use(home / ".config/chromium")


def ledger(home: Path) -> Ledger:
    path = HomeLayout(home / ".mcpb").ledger
    return decode_ledger(path.read_bytes(), path)


# ── One step ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A file with our content, in a folder of its own."""
    path = tmp_path / "folder/file"
    path.parent.mkdir()
    path.write_bytes(b"ours")
    return path


def write(place: Path) -> Step:
    return Write(place, b"new", 0o600, b"ours", place.with_name("draft"))


def remove(place: Path) -> Step:
    return Remove(place, b"ours")


def move(place: Path) -> Step:
    return Move(place, place.with_name("moved"))


def do(step: Step) -> None:
    apply_plan(Plan(step.path.parent, [step]))


@pytest.mark.parametrize("step", [write, remove])
def test_a_file_that_is_not_what_the_plan_saw_is_not_touched(
    place: Path, step: Callable[[Path], Step]
) -> None:
    place.write_bytes(b"somebody's")
    with pytest.raises(ApplyError, match="has changed since the plan was made"):
        do(step(place))
    assert place.read_bytes() == b"somebody's"


@pytest.mark.parametrize("step", [write, remove])
def test_a_link_that_took_a_file_s_place_is_not_taken_for_it(
    place: Path, step: Callable[[Path], Step]
) -> None:
    twin = place.rename(place.with_name("twin"))
    place.symlink_to(twin)
    with pytest.raises(ApplyError):
        do(step(place))
    assert place.is_symlink()
    assert twin.read_bytes() == b"ours"


def test_nothing_is_moved_over_what_is_there_by_now(place: Path) -> None:
    place.with_name("moved").write_bytes(b"somebody's")
    with pytest.raises(ApplyError, match="has changed since the plan was made"):
        do(move(place))
    assert place.with_name("moved").read_bytes() == b"somebody's"
    assert place.read_bytes() == b"ours"


@pytest.mark.parametrize("step", [write, remove, move])
def test_a_folder_that_became_a_link_is_not_entered(place: Path, step: Callable[[Path], Step]) -> None:
    elsewhere = place.parent.rename(place.parent.with_name("elsewhere"))
    place.parent.symlink_to(elsewhere)
    with pytest.raises(ApplyError):
        do(step(place))
    assert [(path.name, path.read_bytes()) for path in elsewhere.iterdir()] == [("file", b"ours")]


@pytest.mark.parametrize("step", [write, remove, move])
def test_a_folder_that_became_another_user_s_is_not_changed(
    place: Path, step: Callable[[Path], Step], monkeypatch: pytest.MonkeyPatch
) -> None:
    somebody_else = os.getuid() + 1
    monkeypatch.setattr(os, "getuid", lambda: somebody_else)
    with pytest.raises(ApplyError, match="belongs to another user"):
        do(step(place))
    assert [(path.name, path.read_bytes()) for path in place.parent.iterdir()] == [("file", b"ours")]


def test_of_a_file_that_cannot_be_written_no_half_stays(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ApplyError, match="No space left on device"):
        do(write(place))
    assert [(path.name, path.read_bytes()) for path in place.parent.iterdir()] == [("file", b"ours")]


def test_a_draft_that_is_there_already_is_not_written_into(place: Path) -> None:
    """It may be another name of a file that is somebody's."""
    somebodys = place.with_name("somebody's")
    somebodys.write_bytes(b"somebody's")
    place.with_name("draft").hardlink_to(somebodys)
    with pytest.raises(ApplyError):
        do(write(place))
    assert somebodys.read_bytes() == b"somebody's"
    assert place.read_bytes() == b"ours"


def test_of_a_linked_folder_the_link_alone_is_discarded(place: Path) -> None:
    link = place.parent.with_name("link")
    link.symlink_to(place.parent)
    do(Discard(link))
    assert not link.is_symlink()
    assert place.read_bytes() == b"ours"


def test_of_a_plan_with_a_refusal_nothing_is_done(place: Path) -> None:
    with pytest.raises(ApplyError, match="something is in the way"):
        apply_plan(Plan(place.parent, [remove(place)], refusals=["something is in the way"]))
    assert place.read_bytes() == b"ours"


# ── What others can change or cannot read ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("folder", [".mcpb", ".mcpb/bin", ".mcpb/state"])
def test_a_folder_that_a_group_may_write_is_refused(home: Path, chromium: Path, folder: str) -> None:
    install()
    (home / folder).chmod(0o770)
    before = listing(home)
    ended = install("--extension-id", "a" * 32)
    assert ended.exit_code == 1
    assert f"chmod go-w {home / folder}" in ended.output
    assert listing(home) == before


@pytest.mark.parametrize("folder", [".mcpb/bin", ".mcpb/state"])
def test_nothing_is_removed_from_a_folder_that_others_may_write(
    home: Path, chromium: Path, folder: str
) -> None:
    install()
    (home / folder).chmod(0o777)
    before = listing(home)
    ended = uninstall()
    assert ended.exit_code == 1
    assert f"chmod go-w {home / folder}" in ended.output
    assert listing(home) == before


def test_where_a_folder_is_open_to_others_repair_does_nothing(home: Path, chromium: Path) -> None:
    install()
    (home / WRAPPER).unlink()
    (home / ".mcpb/bin").chmod(0o777)
    assert planning.plan_repair(this_host(), read_place) == Plan(home / ".mcpb")


def test_a_python_that_others_may_run_but_not_read_is_closed_to_them(short_tmp: Path) -> None:
    short_tmp.chmod(0o755)
    python = short_tmp / "python"
    python.touch()
    python.chmod(0o711)
    assert find_unreachable(python) == python


# ── What stood in our places ────────────────────────────────────────────────────────────────────────────────


def test_of_any_number_of_strangers_in_one_place_none_is_lost(home: Path, chromium: Path) -> None:
    strangers = [FOREIGN.replace("other", name) for name in ("one", "two", "three", "four")]
    for stranger in strangers:
        foreign(chromium / MANIFEST, stranger)
        assert install("--replace").exit_code == 0
    kept = [path.read_text() for path in (home / ".mcpb/state/backup").iterdir()]
    assert sorted(kept) == sorted(strangers)


def test_what_has_no_folder_to_go_back_to_stays_in_the_backup(home: Path, chromium: Path) -> None:
    foreign(chromium / MANIFEST)
    install("--replace")
    shutil.rmtree(chromium / "NativeMessagingHosts")
    ended = uninstall()
    assert ended.exit_code == 0, ended.output
    (kept,) = (home / ".mcpb/state/backup").iterdir()
    assert kept.read_text() == FOREIGN
    assert f"{kept} was in the place {chromium / MANIFEST}; it stays where it is now" in ended.output


# ── Taking one browser out ──────────────────────────────────────────────────────────────────────────────────


def test_a_removal_that_was_interrupted_at_once_is_a_removal(home: Path, chromium: Path) -> None:
    """So nothing that runs before the next removal, self-repair least of all, brings the browser back."""
    install()
    target = Target("Chromium", "chromium", chromium / "NativeMessagingHosts", "chromium")
    (begun, *_) = uninstall_plan.plan_removal(this_home(), [target], read_place).steps
    do(begun)
    assert (chromium / MANIFEST).exists()
    assert planning.registered_targets(ledger(home), read_place) == []
    assert "To register it again: mcpb install-native-host --browser chromium" in install().output


def test_an_interrupted_removal_forgets_nothing_of_the_other_browsers(home: Path, chromium: Path) -> None:
    vivaldi = use(home / ".config/vivaldi")
    install()
    (vivaldi / MANIFEST).unlink()
    target = Target("Chromium", "chromium", chromium / "NativeMessagingHosts", "chromium")
    (begun, *_) = uninstall_plan.plan_removal(this_home(), [target], read_place).steps
    do(begun)
    install("--browser", "chromium")
    assert "deleted by hand" in install().output
    assert not (vivaldi / MANIFEST).exists()


def test_a_browser_that_was_taken_out_is_not_spoken_of_as_deleted_by_hand(home: Path) -> None:
    path = home / MANIFEST
    entry = Entry(path=str(path), what="manifest", sha256="", browser="chromium")
    known = Ledger(install_id="", version="", entries=(entry,))
    assert [target.manifest for target in planning.deleted_targets(known, read_place)] == [path]
    taken_out = msgspec.structs.replace(known, removed=("chromium",))
    assert planning.deleted_targets(taken_out, read_place) == []


def test_browsers_that_are_taken_out_one_by_one_all_stay_out(home: Path, chromium: Path) -> None:
    vivaldi, chrome = use(home / ".config/vivaldi"), use(home / ".config/google-chrome")
    install()
    uninstall("--browser", "chromium")
    uninstall("--browser", "vivaldi")
    install()
    there = [browser.name for browser in (chromium, vivaldi, chrome) if (browser / MANIFEST).exists()]
    assert there == ["google-chrome"]


@pytest.mark.parametrize("name", ["chromium", "/x/NativeMessagingHosts"])
def test_what_was_taken_out_is_known_by_its_browser_or_its_folder(name: str) -> None:
    target = Target("Chromium", "chromium", Path("/x/NativeMessagingHosts"), "chromium")
    known = Ledger(install_id="", version="", removed=(name,))
    assert planning.is_removed(target, known)
    assert not planning.is_removed(target, Ledger(install_id="", version="", removed=("vivaldi",)))


def test_a_manifest_that_was_never_written_was_not_deleted_by_hand(home: Path) -> None:
    target = Target("Chromium", "chromium", home / "NativeMessagingHosts", "chromium")
    entry = Entry(path=str(target.manifest), what="manifest", sha256="", browser="chromium")
    known = Ledger(install_id="", version="", entries=(entry,))
    begun = known.begin_changes({entry.path})
    assert planning.is_deleted(target, known, read_place)
    assert not planning.is_deleted(target, begun, read_place)
    assert not planning.is_deleted(target, begun.begin_changes(()), read_place), (
        "another run's beginning ends none"
    )


def test_a_browser_is_taken_out_wherever_it_was_registered(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    earlier = use(home / "settings/chromium")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "settings"))
    install()
    assert (earlier / MANIFEST).exists()
    monkeypatch.delenv("XDG_CONFIG_HOME")
    use(home / ".config/chromium")
    assert uninstall("--browser", "chromium").exit_code == 0
    assert not (earlier / MANIFEST).exists()
    assert not (home / WRAPPER).exists()


def test_the_wrapper_goes_when_of_the_other_browsers_no_manifest_is_left(home: Path, chromium: Path) -> None:
    vivaldi = use(home / ".config/vivaldi")
    install()
    (vivaldi / MANIFEST).unlink()
    uninstall("--browser", "chromium")
    assert not (home / WRAPPER).exists()
    assert not (home / WRAPPER).parent.exists()


def test_a_folder_of_ours_that_still_holds_one_of_ours_is_not_forgotten(home: Path) -> None:
    start = listing(home)
    install("--user-data-dir", str(home / "deep/one"), "--user-data-dir", str(home / "deep/two"))
    uninstall("--user-data-dir", str(home / "deep/one"))
    assert (home / "deep/two" / MANIFEST).exists()
    uninstall()
    assert listing(home) == start


def test_a_folder_that_the_person_made_anew_is_not_taken_for_ours(home: Path, chromium: Path) -> None:
    install("--user-data-dir", str(home / "profile"))
    shutil.rmtree(home / "profile")
    install("--browser", "chromium")
    (home / "profile").mkdir()
    uninstall()
    assert (home / "profile").is_dir()
    assert not (home / ".mcpb").exists()


def test_folders_outside_of_mcpb_s_home_go_when_they_are_empty(home: Path, chromium: Path) -> None:
    install()
    empty, full = use(home / "run/empty"), use(home / "run/full")
    (full / "socket").touch()
    apply_plan(uninstall_plan.plan_uninstall(this_home(), [], read_place, folders=[empty, full]))
    assert list((home / "run").iterdir()) == [full]


def test_what_an_interrupted_run_left_half_written_goes_with_the_next(home: Path, chromium: Path) -> None:
    install()
    half = draft_path(home / WRAPPER, ledger(home).install_id)
    half.touch()
    (chromium / MANIFEST).write_text("{")
    assert install().exit_code == 0
    assert not half.exists()


# ── Moved and copied ────────────────────────────────────────────────────────────────────────────────────────


OLD, NEW = Path("/old/.mcpb"), Path("/new/.mcpb")


def written_at_old(directories: tuple[str, ...] = ()) -> Ledger:
    return Ledger(
        install_id="0" * 16,
        version="1",
        home=str(OLD),
        user_home="/old",
        entries=(Entry(path=f"{OLD}/bin/mcpb-native-host", what="wrapper", sha256=""),),
        directories=directories,
    )


def test_what_is_in_neither_place_moves_with_a_folder_that_is_gone() -> None:
    (entry,) = relocate_ledger(written_at_old(), NEW, Path("/new"), lambda _path: False).entries
    assert entry.path == f"{NEW}/bin/mcpb-native-host"


def test_what_is_in_neither_place_stays_with_a_folder_that_is_there() -> None:
    """A drive that was unplugged takes no entry along."""
    there = {Path("/old"), OLD}
    (entry,) = relocate_ledger(written_at_old(), NEW, Path("/new"), there.__contains__).entries
    assert entry.path == f"{OLD}/bin/mcpb-native-host"


def test_a_copy_claims_no_folder_of_the_original_s() -> None:
    there = {OLD, HomeLayout(OLD).ledger, Path("/data/profile")}
    known = written_at_old(("/data/profile", f"{OLD}/deep"))
    copy = relocate_ledger(known, NEW, Path("/old"), there.__contains__)
    assert copy.directories == (f"{NEW}/deep",)


def test_what_was_taken_out_by_its_folder_stays_out_where_the_folder_moves_to() -> None:
    known = msgspec.structs.replace(written_at_old(), removed=("chromium", "/old/profile"))
    assert relocate_ledger(known, NEW, Path("/new"), lambda _path: False).removed == (
        "chromium",
        "/old/profile",
        "/new/profile",
    )


# ── Names ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_of_browsers_that_read_one_folder_those_that_must_be_named_are_not_spoken_of() -> None:
    def lender(name: str, *, named_only: bool = False) -> Browser:
        place = Place(data=name, borrows="" if name == "lender" else "lender")
        return Browser(name=name, title=name.title(), kind="chromium", linux=(place,), named_only=named_only)

    rows = [lender("lender"), lender("reader"), lender("rare", named_only=True)]
    choice = TargetSelection(Machine("linux", Path("/home/x"), {}, Path("/")), rows, lambda _path: True)
    target = Target("Lender", "chromium", Path("/home/x/.config/lender/NativeMessagingHosts"), "lender")
    assert choice.find_sharing([target]) == ["Reader"]


@pytest.mark.parametrize(
    ("kind", "options"),
    [("chromium", "--user-data-dir /some"), ("firefox", "--dir /some/NativeMessagingHosts --kind firefox")],
)
def test_a_folder_is_named_by_options_that_mean_its_kind(kind: Kind, options: str) -> None:
    """Firefox's folder has this name on macOS."""
    target = Target("", kind, Path("/some/NativeMessagingHosts"))
    assert option_for(target) == options
