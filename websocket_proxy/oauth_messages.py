"""Messages of OAuth: error codes and the response with tokens.

Rules: RFC 6749 (5.1, 5.2), RFC 8628 (3.5).
"""

from __future__ import annotations

from enum import StrEnum
from http import HTTPStatus

import msgspec


class OAuthCode(StrEnum):
    """Error codes of the two endpoints."""

    INVALID_REQUEST = "invalid_request"
    INVALID_CLIENT = "invalid_client"
    INVALID_GRANT = "invalid_grant"
    INVALID_SCOPE = "invalid_scope"
    UNSUPPORTED_GRANT_TYPE = "unsupported_grant_type"
    AUTHORIZATION_PENDING = "authorization_pending"
    SLOW_DOWN = "slow_down"
    ACCESS_DENIED = "access_denied"
    EXPIRED_TOKEN = "expired_token"  # noqa: S105  (a code of RFC 8628)
    SERVER_ERROR = "server_error"
    TEMPORARILY_UNAVAILABLE = "temporarily_unavailable"


class OAuthError(Exception):
    """A request to the authorization server fails with this code. The text never quotes the request."""

    def __init__(
        self,
        code: OAuthCode,
        description: str,
        *,
        status: HTTPStatus = HTTPStatus.BAD_REQUEST,
        retry_after_s: int = 0,
    ) -> None:
        super().__init__(f"{code}: {description}")
        self.code = code
        self.description = description
        self.status = status
        self.retry_after_s = retry_after_s
        """Seconds after which the request may succeed; 0: not known."""


class TokenResponse(msgspec.Struct, frozen=True, kw_only=True):
    """Successful response of the token endpoint."""

    access_token: str
    expires_in: int
    """Seconds."""
    refresh_token: str
    scope: str
    token_type: str = "Bearer"  # noqa: S105  (the type)

    def __repr__(self) -> str:
        """Return a text without the tokens."""
        return f"TokenResponse({self.scope})"
