"""Options of a session in the URL of a request: `structured`."""

from __future__ import annotations

from http import HTTPStatus

from starlette.requests import Request

from http_serving.error_responses import RequestRejected

_VALUES = {None: None, "1": True, "0": False}


def is_structured(request: Request) -> bool | None:
    """Return whether the client wants structured results; None: it does not say.

    Raises:
        RequestRejected: the value is neither 1 nor 0 (400).
    """
    given = request.query_params.get("structured")
    if given not in _VALUES:
        text = "structured in the URL must be 1 or 0, for instance /mcp?structured=1"
        raise RequestRejected(HTTPStatus.BAD_REQUEST, text)
    return _VALUES[given]
