"""The token for those who are not known otherwise: made once, private, and never one that others may know."""

from __future__ import annotations

import os
import re
import stat
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from bridge.config.settings import HttpSettings
from bridge.frontends.http.bearer_token import TokenError, token_for
from native_host.system import private_files

NOTHING_SET = HttpSettings()


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


def kept(state: Path) -> Path:
    return state / "http-token"


def complaint(state: Path) -> str:
    with pytest.raises(TokenError) as refused:
        token_for(NOTHING_SET, state)
    return str(refused.value)


def test_a_configured_token_is_the_right_one_and_none_is_made(state: Path) -> None:
    assert token_for(HttpSettings(auth_token="abc"), state) == "abc"
    assert not state.exists()


def test_else_one_is_made_that_only_we_can_read_and_nobody_guesses(state: Path) -> None:
    made = token_for(NOTHING_SET, state)
    assert re.fullmatch(r"[A-Za-z0-9_-]{43}", made)
    assert stat.S_IMODE(kept(state).stat().st_mode) == 0o600
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    assert kept(state).read_text() == f"{made}\n"
    assert [path.name for path in state.iterdir()] == ["http-token"]


def test_the_next_start_finds_it_again(state: Path) -> None:
    assert token_for(NOTHING_SET, state) == token_for(NOTHING_SET, state)


def test_every_installation_has_its_own(tmp_path: Path) -> None:
    assert token_for(NOTHING_SET, tmp_path / "one") != token_for(NOTHING_SET, tmp_path / "two")


def test_of_two_that_start_at_once_both_take_the_same(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one has made its own between our look and our writing."""
    state.mkdir(mode=0o700)
    lock_directory = private_files.lock_directory

    def come_second(directory: Path) -> AbstractContextManager[int]:
        monkeypatch.setattr(private_files, "lock_directory", lock_directory)
        theirs.append(token_for(NOTHING_SET, state))
        return lock_directory(directory)

    theirs: list[str] = []
    monkeypatch.setattr(private_files, "lock_directory", come_second)
    assert [token_for(NOTHING_SET, state)] == theirs
    assert [path.name for path in state.iterdir()] == ["http-token"]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o777])
def test_one_that_others_may_know_or_have_written_is_not_used(state: Path, mode: int) -> None:
    known = token_for(NOTHING_SET, state)
    kept(state).chmod(mode)
    said = complaint(state)
    assert said.startswith(f"{kept(state)} is not a file that only you can read.")
    assert said.endswith(f"rm -r {kept(state)}")
    assert known not in said
    kept(state).unlink()
    assert token_for(NOTHING_SET, state) != known


def test_another_user_s_is_not_used(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token_for(NOTHING_SET, state)
    there, uid = os.fstat, os.getuid()

    def of_another_user(fd: int) -> os.stat_result:
        found = list(there(fd))
        found[stat.ST_UID] = uid + 1
        return os.stat_result(found)

    monkeypatch.setattr(os, "fstat", of_another_user)
    assert "is not a file that only you can read" in complaint(state)


def test_a_link_is_not_followed_wherever_it_leads(state: Path) -> None:
    token_for(NOTHING_SET, state)
    kept(state).rename(state / "elsewhere")
    kept(state).symlink_to(state / "elsewhere")
    assert f"{kept(state)} cannot be read" in complaint(state)
    (state / "elsewhere").unlink()
    assert f"{kept(state)} cannot be read" in complaint(state)


def test_a_pipe_or_a_directory_in_its_place_is_refused_without_waiting(state: Path) -> None:
    state.mkdir(mode=0o700)
    os.mkfifo(kept(state), 0o600)
    assert f"rm -r {kept(state)}" in complaint(state)
    kept(state).unlink()
    kept(state).mkdir(0o700)
    assert "rm -r" in complaint(state)


@pytest.mark.parametrize("content", [b"", b"\n", b"short\n", b"x" * 44, b"\xff" * 43, b"x" * 10_000])
def test_a_file_without_a_token_is_not_taken_for_an_empty_one(state: Path, content: bytes) -> None:
    state.mkdir(mode=0o700)
    kept(state).write_bytes(content)
    kept(state).chmod(0o600)
    assert "has no token of mcpb in it. Remove it" in complaint(state)


def test_a_directory_that_is_open_to_others_is_refused_with_the_command_that_mends_it(state: Path) -> None:
    state.mkdir()
    state.chmod(0o755)
    assert f"chmod 700 {state}" in complaint(state)
