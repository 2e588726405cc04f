"""HTTP to authorization servers: allowed addresses, limits, and the token and revocation requests.

A remote server decides where these requests go, so an address on this machine or in a private network is
allowed only if the server itself is there. Rules: RFC 6749, RFC 7009; RFC 9728, section 7.7 (SSRF).
"""

from __future__ import annotations

import base64
import ipaddress
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import httpx2
import msgspec
import trio

from bridge.links.oauth.login_file import RemoteLogin
from bridge.links.remote_http import (
    Exchange,
    current_exchange,
    describe_error,
    find_proxy,
    silence_foreign_loggers,
)
from bridge.links.remote_problem import Cause, RemoteProblem

REQUEST_S = 8.0
"""Seconds for a request with its response: less than a request to the MCP server, which may wait for it."""
MAX_BYTES = 256 * 1024
_MAX_URL_CHARS = 8192


class OAuthHttp:
    """HTTP client for the authorization server of one remote server. Use `open_http`."""

    def __init__(self, server_url: str, trusted: ssl.SSLContext) -> None:
        self._server = httpx2.URL(server_url)
        self._trusted = trusted
        self._clients: dict[tuple[str, str], httpx2.AsyncClient] = {}

    def check(self, url: str | httpx2.URL) -> None:
        """Check an address that a server has named.

        Raises:
            RemoteProblem: no request may go there.
        """
        try:
            address = httpx2.URL(url)
        except (httpx2.InvalidURL, ValueError):
            raise RemoteProblem(Cause.REDIRECT, "it names an address that is not valid") from None
        if len(str(address)) > _MAX_URL_CHARS or not _is_allowed(address, self._server):
            shown = f"{address.scheme}://{address.host}"
            reason = "is not https, or leads to this machine or its network"
            raise RemoteProblem(Cause.REDIRECT, f"it names an address that {reason}: {shown}")

    async def send(self, request: httpx2.Request, *, has_body: bool = True) -> httpx2.Response:
        """Send a request; return its response, with its body if `has_body`. No redirect is followed.

        Raises:
            RemoteProblem: there is no response, it is too large, or the address is not allowed.
        """
        self.check(request.url)
        request.headers["accept-encoding"] = "identity"
        client = self._client_for(request.url)
        # With an exchange, `silence_foreign_loggers` drops what libraries log: a query may be a secret.
        token = current_exchange.set(Exchange())
        try:
            with trio.fail_after(REQUEST_S):
                response = await client.send(request, stream=True, follow_redirects=False)
                try:
                    body = await _read(response) if has_body else b""
                finally:
                    await response.aclose()
        except trio.TooSlowError:
            raise RemoteProblem(Cause.TOO_SLOW, f"{origin_of(request.url)} did not answer in time") from None
        except httpx2.HTTPError as error:
            problem = describe_error(error, handed=True)
            raise RemoteProblem(problem.cause, f"{origin_of(request.url)}: {problem.detail}") from None
        finally:
            current_exchange.reset(token)
        complete = httpx2.Response(
            response.status_code, headers=response.headers, content=body, request=request
        )
        complete.next_request = response.next_request
        return complete

    async def request_json(
        self, url: str, form: Mapping[str, str] | None = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, Mapping[str, Any]]:
        """Post a form, or fetch a document without one; return the HTTP status and the JSON object.

        Raises:
            RemoteProblem: as `send`.
        """
        accepted = {"accept": "application/json", **(headers or {})}
        method = "GET" if form is None else "POST"
        response = await self.send(httpx2.Request(method, url, data=form, headers=accepted))
        try:
            return response.status_code, msgspec.json.decode(response.content, type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return response.status_code, {}

    async def close(self) -> None:
        """Close all connections."""
        for client in self._clients.values():
            await client.aclose()

    def _client_for(self, url: httpx2.URL) -> httpx2.AsyncClient:
        """Return the client for a host: the environment may name a proxy for some."""
        key = (url.scheme, url.host)
        if key not in self._clients:
            transport = httpx2.AsyncHTTPTransport(verify=self._trusted, proxy=find_proxy(str(url)))
            self._clients[key] = httpx2.AsyncClient(transport=transport, timeout=None, trust_env=False)
        return self._clients[key]


@asynccontextmanager
async def open_http(server_url: str) -> AsyncIterator[OAuthHttp]:
    """Open a client for the time of the context; reading the system's certificates stops no other task."""
    silence_foreign_loggers()
    http = OAuthHttp(server_url, await trio.to_thread.run_sync(httpx2.create_ssl_context))
    try:
        yield http
    finally:
        with trio.CancelScope(shield=True):
            await http.close()


async def refresh_token(login: RemoteLogin) -> tuple[int, Mapping[str, Any]]:
    """Request new tokens; return the HTTP status and the JSON object of the response.

    Raises:
        RemoteProblem: there is no response.
    """
    form = {"grant_type": "refresh_token", "refresh_token": login.refresh_token}
    if login.resource:
        form["resource"] = login.resource
    return await _post(login, login.token_endpoint, form)


async def revoke_token(login: RemoteLogin) -> int:
    """Revoke the refresh token, or the only token; return the HTTP status.

    Raises:
        RemoteProblem: there is no response.
    """
    kind = "refresh_token" if login.refresh_token else "access_token"
    form = {"token": login.refresh_token or login.access_token, "token_type_hint": kind}
    status, _ = await _post(login, login.revocation_endpoint, form)
    return status


async def _post(login: RemoteLogin, endpoint: str, form: dict[str, str]) -> tuple[int, Mapping[str, Any]]:
    headers: dict[str, str] = {}
    form["client_id"] = login.client_id
    if login.client_secret and login.auth_method == "client_secret_basic":
        pair = f"{quote(login.client_id, safe='')}:{quote(login.client_secret, safe='')}"
        headers["authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
    elif login.client_secret and login.auth_method == "client_secret_post":
        form["client_secret"] = login.client_secret
    async with open_http(login.url) as http:
        return await http.request_json(endpoint, form, headers)


def origin_of(url: str | httpx2.URL) -> str:
    """Return scheme, host and port of an address, for messages."""
    address = httpx2.URL(url)
    return f"{address.scheme}://{address.netloc.decode('ascii', 'replace')}"


async def _read(response: httpx2.Response) -> bytes:
    if response.headers.get("content-encoding", "identity").lower() != "identity":
        detail = f"{origin_of(response.url)} compressed its response without being asked"
        raise RemoteProblem(Cause.NOT_MCP, detail)
    body = bytearray()
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > MAX_BYTES:
            detail = f"{origin_of(response.url)} sent more than {MAX_BYTES // 1024} KiB"
            raise RemoteProblem(Cause.TOO_LARGE, detail)
    return bytes(body)


def _is_allowed(url: httpx2.URL, server: httpx2.URL) -> bool:
    if url.userinfo or not url.host:
        return False
    if (url.scheme, url.host) == (server.scheme, server.host):
        return True
    if url.scheme == "https":
        return not _is_local(url.host) or _is_local(server.host)
    return url.scheme == "http" and _is_loopback(url.host) and _is_loopback(server.host)


def _is_local(host: str) -> bool:
    """Return whether a host is an address that the internet does not route, or a name of this machine.

    A name that merely resolves to such an address is harmless: no server there has its certificate.
    """
    name = host.strip("[]").rstrip(".").lower()
    try:
        return not ipaddress.ip_address(name).is_global
    except ValueError:
        # Resolvers read names such as `127.1` and `0x7f000001` as addresses.
        last = name.rpartition(".")[2]
        return last == "localhost" or last.isdigit() or last.startswith("0x")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
