"""Peers of a WebSocket proxy without sockets: the real directory, and sockets that record.

A token is the name of its user, behind the issuer and a slash if that has a name: `idp/alice`. With a colon,
the reason of its rejection follows: `alice:expired`.
"""

from __future__ import annotations

import itertools
import json
import math
from typing import Any, Generic, TypeVar

from native_host.protocol.announcements import AnnouncementMeta
from websocket_proxy.clients import Client
from websocket_proxy.extensions import Extension
from websocket_proxy.handshakes import Rejection, VerifiedToken
from websocket_proxy.limits import Limits
from websocket_proxy.peer import NodeContext, Observer
from websocket_proxy.protocol import CloseCode, RejectionReason, Role
from websocket_proxy.user_directory import UserDirectory

TIMESTAMP = "2026-11-28T01:02:03.004Z"
TOKEN_S = 3600.0


class RecordingSocket:
    """A peer's WebSocket: keeps what the peer asks of it."""

    def __init__(self) -> None:
        self.messages: list[Any] = []
        self.raw: list[bytes] = []
        self.metas: list[AnnouncementMeta | None] = []
        self.tokens: list[tuple[str, Role]] = []
        self.closed: tuple[int, str] | None = None
        self.pings = 0
        self.wakes = 0
        self.resumed = 0
        self.unwritten: list[str] = []
        """Keys of messages that were taken out of the outbox, and not written."""

    def put(self, parts: tuple[bytes, ...], meta: AnnouncementMeta | None = None) -> None:
        body = b"".join(map(bytes, parts))
        self.raw.append(body)
        self.messages.append(json.loads(body))
        self.metas.append(meta)

    def verify(self, token: str, role: Role) -> None:
        self.tokens.append((token, role))

    def resume(self) -> None:
        self.resumed += 1

    def close(self, code: CloseCode, reason: str) -> None:
        assert self.closed is None
        self.closed = (code.value, reason)

    def wake(self) -> None:
        self.wakes += 1

    def ping(self) -> None:
        self.pings += 1

    def withdraw(self) -> list[str]:
        withdrawn, self.unwritten = self.unwritten, []
        return withdrawn


AnyPeer = TypeVar("AnyPeer", Extension, Client)


class _Talker(Generic[AnyPeer]):
    """A peer with its socket and the clock."""

    peer: AnyPeer

    def __init__(self, proxy: ProxyConversation) -> None:
        self.proxy = proxy
        self.socket = RecordingSocket()

    @property
    def closed(self) -> tuple[int, str] | None:
        return self.socket.closed

    def say(self, **message: Any) -> None:
        self.say_raw(json.dumps({"jsonrpc": "2.0", **message}).encode())

    def say_raw(self, body: bytes) -> None:
        self.peer.on_message(body, self.proxy.now_s)
        self.verify_tokens()

    def verify_tokens(self) -> None:
        """Report the outcome of each verification that the peer asks for, unless they are held up."""
        while self.socket.tokens and not self.proxy.holds_tokens:
            token, _ = self.socket.tokens.pop(0)
            user_id, _, reason = token.partition(":")
            if reason:
                rejection = Rejection(RejectionReason(reason), "Sign in again.")
                self.peer.on_rejected(rejection, self.proxy.now_s)
            else:
                issuer, _, user_id = user_id.rpartition("/")
                verified = VerifiedToken(user_id, self.proxy.now_s + TOKEN_S, issuer)
                self.peer.on_verified(verified, self.proxy.now_s)

    def run_timer(self) -> None:
        self.peer.on_timer(self.proxy.now_s)


class ProxyExtension(_Talker[Extension]):
    """An extension at the proxy."""

    def __init__(self, proxy: ProxyConversation, *, origin: str = "", direct_user: str = "") -> None:
        super().__init__(proxy)
        self.peer = proxy.directory.open_extension(
            self.socket,
            proxy.now_s,
            origin=origin,
            direct_user=VerifiedToken(direct_user, math.inf) if direct_user else None,
        )

    def sign_in(self, token: str, **credentials: Any) -> None:
        result = {"name": "Chrome 141", "accessToken": token, **credentials}
        self.say(id="proxy:1", result=result)

    def take(self) -> tuple[bytes, str, int]:
        """Take the next message out of the outbox, as a node does before it writes."""
        return self.peer.outbox.pop_next(0)

    def received(self) -> list[Any]:
        """Write everything that is queued; return it."""
        messages = []
        while self.peer.outbox:
            body, key, size = self.take()
            self.peer.on_written(key, size)
            messages.append(json.loads(body))
        return messages

    def received_requests(self) -> list[Any]:
        return [message for message in self.received() if "id" in message]


class ProxyClient(_Talker[Client]):
    """A client at the proxy."""

    def __init__(self, proxy: ProxyConversation) -> None:
        super().__init__(proxy)
        self.peer = proxy.directory.open_client(self.socket, proxy.now_s)

    def received(self) -> list[Any]:
        """Return what has been queued since the last time."""
        messages, self.socket.messages = self.socket.messages, []
        self.socket.raw.clear()
        self.socket.metas.clear()
        return messages

    def ask(self, raw_id: Any, method: str, **params: Any) -> Any:
        """Send a request; return what the client received since."""
        self.received()
        self.say(id=raw_id, method=method, params=params)
        return self.received()

    def connect(self, extension: ProxyExtension) -> str:
        """Connect; return the connection id."""
        answer = self.ask("connect", "connect", extension_id=extension.peer.extension_id)[0]
        return str(answer["result"]["connection_id"])


class ProxyConversation:
    """A node without I/O: ids count, and the clock is moved by the test."""

    def __init__(self, limits: Limits | None = None, observer: Observer | None = None) -> None:
        self.now_s = 1000.0
        self.holds_tokens = False
        """Leave tokens unverified until `verify_tokens`."""
        numbers = itertools.count(1)

        def make_id(prefix: str) -> str:
            return f"{prefix}-{next(numbers):08x}"

        context = NodeContext(limits or Limits(), "0.2.0", lambda: TIMESTAMP, make_id, observer or Observer())
        self.directory = UserDirectory(context)

    def extensions_of(self, user: str) -> list[Extension]:
        return self.directory.extensions_of(VerifiedToken(user, 0).owner)

    def clients_of(self, user: str) -> list[Client]:
        return self.directory.clients_of(VerifiedToken(user, 0).owner)

    def extension(
        self, user: str = "alice", *, client_id: str = "", origin: str = "", **credentials: Any
    ) -> ProxyExtension:
        """Return an extension that is signed in, and has read everything."""
        extension = ProxyExtension(self, origin=origin)
        extension.sign_in(user, client_id=client_id, **credentials)
        extension.received()
        return extension

    def client(self, user: str = "alice", **handshake: Any) -> ProxyClient:
        """Return a client that is signed in, and has read everything."""
        client = ProxyClient(self)
        client.say(id=0, method="mcp_handshake", params={"accessToken": user, **handshake})
        client.received()
        return client
