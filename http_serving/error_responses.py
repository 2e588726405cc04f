"""RequestRejected: error response of a request, with status, reason and remedy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus

import msgspec
from starlette.responses import Response

from native_host.protocol.wire import Code

_CODES = {HTTPStatus.INTERNAL_SERVER_ERROR: Code.INTERNAL_ERROR}


class RequestRejected(Exception):  # noqa: N818  (a response, not a fault of the server)
    """The request ends with this response."""

    def __init__(
        self,
        status: HTTPStatus,
        message: str,
        *,
        code: int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = int(_CODES.get(status, Code.INVALID_REQUEST) if code is None else code)
        self.headers = headers


def method_not_allowed(method: str, path: str, allowed: Sequence[str]) -> RequestRejected:
    """Return the rejection of a method that a path does not support."""
    names = ", ".join(allowed)
    text = f"{path} does not support {method}: use {names}"
    return RequestRejected(HTTPStatus.METHOD_NOT_ALLOWED, text, headers={"Allow": names})


def error_response(rejection: RequestRejected) -> Response:
    """Return the response: `{"error": {"code": …, "message": …}}`, which is a JSON-RPC error as well."""
    error = {"code": rejection.code, "message": rejection.message}
    body = msgspec.json.encode({"jsonrpc": "2.0", "id": None, "error": error})
    return Response(body, rejection.status, rejection.headers, "application/json")
