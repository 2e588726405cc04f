"""An MCP server that needs a sign-in, and its authorization server, on loopback, in a thread.

Both are the mcp package's, on two ports: two origins. Everything that they receive is recorded, and any path
can be made to answer something else.
"""

from __future__ import annotations

import os
import secrets
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, cast
from urllib.parse import parse_qsl

import hypercorn.trio
import trio
from hypercorn.config import Config
from hypercorn.typing import ASGIFramework
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    OAuthAuthorizationServerProvider,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions, RevocationOptions
from mcp.server.mcpserver import Context, MCPServer
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from mcp.shared.exceptions import MCPError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

SOON_S = 60
CODE_S = 60
HANG: Response = Response(status_code=599)
"""Stands for no response at all."""
QUOTE: Response = Response(status_code=599)
"""Stands for an error that quotes the whole request."""


class Received(NamedTuple):
    """A request."""

    origin: str
    method: str
    path: str
    authorization: str
    query: Mapping[str, str]
    form: Mapping[str, str]
    """Fields of a form; empty for other bodies."""
    text: str
    """Target, headers and body, to search for secrets."""


class Provider(OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, AccessToken]):
    """Clients, codes and tokens in memory. It consents to everything, and uses each refresh token once."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget everything."""
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.access: dict[str, AccessToken] = {}
        self.refresh: dict[str, RefreshToken] = {}
        self.issued: dict[str, list[str]] = {"code": [], "access_token": [], "refresh_token": []}
        """All that it ever issued, by kind."""
        self.lifetime_s = 3600
        self.denies = False
        """Whether the user denies the next sign-in."""

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        address = str(params.redirect_uri)
        if self.denies:
            return construct_redirect_uri(address, error="access_denied", state=params.state)
        code = secrets.token_urlsafe(24)
        self.issued["code"].append(code)
        self.codes[code] = AuthorizationCode(
            code=code,
            scopes=params.scopes or [],
            expires_at=time.time() + CODE_S,
            client_id=client.client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        return construct_redirect_uri(address, code=code, state=params.state)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        code = self.codes.get(authorization_code)
        return code if code and code.client_id == client.client_id else None

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        del self.codes[authorization_code.code]
        return self._issue(client.client_id, authorization_code.scopes, authorization_code.resource)

    async def load_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: str
    ) -> RefreshToken | None:
        token = self.refresh.get(refresh_token)
        return token if token and token.client_id == client.client_id else None

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        del self.refresh[refresh_token.token]
        return self._issue(client.client_id, scopes, refresh_token.resource)

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self.access.get(token)

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        for tokens in (self.access, self.refresh):
            for each in [key for key, issued in tokens.items() if issued.client_id == token.client_id]:
                del tokens[each]

    def revoke_all(self) -> None:
        """Accept no token any more."""
        self.access.clear()
        self.refresh.clear()

    def _issue(self, client_id: str, scopes: list[str], resource: str | None) -> OAuthToken:
        access, refresh = (f"canary-{kind}-{secrets.token_urlsafe(24)}" for kind in ("access", "refresh"))
        self.issued["access_token"].append(access)
        self.issued["refresh_token"].append(refresh)
        expires_at = int(time.time()) + self.lifetime_s
        self.access[access] = AccessToken(
            token=access, client_id=client_id, scopes=scopes, expires_at=expires_at, resource=resource
        )
        self.refresh[refresh] = RefreshToken(
            token=refresh, client_id=client_id, scopes=scopes, resource=resource
        )
        return OAuthToken(
            access_token=access,
            refresh_token=refresh,
            expires_in=self.lifetime_s,
            scope=" ".join(scopes) or None,
        )


class SignInServers:
    """Both servers: what they have received, and what they answer."""

    def __init__(self, resource: str, issuer: str) -> None:
        self.resource = resource
        """Origin of the MCP server."""
        self.issuer = issuer
        """Origin of the authorization server."""
        self.provider = Provider()
        self.received: list[Received] = []
        self.answers: dict[str, Response] = {}
        """Responses by path, in place of the package's."""

    @property
    def url(self) -> str:
        """URL of the MCP server."""
        return f"{self.resource}/mcp"

    def reset(self) -> None:
        """Forget everything."""
        self.provider.reset()
        self.received.clear()
        self.answers.clear()

    def find(self, path: str, **form: str) -> list[Received]:
        """Return the requests of a path, with these fields."""
        return [each for each in self.received if each.path == path and form.items() <= each.form.items()]

    def sent_to(self, origin: str) -> str:
        """Return all that an origin has received, as one text."""
        return "\n".join(each.text for each in self.received if each.origin == origin)

    def secrets(self) -> dict[str, set[str]]:
        """Return the secrets of all sign-ins by kind, as they were issued or received."""
        found = {kind: set(values) for kind, values in self.provider.issued.items()}
        found["state"] = {each.query["state"] for each in self.find("/authorize")}
        for kind in ("code_verifier", "client_secret"):
            found[kind] = {each.form[kind] for each in self.received if kind in each.form}
        return found

    def answer(self, path: str, content: Any, status: int = 200) -> None:
        """Answer a path with JSON."""
        self.answers[path] = JSONResponse(content, status)

    def build_app(self) -> ASGIApp:
        """Return the application of both."""
        server = MCPServer(
            "orders",
            log_level="CRITICAL",
            auth_server_provider=self.provider,
            auth=AuthSettings.model_validate(
                {
                    "issuer_url": self.issuer,
                    "resource_server_url": self.url,
                    "validate_token_resource": True,
                    "client_registration_options": ClientRegistrationOptions(enabled=True),
                    "revocation_options": RevocationOptions(enabled=True),
                }
            ),
        )

        @server.tool()
        def find_order(number: int) -> str:
            """Finds an order."""
            return f"order {number}"

        @server.tool()
        def quote(context: Context) -> str:
            """Returns the header with the token."""
            return _authorization_of(context)

        @server.tool()
        def reject(context: Context) -> str:
            """Fails with an error that has the header with the token."""
            raise MCPError(code=-32603, message=f"Rejected {_authorization_of(context)}.")

        return _Recorder(server.streamable_http_app(), self)


def _authorization_of(context: Context) -> str:
    assert context.headers
    return context.headers["authorization"]


class _Recorder:
    def __init__(self, app: ASGIApp, servers: SignInServers) -> None:
        self._app = app
        self._servers = servers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        # The MCP server's own streams stay as they are.
        body = await request.body() if scope["method"] == "POST" else b""
        is_form = request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded")
        self._servers.received.append(
            Received(
                origin=f"http://{request.headers['host']}",
                method=scope["method"],
                path=scope["path"],
                authorization=request.headers.get("authorization", ""),
                query=request.query_params,
                form=dict(parse_qsl(body.decode(), keep_blank_values=True)) if is_form else {},
                text=f"{request.url} {dict(request.headers)} {body.decode(errors='replace')}",
            )
        )
        answer = self._servers.answers.get(scope["path"])
        if answer is HANG:
            await trio.sleep(SOON_S)
        if answer is QUOTE:
            answer = JSONResponse({"error": body.decode(), "error_description": body.decode()}, 400)
        if answer:
            await answer(scope, receive, send)
            return
        pending = [{"type": "http.request", "body": body, "more_body": False}] * (scope["method"] == "POST")

        async def receive_again() -> Any:
            return pending.pop() if pending else await receive()

        await self._app(scope, receive_again, send)


@contextmanager
def sign_in_servers() -> Iterator[SignInServers]:
    """Serve until the block ends."""
    with socket.create_server(("127.0.0.1", 0)) as first, socket.create_server(("127.0.0.1", 0)) as second:
        resource, issuer = (f"http://127.0.0.1:{each.getsockname()[1]}" for each in (first, second))
        servers = SignInServers(resource, issuer)
        config = Config()
        config.bind = [f"fd://{os.dup(each.fileno())}" for each in (first, second)]
        config.loglevel = "CRITICAL"
        app = cast("ASGIFramework", servers.build_app())
        stopping = threading.Event()

        async def serve() -> None:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(hypercorn.trio.serve, app, config)
                await trio.to_thread.run_sync(stopping.wait)
                nursery.cancel_scope.cancel()

        thread = threading.Thread(target=trio.run, args=(serve,), daemon=True)
        thread.start()
        try:
            yield servers
        finally:
            stopping.set()
            thread.join(SOON_S)
