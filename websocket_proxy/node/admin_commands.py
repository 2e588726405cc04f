"""Commands of the admin socket, as a node carries them out. `admin.py` moves them."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from websocket_proxy import __version__
from websocket_proxy.device_grant import SignIn, TooManyCodesError, UnknownCodeError
from websocket_proxy.issuer_service import IssuerService
from websocket_proxy.node import admin
from websocket_proxy.node.admin import AdminError
from websocket_proxy.node.node import Node
from websocket_proxy.oauth_messages import OAuthError
from websocket_proxy.token_verifier import TokenVerifier


class RunningProxy(NamedTuple):
    """Addresses of a node that accepts connections."""

    url: str
    """URL for users, without a slash at the end."""
    local_url: str
    """URL of its own port on this machine."""
    extension_url: str
    client_url: str
    admin_url: str
    direct_url: str
    """WebSocket URL of the port without tokens; empty: off."""
    has_home_issuer: bool


class AdminCommands:
    """Commands of one node."""

    def __init__(
        self, node: Node, verifier: TokenVerifier, home: IssuerService | None, addresses: RunningProxy
    ) -> None:
        self._node = node
        self._verifier = verifier
        self._home = home
        self._addresses = addresses

    async def handle(self, request: admin.Request) -> admin.Result:
        """Return the result of a command. Raises AdminError."""
        match request:
            case admin.GetStatus():
                return self._status()
            case admin.FindSignIn(code):
                return _describe_sign_in(_call(partial(self._issuer.find_sign_in, code)))
            case admin.DecideSignIn(code, is_approved):
                decide = self._issuer.approve if is_approved else self._issuer.deny
                return _describe_sign_in(_call(partial(decide, code)))
            case admin.ListSessions():
                return self._sessions()
            case admin.RevokeSession(name):
                await self._revoke(name)
                return None

    @property
    def _issuer(self) -> IssuerService:
        if self._home is None:
            raise AdminError(
                "This proxy issues no tokens: its users sign in at the issuers of [[proxy.issuers]]."
            )
        return self._home

    def _sessions(self) -> list[admin.SignedIn]:
        sockets = self._node.count_by_family()
        return [
            admin.SignedIn(
                id=each.id,
                role=each.role,
                client_name=each.client_name,
                client_id=each.client_id,
                address=each.address,
                created_at=each.created_at,
                refreshed_at=each.refreshed_at,
                expires_at=each.expires_at,
                sockets=sockets[each.id],
            )
            for each in self._issuer.families()
        ]

    async def _revoke(self, name: str) -> None:
        found = [each.id for each in self._issuer.families() if each.id.startswith(name)]
        if len(found) != 1:
            text = "No session has this id" if not found else "Several ids begin with this text"
            raise AdminError(f"{text}: `mcpb proxy sessions` lists the ids.")
        try:
            await self._issuer.revoke(found[0])
        except OAuthError as error:
            raise AdminError(f"The session has ended until the proxy restarts. {error.description}") from None

    def _status(self) -> admin.Status:
        addresses, gauges = self._addresses, self._node.gauges()
        issuers = [
            admin.IssuerStatus(
                issuer=name,
                source=state.source,
                keys=state.key_count,
                read_at=state.read_at,
                problem=state.problem,
                is_stale=state.is_stale,
            )
            for name, state in self._verifier.key_states()
        ]
        return admin.Status(
            pid=os.getpid(),
            version=__version__,
            url=addresses.url,
            local_url=addresses.local_url,
            extension_url=addresses.extension_url,
            client_url=addresses.client_url,
            admin_url=addresses.admin_url,
            user_id=self._home.user_id if self._home else "",
            waiting_sign_ins=len(self._home.pending()) if self._home else 0,
            issuers=issuers,
            **gauges._asdict(),
        )


def _call(look_up: Callable[[], SignIn]) -> SignIn:
    try:
        return look_up()
    except UnknownCodeError:
        text = "No sign-in waits with this code. Codes expire after 10 minutes: start the sign-in again."
        raise AdminError(text) from None
    except TooManyCodesError as error:
        raise AdminError(str(error)) from None


def _describe_sign_in(sign_in: SignIn) -> admin.WaitingSignIn:
    return admin.WaitingSignIn(
        code=sign_in.user_code,
        role=sign_in.role,
        client_name=sign_in.client_name,
        client_id=sign_in.client_id,
        address=sign_in.address,
    )
