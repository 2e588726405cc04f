"""pauses.json: writers merge, what is old is forgotten, a broken file keeps what was read before."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from pathlib import Path

import pytest

from bridge.state.pauses_file import PausesFile, PausesFileError
from native_host.protocol.wire import PauseChange

NOW = 1_800_000_000_000
MONTH_MS = 30 * 86_400_000


def site(name: str, at: int = NOW, *, paused: bool = True) -> PauseChange:
    return PauseChange(site=name, paused=paused, at=at)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    (tmp_path / "state").mkdir(mode=0o700)
    return tmp_path / "state"


def test_a_change_is_read_by_another_process_s_file(state: Path) -> None:
    ours, theirs = PausesFile(state), PausesFile(state)
    assert theirs.refresh() is False
    ours.merge_changes([site("localhost")], NOW)
    assert theirs.refresh() is True
    assert theirs.changes == ours.changes == [site("localhost")]
    assert theirs.refresh() is False
    assert ours.path.stat().st_mode & 0o777 == 0o600


def test_a_later_change_in_the_file_stays(state: Path) -> None:
    ours, theirs = PausesFile(state), PausesFile(state)
    theirs.merge_changes([site("localhost", NOW + 1, paused=False)], NOW)
    ours.merge_changes([site("localhost", NOW)], NOW)
    assert ours.changes == [site("localhost", NOW + 1, paused=False)]


def _merge_one(state: Path, number: int) -> None:
    PausesFile(state).merge_changes([site(f"s{number}.example")], NOW)


def test_no_writer_of_several_loses_a_change(state: Path) -> None:
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=_merge_one, args=(state, number)) for number in range(8)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    file = PausesFile(state)
    file.refresh()
    assert {change.site for change in file.changes} == {f"s{number}.example" for number in range(8)}


def test_removals_and_sessions_are_bounded_and_paused_sites_are_not(state: Path) -> None:
    file, count = PausesFile(state), 266
    sites = [site(f"s{number}.example", 1) for number in range(count)]
    removals = [site(f"r{number}.example", NOW - number, paused=False) for number in range(count)]
    sessions = [PauseChange(session=f"s{number}", paused=True, at=number) for number in range(count)]
    file.merge_changes([*sites, *removals, *sessions], NOW)
    found = file.changes
    assert sum(change.paused and bool(change.site) for change in found) == count
    assert sum(not change.paused for change in found) == 256
    kept = [change.at for change in found if change.session]
    assert (len(kept), min(kept)) == (256, 10)


def test_a_removal_is_forgotten_after_30_days_and_a_pause_never(state: Path) -> None:
    file = PausesFile(state)
    paused = site("paused.example", 1)
    recent = site("recent.example", NOW - MONTH_MS + 1, paused=False)
    file.merge_changes([paused, recent, site("old.example", NOW - MONTH_MS, paused=False)], NOW)
    assert sorted(file.changes, key=lambda change: change.at) == [paused, recent]


def make_unreadable(path: Path) -> None:
    path.write_bytes(b'{"changes": [')


def make_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def name_no_site(path: Path) -> None:
    path.write_text('{"changes": [{"site": "https://", "paused": true, "at": 1}]}')


def name_a_site_otherwise(path: Path) -> None:
    path.write_text('{"changes": [{"site": "Bank.example", "paused": true, "at": 1}]}')


def name_nothing(path: Path) -> None:
    path.write_text('{"changes": [{"paused": true, "at": 1}]}')


def open_to_others(path: Path) -> None:
    path.chmod(0o666)


@pytest.mark.parametrize(
    "break_file",
    [make_unreadable, make_a_folder, name_no_site, name_a_site_otherwise, name_nothing, open_to_others],
)
def test_a_broken_file_keeps_what_was_read_and_is_not_overwritten(
    state: Path, break_file: Callable[[Path], None]
) -> None:
    file = PausesFile(state)
    file.merge_changes([site("localhost")], NOW)
    break_file(file.path)
    with pytest.raises(PausesFileError, match=r"pauses\.json"):
        file.refresh()
    assert file.changes == [site("localhost")]
    with pytest.raises(PausesFileError, match=r"pauses\.json"):
        file.merge_changes([site("shop.example")], NOW)
    assert file.changes == [site("localhost")]
