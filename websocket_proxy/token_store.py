"""Files of the home issuer: its key (`issuer.json`) and its token families (`families.json`).

One process at a time holds the directory. A change is on the disk, durably, before its response is sent.
"""

from __future__ import annotations

import base64
import os
import secrets
import shlex
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from native_host.system.home_layout import StateLayout
from native_host.system.private_files import (
    PrivateFileError,
    lock_directory,
    open_directory,
    prepare_directory,
    read_secret,
    replace,
)
from websocket_proxy.issuer import HomeKey, TokenFamily
from websocket_proxy.key_set import UNDECODABLE
from websocket_proxy.signing_keys import SigningKeyError, generate_key, parse_private_key

_KEY_FILE = "issuer.json"
_FAMILIES_FILE = "families.json"
_MAX_BYTES = 16 * 1024 * 1024
_SECRET_BYTES = 32


class _StoredKey(msgspec.Struct, frozen=True):
    user_id: str
    private_key: str
    """In PEM format."""
    refresh_secret: str
    """In base64."""

    def __repr__(self) -> str:
        return f"_StoredKey({self.user_id})"


class _StoredFamilies(msgspec.Struct, frozen=True):
    user_id: str
    """Families of an earlier key are ignored."""
    families: list[TokenFamily]


class TokenStore:
    """Files of one home issuer. Use `open_store`."""

    def __init__(self, directory: Path) -> None:
        """Read both files; create the key if it is missing. The caller holds the directory.

        Raises:
            PrivateFileError: other users have access, or a file is damaged; show the text to the user.
        """
        self._path = directory / _FAMILIES_FILE
        self.key = _read_key(directory) or _create_key(directory)
        self.families = self._read()

    def save(self, families: list[TokenFamily]) -> None:
        """Store all families durably. It blocks: call it in a thread.

        Raises:
            PrivateFileError: they cannot be written; the earlier ones stay.
        """
        _write(self._path, msgspec.json.encode(_StoredFamilies(self.key.user_id, families)))

    def _read(self) -> list[TokenFamily]:
        if not os.path.lexists(self._path):
            return []
        try:
            stored = msgspec.json.decode(read_secret(self._path, _MAX_BYTES), type=_StoredFamilies)
        except UNDECODABLE:
            command = f"rm {shlex.quote(str(self._path))}"
            reason = "is damaged: remove it; then all clients and browsers have to sign in again"
            raise PrivateFileError(self._path, reason, command) from None
        return stored.families if stored.user_id == self.key.user_id else []


@contextmanager
def open_store(state: Path) -> Iterator[TokenStore]:
    """Hold the files of the home issuer for the time of the block.

    Args:
        state: directory of mcpb's state.

    Raises:
        PrivateFileError: another process holds them, other users have access, or one is damaged; show the
            text to the user.
    """
    directory = _prepare(state)
    try:
        with lock_directory(directory, timeout_s=0):
            yield TokenStore(directory)
    except TimeoutError:
        reason = "is used by another `mcpb proxy serve`: stop that, or set another MCPB_HOME"
        raise PrivateFileError(directory, reason) from None


def read_home_key(state: Path) -> HomeKey | None:
    """Return the key of the home issuer, also while a node runs; None if no node has created it.

    Raises:
        PrivateFileError: other users have access to it, or it is damaged; show the text to the user.
    """
    return _read_key(StateLayout(state).proxy)


def _prepare(state: Path) -> Path:
    directory = StateLayout(state).proxy
    prepare_directory(state)
    prepare_directory(directory)
    return directory


def _read_key(directory: Path) -> HomeKey | None:
    path = directory / _KEY_FILE
    if not os.path.lexists(path):
        return None
    try:
        stored = msgspec.json.decode(read_secret(path, _MAX_BYTES), type=_StoredKey)
        signing = parse_private_key(stored.private_key.encode())
        refresh_secret = base64.b64decode(stored.refresh_secret, validate=True)
    except (*UNDECODABLE, SigningKeyError, ValueError):
        signing, refresh_secret = None, b""
    if signing is None or len(refresh_secret) < _SECRET_BYTES or not stored.user_id:
        reason = "is damaged: remove it; then all clients and browsers have to sign in again"
        raise PrivateFileError(path, reason, f"rm {shlex.quote(str(path))}")
    return HomeKey(stored.user_id, signing, refresh_secret)


def _create_key(directory: Path) -> HomeKey:
    key = HomeKey(str(uuid.uuid4()), generate_key(), secrets.token_bytes(_SECRET_BYTES))
    secret = base64.b64encode(key.refresh_secret).decode()
    stored = _StoredKey(key.user_id, key.signing.to_pem(), secret)
    _write(directory / _KEY_FILE, msgspec.json.encode(stored))
    return key


def _write(path: Path, content: bytes) -> None:
    """Replace a file; it survives a power failure. Raises PrivateFileError."""
    replace(path, content)
    try:
        descriptor = open_directory(path.parent)
        try:
            os.fsync(descriptor)  # the new name of the file
        finally:
            os.close(descriptor)
    except OSError as error:
        raise PrivateFileError(path, f"cannot be written: {error.strerror}") from error
