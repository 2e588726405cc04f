"""Users of one node: their connected extensions and clients. Sans-IO.

No user reaches anything of another one: every lookup begins with the user of a verified token.
"""

from __future__ import annotations

from uuid import UUID, uuid5

import msgspec

from native_host.protocol.rate_limit import RateLimiter
from websocket_proxy import protocol
from websocket_proxy.clients import Client, RequestRates
from websocket_proxy.extensions import Extension
from websocket_proxy.handshakes import VerifiedToken
from websocket_proxy.peer import ClientSocket, ExtensionSocket, NodeContext
from websocket_proxy.protocol import CloseCode, ListedExtension

_NAMESPACE = UUID("6f1d1f0e-3c52-4b8e-9d0b-6a0f7c1f5f52")
"""Of the ids of extensions. Another one would give every browser a new id."""


class _User:
    """Connected peers of a user."""

    def __init__(self) -> None:
        self.extensions: dict[str, Extension] = {}
        self.claimants: dict[str, list[Extension]] = {}
        """Extensions that wait for an id, which is one of another connected extension, by id."""
        self.clients: dict[str, Client] = {}

    @property
    def is_gone(self) -> bool:
        """Return whether nothing of the user is connected."""
        return not (self.extensions or self.claimants or self.clients)


class UserDirectory:
    """All authenticated peers of a node."""

    def __init__(self, context: NodeContext) -> None:
        self._context = context
        self._users: dict[str, _User] = {}
        """Users by the key `owner` of their tokens."""
        self.is_draining = False
        """The node shuts down: requests in flight may finish, and no further ones begin."""
        self._rates = RequestRates(
            RateLimiter(context.limits.requests_per_minute_per_client),
            RateLimiter(context.limits.requests_per_minute_per_user),
        )

    @property
    def user_count(self) -> int:
        """Number of users with a connected peer."""
        return len(self._users)

    def open_extension(
        self,
        socket: ExtensionSocket,
        now_s: float,
        *,
        origin: str = "",
        direct_user: VerifiedToken | None = None,
    ) -> Extension:
        """Begin the opening of an extension. See `Extension` for the arguments."""
        return Extension(socket, self, self._context, now_s, origin=origin, direct_user=direct_user)

    def open_client(self, socket: ClientSocket, now_s: float) -> Client:
        """Begin the opening of a client."""
        return Client(socket, self, self._rates, self._context, now_s)

    def extensions_of(self, owner: str) -> list[Extension]:
        """Return the connected extensions of a user."""
        user = self._users.get(owner)
        return list(user.extensions.values()) if user else []

    def clients_of(self, owner: str) -> list[Client]:
        """Return the connected clients of a user."""
        user = self._users.get(owner)
        return list(user.clients.values()) if user else []

    # ── Extensions ──────────────────────────────────────────────────────────────────────────────────────────

    def admit_extension(self, extension: Extension, client_id: str, now_s: float) -> None:
        """Admit an extension; first ping the connected one with the same id, if there is one."""
        user = self._users.setdefault(extension.owner, _User())
        extension_id = self._choose_id(extension.owner, client_id)
        connected = user.extensions.get(extension_id)
        if connected is None:
            self._admit_as(extension, extension_id, now_s)
            return
        user.claimants.setdefault(extension_id, []).append(extension)
        extension.wait_for_replacement(now_s)
        connected.ping()

    def on_alive(self, extension: Extension, now_s: float) -> None:
        """Give each claimant of the extension's id an id of its own: it has a copy of the profile."""
        user = self._users.get(extension.owner)
        claimants = user.claimants.pop(extension.extension_id, []) if user else []
        for claimant in claimants:
            self._admit_as(claimant, self._context.make_id(protocol.EXTENSION_PREFIX), now_s)

    def on_replacement_due(self, extension: Extension, now_s: float) -> None:
        """Close the connected extension whose id is claimed; its removal admits the claimant."""
        user = self._users[extension.owner]
        claimed = (key for key, claimants in user.claimants.items() if extension in claimants)
        extension_id = next(claimed, "")
        if connected := user.extensions.get(extension_id):
            connected.close(CloseCode.REPLACED, "Replaced by a newer connection", now_s)

    def remove_extension(self, extension: Extension, now_s: float) -> None:
        """Remove an extension, and admit the first claimant of its id."""
        user = self._users.get(extension.owner)
        if user is None:
            return
        for claimants in user.claimants.values():
            if extension in claimants:
                claimants.remove(extension)
        user.claimants = {key: claimants for key, claimants in user.claimants.items() if claimants}
        if user.extensions.get(extension.extension_id) is extension:
            del user.extensions[extension.extension_id]
            self.on_list_changed(extension.owner)
            claimants = user.claimants.pop(extension.extension_id, [])
            for claimant in claimants[:1]:
                self._admit_as(claimant, extension.extension_id, now_s)
            for claimant in claimants[1:]:
                self._admit_as(claimant, self._context.make_id(protocol.EXTENSION_PREFIX), now_s)
        self._forget_if_gone(extension.owner)

    def on_list_changed(self, owner: str) -> None:
        """Send the list of a user's extensions to the clients that want it."""
        for client in self.clients_of(owner):
            self.offer_list(client)

    def _choose_id(self, owner: str, client_id: str) -> str:
        if not client_id:
            return self._context.make_id(protocol.EXTENSION_PREFIX)
        # As JSON, so that no two pairs of texts are equal.
        name = msgspec.json.encode([owner, client_id]).decode()
        return f"{protocol.EXTENSION_PREFIX}-{uuid5(_NAMESPACE, name)}"

    def _admit_as(self, extension: Extension, extension_id: str, now_s: float) -> None:
        user = self._users.setdefault(extension.owner, _User())
        if len(user.extensions) >= self._context.limits.extensions_per_user:
            extension.close(CloseCode.TRY_AGAIN_LATER, "Too many extensions of this user", now_s)
            return
        user.extensions[extension_id] = extension
        extension.on_admitted(extension_id, now_s)

    # ── Clients ─────────────────────────────────────────────────────────────────────────────────────────────

    def admit_client(self, client: Client) -> bool:
        """Add an authenticated client; return whether its user may have another one."""
        user = self._users.setdefault(client.owner, _User())
        if len(user.clients) >= self._context.limits.clients_per_user:
            return False
        user.clients[client.peer_id] = client
        return True

    def remove_client(self, client: Client) -> None:
        """Remove a client."""
        user = self._users.get(client.owner)
        if user and user.clients.pop(client.peer_id, None):
            self._forget_if_gone(client.owner)

    def offer_list(self, client: Client) -> None:
        """Send the list to a client that wants it."""
        if client.wants_list:
            client.send_list(self._list(client.owner))

    def list_extensions(self, client: Client, now_s: float) -> None:
        """Respond to `list_extensions` of a client."""
        client.on_listed(self._list(client.owner), now_s)

    def connect(self, client: Client, extension_id: str, now_s: float) -> None:
        """Connect a client to an extension of its user."""
        extension = self._users[client.owner].extensions.get(extension_id)
        if extension is None:
            client.on_not_found(now_s)
        else:
            client.on_connected(extension.connect(client), now_s)

    def _list(self, owner: str) -> list[ListedExtension]:
        return [extension.listed for extension in self.extensions_of(owner)]

    def _forget_if_gone(self, owner: str) -> None:
        if (user := self._users.get(owner)) and user.is_gone:
            del self._users[owner]
