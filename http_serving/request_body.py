"""The body of a request, bounded in size and time before anything looks into it."""

from __future__ import annotations

from contextlib import aclosing
from http import HTTPStatus

import trio
from starlette.requests import ClientDisconnect, Request

from http_serving.error_responses import RequestRejected
from native_host.protocol import jsonrpc

MAX_BODY_BYTES = 8 * 1024 * 1024
MAX_BODY_S = 30.0
MAX_HANDSHAKE_BYTES = 256 * 1024
"""Of an `initialize`: it is kept for as long as its session, and there may be a thousand."""


async def read_json(request: Request, limit: int = MAX_BODY_BYTES) -> bytes:
    """The bytes of a body that says it is JSON (a form that a page sends never does).

    Raises:
        RequestRejected: it is not JSON (415), longer than `limit` (413), too slow (408) or incomplete (400).
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        text = f"the body is {kind or 'of no type'}: send Content-Type: application/json"
        raise RequestRejected(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, text)
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > limit:
        raise _too_large(limit)
    try:
        with trio.fail_after(MAX_BODY_S):
            return await _read(request, limit)
    except trio.TooSlowError:
        raise RequestRejected(
            HTTPStatus.REQUEST_TIMEOUT, f"the body took longer than {MAX_BODY_S:g} s"
        ) from None
    except ClientDisconnect:
        raise RequestRejected(HTTPStatus.BAD_REQUEST, "the connection ended before the body did") from None


def message_in(body: bytes) -> jsonrpc.Envelope:
    """The JSON-RPC message that a body is.

    Raises:
        RequestRejected: it is none (400), or a handshake longer than any client needs (413).
    """
    if body.lstrip()[:1] == b"[":
        text = "batches are not taken: send the messages one at a time"
        raise RequestRejected(HTTPStatus.BAD_REQUEST, text)
    try:
        found = jsonrpc.decode(body)
    except jsonrpc.UndecodableError as error:
        raise RequestRejected(HTTPStatus.BAD_REQUEST, str(error), code=error.code) from None
    if found.method == "initialize" and len(body) > MAX_HANDSHAKE_BYTES:
        raise _too_large(MAX_HANDSHAKE_BYTES)
    return found


async def _read(request: Request, limit: int) -> bytes:
    parts, size = [], 0
    async with aclosing(request.stream()) as coming:
        async for part in coming:
            size += len(part)
            if size > limit:
                raise _too_large(limit)
            parts.append(part)
    return b"".join(parts)


def _too_large(limit: int) -> RequestRejected:
    return RequestRejected(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body is too long: the limit is {limit} bytes"
    )
