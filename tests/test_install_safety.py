"""What keeps the installer from harm: each step looks again before it changes the disk, and nothing that was
known is forgotten on the way.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from forked_commands import listing
from install import plan as planning
from install import removal
from install.browsers import Browser, Kind, Place, Target
from install.choice import Choice, selector
from install.commands import this_home
from install.disk import ApplyError, apply, look
from install.ledger import Entry, Ledger, ledger_path, moved, read
from install.machine import Machine
from install.reach import unreachable
from install.steps import Move, Plan, Remove, Step, Write
from installing import FOREIGN, MANIFEST, foreign, install, live_in, uninstall, use

WRAPPER = ".mcpb/bin/mcpb-native-host"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return live_in(tmp_path / "home", monkeypatch)


@pytest.fixture
def chromium(home: Path) -> Path:
    return use(home / ".config/chromium")


def ledger(home: Path) -> Ledger:
    path = ledger_path(home / ".mcpb")
    return read(path.read_bytes(), path)


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
    apply(Plan(step.path.parent, [step]))


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


def test_a_python_that_others_may_run_but_not_read_is_closed_to_them(short_tmp: Path) -> None:
    short_tmp.chmod(0o755)
    python = short_tmp / "python"
    python.touch()
    python.chmod(0o711)
    assert unreachable(python) == python


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
    (begun, *_) = removal.uninstall_from(this_home(), [target], look).steps
    do(begun)
    assert (chromium / MANIFEST).exists()
    assert planning.registered_targets(ledger(home), look) == []
    assert "To bring it back: mcpb install-native-host --browser chromium" in install().output


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
    apply(removal.uninstall(this_home(), [], look, folders=[empty, full]))
    assert list((home / "run").iterdir()) == [full]


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
    (entry,) = moved(written_at_old(), NEW, Path("/new"), lambda _path: False).entries
    assert entry.path == f"{NEW}/bin/mcpb-native-host"


def test_what_is_in_neither_place_stays_with_a_folder_that_is_there() -> None:
    """A drive that was unplugged takes no entry along."""
    there = {Path("/old"), OLD}
    (entry,) = moved(written_at_old(), NEW, Path("/new"), there.__contains__).entries
    assert entry.path == f"{OLD}/bin/mcpb-native-host"


def test_a_copy_claims_no_folder_of_the_original_s() -> None:
    there = {OLD, ledger_path(OLD), Path("/data/profile")}
    known = written_at_old(("/data/profile", f"{OLD}/deep"))
    copy = moved(known, NEW, Path("/old"), there.__contains__)
    assert copy.directories == (f"{NEW}/deep",)


# ── Names ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_of_browsers_that_read_one_folder_those_that_must_be_named_are_not_spoken_of() -> None:
    def lender(name: str, *, named_only: bool = False) -> Browser:
        place = Place(data=name, borrows="" if name == "lender" else "lender")
        return Browser(name=name, title=name.title(), kind="chromium", linux=(place,), named_only=named_only)

    rows = [lender("lender"), lender("reader"), lender("rare", named_only=True)]
    choice = Choice(Machine("linux", Path("/home/x"), {}, Path("/")), rows, lambda _path: True)
    target = Target("Lender", "chromium", Path("/home/x/.config/lender/NativeMessagingHosts"), "lender")
    assert choice.sharing([target]) == ["Reader"]


@pytest.mark.parametrize(
    ("kind", "options"),
    [("chromium", "--user-data-dir /some"), ("firefox", "--dir /some/NativeMessagingHosts --kind firefox")],
)
def test_a_folder_is_named_by_options_that_mean_its_kind(kind: Kind, options: str) -> None:
    """Firefox's folder has this name on macOS."""
    target = Target("", kind, Path("/some/NativeMessagingHosts"))
    assert selector(target) == options
