"""Sign-in to a WebSocket proxy by device authorization, at the authorization server that the proxy names.

Rules: RFC 9728 (protected resource), RFC 8414 (authorization server), RFC 8628 (device authorization).
"""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple

import trio

from bridge.config.remote_settings import is_bearer_token
from bridge.links.browsers.proxy_address import ProxyAddress
from bridge.links.browsers.proxy_credentials import login_file
from bridge.links.oauth.login_file import RemoteLogin
from bridge.links.oauth.login_tokens import find_expiry, store_login
from bridge.links.oauth.oauth_http import OAuthHttp, open_http, origin_of
from bridge.links.remote_problem import RemoteProblem
from http_serving.server_address import AddressError, parse_server_address
from native_host.protocol.untrusted_text import single_line
from websocket_proxy.protocol import Role

_RESOURCE_PATH = "/.well-known/oauth-protected-resource"
_SERVER_PATHS = ("/.well-known/oauth-authorization-server", "/.well-known/openid-configuration")
"""Of RFC 8414, and what providers of OpenID Connect have in its place."""
_DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
_CLIENT_ID = "mcpb-bridge"
_OFFLINE = "offline_access"
"""Scope with which many providers issue refresh tokens."""
_FIRST_POLL_S = 2.0
"""Seconds before the first poll: a user who has the other terminal open approves at once."""
_INTERVAL_S = 5.0
_MAX_INTERVAL_S = 60.0
_LIFETIME_S = 600.0
_USER_CODE = re.compile(r"[A-Za-z0-9-]{1,40}")
_MAX_DETAIL_CHARS = 200


class SignInError(Exception):
    """The user is not signed in; the text says why, and what to do."""


class SignInCode(NamedTuple):
    """What the user approves."""

    user_code: str
    address: str
    """Where the user enters it."""
    issuer: str
    is_of_proxy: bool
    """True if the proxy itself issues tokens: the code is approved on its machine."""


class _Service(NamedTuple):
    """Authorization server of a proxy."""

    issuer: str
    device_endpoint: str
    token_endpoint: str
    revocation_endpoint: str
    client_id: str
    resource: str
    scope: str


async def sign_in(address: ProxyAddress, home: Path, on_code: Callable[[SignInCode], None]) -> str:
    """Let the user sign in, and store the tokens.

    Args:
        address: of the proxy.
        home: of mcpb.
        on_code: is called with the code that the user approves.

    Returns:
        Why the tokens of an earlier sign-in were not revoked; empty as for `store_login`.

    Raises:
        SignInError: the user or the server has not allowed it.
        RemoteProblem: a server does not respond.
        PrivateFileError: the tokens cannot be stored.
        TimeoutError: another process holds their file.
    """
    file = login_file(home, address)
    file.prepare()  # a problem with the directory would be found after the user has signed in
    async with open_http(address.url) as http:
        service = await _find_service(http, address)
        tokens, requested_at = await _Flow(http, service, address).run(on_code)
    login = RemoteLogin(
        url=address.url,
        issuer=service.issuer,
        token_endpoint=service.token_endpoint,
        revocation_endpoint=service.revocation_endpoint,
        client_id=service.client_id,
        resource=service.resource,
        access_token=_read_access_token(tokens),
        refresh_token=_read_text(tokens, "refresh_token"),
        issued_at=requested_at,
        expires_at=find_expiry(tokens.get("expires_in"), requested_at),
    )
    return await store_login(file, login)


async def _find_service(http: OAuthHttp, address: ProxyAddress) -> _Service:
    status, resource = await http.request_json(f"{address.url}{_RESOURCE_PATH}")
    if status == HTTPStatus.MISDIRECTED_REQUEST:
        text = "does not know this name: add it to allowed_hosts below [proxy] in the proxy's config.toml"
        raise SignInError(f"the proxy at {address.url} {text}")
    if status != 200:
        resource = {}
    named = _read_text(resource, "resource") or address.url
    if not _has_authority_of(named, address.url):
        raise SignInError(f"{address.url} says that its address is {_show(named)}: use that one")
    servers = resource.get("authorization_servers")
    issuers = [each for each in servers if isinstance(each, str)] if isinstance(servers, list) else []
    for issuer in issuers or [address.url]:
        if metadata := await _find_metadata(http, issuer):
            return _read_service(metadata, issuer, resource, named)
    text = "names no authorization server with device authorization"
    raise SignInError(f"{address.url} {text}: check the address, or ask its operator")


def _has_authority_of(named: str, url: str) -> bool:
    try:
        return parse_server_address(named).authority == parse_server_address(url).authority
    except AddressError:
        return False


async def _find_metadata(http: OAuthHttp, issuer: str) -> Mapping[str, Any]:
    """Return the metadata of an authorization server; empty if it has no device authorization."""
    for url in _metadata_urls(issuer):
        status, metadata = await http.request_json(url)
        has_endpoints = all(
            _read_text(metadata, name) for name in ("device_authorization_endpoint", "token_endpoint")
        )
        if status == 200 and metadata.get("issuer") == issuer and has_endpoints:
            return metadata
    return {}


def _metadata_urls(issuer: str) -> Iterator[str]:
    try:
        path = parse_server_address(issuer).path.rstrip("/")
    except AddressError:
        return
    origin = origin_of(issuer)
    for known in _SERVER_PATHS:
        yield f"{origin}{known}{path}"
        if path:  # OpenID Connect appends its own path
            yield f"{origin}{path}{known}"


def _read_service(
    metadata: Mapping[str, Any], issuer: str, resource: Mapping[str, Any], named: str
) -> _Service:
    scopes = metadata.get("scopes_supported")
    is_offline = isinstance(scopes, list) and _OFFLINE in scopes
    return _Service(
        issuer=issuer,
        device_endpoint=_read_text(metadata, "device_authorization_endpoint"),
        token_endpoint=_read_text(metadata, "token_endpoint"),
        revocation_endpoint=_read_text(metadata, "revocation_endpoint"),
        client_id=_read_text(resource, "mcpb_client_id") or _CLIENT_ID,
        resource=named,
        scope=f"{Role.CLIENT} {_OFFLINE}" if is_offline else Role.CLIENT,
    )


class _Flow:
    """One device authorization."""

    def __init__(self, http: OAuthHttp, service: _Service, address: ProxyAddress) -> None:
        self._http = http
        self._service = service
        self._address = address

    async def run(self, on_code: Callable[[SignInCode], None]) -> tuple[Mapping[str, Any], float]:
        """Return the response with the tokens, and the time of its request."""
        service = self._service
        form = {
            "client_id": service.client_id,
            "client_name": f"mcpb on {single_line(socket.gethostname(), 60)}",
            "scope": service.scope,
            "resource": service.resource,
        }
        status, started = await self._http.request_json(service.device_endpoint, form)
        code = _read_text(started, "user_code")
        if status != 200 or not _USER_CODE.fullmatch(code):
            raise self._rejected(status, started)
        page = _read_text(started, "verification_uri_complete") or _read_text(started, "verification_uri")
        is_of_proxy = service.issuer.rstrip("/") == self._address.url
        on_code(SignInCode(code, single_line(page, 500), _show(service.issuer), is_of_proxy))
        return await self._poll(started)

    async def _poll(self, started: Mapping[str, Any]) -> tuple[Mapping[str, Any], float]:
        interval_s = _read_number(started, "interval", _INTERVAL_S, _MAX_INTERVAL_S)
        form = {
            "grant_type": _DEVICE_GRANT,
            "device_code": _read_text(started, "device_code"),
            "client_id": self._service.client_id,
        }
        with trio.move_on_after(_read_number(started, "expires_in", _LIFETIME_S, 24 * 3600)):
            await trio.sleep(min(_FIRST_POLL_S, interval_s))
            while True:
                requested_at = time.time()
                try:
                    status, body = await self._http.request_json(self._service.token_endpoint, form)
                except RemoteProblem as problem:
                    if not problem.may_recover:
                        raise
                    status, body = 503, {}
                    interval_s = min(interval_s * 2, _MAX_INTERVAL_S)
                if status == 200:
                    return body, requested_at
                match body.get("error"):
                    case "authorization_pending":
                        pass
                    case "slow_down":
                        interval_s += _INTERVAL_S
                    case _ if status < 500:
                        raise self._rejected(status, body)
                await trio.sleep(interval_s)
        raise SignInError("the code was not approved in time: start the sign-in again")

    def _rejected(self, status: int, body: Mapping[str, Any]) -> SignInError:
        where = origin_of(self._service.token_endpoint)
        match body.get("error"):
            case "access_denied":
                return SignInError("the sign-in was denied")
            case "expired_token":
                return SignInError("the code has expired: start the sign-in again")
            case str(error):
                detail = _show(_read_text(body, "error_description") or error)
                return SignInError(f"{where} rejects the sign-in: {detail}")
        return SignInError(f"{where} rejects the sign-in with HTTP status {status}")


def _read_access_token(tokens: Mapping[str, Any]) -> str:
    token = _read_text(tokens, "access_token")
    if not is_bearer_token(token):
        raise SignInError("the authorization server has sent no usable token: ask its operator")
    return token


def _read_text(values: Mapping[str, Any], name: str) -> str:
    value = values.get(name)
    return value if isinstance(value, str) else ""


def _read_number(values: Mapping[str, Any], name: str, default: float, most: float) -> float:
    value = values.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool) or value <= 0:
        return default
    return min(value, most)


def _show(text: str) -> str:
    return single_line(text, _MAX_DETAIL_CHARS)
