"""Where hosts and bridges meet: private, checked, and never in the way of the next start."""

from __future__ import annotations

import fcntl
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from installer_home import CONNECT, NOBODY, as_nobody, needs_root
from native_host.ipc import endpoint
from native_host.ipc.endpoint import EndpointError, Record
from native_host.system.home_layout import password_home
from native_host.system.private_files import PrivateFileError


@pytest.fixture
def directory(short_tmp: Path) -> Path:
    return short_tmp / "run"


@pytest.fixture
def opened(directory: Path) -> Iterator[endpoint.Endpoint]:
    place = endpoint.open_endpoint(directory)
    yield place
    place.close()


def record(instance: str) -> Record:
    return Record(
        instance=instance, pid=os.getpid(), browser_pid=1, extension_origin="x", version="0", started_at=0
    )


def listener(place: endpoint.Endpoint) -> trio.SocketListener:
    return trio.SocketListener(trio.socket.from_stdlib_socket(place.listener))


def names(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


def test_mcpb_home_replaces_every_other_place() -> None:
    assert endpoint.candidates({"MCPB_HOME": "/x/y"}) == [Path("/x/y/run")]


def test_bridges_also_scan_the_home_of_the_password_database_and_hosts_do_not(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "XDG_RUNTIME_DIR": "/elsewhere"}
    own, other = tmp_path / ".mcpb/run", password_home() / ".mcpb/run"
    assert endpoint.candidates(environ)[-2:] == [own, other]
    assert endpoint.host_directories(environ) == endpoint.candidates(environ)[:-1]


def test_where_both_homes_are_one_directory_it_is_scanned_once(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(password_home())
    run = tmp_path / "link/.mcpb/run"
    assert endpoint.candidates({"HOME": str(tmp_path / "link")})[-1] == run


def test_directory_and_files_are_closed_to_everybody_else(directory: Path, opened: endpoint.Endpoint) -> None:
    opened.publish(record(opened.instance))
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert {path.suffix: stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()} == {
        ".sock": 0o600,
        ".json": 0o600,
        ".lock": 0o600,
    }


def test_a_host_is_found_while_it_lives_and_its_record_is_there(directory: Path) -> None:
    place = endpoint.open_endpoint(directory)
    assert endpoint.live_hosts(directory) == []
    place.publish(record(place.instance))
    assert [found.instance for found in endpoint.live_hosts(directory)] == [place.instance]
    place.close()
    assert endpoint.live_hosts(directory) == []
    assert names(directory) == set()


def test_what_a_killed_host_left_is_no_host_and_is_cleared_by_the_next(directory: Path) -> None:
    killed = (
        "import os, sys; from pathlib import Path; from native_host.ipc import endpoint\n"
        "place = endpoint.open_endpoint(Path(sys.argv[1])); instance = place.instance\n"
        "place.publish(endpoint.Record(instance=instance, pid=1, browser_pid=1, extension_origin='',"
        " version='', started_at=0)); print(instance, flush=True); os.kill(os.getpid(), 9)"
    )
    run = subprocess.run(
        [sys.executable, "-c", killed, directory], capture_output=True, text=True, check=False
    )
    stale = run.stdout.strip()
    assert f"{stale}.sock" in names(directory)
    assert endpoint.live_hosts(directory) == []
    place = endpoint.open_endpoint(directory)
    assert names(directory) == {f"{place.instance}.sock", f"{place.instance}.lock"}
    place.close()


def test_a_live_host_is_never_swept_away(directory: Path, opened: endpoint.Endpoint) -> None:
    opened.publish(record(opened.instance))
    endpoint.sweep(directory)
    assert [found.instance for found in endpoint.live_hosts(directory)] == [opened.instance]


def test_a_host_that_holds_its_lock_and_listens_nowhere_yet_is_never_swept_away(directory: Path) -> None:
    directory.mkdir(mode=0o700)
    lock = directory / "5ca1ab1e.lock"
    lock.touch(mode=0o600)
    with lock.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        endpoint.sweep(directory)
        assert names(directory) == {"5ca1ab1e.lock"}
    endpoint.sweep(directory)
    assert names(directory) == set()


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"instance":"another"}', b"\xff"])
def test_a_broken_record_is_passed_over(directory: Path, opened: endpoint.Endpoint, content: bytes) -> None:
    (directory / f"{opened.instance}.json").write_bytes(content)
    assert endpoint.live_hosts(directory) == []


def test_a_directory_that_is_not_there_holds_no_hosts(directory: Path) -> None:
    assert endpoint.live_hosts(directory) == []


def test_the_first_directory_that_will_do_is_taken(short_tmp: Path) -> None:
    (short_tmp / "file").touch()
    place = endpoint.open_first([short_tmp / "file", short_tmp / "file" / "below", short_tmp / "run"])
    place.close()
    assert place.directory == short_tmp / "run"


def test_when_no_directory_will_do_the_reason_is_given_for_each(short_tmp: Path) -> None:
    (short_tmp / "file").touch()
    with pytest.raises(EndpointError, match=r"file cannot be created: .*below cannot be created: "):
        endpoint.open_first([short_tmp / "file", short_tmp / "file" / "below"])


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o701])
def test_a_directory_that_is_open_to_others_is_refused_with_the_remedy(directory: Path, mode: int) -> None:
    directory.mkdir()
    directory.chmod(mode)
    for use in (endpoint.open_endpoint, endpoint.live_hosts):
        with pytest.raises(PrivateFileError) as rejected:
            use(directory)
        assert rejected.value.command == f"chmod 700 {directory}"


def test_a_link_in_place_of_the_directory_is_not_followed(directory: Path, short_tmp: Path) -> None:
    elsewhere = short_tmp / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    directory.symlink_to(elsewhere)
    for use in (endpoint.open_endpoint, endpoint.live_hosts):
        with pytest.raises(PrivateFileError) as rejected:
            use(directory)
        assert rejected.value.path == directory
    assert names(elsewhere) == set()


def test_a_path_too_long_for_a_socket_is_refused_naming_the_limit(short_tmp: Path) -> None:
    directory = short_tmp / ("x" * 100) / "run"
    with pytest.raises(EndpointError, match=f"may have {endpoint.SOCKET_PATH_BYTES}"):
        endpoint.open_endpoint(directory)
    assert names(directory) == set()


async def test_a_regular_file_in_place_of_a_socket_is_neither_used_nor_removed(directory: Path) -> None:
    """On Linux a connect to it is refused just like one to a dead socket (measured)."""
    directory.mkdir(mode=0o700)
    planted, lock = directory / "0a0a0a0a.sock", directory / "0a0a0a0a.lock"
    planted.write_text("precious")
    lock.touch(0o600)
    with pytest.raises(EndpointError, match="not a socket of yours"):
        await endpoint.connect(directory, "0a0a0a0a")
    endpoint.sweep(directory)
    assert planted.read_text() == "precious"


async def test_a_link_in_place_of_a_socket_is_not_followed(
    directory: Path, opened: endpoint.Endpoint
) -> None:
    (directory / "0a0a0a0a.sock").symlink_to(endpoint.socket_path(directory, opened.instance))
    with pytest.raises(EndpointError, match="not a socket of yours"):
        await endpoint.connect(directory, "0a0a0a0a")


async def test_both_ends_of_a_connection_are_the_same_user(
    directory: Path, opened: endpoint.Endpoint
) -> None:
    with trio.fail_after(30):
        ours, theirs = await endpoint.connect(directory, opened.instance), await listener(opened).accept()
        async with ours, theirs:
            endpoint.check_peer(ours)
            endpoint.check_peer(theirs)


# ── A second user of the machine ────────────────────────────────────────────────────────────────────────────


@needs_root
def test_a_second_user_cannot_reach_the_socket(directory: Path, opened: endpoint.Endpoint) -> None:
    attempt = as_nobody(CONNECT, endpoint.socket_path(directory, opened.instance))
    assert "PermissionError" in attempt.stderr


@needs_root
async def test_a_second_user_who_reaches_it_all_the_same_is_recognised(
    directory: Path, short_tmp: Path, opened: endpoint.Endpoint
) -> None:
    """Directory and socket are opened wide behind our back: the peer's user id is what is left."""
    for opened_up in (short_tmp, directory, endpoint.socket_path(directory, opened.instance)):
        opened_up.chmod(0o777)
    attempt = await trio.to_thread.run_sync(
        as_nobody, CONNECT, endpoint.socket_path(directory, opened.instance)
    )
    assert attempt.returncode == 0
    with trio.fail_after(30):
        async with await listener(opened).accept() as stream:
            with pytest.raises(EndpointError, match=f"belongs to user {NOBODY}"):
                endpoint.check_peer(stream)


@needs_root
@pytest.mark.parametrize(
    "plant",
    [
        "os.mkdir(sys.argv[1], 0o700)",
        "os.symlink('/', sys.argv[1])",
        "socket.socket(socket.AF_UNIX).bind(sys.argv[1])",
    ],
)
def test_what_a_second_user_planted_in_the_directory_s_place_is_refused_and_left_alone(
    directory: Path, short_tmp: Path, plant: str
) -> None:
    short_tmp.chmod(0o777)
    assert as_nobody(plant, directory).returncode == 0
    planted = directory.lstat()
    for use in (endpoint.open_endpoint, endpoint.live_hosts):
        with pytest.raises(PrivateFileError) as rejected:
            use(directory)
        assert rejected.value.path == directory
    assert directory.lstat().st_ino == planted.st_ino


@needs_root
async def test_a_socket_that_a_second_user_planted_is_not_connected_to_nor_removed(
    directory: Path, short_tmp: Path
) -> None:
    directory.mkdir()
    for opened_up in (short_tmp, directory):
        opened_up.chmod(0o777)
    planted = directory / "0a0a0a0a.sock"
    assert as_nobody("socket.socket(socket.AF_UNIX).bind(sys.argv[1])", planted).returncode == 0
    (directory / "0a0a0a0a.lock").touch()
    directory.chmod(0o700)
    with pytest.raises(EndpointError, match="not a socket of yours"):
        await endpoint.connect(directory, "0a0a0a0a")
    endpoint.sweep(directory)
    assert stat.S_ISSOCK(planted.lstat().st_mode)


def test_the_limit_of_a_socket_s_path_is_the_system_s(short_tmp: Path) -> None:
    fits = str(short_tmp / "x").ljust(endpoint.SOCKET_PATH_BYTES, "x")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(fits)
    with socket.socket(socket.AF_UNIX) as listener, pytest.raises(OSError, match="too long"):
        listener.bind(fits + "x")
