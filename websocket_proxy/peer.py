"""Peer of a node: the part that extensions and clients have in common. Sans-IO.

The node that owns a peer's WebSocket reports messages, verified tokens, timers and the end of the socket,
each with the time. The peer calls its socket. It handles one message after the other, none while it waits.
"""

from __future__ import annotations

import abc
from collections import deque
from collections.abc import Callable, Collection
from typing import NamedTuple, Protocol
from uuid import uuid4

from native_host.protocol.announcements import AnnouncementMeta
from native_host.protocol.untrusted_text import single_line
from websocket_proxy.handshakes import Close, Rejection, Step, VerifiedToken
from websocket_proxy.limits import Limits
from websocket_proxy.protocol import CloseCode, DisconnectReason, RejectionReason, Role

_MINUTE_S = 60.0
_NAME_CHARS = 100


def make_id(prefix: str) -> str:
    """Return a new random id."""
    return f"{prefix}-{uuid4()}"


class Observer:
    """Receiver of events for the audit log and metrics: no params, no tokens. This one ignores them."""

    def on_admitted(self, peer: Peer) -> None:
        """Note that an extension or a client is authenticated, and counts."""

    def on_token_rejected(self, peer: Peer, reason: RejectionReason) -> None:
        """Note that the socket of a peer closes because of its token."""

    def on_connected(self, client: Peer, extension: Peer, connection_id: str) -> None:
        """Note that a client is connected to an extension."""

    def on_disconnected(self, connection_id: str, reason: DisconnectReason) -> None:
        """Note the end of a connection."""

    def on_request(self, client: Peer, connection_id: str, method: str) -> None:
        """Note that a request goes to an extension."""

    def on_request_failed(self, peer: Peer, code: int) -> None:
        """Note that the proxy itself responds to a client, or to an undecodable message, with an error."""


class NodeContext(NamedTuple):
    """Parts of a node that its peers use."""

    limits: Limits
    version: str
    """Version of the proxy."""
    timestamp: Callable[[], str]
    """Return the time in RFC 3339, UTC."""
    make_id: Callable[[str], str] = make_id
    """Return a new id with a prefix."""
    observer: Observer = Observer()


class PeerSocket(Protocol):
    """WebSocket of a peer, as its node offers it. No method waits."""

    def verify(self, token: str, role: Role) -> None:
        """Verify a token, then call `on_verified` or `on_rejected` of the peer, at once or later."""

    def resume(self) -> None:
        """Read again if reading was paused: `can_read` has become true."""

    def close(self, code: CloseCode, reason: str) -> None:
        """Write what is queued, then close. `on_closed` need not follow."""


class ExtensionSocket(PeerSocket, Protocol):
    """WebSocket of an extension. Its messages wait in `Extension.outbox`."""

    def wake(self) -> None:
        """Write: messages wait in the outbox. `UserDirectory.open_extension` calls it before it returns."""

    def ping(self) -> None:
        """Send a ping, then call `on_pong` when its pong arrives."""

    def withdraw(self) -> Collection[str]:
        """Withdraw the messages that were taken out of the outbox and of which no byte is written.

        Return their keys.
        """


class ClientSocket(PeerSocket, Protocol):
    """WebSocket of a client."""

    def put(self, parts: tuple[bytes, ...], meta: AnnouncementMeta | None = None) -> None:
        """Queue a message. One with `meta` may be replaced by a newer one (`AnnouncementCoalescer`)."""


class Peer(abc.ABC):
    """An extension or a client on its WebSocket."""

    role: Role

    def __init__(self, socket: PeerSocket, context: NodeContext) -> None:
        self.is_closed = False
        """The socket is closed, or about to be: messages are ignored."""
        self.peer_id = ""
        """Id that the proxy has given it: `ext-…` or `mcp-…`; empty: none yet."""
        self.user_id = ""
        """Id of the user, for display; empty: not authenticated."""
        self.owner = ""
        """Key of the user among those of all issuers; empty: not authenticated."""
        self.name = ""
        """Name for users, which the peer claims."""
        self.address = ""
        """IP address, for the audit log."""
        self._peer_socket = socket
        self._context = context
        self._is_waiting = False
        """A token is being verified, or another part of the node decides: messages are held."""
        self._held: deque[bytes] = deque()
        self._rejected_at_s: list[float] = []

    @property
    def can_read(self) -> bool:
        """Return whether the node should read the socket. What it has read already goes to `on_message`."""
        return not self._is_waiting

    @property
    @abc.abstractmethod
    def next_timer_s(self) -> float:
        """Time at which `on_timer` has something to do; infinite: never. Any event may change it."""

    def on_message(self, body: bytes, now_s: float) -> None:
        """Handle a text message: valid UTF-8."""
        if self.is_closed:
            return
        if self._is_waiting:
            self._held.append(body)
        else:
            self._handle(body, now_s)

    def on_timer(self, now_s: float) -> None:
        """Do what is due."""
        if not self.is_closed:
            self._handle_timer(now_s)

    def close(self, code: CloseCode, reason: str, now_s: float) -> None:
        """Close the socket from this end."""
        if not self.is_closed:
            self._end(code, now_s)
            self._peer_socket.close(code, reason)

    def revoke(self, now_s: float) -> None:
        """Close the socket: its token has been revoked."""
        self.close(CloseCode.POLICY_VIOLATION, f"Invalid token: {RejectionReason.REVOKED}", now_s)

    @abc.abstractmethod
    def on_verified(self, token: VerifiedToken, now_s: float) -> None:
        """Use a token that the socket has verified."""

    @abc.abstractmethod
    def on_rejected(self, rejection: Rejection, now_s: float) -> None:
        """Reject a token that the socket has verified."""

    @abc.abstractmethod
    def _handle(self, body: bytes, now_s: float) -> None: ...

    @abc.abstractmethod
    def _handle_timer(self, now_s: float) -> None: ...

    @abc.abstractmethod
    def _take(self, steps: list[Step], now_s: float) -> None: ...

    @abc.abstractmethod
    def _end(self, code: CloseCode, now_s: float) -> None:
        """Release everything and set `is_closed`; the socket then closes with this code."""

    def _take_close(self, step: Close, now_s: float) -> None:
        if step.rejection is not None and not self.is_closed:
            self._context.observer.on_token_rejected(self, step.rejection)
        self.close(step.code, step.reason, now_s)

    def _stop_waiting(self, now_s: float) -> None:
        """Handle the messages that were held."""
        self._is_waiting = False
        while self._held and not self._is_waiting and not self.is_closed:
            self._handle(self._held.popleft(), now_s)
        if not self._is_waiting and not self.is_closed:
            self._peer_socket.resume()

    def _count_rejected(self, now_s: float) -> None:
        """Count an undecodable or rejected message; close after too many in a minute."""
        recent = [time_s for time_s in self._rejected_at_s if now_s - time_s < _MINUTE_S]
        self._rejected_at_s = [*recent, now_s]
        if len(self._rejected_at_s) >= (most := self._context.limits.rejected_messages_per_minute):
            self.close(CloseCode.POLICY_VIOLATION, f"{most} rejected messages in a minute", now_s)


def clean_name(name: str, default: str) -> str:
    """Return a name for users: one line of limited length."""
    return single_line(name, _NAME_CHARS) or default
