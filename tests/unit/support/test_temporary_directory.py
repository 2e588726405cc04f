"""A throw-away directory is gone afterwards, whoever still writes into it."""

import shutil
from pathlib import Path

import pytest

from demo.temporary_directory import throw_away_directory


def test_it_is_removed_although_a_dying_process_still_writes_into_it(monkeypatch: pytest.MonkeyPatch) -> None:
    remove = shutil.rmtree
    late_writes = ["a", "b"]

    def remove_then_be_written_to(directory: Path, ignore_errors: bool) -> None:
        remove(directory, ignore_errors)
        if late_writes:
            (directory / late_writes.pop()).mkdir(parents=True)

    monkeypatch.setattr("demo.temporary_directory.shutil.rmtree", remove_then_be_written_to)
    with throw_away_directory() as directory:
        (directory / "profile").mkdir()
    assert not late_writes
    assert not directory.exists()


def test_one_that_cannot_be_removed_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("demo.temporary_directory.TRIES", 1)
    monkeypatch.setattr("demo.temporary_directory.tempfile.mkdtemp", lambda **_: str(tmp_path / "a"))
    (tmp_path / "a").touch()  # a file cannot be removed as a directory
    with pytest.raises(NotADirectoryError), throw_away_directory():
        pass
