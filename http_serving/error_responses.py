"""Why a request is not served: a status, and a body that says whose fault it is and what to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus

import msgspec
from starlette.responses import Response

from native_host.protocol.wire import Code

_CODES = {HTTPStatus.INTERNAL_SERVER_ERROR: Code.INTERNAL_ERROR}


class Refused(Exception):  # noqa: N818  (it is the answer, not a fault of ours)
    """The request ends here, with this answer."""

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


def not_allowed(method: str, path: str, allowed: Sequence[str]) -> Refused:
    """A method that a path does not have."""
    names = ", ".join(allowed)
    text = f"{method} is nothing that {path} does: {names}"
    return Refused(HTTPStatus.METHOD_NOT_ALLOWED, text, headers={"Allow": names})


def response(refused: Refused) -> Response:
    """As the specification has it, `{"error": {"code": …, "message": …}}`, and as a JSON-RPC error."""
    error = {"code": refused.code, "message": refused.message}
    body = msgspec.json.encode({"jsonrpc": "2.0", "id": None, "error": error})
    return Response(body, refused.status, refused.headers, "application/json")
