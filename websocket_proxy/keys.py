"""Key sources of issuers: files, and JWKS URLs whose keys rotate.

A token with an unknown key triggers a fetch of the key set at most every UNKNOWN_KEY_S, and waits for it; a
token with a known key never waits. A set that cannot be fetched stays in use for STALE_S.
"""

from __future__ import annotations

import logging
import math
import os
import ssl
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Protocol

import trio

from http_serving.document_fetch import FetchError, FetchLimits, fetch_document, show_address
from native_host.system.private_files import PrivateFileError, open_regular, read_secret
from websocket_proxy.key_set import (
    KeyLookupError,
    KeySet,
    KeySetError,
    LookupFault,
    VerificationKey,
    parse_jwks,
)

REFRESH_S = 600.0
"""Seconds between two fetches of a key set."""
UNKNOWN_KEY_S = 30.0
"""Seconds between two fetches for the sake of unknown keys."""
STALE_S = 24 * 3600.0
"""Seconds since the last successful fetch after which its keys are no longer used."""
MAX_BYTES = 1024 * 1024
FETCH_S = 10.0
"""Seconds that a fetch may take."""
_LIMITS = FetchLimits(MAX_BYTES, FETCH_S)

_log = logging.getLogger(__name__)


class KeyState(NamedTuple):
    """State of a key source, for status reports."""

    source: str
    """Path, or URL without its query."""
    key_count: int
    read_at: float | None
    """Time of the last success, in seconds since the epoch; None: there was none."""
    problem: str = ""
    """Why the last attempt failed; empty: it succeeded."""
    is_stale: bool = False
    """True if the keys are too old to be used."""


class KeySource(Protocol):
    """Keys of one issuer."""

    async def find(self, key_id: str | None) -> VerificationKey:
        """Return the key of a token. Raises KeyLookupError."""
        ...

    async def run(self) -> None:
        """Keep the keys up to date until it is cancelled."""
        ...

    def state(self) -> KeyState:
        """Return the state of the source."""
        ...


class FixedKeys:
    """Keys that never change: those of the home issuer."""

    def __init__(self, keys: KeySet, source: str) -> None:
        self._keys = keys
        self._source = source
        self._read_at = time.time()

    async def find(self, key_id: str | None) -> VerificationKey:
        """Return the key of a token. Raises KeyLookupError."""
        return self._keys.find(key_id)

    async def run(self) -> None:
        """Do nothing."""

    def state(self) -> KeyState:
        """Return the state of the source."""
        return KeyState(self._source, len(self._keys), self._read_at)


# ── Files ───────────────────────────────────────────────────────────────────────────────────────────────────

_Signature = tuple[int, int, int] | None
"""Inode, time of the last change (of mode or content) and size of a file; None: it is missing."""


class FileKeys:
    """Keys of a file, which is read again when it changes. A file that cannot be used has none."""

    def __init__(self, path: Path, parse: Callable[[bytes], KeySet], *, is_secret: bool = False) -> None:
        """Read a file.

        Args:
            path: of the file.
            parse: returns its keys, or raises KeySetError.
            is_secret: other users must not be able to read it.
        """
        self._path = path
        self._parse = parse
        self._is_secret = is_secret
        self._signature: _Signature = None
        self._keys = KeySet()
        self._read_at: float | None = None
        self._problem = ""
        self._load()

    async def find(self, key_id: str | None) -> VerificationKey:
        """Return the key of a token. Raises KeyLookupError."""
        if _sign(self._path) != self._signature:
            self._load()
        return self._keys.find(key_id)

    async def run(self) -> None:
        """Do nothing: `find` looks for changes."""

    def state(self) -> KeyState:
        """Return the state of the source."""
        return KeyState(str(self._path), len(self._keys), self._read_at, self._problem)

    def _load(self) -> None:
        self._signature = _sign(self._path)
        self._keys = KeySet()
        try:
            self._keys = self._parse(self._read())
        except KeySetError as error:
            self._problem = f"{self._path} {error}"
        except PrivateFileError as error:
            self._problem = str(error)
        else:
            self._problem = ""
            self._read_at = time.time()
        if self._problem:
            _log.warning("The key file of an issuer cannot be used: %s", self._problem)

    def _read(self) -> bytes:
        path = resolve_links(self._path)
        content = read_secret(path, MAX_BYTES + 1) if self._is_secret else _read_public(path)
        if len(content) > MAX_BYTES:
            raise PrivateFileError(self._path, f"is longer than {MAX_BYTES} bytes")
        return content


def resolve_links(path: Path) -> Path:
    """Return the file that a path leads to: mounted secrets are links. Raises PrivateFileError."""
    try:
        return path.resolve()
    except (OSError, RuntimeError, ValueError) as error:  # a circle of links before Python 3.13, a NUL
        raise PrivateFileError(path, f"cannot be read: {error}") from error


def _read_public(path: Path) -> bytes:
    """Read a file that no other user but root can have written or replaced. Raises PrivateFileError."""
    try:
        with open(path, "rb", opener=open_regular) as file:
            if _is_trusted(os.fstat(file.fileno())) and _is_trusted(path.parent.stat()):
                return file.read(MAX_BYTES + 1)
    except OSError as error:
        raise PrivateFileError(path, f"cannot be read: {error.strerror}") from error
    raise PrivateFileError(path, "can be written by other users, who could sign tokens: check its content")


def _is_trusted(found: os.stat_result) -> bool:
    # In a directory such as /tmp, whose sticky bit is set, users cannot replace each other's files.
    is_open = bool(found.st_mode & 0o022) and not (
        stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX
    )
    return found.st_uid in {0, os.getuid()} and not is_open


def _sign(path: Path) -> _Signature:
    try:
        found = path.stat()
    except (OSError, ValueError):  # ValueError: the path has a NUL
        return None
    return found.st_ino, found.st_ctime_ns, found.st_size


# ── URLs ────────────────────────────────────────────────────────────────────────────────────────────────────


class UrlKeys:
    """Keys of a JWKS URL. `run` fetches them."""

    def __init__(self, url: str, trusted: ssl.SSLContext | None = None) -> None:
        """Prepare the source.

        Args:
            url: https, or http on loopback.
            trusted: TLS context of the client; None: the certificates that the system trusts.

        Raises:
            KeySetError: the address is not allowed.
        """
        try:
            self._shown = show_address(url)
        except FetchError as error:
            raise KeySetError(f"jwks_url: {error}") from None
        self._url = url
        self._trusted = trusted
        self._keys = KeySet()
        self._requested_at = -math.inf
        self._succeeded_at = -math.inf
        self._read_at: float | None = None
        self._problem = ""
        self._is_wanted = trio.Event()
        self._fetch_ended: trio.Event | None = trio.Event()
        """None: no fetch is under way or requested."""

    async def find(self, key_id: str | None) -> VerificationKey:
        """Return the key of a token; wait for a fetch if it is unknown and one is due or under way.

        Raises:
            KeyLookupError: there is still no single key.
        """
        try:
            return self._current_keys().find(key_id)
        except KeyLookupError as error:
            if error.fault is LookupFault.REPEATED or not self._request_fetch():
                raise
        await self._wait_fetched()
        return self._current_keys().find(key_id)

    async def run(self) -> None:
        """Fetch the keys now, every REFRESH_S, and when a token needs it. Cancel it to stop."""
        while True:
            ended = self._fetch_ended = trio.Event() if self._fetch_ended is None else self._fetch_ended
            await self._fetch()
            self._fetch_ended = None
            self._is_wanted = trio.Event()
            ended.set()
            with trio.move_on_after(REFRESH_S):
                await self._is_wanted.wait()

    def state(self) -> KeyState:
        """Return the state of the source."""
        is_stale = self._read_at is not None and self._is_stale()
        return KeyState(self._shown, len(self._keys), self._read_at, self._problem, is_stale)

    def _is_stale(self) -> bool:
        return trio.current_time() - self._succeeded_at > STALE_S

    def _current_keys(self) -> KeySet:
        return KeySet() if self._is_stale() else self._keys

    def _request_fetch(self) -> bool:
        """Return whether a fetch is under way, or was requested now."""
        now = trio.current_time()
        if self._fetch_ended is None and now - self._requested_at >= UNKNOWN_KEY_S:
            self._requested_at = now
            self._fetch_ended = trio.Event()
            self._is_wanted.set()
        return self._fetch_ended is not None

    async def _wait_fetched(self) -> None:
        ended = self._fetch_ended
        with trio.move_on_after(FETCH_S + 1):  # `run` may have been stopped
            if ended is not None:
                await ended.wait()

    async def _fetch(self) -> None:
        try:
            keys = parse_jwks(await fetch_document(self._url, _LIMITS, self._trusted))
        except FetchError as error:
            self._problem = str(error)
        except KeySetError as error:
            self._problem = f"the response {error}"
        else:
            self._keys = keys
            self._succeeded_at = trio.current_time()
            self._read_at = time.time()
            self._problem = ""
        if self._problem:
            _log.warning("The key set at %s cannot be fetched: %s", self._shown, self._problem)
