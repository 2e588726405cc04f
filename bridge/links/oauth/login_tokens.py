"""Access token of a sign-in: read for each request, refreshed before and after it expires.

Several bridges share the file of a sign-in. The one that gets its lock refreshes; the others read the result,
because a refresh token may be good for one use only. No problem reported here has a token.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import trio

from bridge.config.remote_settings import is_bearer_token
from bridge.links.oauth.login_file import LoginFile, RemoteLogin
from bridge.links.remote_problem import Cause, RemoteProblem
from native_host.system.private_files import PrivateFileError

PAUSE_S = 30.0
"""Seconds between two attempts to refresh, after one has failed."""
LOCK_S = 15.0
"""Seconds that a request without a valid token waits for another process to refresh."""
_REVOKE_S = 5.0
_FINAL_ERRORS = ("invalid_grant", "invalid_client", "unauthorized_client")
"""Error codes (RFC 6749, section 5.2) after which the refresh token is of no use.

No set: servers send objects too, which have no hash.
"""
_MAX_LIFETIME_S = 10 * 366 * 24 * 3600


class LoginTokens:
    """Tokens for one URL. Use one for each URL, in one trio run."""

    def __init__(self, url: str, file: LoginFile, repeats_s: Sequence[float] = ()) -> None:
        """Use the tokens of a file.

        Args:
            url: server or proxy that they are for.
            file: the stored sign-in.
            repeats_s: seconds before each repetition of a refresh whose response is lost. An authorization
                server may take a repetition for a stolen token: only those that allow it get one.
        """
        self._url = url
        self._file = file
        self._repeats_s = repeats_s
        self.due_at = math.inf
        """Time in seconds since the epoch at which the token that was read last is to be refreshed."""
        self._retry_at = -math.inf
        """Time of trio's clock before which no refresh is attempted."""
        self._problem: RemoteProblem | None = None
        """Why the last refresh failed."""

    async def read(self, *, is_rejected: bool = False) -> str:
        """Return the access token; empty if the user has not signed in to this URL.

        Args:
            is_rejected: a request was answered 401.

        Raises:
            RemoteProblem: the file cannot be used, or an expired token cannot be refreshed now.
        """
        login = self._load()
        if login is None:
            return ""
        self.due_at = login.due_at
        if not self._has_to_refresh(login, is_rejected=is_rejected):
            return login.access_token
        is_usable = not is_rejected and not login.is_expired(time.time())
        if trio.current_time() >= self._retry_at:
            try:
                # A token that still works does not wait for another process.
                refreshed = await self._refresh_once(0 if is_usable else LOCK_S, is_rejected=is_rejected)
            except RemoteProblem as problem:
                self._problem = problem
                self._retry_at = trio.current_time() + PAUSE_S
            else:
                if refreshed is None:
                    return ""
                self.due_at = refreshed.due_at
                return refreshed.access_token
        if is_usable:
            return login.access_token
        assert self._problem, "without one, a refresh was attempted"
        detail = f"the sign-in cannot be refreshed: {self._problem.detail}"
        raise RemoteProblem(self._problem.cause, detail)

    def _load(self) -> RemoteLogin | None:
        try:
            login = self._file.read()
        except PrivateFileError as error:
            raise RemoteProblem(Cause.HEADERS, f"sign-in: {error}") from None
        return login if login is not None and login.url == self._url else None

    def _has_to_refresh(self, login: RemoteLogin, *, is_rejected: bool) -> bool:
        now = time.time()
        is_due = is_rejected or login.is_due(now)
        return is_due and bool(login.refresh_token) and not login.is_new(now)

    async def _refresh_once(self, lock_s: float, *, is_rejected: bool) -> RemoteLogin | None:
        """Return the sign-in as this or another process has refreshed it; without `lock_s`, also as it is.

        Raises RemoteProblem.
        """
        try:
            async with self._file.hold(lock_s):
                login = self._load()
                if login is None or not self._has_to_refresh(login, is_rejected=is_rejected):
                    return login
                return await self._refresh(login)
        except TimeoutError:
            if not lock_s:
                return self._load()
            raise RemoteProblem(Cause.TOO_SLOW, "another mcpb has not refreshed it in time") from None
        except PrivateFileError as error:
            raise RemoteProblem(Cause.HEADERS, f"sign-in: {error}") from None

    async def _refresh(self, login: RemoteLogin) -> RemoteLogin:
        """Refresh the tokens and store them. Raises RemoteProblem, PrivateFileError."""
        from bridge.links.oauth.oauth_http import origin_of  # noqa: PLC0415  (most requests need none)

        # A refresh token may be good for one use only: it is not used where its successor cannot be stored.
        self._file.write(login)
        requested_at = time.time()
        status, answer = await self._request_tokens(login)
        if status in {200, 201}:
            refreshed = _read_tokens(login, answer, requested_at)
        elif answer.get("error") in _FINAL_ERRORS:
            refreshed = msgspec.structs.replace(login, refresh_token="")
        else:
            refreshed = None
        if refreshed is None:
            detail = f"{origin_of(login.token_endpoint)} answered with HTTP status {status} and no token"
            raise RemoteProblem(Cause.CLOSED, detail)
        self._file.write(refreshed)
        return refreshed

    async def _request_tokens(self, login: RemoteLogin) -> tuple[int, Mapping[str, Any]]:
        """Return status and body of the response to a refresh, which may be repeated."""
        from bridge.links.oauth.oauth_http import refresh_token  # noqa: PLC0415  (as above)

        for pause_s in (*self._repeats_s, None):
            try:
                # A caller that is cancelled meanwhile must not lose the only valid refresh token.
                with trio.CancelScope(shield=True):
                    return await refresh_token(login)
            except RemoteProblem as problem:
                if pause_s is None or not problem.may_recover:
                    raise
                await trio.sleep(pause_s)
        raise AssertionError("the last attempt returns or raises")


def _read_tokens(login: RemoteLogin, answer: Mapping[str, Any], now: float) -> RemoteLogin | None:
    """Return the sign-in with the tokens of a response; None if it has none."""
    access_token, refresh_token = answer.get("access_token"), answer.get("refresh_token")
    if not isinstance(access_token, str) or not is_bearer_token(access_token):
        return None
    return msgspec.structs.replace(
        login,
        access_token=access_token,
        # A server that does not rotate it leaves it out.
        refresh_token=refresh_token if isinstance(refresh_token, str) else login.refresh_token,
        issued_at=now,
        expires_at=find_expiry(answer.get("expires_in"), now),
    )


def find_expiry(expires_in: object, now: float) -> float | None:
    """Return the time at which a token expires, by `expires_in` of its response; None if it is not known."""
    if isinstance(expires_in, bool) or not isinstance(expires_in, int | float):
        return None
    if not 0 < expires_in < _MAX_LIFETIME_S:
        return None
    return now + expires_in


async def store_login(file: LoginFile, login: RemoteLogin) -> str:
    """Replace the stored sign-in, then revoke the tokens of the earlier one as `forget_login`.

    Returns:
        Why those were not revoked; empty: they were, there are none, or there is no way.

    Raises:
        PrivateFileError: the file cannot be written.
        TimeoutError: another process holds it.
    """
    async with file.hold(LOCK_S):
        earlier, problem = _read_to_revoke(file)
        file.write(login)
    # Of one client, some servers revoke all tokens, the new ones too.
    if earlier and (earlier.issuer, earlier.client_id) == (login.issuer, login.client_id):
        return ""
    return await _revoke(earlier) if earlier else problem


async def forget_login(file: LoginFile) -> tuple[bool, str]:
    """Remove the stored sign-in, then revoke its tokens if the server offers that.

    Returns:
        Whether there was one, and why its tokens were not revoked; empty: they were, or there is no way.

    Raises:
        PrivateFileError: the file cannot be removed.
        TimeoutError: another process holds it.
    """
    if not file.exists():
        return False, ""
    async with file.hold(LOCK_S):
        login, problem = _read_to_revoke(file)
        file.remove()
    return True, await _revoke(login) if login else problem


def _read_to_revoke(file: LoginFile) -> tuple[RemoteLogin | None, str]:
    """Return the sign-in, or why its file, if there is one, cannot be used."""
    try:
        return file.read(), ""
    except PrivateFileError as error:
        return None, f"their file {error.reason}"


async def _revoke(login: RemoteLogin) -> str:
    """Revoke the tokens; return why they were not revoked, empty if they were or there is no way."""
    if not login.revocation_endpoint:
        return ""
    from bridge.links.oauth.oauth_http import revoke_token  # noqa: PLC0415  (few sign-ins end)

    try:
        with trio.fail_after(_REVOKE_S):
            status = await revoke_token(login)
    except (RemoteProblem, trio.TooSlowError) as error:
        return error.detail if isinstance(error, RemoteProblem) else "it did not answer in time"
    return "" if status in {200, 204} else f"it answered with HTTP status {status}"
