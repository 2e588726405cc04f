"""Installing and uninstalling, killed at any point and repeated in any order: nothing of others is changed,
and nothing of ours is left behind.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pytest

from forked_commands import Commands, Listing, commands, listing, manifest_of
from native_host.protocol.wire import HOST_NAME

INSTALL, UNINSTALL = "install-native-host", "uninstall-native-host"
KILLED = -9
NOBODY = 65534
EXTENSION = Path(__file__).parents[3] / "extension"
FOREIGN = f'{{"name": "{HOST_NAME}", "path": "/bin/cat"}}'


@pytest.fixture(scope="module")
def server() -> Iterator[Commands]:
    with commands() as running:
        yield running


@pytest.fixture
def mcpb(server: Commands, home: Path) -> Commands:
    server.defaults = {"home": str(home)}
    return server


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The home of somebody who uses Chromium and Firefox, and has another product's host."""
    home = tmp_path / "home"
    (home / ".config/chromium/NativeMessagingHosts").mkdir(parents=True)
    (home / ".config/chromium/NativeMessagingHosts/com.example.other.json").write_text("{}")
    (home / ".mozilla").mkdir(mode=0o700)
    return home


def manifest(browser: Path) -> Path:
    return browser / f"NativeMessagingHosts/{HOST_NAME}.json"


# ── Killed ──────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Play:
    """A command that is killed, and what was done before it."""

    name: str
    command: Sequence[str]
    version: str = ""
    earlier: Sequence[Sequence[str]] = ()
    foreign: Sequence[str] = ()
    """Browsers in whose place of our manifest another one is."""

    def __str__(self) -> str:
        return self.name


PLAYS = [
    Play("a first installation", [INSTALL]),
    Play("an upgrade", [INSTALL], "9.9.9", [[INSTALL]]),
    Play("another browser", [INSTALL, "--user-data-dir", "deep/in/nothing"], earlier=[[INSTALL]]),
    Play("a place that is taken", [INSTALL, "--replace"], foreign=[".config/chromium"]),
    Play("an upgrade of that", [INSTALL], "9.9.9", [[INSTALL, "--replace"]], [".config/chromium"]),
    Play("one browser out", [UNINSTALL, "--browser", "chromium"], earlier=[[INSTALL]]),
    Play("all out", [UNINSTALL], earlier=[[INSTALL]]),
    Play("all out, what was there back", [UNINSTALL], "", [[INSTALL, "--replace"]], [".config/chromium"]),
]
AFTERWARDS: list[list[list[str]]] = [
    [],
    [["the same"]],
    [[INSTALL]],
    [[INSTALL, "--all", "--replace"]],
    [[UNINSTALL], [INSTALL, "--replace"]],
]
"""What the person may do then, before everything is uninstalled: one of these after each change, in turn."""
LEAST_POINTS = 8
"""So many changes each command makes: where nothing is killed nothing is proved."""


@pytest.mark.parametrize("play", PLAYS, ids=str)
def test_killed_at_any_change_of_the_disk_everything_can_be_finished_and_undone(
    mcpb: Commands, home: Path, monkeypatch: pytest.MonkeyPatch, play: Play
) -> None:
    for browser in play.foreign:
        manifest(home / browser).write_text(FOREIGN)
    start = listing(home)
    for earlier in play.earlier:
        assert mcpb.run(*in_home(home, earlier), "--yes").exit_code == 0
    prepared = home.with_name("prepared")
    shutil.copytree(home, prepared, symlinks=True)
    command = [*in_home(home, play.command), "--yes"]
    for point in count(1):
        shutil.rmtree(home)
        shutil.copytree(prepared, home, symlinks=True)
        ended = mcpb.run(*command, version=play.version, kill_at=point)
        if ended.exit_code != KILLED:
            assert ended.exit_code == 0, ended.output
            assert point > LEAST_POINTS
            return
        for later in (then := AFTERWARDS[point % len(AFTERWARDS)]):
            again = mcpb.run(*(command if later == ["the same"] else [*later, "--yes"]))
            is_refused = bool(play.foreign) and later == [INSTALL] and "--replace" in again.output
            assert again.exit_code == 0 or is_refused, again.output
            if later[0] == INSTALL and not is_refused and play.command[-1] != "chromium":
                assert manifest_of(home / ".config/chromium")["name"] == HOST_NAME
        undone = mcpb.run(UNINSTALL, "--yes")
        assert undone.exit_code == 0, undone.output
        assert listing(home) == start, (point, then)


def in_home(home: Path, command: Sequence[str]) -> list[str]:
    return [str(home / word) if word.startswith("deep") else word for word in command]


def test_killed_in_the_middle_of_removing_what_mcpb_keeps_the_next_run_removes_the_rest(
    mcpb: Commands, home: Path
) -> None:
    start = listing(home)
    mcpb.run(INSTALL, "--yes")
    shutil.copytree(EXTENSION, home / ".mcpb/extension")
    (home / ".mcpb/config.toml").touch()
    prepared = home.with_name("prepared")
    shutil.copytree(home, prepared, symlinks=True)
    for point in count(1, 3):
        shutil.rmtree(home)
        shutil.copytree(prepared, home, symlinks=True)
        ended = mcpb.run(UNINSTALL, "--purge", "--yes", kill_at=point)
        assert mcpb.run(UNINSTALL, "--purge", "--yes").exit_code == 0
        assert listing(home) == start, point
        if ended.exit_code != KILLED:
            assert point > 30
            return


# ── Refused by the system ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.skipif(os.getuid() != 0, reason="plays another user; modes do not stop root")
@pytest.mark.parametrize(
    "folder", ["", ".mcpb", ".mcpb/bin", ".mcpb/state", ".config/chromium/NativeMessagingHosts"]
)
def test_a_read_only_folder_is_refused_before_anything_is_written(
    server: Commands, short_tmp: Path, folder: str
) -> None:
    home = short_tmp / "home"
    for name in (".config/chromium/NativeMessagingHosts", folder):
        (home / name).mkdir(parents=True, exist_ok=True)
    give_to_nobody(short_tmp)
    (home / folder).chmod(0o500)
    start = listing(home)
    server.defaults = {"home": str(home), "uid": NOBODY}
    refused = server.run(INSTALL, "--yes")
    assert refused.exit_code == 1
    assert str(home / folder) in refused.output
    assert "read-only" in refused.output
    assert refused.events == []
    assert listing(home) == start


@pytest.mark.skipif(os.getuid() != 0, reason="plays another user; modes do not stop root")
def test_a_folder_of_ours_that_cannot_be_removed_yet_is_not_forgotten(
    server: Commands, short_tmp: Path
) -> None:
    home = short_tmp / "home"
    (home / ".mozilla").mkdir(parents=True)
    give_to_nobody(short_tmp)
    start = listing(home)
    server.defaults = {"home": str(home), "uid": NOBODY}
    server.run(INSTALL, "--yes")
    (home / ".mozilla").chmod(0o500)
    refused = server.run(UNINSTALL, "--yes")
    assert refused.exit_code == 1
    assert f"{home / '.mozilla/native-messaging-hosts'}: Permission denied" in refused.output
    (home / ".mozilla").chmod(0o755)
    assert server.run(UNINSTALL, "--yes").exit_code == 0
    assert listing(home) == start


@pytest.mark.skipif(os.getuid() != 0, reason="plays another user")
@pytest.mark.parametrize("closed", [".mozilla", ".mcpb"])
def test_what_cannot_be_looked_at_is_not_taken_for_gone(
    server: Commands, short_tmp: Path, closed: str
) -> None:
    home = short_tmp / "home"
    (home / ".mozilla").mkdir(parents=True)
    give_to_nobody(short_tmp)
    start = listing(home)
    server.defaults = {"home": str(home), "uid": NOBODY}
    server.run(INSTALL, "--yes")
    (home / closed).chmod(0)
    refused = server.run(UNINSTALL, "--yes")
    assert refused.exit_code == 1
    assert f"chmod u+rwx {home / closed}" in refused.output
    (home / closed).chmod(0o755)
    assert server.run(UNINSTALL, "--yes").exit_code == 0
    assert listing(home) == start


def test_on_a_full_disk_mcpb_can_still_be_removed(mcpb: Commands, home: Path) -> None:
    start = listing(home)
    mcpb.run(INSTALL, "--yes")
    removed = json.loads(mcpb.run(UNINSTALL, "--yes", "--json").output)
    assert {step["action"] for step in removed["steps"]} <= {"remove", "remove-if-empty"}
    assert listing(home) == start


def give_to_nobody(directory: Path) -> None:
    for path in [directory, *directory.rglob("*")]:
        os.chown(path, NOBODY, NOBODY)


def test_what_cannot_be_moved_to_another_disk_stays_and_the_rest_is_undone(
    mcpb: Commands, home: Path
) -> None:
    disk = home.stat().st_dev
    others = [directory for directory in ("/dev/shm", "/var/tmp") if Path(directory).stat().st_dev != disk]
    if not others:
        pytest.skip("one disk only")
    with tempfile.TemporaryDirectory(dir=others[0]) as elsewhere:
        manifest(home / ".config/chromium").write_text(FOREIGN)
        start = listing(home)
        environ = {"MCPB_HOME": f"{elsewhere}/mcpb"}
        refused = mcpb.run(INSTALL, "--yes", "--replace", environ=environ)
        assert refused.exit_code == 1
        assert "Move it away yourself" in refused.output
        assert mcpb.run(UNINSTALL, "--yes", environ=environ).exit_code == 0
        assert listing(home) == start
        assert list(Path(elsewhere).iterdir()) == []


# ── What is shown is what is done ───────────────────────────────────────────────────────────────────────────


def changes_of(steps: Sequence[dict[str, str]]) -> Iterator[tuple[str, list[str]]]:
    """The calls that a plan means. A file is written as a draft beside its place, and renamed."""
    for step in steps:
        match step["action"]:
            case "make":
                yield "os.mkdir", [step["path"]]
            case "write" | "replace":
                yield (
                    "open",
                    [Path(step["draft"]).name],
                )  # the event does not tell the folder; the next one does
                yield "os.rename", [step["draft"], step["path"]]
            case "move":
                yield "os.rename", [step["path"], step["to"]]
            case "remove":
                yield "os.remove", [step["path"]]
            case "remove-if-empty":
                yield "os.rmdir", [step["path"]]


@pytest.mark.parametrize("play", PLAYS, ids=str)
def test_what_a_dry_run_prints_is_exactly_what_is_then_done(mcpb: Commands, home: Path, play: Play) -> None:
    for browser in play.foreign:
        manifest(home / browser).write_text(FOREIGN)
    for earlier in play.earlier:
        mcpb.run(*earlier, "--yes")
    before = listing(home)
    command = in_home(home, play.command)
    shown = mcpb.run(*command, "--dry-run", "--json", version=play.version)
    assert shown.events == []
    assert listing(home) == before
    done = mcpb.run(*command, "--yes", "--json", version=play.version)
    planned, applied = json.loads(shown.output), json.loads(done.output)
    assert planned == applied | {"applied": False}
    assert done.events == list(changes_of(planned["steps"]))
    for step in planned["steps"]:
        if step["action"] == "make":
            assert oct(Path(step["path"]).stat().st_mode & 0o7777) == f"0o{step['mode'].lstrip('0')}"
    last = {step["path"]: step["content"] for step in planned["steps"] if "content" in step}
    there = {path: text for path, text in last.items() if Path(path).exists()}
    assert there == {path: Path(path).read_text() for path in there}


# ── Any order ───────────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class Life:
    """A machine on which much happens; what is not ours is written down."""

    mcpb: Commands
    home: Path
    dice: random.Random
    told: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.strangers: Counter[str] = Counter()
        self.ends: Counter[int] = Counter()

    def begin(self) -> Listing:
        for name in (".config/chromium", ".config/google-chrome", ".config/vivaldi", ".mozilla"):
            (self.home / name).mkdir(parents=True)
        other = self.home / ".config/chromium/NativeMessagingHosts/com.example.other.json"
        other.parent.mkdir()
        other.write_text("{}")
        return listing(self.home)

    def go_on(self) -> None:
        doings = [self.install, self.install, self.uninstall, self.kill, self.kill, self.take, self.lock]
        self.dice.choice([*doings, self.move, self.delete])()

    def run(self, *command: str, **options: object) -> None:
        self.told.append(f"{' '.join(command)} {options}")
        version = self.dice.choice(["0.0.1", "", "9.9.9"])
        ended = self.mcpb.run(*command, "--yes", home=str(self.home), version=version, **options)
        self.ends[ended.exit_code] += 1
        assert ended.exit_code in {0, 1, KILLED}, (ended.output, self.told)

    def some_command(self) -> list[str]:
        place = self.dice.choice([["--browser", "chromium"], ["--browser", "vivaldi"], ["--all"], []])
        extras = self.dice.choice([["--replace"], ["--extension-id", "a" * 32], []])
        if self.dice.random() < 0.7:
            return [INSTALL, *place, *extras]
        return [UNINSTALL, *(place if place != ["--all"] else [])]

    def install(self) -> None:
        self.run(*self.some_command())

    def uninstall(self) -> None:
        self.run(UNINSTALL)

    def kill(self) -> None:
        self.run(*self.some_command(), kill_at=self.dice.randrange(1, 30))

    def take(self) -> None:
        """Somebody else writes a manifest of our name, over ours or where none is."""
        browser = self.dice.choice([".config/chromium", ".config/vivaldi"])
        path = manifest(self.home / browser)
        if path.parent.exists():
            self.told.append(f"take {path}")
            path.unlink(missing_ok=True)
            path.write_text(FOREIGN)
            os.chown(path, NOBODY, NOBODY)
            self.strangers[browser] += 1

    def lock(self) -> None:
        """A folder is read-only for one command."""
        folder = self.home / self.dice.choice([".config/chromium", ".config/vivaldi", ".mozilla", "."])
        mode = folder.stat().st_mode
        folder.chmod(0o500)
        self.told.append(f"lock {folder}")
        self.run(*self.some_command())
        folder.chmod(mode)

    def move(self) -> None:
        there = self.home.with_name(f"home{self.dice.randrange(10**6)}")
        self.told.append(f"move {there}")
        self.home.rename(there)
        self.home = there

    def delete(self) -> None:
        path = manifest(self.home / self.dice.choice([".config/chromium", ".config/vivaldi"]))
        if path.exists() and path.read_text() != FOREIGN:
            self.told.append(f"delete {path}")
            path.unlink()


@pytest.mark.skipif(os.getuid() != 0, reason="plays another user")
@pytest.mark.parametrize("seed", range(12))
def test_whatever_happens_in_whatever_order_others_keep_theirs_and_nothing_of_ours_stays(
    server: Commands, short_tmp: Path, seed: int
) -> None:
    server.defaults = {"uid": NOBODY}
    life = Life(server, short_tmp / "home", random.Random(seed))
    start = life.begin()
    give_to_nobody(short_tmp)
    for _ in range(25):
        life.go_on()
    life.run(UNINSTALL)
    assert life.ends[0] > 3, "hardly anything was done"
    left = dict(listing(life.home))
    for browser in life.strangers:
        found = str(manifest(Path(browser)))
        assert found in left, "\n".join(life.told)
        assert bytes.fromhex(left.pop(found)[1]).decode() == FOREIGN, life.told
        if str(Path(found).parent) not in start:
            left.pop(str(Path(found).parent))
    if max(life.strangers.values(), default=0) > 1:  # of two in one place the earlier stays in the backup
        kept = {path: left.pop(path) for path in list(left) if path.startswith(".mcpb")}
        files = {path: content for path, (_, content) in kept.items() if content}
        assert all(path.startswith(".mcpb/state/backup/") for path in files), life.told
        assert set(files.values()) <= {FOREIGN.encode().hex()}, life.told
    assert left == start, life.told
