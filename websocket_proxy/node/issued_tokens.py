"""Access tokens of `mcpb proxy token`: signed with a key file, or with the key of the home issuer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from websocket_proxy.node.addresses import to_absolute
from websocket_proxy.node.settings import ProxySettings
from websocket_proxy.protocol import Role
from websocket_proxy.signing_keys import SigningKeyError, create_token, read_signing_key
from websocket_proxy.token_store import read_home_key


class TokenRequest(NamedTuple):
    """Options of the command; empty: not given."""

    role: Role
    key_file: str
    user: str
    ttl_s: float
    issuer: str
    audience: str


def issue_token(
    request: TokenRequest, settings: ProxySettings, state: Path, find_url: Callable[[], str]
) -> str:
    """Return a token. `find_url` returns the URL of the running proxy.

    Raises:
        SigningKeyError: an option is missing, or the key cannot be used.
        PrivateFileError: the key of the home issuer cannot be used.
    """
    if request.key_file:
        return _issue_with_file(request, settings)
    home = read_home_key(state)
    if home is None:
        raise SigningKeyError("The home issuer has no key yet: start `mcpb proxy serve` once, or pass --key.")
    issuer = request.issuer or settings.public_url.rstrip("/") or find_url()
    return create_token(
        home.signing,
        user=request.user or home.user_id,
        role=request.role,
        issuer=issuer,
        audience=request.audience or issuer,
        ttl_s=request.ttl_s,
    )


def _issue_with_file(request: TokenRequest, settings: ProxySettings) -> str:
    known = settings.issuers[0] if len(settings.issuers) == 1 else None
    issuer = request.issuer or (known.issuer if known else "")
    audience = request.audience or (known.audience if known else "")
    if not (issuer and audience):
        raise SigningKeyError(
            "Pass --issuer and --audience: [[proxy.issuers]] does not name exactly one issuer."
        )
    if not request.user:
        raise SigningKeyError("Pass --user ID: a key file has no user.")
    return create_token(
        read_signing_key(to_absolute(request.key_file)),
        user=request.user,
        role=request.role,
        issuer=issuer,
        audience=audience,
        ttl_s=request.ttl_s,
    )
