"""Who is connected to a socket of another process, by what Linux tells."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from native_host.existing_channel.channel_sockets import connections


@pytest.fixture
def listener(short_tmp: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(short_tmp / "1.sock"))
        listener.listen()
        yield listener


@pytest.mark.skipif(sys.platform != "linux", reason="Linux alone tells")
def test_who_has_connected_counts_before_the_host_has_accepted_and_until_it_has_gone(
    listener: socket.socket, short_tmp: Path
) -> None:
    path = short_tmp / "1.sock"
    assert connections(path) == 0
    with ExitStack() as stack:
        for count in (1, 2):
            stack.enter_context(socket.socket(socket.AF_UNIX)).connect(str(path))
            assert connections(path) == count
        accepted, _ = listener.accept()
        with accepted:
            assert connections(path) == 2
    assert connections(short_tmp / "2.sock") == 0


def test_where_the_system_does_not_tell_nobody_is_known_of(tmp_path: Path) -> None:
    assert connections(tmp_path / "1.sock", tmp_path / "no table") is None
