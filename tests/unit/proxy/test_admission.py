"""Addresses of peers behind other servers, and the counts of sockets."""

from __future__ import annotations

import pytest

from http_serving.error_responses import RequestRejected
from http_serving.host_header import network_of
from http_serving.peer_credentials import Kind, Peer
from websocket_proxy.limits import Limits
from websocket_proxy.node.admission import ForwardedAddress, SocketCounts

LOOPBACK, REMOTE = "127.0.0.1", "192.0.2.1"


@pytest.mark.parametrize(
    ("peer", "forwarded", "expected"),
    [
        (LOOPBACK, [], LOOPBACK),
        (LOOPBACK, [REMOTE], REMOTE),
        (LOOPBACK, ["203.0.113.9, 192.0.2.1"], REMOTE),
        (LOOPBACK, ["203.0.113.9", "192.0.2.1"], REMOTE),
        (LOOPBACK, ["192.0.2.1, 10.0.0.2"], REMOTE),
        (LOOPBACK, ["192.0.2.1, 10.0.0.3"], "10.0.0.3"),
        (LOOPBACK, ["192.0.2.1, 127.0.0.1"], REMOTE),
        ("10.0.0.2", [REMOTE], REMOTE),
        ("10.0.0.3", [REMOTE], "10.0.0.3"),
        (LOOPBACK, ["2001:DB8::1"], "2001:db8::1"),
        (LOOPBACK, ["unknown"], LOOPBACK),
        (LOOPBACK, [""], LOOPBACK),
        ("", [REMOTE], ""),
    ],
)
def test_behind_a_proxy_the_address_is_the_last_one_that_no_trusted_server_has(
    peer: str, forwarded: list[str], expected: str
) -> None:
    addresses = ForwardedAddress(is_behind_proxy=True, trusted=["10.0.0.2"])
    assert addresses.find(Peer(Kind.UNKNOWN, peer), forwarded) == expected


def test_without_a_proxy_the_header_is_ignored() -> None:
    addresses = ForwardedAddress(is_behind_proxy=False)
    assert addresses.find(Peer(Kind.UNKNOWN, LOOPBACK), [REMOTE]) == LOOPBACK


def status_of(counts: SocketCounts, address: str) -> int:
    try:
        counts.check(address)
    except RequestRejected as rejection:
        return int(rejection.status) if "Retry-After" in (rejection.headers or {}) else 0
    return 101


def test_each_limit_of_sockets_has_its_status() -> None:
    limits = Limits(sockets=4, unauthenticated_sockets=3, unauthenticated_sockets_per_address=2)
    counts = SocketCounts(limits)
    with counts.count("a") as first, counts.count("a"):
        assert (status_of(counts, "a"), status_of(counts, "b")) == (429, 101)
        with counts.count("b"):
            assert status_of(counts, "b") == 503
            first.authenticate()
            assert (status_of(counts, "a"), status_of(counts, "b")) == (101, 101)
            with counts.count("c"):
                first.authenticate()
                assert (counts.total, counts.unauthenticated) == (4, 3)
                assert status_of(counts, "d") == 503
    assert (counts.total, counts.unauthenticated, status_of(counts, "a")) == (0, 0, 101)


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        ("2001:db8:1:3::1", "2001:db8:1:3::"),
        ("::ffff:192.0.2.1", REMOTE),
        (REMOTE, REMOTE),
        ("", ""),
    ],
)
def test_limits_of_an_address_count_the_network_of_one_machine(address: str, network: str) -> None:
    assert network_of(address) == network


def test_one_machine_with_many_addresses_leaves_room_for_others() -> None:
    counts = SocketCounts(Limits(unauthenticated_sockets=3, unauthenticated_sockets_per_address=2))
    with counts.count("2001:db8::1"), counts.count("2001:db8::2"):
        assert (status_of(counts, "2001:db8::3"), status_of(counts, "2001:db8:0:1::3")) == (429, 101)
    assert status_of(counts, "2001:db8::3") == 101
