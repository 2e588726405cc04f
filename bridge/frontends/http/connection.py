"""A connection that somebody made to us: who is at its other end.

The server hands it to every request on it, as `request.state.connection`.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import NamedTuple, Protocol

from starlette.requests import HTTPConnection

_FORWARDED = {"forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip"}
"""By these a proxy says that it speaks for somebody else."""


class Kind(Enum):
    """What is known about the other end."""

    OURS = auto()
    """A process of our own user, says the system."""
    ANOTHERS = auto()
    """A process of another user of this machine."""
    UNKNOWN = auto()
    """It could be anybody."""


class Peer(NamedTuple):
    """The other end."""

    kind: Kind
    address: str
    """Without its port; empty for a Unix socket."""


class Connection(Protocol):
    """What a request may know of the connection that it came on."""

    @property
    def peer(self) -> Peer:
        """Whose it is, as it was when it was made."""
        ...


def connection_of(request: HTTPConnection) -> Connection:
    """The connection that a request came on."""
    found: Connection = request.scope["state"]["connection"]
    return found


def is_ours(request: HTTPConnection) -> bool:
    """A process of our own user asks, and not for somebody else."""
    peer = connection_of(request).peer
    return peer.kind is Kind.OURS and _FORWARDED.isdisjoint(request.headers.keys())
