"""Sign-in to a remote server with the mcp package's OAuth client: discovery, registration, PKCE, tokens.

The package makes the requests, and this module sends them. It stops where the package would send the token to
the server. Only `mcpb remote login` imports it, because the package takes half a second.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path

import httpx2
import trio
from mcp.client.auth import OAuthClientProvider, OAuthFlowError, OAuthRegistrationError, OAuthTokenError
from mcp.shared._httpx_utils import next_request_within_origin
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthToken,
)
from mcp_types.version import LATEST_HANDSHAKE_VERSION
from pydantic import AnyUrl

from bridge import __version__
from bridge.config.remote_settings import RemoteSettings, is_bearer_token
from bridge.links.oauth.login_file import LoginFile, RemoteLogin
from bridge.links.oauth.login_redirect import RedirectServer, open_redirect_server
from bridge.links.oauth.login_tokens import find_expiry, store_login
from bridge.links.oauth.oauth_http import OAuthHttp, open_http, origin_of
from bridge.links.remote_problem import Cause, RemoteProblem

BROWSER_S = 300.0
"""Seconds that the user has to sign in."""
_MAX_REDIRECTS = 5
_MAX_REQUESTS = 30
"""Of one sign-in: more than discovery has addresses to try."""
_INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": LATEST_HANDSHAKE_VERSION,
        "capabilities": {},
        "clientInfo": {"name": "mcpb", "version": __version__},
    },
}


async def sign_in(settings: RemoteSettings, home: Path, on_address: Callable[[str, str], None]) -> str:
    """Let the user sign in, and store the tokens.

    Args:
        settings: of the server.
        home: mcpb's home directory.
        on_address: is called with the address to open in a browser, and the origin of the server that the
            user signs in at.

    Returns:
        Why the tokens of an earlier sign-in were not revoked; empty as for `store_login`.

    Raises:
        RemoteProblem: there is no sign-in; the detail says why.
        PrivateFileError: the tokens cannot be stored.
        TimeoutError: another process holds their file.
    """
    # Before the user signs in: a problem with the directory would be found too late.
    file = LoginFile(home, settings.name)
    file.prepare()
    # Its loggers write responses and tracebacks to stderr.
    logging.getLogger("mcp.client.auth").setLevel(logging.CRITICAL + 1)
    outcome: RemoteLogin | RemoteProblem
    async with open_redirect_server() as redirect, open_http(settings.url) as http:
        # Raised below: the nursery of the redirect server would put it into a group.
        try:
            outcome = await _Flow(settings, http, redirect, on_address).run()
        except RemoteProblem as problem:
            outcome = problem
    if isinstance(outcome, RemoteProblem):
        raise outcome
    return await store_login(file, outcome)


class _Storage:
    """What one flow of the package has obtained; a `TokenStorage` that begins empty.

    Each sign-in registers a client: servers compare redirect addresses with their port.
    """

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


class _Flow:
    """One sign-in."""

    def __init__(
        self,
        settings: RemoteSettings,
        http: OAuthHttp,
        redirect: RedirectServer,
        on_address: Callable[[str, str], None],
    ) -> None:
        self._settings = settings
        self._http = http
        self._redirect = redirect
        self._on_address = on_address
        self._state = ""
        self._storage = _Storage()
        self._last: httpx2.Response | None = None
        self._provider = OAuthClientProvider(
            # A query may be a secret, and this goes to the authorization server and into the browser.
            settings.address,
            OAuthClientMetadata(redirect_uris=[AnyUrl(redirect.url)], client_name="mcpb"),
            self._storage,
            self._open_address,
            self._wait_code,
        )

    async def run(self) -> RemoteLogin:
        """Run the flow until there are tokens. Raises RemoteProblem."""
        try:
            await self._drive()
        except RemoteProblem:
            raise
        except OAuthRegistrationError:
            detail = (
                f"{self._describe_last()} to the registration of mcpb. "
                "Set header_command or bearer_file of this server instead"
            )
            raise RemoteProblem(Cause.UNAUTHORIZED, detail) from None
        except OAuthTokenError:
            raise RemoteProblem(Cause.UNAUTHORIZED, f"{self._describe_last()} and no token") from None
        except OAuthFlowError as error:
            raise RemoteProblem(Cause.NOT_MCP, str(error)) from None
        except (LookupError, ValueError, OverflowError, TypeError, httpx2.InvalidURL) as error:
            detail = f"{self._describe_last()}, in a form that mcpb cannot read ({type(error).__name__})"
            raise RemoteProblem(Cause.NOT_MCP, detail) from None
        return self._make_login()

    async def _drive(self) -> None:
        headers = httpx2.Headers(self._settings.headers)
        headers["accept"] = "application/json, text/event-stream"
        headers["mcp-protocol-version"] = LATEST_HANDSHAKE_VERSION
        request = httpx2.Request("POST", self._settings.url, json=_INITIALIZE, headers=headers)
        async with aclosing(self._provider.async_auth_flow(request)) as flow:
            outgoing = await anext(flow)
            self._last = response = await self._send_first(outgoing)
            for _ in range(_MAX_REQUESTS):
                try:
                    outgoing = await flow.asend(response)
                except StopAsyncIteration:
                    status = self._last.status_code
                    detail = f"it does not ask for a sign-in: it answered with HTTP status {status}"
                    raise RemoteProblem(Cause.NOT_MCP, detail) from None
                if self._storage.tokens is not None:
                    return
                self._last = response = await self._http.send(outgoing)
        raise RemoteProblem(Cause.NOT_MCP, "its sign-in takes too many requests")

    async def _send_first(self, request: httpx2.Request) -> httpx2.Response:
        """Send the request that needs a token, without one."""
        for _ in range(_MAX_REDIRECTS):
            response = await self._http.send(request, has_body=False)
            following = next_request_within_origin(response)
            if following is None:
                break
            request = following
        return response

    async def _open_address(self, address: str) -> None:
        self._http.check(address)
        self._state = httpx2.URL(address).params.get_list("state")[-1]
        self._on_address(address, origin_of(address))

    async def _wait_code(self) -> AuthorizationCodeResult:
        with trio.move_on_after(BROWSER_S):
            found = await self._redirect.wait_parameters(self._state)
            if error := found.get("error"):
                raise RemoteProblem(Cause.FORBIDDEN, f"the sign-in was not completed: {error}")
            return AuthorizationCodeResult(
                code=found.get("code", ""), state=found["state"], iss=found.get("iss")
            )
        detail = f"no sign-in within {BROWSER_S / 60:g} minutes"
        raise RemoteProblem(Cause.TOO_SLOW, detail)

    def _make_login(self) -> RemoteLogin:
        tokens, client, last = self._storage.tokens, self._storage.client, self._last
        assert tokens
        assert client
        assert last
        if not is_bearer_token(tokens.access_token):
            raise RemoteProblem(Cause.NOT_MCP, "its token cannot be sent in a header")
        context, now = self._provider.context, time.time()
        metadata = context.oauth_metadata
        revocation = str(metadata.revocation_endpoint or "") if metadata else ""
        if revocation:
            self._http.check(revocation)
        has_resource = context.should_include_resource_param(context.protocol_version)
        return RemoteLogin(
            url=self._settings.url,
            issuer=str(metadata.issuer) if metadata else origin_of(self._settings.url),
            token_endpoint=str(last.request.url),
            revocation_endpoint=revocation,
            client_id=client.client_id,
            client_secret=client.client_secret or "",
            auth_method=client.token_endpoint_auth_method or "",
            resource=context.get_resource_url() if has_resource else "",
            access_token=tokens.access_token,
            refresh_token=tokens.refresh_token or "",
            issued_at=now,
            expires_at=find_expiry(tokens.expires_in, now),
        )

    def _describe_last(self) -> str:
        if self._last is None:
            return "it has not answered"
        return f"{origin_of(self._last.request.url)} answered with HTTP status {self._last.status_code}"
