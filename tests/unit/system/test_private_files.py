"""Private files: regular files and directories of this user, replaced, held and read."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from native_host.system import private_files
from native_host.system.private_files import (
    PrivateFileError,
    UnusableFileError,
    check_directory,
    draft_of,
    is_private,
    open_regular,
    prepare_directory,
)

APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT


def test_a_new_file_is_for_this_user_alone(tmp_path: Path) -> None:
    descriptor = open_regular(tmp_path / "log", APPEND)
    os.close(descriptor)
    assert (tmp_path / "log").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_RDWR, APPEND])
def test_a_fifo_is_rejected_without_waiting(tmp_path: Path, flags: int) -> None:
    os.mkfifo(tmp_path / "log")
    with pytest.raises(OSError, match=r"not a regular file|No such device"):
        open_regular(tmp_path / "log", flags)


def test_a_file_that_cannot_be_replaced_stays_and_has_no_draft(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "pauses.json"
    private_files.replace(path, b"before")

    def fail(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(PrivateFileError, match="No space left on device"):
        private_files.replace(path, b"after")
    assert path.read_bytes() == b"before"
    assert not draft_of(path).exists()


def test_a_fifo_that_another_process_reads_is_rejected_too(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "log")
    reader = os.open(tmp_path / "log", os.O_RDONLY | os.O_NONBLOCK)
    try:
        with pytest.raises(OSError, match="not a regular file"):
            open_regular(tmp_path / "log", APPEND)
    finally:
        os.close(reader)


@pytest.mark.parametrize("flags", [os.O_RDONLY, APPEND])
def test_a_device_is_rejected(flags: int) -> None:
    with pytest.raises(OSError, match="not a regular file"):
        open_regular("/dev/null", flags)


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "log").symlink_to(tmp_path / "other")
    with pytest.raises(OSError, match=os.strerror(errno.ELOOP)):
        open_regular(tmp_path / "log", APPEND)


def test_a_missing_directory_is_created_for_this_user_alone(tmp_path: Path) -> None:
    prepare_directory(tmp_path / "home" / "state")
    assert [stat.S_IMODE(each.stat().st_mode) for each in (tmp_path / "home", tmp_path / "home/state")] == [
        0o700,
        0o700,
    ]


def test_an_open_directory_is_rejected_with_the_command_that_closes_it(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    directory.mkdir()
    directory.chmod(0o755)
    with pytest.raises(PrivateFileError) as rejected:
        prepare_directory(directory)
    assert (rejected.value.path, rejected.value.command) == (directory, f"chmod 700 {directory}")


@pytest.mark.parametrize("kind", ["link", "file", "missing"])
def test_only_a_directory_is_private(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "run"
    if kind == "link":
        path.symlink_to(tmp_path)
    if kind == "file":
        path.touch(0o600)
    with pytest.raises(PrivateFileError) as rejected:
        check_directory(path)
    assert rejected.value.path == path
    assert not is_private(path)


def test_replacing_leaves_one_complete_private_file(tmp_path: Path) -> None:
    path = tmp_path / "approvals.json"
    private_files.replace(path, b"first")
    draft_of(path).write_bytes(b"left by a killed process")
    private_files.replace(path, b"second")
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"second", 0o600)
    assert list(tmp_path.iterdir()) == [path]


def test_replacing_writes_to_no_place_that_a_link_in_the_way_names(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"theirs")
    draft_of(tmp_path / "file").symlink_to(victim)
    private_files.replace(tmp_path / "file", b"ours")
    assert (victim.read_bytes(), (tmp_path / "file").read_bytes()) == (b"theirs", b"ours")


def test_a_failed_replacement_keeps_the_file_and_names_it(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"before")
    draft_of(path).mkdir()
    with pytest.raises(PrivateFileError) as failed:
        private_files.replace(path, b"after")
    assert (failed.value.path, path.read_bytes()) == (path, b"before")


@pytest.mark.parametrize("mode", [0o640, 0o604])
def test_a_secret_that_others_can_read_is_rejected(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "token"
    path.write_bytes(b"secret")
    path.chmod(0o600)
    assert private_files.read_secret(path, 3) == b"sec"
    path.chmod(mode)
    with pytest.raises(PrivateFileError):
        private_files.read_secret(path, 3)


def test_a_held_file_says_that_its_process_lives_and_goes_with_it(tmp_path: Path) -> None:
    path = tmp_path / "serve-1.json"
    with private_files.hold_file(path, b"first") as descriptor:
        assert private_files.read_held(path, 100) == (b"first", True)
        private_files.rewrite(path, descriptor, b"2nd")
        assert private_files.read_held(path, 100) == (b"2nd", True)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_no_process_holds_was_left_by_a_killed_one(tmp_path: Path) -> None:
    (tmp_path / "serve-1.json").write_bytes(b"{}")
    assert private_files.read_held(tmp_path / "serve-1.json", 100) == (b"{}", False)
    assert private_files.read_held(tmp_path / "serve-2.json", 100) is None


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file to another user")
def test_files_of_another_user_are_not_opened(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"theirs")
    os.chown(path, 65534, -1)
    assert private_files.open_own(path, os.O_RDONLY) is None
    with pytest.raises(PrivateFileError):
        private_files.read_secret(path, 10)


# ── Errors ──────────────────────────────────────────────────────────────────────────────────────────────────


class NotesError(UnusableFileError):
    """notes.toml cannot be used."""


def test_an_error_is_composed_of_path_reason_and_command() -> None:
    assert str(NotesError(Path("/n"), "key: expected int")) == "/n: key: expected int"
    assert str(NotesError(None, "NOTES=x: expected int")) == "NOTES=x: expected int"
    assert str(PrivateFileError(Path("/n"), "is open", "chmod 600 /n")) == "/n is open. Run: chmod 600 /n"


def test_a_wrapped_error_has_another_class_and_keeps_attributes_and_text() -> None:
    error = PrivateFileError(Path("/n"), "is open", "chmod 600 /n")
    wrapped = NotesError.wrap(error)
    assert (wrapped.path, wrapped.reason, wrapped.command) == (error.path, error.reason, error.command)
    assert str(wrapped) == str(error)
    assert not isinstance(wrapped, PrivateFileError)
