"""A directory of hosts is read again when something in it has changed, and only then."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridge.links import native_hosts
from bridge.links.native_hosts import HostDirectory
from native_host.ipc import endpoint
from native_host.ipc.endpoint import Endpoint, Record
from native_host.system.private_files import PrivateFileError


@pytest.fixture
def run(short_tmp: Path) -> Path:
    return short_tmp / "run"


@pytest.fixture
def host(run: Path) -> Iterator[Endpoint]:
    host = appear(run)
    yield host
    host.close()


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Each reading of a directory. Changes count as settled at once."""
    reads: list[Path] = []
    live_hosts = endpoint.live_hosts

    def read(path: Path) -> list[Record]:
        reads.append(path)
        return live_hosts(path)

    monkeypatch.setattr(endpoint, "live_hosts", read)
    monkeypatch.setattr(native_hosts, "SETTLED_S", 0.0)
    return reads


def appear(run: Path) -> Endpoint:
    host = endpoint.open_endpoint(run)
    record = Record(
        instance=host.instance,
        pid=os.getpid(),
        browser_pid=100,
        extension_origin="",
        version="0.2.0",
        started_at=time.time(),
    )
    host.publish(record)
    return host


def found(hosts: HostDirectory, *linked: str) -> set[str]:
    return {record.instance for record in hosts.live_hosts(linked)}


def test_a_directory_as_it_was_is_not_read_again(run: Path, host: Endpoint, reads: list[Path]) -> None:
    hosts = HostDirectory(run)
    assert found(hosts) == {host.instance}
    assert found(hosts, host.instance) == found(hosts, host.instance) == {host.instance}
    assert reads == [run]


def test_a_host_that_comes_is_found(run: Path, host: Endpoint, reads: list[Path]) -> None:
    hosts = HostDirectory(run)
    found(hosts)
    pass_a_tick(run)
    newcomer = appear(run)
    assert found(hosts, host.instance) == {host.instance, newcomer.instance}
    newcomer.close()
    pass_a_tick(run)
    assert found(hosts, host.instance, newcomer.instance) == {host.instance}


def test_a_host_that_is_not_linked_may_have_died_and_left_its_files(
    run: Path, host: Endpoint, reads: list[Path]
) -> None:
    hosts = HostDirectory(run)
    assert found(hosts, host.instance) == {host.instance}
    os.close(host._lock)
    host._lock = os.open(os.devnull, os.O_RDONLY)
    assert found(hosts, host.instance) == {host.instance}
    assert found(hosts) == set()


def test_right_after_a_change_another_one_may_come_unseen(
    run: Path, host: Endpoint, reads: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native_hosts, "SETTLED_S", 3600.0)
    hosts = HostDirectory(run)
    assert found(hosts, host.instance) == found(hosts, host.instance)
    assert reads == [run, run]


def test_rights_that_become_too_wide_are_seen(run: Path, host: Endpoint, reads: list[Path]) -> None:
    hosts = HostDirectory(run)
    found(hosts)
    pass_a_tick(run)
    run.chmod(0o755)
    with pytest.raises(PrivateFileError, match="chmod 700"):
        found(hosts, host.instance)
    run.chmod(0o700)
    assert found(hosts, host.instance) == {host.instance}


def test_a_directory_that_is_not_there_yet_is_looked_for(run: Path, reads: list[Path]) -> None:
    hosts = HostDirectory(run)
    assert found(hosts) == set()
    host = appear(run)
    assert found(hosts) == {host.instance}
    host.close()


def pass_a_tick(run: Path) -> None:
    """Until a change of the directory gets another time than the last one."""
    before = run.stat().st_ctime_ns
    while run.stat().st_ctime_ns == before:
        (run / "tick").touch()
        (run / "tick").unlink()
