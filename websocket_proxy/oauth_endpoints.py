"""HTTP endpoints of OAuth: device authorization, tokens, metadata and keys.

Rules: RFC 6749, RFC 8628; RFC 8414 and RFC 9728 (metadata). Clients are public: they have no secret.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from http import HTTPStatus
from typing import Any

import msgspec

from http_serving.error_responses import RequestRejected
from http_serving.plain_routes import PlainRequest, PlainResponse, PlainRoute
from native_host.protocol.untrusted_text import is_single_line, single_line
from native_host.system.program_name import NAMES
from websocket_proxy.device_grant import CODE_S
from websocket_proxy.issuer_service import IssuerService
from websocket_proxy.oauth_messages import OAuthCode, OAuthError, TokenResponse
from websocket_proxy.protocol import Role

DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
REFRESH_GRANT = "refresh_token"
_APPROVE_COMMAND = f"{NAMES[0]} proxy approve"
_MAX_NAME_CHARS = 100
_MAX_VALUE_CHARS = 8 * 1024

_Fields = Mapping[str, str]


def oauth_error_body(rejection: RequestRejected) -> dict[str, Any]:
    """Return the body of a request that is rejected before its handler runs."""
    is_fault = rejection.status >= HTTPStatus.INTERNAL_SERVER_ERROR
    code = OAuthCode.SERVER_ERROR if is_fault else OAuthCode.INVALID_REQUEST
    return {"error": str(code), "error_description": _describe(rejection.message)}


def oauth_routes(
    authorization_servers: Iterable[str] = (), home: IssuerService | None = None, client_id: str = ""
) -> dict[str, PlainRoute]:
    """Return the routes of a proxy.

    Args:
        authorization_servers: URLs of further issuers at which users of this proxy sign in.
        home: the home issuer; None: the proxy issues no tokens.
        client_id: by which those issuers know our extension and our bridge; empty: any is accepted.
    """
    servers = list(authorization_servers)

    async def describe_resource(request: PlainRequest) -> PlainResponse:
        own = [request.base_url] if home else []
        document = {
            "resource": request.base_url,
            "authorization_servers": [*own, *servers],
            "scopes_supported": [str(role) for role in Role],
            "bearer_methods_supported": [],
            "resource_name": "mcpb WebSocket proxy",
        }
        return PlainResponse(document | ({"mcpb_client_id": client_id} if client_id else {}))

    routes = {"/.well-known/oauth-protected-resource": PlainRoute("GET", describe_resource)}
    return routes | (_issuer_routes(home) if home else {})


def _issuer_routes(home: IssuerService) -> dict[str, PlainRoute]:
    endpoints = _Endpoints(home)
    return {
        "/.well-known/oauth-authorization-server": PlainRoute("GET", endpoints.describe_server),
        "/.well-known/jwks.json": PlainRoute("GET", endpoints.show_keys),
        "/device": PlainRoute("GET", endpoints.explain_approval),
        "/device_authorization": PlainRoute("POST", _catch_errors(endpoints.begin_sign_in)),
        "/token": PlainRoute("POST", _catch_errors(endpoints.send_tokens)),
    }


def _catch_errors(
    handle: Callable[[PlainRequest], Awaitable[PlainResponse]],
) -> Callable[[PlainRequest], Awaitable[PlainResponse]]:
    """Return a handler that responds to an OAuthError with its code."""

    async def handle_and_catch(request: PlainRequest) -> PlainResponse:
        try:
            return await handle(request)
        except OAuthError as error:
            body = {"error": str(error.code), "error_description": _describe(error.description)}
            headers = {"Retry-After": str(error.retry_after_s)} if error.retry_after_s else {}
            return PlainResponse(body, error.status, headers)

    return handle_and_catch


class _Endpoints:
    def __init__(self, home: IssuerService) -> None:
        self._home = home

    async def describe_server(self, request: PlainRequest) -> PlainResponse:
        """Return the metadata of the authorization server (RFC 8414)."""
        base = request.base_url
        document = {
            "issuer": base,
            "device_authorization_endpoint": f"{base}/device_authorization",
            "token_endpoint": f"{base}/token",
            "jwks_uri": f"{base}/.well-known/jwks.json",
            "scopes_supported": [str(role) for role in Role],
            "response_types_supported": [],
            "grant_types_supported": [DEVICE_GRANT, REFRESH_GRANT],
            "token_endpoint_auth_methods_supported": ["none"],
        }
        return PlainResponse(document)

    async def show_keys(self, _: PlainRequest) -> PlainResponse:
        """Return the JWK set."""
        return PlainResponse(self._home.jwks())

    async def explain_approval(self, _: PlainRequest) -> PlainResponse:
        """Return the text for users who open the verification address."""
        return PlainResponse(f"Approve the code on the machine of the proxy: {_APPROVE_COMMAND} CODE\n")

    async def begin_sign_in(self, request: PlainRequest) -> PlainResponse:
        """Start a device authorization (RFC 8628, 3.1 and 3.2)."""
        fields = _read_fields(request)
        client_id, role = _client_id(fields), _role(fields.get("scope", ""))
        client_name = single_line(fields.get("client_name", ""), _MAX_NAME_CHARS)
        device_code, sign_in = self._home.begin_sign_in(client_id, client_name, role, request.address)
        body = {
            "device_code": device_code,
            "user_code": sign_in.user_code,
            "verification_uri": f"{request.base_url}/device",
            "expires_in": CODE_S,
            "interval": sign_in.interval_s,
            # The user approves in a terminal: the client shows this command in place of the address.
            "approve_command": f"{_APPROVE_COMMAND} {sign_in.user_code}",
        }
        return PlainResponse(body)

    async def send_tokens(self, request: PlainRequest) -> PlainResponse:
        """Exchange a device code or a refresh token for tokens."""
        fields = _read_fields(request)
        grant = _require(fields, "grant_type")
        if grant == DEVICE_GRANT:
            code, client_id = _require(fields, "device_code"), _client_id(fields)
            return _encode(await self._home.exchange_device_code(code, client_id))
        if grant == REFRESH_GRANT:
            token, client_id = _require(fields, "refresh_token"), fields.get("client_id", "")
            return _encode(await self._home.refresh(token, client_id))
        text = f"The grant type is not supported: use {REFRESH_GRANT} or {DEVICE_GRANT}."
        raise OAuthError(OAuthCode.UNSUPPORTED_GRANT_TYPE, text)


def _encode(response: TokenResponse) -> PlainResponse:
    return PlainResponse(msgspec.to_builtins(response))


def _read_fields(request: PlainRequest) -> _Fields:
    if request.has_query:
        raise OAuthError(OAuthCode.INVALID_REQUEST, "Send all fields in the body, none in the address.")
    fields = dict(request.form)
    if len(fields) < len(request.form):
        raise OAuthError(OAuthCode.INVALID_REQUEST, "A field is sent more than once: send each once.")
    if any(len(value) > _MAX_VALUE_CHARS for value in fields.values()):
        text = f"A field is too long: the limit is {_MAX_VALUE_CHARS} characters."
        raise OAuthError(OAuthCode.INVALID_REQUEST, text)
    return fields


def _require(fields: _Fields, name: str) -> str:
    if value := fields.get(name):
        return value
    raise OAuthError(OAuthCode.INVALID_REQUEST, f"The field {name} is missing.")


def _client_id(fields: _Fields) -> str:
    client_id = _require(fields, "client_id")
    if len(client_id) > _MAX_NAME_CHARS or not client_id.isascii() or not is_single_line(client_id):
        text = f"The field client_id has to be printable ASCII of at most {_MAX_NAME_CHARS} characters."
        raise OAuthError(OAuthCode.INVALID_CLIENT, text)
    return client_id


def _role(scope: str) -> Role:
    """Return the role of a scope. Other scopes beside it are ignored (RFC 6749, 3.3)."""
    roles = [role for role in Role if role in scope.split(" ")]
    if len(roles) == 1:
        return roles[0]
    raise OAuthError(OAuthCode.INVALID_SCOPE, f"The scope has to be {' or '.join(Role)}.")


def _describe(text: str) -> str:
    """Return a text with the characters that RFC 6749 (5.2) allows."""
    return "".join(char if " " <= char <= "~" and char not in '"\\' else "?" for char in text)
