"""profiles.json: all bridges keep one order, a broken file is left alone, and old profiles are forgotten."""

from __future__ import annotations

import json
import math
import multiprocessing
from pathlib import Path

import pytest
import trio

from bridge.hub.change_signal import ChangeSignal
from bridge.hub.public_names import ProfileRow
from bridge.hub.registry import Registry
from bridge.hub.transport import DiscoveryFinished
from bridge.state.profiles_file import KEPT_PROFILES, ProfilesFile, ProfilesFileError, ProfileSync
from fake_transport import connect
from native_host.system.private_files import lock_directory

WORK, HOME = ProfileRow("work"), ProfileRow("home", is_marked=True)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    (tmp_path / "state").mkdir(mode=0o700)
    return tmp_path / "state"


def test_the_order_is_stored_for_other_bridges_and_for_nobody_else(state: Path) -> None:
    assert ProfilesFile(state).meet(["work", "home"]) == [WORK, HOME]
    file = ProfilesFile(state)
    assert file.read_rows() == file.meet(["home", "work"]) == file.meet([]) == [WORK, HOME]
    assert file.path.stat().st_mode & 0o777 == 0o600
    stored = {"profiles": [{"id": "work", "marked": False}, {"id": "home", "marked": True}]}
    assert json.loads(file.path.read_text()) == stored


def _meet(state: Path, present: list[str]) -> None:
    ProfilesFile(state).meet(present)


def test_bridges_that_write_at_once_agree_on_one_unmarked_profile(state: Path) -> None:
    """Each has met the profiles in another order."""
    context = multiprocessing.get_context("fork")
    names = [f"p{number}" for number in range(8)]
    orders = [names[start:] + names[:start] for start in range(8)]
    writers = [context.Process(target=_meet, args=(state, order)) for order in orders]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    rows = ProfilesFile(state).read_rows()
    assert sorted(row.id for row in rows) == names
    assert [row.is_marked for row in rows] == [False] + [True] * 7


@pytest.mark.parametrize("content", ["{", '{"profiles": [{"id": 1}]}', "[]"])
def test_a_broken_file_is_named_with_its_remedy_and_stays(state: Path, content: str) -> None:
    file = ProfilesFile(state)
    file.path.write_text(content)
    with pytest.raises(ProfilesFileError, match=r"profiles\.json: it cannot be read \(.*\): remove it"):
        file.meet(["work"])
    assert file.path.read_text() == content


def test_a_state_directory_that_is_open_to_others_is_not_used(state: Path) -> None:
    state.chmod(0o777)
    with pytest.raises(ProfilesFileError):
        ProfilesFile(state).meet(["work"])


def test_the_earliest_absent_profiles_are_forgotten_when_there_are_too_many(state: Path) -> None:
    file = ProfilesFile(state)
    file.meet(["work"])
    for number in range(KEPT_PROFILES + 1):
        file.meet(["work", f"p{number}"])
    rows = file.read_rows()
    assert len(rows) == KEPT_PROFILES
    assert [row.id for row in rows[:2]] == ["work", "p2"]


# ── One hub ─────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_hub_stores_what_it_meets_and_adopts_what_another_one_has_stored(
    state: Path, nursery: trio.Nursery
) -> None:
    registry, changes, sync = Registry(), ChangeSignal(), ProfileSync(ProfilesFile(state))
    nursery.start_soon(sync.run, registry, changes)
    registry.on_event(DiscoveryFinished(), 0.0)
    connect(registry, "h1", profile="work", browser_pid=1, started_at=1.0)
    connect(registry, "h2", profile="home", browser_pid=2, started_at=2.0)
    with trio.fail_after(30):
        await changes.wait_until(lambda: bool(sync.marks.mark_of("home")), until=math.inf)
    assert ProfilesFile(state).read_rows() == [WORK, HOME]
    ProfilesFile(state).meet(["work", "lab"])  # another bridge has met a third one
    with trio.fail_after(30):
        await changes.wait_until(lambda: bool(sync.marks.mark_of("lab")), until=math.inf)
    assert not sync.marks.mark_of("work")


async def test_a_hub_whose_file_cannot_be_read_says_so_once_and_goes_on(
    state: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = ProfilesFile(state)
    file.path.write_text("{")
    sync = ProfileSync(file)
    assert sync.marks.rows == ()
    assert "The order of profiles is not shared with other bridges" in caplog.text


def test_a_lock_that_another_process_keeps_is_not_waited_for_without_end(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bridge.state.profiles_file._LOCK_S", 0.01)
    with lock_directory(state), pytest.raises(ProfilesFileError, match="locked by another process"):
        ProfilesFile(state).meet(["work"])
