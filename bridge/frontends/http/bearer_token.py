"""The token that lets in who is not known: the configured one, or one of our own in a private file."""

from __future__ import annotations

import os
import re
import secrets
import shlex
import stat
from pathlib import Path

from bridge.config.settings import HttpSettings
from native_host.ipc import endpoint

FILE = "http-token"

_BYTES = 32
_KEPT = re.compile(rb"[A-Za-z0-9_-]{43}\n?")
"""What `secrets.token_urlsafe` makes of so many, and perhaps a person's newline."""


class TokenError(Exception):
    """There is no token that could be relied on; the text says why and what to do."""


def token_for(settings: HttpSettings, state: Path) -> str:
    """The token that is right: `auth_token`, else the one in the directory `state`, made if there is none.

    Raises:
        TokenError: others may know the one in the file, or it cannot be read or made.
    """
    return settings.auth_token or _kept(state)


def _kept(state: Path) -> str:
    path = state / FILE
    try:
        endpoint.prepare(state)
        if not os.path.lexists(path):
            _make(path)
        return _read(path)
    except endpoint.EndpointError as error:
        raise TokenError(str(error)) from error
    except OSError as error:
        raise TokenError(f"{path} cannot be used ({error.strerror}). {_mended(path)}") from error


def _make(path: Path) -> None:
    """Write the file whole or not at all; another process may do the same just now."""
    draft = path.with_name(f"{FILE}.{secrets.token_hex(4)}.new")
    with open(draft, "xb", opener=_private) as file:
        file.write(f"{secrets.token_urlsafe(_BYTES)}\n".encode())
    try:
        os.link(draft, path)
    except FileExistsError:
        pass  # the other's is as good
    finally:
        draft.unlink()


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)


def _read(path: Path) -> str:
    with open(path, "rb", opener=_as_it_is) as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
            raise TokenError(f"{path} is not a file that only you can read. {_mended(path)}")
        content = file.read(_BYTES * 2)
    if not _KEPT.fullmatch(content):
        raise TokenError(f"{path} has no token of mcpb in it. {_mended(path)}")
    return content.decode().strip()


def _as_it_is(path: str, flags: int) -> int:
    """No link is followed, and a pipe is not waited for."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def _mended(path: Path) -> str:
    return f"Remove it, and the next start makes another: rm -r {shlex.quote(str(path))}"
