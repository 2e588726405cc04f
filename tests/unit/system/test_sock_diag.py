"""Socket queries to the kernel, on real sockets."""

from __future__ import annotations

import os
import socket
import sys
from ipaddress import ip_address

import pytest

from native_host.system.sock_diag import TcpAddress, find_socket_owner, find_unix_peers

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="netlink exists on Linux alone")


def address_of(name: tuple[str, int]) -> TcpAddress:
    return TcpAddress(ip_address(name[0]), name[1])


def inode_of(sock: socket.socket) -> int:
    return os.fstat(sock.fileno()).st_ino


def test_the_owner_of_a_tcp_socket_is_found_by_its_two_addresses() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as client:
        client.connect(server.getsockname())
        local, remote = address_of(client.getsockname()), address_of(server.getsockname())
        assert find_socket_owner(local, remote) == (os.getuid(), inode_of(client))


def test_a_socket_that_does_not_exist_has_no_owner() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = address_of(server.getsockname())
    try:
        owner = find_socket_owner(address, address)
    except OSError:
        owner = None
    assert owner is None


def test_both_ends_of_a_unix_connection_are_found() -> None:
    one, other = socket.socketpair()
    with one, other:
        peers = find_unix_peers()
        if not peers:
            pytest.skip("this kernel does not report Unix sockets")
        assert peers[inode_of(one)] == inode_of(other)
        assert peers[inode_of(other)] == inode_of(one)
