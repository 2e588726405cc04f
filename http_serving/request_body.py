"""Body of a request, JSON or a form, read within limits of size and time.

It does not decode the body.
"""

from __future__ import annotations

from contextlib import aclosing
from http import HTTPStatus

import trio
from starlette.requests import ClientDisconnect, Request

from http_serving.error_responses import RequestRejected

MAX_BODY_BYTES = 8 * 1024 * 1024
MAX_BODY_S = 30.0
"""Seconds in which the whole body must arrive."""


async def read_json_body(request: Request, limit: int = MAX_BODY_BYTES) -> bytes:
    """Read a body of type application/json. No HTML form can send this type.

    Raises:
        RequestRejected: it is not JSON (415), longer than `limit` (413), too slow (408) or incomplete (400).
    """
    return await _read_typed_body(request, "application/json", limit)


async def read_form_body(request: Request, limit: int) -> bytes:
    """Read a body of type application/x-www-form-urlencoded. Any web page can send this type.

    Raises:
        RequestRejected: as `read_json_body`.
    """
    return await _read_typed_body(request, "application/x-www-form-urlencoded", limit)


async def _read_typed_body(request: Request, wanted: str, limit: int) -> bytes:
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != wanted:
        text = f"the type of the body is {media_type or 'missing'}: send Content-Type: {wanted}"
        raise RequestRejected(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, text)
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > limit:
        raise body_too_large(limit)
    try:
        with trio.fail_after(MAX_BODY_S):
            return await _read_body(request, limit)
    except trio.TooSlowError:
        text = f"the body took longer than {MAX_BODY_S:g} s"
        raise RequestRejected(HTTPStatus.REQUEST_TIMEOUT, text) from None
    except ClientDisconnect:
        text = "the connection ended before the end of the body"
        raise RequestRejected(HTTPStatus.BAD_REQUEST, text) from None


def body_too_large(limit: int) -> RequestRejected:
    """Return the rejection of a body of more than `limit` bytes."""
    text = f"the body is too long: the limit is {limit} bytes"
    return RequestRejected(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, text)


async def _read_body(request: Request, limit: int) -> bytes:
    parts, size = [], 0
    async with aclosing(request.stream()) as stream:
        async for part in stream:
            size += len(part)
            if size > limit:
                raise body_too_large(limit)
            parts.append(part)
    return b"".join(parts)
