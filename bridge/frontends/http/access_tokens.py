"""Access tokens: the bearer tokens that HTTP clients send, and the client that each one stands for.

The token of the client `default` is `http.auth_token`, else the one in `state/http-token`. Of tokens that the
user adds for other clients, `state/http-tokens.json` contains names and SHA-256 digests: with 256 random bits
a digest does not reveal its token. It does not check requests: that is `authorization.py`.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import shlex
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import msgspec

from bridge.config.settings import HttpSettings
from bridge.frontends.http.bearer_token import TokenError, new_token, token_for
from native_host.protocol.validation_errors import describe_problem
from native_host.system import private_files
from native_host.system.home_layout import StateLayout
from native_host.system.private_files import PrivateFileError, lock_directory, prepare_directory
from native_host.system.program_name import format_command

DEFAULT = "default"
"""Name of the client whose token `mcpb serve` prints."""
MAX_TOKENS = 256
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

_log = logging.getLogger(__name__)

_Signature = tuple[int, int, int] | None
"""Inode, modification time and size of a file; None: it is missing."""


class _StoredToken(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    sha256: str
    since: str
    """The day, as 2026-11-22."""


class TokenClient(NamedTuple):
    """The client for which a token stands."""

    name: str
    digest: str


class AccessTokens:
    """The tokens that a running server accepts. Both files are read again when they change."""

    def __init__(self, settings: HttpSettings, state: Path) -> None:
        """Read both files; create the token of `default` if it is missing.

        Raises:
            TokenError: one of the files cannot be used; show the text to the user.
        """
        self._settings = settings
        self._state = state
        self._signatures: list[_Signature] = []
        self._by_digest: dict[str, TokenClient] = {}
        signatures = self._read_signatures()
        token_for(settings, state)
        self._load_file()
        self._signatures = signatures  # of before: a change since then is found at the next look

    def find(self, token: str) -> TokenClient | None:
        """Return the client of a token that is valid now."""
        self.refresh()
        return self._by_digest.get(digest_of(token)) if token else None

    def is_valid(self, digest: str) -> bool:
        """Return whether the token with this digest is still accepted."""
        self.refresh()
        return digest in self._by_digest

    def refresh(self) -> None:
        """Read the files if one of them has changed. Of a file that cannot be used no token is valid."""
        signatures = self._read_signatures()
        if signatures == self._signatures:
            return
        self._signatures = signatures
        self._by_digest.clear()
        try:
            self._load_file()
        except TokenError as error:
            _log.error("access tokens are not accepted: %s", error)

    def _load_file(self) -> None:
        if self._has_default():
            self._accept_entry(DEFAULT, digest_of(token_for(self._settings, self._state)))
        for name, stored in _read_file(self._state).items():
            self._accept_entry(name, stored.sha256)

    def _has_default(self) -> bool:
        # A file that was removed while the server runs is created again at the next start alone.
        return bool(self._settings.auth_token) or os.path.lexists(StateLayout(self._state).bearer_token)

    def _accept_entry(self, name: str, digest: str) -> None:
        self._by_digest.setdefault(digest, TokenClient(name, digest))

    def _read_signatures(self) -> list[_Signature]:
        files = StateLayout(self._state)
        return [_file_signature(path) for path in (files.bearer_token, files.access_tokens)]


# ── Commands of the user ────────────────────────────────────────────────────────────────────────────────────


def check_client_name(name: str) -> None:
    """Check the name of a client with a token.

    Raises:
        TokenError: it cannot be one.
    """
    if not _NAME.fullmatch(name):
        text = f'"{name}" cannot be the name of a token: use at most 64 letters, digits and . _ -'
        raise TokenError(text)


def add_token(state: Path, name: str) -> str:
    """Create a token for a client and return it. Only its digest is stored.

    Raises:
        TokenError: the name is taken or invalid, or the file cannot be used; show the text to the user.
    """
    check_client_name(name)
    token = new_token()

    def add_entry(stored: dict[str, _StoredToken]) -> None:
        if name == DEFAULT or name in stored:
            command = format_command(f"serve token revoke {name}")
            raise TokenError(f"The client {name} has a token already. Replace it: {command}")
        if len(stored) >= MAX_TOKENS:
            command = format_command("serve token revoke NAME")
            raise TokenError(f"There are {MAX_TOKENS} tokens. Revoke one: {command}")
        stored[name] = _StoredToken(digest_of(token), datetime.now(UTC).date().isoformat())

    _change_file(state, add_entry)
    return token


def revoke_token(settings: HttpSettings, state: Path, name: str) -> None:
    """Make a client's token invalid. The client `default` gets a new one.

    Raises:
        TokenError: the client has no token, or the file cannot be used; show the text to the user.
    """
    if name == DEFAULT:
        _renew_default(settings, state)
        return

    def remove_entry(stored: dict[str, _StoredToken]) -> None:
        if name not in stored:
            command = format_command("serve token list")
            raise TokenError(f"The client {name} has no token. List all: {command}")
        del stored[name]

    _change_file(state, remove_entry)


def list_tokens(settings: HttpSettings, state: Path) -> list[tuple[str, str]]:
    """Return each client that has a token, and since when or where from.

    Raises:
        TokenError: the file cannot be used; show the text to the user.
    """
    origin = "auth_token in config.toml" if settings.auth_token else str(StateLayout(state).bearer_token)
    added = [(name, f"since {stored.since}") for name, stored in _read_file(state).items()]
    return [(DEFAULT, origin), *added]


def digest_of(token: str) -> str:
    """Return the form in which a token is compared and stored."""
    return hashlib.sha256(token.encode(errors="replace")).hexdigest()


def _renew_default(settings: HttpSettings, state: Path) -> None:
    if settings.auth_token:
        text = "The token of default is auth_token in config.toml: change it there and restart mcpb serve"
        raise TokenError(text)
    try:
        prepare_directory(state)
        with lock_directory(state):
            private_files.replace(StateLayout(state).bearer_token, new_token().encode() + b"\n")
    except PrivateFileError as error:
        raise TokenError(str(error)) from error
    except OSError as error:
        raise TokenError(f"{StateLayout(state).bearer_token} cannot be written: {error.strerror}") from error


# ── The file ────────────────────────────────────────────────────────────────────────────────────────────────


def _change_file(state: Path, change: Callable[[dict[str, _StoredToken]], None]) -> None:
    try:
        prepare_directory(state)
        with lock_directory(state):
            stored = _read_file(state)
            change(stored)
            private_files.replace(
                StateLayout(state).access_tokens, msgspec.json.format(msgspec.json.encode(stored)) + b"\n"
            )
    except PrivateFileError as error:
        raise TokenError(str(error)) from error
    except OSError as error:
        raise TokenError(f"{StateLayout(state).access_tokens} cannot be written: {error.strerror}") from error


def _read_file(state: Path) -> dict[str, _StoredToken]:
    path = StateLayout(state).access_tokens
    try:
        file = private_files.read(path)
        return msgspec.json.decode(file.content, type=dict[str, _StoredToken]) if file else {}
    except PrivateFileError as error:
        raise TokenError(str(error)) from error
    except msgspec.DecodeError as error:
        text = (
            f"{path} cannot be read: {describe_problem(error)}. "
            f"Remove it and add the tokens again: rm {shlex.quote(str(path))}"
        )
        raise TokenError(text) from error


def _file_signature(path: Path) -> _Signature:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
