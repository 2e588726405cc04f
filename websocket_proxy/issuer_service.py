"""Home issuer of a running node: one change after the other, stored before its response is sent."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable
from http import HTTPStatus

import trio

from native_host.system.private_files import PrivateFileError
from websocket_proxy.device_grant import Decision, SignIn
from websocket_proxy.issuer import HomeIssuer, TokenFamily, TokenReusedError
from websocket_proxy.keys import FixedKeys
from websocket_proxy.oauth_messages import OAuthCode, OAuthError, TokenResponse
from websocket_proxy.protocol import Role
from websocket_proxy.token_store import TokenStore
from websocket_proxy.token_verifier import TrustedIssuer

OnRevoked = Callable[[str], None]
"""Receives the id of a family that was revoked; its sockets have to be closed."""

_log = logging.getLogger(__name__)


def _ignore_revoked(_: str) -> None:
    pass


class IssuerService:
    """Home issuer with its files, for the HTTP endpoints and the admin commands."""

    def __init__(
        self,
        store: TokenStore,
        url: str,
        on_revoked: OnRevoked = _ignore_revoked,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Serve the home user.

        Args:
            store: its files, as `open_store` yields them.
            url: URL of the proxy, https or http on loopback.
            on_revoked: called at each revocation.
            now: seconds since the epoch.
        """
        self._store = store
        self._issuer = HomeIssuer(store.key, url, store.families, secrets.token_bytes)
        self._public_keys = store.key.signing.public_keys()
        self._on_revoked = on_revoked
        self._now = now
        self._lock = trio.Lock()

    @property
    def user_id(self) -> str:
        """Return the id of the only user."""
        return self._issuer.user_id

    @property
    def url(self) -> str:
        """Return issuer and audience of its tokens."""
        return self._issuer.url

    def connection_url(self, role: Role) -> str:
        """Return the WebSocket URL of an endpoint, as its tokens name it."""
        return self._issuer.connection_url(role)

    def jwks(self) -> dict[str, object]:
        """Return the JWK set with its public key."""
        return self._issuer.jwks()

    def trusted_issuer(self) -> TrustedIssuer:
        """Return the issuer for the token verifier."""
        keys = FixedKeys(self._public_keys, "the home issuer")
        return TrustedIssuer(self._issuer.rules, keys, self._issuer.is_revoked)

    # ── Requests of clients ─────────────────────────────────────────────────────────────────────────────────

    def begin_sign_in(self, client_id: str, client_name: str, role: Role, address: str) -> tuple[str, SignIn]:
        """Return the device code and the sign-in of a client. Raises OAuthError."""
        return self._issuer.sign_ins.begin(client_id, client_name, role, address, self._now())

    async def exchange_device_code(self, device_code: str, client_id: str) -> TokenResponse:
        """Return the first tokens of an approved sign-in. Raises OAuthError."""
        async with self._lock:
            sign_in = self._issuer.sign_ins.poll(device_code, client_id, self._now())
            before, family = dict(self._issuer.families), sign_in.family
            response = self._issuer.issue(sign_in, self._now())
            try:
                await self._save(before)
            except OAuthError:
                sign_in.family = family
                raise
            return response

    async def refresh(self, token: str, client_id: str) -> TokenResponse:
        """Return the tokens that follow a refresh token. Raises OAuthError."""
        async with self._lock:
            before = dict(self._issuer.families)
            try:
                response = self._issuer.refresh(token, client_id, self._now())
            except TokenReusedError as error:
                _log.warning("Revoked a sign-in: one of its earlier refresh tokens was used again.")
                await self._end_family(error.family)
                raise
            await self._save(before)
            return response

    # ── Commands of the user ────────────────────────────────────────────────────────────────────────────────

    def pending(self) -> list[SignIn]:
        """Return the sign-ins that wait for a decision, the oldest first."""
        return self._issuer.sign_ins.pending(self._now())

    def find_sign_in(self, user_code: str) -> SignIn:
        """Return the sign-in that a user code stands for. Raises UnknownCodeError or TooManyCodesError."""
        return self._issuer.sign_ins.find(user_code, self._now())

    def approve(self, user_code: str) -> SignIn:
        """Approve a sign-in, and return it. Raises as `find_sign_in`."""
        return self._issuer.sign_ins.decide(user_code, Decision.APPROVED, self._now())

    def deny(self, user_code: str) -> SignIn:
        """Deny a sign-in, and return it. Raises as `find_sign_in`."""
        return self._issuer.sign_ins.decide(user_code, Decision.DENIED, self._now())

    def families(self) -> list[TokenFamily]:
        """Return all sign-ins that have tokens, the oldest first."""
        self._issuer.forget_expired(self._now())
        return list(self._issuer.families.values())

    async def revoke(self, family: str) -> bool:
        """End a family at once; return whether there was one.

        Raises:
            OAuthError: it ended, but is not stored: it is valid again after a restart; repair the disk.
        """
        async with self._lock:
            if not self._issuer.revoke(family):
                return False
            await self._end_family(family)
            return True

    # ── Storage ─────────────────────────────────────────────────────────────────────────────────────────────

    async def _end_family(self, family: str) -> None:
        """Report and store a revocation. It takes effect even if it cannot be stored."""
        self._on_revoked(family)
        await self._write()

    async def _save(self, before: dict[str, TokenFamily]) -> None:
        """Store the families, or restore those of before. Raises OAuthError."""
        if self._issuer.families == before:
            return
        try:
            await self._write()
        except OAuthError:
            self._issuer.families = before
            raise

    async def _write(self) -> None:
        families = list(self._issuer.families.values())
        with trio.CancelScope(shield=True):  # a client that closes its connection must not end it halfway
            try:
                await trio.to_thread.run_sync(self._store.save, families)
            except PrivateFileError as error:
                _log.error("Tokens cannot be stored: %s", error)
                text = "The tokens cannot be stored: the log of the proxy names the cause. Try again later."
                status = HTTPStatus.SERVICE_UNAVAILABLE
                raise OAuthError(OAuthCode.SERVER_ERROR, text, status=status) from None
