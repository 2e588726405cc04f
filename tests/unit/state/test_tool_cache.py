"""Cached tools on disk: shared by all bridges, private, and never the reason why a bridge fails."""

import fcntl
import logging
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from bridge.hub.cached_tools import MAX_SITE_TOOLS, TOUCH_S, CachedToolIndex
from bridge.state.tool_cache import PRUNE_APART_S, REST_S, SqliteToolStore, StoreError, _File
from custom_tools import SHOP, names, offer, tools
from native_host.system.home_layout import StateLayout

ROOT = Path(__file__).parents[3]
NOBODY = 65_534
FILE = StateLayout.tool_cache.name


class Clock:
    """Stands still until it is told."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def state(short_tmp: Path) -> Path:
    return short_tmp / "state"


Open = Callable[..., SqliteToolStore]


@pytest.fixture
def open_store(state: Path, clock: Clock) -> Iterator[Open]:
    """Opens as many stores over the one file as bridges would."""
    opened: list[SqliteToolStore] = []

    def open_one(**settings: Any) -> SqliteToolStore:
        opened.append(SqliteToolStore(state, clock, **settings))
        return opened[-1]

    yield open_one
    for store in opened:
        store.close()


def make_file(open_store: Open) -> None:
    """Create the file without a tool in it: only a write creates it."""
    store = open_store()
    offer(store, tools("z"))
    store.forget_site(SHOP)
    store.close()


def rows(state: Path, what: str) -> list[tuple[Any, ...]]:
    """What somebody else reads in the file."""
    with closing(sqlite3.connect(state / FILE)) as connection:
        return connection.execute(what).fetchall()


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


# ── Keeping ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_cached_tool_survives_its_bridge_word_for_word(open_store: Open) -> None:
    kept = tools("getCart", description="What is \N{TEAPOT} in it")
    first = open_store()
    assert offer(first, kept, path="/cart?x=1")
    first.close()
    (cached,) = open_store().tools()
    assert (cached.profile, cached.origin, cached.url) == ("p1", SHOP, f"{SHOP}/cart?x=1")
    assert cached.tool == kept[0]


def test_what_a_page_no_longer_allows_is_gone_for_the_next_bridge_too(open_store: Open) -> None:
    first = open_store()
    offer(first, tools("a", "b"))
    assert offer(first, tools("a", cache=False))
    assert names(open_store()) == ["b"]


def test_what_one_bridge_keeps_another_sees_when_it_looks(open_store: Open) -> None:
    ours, theirs = open_store(), open_store()
    offer(theirs, tools("a"))
    assert names(ours) == []
    assert ours.refresh()
    assert names(ours) == ["a"]
    assert not ours.refresh()
    offer(theirs, tools("a", description="changed"))
    assert ours.refresh()
    assert [cached.tool.description for cached in ours.tools()] == ["changed"]


def test_to_look_costs_nothing_while_nobody_has_written(open_store: Open) -> None:
    ours, theirs = open_store(), open_store()
    offer(theirs, tools("a"))
    ours.refresh()
    asked: list[str] = []
    ours._file._open_connection().set_trace_callback(asked.append)
    ours.refresh()
    assert asked == ["BEGIN", "PRAGMA data_version", "COMMIT"]


def test_what_all_bridges_hear_is_written_once(open_store: Open, state: Path) -> None:
    ours, theirs = open_store(), open_store()
    offer(ours, tools("a"))
    with closing(sqlite3.connect(state / FILE)) as onlooker:
        before = onlooker.execute("PRAGMA data_version").fetchone()
        offer(theirs, tools("a"))
        offer(ours, tools("a"))
        assert onlooker.execute("PRAGMA data_version").fetchone() == before
    assert names(theirs) == names(ours) == ["a"]


def test_when_a_tool_was_seen_is_written_every_few_minutes_only(
    open_store: Open, state: Path, clock: Clock
) -> None:
    store = open_store()
    began = clock.now
    offer(store, tools("a"))
    clock.now += TOUCH_S - 1
    offer(store, tools("a"))
    assert rows(state, "SELECT seen_at FROM tools") == [(began,)]
    clock.now += 1
    assert not offer(store, tools("a"))
    assert rows(state, "SELECT seen_at FROM tools") == [(clock.now,)]


def test_a_second_process_and_this_one_share_the_file(open_store: Open, state: Path) -> None:
    ours = open_store()
    offer(ours, tools("a"))
    script = """
import sys, pathlib
sys.path.insert(0, "tests/support")
from bridge.state.tool_cache import SqliteToolStore
from custom_tools import offer, names, tools
store = SqliteToolStore(pathlib.Path(sys.argv[1]))
for number in range(50):
    offer(store, tools(f"theirs{number}"), origin=f"https://theirs{number}.example")
print(*names(store))
"""
    with subprocess.Popen(
        [sys.executable, "-c", script, str(state)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as theirs:
        for number in range(50):
            offer(ours, tools(f"ours{number}"), origin=f"https://ours{number}.example")
        said, _ = theirs.communicate(timeout=30)
    assert theirs.returncode == 0
    assert "a" in said.split()
    ours.refresh()
    expected = {"a"} | {f"{whose}{number}" for whose in ("ours", "theirs") for number in range(50)}
    assert set(names(ours)) == expected


def test_processes_that_begin_the_file_at_the_same_time_all_keep_in_it(open_store: Open, state: Path) -> None:
    script = """
import sys, pathlib, signal
signal.alarm(30)
sys.path.insert(0, "tests/support")
from bridge.state import tool_cache
from bridge.state.tool_cache import SqliteToolStore
from custom_tools import offer, tools
tool_cache.BUSY_S = 20  # on a busy machine, the others take longer
print("ready", flush=True)
sys.stdin.read()
offer(SqliteToolStore(pathlib.Path(sys.argv[1])), tools(sys.argv[2]))
"""
    with ExitStack() as processes:
        started = [
            processes.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", script, str(state), f"t{number}"],
                    cwd=ROOT,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
            for number in range(6)
        ]
        for process in started:
            assert process.stdout
            assert process.stdout.readline() == "ready\n"
        for process in started:
            assert process.stdin
            process.stdin.close()
        for process in started:
            assert process.stderr
            assert process.stderr.read() == ""
            assert process.wait(30) == 0
    assert names(open_store()) == [f"t{number}" for number in range(6)]


# ── Forgetting ──────────────────────────────────────────────────────────────────────────────────────


def test_where_tabs_were_is_forgotten_after_an_hour_and_the_tools_are_not(
    open_store: Open, state: Path, clock: Clock
) -> None:
    store = open_store()
    offer(store, tools("a"), path="/cart?token=hunter2")
    clock.now += 3600 + PRUNE_APART_S
    assert store.refresh()
    assert rows(state, "SELECT * FROM tabs") == []
    (cached,) = store.tools()
    assert cached.url == f"{SHOP}/cart"
    store.close()
    assert b"hunter2" not in (state / FILE).read_bytes()


def test_what_is_too_old_is_pruned_when_the_next_bridge_opens_the_file(
    open_store: Open, state: Path, clock: Clock
) -> None:
    offer(open_store(), tools("a"), path="/?x=1")
    clock.now += 3601
    assert [cached.url for cached in open_store().tools()] == [f"{SHOP}/"]
    assert rows(state, "SELECT * FROM tabs") == []


def test_tools_that_nobody_offered_for_as_many_days_as_configured_go(open_store: Open, clock: Clock) -> None:
    offer(open_store(), tools("a"))
    clock.now += 8 * 86_400
    assert names(open_store()) == ["a"]
    assert names(open_store(cached_days=30)) == ["a"]
    assert names(open_store(cached_days=7)) == []


@pytest.mark.parametrize("origin", [SHOP, f"{SHOP}/", " HTTPS://Shop.example:443/ "])
def test_an_origin_is_forgotten_in_all_profiles_and_in_all_bridges(
    open_store: Open, state: Path, origin: str
) -> None:
    ours, command = open_store(), open_store()
    for profile in ("p1", "p2"):
        offer(ours, tools("a", "b"), profile=profile)
    offer(ours, tools("c"), origin="https://other.example", tab_id=2)
    assert command.forget_site(origin) == 4
    assert ours.refresh()
    assert names(ours) == names(command) == ["c"]
    assert rows(state, "SELECT origin FROM tabs") == [("https://other.example",)]
    assert command.forget_site(origin) == 0


def test_a_page_that_is_still_open_is_kept_again_when_it_announces(open_store: Open) -> None:
    ours, command = open_store(), open_store()
    offer(ours, tools("a"))
    command.forget_site(SHOP)
    offer(ours, tools("a"))
    command.refresh()
    assert names(command) == ["a"]


def test_what_is_no_origin_is_not_forgotten_but_refused(open_store: Open) -> None:
    with pytest.raises(StoreError, match="write it like https://"):
        open_store().forget_site("shop.example")


# ── Private ─────────────────────────────────────────────────────────────────────────────────────────


def test_the_files_are_for_us_alone_whatever_the_umask_says(open_store: Open, state: Path) -> None:
    umask = os.umask(0)
    try:
        offer(open_store(), tools("a"))
    finally:
        os.umask(umask)
    assert {file.name: file.stat().st_mode & 0o777 for file in state.iterdir()} == {
        FILE: 0o600,
        f"{FILE}-wal": 0o600,
        f"{FILE}-shm": 0o600,
    }


def test_a_file_that_others_could_read_is_closed_to_them(open_store: Open, state: Path) -> None:
    make_file(open_store)
    (state / FILE).chmod(0o644)
    open_store()
    assert (state / FILE).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm", "-journal"])
def test_a_link_in_place_of_a_file_is_never_followed(
    open_store: Open, state: Path, short_tmp: Path, suffix: str, caplog: pytest.LogCaptureFixture
) -> None:
    state.mkdir(mode=0o700)
    target = short_tmp / "precious"
    target.write_bytes(b"")
    (state / f"{FILE}{suffix}").symlink_to(target)
    store = open_store()
    assert not offer(store, tools("a"))
    assert (names(store), target.read_bytes()) == ([], b"")
    assert "is not a file of yours" in warnings(caplog)[0]


def test_a_directory_that_others_may_enter_is_not_used(
    open_store: Open, state: Path, caplog: pytest.LogCaptureFixture
) -> None:
    state.mkdir()
    state.chmod(0o755)
    assert not offer(open_store(), tools("a"))
    assert list(state.iterdir()) == []
    assert "chmod 700" in warnings(caplog)[0]


# ── What goes wrong ─────────────────────────────────────────────────────────────────────────────────


def test_a_file_that_is_no_database_is_moved_aside(
    open_store: Open, state: Path, caplog: pytest.LogCaptureFixture
) -> None:
    state.mkdir(mode=0o700)
    (state / FILE).write_bytes(b"not a database, but precious to somebody" * 100)
    store = open_store()
    assert offer(store, tools("a"))
    assert (state / f"{FILE}.broken").read_bytes().startswith(b"not a database")
    assert "moved aside" in warnings(caplog)[0]
    assert names(open_store()) == ["a"]


def test_a_file_that_is_damaged_under_two_bridges_costs_neither_what_it_knows(
    open_store: Open, state: Path
) -> None:
    ours, theirs = open_store(), open_store()
    offer(ours, tools("a", description="x" * 10_000))
    theirs.refresh()
    ours.close()
    theirs.close()
    whole = (state / FILE).read_bytes()
    (state / FILE).write_bytes(whole[:100] + b"\xff" * (len(whole) - 100))
    offer(theirs, tools("b"))
    offer(ours, tools("c"))
    theirs.refresh()
    assert names(ours) == names(theirs) == names(open_store()) == ["a", "b", "c"]
    assert [file.name for file in state.glob("*.broken*")] == [f"{FILE}.broken"]


def test_two_bridges_that_find_the_same_damage_move_it_aside_once(open_store: Open, state: Path) -> None:
    state.mkdir(mode=0o700)
    (state / FILE).write_bytes(b"not a database" * 100)
    late = _File(state)
    with pytest.raises(sqlite3.DatabaseError):
        late.read_changes(CachedToolIndex())
    offer(open_store(), tools("a"))
    late.move_aside()
    assert names(open_store()) == ["a"]
    assert (state / f"{FILE}.broken").read_bytes().startswith(b"not a database")


def test_a_file_that_is_removed_is_forgotten_and_begun_again(open_store: Open, state: Path) -> None:
    store = open_store()
    offer(store, tools("a"))
    for file in state.iterdir():
        file.unlink()
    assert store.refresh()
    assert names(store) == []
    offer(store, tools("b"))
    assert names(open_store()) == ["b"]


def test_a_file_of_a_newer_version_is_left_alone(
    open_store: Open, state: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make_file(open_store)
    with closing(sqlite3.connect(state / FILE)) as newer:
        newer.executescript("PRAGMA journal_mode = DELETE; DROP TABLE tools; PRAGMA user_version = 2")
    before = (state / FILE).read_bytes()
    store = open_store()
    assert not offer(store, tools("a"))
    assert (state / FILE).read_bytes() == before
    assert ["schema 2" in warning and "Update mcpb" in warning for warning in warnings(caplog)] == [True]
    with pytest.raises(StoreError, match="Update mcpb"):
        store.forget_site(SHOP)


def test_what_cannot_be_written_while_somebody_locks_the_file_is_written_later(
    open_store: Open, state: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_store()
    offer(store, tools("a"))
    with closing(sqlite3.connect(state / FILE, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert not offer(store, tools("b"))
        assert not offer(store, tools("c"), tab_id=2)
        assert names(store) == ["a"]
        with pytest.raises(StoreError, match="locked"):
            store.forget_site(SHOP)
    assert [warning for warning in warnings(caplog) if "locked" in warning] == warnings(caplog)[:1]
    clock.now += REST_S
    assert store.refresh()
    assert names(store) == names(open_store()) == ["a", "b", "c"]


@pytest.mark.parametrize("content", [b"", b"not a database"], ids=["a new file", "a damaged file"])
def test_a_process_that_holds_the_directory_is_not_waited_for_without_end(
    open_store: Open, state: Path, clock: Clock, caplog: pytest.LogCaptureFixture, content: bytes
) -> None:
    state.mkdir(mode=0o700)
    (state / FILE).write_bytes(content)
    holder = os.open(state, os.O_RDONLY)
    try:
        fcntl.flock(holder, fcntl.LOCK_EX)
        store = open_store()
        assert not offer(store, tools("a"))
        assert f"another process holds {state}" in warnings(caplog)[-1]
        with pytest.raises(StoreError, match=r"another process holds .*\. Try again"):
            store.forget_site(SHOP)
    finally:
        os.close(holder)
    clock.now += REST_S
    assert store.refresh()
    assert names(store) == ["a"]


def test_a_locked_file_does_not_make_every_announcement_wait(
    open_store: Open, state: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    make_file(open_store)
    store = open_store()
    with closing(sqlite3.connect(state / FILE, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        offer(store, tools("a"))
        other.execute("ROLLBACK")
        offer(store, tools("b"), tab_id=2)
        assert rows(state, "SELECT name FROM tools") == []
    clock.now += REST_S
    store.refresh()
    assert names(store) == ["a", "b"]


def test_what_is_still_to_be_written_is_written_at_the_end(open_store: Open, state: Path) -> None:
    make_file(open_store)
    store = open_store()
    with closing(sqlite3.connect(state / FILE, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        offer(store, tools("a"))
    store.close()
    assert names(open_store()) == ["a"]


def test_a_full_disk_costs_only_what_did_not_fit(
    open_store: Open, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_store()
    offer(store, tools("a"))
    connection = store._file._open_connection()
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages}")
    assert not offer(store, tools("b", description="x" * 50_000))
    assert "full" in warnings(caplog)[0]
    assert names(store) == ["a"]
    clock.now += REST_S
    assert store.refresh()  # over a new connection, without that limit
    assert names(open_store()) == ["a", "b"]


def test_a_directory_that_cannot_be_written_is_only_a_warning(short_tmp: Path, state: Path) -> None:
    state.mkdir(mode=0o700)
    if os.getuid() == 0:
        os.chown(short_tmp, NOBODY, NOBODY)
        os.chown(state, NOBODY, NOBODY)
    state.chmod(0o500)
    script = f"""
import os, pathlib, sys
sys.path.insert(0, "tests/support")
from bridge.state.tool_cache import SqliteToolStore
from native_host.system.home_layout import StateLayout
from custom_tools import offer, names, tools
FILE = StateLayout.tool_cache.name
if os.getuid() == 0:
    os.setuid({NOBODY})  # modes do not stop root
store = SqliteToolStore(pathlib.Path(sys.argv[1]))
print(offer(store, tools("a")), names(store))
"""
    said = subprocess.run(
        [sys.executable, "-c", script, str(state)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert said.stdout.split() == ["False", "[]"]
    (warning,) = said.stderr.splitlines()
    assert "cannot be kept for later" in warning
    assert "Permission denied" in warning


def test_a_row_that_somebody_tampered_with_is_left_out_by_itself(open_store: Open, state: Path) -> None:
    offer(open_store(), tools("a", "b"))
    with closing(sqlite3.connect(state / FILE)) as other, other:
        other.execute("UPDATE tools SET definition = 'no tool', digest = 'x' WHERE name = 'a'")
    assert names(open_store()) == ["b"]


def test_a_page_that_announces_without_end_costs_bounded_disk(open_store: Open, state: Path) -> None:
    store = open_store()
    for number in range(60):
        many = tools(*(f"t{index}" for index in range(210)), description=str(number) + "x" * 4500)
        offer(store, many, origin=f"https://s{number % 3}.example", tab_id=number)
    assert len(store.tools()) == 3 * MAX_SITE_TOOLS
    assert sum(file.stat().st_size for file in state.iterdir()) < 16 * 1024 * 1024
