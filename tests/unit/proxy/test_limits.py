"""Limits of the WebSocket proxy: the figures of docs/PROXY_PROTOCOL.md."""

from __future__ import annotations

import msgspec
import pytest

from websocket_proxy.limits import Limits


def test_the_limits_of_the_protocol() -> None:
    assert msgspec.structs.asdict(Limits()) == {
        "sockets": 10_000,
        "unauthenticated_sockets": 512,
        "unauthenticated_sockets_per_address": 32,
        "extensions_per_user": 16,
        "clients_per_user": 64,
        "unauthenticated_message_bytes": 65_536,
        "unauthenticated_messages": 3,
        "authentication_s": 10,
        "renewal_s": 120,
        "replacement_ping_s": 2,
        "requests_in_flight_per_client": 256,
        "requests_in_flight_per_extension": 1024,
        "requests_per_minute_per_client": 6_000,
        "requests_per_minute_per_user": 30_000,
        "rejected_messages_per_minute": 10,
        "message_bytes": 67_108_864,
        "client_waiting_bytes": 67_108_864,
        "queued_bytes_per_socket": 16_777_216,
        "replay_bytes": 67_108_864,
        "queued_bytes": 536_870_912,
        "status_interval_s": 20,
        "ping_interval_s": 20,
        "unanswered_pings": 3,
        "replay_wait_s": 1,
    }


def test_messages_above_the_limit_can_still_be_decoded_for_their_error() -> None:
    assert Limits().received_message_bytes == 67_108_864 + 65_536


@pytest.mark.parametrize(
    ("key", "value"),
    [("sockets", 0), ("authentication_s", 0), ("requests_per_minute_per_user", -1), ("x", 1)],
)
def test_a_limit_that_would_admit_nothing_is_rejected(key: str, value: int) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({key: value}, Limits)


def test_a_rate_of_0_sets_no_limit() -> None:
    assert msgspec.convert({"requests_per_minute_per_client": 0}, Limits).requests_per_minute_per_client == 0
