"""WebSocket proxies that a bridge uses, each with the source of its access tokens.

They are those that the user has signed in to, and one that the environment names.
"""

from __future__ import annotations

import math
from base64 import urlsafe_b64decode
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, Protocol
from urllib.parse import quote, unquote

import msgspec

from bridge.links.browsers.proxy_address import ProxyAddress, ProxyAddressError, read_address
from bridge.links.oauth.login_file import LoginFile
from bridge.links.oauth.login_tokens import LoginTokens
from native_host.system.home_layout import HomeLayout

URL_VARIABLE = "MCPB_PROXY_URL"
"""Variable with the address of the only proxy to use; the option `--proxy` sets it."""
TOKEN_VARIABLE = "MCPB_PROXY_TOKEN"  # noqa: S105  (the name of a variable)
_REPEATS_S = (1.0, 3.0)
"""Seconds before a refresh is repeated whose response is lost: home issuers allow that for 30 s."""


class TokenSource(Protocol):
    """Source of access tokens for one proxy."""

    due_at: float
    """Time in seconds since the epoch at which another token replaces the one that was read last."""

    async def read(self, *, is_rejected: bool = False) -> str:
        """Return a token; empty: no user is signed in. `is_rejected`: the last one was rejected.

        Raises:
            RemoteProblem: there is no valid token now.
        """
        ...


class FixedToken:
    """A token that is never replaced."""

    def __init__(self, token: str) -> None:
        self.due_at = math.inf
        self._token = token

    async def read(self, *, is_rejected: bool = False) -> str:  # noqa: ARG002  (there is no other one)
        """See `TokenSource`."""
        return self._token


class UsedProxy(NamedTuple):
    """A proxy, and how a bridge signs in to it."""

    address: ProxyAddress
    tokens: TokenSource
    file: Path | None = None
    """File of the tokens."""

    def file_identity(self) -> tuple[int, int] | None:
        """Return a value that changes when the user signs in again, or tokens are refreshed."""
        try:
            found = self.file.stat() if self.file else None
        except OSError:
            return None
        return (found.st_ino, found.st_mtime_ns) if found else None


class _Claims(msgspec.Struct):
    connection_url: str = ""


def login_file(home: Path, address: ProxyAddress) -> LoginFile:
    """Return the file with the sign-in to a proxy, whether it exists or not."""
    name = quote(address.url, safe="")
    logins = HomeLayout(home).state.proxy_logins
    return LoginFile(home, name, logins=logins, command=f"proxy login {address.url}")


def list_signed_in(home: Path) -> list[ProxyAddress]:
    """Return the proxies with a stored sign-in, sorted by address."""
    found = []
    for path in sorted(HomeLayout(home).state.proxy_logins.glob("*/login.json")):
        try:
            address = read_address(unquote(path.parent.name))
        except ProxyAddressError:
            continue  # another program has put it there
        if login_file(home, address).path == path:
            found.append(address)
    return found


def find_token_address(token: str) -> ProxyAddress:
    """Return the address that a token is for, unverified: the proxy verifies it.

    Raises:
        ProxyAddressError: the token states none.
    """
    try:
        payload = token.split(".")[1]
        claims = msgspec.json.decode(urlsafe_b64decode(payload + "=" * (-len(payload) % 4)), type=_Claims)
    except (ValueError, IndexError, RecursionError, msgspec.DecodeError):
        raise ProxyAddressError(f"{TOKEN_VARIABLE} is not a JWT: set it to an access token") from None
    if not claims.connection_url:
        raise ProxyAddressError(f"{TOKEN_VARIABLE} has no connection_url: add --proxy URL")
    return read_address(claims.connection_url)


class ProxyCredentials:
    """All proxies of one run. Token sources stay the same as long as their proxy is used."""

    def __init__(self, home: Path, environ: Mapping[str, str]) -> None:
        """Find the proxies.

        Raises:
            ProxyAddressError: the address in the environment, or that of its token, cannot be used.
        """
        self._home = home
        url = environ.get(URL_VARIABLE, "")
        self._only = read_address(url) if url else None
        self._given: UsedProxy | None = None
        self._known: dict[str, UsedProxy] = {}
        if token := environ.get(TOKEN_VARIABLE, ""):
            self._given = UsedProxy(self._only or find_token_address(token), FixedToken(token))

    def find_proxies(self) -> dict[str, UsedProxy]:
        """Return the proxies that are used now, by address."""
        if self._only:
            addresses = [self._only]
        else:
            addresses = [*([self._given.address] if self._given else []), *list_signed_in(self._home)]
        known = self._known
        self._known = {each.url: known.get(each.url) or self._use(each) for each in addresses}
        return self._known

    def _use(self, address: ProxyAddress) -> UsedProxy:
        if self._given and self._given.address == address:
            return self._given
        file = login_file(self._home, address)
        return UsedProxy(address, LoginTokens(address.url, file, _REPEATS_S), file.path)
