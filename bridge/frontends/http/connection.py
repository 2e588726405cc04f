"""A connection that somebody made to us: who is at its other end.

The server hands it to every request on it, as `request.state.connection`.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import NamedTuple, Protocol

from starlette.requests import HTTPConnection

from native_host.system.proc import Process

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
    inode: int = 0
    """Of its end of a TCP connection within this machine; 0: not known."""
    pid: int = 0
    """Process that has connected to the Unix socket; 0: not known."""


class Connection(Protocol):
    """What a request may know of the connection that it came on."""

    @property
    def peer(self) -> Peer:
        """Whose it is, as it was when it was made."""
        ...

    @property
    def name(self) -> str:
        """Unique among all connections of this server."""
        ...

    async def find_process(self) -> Process | None:
        """Return the process at its other end; None where the system does not report it."""
        ...


class Principal(NamedTuple):
    """Who sent a request, as far as the server has established it. It contains no claim of the client."""

    token: str = ""
    """Digest of the bearer token; empty for a request that needs none."""
    client: str = ""
    """Name of the client to which that token was given."""
    process: str = ""
    """Process or connection of a request without a token."""
    is_local: bool = False
    """The request came from a process of our user on this machine, and not through a proxy."""

    @property
    def session_owner(self) -> tuple[str, bool]:
        """Value that a request needs to continue a session, besides the session's secret id."""
        return self.token, self.is_local

    @property
    def key(self) -> str:
        """Key of the session that all its requests since 2026-07-28 share."""
        return f"{self.token or self.process} {self.is_local}"

    @property
    def name(self) -> str:
        """Name under which the user's approvals for one client are stored."""
        return f"token {self.client}" if self.token else self.process


def principal_of(request: HTTPConnection) -> Principal:
    """Return who sent a request, as the gate has established it."""
    found: Principal | None = request.scope["state"].get("principal")
    return found or Principal(is_local=is_ours(request))


def connection_of(request: HTTPConnection) -> Connection:
    """The connection that a request came on."""
    found: Connection = request.scope["state"]["connection"]
    return found


def is_ours(request: HTTPConnection) -> bool:
    """A process of our own user asks, and not for somebody else."""
    peer = connection_of(request).peer
    return peer.kind is Kind.OURS and _FORWARDED.isdisjoint(request.headers.keys())
