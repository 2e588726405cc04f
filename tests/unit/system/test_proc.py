"""Reads of /proc, on a recorded directory and on real processes and sockets."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from ipaddress import ip_address
from pathlib import Path

import pytest

from native_host.system import proc
from native_host.system.proc import BoundSocket, Process, TcpListener

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="/proc exists on Linux alone")
ME = os.getuid()
STAT = "7 (a) b (c)) S 5 7 3 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 1 0 250 0 0\n"
TCP = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:0D80 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 41 1 0 100 0 0 10 0
   1: 0100007F:0D80 0100007F:9999 01 00000000:00000000 00:00000000 00000000  1000 0 42 1 0 20 4 30 10 -1
   2: 00000000:0D81 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1001        0 43 1 0 100 0 0 10 0
"""
UNIX = """\
Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00010000 0001 01 51 /run/a.sock
0000000000000000: 00000003 00000000 00000000 0001 03 52 /run/a.sock
0000000000000000: 00000003 00000000 00000000 0001 02 53 /run/a.sock
0000000000000000: 00000003 00000000 00000000 0001 03 54
0000000000000000: 00000003 00000000 00000000 0001 03 55 /run/b
two.sock
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A machine on which process 7 runs in session 3, with the socket 41 open."""
    process = tmp_path / "7"
    (process / "fd").mkdir(parents=True)
    (process / "fd/0").symlink_to("/dev/null")
    (process / "fd/4").symlink_to("socket:[41]")
    (process / "exe").symlink_to("/usr/bin/node (deleted)")
    (process / "cwd").symlink_to("/home/alice")
    (process / "stat").write_text(STAT)
    (process / "comm").write_text("node\n")
    (process / "cmdline").write_bytes(b"node\0serve\0\xff\0")
    (process / "environ").write_bytes(b"HOME=/home/alice\0API_KEY=secret\0HOME2=x\0")
    (tmp_path / "uptime").write_text("102.5 400.0\n")
    (tmp_path / "net").mkdir()
    (tmp_path / "net/tcp").write_text(TCP)
    (tmp_path / "net/unix").write_text(UNIX)
    (tmp_path / "self").symlink_to("7")
    return tmp_path


# ── Processes ───────────────────────────────────────────────────────────────────────────────────────────────


def test_a_process_is_read_although_its_name_contains_parentheses(root: Path) -> None:
    assert proc.read_process(7, root) == Process(pid=7, started_at=250, program="/usr/bin/node")
    assert proc.read_parent(root / "7") == 5
    assert list(proc.find_session_members(3, root)) == [7]
    assert list(proc.find_session_members(4, root)) == []


def test_a_process_that_does_not_run_has_no_answers(root: Path) -> None:
    assert proc.read_process(8, root) is None
    with pytest.raises(OSError):  # noqa: PT011  (its kind is the system's)
        proc.read_parent(root / "8")
    assert proc.read_command_line(root / "8") == [""]
    assert proc.read_environment(root / "8", ["HOME"]) is None


def test_only_the_wanted_variables_are_read_of_an_environment(root: Path) -> None:
    assert proc.read_environment(root / "7", ("HOME", "XDG_CONFIG_HOME")) == {"HOME": "/home/alice"}


def test_facts_of_a_process_are_read_from_its_directory(root: Path) -> None:
    process = root / "7"
    assert list(proc.find_processes(ME, root)) == [process]
    assert list(proc.find_processes(ME + 1, root)) == []
    assert proc.read_command_line(process) == ["node", "serve", "\N{REPLACEMENT CHARACTER}"]
    assert proc.read_program_name(process) == "node"
    assert proc.find_working_directory(process) == Path("/home/alice")
    assert not proc.is_in_flatpak(process)
    assert proc.read_age_s(process) == 102.5 - 250 / os.sysconf("SC_CLK_TCK")
    assert list(proc.find_ancestors(process)) == [5]


@on_linux
def test_this_process_is_found(tmp_path: Path) -> None:
    assert proc.is_running(os.getpid())
    assert proc.find_parent(os.getpid()) == os.getppid()
    assert proc.find_program_name(os.getpid())
    found = proc.read_process(os.getpid())
    assert found is not None
    assert Path(found.program).samefile(sys.executable)
    with (tmp_path / "file").open("w") as file:
        assert proc.find_descriptor_path(file.fileno()) == tmp_path / "file"


def test_a_process_that_has_ended_does_not_run() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
    assert proc.is_running(ended.pid) == (sys.platform != "linux")  # a zombie
    ended.wait()
    assert not proc.is_running(ended.pid)


# ── Sockets ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_listeners_at_the_address_or_at_all_addresses_are_found(root: Path) -> None:
    there = ip_address("127.0.0.1")
    assert list(proc.find_tcp_listeners(3456, there, root)) == [TcpListener(1000, 41)]
    assert list(proc.find_tcp_listeners(3456, ip_address("127.0.0.2"), root)) == []
    assert list(proc.find_tcp_listeners(3456, ip_address("0.0.0.0"), root)) == [TcpListener(1000, 41)]
    assert list(proc.find_tcp_listeners(3457, there, root)) == [TcpListener(1001, 43)]


def test_the_processes_that_have_a_socket_open_are_found(root: Path) -> None:
    assert list(proc.find_sockets(root / "7")) == [41]
    assert list(proc.find_socket_processes(41, root)) == [root / "7"]
    assert list(proc.find_socket_processes(42, root)) == []


def test_unix_sockets_are_found_by_their_path(root: Path) -> None:
    found = proc.find_bound_sockets(root)
    assert found["/run/a.sock"] == BoundSocket(listener=51, connections=[52])
    assert proc.count_unix_connections(Path("/run/a.sock"), root) == 2
    assert proc.count_unix_connections(Path("/run/other.sock"), root) == 0


def test_without_the_table_of_unix_sockets_nothing_is_known(tmp_path: Path) -> None:
    assert proc.find_bound_sockets(tmp_path) == {}
    assert proc.count_unix_connections(tmp_path / "1.sock", tmp_path) is None


@pytest.fixture
def listener(short_tmp: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(short_tmp / "1.sock"))
        listener.listen()
        yield listener


@on_linux
def test_a_client_counts_before_it_is_accepted_and_until_it_disconnects(
    listener: socket.socket, short_tmp: Path
) -> None:
    path = short_tmp / "1.sock"
    assert proc.count_unix_connections(path) == 0
    with ExitStack() as stack:
        for count in (1, 2):
            stack.enter_context(socket.socket(socket.AF_UNIX)).connect(str(path))
            assert proc.count_unix_connections(path) == count
        accepted, _ = listener.accept()
        with accepted:
            assert proc.count_unix_connections(path) == 2
    assert proc.count_unix_connections(short_tmp / "2.sock") == 0
