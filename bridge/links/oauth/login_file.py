"""Sign-in to a remote server or a WebSocket proxy on disk: OAuth tokens and client registration.

It is `login.json` in `state/logins/NAME` or `state/proxy-logins/ADDRESS`. The directory is the lock of its
file: bridges that refresh at once take turns. Neither other users nor links are accepted anywhere on the
path.
"""

from __future__ import annotations

import math
import os
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import msgspec
import trio

from native_host.system.home_layout import HomeLayout
from native_host.system.private_files import (
    PrivateFileError,
    check_directory,
    draft_of,
    lock_directory,
    prepare_directory,
    read_secret,
    replace,
)
from native_host.system.program_name import format_command

EARLY_S = 60.0
"""Seconds before a token expires at which it is refreshed, at most half its lifetime."""
NEW_S = 10.0
"""Seconds in which a token is not refreshed again: a rejected request may have carried its predecessor.

At most half its lifetime.
"""

_MAX_BYTES = 256 * 1024
_LOCK_POLL_S = 0.02


class RemoteLogin(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Tokens for one URL, and what refreshes and revokes them."""

    url: str
    """URL of the MCP server, as configured at the sign-in, or of the proxy. The tokens are for no other."""
    issuer: str
    """The authorization server."""
    token_endpoint: str
    revocation_endpoint: str = ""
    client_id: str
    client_secret: str = ""
    auth_method: str = ""
    """How the client authenticates: `client_secret_post`, `client_secret_basic`, else by its id alone."""
    resource: str = ""
    """Resource indicator (RFC 8707) of the tokens; empty: none was requested."""
    access_token: str
    refresh_token: str = ""
    issued_at: float
    """Time in seconds since the epoch."""
    expires_at: float | None = None
    """None: not known."""

    @property
    def due_at(self) -> float:
        """Return the time at which the access token is to be refreshed; infinite: it is not known."""
        return math.inf if self.expires_at is None else self.expires_at - min(EARLY_S, self._half_life_s)

    @property
    def _half_life_s(self) -> float:
        return math.inf if self.expires_at is None else (self.expires_at - self.issued_at) / 2

    def is_new(self, now: float) -> bool:
        """Return whether the access token was issued a moment ago."""
        return 0 <= now - self.issued_at < min(NEW_S, self._half_life_s)

    def is_expired(self, now: float) -> bool:
        """Return whether the access token has expired."""
        return self.expires_at is not None and now >= self.expires_at

    def is_due(self, now: float) -> bool:
        """Return whether the access token has expired or is about to."""
        return now >= self.due_at


class LoginFile:
    """The stored sign-in of one server or proxy."""

    def __init__(self, home: Path, name: str, *, logins: Path | None = None, command: str = "") -> None:
        """Take a file, whether it exists or not.

        Args:
            home: of mcpb.
            name: of its directory; by default that of a remote server, as config.toml allows it.
            logins: directory of the directory.
            command: arguments of mcpb that sign in again.
        """
        self._state = HomeLayout(home).state.path
        self._logins = logins or HomeLayout(home).state.logins
        self._directory = self._logins / name
        self._command = command or f"remote login {name}"
        self.path = self._directory / "login.json"

    def exists(self) -> bool:
        """Return whether there is anything to remove, also what a process that was killed has left."""
        return any(os.path.lexists(path) for path in (self.path, draft_of(self.path)))

    def read(self) -> RemoteLogin | None:
        """Return the sign-in; None if the user has not signed in.

        Raises:
            PrivateFileError: other users have access to it, or it is damaged.
        """
        try:
            self.path.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise PrivateFileError(self.path, f"cannot be read: {error.strerror}") from error
        for directory in (self._state, self._logins, self._directory):
            check_directory(directory)
        try:
            return msgspec.json.decode(read_secret(self.path, _MAX_BYTES), type=RemoteLogin)
        except msgspec.DecodeError:
            raise PrivateFileError(self.path, "is damaged", format_command(self._command)) from None

    def prepare(self) -> None:
        """Create the directories of the file. Raises PrivateFileError."""
        for directory in (self._state, self._logins, self._directory):
            prepare_directory(directory)

    def write(self, login: RemoteLogin) -> None:
        """Replace the sign-in, in `hold`. Raises PrivateFileError."""
        replace(self.path, msgspec.json.encode(login))

    def remove(self) -> None:
        """Remove the sign-in, in `hold`.

        Raises:
            PrivateFileError: the system refuses.
        """
        try:
            self.path.unlink(missing_ok=True)
            draft_of(self.path).unlink(missing_ok=True)
        except OSError as error:
            raise PrivateFileError(self.path, f"cannot be removed: {error.strerror}") from error

    @asynccontextmanager
    async def hold(self, timeout_s: float) -> AsyncIterator[None]:
        """Keep other processes and tasks from the file for the time of the context.

        Raises:
            TimeoutError: another one holds it for so long.
            PrivateFileError: its directory cannot be used.
        """
        self.prepare()
        until = trio.current_time() + timeout_s
        with ExitStack() as stack:
            while True:
                try:
                    stack.enter_context(lock_directory(self._directory, timeout_s=0))
                    break
                except TimeoutError:
                    if trio.current_time() >= until:
                        raise
                    await trio.sleep(_LOCK_POLL_S)
                except OSError as error:
                    # Not every network file system has locks.
                    reason = f"cannot be locked: {error.strerror}"
                    raise PrivateFileError(self._directory, reason) from error
            yield
