"""Who is at the other end of a connection: our own user, another, or nobody can tell; who holds a port."""

from __future__ import annotations

import errno
import os
import pwd
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import Any, cast

import pytest
import trio

from http_serving import peer_credentials
from http_serving.peer_credentials import Kind, Peer, peer_of
from http_serving.port_owner import describe_port_owner
from native_host.system.proc import Process, SocketProcesses, read_process
from native_host.system.sock_diag import SocketOwner, TcpAddress, find_socket_owner

NOBODY = 65534
SOON_S = 30

needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can act as a second user")
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell")

pytestmark = on_linux


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    """What is opened in a test, closed at its end."""
    with ExitStack() as stack:
        yield stack


def listening(opened: ExitStack, address: str = "127.0.0.1") -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        listener = socket.create_server((address, 0), family=family, dualstack_ipv6=address == "::")
    except OSError:
        if family == socket.AF_INET6:
            pytest.skip("there is no IPv6 here")
        raise
    listener.settimeout(SOON_S)
    return opened.enter_context(listener)


def connected(opened: ExitStack, listener: socket.socket, to: str) -> tuple[socket.socket, socket.socket]:
    """A client's end and ours."""
    client = socket.create_connection((to, listener.getsockname()[1]), timeout=SOON_S)
    ours, _ = listener.accept()
    return opened.enter_context(client), opened.enter_context(ours)


def known(ours: socket.socket) -> Peer:
    """Return the peer without what identifies its process."""
    return peer_of(ours)._replace(inode=0, pid=0)


@contextmanager
def process_of_nobody(family: socket.AddressFamily, address: object) -> Iterator[None]:
    """A process of another user that has connected, and lives as long as the block."""
    program = f"""
import os, socket, sys
os.setgid({NOBODY})
os.setuid({NOBODY})
connection = socket.socket({int(family)})
connection.connect({address!r})
connection.send(b"x")
sys.stdin.read()
"""
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE) as process:
        try:
            yield
        finally:
            process.communicate(timeout=SOON_S)


# ── Over TCP ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("at", "to", "seen_as"),
    [
        ("127.0.0.1", "127.0.0.1", "127.0.0.1"),
        ("::1", "::1", "::1"),
        ("::", "127.0.0.1", "127.0.0.1"),
        ("::", "::1", "::1"),
        ("127.0.0.1", "::ffff:127.0.0.1", "127.0.0.1"),
        ("0.0.0.0", "127.0.0.3", "127.0.0.1"),
    ],
)
def test_our_own_process_is_recognised_at_every_loopback_address(
    opened: ExitStack, at: str, to: str, seen_as: str
) -> None:
    _, ours = connected(opened, listening(opened, at), to)
    assert known(ours) == Peer(Kind.OURS, seen_as)


async def test_a_socket_of_trio_is_as_good(opened: ExitStack) -> None:
    listener = listening(opened)
    _, ours = connected(opened, listener, "127.0.0.1")
    ours.setblocking(False)
    assert peer_of(trio.socket.from_stdlib_socket(ours)).kind is Kind.OURS


@needs_root
@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_a_process_of_another_user_is_recognised(opened: ExitStack, address: str) -> None:
    listener = listening(opened, address)
    with process_of_nobody(listener.family, listener.getsockname()[:2]):
        ours = opened.enter_context(listener.accept()[0])
        assert known(ours) == Peer(Kind.ANOTHERS, address)


def test_root_is_another_user_too(opened: ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
    _, ours = connected(opened, listening(opened), "127.0.0.1")
    uid = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: uid + 1)
    assert peer_of(ours).kind is Kind.ANOTHERS


def test_a_client_that_has_said_all_it_has_to_say_is_still_there(opened: ExitStack) -> None:
    client, ours = connected(opened, listening(opened), "127.0.0.1")
    client.shutdown(socket.SHUT_WR)
    assert peer_of(ours).kind is Kind.OURS


def test_one_that_has_closed_its_end_is_nobody_s_any_more(opened: ExitStack) -> None:
    """The kernel keeps it for a while, as if it were root's."""
    client, ours = connected(opened, listening(opened), "127.0.0.1")
    client.close()
    assert peer_of(ours).kind is Kind.UNKNOWN


@needs_root
def test_another_user_s_that_has_closed_its_end_does_not_become_root_s(opened: ExitStack) -> None:
    listener = listening(opened)
    with process_of_nobody(listener.family, listener.getsockname()):
        ours = opened.enter_context(listener.accept()[0])
    assert ours.recv(1) == b"x"
    assert ours.recv(1) == b""
    assert peer_of(ours).kind is Kind.UNKNOWN


def test_one_that_has_gone_with_a_reset_is_nobody_s(opened: ExitStack) -> None:
    client, ours = connected(opened, listening(opened), "127.0.0.1")
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
    with pytest.raises(ConnectionResetError):
        ours.recv(1)
    assert known(ours) == Peer(Kind.UNKNOWN, "")


def test_whoever_listens_on_a_port_that_a_peer_had_is_not_taken_for_it(opened: ExitStack) -> None:
    """Where there is no such connection, the kernel answers with the socket that listens there."""
    listener, elsewhere = listening(opened), listening(opened)
    here, there = (
        TcpAddress(ip_address("127.0.0.1"), each.getsockname()[1]) for each in (listener, elsewhere)
    )
    assert find_socket_owner(there, here) is None


def test_a_connection_that_ends_while_we_ask_is_nobody_s(
    opened: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By then its ports may be somebody else's."""
    client, ours = connected(opened, listening(opened), "127.0.0.1")

    def answer_too_late(*_: object) -> SocketOwner:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
        return SocketOwner(os.getuid(), 1)

    monkeypatch.setattr(peer_credentials, "find_socket_owner", answer_too_late)
    assert peer_of(ours).kind is Kind.UNKNOWN


def test_at_the_address_of_another_machine_it_could_be_anybody() -> None:
    class FromElsewhere:
        family = socket.AF_INET

        def getpeername(self) -> tuple[str, int]:
            return "192.0.2.7", 50000

    assert peer_of(cast("socket.socket", FromElsewhere())) == Peer(Kind.UNKNOWN, "192.0.2.7")


def test_where_the_system_does_not_tell_it_could_be_anybody(
    opened: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, ours = connected(opened, listening(opened), "127.0.0.1")
    with monkeypatch.context() as patch:
        patch.setattr(sys, "platform", "darwin")
        assert known(ours) == Peer(Kind.UNKNOWN, "127.0.0.1")
    with monkeypatch.context() as patch:

        def refuse(*_: Any) -> socket.socket:
            raise OSError(errno.EMFILE, "Too many open files")

        patch.setattr(socket, "socket", refuse)
        assert known(ours) == Peer(Kind.UNKNOWN, "127.0.0.1")


def test_a_user_whom_many_may_look_like_is_not_believed(
    opened: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a user namespace all users from outside look like nobody."""
    _, ours = connected(opened, listening(opened), "127.0.0.1")
    monkeypatch.setattr(os, "getuid", lambda: NOBODY)
    monkeypatch.setattr(peer_credentials, "find_socket_owner", lambda *_: SocketOwner(NOBODY, 1))
    assert peer_of(ours).kind is Kind.UNKNOWN


# ── Over a Unix socket ──────────────────────────────────────────────────────────────────────────────────────


def unix_listener(opened: ExitStack, path: Path) -> socket.socket:
    listener = opened.enter_context(socket.socket(socket.AF_UNIX))
    listener.settimeout(SOON_S)
    listener.bind(str(path))
    listener.listen()
    return listener


def test_a_unix_socket_knows_its_peer(opened: ExitStack, short_tmp: Path) -> None:
    listener = unix_listener(opened, short_tmp / "s")
    client = opened.enter_context(socket.socket(socket.AF_UNIX))
    client.connect(str(short_tmp / "s"))
    ours = opened.enter_context(listener.accept()[0])
    assert known(ours) == Peer(Kind.OURS, "")
    client.close()
    assert known(ours) == Peer(Kind.OURS, "")


@needs_root
def test_another_user_at_a_unix_socket_is_recognised(opened: ExitStack, short_tmp: Path) -> None:
    listener = unix_listener(opened, short_tmp / "s")
    short_tmp.chmod(0o755)
    (short_tmp / "s").chmod(0o777)
    with process_of_nobody(socket.AF_UNIX, str(short_tmp / "s")):
        ours = opened.enter_context(listener.accept()[0])
        assert known(ours) == Peer(Kind.ANOTHERS, "")


# ── Processes ───────────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def process_that_connects(address: object, family: int = socket.AF_INET) -> Iterator[int]:
    """Another process that has connected, and lives as long as the block: its pid."""
    program = f"import socket, sys; s = socket.socket({family}); s.connect({address!r}); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE) as process:
        try:
            yield process.pid
        finally:
            process.communicate(timeout=SOON_S)


def test_the_process_of_a_tcp_peer_is_found_with_its_program(opened: ExitStack) -> None:
    listener = listening(opened)
    processes = SocketProcesses()
    for _ in range(2):  # the second one is looked for with a recent process that is not the one
        with process_that_connects(listener.getsockname()) as pid:
            ours = opened.enter_context(listener.accept()[0])
            found = processes.find(peer_of(ours).inode)
            assert found == read_process(pid)
            assert found
            assert (found.pid, Path(found.program).resolve()) == (pid, Path(sys.executable).resolve())
            assert found.started_at > 0


def test_the_process_of_a_unix_peer_is_the_one_that_connected(opened: ExitStack, short_tmp: Path) -> None:
    listener = unix_listener(opened, short_tmp / "s")
    with process_that_connects(str(short_tmp / "s"), socket.AF_UNIX) as pid:
        assert peer_of(opened.enter_context(listener.accept()[0])) == Peer(Kind.OURS, "", pid=pid)


def test_of_a_socket_that_is_closed_and_of_a_process_that_has_ended_nothing_is_found(
    opened: ExitStack,
) -> None:
    listener = listening(opened)
    client, ours = connected(opened, listener, "127.0.0.1")
    inode = peer_of(ours).inode
    processes = SocketProcesses()
    found: Process | None = processes.find(inode)
    assert found
    assert found.pid == os.getpid()
    client.close()
    assert processes.find(inode) is None
    with process_that_connects(listener.getsockname()) as pid:
        pass
    assert read_process(pid) is None


# ── Who holds a port ────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def process_that_listens(*words: str, user: int | None = None) -> Iterator[tuple[int, int]]:
    """Another process with these words in its command line: its port and pid."""
    become = f"os.setgid({user}); os.setuid({user})" if user else ""
    program = f"""
import os, socket, sys
{become}
listener = socket.socket()
listener.bind(("127.0.0.1", 0))
listener.listen()
print(listener.getsockname()[1], flush=True)
sys.stdin.read()
"""
    command = [sys.executable, "-c", program, *words]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        try:
            yield int(process.stdout.readline()), process.pid
        finally:
            process.communicate(timeout=SOON_S)


def our_name() -> str:
    return Path("/proc/self/comm").read_text().strip()


@pytest.mark.parametrize(
    ("at", "wanted"),
    [("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "127.0.0.1"), ("::", "127.0.0.1"), ("::1", "::1")],
)
def test_who_is_in_the_way_is_named(opened: ExitStack, at: str, wanted: str) -> None:
    port = listening(opened, at).getsockname()[1]
    assert describe_port_owner(port, wanted) == f"{our_name()} (pid {os.getpid()})"


def test_who_listens_elsewhere_is_not_in_the_way(opened: ExitStack) -> None:
    port = listening(opened, "127.0.0.1").getsockname()[1]
    assert describe_port_owner(port, "127.0.0.2") == ""
    assert describe_port_owner(port, "::1") == ""
    assert describe_port_owner(port, "0.0.0.0") != ""


def test_who_only_connects_from_that_port_holds_nothing(opened: ExitStack) -> None:
    client, _ = connected(opened, listening(opened), "127.0.0.1")
    assert describe_port_owner(client.getsockname()[1], "127.0.0.1") == ""


@pytest.mark.parametrize("words", [["mcpb", "serve"], ["/usr/bin/mcpb-bridge", "serve", "--port", "1"]])
def test_another_server_of_ours_is_told_apart(words: list[str]) -> None:
    with process_that_listens(*words) as (port, pid):
        assert describe_port_owner(port, "127.0.0.1") == f"another mcpb serve (pid {pid})"
    with process_that_listens("serve", "mcpb") as (port, pid):
        assert describe_port_owner(port, "127.0.0.1").endswith(f" (pid {pid})")
        assert "mcpb" not in describe_port_owner(port, "127.0.0.1")


@needs_root
def test_of_another_user_s_process_we_know_the_user_alone() -> None:
    """Here we may look into all processes: so the one who asks is another user."""
    ask = """
import os, sys
from http_serving.port_owner import describe_port_owner
os.setgid({other})
os.setuid({other})
print(describe_port_owner(int(sys.argv[1]), "127.0.0.1"))
"""
    with process_that_listens(user=NOBODY) as (port, _):
        command = [sys.executable, "-c", ask.format(other=NOBODY - 1), str(port)]
        said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=SOON_S).stdout
    assert said == f"a process of user {pwd.getpwuid(NOBODY).pw_name}\n"
