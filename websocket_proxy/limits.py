"""Limits of the WebSocket proxy: sockets, sizes, rates and times.

Each is a key of `[proxy]` in `config.toml`. docs/PROXY_PROTOCOL.md states the same figures.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

KIB = 1024
MIB = 1024 * KIB

Count = Annotated[int, msgspec.Meta(ge=1)]
Rate = Annotated[int, msgspec.Meta(ge=0)]
Seconds = Annotated[float, msgspec.Meta(gt=0)]


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of one node."""

    # ── Sockets ─────────────────────────────────────────────────────────────────────────────────────────────
    sockets: Count = 10_000
    unauthenticated_sockets: Count = 512
    unauthenticated_sockets_per_address: Count = 32
    extensions_per_user: Count = 16
    clients_per_user: Count = 64

    # ── Opening ─────────────────────────────────────────────────────────────────────────────────────────────
    unauthenticated_message_bytes: Count = 64 * KIB
    unauthenticated_messages: Count = 3
    authentication_s: Seconds = 10.0
    """Seconds until an extension has answered `authenticate`, or a client has sent `mcp_handshake`."""
    renewal_s: Seconds = 120.0
    """Seconds before the end of a token at which the proxy asks an extension for a new one."""
    replacement_ping_s: Seconds = 2.0
    """Seconds in which a connected extension answers a ping; otherwise a newcomer with its id replaces it."""

    # ── Requests ────────────────────────────────────────────────────────────────────────────────────────────
    requests_in_flight_per_client: Count = 256
    requests_in_flight_per_extension: Count = 1024
    requests_per_minute_per_client: Rate = 6_000
    """0: no limit."""
    requests_per_minute_per_user: Rate = 30_000
    """0: no limit."""
    rejected_messages_per_minute: Count = 10
    """Undecodable or rejected messages of a socket after which it is closed."""

    # ── Bytes ───────────────────────────────────────────────────────────────────────────────────────────────
    message_bytes: Count = 64 * MIB
    client_waiting_bytes: Count = 64 * MIB
    """Bytes of a client's messages that wait for its extension; above it the client is not read."""
    queued_bytes_per_socket: Count = 16 * MIB
    """Bytes that wait for one socket; above it at most one more message is queued."""
    replay_bytes: Count = 64 * MIB
    """Bytes of an extension's tabs and tools for late clients, 16 KiB more for each; above it the socket is
    closed."""
    queued_bytes: Count = 512 * MIB
    """Bytes that wait for all sockets of the node, and of messages of which a part has come; above it the
    fullest socket of the user with the most is closed."""

    # ── Times ───────────────────────────────────────────────────────────────────────────────────────────────
    status_interval_s: Seconds = 20.0
    """A browser stops a service worker whose WebSocket receives no message for 30 s."""
    ping_interval_s: Seconds = 20.0
    unanswered_pings: Count = 3
    """Unanswered pings after which a socket is closed."""
    replay_wait_s: Seconds = 1.0
    """Seconds that a replay waits for the extension's list of tabs."""

    @property
    def received_message_bytes(self) -> int:
        """Size above which a socket is closed with 1009.

        A message between the two limits can be decoded, so that its request gets an error response.
        """
        return self.message_bytes + 64 * KIB
