"""Opening of private files: regular ones only, without waiting."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from native_host.system.private_files import open_regular

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
