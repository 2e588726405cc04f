"""Bearer token of the client `default`: the configured one, or a generated one in a private file."""

from __future__ import annotations

import os
import re
import secrets
import shlex
from pathlib import Path

from bridge.config.settings import HttpSettings
from native_host.system import private_files
from native_host.system.exhaustion import find_exhaustion
from native_host.system.home_layout import StateLayout
from native_host.system.private_files import PrivateFileError, prepare_directory

_BYTES = 32
_STORED = re.compile(rb"[A-Za-z0-9_-]{43}\n?")
"""Format of the token file: a token of `secrets.token_urlsafe`, and a newline that an editor may add."""


class TokenError(Exception):
    """There is no token that could be relied on; the text says why and what to do."""


def token_for(settings: HttpSettings, state: Path) -> str:
    """Return `auth_token`, else the token in the directory `state`; create it if it is missing.

    Raises:
        TokenError: others may know the one in the file, or it cannot be read or made.
    """
    return settings.auth_token or _stored_token(state)


def _stored_token(state: Path) -> str:
    path = StateLayout(state).bearer_token
    try:
        prepare_directory(state)
        if not os.path.lexists(path):
            _create_token(path)
        content = private_files.read_secret(path, _BYTES * 2)
    except PrivateFileError as error:
        # Of the directory the error has the command, and no command frees the disk.
        is_of_file = error.path == path and find_exhaustion(error) is None
        raise TokenError(f"{error}. {_suggest_remedy(path)}" if is_of_file else str(error)) from error
    except OSError as error:
        raise TokenError(f"{path} cannot be used ({error.strerror}). {_suggest_remedy(path)}") from error
    if not _STORED.fullmatch(content):
        raise TokenError(f"{path} has no token of mcpb in it. {_suggest_remedy(path)}")
    return content.decode().strip()


def _create_token(path: Path) -> None:
    with private_files.lock_directory(path.parent):
        if not os.path.lexists(path):  # another process may have created it meanwhile
            private_files.replace(path, new_token().encode() + b"\n")


def new_token() -> str:
    """Return a new random token."""
    return secrets.token_urlsafe(_BYTES)


def _suggest_remedy(path: Path) -> str:
    return f"Remove it, and the next start makes another: rm -r {shlex.quote(str(path))}"
